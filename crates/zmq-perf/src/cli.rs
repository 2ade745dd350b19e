//! The command lines of the tools.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{ArgAction, Args, Command, CommandFactory, Parser};
use perf_core::cli::{
    CpuArgs, DistributionArgs, PatienceArgs, RateArgs, ReportArgs, RunArgs, after_help,
    long_version, number_up_to, positive_count,
};
use perf_core::exit::Failure;
use perf_core::resources::allow_descriptors;
use perf_core::units::count;

use crate::curve::{KeyError, Keys};
use crate::endpoint::{Endpoint, ParseError};
use crate::error::Error;
use crate::loopback::{self, Place};
#[cfg(feature = "omq")]
use crate::stack::Refusal;
use crate::stack::{Carrier, MESSAGE_SIZE_MAX, StackName};
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

/// The most connections that one address can make to another are about 28,000
/// (the system's ephemeral ports); this leaves room for others.
const PEERS_MAX: u64 = 10_000;

fn peers(text: &str) -> Result<usize, String> {
    match number_up_to(text, PEERS_MAX, "").map(usize::try_from) {
        Ok(Ok(peers)) if peers > 0 => Ok(peers),
        _ => Err(format!("expected a whole number from 1 to {PEERS_MAX}")),
    }
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

/// The command lines of all tools, for whoever makes manual pages and
/// completions of them.
#[must_use]
pub fn commands() -> Vec<Command> {
    vec![
        LocalLat::command(),
        RemoteLat::command(),
        LocalThr::command(),
        RemoteThr::command(),
        InprocLat::command(),
        InprocThr::command(),
        #[cfg(feature = "omq")]
        ProxyThr::command(),
    ]
}

/// What can carry messages between processes.
const BETWEEN: &[Carrier] = &[
    Carrier::Zeromq,
    #[cfg(feature = "omq")]
    Carrier::Omq,
    Carrier::Raw,
];

/// What can carry messages within one process.
const WITHIN: &[Carrier] = &[
    #[cfg(feature = "omq")]
    Carrier::Omq,
    Carrier::Channel,
];

/// What can carry messages through a proxy.
#[cfg(feature = "omq")]
const THROUGH_PROXY: &[Carrier] = &[Carrier::Omq];

/// What `--version` says of a tool that has these to choose from.
fn version_with(carriers: &[Carrier]) -> String {
    let stacks: Vec<_> = carriers.iter().map(|carrier| carrier.describe()).collect();
    long_version(env!("CARGO_PKG_VERSION"), &stacks)
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
    /// What carries the messages within this process.
    pub(crate) fn within(self, endpoint: &Endpoint) -> Result<Carrier, Failure> {
        Carrier::choose(self.stack, endpoint, false).map_err(Failure::usage)
    }

    /// What carries the messages through a proxy.
    #[cfg(feature = "omq")]
    pub(crate) fn through_proxy(self) -> Result<Carrier, Failure> {
        match self.stack {
            None | Some(StackName::Omq) => Ok(Carrier::Omq),
            Some(StackName::Zeromq | StackName::Raw) => Err(Failure::usage(Refusal::Proxy)),
        }
    }

    /// What carries the messages from here to another process.
    pub(crate) fn between(self, endpoint: &Endpoint, curve: bool) -> Result<Carrier, Failure> {
        let carrier = Carrier::choose(self.stack, endpoint, curve).map_err(Failure::usage)?;
        match endpoint {
            Endpoint::Inproc(_) => Err(Failure::usage(
                "inproc:// does not leave the process, so no other end can come; use inproc_lat or inproc_thr, which have both",
            )),
            _ => Ok(carrier),
        }
    }
}

/// Measures the throughput of two floods of messages through a proxy
///
/// Two XPUB send to an XSUB-XPUB proxy, and one SUB receives, each on its own
/// thread, over inproc. The clock starts before the senders do.
#[cfg(feature = "omq")]
#[derive(Debug, Parser)]
#[command(
    name = "proxy_thr",
    version,
    long_version = version_with(THROUGH_PROXY),
    after_long_help = after_help(&[
        (
            "A million messages from each of two senders",
            "proxy_thr 1024 1000000",
        ),
        (
            "For 10 s, with a line for each second",
            "proxy_thr 1024 --duration 10s --interval 1s",
        ),
    ])
)]
pub(crate) struct ProxyThr {
    /// Bytes of payload in each message
    #[arg(value_name = "message-size", value_parser = message_size)]
    pub(crate) size: usize,
    /// How many messages; each sender sends so many, of which so many are
    /// received
    #[arg(value_name = "message-count", value_parser = positive_count, required_unless_present = "duration")]
    pub(crate) count: Option<NonZeroU64>,
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
}

/// Descriptors of a tool beside its connections: streams, files, the runtime.
const OTHER_DESCRIPTORS: usize = 64;

/// How many connections there are.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct PeersArgs {
    /// How many connections there are to be between the two ends
    ///
    /// The end that connects opens so many from this one process, and what is
    /// to be done goes to whichever is free; the end that binds makes room for
    /// so many. Counts and rates are those of all together.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = peers)]
    peers: usize,
}

impl PeersArgs {
    /// Whether there is more than one.
    pub(crate) const fn several(self) -> bool {
        self.peers > 1
    }

    /// How many, when the system has file descriptors for them; `ends` of them
    /// are in this process.
    pub(crate) fn allowed(self, ends: usize) -> Result<usize, Failure> {
        if self.several() {
            allow_descriptors(count(self.peers * ends + OTHER_DESCRIPTORS)).map_err(|error| {
                Failure::run(&Error::Descriptors {
                    peers: self.peers,
                    source: error,
                })
            })?;
        }
        Ok(self.peers)
    }
}

/// Where the other end of an inproc tool runs.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct PlaceArgs {
    /// Run both ends as tasks of one thread, instead of a thread each
    #[arg(long)]
    same_thread: bool,
}

impl PlaceArgs {
    /// The place of the other end.
    pub(crate) const fn place(self) -> Place {
        if self.same_thread {
            Place::SameThread
        } else {
            Place::OwnThread
        }
    }
}

/// CURVE at the end that binds.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Security")]
pub(crate) struct CurveServerArgs {
    /// Encrypt with CURVE; without a file with libzmq's perf tools' own keys
    #[arg(long)]
    curve: bool,
    /// Encrypt with CURVE, with this end's secret key from FILE (Z85 text)
    #[arg(long, value_name = "FILE")]
    curve_secret_key: Option<PathBuf>,
}

/// CURVE at the end that connects.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Security")]
pub(crate) struct CurveClientArgs {
    /// Encrypt with CURVE; without files with libzmq's perf tools' own keys
    #[arg(long)]
    curve: bool,
    /// Encrypt with CURVE, for the other end with the public key in FILE (Z85
    /// text)
    #[arg(long, value_name = "FILE")]
    curve_server_key: Option<PathBuf>,
    /// Encrypt with CURVE, with this end's secret key from FILE (Z85 text)
    #[arg(long, value_name = "FILE")]
    curve_secret_key: Option<PathBuf>,
}

impl CurveServerArgs {
    /// The keys, if CURVE is asked for, be it by another argument.
    pub(crate) fn keys(&self, also: bool) -> Result<Option<Keys>, Failure> {
        let secret = self.curve_secret_key.as_deref();
        (self.curve || also || secret.is_some())
            .then(|| Keys::of_server(secret))
            .transpose()
            .map_err(|error| key_failure(&error))
    }
}

impl CurveClientArgs {
    /// The keys, if CURVE is asked for, be it by another argument. In a
    /// loopback the end that binds is here, too, and must have its secret key.
    pub(crate) fn keys(&self, also: bool, loopback: bool) -> Result<Option<Keys>, Failure> {
        let server = self.curve_server_key.as_deref();
        if loopback && server.is_some() {
            return Err(key_failure(&KeyError::Loopback));
        }
        let secret = self.curve_secret_key.as_deref();
        (self.curve || also || server.is_some() || secret.is_some())
            .then(|| Keys::of_client(server, secret))
            .transpose()
            .map_err(|error| key_failure(&error))
    }
}

fn key_failure(error: &KeyError) -> Failure {
    match std::error::Error::source(error) {
        Some(source) => Failure::usage(format!("{error}: {source}")),
        None => Failure::usage(error),
    }
}

/// Sends messages back: one end of a latency measurement
///
/// Serves a number of round trips; without one it serves until its last peer
/// has closed its connection.
#[derive(Debug, Parser)]
#[command(
    name = "local_lat",
    version,
    long_version = version_with(BETWEEN),
    after_long_help = after_help(&[
        (
            "Serve the other box, on the address of one interface, until it is done",
            "local_lat tcp://eth0:5555 1",
        ),
        (
            "Serve 100000 round trips and no more",
            "local_lat tcp://*:5555 1 100000",
        ),
        (
            "Answer at once, from a CPU of its own",
            "local_lat tcp://*:5555 1 --busy-poll --cpu 1",
        ),
        (
            "Encrypt with a key of your own",
            "local_lat tcp://*:5555 1 --curve-secret-key server.key",
        ),
    ])
)]
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
    pub(crate) curve: CurveServerArgs,
    #[command(flatten)]
    pub(crate) peers: PeersArgs,
    #[command(flatten)]
    pub(crate) cpu: CpuArgs,
    #[command(flatten)]
    pub(crate) patience: PatienceArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Measures latency: half the time that a message takes there and back
///
/// Prints what libzmq's tool prints: the mean. Either end may start first, and
/// the other may be libzmq's own.
#[derive(Debug, Parser)]
#[command(
    name = "remote_lat",
    version,
    long_version = version_with(BETWEEN),
    after_long_help = after_help(&[
        (
            "Both ends in this process, and the whole distribution",
            "remote_lat --loopback 1 100000 --percentiles",
        ),
        (
            "To a local_lat on another box, for 10 s behind a second of warm-up",
            "remote_lat tcp://192.0.2.2:5555 1 --duration 10s --warmup 1s --percentiles",
        ),
        (
            "A thousand a second, as an application would send them, as JSON",
            "remote_lat tcp://192.0.2.2:5555 256 --duration 30s --rate 1000 --json=run.json",
        ),
        (
            "The cost of the wire and the system alone, as the floor under a stack",
            "remote_lat --loopback 1 100000 --stack raw --busy-poll --cpu 0,1",
        ),
    ])
)]
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
    pub(crate) curve: CurveClientArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) rate: RateArgs,
    #[command(flatten)]
    pub(crate) peers: PeersArgs,
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
/// The clock starts when the first message has arrived. Either end may start
/// first, and the other may be libzmq's own.
#[derive(Debug, Parser)]
#[command(
    name = "local_thr",
    version,
    long_version = version_with(BETWEEN),
    after_long_help = after_help(&[
        (
            "Both ends in this process",
            "local_thr --loopback 1024 1000000",
        ),
        (
            "Wait for a remote_thr on another box",
            "local_thr tcp://eth0:5555 1024 1000000",
        ),
        (
            "With a line for each second, and a row in a table of runs",
            "local_thr tcp://*:5555 1024 --duration 30s --interval 1s --csv runs.csv",
        ),
        (
            "The delay of each message under load; the other end needs --stamp, too",
            "local_thr tcp://*:5555 1024 1000000 --stamp --percentiles",
        ),
    ])
)]
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
    pub(crate) curve: CurveServerArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) peers: PeersArgs,
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
///
/// The other end, which may be libzmq's own, measures and prints; this one ends
/// when the last byte has left.
#[derive(Debug, Parser)]
#[command(
    name = "remote_thr",
    version,
    long_version = version_with(BETWEEN),
    after_long_help = after_help(&[
        (
            "Send a million messages of 1 KiB to a local_thr on another box",
            "remote_thr tcp://192.0.2.2:5555 1024 1000000",
        ),
        (
            "Send 10000 a second with their send times, for the other end to report delays",
            "remote_thr tcp://192.0.2.2:5555 1024 300000 --rate 10000 --stamp",
        ),
        (
            "Encrypt, with the keys of libzmq's own tools",
            "remote_thr tcp://192.0.2.2:5555 1024 1000000 1",
        ),
    ])
)]
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
    pub(crate) curve: CurveClientArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) rate: RateArgs,
    #[command(flatten)]
    pub(crate) peers: PeersArgs,
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
    /// 1: encrypt with CURVE, as --curve does
    #[arg(value_name = "enable_curve", action = ArgAction::Set, value_parser = enable_curve, default_value = "0", hide_default_value = true)]
    pub(crate) enable_curve: bool,
}

/// Refuses a stamp without room.
pub(crate) fn check_stamp(stamp: bool, size: usize) -> Result<(), Failure> {
    if stamp && size < STAMP_BYTES {
        return Err(Failure::usage(format!(
            "--stamp needs messages of at least {STAMP_BYTES} bytes, and these have {size}"
        )));
    }
    Ok(())
}

/// Measures latency between two threads: half the time that a message takes
/// there and back
///
/// Prints what libzmq's tool prints: size and count before the run, the mean
/// behind it.
#[derive(Debug, Parser)]
#[command(
    name = "inproc_lat",
    version,
    long_version = version_with(WITHIN),
    after_long_help = after_help(&[
        (
            "From one thread to another and back",
            "inproc_lat 1 100000",
        ),
        (
            "The floor: a bare channel instead of a socket",
            "inproc_lat 1 100000 --stack raw --percentiles",
        ),
        (
            "Between two tasks of one thread",
            "inproc_lat 1 100000 --same-thread",
        ),
    ])
)]
pub(crate) struct InprocLat {
    /// Bytes of payload in each message
    #[arg(value_name = "message-size", value_parser = message_size)]
    pub(crate) size: usize,
    /// How often a message goes there and back
    #[arg(value_name = "roundtrip-count", value_parser = positive_count, required_unless_present = "duration")]
    pub(crate) count: Option<NonZeroU64>,
    #[command(flatten)]
    pub(crate) stack: StackArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
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

/// Measures the throughput of a flood of messages from one thread to another
///
/// The clock starts when the first message has arrived.
#[derive(Debug, Parser)]
#[command(
    name = "inproc_thr",
    version,
    long_version = version_with(WITHIN),
    after_long_help = after_help(&[
        (
            "From one thread to another",
            "inproc_thr 1024 1000000",
        ),
        (
            "The floor: a bare channel instead of a socket",
            "inproc_thr 1024 1000000 --stack raw",
        ),
        (
            "For 10 s, each end on a CPU of its own, as JSON",
            "inproc_thr 1024 --duration 10s --cpu 0,1 --json",
        ),
    ])
)]
pub(crate) struct InprocThr {
    /// Bytes of payload in each message
    #[arg(value_name = "message-size", value_parser = message_size)]
    pub(crate) size: usize,
    /// How many messages
    #[arg(value_name = "message-count", value_parser = positive_count, required_unless_present = "duration")]
    pub(crate) count: Option<NonZeroU64>,
    /// Write the send time into each message, and report its delay
    #[arg(long)]
    pub(crate) stamp: bool,
    #[command(flatten)]
    pub(crate) stack: StackArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_a_command_line_of_its_tool() {
        for command in commands() {
            let name = command.get_name().to_owned();
            let help = command.get_after_long_help().unwrap().to_string();
            let start = format!("    {name} ");
            let examples: Vec<_> = help.lines().filter(|l| l.starts_with(&start)).collect();
            assert!(examples.len() >= 2, "{help}");
            for example in examples {
                // As `loopback_first` does.
                let (moved, rest): (Vec<_>, Vec<_>) = example
                    .split_whitespace()
                    .skip(1)
                    .partition(|&word| word == LOOPBACK);
                let words = [&[name.as_str()], &moved[..], &rest].concat();
                if let Err(error) = command.clone().try_get_matches_from(words) {
                    panic!("{example}: {error}");
                }
            }
        }
    }
}
