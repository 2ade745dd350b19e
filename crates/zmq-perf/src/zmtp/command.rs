//! Commands: READY and ERROR of RFC 23, PING and PONG of RFC 37.

use super::frame::{FrameError, Framing, Kind, encode_frame};
use super::socket_type::SocketType;

/// The body of a command frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// The peer's properties: name and value, one after the other.
    Ready(&'a [u8]),
    /// Why the peer gives up.
    Error(&'a [u8]),
    /// Wants its context back in a PONG.
    Ping {
        /// At most 16 bytes (RFC 37).
        context: &'a [u8],
    },
    /// SUBSCRIBE, CANCEL, PONG, and what later versions may add: nothing that
    /// REQ, REP, PUSH or PULL act upon.
    Other,
}

/// The most that a PING may ask to have returned, in bytes.
const MAX_CONTEXT: usize = 16;

impl<'a> Command<'a> {
    /// Reads the body of a command frame.
    ///
    /// # Errors
    /// [`FrameError::MalformedCommand`]: a field is longer than what is left.
    pub fn parse(body: &'a [u8]) -> Result<Self, FrameError> {
        let (name, rest) = short_field(body).ok_or(FrameError::MalformedCommand("a nameless"))?;
        Ok(match name {
            b"READY" => Self::Ready(rest),
            b"ERROR" => {
                let (reason, _) =
                    short_field(rest).ok_or(FrameError::MalformedCommand("an ERROR"))?;
                Self::Error(reason)
            }
            // The time to live in front says when the peer may give us up for
            // dead; a load generator is never silent by choice.
            b"PING" => match rest.split_first_chunk::<2>() {
                Some((_, context)) if context.len() <= MAX_CONTEXT => Self::Ping { context },
                _ => return Err(FrameError::MalformedCommand("a PING")),
            },
            _ => Self::Other,
        })
    }
}

/// Appends the READY command of an anonymous socket.
pub(super) fn encode_ready(local: SocketType, out: &mut Vec<u8>) {
    let mut body = b"\x05READY".to_vec();
    put_property(b"Socket-Type", local.name().as_bytes(), &mut body);
    if local == SocketType::Req {
        // libzmq's DEALER, REQ and ROUTER always name themselves, if only with
        // nothing; some peers expect it of a REQ.
        put_property(b"Identity", b"", &mut body);
    }
    encode_frame(Framing::V3, Kind::Command, &body, out);
}

/// Appends an ERROR command. Only the first 255 bytes of `reason` fit.
pub(super) fn encode_error(reason: &str, out: &mut Vec<u8>) {
    let reason = &reason.as_bytes()[..reason.len().min(usize::from(u8::MAX))];
    let mut body = b"\x05ERROR".to_vec();
    body.push(u8::try_from(reason.len()).unwrap_or(u8::MAX));
    body.extend_from_slice(reason);
    encode_frame(Framing::V3, Kind::Command, &body, out);
}

/// Appends the answer to a PING.
pub fn encode_pong(context: &[u8], out: &mut Vec<u8>) {
    let mut body = [0; 5 + MAX_CONTEXT];
    body[..5].copy_from_slice(b"\x04PONG");
    let len = context.len().min(MAX_CONTEXT);
    body[5..5 + len].copy_from_slice(&context[..len]);
    encode_frame(Framing::V3, Kind::Command, &body[..5 + len], out);
}

fn put_property(name: &[u8], value: &[u8], body: &mut Vec<u8>) {
    body.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    body.extend_from_slice(name);
    body.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_be_bytes());
    body.extend_from_slice(value);
}

/// The properties in a READY command: name and value, in order.
pub(super) fn properties(
    mut body: &[u8],
) -> impl Iterator<Item = Result<(&[u8], &[u8]), FrameError>> {
    std::iter::from_fn(move || {
        if body.is_empty() {
            return None;
        }
        let property = split_property(body).ok_or(FrameError::MalformedCommand("a READY"));
        Some(property.map(|(name, value, rest)| {
            body = rest;
            (name, value)
        }))
    })
}

fn split_property(body: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (name, rest) = short_field(body)?;
    let (len, rest) = rest.split_first_chunk()?;
    let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
    let (value, rest) = rest.split_at_checked(len)?;
    Some((name, value, rest))
}

/// A field with its length in one byte in front, and what follows it.
fn short_field(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = body.split_first()?;
    rest.split_at_checked(usize::from(len))
}
