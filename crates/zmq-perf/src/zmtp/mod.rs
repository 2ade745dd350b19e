//! ZMTP, the wire protocol of ZeroMQ: a pure function of bytes.
//!
//! Nothing here knows a socket, a runtime or a clock. [`Handshake`] and
//! [`Decoder`] are fed what arrived and tell what to send; [`crate::stack::raw`]
//! puts them on a stream.
//!
//! | version | source | peers | here |
//! |---|---|---|---|
//! | 3.1, 3.0 | RFC 37, RFC 23 | libzmq 4.x | with the NULL mechanism |
//! | 2.0 | RFC 15 | libzmq 3.x | spoken when the peer does |
//! | 1.0 | RFC 13 | libzmq 2.x | spoken when the peer does |
//!
//! Later major versions fall back to 3.1, as RFC 23 asks of them. The envelopes
//! of REQ and REP are those of RFC 28.

mod command;
mod decoder;
mod frame;
mod greeting;
mod handshake;
mod socket_type;

#[cfg(test)]
mod tests;

pub use command::{Command, encode_pong};
pub use decoder::{Decoder, Item, Message, Parts};
pub use frame::{FrameError, Framing, Header, Kind, MAX_HEADER, encode_frame};
pub use handshake::{Handshake, HandshakeError, MAX_HANDSHAKE_COMMAND, Peer, Progress, Version};
pub use socket_type::SocketType;
