//! `opcua-perf-client`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Parser};
use opcua::crypto::SecurityPolicy;
use opcua::types::{
    AttributeId, DataValue, MessageSecurityMode, NodeId, ReadValueId, StatusCode, Variant,
};
use perf_core::cli::{
    CpuArgs, DistributionArgs, RateArgs, ReportArgs, RunArgs, after_help, duration, is_stdout,
    note, positive_count, run_main,
};
use perf_core::clock::{Clock, MonotonicClock};
use perf_core::exit::{Exit, Failure};
use perf_core::histogram::LatencyHistogram;
use perf_core::limit::{RunLimit, StopReason};
use perf_core::load::{Measurement, Operation};
use perf_core::measure::{Finished, Halt, measure};
use perf_core::monitor::{Show, Wording};
use perf_core::recorder::HistogramRecorder;
use perf_core::report::outputs::{Outputs, Table};
use perf_core::report::{IntervalReport, Outcome, Report};
use perf_core::runtime::{Interrupt, Stop, Watch, current_thread, on_own_thread, run_to_end};
use perf_core::summary::LatencySummary;
use perf_core::units::{count, float};
use perf_core::warning::{Doubts, Warning, few_samples};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::rows::RowPrinter;
use super::{identity, no_runtime, version_with};
use crate::certificate::{Identity, uri_of_this_host};
use crate::endpoint::EndpointUrl;
use crate::loopback::OwnServer;
use crate::policy::{Mode, Policy};
use crate::read_loop::{LoopError, ReadLoop, Row, TimeSource, default_node, type_name};
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

/// How reads are spoken of.
const WORDING: Wording = Wording {
    tool: TOOL,
    what: "reads",
    time: "round trip",
    factor: 1.0,
};

/// The most nodes that one read may name.
const MAX_NODES: u64 = 100_000;

/// Reads an OPC UA value as often as possible, and tells how often that is.
///
/// Prints what open62541's read performance test prints: a header, and a row
/// every 100,000 reads, until Ctrl-C. Everything else goes to stderr.
#[derive(Debug, Parser)]
#[command(
    name = TOOL,
    version,
    long_version = version_with(&[StackKind::Raw, StackKind::AsyncOpcua]),
    after_long_help = after_help(&[
        (
            "Server and client in this process, for 10 s",
            "opcua-perf-client --loopback --duration 10s",
        ),
        (
            "A row every 100,000 reads of opcua-perf-server or open62541's, until Ctrl-C",
            "opcua-perf-client opc.tcp://192.0.2.2:4840",
        ),
        (
            "A hundred values at once from a PLC, signed and encrypted",
            "opcua-perf-client opc.tcp://192.0.2.2:4840 --node \"ns=2;s=Temperature\" --nodes-per-read 100 --reads 10000 --security-policy Basic256Sha256",
        ),
        (
            "A thousand reads a second, so that a stall of the server shows, as JSON",
            "opcua-perf-client opc.tcp://192.0.2.2:4840 --rate 1000 --duration 1m --json=run.json",
        ),
        (
            "What an application on the crate async-opcua gets",
            "opcua-perf-client --loopback --reads 300000 --stack async-opcua --percentiles",
        ),
    ])
)]
#[command(group(ArgGroup::new("server").required(true).args(["url", "loopback"])))]
pub(super) struct Args {
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

    /// The security policy
    #[arg(
        long,
        value_name = "POLICY",
        value_enum,
        ignore_case = true,
        default_value = "None"
    )]
    security_policy: Policy,

    /// The security mode [default: the safest that goes with the policy]
    #[arg(long, value_name = "MODE", value_enum, ignore_case = true)]
    security_mode: Option<Mode>,

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

    /// End after so many reads that were right
    #[arg(long, value_name = "N", value_parser = positive_count, help_heading = "Run")]
    reads: Option<NonZeroU64>,

    #[command(flatten)]
    run: RunArgs,

    #[command(flatten)]
    rate: RateArgs,

    #[command(flatten)]
    cpu: CpuArgs,

    /// Print a row every N reads
    #[arg(long, value_name = "N", value_parser = positive_count, default_value = "100000", help_heading = "Report")]
    row_every: NonZeroU64,

    /// How long to wait for the server, and for each of its responses
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = SILENCE, help_heading = "Run")]
    timeout: Duration,

    #[command(flatten)]
    report: ReportArgs,

    #[command(flatten)]
    distribution: DistributionArgs,
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
    #[error("no read of {url} was right for {}, after {reads} that were: {failures}", human(*.idle))]
    Failing {
        url: EndpointUrl,
        reads: u64,
        idle: Duration,
        failures: String,
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
    cpu: CpuArgs,
    /// Whether a node was named; then its type does not matter.
    named: bool,
    load: perf_core::measure::Plan,
    row_every: NonZeroU64,
    timeout: Duration,
    /// Whether someone asked for more than upstream's rows.
    shows_percentiles: bool,
}

impl Args {
    fn plan(self) -> Result<Plan, Failure> {
        let Policy(policy) = self.security_policy;
        let mode = mode(policy, self.security_mode.map(|Mode(mode)| mode))?;
        let rate = self.rate.rate;
        let limit = if self.reads.is_none() && self.run.duration.is_none() {
            RunLimit::Endless
        } else {
            self.run.limit(self.reads, rate)?
        };
        let load = perf_core::measure::Plan {
            limit,
            warmup: self.run.warmup,
            rate,
            timed: true,
            show: Show {
                interval: self.run.interval,
                // The rows tell how it goes.
                bar: false,
                wording: WORDING,
            },
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
            cpu: self.cpu,
            named,
            load,
            row_every: self.row_every,
            timeout: self.timeout,
            shows_percentiles: self.report.wants_times(&self.distribution),
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
        let outputs = Outputs::open(&args.report, Some(&args.distribution))?;
        // Nothing but the document may be on stdout then.
        let quiet = args.report.json.as_deref().is_some_and(is_stdout);
        let plan = args.plan()?;
        plan.cpu.check()?;
        let own = match &plan.url {
            Some(_) => None,
            None => Some(OwnServer::start(plan.policy, plan.cpu.clone())?),
        };
        // clap sees to it that there is one of the two.
        let url = plan
            .url
            .as_ref()
            .or_else(|| own.as_ref().map(OwnServer::url));
        let url = url.cloned().ok_or_else(|| Failure::usage("no server"))?;
        let here = url.is_on_this_host();
        let doubts = Doubts::before();
        let measured = on_own_thread(|| {
            plan.cpu.pin(0)?;
            let runtime = current_thread(plan.cpu.wait()).map_err(no_runtime)?;
            Ok::<_, Failure>(run_to_end(runtime, async {
                match Interrupt::install() {
                    Ok(interrupt) => {
                        Box::pin(Client::new(&plan, url, interrupt, quiet).run()).await
                    }
                    Err(error) => (Told::default(), Some(no_runtime(error).into())),
                }
            }))
        });
        let (told, ended) = measured.map_err(no_runtime)??;
        // The server wants a CPU at the same time.
        let threads = if here { 2 } else { 1 };
        conclude(&plan, told, ended, doubts.after(true, threads), outputs)
    })
}

/// Why a run is not whole.
enum Ended {
    Interrupted,
    /// The reader of stdout went away.
    Unread,
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

/// What a run has to tell, whole or not.
#[derive(Default)]
struct Told {
    url: Option<EndpointUrl>,
    outcome: Option<Outcome>,
    intervals: Vec<IntervalReport>,
    warnings: Vec<Warning>,
    times: Option<HistogramRecorder>,
}

/// Reports what was measured, and says how the tool exits.
fn conclude(
    plan: &Plan,
    told: Told,
    ended: Option<Ended>,
    mut warnings: Vec<Warning>,
    mut outputs: Outputs,
) -> Result<Exit, Failure> {
    warnings.extend(told.warnings);
    for warning in &warnings {
        note(TOOL, &format_args!("warning: {warning}"));
    }
    let mut report = Report::new(TOOL, env!("CARGO_PKG_VERSION"));
    report.stack = Some(plan.stack.describe());
    report.settings = plan.settings(told.url.as_ref());
    report.result = told.outcome;
    report.intervals = told.intervals;
    report.warn(&warnings);
    let endless = plan.load.limit == RunLimit::Endless;
    let (stop, exit, failure) = match ended {
        None | Some(Ended::Unread) => (StopReason::Complete, Exit::Success, None),
        Some(Ended::Interrupted) => {
            let exit = if endless {
                Exit::Success
            } else {
                note(TOOL, &"interrupted");
                Exit::Interrupted
            };
            (StopReason::Interrupted, exit, None)
        }
        Some(Ended::Failed(failure)) => (StopReason::Failed, failure.exit(), Some(failure)),
    };
    report.stop = stop.as_str();
    report.error = failure.as_ref().map(ToString::to_string);
    let table = told.times.as_ref().map(|times| Table {
        histogram: times.response(),
        factor: 1.0,
    });
    let published = outputs.publish(&report, None, table);
    match failure {
        Some(failure) => Err(failure.reported()),
        None => published
            .map(|()| exit)
            .map_err(|error| Failure::from(error).reported()),
    }
}

impl Plan {
    /// What was asked for, as a report shows it.
    fn settings(&self, url: Option<&EndpointUrl>) -> BTreeMap<&'static str, Value> {
        let mut settings = self.load.settings();
        settings.extend(self.cpu.settings());
        let nodes: BTreeSet<String> = self
            .read
            .nodes
            .iter()
            .map(|node| node.node_id.to_string())
            .collect();
        settings.extend([
            ("nodes", json!(nodes)),
            ("nodes_per_read", json!(self.read.nodes.len())),
            ("max_age_ms", json!(self.read.max_age)),
            ("security_policy", json!(Policy(self.policy).to_string())),
            ("security_mode", json!(format!("{:?}", self.mode))),
            ("row_every", json!(self.row_every.get())),
            ("timeout_s", json!(self.timeout.as_secs_f64())),
            ("loopback", json!(self.url.is_none())),
        ]);
        if let Some(url) = url {
            settings.insert("endpoint", json!(url.to_string()));
        }
        if let Login::User(name, _) = &self.login {
            settings.insert("user", json!(name));
        }
        settings
    }
}

/// One run of the client.
struct Client<'a> {
    plan: &'a Plan,
    url: EndpointUrl,
    watch: Watch,
    quiet: bool,
    told: Told,
}

impl<'a> Client<'a> {
    fn new(plan: &'a Plan, url: EndpointUrl, interrupt: Interrupt, quiet: bool) -> Self {
        Self {
            plan,
            watch: Watch {
                interrupt,
                // A slow schedule is not a silent server.
                silence: Some(plan.timeout + plan.load.rate.map_or(Duration::ZERO, |r| r.due(1))),
            },
            told: Told {
                url: Some(url.clone()),
                ..Told::default()
            },
            url,
            quiet,
        }
    }

    async fn run(mut self) -> (Told, Option<Ended>) {
        let ended = self.connect().await.err();
        (self.told, ended)
    }

    /// One step, which must be done before `--timeout`.
    async fn step<T, E>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<T, E>, Ended> {
        match self.watch.bounded(work).await {
            Ok(done) => Ok(done),
            Err(Stop::Interrupted) => Err(Ended::Interrupted),
            Err(Stop::Silent { bound: waited, .. }) => {
                let url = self.url.clone();
                Err(Error::NoAnswer { url, waited }.into())
            }
        }
    }

    async fn connect(&mut self) -> Result<(), Ended> {
        let plan = self.plan;
        let url = self.url.clone();
        let target = Target {
            url: url.clone(),
            policy: plan.policy,
            mode: plan.mode,
            identity: plan.identity.clone(),
            login: plan.login.clone(),
            token_lifetime: TOKEN_LIFETIME,
            log: &|line: fmt::Arguments<'_>| note(TOOL, &line),
        };
        let unreachable = |source| Error::Connect {
            url: url.clone(),
            source,
        };
        let read = plan.read.clone();
        let (chosen, unsecured) = self.step(discover(&target)).await?.map_err(unreachable)?;
        match plan.stack {
            StackKind::Raw => {
                let open = Box::pin(RawSession::open(&target, &chosen, unsecured, read));
                let session = self.step(open).await?.map_err(unreachable)?;
                self.read(session).await
            }
            StackKind::AsyncOpcua => {
                let open = Box::pin(async {
                    unsecured.close().await;
                    CrateSession::open(&target, &chosen, read).await
                });
                let session = self.step(open).await?.map_err(unreachable)?;
                self.read(session).await
            }
        }
    }

    /// From an open session to its end.
    async fn read<S: ReadSession>(&mut self, mut session: S) -> Result<(), Ended> {
        let source = self.probe(&mut session).await?;
        let mut reads = ReadLoop::new(session, self.plan.read.nodes.len(), source);
        let warmup = self.warm_up(&mut reads).await?;
        let (gone, reader_gone) = watch::channel(false);
        let rows = (!self.quiet).then(|| RowPrinter::start(gone)).transpose();
        let rows = rows.map_err(no_runtime)?;
        let print = || rows.as_ref().map(RowPrinter::sender);
        let on_row = print();
        // The first time is the difference to this read, which is not counted.
        if let Err(source) = self.step(reads.execute(1)).await? {
            return Err(self.lost(0, source).into());
        }
        reads.begin(MonotonicClock::new(), self.plan.row_every, move |row| {
            if let Some(print) = &on_row {
                print(row);
            }
        });
        let watch = Watch {
            interrupt: either(
                &self.watch.interrupt,
                Interrupt::from_channel(reader_gone.clone()),
            ),
            ..self.watch.clone()
        };
        let load = perf_core::measure::Plan {
            warmup: None,
            ..self.plan.load
        };
        let mut finished = measure(&mut reads, &load, &watch).await;
        finished.warmup = warmup;
        let (total, row_is_due) = reads.rows().map_or_else(Default::default, |rows| {
            let total = rows.total(finished.measurement.elapsed);
            (total, rows.whole() == 0 && total.reads() > 0)
        });
        if let (true, Some(print)) = (row_is_due, print()) {
            print(total);
        }
        self.tell(&finished, &total, &reads);
        let unread = *reader_gone.borrow();
        let printed = rows.map_or(Ok(()), RowPrinter::finish);
        let failures = reads.judge().failures().to_string();
        let failing = reads.judge().failing();
        let halt = finished.halt.take();
        self.told.times = finished.times;
        let (url, reads_done) = (self.url.clone(), total.reads());
        match halt {
            Some(Halt::Stopped(Stop::Silent { bound: idle, .. })) if failing => {
                return Err(Error::Failing {
                    url,
                    reads: reads_done,
                    idle,
                    failures,
                }
                .into());
            }
            Some(Halt::Stopped(Stop::Silent { bound: idle, .. })) => {
                return Err(Error::Silent {
                    url,
                    reads: reads_done,
                    idle,
                }
                .into());
            }
            Some(Halt::Failed(source)) => return Err(self.lost(reads_done, source).into()),
            Some(Halt::Stopped(Stop::Interrupted)) | None => {}
        }
        close(reads.into_session()).await;
        printed?;
        match halt {
            Some(_) if unread => Err(Ended::Unread),
            Some(_) => Err(Ended::Interrupted),
            None if reads_done == 0 => Err(Error::AllFailed { url, failures }.into()),
            None => Ok(()),
        }
    }

    /// The same reads, whose results are thrown away.
    async fn warm_up<S, C, F>(
        &self,
        reads: &mut ReadLoop<S, C, F>,
    ) -> Result<Option<Measurement>, Ended>
    where
        S: ReadSession,
        C: Clock,
        F: FnMut(Row),
    {
        let Some(limit) = self.plan.load.warmup else {
            return Ok(None);
        };
        let plan = perf_core::measure::Plan {
            rate: self.plan.load.rate,
            ..perf_core::measure::Plan::bare(limit, WORDING)
        };
        let finished = measure(reads, &plan, &self.watch).await;
        match finished.halt {
            None => Ok(Some(finished.measurement)),
            Some(Halt::Stopped(Stop::Interrupted)) => Err(Ended::Interrupted),
            Some(Halt::Stopped(Stop::Silent { bound: idle, .. })) => Err(Error::Silent {
                url: self.url.clone(),
                reads: finished.measurement.completed,
                idle,
            }
            .into()),
            Some(Halt::Failed(source)) => {
                Err(self.lost(finished.measurement.completed, source).into())
            }
        }
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
                    let status = value.status.filter(StatusCode::is_bad)?;
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

    fn time_source(&self, values: &[DataValue]) -> Result<TimeSource, Ended> {
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
            }
            .into()),
        }
    }

    /// Keeps what the run has to tell, and says the shortest of it on stderr.
    fn tell<S, C, F>(
        &mut self,
        finished: &Finished<LoopError>,
        total: &Row,
        reads: &ReadLoop<S, C, F>,
    ) where
        S: ReadSession,
        C: Clock,
        F: FnMut(Row),
    {
        let mut outcome = Outcome::new(
            WORDING.what,
            &finished.measurement,
            finished.warmup,
            finished.usage,
        );
        let rate = total.reads_per_s();
        let values = rate.map(|rate| rate * float(count(self.plan.read.nodes.len())));
        note(
            TOOL,
            &format_args!(
                "{} reads in {}: {:.2} reads/s, {:.2} values/s",
                total.reads(),
                human(total.elapsed()),
                rate.unwrap_or_default(),
                values.unwrap_or_default(),
            ),
        );
        outcome.values_per_s = values;
        let distribution = |times: &LatencyHistogram| LatencySummary::new(times);
        let told = &mut self.told;
        if let Some(times) = &finished.times {
            if let Some(summary) = distribution(times.response()) {
                note(TOOL, &round_trip_line(&summary));
                outcome.round_trip_ns = Some(summary.into());
                if self.plan.shows_percentiles {
                    told.warnings.extend(few_samples(summary.samples));
                }
            }
            outcome.service_time_ns = times.service().and_then(distribution).map(Into::into);
            let clipped = times.response().clipped();
            if clipped > 0 {
                told.warnings.push(Warning::Clipped { samples: clipped });
            }
        }
        outcome.read_time_ns = reads
            .rows()
            .and_then(|rows| distribution(rows.times()))
            .map(Into::into);
        if let Some(rate) = self.plan.load.rate {
            told.warnings.extend(outcome.set_rate(rate));
        }
        let judge = reads.judge();
        outcome.errors = judge.failures().iter().collect();
        if !judge.failures().is_empty() {
            note(
                TOOL,
                &format_args!("{} reads failed: {}", total.failed(), judge.failures()),
            );
        }
        if judge.fell() > 0 {
            told.warnings.push(Warning::Other {
                kind: "clock_went_back",
                message: format!(
                    "the server's value fell {} times, and not at midnight; those reads have no time",
                    judge.fell()
                ),
            });
        }
        told.intervals = finished
            .intervals
            .iter()
            .map(|interval| IntervalReport::new(interval, None))
            .collect();
        told.outcome = Some(outcome);
    }
}

fn round_trip_line(summary: &LatencySummary) -> String {
    let us = |ns: f64| ns / 1000.0;
    let [p50, _, p99, ..] = summary.quantiles_ns.map(us);
    format!(
        "round trip [us], by this client's clock: min {:.3}, p50 {p50:.3}, p99 {p99:.3}, max {:.3}, mean {:.3}",
        us(summary.min_ns),
        us(summary.max_ns),
        us(summary.mean_ns)
    )
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
