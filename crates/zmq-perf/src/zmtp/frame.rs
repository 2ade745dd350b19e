//! Frames: the header in front of each part of a message, and of each command.

use perf_core::units::count;
use thiserror::Error;

/// The longest header of any version, in bytes.
pub const MAX_HEADER: usize = 10;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// How frames are laid out, as the handshake found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// ZMTP 1.0: length, flags, body. The length counts the flags.
    V1,
    /// ZMTP 2.0: flags, length, body. There are no commands.
    V2,
    /// ZMTP 3.x: as 2.0, and commands.
    V3,
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The last part of a message, or its only one.
    Last,
    /// A part of a message, with more to come.
    More,
    /// A command.
    Command,
}

/// The header of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the frame is.
    pub kind: Kind,
    /// Its own length in bytes.
    pub len: usize,
    /// What it claims for the body, in bytes. Nothing has been checked.
    pub body: u64,
}

/// Bytes that are no frame.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Bits in the flags that no version gives a meaning.
    #[error(
        "a frame has reserved flag bits set (flags {0:#04x}): the peer's stream is out of step or not ZMTP"
    )]
    ReservedFlags(u8),
    /// A command that claims to go on in the next frame.
    #[error("a command frame has the MORE bit set")]
    CommandWithMore,
    /// ZMTP 1.0 counts the flags, so 0 cannot be.
    #[error("a ZMTP 1.0 frame has length 0")]
    NoFlags,
    /// More than this end takes.
    #[error("the peer claims {claimed} bytes for one message, this end takes {limit} at most")]
    TooLarge {
        /// Bytes on the wire, headers and earlier parts included.
        claimed: u64,
        /// The most that is taken.
        limit: u64,
    },
    /// A command whose fields do not fit into it.
    #[error("the peer sent {0} command that is cut short")]
    MalformedCommand(&'static str),
}

impl Framing {
    /// Reads the header at the front of `input`; `None` when it is not whole
    /// yet.
    ///
    /// # Errors
    /// The bytes cannot be a header, whatever follows.
    #[inline]
    pub fn header(self, input: &[u8]) -> Result<Option<Header>, FrameError> {
        match self {
            Self::V1 => header_v1(input),
            Self::V2 => header_v2(input, MORE | LONG),
            Self::V3 => header_v2(input, MORE | LONG | COMMAND),
        }
    }

    /// Appends the header of a frame.
    ///
    /// Whether the version has commands is for the caller to know: who only
    /// answers those that come sends none where there are none.
    fn put_header(self, kind: Kind, body: usize, out: &mut Vec<u8>) {
        let flags = match kind {
            Kind::Last => 0,
            Kind::More => MORE,
            Kind::Command => COMMAND,
        };
        match (self, u8::try_from(body)) {
            (Self::V1, Ok(short)) if short < u8::MAX - 1 => {
                out.extend_from_slice(&[short + 1, flags]);
            }
            (Self::V1, _) => {
                out.push(u8::MAX);
                out.extend_from_slice(&(count(body) + 1).to_be_bytes());
                out.push(flags);
            }
            (_, Ok(short)) => out.extend_from_slice(&[flags, short]),
            (_, Err(_)) => {
                out.push(flags | LONG);
                out.extend_from_slice(&count(body).to_be_bytes());
            }
        }
    }
}

/// Appends one frame.
pub fn encode_frame(framing: Framing, kind: Kind, body: &[u8], out: &mut Vec<u8>) {
    out.reserve(MAX_HEADER + body.len());
    framing.put_header(kind, body.len(), out);
    out.extend_from_slice(body);
}

#[inline]
fn header_v2(input: &[u8], known: u8) -> Result<Option<Header>, FrameError> {
    let Some((&flags, rest)) = input.split_first() else {
        return Ok(None);
    };
    if flags & !known != 0 {
        return Err(FrameError::ReservedFlags(flags));
    }
    let kind = match flags & (MORE | COMMAND) {
        0 => Kind::Last,
        MORE => Kind::More,
        COMMAND => Kind::Command,
        _ => return Err(FrameError::CommandWithMore),
    };
    let (len, body) = if flags & LONG == 0 {
        let Some(&body) = rest.first() else {
            return Ok(None);
        };
        (2, u64::from(body))
    } else {
        let Some(body) = rest.first_chunk() else {
            return Ok(None);
        };
        (9, u64::from_be_bytes(*body))
    };
    Ok(Some(Header { kind, len, body }))
}

fn header_v1(input: &[u8]) -> Result<Option<Header>, FrameError> {
    let Some((&first, rest)) = input.split_first() else {
        return Ok(None);
    };
    let (len, claimed, rest) = if first == u8::MAX {
        let Some((claimed, rest)) = rest.split_first_chunk() else {
            return Ok(None);
        };
        (10, u64::from_be_bytes(*claimed), rest)
    } else {
        (2, u64::from(first), rest)
    };
    let Some(body) = claimed.checked_sub(1) else {
        return Err(FrameError::NoFlags);
    };
    let kind = match rest.first() {
        None => return Ok(None),
        Some(0) => Kind::Last,
        Some(&MORE) => Kind::More,
        Some(&flags) => return Err(FrameError::ReservedFlags(flags)),
    };
    Ok(Some(Header { kind, len, body }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(framing: Framing, kind: Kind, body: usize) -> Vec<u8> {
        let mut out = Vec::new();
        framing.put_header(kind, body, &mut out);
        out
    }

    #[test]
    fn headers_are_as_the_rfcs_draw_them() {
        use Framing::{V1, V2, V3};
        use Kind::{Command, Last, More};
        for (framing, kind, body, bytes) in [
            (V3, Last, 0, &[0, 0][..]),
            (V3, More, 255, &[1, 255]),
            (V3, Last, 256, &[2, 0, 0, 0, 0, 0, 0, 1, 0]),
            (V2, More, 65_536, &[3, 0, 0, 0, 0, 0, 1, 0, 0]),
            (V3, Command, 25, &[4, 25]),
            (V3, Command, 256, &[6, 0, 0, 0, 0, 0, 0, 1, 0]),
            (V1, Last, 0, &[1, 0]),
            (V1, More, 253, &[254, 1]),
            (V1, Last, 254, &[255, 0, 0, 0, 0, 0, 0, 0, 255, 0]),
        ] {
            assert_eq!(
                encoded(framing, kind, body),
                bytes,
                "{framing:?} {kind:?} {body}"
            );
            let header = Header {
                kind,
                len: bytes.len(),
                body: count(body),
            };
            assert_eq!(framing.header(bytes), Ok(Some(header)));
            for cut in 0..bytes.len() {
                assert_eq!(
                    framing.header(&bytes[..cut]),
                    Ok(None),
                    "{bytes:?} cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn what_no_version_defines_is_refused() {
        for flags in 8..=255 {
            assert_eq!(
                Framing::V3.header(&[flags]),
                Err(FrameError::ReservedFlags(flags))
            );
        }
        assert_eq!(
            Framing::V2.header(&[4, 0]),
            Err(FrameError::ReservedFlags(4))
        );
        assert_eq!(
            Framing::V3.header(&[5, 0]),
            Err(FrameError::CommandWithMore)
        );
        assert_eq!(Framing::V1.header(&[0, 0]), Err(FrameError::NoFlags));
        assert_eq!(
            Framing::V1.header(&[1, 2]),
            Err(FrameError::ReservedFlags(2))
        );
    }
}
