//! What can go wrong on a raw socket.

use std::io;

use thiserror::Error;

use crate::zmtp::{FrameError, HandshakeError};

/// A message of another size than agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "message of {got} bytes received, {expected} bytes expected: give both ends the same message size"
)]
pub struct WrongSize {
    /// What this end was told.
    pub expected: usize,
    /// What came.
    pub got: usize,
}

impl WrongSize {
    /// Compares.
    ///
    /// # Errors
    /// They differ.
    pub const fn check(expected: usize, got: usize) -> Result<(), Self> {
        if expected == got {
            Ok(())
        } else {
            Err(Self { expected, got })
        }
    }
}

/// Why a raw socket could not go on.
#[derive(Debug, Error)]
pub enum RawError {
    /// The peer and this end found no common ground.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// What the peer sends is not ZMTP, or too large.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message of another size than agreed.
    #[error(transparent)]
    WrongSize(#[from] WrongSize),
    /// The stream broke.
    #[error("the connection broke")]
    Io(#[source] io::Error),
    /// No new connection could be accepted.
    #[error("cannot accept a connection; are there file descriptors left (ulimit -n)?")]
    Accept(#[source] io::Error),
    /// The stream broke during the handshake.
    #[error("the connection broke during the handshake")]
    HandshakeIo(#[source] io::Error),
    /// The peer went away during the handshake.
    #[error("the peer closed the connection before {0} was complete")]
    ClosedInHandshake(&'static str),
    /// The peer went away where more had to come.
    #[error("the peer closed the connection in the middle of a message")]
    ClosedInMessage,
    /// The peer went away, and there is no other.
    #[error("the peer closed the connection")]
    Closed,
    /// A request or a reply without the empty part that ends its envelope.
    #[error(
        "the peer's message has no empty part in front of its body, as REQ and REP need (RFC 28)"
    )]
    NoEnvelope,
    /// A message where this pattern has none.
    #[error("the peer sent a message that nothing here has asked for")]
    Unasked,
    /// An ERROR command in the middle of traffic.
    #[error("the peer gives up: {0}")]
    PeerError(String),
}

impl RawError {
    /// Whether it tells of a peer that was not let in: its handshake failed.
    ///
    /// A bound socket goes on without it.
    #[must_use]
    pub const fn is_stranger(&self) -> bool {
        matches!(
            self,
            Self::Handshake(_) | Self::HandshakeIo(_) | Self::ClosedInHandshake(_)
        )
    }
}
