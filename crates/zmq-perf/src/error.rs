//! What can end a tool before its time, each as one line that says what was
//! tried, what happened and what to do.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::time::Duration;

use perf_core::exit::Failure;
use perf_core::measure::Halt;
use perf_core::resources::TooFewDescriptors;
use perf_core::runtime::Stop;

use crate::endpoint::Endpoint;
use crate::stack::StackError;

/// A failed measurement.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The runtime or its signal handlers could not be made.
    #[error("cannot start the runtime; are there file descriptors left (ulimit -n)?")]
    Runtime(#[source] io::Error),
    /// `--cpu` for the other end of `--loopback`.
    #[error("{0}")]
    Cpu(Failure),
    /// `--peers` and the system's limit.
    #[error("cannot have {peers} peers")]
    Descriptors {
        /// How many were asked for.
        peers: usize,
        /// What that takes.
        source: TooFewDescriptors,
    },
    /// The own end of the connection.
    #[error("cannot bind {endpoint}")]
    Bind {
        /// What the command line asked for.
        endpoint: Endpoint,
        /// Why not.
        source: StackError,
    },
    /// The way to the other end.
    #[error("cannot connect to {endpoint}")]
    Connect {
        /// What the command line asked for.
        endpoint: Endpoint,
        /// Why not.
        source: StackError,
    },
    /// Nobody came within `--timeout`.
    #[error("no peer at {endpoint} within {}; start the other end, or wait longer with --timeout", human(*.waited))]
    NoPeer {
        /// Where it was waited for.
        endpoint: Endpoint,
        /// How long.
        waited: Duration,
    },
    /// Nothing happened for too long in the middle of the run.
    #[error("the other side at {endpoint} fell silent for {} after {done}; --timeout allows longer pauses", human(*.idle))]
    Silent {
        /// The connection.
        endpoint: Endpoint,
        /// How long.
        idle: Duration,
        /// What was done until then.
        done: Done,
    },
    /// The stack failed in the middle of the run.
    #[error("failed after {done}")]
    Run {
        /// What was done until then.
        done: Done,
        /// Why.
        source: StackError,
    },
    /// The other end of `--loopback`, on its own thread.
    #[error("the other end of --loopback ended early")]
    Loopback,
}

/// How far a run came: `17 of 1000 messages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Operations completed.
    pub completed: u64,
    /// Operations asked for, where a count was.
    pub of: Option<u64>,
    /// What they are.
    pub what: &'static str,
}

impl Display for Done {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.of {
            Some(of) => write!(f, "{} of {of} {}", self.completed, self.what),
            None => write!(f, "{} {}", self.completed, self.what),
        }
    }
}

/// A length of time as a person would say it, to the millisecond.
fn human(duration: Duration) -> humantime::FormattedDuration {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(millis))
}

/// Why an end stopped before it was done.
#[derive(Debug)]
pub enum Ended {
    /// Ctrl-C or SIGTERM, and what was done until then.
    Interrupted(Done),
    /// A failure.
    Failed(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Ended {
    /// While an end waited for its first peer.
    #[must_use]
    pub fn waiting(stop: Stop, endpoint: &Endpoint, done: Done) -> Self {
        match stop {
            Stop::Interrupted => Self::Interrupted(done),
            Stop::Silent { bound: waited, .. } => Self::Failed(Error::NoPeer {
                endpoint: endpoint.clone(),
                waited,
            }),
        }
    }

    /// In the middle of a run.
    #[must_use]
    pub fn running(halt: Halt<StackError>, endpoint: &Endpoint, done: Done) -> Self {
        match halt {
            Halt::Stopped(Stop::Interrupted) => Self::Interrupted(done),
            Halt::Stopped(Stop::Silent { bound: idle, .. }) => Self::Failed(Error::Silent {
                endpoint: endpoint.clone(),
                idle,
                done,
            }),
            Halt::Failed(source) => Self::Failed(Error::Run { done, source }),
        }
    }
}
