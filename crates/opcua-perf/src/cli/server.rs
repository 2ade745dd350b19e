//! `opcua-perf-server`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use opcua::crypto::SecurityPolicy;
use perf_core::cli::{CpuArgs, after_help, note, run_main};
use perf_core::exit::{Exit, Failure};
use perf_core::runtime::{Interrupt, Wait, current_thread, on_own_thread, run_to_end};

use super::{identity, no_runtime, version_with};
use crate::endpoint::EndpointUrl;
use crate::policy::Policy;
use crate::server::{Server, ServerConfig, Users};
use crate::stack::StackKind;

const TOOL: &str = "opcua-perf-server";

/// An OPC UA server with one variable, ns=1;i=42: the nanoseconds of the day.
///
/// Serves any OPC UA client until Ctrl-C. Events are written to stderr.
#[derive(Debug, Parser)]
#[command(
    name = TOOL,
    version,
    long_version = version_with(&[StackKind::Raw]),
    after_long_help = after_help(&[
        (
            "For any client that can reach this box",
            "opcua-perf-server",
        ),
        (
            "For this box alone, on a free port that is told on stderr",
            "opcua-perf-server --listen opc.tcp://127.0.0.1:0",
        ),
        (
            "With encryption, for clients that log in",
            "opcua-perf-server --security-policy None,Basic256Sha256 --user-file users.txt",
        ),
        (
            "Beside other work: without spinning",
            "opcua-perf-server --no-spin --max-sessions 10",
        ),
    ])
)]
pub(super) struct Args {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "URL", default_value = "opc.tcp://0.0.0.0:4840")]
    listen: EndpointUrl,

    /// The security policies that are offered, with commas between them; each
    /// but None in the modes Sign and `SignAndEncrypt`
    #[arg(
        long,
        value_name = "LIST",
        value_enum,
        ignore_case = true,
        value_delimiter = ',',
        default_value = "None"
    )]
    security_policy: Vec<Policy>,

    /// The server's certificate, in DER or PEM; without it a self-signed one
    /// is made when a policy needs it
    #[arg(long, value_name = "FILE", requires = "private_key")]
    certificate: Option<PathBuf>,

    /// The private key of --certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    private_key: Option<PathBuf>,

    /// Lets the users of FILE log in beside anonymous ones: a line
    /// name:password each
    #[arg(long, value_name = "FILE")]
    user_file: Option<PathBuf>,

    /// Sessions at once
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    max_sessions: u16,

    /// Sleep between two requests instead of spinning for up to 1 ms
    #[arg(long, conflicts_with = "busy_poll")]
    no_spin: bool,

    #[command(flatten)]
    cpu: CpuArgs,
}

impl Args {
    fn config(self) -> Result<ServerConfig, Failure> {
        let identity = identity(self.certificate.as_deref(), self.private_key.as_deref())?;
        let users = self
            .user_file
            .map(|path| Users::load(&path))
            .transpose()
            .map_err(|error| Failure::run(&error))?;
        let mut policies: Vec<SecurityPolicy> = Vec::new();
        for Policy(policy) in self.security_policy {
            if !policies.contains(&policy) {
                policies.push(policy);
            }
        }
        Ok(ServerConfig {
            listen: self.listen,
            policies,
            identity,
            users,
            max_sessions: usize::from(self.max_sessions),
            // Who always spins has no need to be told when.
            spin: !self.no_spin && !self.cpu.busy_poll,
            log: Arc::new(|line| note(TOOL, &line)),
        })
    }
}

/// The program `opcua-perf-server`.
#[must_use]
pub fn server() -> ExitCode {
    run_main(std::env::args_os(), |args: Args| {
        args.cpu.check()?;
        let cpu = args.cpu.clone();
        let spins = cpu.wait();
        let config = args.config()?;
        let wait = if config.spin && spins == Wait::Sleep {
            Wait::SpinOnDemand
        } else {
            spins
        };
        let served = on_own_thread(|| {
            cpu.pin(0)?;
            let runtime = current_thread(wait).map_err(no_runtime)?;
            run_to_end(runtime, async {
                let mut interrupt = Interrupt::install().map_err(no_runtime)?;
                let server = Server::bind(config)
                    .await
                    .map_err(|error| Failure::run(&error))?;
                server.run(async { interrupt.wait().await }).await;
                Ok(Exit::Success)
            })
        });
        served.map_err(no_runtime)?
    })
}
