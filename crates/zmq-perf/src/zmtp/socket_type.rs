//! The socket types that talk here, and whom they may talk to.

use std::fmt;

/// A socket type that this end can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SocketType {
    /// Sends a request, awaits its reply.
    Req,
    /// Replies to requests.
    Rep,
    /// Sends and never receives.
    Push,
    /// Receives and never sends.
    Pull,
}

/// The names on the wire, at the place of their number in ZMTP 2.0 (RFC 15,
/// and what libzmq 3.x made of it for XPUB and XSUB).
const NAMES: [&str; 11] = [
    "PAIR", "PUB", "SUB", "REQ", "REP", "DEALER", "ROUTER", "PULL", "PUSH", "XPUB", "XSUB",
];

impl SocketType {
    /// The name in the READY command.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Req => "REQ",
            Self::Rep => "REP",
            Self::Push => "PUSH",
            Self::Pull => "PULL",
        }
    }

    /// The names of the socket types that it may talk to (RFC 23, 28 and 30).
    #[must_use]
    pub const fn peers(self) -> &'static [&'static str] {
        match self {
            Self::Req => &["REP", "ROUTER"],
            Self::Rep => &["REQ", "DEALER"],
            Self::Push => &["PULL"],
            Self::Pull => &["PUSH"],
        }
    }

    /// The number in a greeting of ZMTP 2.0.
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Req => 3,
            Self::Rep => 4,
            Self::Pull => 7,
            Self::Push => 8,
        }
    }

    /// The name that belongs to a number of ZMTP 2.0.
    pub(super) fn name_of(number: u8) -> Option<&'static str> {
        NAMES.get(usize::from(number)).copied()
    }
}

impl fmt::Display for SocketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_its_name_belong_together() {
        for socket_type in [
            SocketType::Req,
            SocketType::Rep,
            SocketType::Push,
            SocketType::Pull,
        ] {
            assert_eq!(
                SocketType::name_of(socket_type.number()),
                Some(socket_type.name())
            );
        }
        assert_eq!(SocketType::name_of(11), None);
    }
}
