//! The stacks: the software under test that carries the message.
//!
//! One file a stack, and nothing else names its crate. A stack gives four
//! kinds of ends, as traits with static dispatch, so that the timed loop is
//! compiled for each of them.

pub mod channel;
#[cfg(feature = "omq")]
pub mod omq;
pub mod raw;
pub mod zeromq;

use std::future::Future;
use std::sync::Arc;

use perf_core::load::Progress;
use perf_core::report;

use crate::curve::Keys;
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
    /// The keys of CURVE, where it is asked for.
    pub curve: Option<Keys>,
    /// How many connections there are to be.
    pub peers: usize,
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

    /// How many requests of each peer were answered, where the stack tells.
    fn shares(&self) -> &[u64] {
        &[]
    }

    /// Closes; returns when the last reply has left. Nothing to do where
    /// [`Reply::serve`] returns no earlier than that.
    fn finish(self) -> impl Future<Output = Step<()>> {
        async { Ok(()) }
    }
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

    /// How many messages came from each peer, where the stack tells.
    fn shares(&self) -> &[u64] {
        &[]
    }
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
    /// The crate omq-tokio; also inproc and CURVE
    Omq,
    /// Nothing but the transport itself: the floor under the others
    Raw,
}

/// Why a stack cannot do what is asked; names the one that can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// inproc on zeromq.
    #[error("inproc:// needs --stack omq or raw: the zeromq crate has no inproc transport")]
    ZeromqInproc,
    /// CURVE on zeromq.
    #[error("CURVE needs --stack omq: the zeromq crate has no CURVE")]
    ZeromqCurve,
    /// CURVE on raw.
    #[error("CURVE needs --stack omq: raw speaks the NULL mechanism only")]
    RawCurve,
    /// A proxy on another stack.
    #[error("proxy_thr needs --stack omq: the others have no XPUB and XSUB over inproc")]
    Proxy,
    /// A build without the feature.
    #[error(
        "this program was built without --stack omq; build it with the cargo feature omq, which is on by default"
    )]
    NoOmq,
}

/// What carries the messages: a stack by name may be made of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// `zeromq`
    Zeromq,
    /// `omq`
    #[cfg(feature = "omq")]
    Omq,
    /// `raw` between processes
    Raw,
    /// `raw` within one process
    Channel,
}

impl Carrier {
    /// The carrier of a stack, or of the default one, for an endpoint.
    ///
    /// # Errors
    /// When the stack cannot do that.
    pub fn choose(
        stack: Option<StackName>,
        endpoint: &Endpoint,
        curve: bool,
    ) -> Result<Self, Refusal> {
        let inproc = matches!(endpoint, Endpoint::Inproc(_));
        match stack {
            None if inproc || curve => Self::omq(),
            Some(StackName::Omq) => Self::omq(),
            Some(StackName::Zeromq) if inproc => Err(Refusal::ZeromqInproc),
            Some(StackName::Zeromq) if curve => Err(Refusal::ZeromqCurve),
            None | Some(StackName::Zeromq) => Ok(Self::Zeromq),
            Some(StackName::Raw) if curve => Err(Refusal::RawCurve),
            Some(StackName::Raw) if inproc => Ok(Self::Channel),
            Some(StackName::Raw) => Ok(Self::Raw),
        }
    }

    #[cfg(feature = "omq")]
    #[expect(
        clippy::unnecessary_wraps,
        reason = "a build without the feature has none"
    )]
    const fn omq() -> Result<Self, Refusal> {
        Ok(Self::Omq)
    }

    #[cfg(not(feature = "omq"))]
    const fn omq() -> Result<Self, Refusal> {
        Err(Refusal::NoOmq)
    }

    /// The stack as a report shows it.
    #[must_use]
    pub const fn describe(self) -> report::Stack {
        let (name, crate_name, version) = match self {
            Self::Zeromq => ("zeromq", "zeromq", zeromq::VERSION),
            #[cfg(feature = "omq")]
            Self::Omq => ("omq", "omq-tokio", omq::VERSION),
            Self::Raw => ("raw", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
            Self::Channel => ("raw", "tokio", channel::VERSION),
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
    ($carrier:expr, $stack:ident => $body:expr) => {
        match $carrier {
            $crate::stack::Carrier::Zeromq => {
                type $stack = $crate::stack::zeromq::Zeromq;
                $body
            }
            #[cfg(feature = "omq")]
            $crate::stack::Carrier::Omq => {
                type $stack = $crate::stack::omq::Omq;
                $body
            }
            $crate::stack::Carrier::Raw => {
                type $stack = $crate::stack::raw::Raw;
                $body
            }
            $crate::stack::Carrier::Channel => {
                type $stack = $crate::stack::channel::Channel;
                $body
            }
        }
    };
}
pub(crate) use on_stack;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn choose(stack: Option<StackName>, endpoint: &str, curve: bool) -> Result<Carrier, Refusal> {
        Carrier::choose(stack, &endpoint.parse().unwrap(), curve)
    }

    #[test]
    fn what_a_stack_cannot_do_is_refused() {
        use StackName::{Raw, Zeromq};
        let (tcp, inproc) = ("tcp://*:*", "inproc://a");
        for (stack, endpoint, curve, refusal) in [
            (Zeromq, inproc, false, Refusal::ZeromqInproc),
            (Zeromq, tcp, true, Refusal::ZeromqCurve),
            (Raw, tcp, true, Refusal::RawCurve),
        ] {
            assert_eq!(choose(Some(stack), endpoint, curve), Err(refusal));
        }
        assert_eq!(choose(Some(Raw), inproc, false), Ok(Carrier::Channel));
        assert_eq!(choose(Some(Raw), tcp, false), Ok(Carrier::Raw));
    }

    #[test]
    fn the_default_is_the_stack_that_can() {
        assert_eq!(choose(None, "tcp://*:*", false), Ok(Carrier::Zeromq));
        assert_eq!(choose(None, "ipc://*", false), Ok(Carrier::Zeromq));
        #[cfg(feature = "omq")]
        let capable = Ok(Carrier::Omq);
        #[cfg(not(feature = "omq"))]
        let capable = Err(Refusal::NoOmq);
        assert_eq!(choose(None, "inproc://a", false), capable);
        assert_eq!(choose(None, "tcp://*:*", true), capable);
    }

    #[test]
    fn the_versions_are_those_of_the_lock_file() {
        // The workspace's, or in a package its own.
        let lock = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .find_map(|folder| std::fs::read_to_string(folder.join("Cargo.lock")).ok())
            .unwrap();
        for (name, version) in [
            ("zeromq", zeromq::VERSION),
            #[cfg(feature = "omq")]
            ("omq-tokio", omq::VERSION),
            ("tokio", channel::VERSION),
        ] {
            let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
            assert!(lock.contains(&entry), "{entry}");
        }
    }
}
