//! OPC UA over TCP as bytes: the Connection Protocol (Part 6, 7.1) and the
//! Secure Conversation (Part 6, 6.7), for the server and for the stack `raw`.
//!
//! The services' messages and the cryptographic algorithms are those of
//! async-opcua. Its chunks and its channel are not used: they copy every chunk
//! three times, and a peer with a valid signature can make them panic with a
//! wrong padding. Here a chunk is checked, decrypted and decoded in the buffer
//! that the socket filled, and every byte of a peer is distrusted.
//!
//! Only [`frame`] touches a socket; the rest is a pure function of bytes.

pub(crate) mod assembler;
pub(crate) mod channel;
pub(crate) mod frame;
pub(crate) mod message;

use opcua::types::StatusCode;

/// A peer broke the protocol, or what it asks for cannot be.
///
/// Ends the connection; a server says so to its peer first, in an error
/// message (Part 6, 7.1.2.5).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} ({status})")]
pub(crate) struct ProtocolError {
    /// What the peer is told.
    pub(crate) status: StatusCode,
    /// What people are told.
    pub(crate) reason: String,
}

impl ProtocolError {
    pub(crate) fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
        }
    }
}

impl From<opcua::types::Error> for ProtocolError {
    fn from(error: opcua::types::Error) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

/// What one end takes from the other. Nothing that a peer sends can make an
/// end hold more than these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Bytes of one chunk, headers included; at least
    /// [`frame::SMALLEST_CHUNK_LIMIT`].
    pub(crate) chunk_bytes: usize,
    /// Chunks of one message.
    pub(crate) chunks: usize,
    /// Bytes of one message's body.
    pub(crate) message_bytes: usize,
    /// Elements of one array, and nodes of one request.
    pub(crate) array_elements: usize,
    /// Bytes of one string.
    pub(crate) string_bytes: usize,
}

impl Limits {
    /// The options with which async-opcua decodes within these limits.
    pub(crate) fn decoding(&self) -> opcua::types::DecodingOptions {
        opcua::types::DecodingOptions {
            max_message_size: self.message_bytes,
            max_chunk_count: self.chunks,
            max_string_length: self.string_bytes,
            max_byte_string_length: self.string_bytes,
            max_array_length: self.array_elements,
            ..opcua::types::DecodingOptions::default()
        }
    }
}
