//! The stacks: the software under test that carries the message.
//!
//! One file a stack, and nothing else names its crate. A stack gives four
//! kinds of ends, as traits with static dispatch, so that the timed loop is
//! compiled for each of them.

pub mod raw;
pub mod zeromq;

use std::future::Future;
use std::sync::Arc;

use perf_core::load::Progress;
use perf_core::report;

use crate::endpoint::Endpoint;
use crate::stamp::{Fill, Visit};
use crate::transport::TransportError;

/// The largest message: upstream's tools take the size as a C `int`.
pub const MESSAGE_SIZE_MAX: u64 = 0x7fff_ffff;

/// What an end has to know before it opens.
#[derive(Debug, Clone)]
pub struct Socket {
    /// The tool's name, which begins each of its lines on stderr.
    pub tool: &'static str,
    /// Where to bind or connect.
    pub endpoint: Endpoint,
    /// The payload of each message, in bytes.
    pub size: usize,
}

/// What goes wrong inside a stack.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The endpoint cannot be bound or reached.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The stack has no way to do that.
    #[error("{0}")]
    Unsupported(String),
    /// The peer speaks something else, or is the wrong kind of socket.
    #[error("the other side is no fitting ZeroMQ peer ({0}); run the matching tool there")]
    NoFit(String),
    /// The last peer has closed its connection.
    #[error("the other side closed the connection")]
    PeerClosed,
    /// A message of another size than agreed.
    #[error("a message of {got} bytes instead of {expected}; give both ends the same message size")]
    WrongSize {
        /// The size that this end was told.
        expected: usize,
        /// The size that came.
        got: usize,
    },
    /// Anything else that the stack reports.
    #[error("the stack failed ({0})")]
    Stack(String),
}

/// Refuses a payload of another size.
///
/// # Errors
/// [`StackError::WrongSize`].
#[inline]
pub fn check_size(expected: usize, got: usize) -> Result<(), StackError> {
    if expected == got {
        Ok(())
    } else {
        Err(StackError::WrongSize { expected, got })
    }
}

/// The result of a step of a stack.
pub type Step<T> = Result<T, StackError>;

/// A REQ socket that is connected and holds its message.
pub trait Request: Sized {
    /// Connects, however late the peer starts, until it is ready to carry.
    fn connect(socket: &Socket) -> impl Future<Output = Step<Self>>;

    /// Sends the message and takes the reply, which is the next message.
    fn round_trip(&mut self) -> impl Future<Output = Step<()>>;
}

/// A REP socket that is bound.
pub trait Reply: Sized {
    /// Binds; returns where.
    fn bind(socket: &Socket) -> impl Future<Output = Step<(Self, Endpoint)>>;

    /// Takes a request and sends it back.
    fn serve(&mut self) -> impl Future<Output = Step<()>>;
}

/// A PUSH socket that is connected.
pub trait Push: Sized {
    /// Connects, however late the peer starts, until it is ready to carry.
    fn connect(socket: &Socket) -> impl Future<Output = Step<Self>>;

    /// Sends at least one and `at_most` messages; says how many. Waits where
    /// the peer is slow.
    fn push(&mut self, at_most: u64, fill: &mut impl Fill) -> impl Future<Output = Step<u64>>;

    /// What moves while [`Push::finish`] waits: a counter of what has left.
    fn left(&self) -> Arc<Progress>;

    /// Closes; returns when the last byte has left for the peer's system.
    fn finish(self) -> impl Future<Output = Step<()>>;
}

/// A PULL socket that is bound.
pub trait Pull: Sized {
    /// Binds; returns where.
    fn bind(socket: &Socket) -> impl Future<Output = Step<(Self, Endpoint)>>;

    /// Receives at least one and `at_most` messages, and has each looked at;
    /// says how many.
    fn pull(&mut self, at_most: u64, visit: &mut impl Visit) -> impl Future<Output = Step<u64>>;
}

/// The four ends of a stack.
pub trait Stack: 'static {
    /// REQ
    type Request: Request;
    /// REP
    type Reply: Reply;
    /// PUSH
    type Push: Push;
    /// PULL
    type Pull: Pull;
}

/// The stacks by name, as `--stack` takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum StackName {
    /// The crate zeromq, the official one
    Zeromq,
    /// ZMTP straight on the system's streams: the floor
    Raw,
}

impl StackName {
    /// The stack as a report shows it.
    #[must_use]
    pub fn describe(self) -> report::Stack {
        let (name, crate_name, version) = match self {
            Self::Zeromq => ("zeromq", "zeromq", zeromq::VERSION),
            Self::Raw => ("raw", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
        };
        report::Stack {
            name,
            crate_name,
            version,
        }
    }
}

/// Evaluates an expression with a type that stands for the chosen stack, once
/// for each stack.
macro_rules! on_stack {
    ($name:expr, $stack:ident => $body:expr) => {
        match $name {
            $crate::stack::StackName::Zeromq => {
                type $stack = $crate::stack::zeromq::Zeromq;
                $body
            }
            $crate::stack::StackName::Raw => {
                type $stack = $crate::stack::raw::Raw;
                $body
            }
        }
    };
}
pub(crate) use on_stack;
