//! The stack with nothing in it: ZMTP straight on a stream.
//!
//! It is the floor that the other stacks are compared with, and the load
//! generator that is never the bottleneck. There is no queue, no task and no
//! allocation between a message and the stream: a socket here is one future
//! that reads and writes large buffers, in which [`crate::zmtp`] finds the
//! messages where they lie.
//!
//! Any `AsyncRead + AsyncWrite` will do for a stream; binding and connecting
//! belong to the caller. The sockets:
//!
//! | socket | peers | does |
//! |---|---|---|
//! | [`RawReq`] | one [`Connection`] | sends a message, awaits its echo |
//! | [`RawRep`] | any number, through [`Accept`] | echoes |
//! | [`RawPush`] | one [`Connection`] | sends, many messages a write |
//! | [`RawPull`] | any number, through [`Accept`] | receives, many messages a read |
//!
//! A message is what its parts are together: its size is their sum.
//!
//! Any future here may be dropped in the middle. What had been written of a
//! message by then is completed by the next call, so that the peer never sees a
//! torn frame.

mod connection;
mod ends;
mod envelope;
mod error;
mod peers;
mod pull;
mod push;
mod rep;
mod req;

#[cfg(test)]
mod tests;

pub use connection::{Connection, DEFAULT_LIMIT, LINGER, handshake};
pub use ends::{Raw, RawPuller, RawPusher, RawReply, RawRequest, SystemStream};
pub use error::{RawError, WrongSize};
pub use peers::Accept;
pub use pull::RawPull;
pub use push::RawPush;
pub use rep::RawRep;
pub use req::RawReq;
