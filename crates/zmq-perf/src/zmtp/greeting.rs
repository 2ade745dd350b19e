//! The greeting: the bytes by which two peers find the version they share.
//!
//! ```text
//! byte  0        1..8          9      10     11     12..31     32         33..63
//!       0xff     8 of padding  0x7f   major  minor  mechanism  as-server  zeros
//! ```

use super::handshake::HandshakeError;

/// What every version opens with. To a peer of ZMTP 1.0 it is the header of an
/// empty identity: a long length that counts one byte, and its flags.
pub(super) const SIGNATURE: [u8; 10] = [0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f];

/// This end's major version. It is sent once the peer is known to have one,
/// for to a peer of ZMTP 1.0 it would be the first byte of a message.
pub(super) const MAJOR: u8 = 3;

/// This end's minor version.
pub(super) const MINOR: u8 = 1;

/// The length of what follows the major version in a greeting of ZMTP 3.x.
pub(super) const TAIL: usize = 53;

/// The mechanism is padded to this length with zeros.
const MECHANISM: usize = 20;

/// How many bytes of what is no greeting an error shows.
const SHOWN: usize = 16;

/// What the first bytes of a peer say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// A signature: the version follows.
    Versioned,
    /// An identity of ZMTP 1.0, which has no greeting.
    Identity,
}

/// Reads how a peer opens; `None` when that can't be told yet.
pub(super) fn opening(input: &[u8]) -> Result<Option<Opening>, HandshakeError> {
    let opening = match *input {
        [] | [1..=0xff] => None,
        [0xff, ..] => match input.get(SIGNATURE.len() - 1) {
            None => None,
            Some(0x7f) => Some(Opening::Versioned),
            // The flags of an identity of 254 or 255 bytes.
            Some(0) if input.starts_with(&[0xff, 0, 0, 0, 0, 0, 0]) => Some(Opening::Identity),
            Some(_) => return Err(not_zmtp(input)),
        },
        // An identity is one part, so its flags are 0. No text and no TLS
        // record looks like that.
        [1..=0xfe, 0, ..] => Some(Opening::Identity),
        [..] => return Err(not_zmtp(input)),
    };
    Ok(opening)
}

fn not_zmtp(input: &[u8]) -> HandshakeError {
    let shown = &input[..input.len().min(SHOWN)];
    HandshakeError::NotZmtp {
        start: shown.escape_ascii().to_string(),
    }
}

/// Appends what follows the major version: ZMTP 3.1, NULL, not a server.
pub(super) fn put_tail(out: &mut Vec<u8>) {
    let mut tail = [0; TAIL];
    tail[0] = MINOR;
    tail[1..5].copy_from_slice(b"NULL");
    out.extend_from_slice(&tail);
}

/// Reads what follows the major version of a peer: its minor version.
///
/// The as-server flag and the filler mean nothing with NULL, and are not
/// looked at, as libzmq does not.
pub(super) fn read_tail(tail: &[u8; TAIL]) -> Result<u8, HandshakeError> {
    let mechanism = &tail[1..=MECHANISM];
    let len = mechanism
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    match &mechanism[..len] {
        b"NULL" => Ok(tail[0]),
        other => Err(HandshakeError::Mechanism(other.escape_ascii().to_string())),
    }
}
