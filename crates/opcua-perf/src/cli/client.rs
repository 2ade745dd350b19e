//! `opcua-perf-client`.

use std::fmt;
use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Parser};
use opcua::crypto::SecurityPolicy;
use opcua::types::{AttributeId, DataValue, MessageSecurityMode, NodeId, ReadValueId, Variant};
use perf_core::cli::{duration, note, positive_count, run_main};
use perf_core::exit::{Exit, Failure};
use perf_core::limit::RunLimit;
use perf_core::load::Operation;
use perf_core::runtime::{
    Finished, Halt, Interrupt, Stop, Wait, Watch, current_thread, measure, run_to_end,
};
use perf_core::summary::LatencySummary;
use perf_core::units::{count, float};
use tokio::sync::watch;

use super::rows::Rows;
use super::{identity, no_runtime};
use crate::certificate::{Identity, uri_of_this_host};
use crate::endpoint::EndpointUrl;
use crate::loopback::OwnServer;
use crate::policy::{Policy, parse_mode};
use crate::read_loop::{
    LoopError, ReadLoop, ReadRecorder, Row, TimeSource, default_node, type_name,
};
use crate::stack::raw::RawSession;
use crate::stack::session::CrateSession;
use crate::stack::{
    CallError, Login, Password, ReadPlan, ReadSession, StackError, StackKind, Target, discover,
};

const TOOL: &str = "opcua-perf-client";

/// The environment variable that may hold the password of --user.
const PASSWORD: &str = "OPCUA_PERF_PASSWORD";

/// How long a server may be silent, unless --timeout says otherwise.
const SILENCE: &str = "10s";

/// How long closing the session may take.
const TIME_TO_CLOSE: Duration = Duration::from_secs(1);

/// How long a security token is to live, in milliseconds; renewed before.
const TOKEN_LIFETIME: u32 = 3_600_000;

/// The most nodes that one read may name.
const MAX_NODES: u64 = 100_000;

/// Reads an OPC UA value as often as possible, and tells how often that is.
///
/// Prints what open62541's read performance test prints: a header, and a row
/// every 100,000 reads, until Ctrl-C. Everything else goes to stderr.
#[derive(Debug, Parser)]
#[command(name = TOOL, version)]
#[command(group(ArgGroup::new("server").required(true).args(["url", "loopback"])))]
struct Args {
    /// The server, for example `opc.tcp://localhost:4840`
    #[arg(value_name = "endpoint-url")]
    url: Option<EndpointUrl>,

    /// Start opcua-perf-server in this process, and measure that
    #[arg(long)]
    loopback: bool,

    /// What carries the reads
    #[arg(long, value_enum, value_name = "STACK", default_value = "raw")]
    stack: StackKind,

    /// What to read [default: ns=1;i=42]; more than one, and they are read
    /// together
    ///
    /// On ns=1;i=42 with a UInt64 value the times are differences of the
    /// server's values, on any other node differences of the client's clock.
    #[arg(long = "node", value_name = "NODE-ID", value_parser = node_id)]
    nodes: Vec<NodeId>,

    /// How many nodes a read names; the list of --node is used again and again
    /// until there are so many [default: each --node once]
    #[arg(long, value_name = "N", value_parser = nodes_per_read)]
    nodes_per_read: Option<usize>,

    /// How old a value may be, in milliseconds; 0 asks for one taken now
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = max_age)]
    max_age: f64,

    /// The security policy: None, Basic256Sha256, Aes128_Sha256_RsaOaep,
    /// Aes256_Sha256_RsaPss, or the old Basic128Rsa15 and Basic256
    #[arg(long, value_name = "POLICY", default_value = "None")]
    security_policy: Policy,

    /// The security mode: Sign or SignAndEncrypt; None with the policy None
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    security_mode: Option<MessageSecurityMode>,

    /// The client's certificate, in DER or PEM; without it a self-signed one is
    /// made when the policy needs it
    #[arg(long, value_name = "FILE", requires = "private_key")]
    certificate: Option<PathBuf>,

    /// The private key of --certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    private_key: Option<PathBuf>,

    /// Log in as NAME; the password comes from --password-file or the
    /// environment variable `OPCUA_PERF_PASSWORD`
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// The first line of FILE is the password of --user
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,

    /// End after so many reads
    #[arg(long, value_name = "N", value_parser = positive_count, conflicts_with = "duration")]
    reads: Option<NonZeroU64>,

    /// End after so long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,

    /// Print a row every N reads
    #[arg(long, value_name = "N", value_parser = positive_count, default_value = "100000")]
    row_every: NonZeroU64,

    /// How long to wait for the server, and for each of its responses
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = SILENCE)]
    timeout: Duration,
}

fn node_id(text: &str) -> Result<NodeId, String> {
    text.parse()
        .map_err(|_| "expected a node id, for example ns=1;i=42 or ns=2;s=Name".to_owned())
}

fn nodes_per_read(text: &str) -> Result<usize, String> {
    let wrong = || format!("expected a whole number from 1 to {MAX_NODES}");
    text.parse()
        .ok()
        .filter(|&nodes| (1..=MAX_NODES).contains(&count(nodes)))
        .ok_or_else(wrong)
}

fn max_age(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|age: &f64| age.is_finite() && *age >= 0.0)
        .ok_or_else(|| "expected a number of milliseconds, 0 or more".to_owned())
}

/// Why the client ends before its time.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot reach {url}")]
    Connect {
        url: EndpointUrl,
        source: StackError,
    },
    #[error("no answer from {url} within {}; is it an OPC UA server? --timeout waits longer", human(*.waited))]
    NoAnswer { url: EndpointUrl, waited: Duration },
    #[error("{url} cannot read {what}: {cause}{hint}")]
    Read {
        url: EndpointUrl,
        what: String,
        cause: String,
        hint: String,
    },
    #[error(
        "{node} is {got}, not UInt64 (nanoseconds of the day); name it with --node to time it by the client's clock"
    )]
    Type { node: NodeId, got: String },
    #[error("lost {url} after {reads} reads")]
    Lost {
        url: EndpointUrl,
        reads: u64,
        source: LoopError,
    },
    #[error("{url} fell silent for {} after {reads} reads; --timeout allows longer pauses", human(*.idle))]
    Silent {
        url: EndpointUrl,
        reads: u64,
        idle: Duration,
    },
    #[error("every read of {url} failed: {failures}")]
    AllFailed { url: EndpointUrl, failures: String },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::run(&error)
    }
}

/// A length of time as a person would say it, to the millisecond.
fn human(time: Duration) -> humantime::FormattedDuration {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(millis))
}

/// The command line, checked.
struct Plan {
    url: Option<EndpointUrl>,
    stack: StackKind,
    policy: SecurityPolicy,
    mode: MessageSecurityMode,
    identity: Option<Arc<Identity>>,
    login: Login,
    read: ReadPlan,
    /// Whether a node was named; then its type does not matter.
    named: bool,
    limit: RunLimit,
    endless: bool,
    row_every: NonZeroU64,
    timeout: Duration,
}

impl Args {
    fn plan(self) -> Result<Plan, Failure> {
        let Policy(policy) = self.security_policy;
        let mode = mode(policy, self.security_mode)?;
        let limit = match (self.reads, self.duration) {
            (Some(reads), _) => RunLimit::Count(reads),
            (None, Some(time)) => RunLimit::Elapsed(time),
            (None, None) => RunLimit::Count(NonZeroU64::MAX),
        };
        let identity = identity(self.certificate.as_deref(), self.private_key.as_deref())?;
        let named = !self.nodes.is_empty();
        let list = if named {
            self.nodes
        } else {
            vec![default_node()]
        };
        let nodes = self.nodes_per_read.unwrap_or(list.len());
        let read = |id: &NodeId| ReadValueId {
            node_id: id.clone(),
            attribute_id: AttributeId::Value as u32,
            ..ReadValueId::default()
        };
        Ok(Plan {
            url: self.url,
            stack: self.stack,
            policy,
            mode,
            identity: own_identity(policy, identity)?,
            login: login(self.user, self.password_file)?,
            read: ReadPlan {
                nodes: list.iter().cycle().take(nodes).map(read).collect(),
                max_age: self.max_age,
            },
            named,
            limit,
            endless: self.reads.is_none() && self.duration.is_none(),
            row_every: self.row_every,
            timeout: self.timeout,
        })
    }
}

/// The identity that the policy needs: the one that was given, or a new one.
fn own_identity(
    policy: SecurityPolicy,
    given: Option<Identity>,
) -> Result<Option<Arc<Identity>>, Failure> {
    if policy == SecurityPolicy::None {
        return Ok(None);
    }
    let identity = match given {
        Some(identity) => identity,
        None => Identity::generate(&uri_of_this_host(TOOL), TOOL)
            .map_err(|error| Failure::run(&error))?,
    };
    Ok(Some(Arc::new(identity)))
}

fn mode(
    policy: SecurityPolicy,
    asked: Option<MessageSecurityMode>,
) -> Result<MessageSecurityMode, Failure> {
    let secure = policy != SecurityPolicy::None;
    match asked {
        None if secure => Ok(MessageSecurityMode::SignAndEncrypt),
        None => Ok(MessageSecurityMode::None),
        Some(mode) if (mode != MessageSecurityMode::None) == secure => Ok(mode),
        Some(mode) => Err(Failure::usage(format!(
            "--security-mode {mode:?} does not go with --security-policy {}",
            Policy(policy)
        ))),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot read the password file {path}")]
struct NoPassword {
    path: String,
    source: io::Error,
}

/// The password is never on the command line, where others could see it.
fn login(user: Option<String>, file: Option<PathBuf>) -> Result<Login, Failure> {
    let Some(name) = user else {
        return Ok(Login::Anonymous);
    };
    let password = match file {
        Some(path) => {
            let text = std::fs::read_to_string(&path).map_err(|source| {
                let path = path.display().to_string();
                Failure::run(&NoPassword { path, source })
            })?;
            text.lines().next().unwrap_or_default().to_owned()
        }
        None => std::env::var(PASSWORD).map_err(|_| {
            Failure::usage(format!(
                "--user needs a password, in --password-file or in the environment variable {PASSWORD}"
            ))
        })?,
    };
    Ok(Login::User(name, Password(password)))
}

/// The program `opcua-perf-client`.
#[must_use]
pub fn client() -> ExitCode {
    run_main(std::env::args_os(), |args: Args| {
        let plan = args.plan()?;
        let own = match &plan.url {
            Some(_) => None,
            None => Some(OwnServer::start(plan.policy).map_err(|error| Failure::run(&error))?),
        };
        // clap sees to it that there is one of the two.
        let url = plan.url.as_ref().or(own.as_ref().map(OwnServer::url));
        let url = url.cloned().ok_or_else(|| Failure::usage("no server"))?;
        let runtime = current_thread(Wait::Sleep).map_err(no_runtime)?;
        run_to_end(runtime, async {
            let interrupt = Interrupt::install().map_err(no_runtime)?;
            let run = Running {
                watch: Watch {
                    interrupt,
                    silence: Some(plan.timeout),
                },
                plan,
                url,
            };
            run.connect().await.or_else(|ended| run.ended(ended))
        })
    })
}

/// Why a step did not come to its end.
enum Ended {
    Interrupted,
    Failed(Failure),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// One run of the client.
struct Running {
    plan: Plan,
    url: EndpointUrl,
    watch: Watch,
}

impl Running {
    /// An endless run ends by Ctrl-C, and well; a counted one is cut short.
    fn ended(&self, ended: Ended) -> Result<Exit, Failure> {
        match ended {
            Ended::Failed(failure) => Err(failure),
            Ended::Interrupted if self.plan.endless => Ok(Exit::Success),
            Ended::Interrupted => {
                note(TOOL, &"interrupted");
                Ok(Exit::Interrupted)
            }
        }
    }

    /// One step, which must be done before `--timeout`.
    async fn step<T, E>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<T, E>, Ended> {
        match self.watch.bounded(work).await {
            Ok(done) => Ok(done),
            Err(Stop::Interrupted) => Err(Ended::Interrupted),
            Err(Stop::Silent(waited)) => {
                let url = self.url.clone();
                Err(Error::NoAnswer { url, waited }.into())
            }
        }
    }

    async fn connect(&self) -> Result<Exit, Ended> {
        let target = Target {
            url: self.url.clone(),
            policy: self.plan.policy,
            mode: self.plan.mode,
            identity: self.plan.identity.clone(),
            login: self.plan.login.clone(),
            token_lifetime: TOKEN_LIFETIME,
            log: &|line: fmt::Arguments<'_>| note(TOOL, &line),
        };
        let unreachable = |source| Error::Connect {
            url: self.url.clone(),
            source,
        };
        let read = self.plan.read.clone();
        let (chosen, unsecured) = self.step(discover(&target)).await?.map_err(unreachable)?;
        match self.plan.stack {
            StackKind::Raw => {
                let open = RawSession::open(&target, &chosen, unsecured, read);
                self.read(self.step(open).await?.map_err(unreachable)?)
                    .await
            }
            StackKind::AsyncOpcua => {
                let open = async {
                    unsecured.close().await;
                    CrateSession::open(&target, &chosen, read).await
                };
                self.read(self.step(open).await?.map_err(unreachable)?)
                    .await
            }
        }
    }

    /// From an open session to the exit code.
    async fn read<S: ReadSession>(&self, mut session: S) -> Result<Exit, Ended> {
        let source = self.probe(&mut session).await?;
        let (gone, reader_gone) = watch::channel(false);
        let rows = Rows::start(gone).map_err(no_runtime)?;
        let mut reads = ReadLoop::new(session, self.plan.read.nodes.len(), source);
        // The first time is the difference to this read, which is not counted.
        if let Err(source) = self.step(reads.execute(1)).await? {
            return Err(self.lost(0, source).into());
        }
        let recorder = reads.recorder(self.plan.row_every, rows.sender());
        let watch = Watch {
            interrupt: either(
                &self.watch.interrupt,
                Interrupt::from_channel(reader_gone.clone()),
            ),
            ..self.watch.clone()
        };
        let finished = measure(&mut reads, self.plan.limit, recorder, &watch).await;
        let Finished {
            measurement,
            recorder,
            halt,
        } = finished;
        let total = recorder.total(measurement.elapsed);
        if recorder.rows() == 0 && total.reads() > 0 {
            rows.sender()(total);
        }
        let reader_gone = *reader_gone.borrow();
        rows.finish()?;
        self.summarize(&total, &recorder, &reads);
        let failures = reads.judge().failures().to_string();
        match halt {
            None => {}
            Some(Halt::Stopped(Stop::Interrupted)) => {
                close(reads.into_session()).await;
                return if reader_gone {
                    Ok(Exit::Success)
                } else {
                    Err(Ended::Interrupted)
                };
            }
            Some(Halt::Stopped(Stop::Silent(idle))) => {
                return Err(Error::Silent {
                    url: self.url.clone(),
                    reads: total.reads(),
                    idle,
                }
                .into());
            }
            Some(Halt::Failed(source)) => return Err(self.lost(total.reads(), source).into()),
        }
        close(reads.into_session()).await;
        if total.reads() == 0 {
            let url = self.url.clone();
            return Err(Error::AllFailed { url, failures }.into());
        }
        Ok(Exit::Success)
    }

    fn lost(&self, reads: u64, source: LoopError) -> Error {
        Error::Lost {
            url: self.url.clone(),
            reads,
            source,
        }
    }

    /// Reads once, to see whether it can be done at all and what comes.
    async fn probe<S: ReadSession>(&self, session: &mut S) -> Result<TimeSource, Ended> {
        let nodes = &self.plan.read.nodes;
        let refused = |what: String, cause: String, hint: String| Error::Read {
            url: self.url.clone(),
            what,
            cause,
            hint,
        };
        let cause = match self.step(session.read()).await? {
            Ok(values) => {
                let failed = nodes.iter().zip(values).find_map(|(node, value)| {
                    let status = value.status.filter(|status| status.is_bad())?;
                    Some((node, status))
                });
                return match failed {
                    Some((node, status)) => {
                        let what = node.node_id.to_string();
                        Err(refused(what, status.to_string(), String::new()).into())
                    }
                    None => Ok(self.time_source(values)?),
                };
            }
            Err(cause) => cause,
        };
        let what = match nodes.as_slice() {
            [node] => node.node_id.to_string(),
            nodes => format!("{} nodes at once", nodes.len()),
        };
        let limit = match cause {
            CallError::Refused(_) => {
                self.step(async { Ok::<_, ()>(session.limit().await) })
                    .await?
            }
            CallError::Lost(_) => Ok(None),
        };
        let hint = match limit {
            Ok(Some(limit)) if count(nodes.len()) > u64::from(limit) => {
                format!("; it takes at most {limit}: --nodes-per-read {limit}")
            }
            _ if nodes.len() > 1 => {
                format!("; try fewer, as --nodes-per-read {}", nodes.len() / 2)
            }
            _ => String::new(),
        };
        Err(refused(what, cause.to_string(), hint).into())
    }

    fn time_source(&self, values: &[DataValue]) -> Result<TimeSource, Error> {
        let node = self.plan.read.nodes.first().map(|node| &node.node_id);
        if node != Some(&default_node()) {
            return Ok(TimeSource::Client);
        }
        match values.first().and_then(|value| value.value.as_ref()) {
            Some(Variant::UInt64(_)) => Ok(TimeSource::Server),
            _ if self.plan.named => Ok(TimeSource::Client),
            value => Err(Error::Type {
                node: default_node(),
                got: type_name(value),
            }),
        }
    }

    /// The whole run in a few lines on stderr.
    fn summarize<S: ReadSession, F>(
        &self,
        total: &Row,
        recorder: &ReadRecorder<F>,
        reads: &ReadLoop<S>,
    ) {
        let rate = total.reads_per_s().unwrap_or_default();
        let values = rate * float(count(self.plan.read.nodes.len()));
        note(
            TOOL,
            &format_args!(
                "{} reads in {}: {rate:.2} reads/s, {values:.2} values/s",
                total.reads(),
                human(total.elapsed()),
            ),
        );
        if let Some(summary) = LatencySummary::new(recorder.round_trip()) {
            let us = |ns: f64| ns / 1000.0;
            let [p50, _, p99, ..] = summary.quantiles_ns.map(us);
            note(
                TOOL,
                &format_args!(
                    "round trip [us], by this client's clock: min {:.3}, p50 {p50:.3}, p99 {p99:.3}, max {:.3}, mean {:.3}",
                    us(summary.min_ns),
                    us(summary.max_ns),
                    us(summary.mean_ns)
                ),
            );
        }
        let judge = reads.judge();
        if !judge.failures().is_empty() {
            note(
                TOOL,
                &format_args!("{} reads failed: {}", total.failed(), judge.failures()),
            );
        }
        if judge.fell() > 0 {
            note(
                TOOL,
                &format_args!(
                    "warning: the server's value fell {} times, and not at midnight; those reads have no time",
                    judge.fell()
                ),
            );
        }
    }
}

/// Closes a session, without waiting long for a server that does not answer.
async fn close<S: ReadSession>(session: S) {
    // The session is given up either way.
    let _ = tokio::time::timeout(TIME_TO_CLOSE, session.close()).await;
}

/// An interrupt that comes when either does.
fn either(first: &Interrupt, mut second: Interrupt) -> Interrupt {
    let mut first = first.clone();
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            () = first.wait() => {}
            () = second.wait() => {}
        }
        stop.send_replace(true);
        stop.closed().await;
    });
    Interrupt::from_channel(stopped)
}
