//! The command lines of the tools.

use std::ffi::OsString;
use std::num::NonZeroU64;

use clap::{ArgAction, Args, Parser};
use perf_core::cli::{
    CpuArgs, DistributionArgs, PatienceArgs, RateArgs, ReportArgs, RunArgs, number_up_to,
    positive_count,
};
use perf_core::exit::Failure;

use crate::endpoint::{Endpoint, ParseError};
use crate::loopback;
use crate::stack::{MESSAGE_SIZE_MAX, StackName};
use crate::stamp::STAMP_BYTES;

/// The flag that stands where the endpoint would stand.
const LOOPBACK: &str = "--loopback";

/// Where the other end is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// Somewhere else.
    Endpoint(Endpoint),
    /// On a thread of this process.
    Loopback,
}

impl Target {
    /// Where the measuring end binds or connects to; a loopback's other end
    /// is bound to a free port, which replaces this one.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, Failure> {
        match self {
            Self::Endpoint(endpoint) => Ok(endpoint.clone()),
            Self::Loopback => loopback::ENDPOINT
                .parse()
                .map_err(|error: ParseError| Failure::usage(error)),
        }
    }
}

fn target(text: &str) -> Result<Target, ParseError> {
    if text == LOOPBACK {
        Ok(Target::Loopback)
    } else {
        text.parse().map(Target::Endpoint)
    }
}

fn message_size(text: &str) -> Result<usize, String> {
    let size = number_up_to(text, MESSAGE_SIZE_MAX, " bytes")?;
    usize::try_from(size).map_err(|_| "larger than this machine's memory".to_owned())
}

fn enable_curve(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("expected 0 or 1".to_owned()),
    }
}

/// The arguments of the process, with [`LOOPBACK`] moved to where the endpoint
/// stands.
pub(crate) fn loopback_first() -> Vec<OsString> {
    let mut arguments = std::env::args_os();
    let tool = arguments.next();
    let (moved, rest): (Vec<_>, Vec<_>) = arguments.partition(|argument| argument == LOOPBACK);
    tool.into_iter().chain(moved).chain(rest).collect()
}

/// What carries the messages.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct StackArgs {
    /// The software under test
    #[arg(long, value_enum)]
    stack: Option<StackName>,
}

impl StackArgs {
    /// The stack that was chosen, or the default of the transport.
    pub(crate) fn choose(self) -> StackName {
        self.stack.unwrap_or(StackName::Zeromq)
    }
}

/// Sends messages back: one end of a latency measurement
///
/// Serves a number of round trips; without one it serves until its last peer
/// has closed its connection.
#[derive(Debug, Parser)]
#[command(name = "local_lat", version)]
pub(crate) struct LocalLat {
    /// Where to bind, for example `tcp://*:5555`, `tcp://eth0:5555` or `ipc:///tmp/lat`
    #[arg(value_name = "bind-to")]
    pub(crate) endpoint: Endpoint,
    /// Bytes of payload in each message
    #[arg(value_name = "message-size", value_parser = message_size)]
    pub(crate) size: usize,
    /// How often a message goes there and back; what the other end does as
    /// its warm-up counts here
    #[arg(value_name = "roundtrip-count", value_parser = positive_count)]
    pub(crate) count: Option<NonZeroU64>,
    #[command(flatten)]
    pub(crate) stack: StackArgs,
    #[command(flatten)]
    pub(crate) cpu: CpuArgs,
    #[command(flatten)]
    pub(crate) patience: PatienceArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Measures latency: half the time that a message takes there and back
#[derive(Debug, Parser)]
#[command(name = "remote_lat", version)]
pub(crate) struct RemoteLat {
    /// Where the other end is bound, or --loopback: start it in this process
    #[arg(value_name = "connect-to", value_parser = target, allow_hyphen_values = true)]
    pub(crate) target: Target,
    /// Bytes of payload in each message
    #[arg(value_name = "message-size", value_parser = message_size)]
    pub(crate) size: usize,
    /// How often a message goes there and back
    #[arg(value_name = "roundtrip-count", value_parser = positive_count, required_unless_present = "duration")]
    pub(crate) count: Option<NonZeroU64>,
    #[command(flatten)]
    pub(crate) stack: StackArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) rate: RateArgs,
    #[command(flatten)]
    pub(crate) cpu: CpuArgs,
    #[command(flatten)]
    pub(crate) patience: PatienceArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) distribution: DistributionArgs,
}

/// Receives a flood of messages and measures its throughput
///
/// The clock starts when the first message has arrived.
#[derive(Debug, Parser)]
#[command(name = "local_thr", version)]
pub(crate) struct LocalThr {
    /// Where to bind, or --loopback: start the other end in this process
    #[arg(value_name = "bind-to", value_parser = target, allow_hyphen_values = true)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) load: ThroughputLoad,
    /// Report the delay of each message, from the send time that the other
    /// end's --stamp wrote into it
    ///
    /// Exact where both ends run on one host; between two it also holds what
    /// their clocks differ by.
    #[arg(long)]
    pub(crate) stamp: bool,
    #[command(flatten)]
    pub(crate) stack: StackArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) cpu: CpuArgs,
    #[command(flatten)]
    pub(crate) patience: PatienceArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) distribution: DistributionArgs,
}

/// Sends a flood of messages: one end of a throughput measurement
#[derive(Debug, Parser)]
#[command(name = "remote_thr", version)]
pub(crate) struct RemoteThr {
    /// Where the other end is bound
    #[arg(value_name = "connect-to")]
    pub(crate) endpoint: Endpoint,
    #[command(flatten)]
    pub(crate) load: ThroughputLoad,
    /// Write the send time into each message, for the other end's --stamp
    #[arg(long)]
    pub(crate) stamp: bool,
    #[command(flatten)]
    pub(crate) stack: StackArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) rate: RateArgs,
    #[command(flatten)]
    pub(crate) cpu: CpuArgs,
    #[command(flatten)]
    pub(crate) patience: PatienceArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// What the two ends of a throughput measurement must agree on.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ThroughputLoad {
    /// Bytes of payload in each message
    #[arg(value_name = "message-size", value_parser = message_size)]
    pub(crate) size: usize,
    /// How many messages
    #[arg(value_name = "message-count", value_parser = positive_count, required_unless_present = "duration")]
    pub(crate) count: Option<NonZeroU64>,
    /// 1: encrypt with CURVE
    #[arg(value_name = "enable_curve", action = ArgAction::Set, value_parser = enable_curve, default_value = "0", hide_default_value = true)]
    pub(crate) curve: bool,
}

impl ThroughputLoad {
    /// Refuses what no stack carries.
    pub(crate) fn check(&self, stamp: bool) -> Result<(), Failure> {
        if self.curve {
            return Err(Failure::usage("the zeromq crate has no CURVE"));
        }
        if stamp && self.size < STAMP_BYTES {
            return Err(Failure::usage(format!(
                "--stamp needs messages of at least {STAMP_BYTES} bytes, and these have {}",
                self.size
            )));
        }
        Ok(())
    }
}
