//! The handshake: from the first byte to the first message.

use std::fmt;

use perf_core::units::count;
use thiserror::Error;

use super::command::{self, Command};
use super::frame::{FrameError, Framing, Kind, encode_frame};
use super::greeting::{self, Opening, SIGNATURE, TAIL};
use super::socket_type::SocketType;

/// The longest command that is taken in a handshake, in bytes. READY carries a
/// socket type, an identity of 255 bytes at most, and the peer's own metadata.
pub const MAX_HANDSHAKE_COMMAND: usize = 8 * 1024;

/// The longest identity (RFC 23).
const MAX_IDENTITY: u64 = 255;

/// The version that two peers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// RFC 13; libzmq 2.x.
    V1,
    /// RFC 15; libzmq 3.x.
    V2,
    /// RFC 23, or RFC 37 when `minor` is not 0; libzmq 4.x.
    V3 {
        /// At most 1, what this end speaks.
        minor: u8,
    },
}

impl Version {
    /// How its frames are laid out.
    #[must_use]
    pub const fn framing(self) -> Framing {
        match self {
            Self::V1 => Framing::V1,
            Self::V2 => Framing::V2,
            Self::V3 { .. } => Framing::V3,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V1 => f.write_str("ZMTP 1.0"),
            Self::V2 => f.write_str("ZMTP 2.0"),
            Self::V3 { minor } => write!(f, "ZMTP 3.{minor}"),
        }
    }
}

/// What a peer has told about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The version to go on in.
    pub version: Version,
    /// Its socket type, which fits this end's. ZMTP 1.0 does not tell it.
    pub socket_type: Option<String>,
    /// Its identity; empty when it is anonymous.
    pub identity: Vec<u8>,
}

/// Why there is no common ground with a peer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// Some other protocol.
    #[error("not a ZMTP greeting (starts with \"{start}\")")]
    NotZmtp {
        /// Its first bytes, 16 at most, escaped.
        start: String,
    },
    /// A version that was never released.
    #[error(
        "the peer's greeting has version byte {0}, which no release of ZMTP has; this end speaks ZMTP 1.0, 2.0 and 3.x"
    )]
    Version(u8),
    /// The peer wants security.
    #[error("the peer's security mechanism is \"{0}\", this end speaks NULL only")]
    Mechanism(String),
    /// The two sockets have nothing to say to each other.
    #[error("a {local} socket cannot talk to a {peer} socket, only to {}", local.peers().join(" or "))]
    SocketType {
        /// This end.
        local: SocketType,
        /// The other.
        peer: String,
    },
    /// READY came without it.
    #[error("the peer's READY command names no Socket-Type")]
    NoSocketType,
    /// The peer gave a reason and gave up.
    #[error("the peer refuses: {0}")]
    Refused(String),
    /// A message, or a command other than READY.
    #[error("the peer sent something else before its READY command")]
    NotReady,
    /// A frame of the handshake is none, or is too large.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// How far a handshake is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It needs more than it was given.
    More {
        /// Bytes of the input that are done with.
        consumed: usize,
    },
    /// It is over, and traffic follows.
    Done {
        /// Bytes of the input that are done with.
        consumed: usize,
        /// Who is there.
        peer: Peer,
    },
}

/// One end of a handshake, as a state machine.
#[derive(Debug)]
pub struct Handshake {
    local: SocketType,
    stage: Stage,
}

/// What is awaited.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// The signature, or an identity of ZMTP 1.0.
    Opening,
    /// The major version.
    Major,
    /// The rest of a greeting of ZMTP 3.x.
    Tail,
    /// The READY command.
    Ready { minor: u8 },
    /// The socket type in a greeting of ZMTP 2.0.
    SocketType,
    /// The identity that ends the greeting of ZMTP 2.0, and is that of 1.0.
    Identity {
        version: Version,
        socket_type: Option<&'static str>,
    },
}

impl Handshake {
    /// Begins: appends this end's first bytes to `out`.
    pub fn new(local: SocketType, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(&SIGNATURE);
        Self {
            local,
            stage: Stage::Opening,
        }
    }

    /// What it waits for, for an error that must tell.
    #[must_use]
    pub const fn awaits(&self) -> &'static str {
        match self.stage {
            Stage::Opening | Stage::Major | Stage::Tail | Stage::SocketType => "its greeting",
            Stage::Ready { .. } => "its READY command",
            Stage::Identity { .. } => "its identity",
        }
    }

    /// Takes `input`, all that has arrived and is not consumed, and appends
    /// what to send to `out`, even when it fails.
    ///
    /// # Errors
    /// There is no going on with this peer, whatever it sends.
    pub fn advance(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Progress, HandshakeError> {
        let mut consumed = 0;
        loop {
            match self.step(&input[consumed..], out)? {
                Step::Starved => return Ok(Progress::More { consumed }),
                Step::Next(stage, len) => {
                    self.stage = stage;
                    consumed += len;
                }
                Step::Done(peer, len) => {
                    consumed += len;
                    return Ok(Progress::Done { consumed, peer });
                }
            }
        }
    }

    fn step(&self, input: &[u8], out: &mut Vec<u8>) -> Result<Step, HandshakeError> {
        match self.stage {
            Stage::Opening => Ok(match greeting::opening(input)? {
                None => Step::Starved,
                Some(Opening::Versioned) => {
                    out.push(greeting::MAJOR);
                    Step::Next(Stage::Major, SIGNATURE.len())
                }
                Some(Opening::Identity) => {
                    let version = Version::V1;
                    let socket_type = None;
                    Step::Next(
                        Stage::Identity {
                            version,
                            socket_type,
                        },
                        0,
                    )
                }
            }),
            Stage::Major => Ok(match input.first() {
                None => Step::Starved,
                Some(1) => {
                    out.push(self.local.number());
                    encode_frame(Framing::V2, Kind::Last, b"", out);
                    Step::Next(Stage::SocketType, 1)
                }
                Some(3..) => {
                    greeting::put_tail(out);
                    Step::Next(Stage::Tail, 1)
                }
                Some(&other) => return Err(HandshakeError::Version(other)),
            }),
            Stage::Tail => {
                let Some(tail) = input.first_chunk() else {
                    return Ok(Step::Starved);
                };
                let minor = greeting::read_tail(tail)?.min(greeting::MINOR);
                command::encode_ready(self.local, out);
                Ok(Step::Next(Stage::Ready { minor }, TAIL))
            }
            Stage::Ready { minor } => self.ready(minor, input, out),
            Stage::SocketType => {
                let Some(&number) = input.first() else {
                    return Ok(Step::Starved);
                };
                let socket_type = SocketType::name_of(number);
                self.check(socket_type.unwrap_or("unknown"))?;
                let version = Version::V2;
                Ok(Step::Next(
                    Stage::Identity {
                        version,
                        socket_type,
                    },
                    1,
                ))
            }
            Stage::Identity {
                version,
                socket_type,
            } => {
                let Some(frame) = whole_frame(version.framing(), input, MAX_IDENTITY)? else {
                    return Ok(Step::Starved);
                };
                if frame.kind != Kind::Last {
                    return Err(HandshakeError::NotReady);
                }
                let peer = Peer {
                    version,
                    socket_type: socket_type.map(str::to_owned),
                    identity: frame.body.to_vec(),
                };
                Ok(Step::Done(peer, frame.len))
            }
        }
    }

    fn ready(&self, minor: u8, input: &[u8], out: &mut Vec<u8>) -> Result<Step, HandshakeError> {
        let limit = count(MAX_HANDSHAKE_COMMAND);
        let Some(frame) = whole_frame(Framing::V3, input, limit)? else {
            return Ok(Step::Starved);
        };
        if frame.kind != Kind::Command {
            return Err(HandshakeError::NotReady);
        }
        let ready = match Command::parse(frame.body)? {
            Command::Ready(ready) => ready,
            Command::Error(reason) => {
                return Err(HandshakeError::Refused(reason.escape_ascii().to_string()));
            }
            Command::Ping { .. } | Command::Other => return Err(HandshakeError::NotReady),
        };
        let mut socket_type = None;
        let mut identity = Vec::new();
        for property in command::properties(ready) {
            let (name, value) = property?;
            // The names of properties are not case-sensitive (RFC 23).
            if name.eq_ignore_ascii_case(b"Socket-Type") {
                socket_type = Some(value.escape_ascii().to_string());
            } else if name.eq_ignore_ascii_case(b"Identity") {
                identity = value.to_vec();
            }
        }
        let socket_type = socket_type.ok_or(HandshakeError::NoSocketType)?;
        self.check(&socket_type).inspect_err(|error| {
            command::encode_error(&error.to_string(), out);
        })?;
        let peer = Peer {
            version: Version::V3 { minor },
            socket_type: Some(socket_type),
            identity,
        };
        Ok(Step::Done(peer, frame.len))
    }

    fn check(&self, peer: &str) -> Result<(), HandshakeError> {
        if self.local.peers().contains(&peer) {
            return Ok(());
        }
        Err(HandshakeError::SocketType {
            local: self.local,
            peer: peer.to_owned(),
        })
    }
}

enum Step {
    Starved,
    Next(Stage, usize),
    Done(Peer, usize),
}

/// A frame that has arrived.
struct Frame<'a> {
    kind: Kind,
    body: &'a [u8],
    /// With its header.
    len: usize,
}

/// The frame at the front of `input`, when it is whole.
fn whole_frame(
    framing: Framing,
    input: &[u8],
    limit: u64,
) -> Result<Option<Frame<'_>>, FrameError> {
    let Some(header) = framing.header(input)? else {
        return Ok(None);
    };
    let claimed = header.body;
    let body = match usize::try_from(claimed) {
        Ok(body) if claimed <= limit => body,
        _ => return Err(FrameError::TooLarge { claimed, limit }),
    };
    let len = header.len + body;
    Ok(input.get(header.len..len).map(|body| Frame {
        kind: header.kind,
        body,
        len,
    }))
}
