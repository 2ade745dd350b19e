//! The command lines of the tools, and each tool from its arguments to its
//! exit code.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser};
use perf_core::cli::{duration, note, number_up_to, positive_count, print, run_main};
use perf_core::exit::{Exit, Failure};
use perf_core::runtime::{Interrupt, Wait, current_thread, run_to_end};
use perf_core::summary::Throughput;

use crate::endpoint::{Endpoint, ParseError};
use crate::error::{Ended, Error};
use crate::latency;
use crate::libzmq_text;
use crate::loopback;
use crate::session::Patience;
use crate::stack::zeromq::Zeromq;
use crate::stack::{MESSAGE_SIZE_MAX, Socket};
use crate::throughput;

/// The flag that stands where the endpoint would stand.
const LOOPBACK: &str = "--loopback";

/// Where the other end is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// Somewhere else.
    Endpoint(Endpoint),
    /// On a thread of this process.
    Loopback,
}

impl Target {
    /// Where the measuring end binds or connects to; a loopback's other end
    /// is bound to a free port, which replaces this one.
    fn endpoint(&self) -> Result<Endpoint, Failure> {
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

/// Flags that every tool has.
#[derive(Debug, Args)]
struct Common {
    /// How long to wait for the other end, and for each of its messages
    ///
    /// Without it the tool waits for its peer without end, as upstream does,
    /// and gives up 10 s after the peer fell silent in the middle of the run.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
}

/// Sends messages back: one end of a latency measurement.
#[derive(Debug, Parser)]
#[command(name = "local_lat", version)]
pub struct LocalLat {
    /// Where to bind, for example `tcp://*:5555`, `tcp://eth0:5555` or `ipc:///tmp/lat`
    #[arg(value_name = "bind-to")]
    endpoint: Endpoint,
    #[command(flatten)]
    load: LatencyLoad,
    #[command(flatten)]
    common: Common,
}

/// Measures latency: half the time that a message takes there and back.
#[derive(Debug, Parser)]
#[command(name = "remote_lat", version)]
pub struct RemoteLat {
    /// Where the other end is bound, or --loopback: start it in this process
    #[arg(value_name = "connect-to", value_parser = target, allow_hyphen_values = true)]
    target: Target,
    #[command(flatten)]
    load: LatencyLoad,
    #[command(flatten)]
    common: Common,
}

/// What the two ends of a latency measurement must agree on.
#[derive(Debug, Clone, Copy, Args)]
struct LatencyLoad {
    /// Bytes of payload in each message
    #[arg(value_name = "message-size", value_parser = message_size)]
    size: usize,
    /// How often a message goes there and back
    #[arg(value_name = "roundtrip-count", value_parser = positive_count)]
    count: NonZeroU64,
}

/// Receives a flood of messages and measures its throughput.
#[derive(Debug, Parser)]
#[command(name = "local_thr", version)]
pub struct LocalThr {
    /// Where to bind, or --loopback: start the other end in this process
    #[arg(value_name = "bind-to", value_parser = target, allow_hyphen_values = true)]
    target: Target,
    #[command(flatten)]
    load: ThroughputLoad,
    #[command(flatten)]
    common: Common,
}

/// Sends a flood of messages: one end of a throughput measurement.
#[derive(Debug, Parser)]
#[command(name = "remote_thr", version)]
pub struct RemoteThr {
    /// Where the other end is bound
    #[arg(value_name = "connect-to")]
    endpoint: Endpoint,
    #[command(flatten)]
    load: ThroughputLoad,
    #[command(flatten)]
    common: Common,
}

/// What the two ends of a throughput measurement must agree on.
#[derive(Debug, Clone, Copy, Args)]
struct ThroughputLoad {
    /// Bytes of payload in each message
    #[arg(value_name = "message-size", value_parser = message_size)]
    size: usize,
    /// How many messages
    #[arg(value_name = "message-count", value_parser = positive_count)]
    count: NonZeroU64,
    /// 1: encrypt with CURVE, which the zeromq crate does not carry
    #[arg(value_name = "enable_curve", value_parser = enable_curve, default_value = "0", hide_default_value = true)]
    curve: bool,
}

impl ThroughputLoad {
    fn check(&self) -> Result<(), Failure> {
        if self.curve {
            return Err(Failure::usage("the zeromq crate has no CURVE"));
        }
        Ok(())
    }
}

/// The arguments of the process, with [`LOOPBACK`] moved to where the endpoint
/// stands.
fn loopback_first() -> Vec<OsString> {
    let mut arguments = std::env::args_os();
    let tool = arguments.next();
    let (moved, rest): (Vec<_>, Vec<_>) = arguments.partition(|argument| argument == LOOPBACK);
    tool.into_iter().chain(moved).chain(rest).collect()
}

/// The program `local_lat`.
#[must_use]
pub fn local_lat() -> ExitCode {
    run_main(std::env::args_os(), |args: LocalLat| {
        let count = args.load.count;
        let end = End::new("local_lat", args.endpoint, args.load.size, &args.common);
        let served = end.run(async |socket, patience| {
            latency::reply::<Zeromq>(socket, count, patience, |_| ()).await
        });
        end.conclude(served.map(|()| (None, None)))
    })
}

/// The program `remote_lat`.
#[must_use]
pub fn remote_lat() -> ExitCode {
    run_main(loopback_first(), |args: RemoteLat| {
        let LatencyLoad { size, count } = args.load;
        let end = End::new("remote_lat", args.target.endpoint()?, size, &args.common);
        let measured = end.run(async |socket, patience| match args.target {
            Target::Endpoint(_) => latency::request::<Zeromq>(socket, count, patience).await,
            Target::Loopback => latency::loopback::<Zeromq>(socket, count, patience).await,
        });
        end.conclude(measured.map(|(trips, ended)| {
            let completed = trips.measurement.completed;
            let text = libzmq_text::latency(size, completed, trips.latency());
            ((completed > 0).then_some(text), ended)
        }))
    })
}

/// The program `local_thr`.
#[must_use]
pub fn local_thr() -> ExitCode {
    run_main(loopback_first(), |args: LocalThr| {
        let ThroughputLoad { size, count, .. } = args.load;
        args.load.check()?;
        let end = End::new("local_thr", args.target.endpoint()?, size, &args.common);
        let measured = end.run(async |socket, patience| match args.target {
            Target::Endpoint(_) => {
                throughput::receive::<Zeromq>(socket, count, patience, |_| Ok(())).await
            }
            Target::Loopback => throughput::loopback::<Zeromq>(socket, count, patience).await,
        });
        end.conclude(measured.map(|(messages, ended)| {
            let rate = Throughput::new(&messages.measurement, perf_core::units::count(size));
            if rate.msgs_per_s.is_none() {
                note(
                    end.tool(),
                    &"one message alone has no throughput; the lines show 0",
                );
            }
            let text = libzmq_text::throughput_header(size, messages.received)
                + &libzmq_text::throughput(&rate);
            (Some(text), ended)
        }))
    })
}

/// The program `remote_thr`.
#[must_use]
pub fn remote_thr() -> ExitCode {
    run_main(std::env::args_os(), |args: RemoteThr| {
        let ThroughputLoad { size, count, .. } = args.load;
        args.load.check()?;
        let end = End::new("remote_thr", args.endpoint, size, &args.common);
        let sent = end.run(async |socket, patience| {
            throughput::send::<Zeromq>(socket, count, patience).await
        });
        end.conclude(sent.map(|()| (None, None)))
    })
}

/// One end of a measurement, as the command line describes it.
struct End {
    socket: Socket,
    timeout: Option<Duration>,
}

/// What is printed on stdout, and why the run is not whole.
type Conclusion = (Option<String>, Option<Ended>);

impl End {
    fn new(tool: &'static str, endpoint: Endpoint, size: usize, common: &Common) -> Self {
        Self {
            socket: Socket {
                tool,
                endpoint,
                size,
            },
            timeout: common.timeout,
        }
    }

    const fn tool(&self) -> &'static str {
        self.socket.tool
    }

    /// Runs the end on a runtime of its own, which takes over the signals.
    fn run<T>(
        &self,
        work: impl AsyncFnOnce(&Socket, &Patience) -> Result<T, Ended>,
    ) -> Result<T, Ended> {
        let runtime = current_thread(Wait::Sleep).map_err(Error::Runtime)?;
        run_to_end(runtime, async {
            let patience = Patience {
                interrupt: Interrupt::install().map_err(Error::Runtime)?,
                timeout: self.timeout,
            };
            work(&self.socket, &patience).await
        })
    }

    /// Prints what was measured, whole or not, and says how the tool exits.
    fn conclude(&self, result: Result<Conclusion, Ended>) -> Result<Exit, Failure> {
        let (text, ended) = result.unwrap_or_else(|ended| (None, Some(ended)));
        if let Some(text) = text {
            print(&text)?;
        }
        match ended {
            None => Ok(Exit::Success),
            Some(Ended::Interrupted(done)) => {
                note(self.tool(), &format!("interrupted after {done}"));
                Ok(Exit::Interrupted)
            }
            Some(Ended::Failed(error)) => Err(error.into()),
        }
    }
}
