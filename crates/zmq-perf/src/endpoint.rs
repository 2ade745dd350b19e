//! Endpoints as libzmq takes them, parsed once into a type.
//!
//! `tcp://127.0.0.1:5555`, `tcp://[::1]:5555`, `tcp://eth0:5555` (an interface,
//! to bind), `tcp://host.example:5555`, `tcp://*:5555`, `tcp://127.0.0.1:*`,
//! `ipc:///tmp/socket`, `ipc://*`, `inproc://name`. Source: the manual pages
//! `zmq_tcp`, `zmq_ipc` and `zmq_inproc` of libzmq 4.3. Nothing here asks the
//! system; that is the room `transport`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where one end binds or connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// `tcp://HOST:PORT`
    Tcp {
        /// The part before the last colon.
        host: Host,
        /// The part behind it.
        port: Port,
    },
    /// `ipc://PATH`
    Ipc(IpcName),
    /// `inproc://NAME`: two threads of one process.
    Inproc(String),
}

/// The host of a tcp endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// `*`: every IPv4 interface, to bind.
    Any,
    /// An address; IPv6 in brackets.
    Ip(IpAddr),
    /// `[fe80::1%eth0]`: an address that only means something on one interface.
    Scoped(Ipv6Addr, String),
    /// The name of an interface (to bind) or of a host.
    Name(String),
}

/// The port of a tcp endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// `*` or `0`: any free port, to bind.
    Any,
    /// A port.
    Number(NonZeroU16),
}

/// The name of an ipc endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IpcName {
    /// `*`: a fresh path in the system's directory for temporary files.
    Any,
    /// A path in the file system, relative or absolute.
    Path(PathBuf),
}

/// The longest path of a Unix socket, in bytes, without the ending NUL:
/// `sizeof(sockaddr_un.sun_path) - 1`.
pub const IPC_PATH_MAX: usize = if cfg!(any(target_os = "linux", target_os = "android", windows)) {
    107
} else {
    103
};

/// Why a text is no endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// No `transport://` at the start.
    #[error("no transport; write tcp://HOST:PORT, ipc://PATH or inproc://NAME")]
    NoTransport,
    /// A transport that libzmq may have and these tools do not.
    #[error("unknown transport {0:?}; there are tcp, ipc and inproc")]
    UnknownTransport(String),
    /// No `:PORT` at the end.
    #[error("no port; write tcp://HOST:PORT, for example tcp://{0}:5555")]
    NoPort(String),
    /// A port that is no port.
    #[error("{0:?} is no port; write a number from 1 to 65535, or * for any free port")]
    BadPort(String),
    /// Nothing before the colon.
    #[error("no host; write tcp://HOST:PORT, or tcp://*:PORT to bind to every interface")]
    NoHost,
    /// A host that can be no host.
    #[error("{0:?} is no host; write a name, an IPv4 address, an IPv6 address in [brackets], or *")]
    BadHost(String),
    /// libzmq's `tcp://SOURCE;DESTINATION`.
    #[error("a source address ({0:?}) cannot be chosen; leave it and the semicolon out")]
    SourceAddress(String),
    /// Nothing behind `ipc://` or `inproc://`.
    #[error("no name behind {0}://")]
    NoName(&'static str),
    /// Longer than the system allows.
    #[error("the path has {length} bytes; the system's limit for a socket is {IPC_PATH_MAX}")]
    PathTooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// Linux's abstract namespace, which the Rust crates cannot name.
    #[error("abstract names (ipc://@...) are not carried; use a path")]
    AbstractName,
    /// A NUL or another control character.
    #[error("a control character in the endpoint")]
    ControlCharacter,
}

impl FromStr for Endpoint {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.chars().any(char::is_control) {
            return Err(ParseError::ControlCharacter);
        }
        let (transport, address) = text.split_once("://").ok_or(ParseError::NoTransport)?;
        match transport {
            "tcp" => parse_tcp(address),
            "ipc" => parse_ipc(address).map(Self::Ipc),
            "inproc" if address.is_empty() => Err(ParseError::NoName("inproc")),
            "inproc" => Ok(Self::Inproc(address.to_owned())),
            other => Err(ParseError::UnknownTransport(other.to_owned())),
        }
    }
}

fn parse_tcp(address: &str) -> Result<Endpoint, ParseError> {
    if let Some((source, _)) = address.split_once(';') {
        return Err(ParseError::SourceAddress(source.to_owned()));
    }
    // A colon inside brackets belongs to the address.
    let tail = address.rfind(']').map_or(0, |bracket| bracket + 1);
    let Some(colon) = address[tail..].rfind(':').map(|at| tail + at) else {
        return Err(match address {
            "" => ParseError::NoHost,
            host => ParseError::NoPort(host.to_owned()),
        });
    };
    Ok(Endpoint::Tcp {
        host: parse_host(&address[..colon])?,
        port: parse_port(&address[colon + 1..])?,
    })
}

fn parse_port(text: &str) -> Result<Port, ParseError> {
    if text == "*" {
        return Ok(Port::Any);
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ParseError::BadPort(text.to_owned()));
    }
    text.parse()
        .map(|number| NonZeroU16::new(number).map_or(Port::Any, Port::Number))
        .map_err(|_| ParseError::BadPort(text.to_owned()))
}

fn parse_host(text: &str) -> Result<Host, ParseError> {
    let bad = || ParseError::BadHost(text.to_owned());
    if text.is_empty() {
        return Err(ParseError::NoHost);
    }
    if text == "*" {
        return Ok(Host::Any);
    }
    if let Some(inner) = text.strip_prefix('[') {
        let inner = inner.strip_suffix(']').ok_or_else(bad)?;
        let (address, zone) = inner.split_once('%').unwrap_or((inner, ""));
        let address: Ipv6Addr = address.parse().map_err(|_| bad())?;
        return match zone {
            "" if inner.contains('%') => Err(bad()),
            "" => Ok(Host::Ip(address.into())),
            zone if is_name(zone) => Ok(Host::Scoped(address, zone.to_owned())),
            _ => Err(bad()),
        };
    }
    if let Ok(address) = text.parse() {
        return match address {
            IpAddr::V4(_) => Ok(Host::Ip(address)),
            // Without brackets it is not clear where the port begins.
            IpAddr::V6(_) => Err(bad()),
        };
    }
    is_name(text)
        .then(|| Host::Name(text.to_owned()))
        .ok_or_else(bad)
}

/// Whether a text can be the name of a host or an interface: no blanks and
/// none of the characters that have a meaning in an endpoint.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| !c.is_whitespace() && !"[]*/:;%@?#\\\"'".contains(c))
}

fn parse_ipc(name: &str) -> Result<IpcName, ParseError> {
    match name {
        "" => Err(ParseError::NoName("ipc")),
        "*" => Ok(IpcName::Any),
        name if name.starts_with('@') => Err(ParseError::AbstractName),
        path if path.len() > IPC_PATH_MAX => Err(ParseError::PathTooLong { length: path.len() }),
        path => Ok(IpcName::Path(PathBuf::from(path))),
    }
}

impl Endpoint {
    /// The tcp endpoint of an address; port 0 is any.
    #[must_use]
    pub fn tcp(address: SocketAddr) -> Self {
        Self::Tcp {
            host: Host::Ip(address.ip()),
            port: NonZeroU16::new(address.port()).map_or(Port::Any, Port::Number),
        }
    }

    /// The ipc endpoint of a path.
    #[must_use]
    pub fn ipc(path: &Path) -> Self {
        Self::Ipc(IpcName::Path(path.to_owned()))
    }

    /// The name of the transport.
    #[must_use]
    pub const fn transport(&self) -> &'static str {
        match self {
            Self::Tcp { .. } => "tcp",
            Self::Ipc(_) => "ipc",
            Self::Inproc(_) => "inproc",
        }
    }

    /// Whether the other end can only be on this host.
    #[must_use]
    pub const fn is_on_this_host(&self) -> bool {
        match self {
            Self::Ipc(_) | Self::Inproc(_) => true,
            Self::Tcp {
                host: Host::Ip(ip), ..
            } => ip.is_loopback(),
            Self::Tcp { .. } => false,
        }
    }

    /// Whether the system chooses a part of it when it is bound.
    #[must_use]
    pub const fn is_wildcard(&self) -> bool {
        matches!(
            self,
            Self::Tcp {
                host: Host::Any,
                ..
            } | Self::Tcp {
                port: Port::Any,
                ..
            } | Self::Ipc(IpcName::Any)
        )
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
            Self::Ipc(IpcName::Any) => f.write_str("ipc://*"),
            Self::Ipc(IpcName::Path(path)) => write!(f, "ipc://{}", path.display()),
            Self::Inproc(name) => write!(f, "inproc://{name}"),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Ip(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Scoped(address, zone) => write!(f, "[{address}%{zone}]"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Endpoint, ParseError> {
        text.parse()
    }

    fn tcp(host: Host, port: u16) -> Endpoint {
        let port = NonZeroU16::new(port).map_or(Port::Any, Port::Number);
        Endpoint::Tcp { host, port }
    }

    #[test]
    fn takes_what_libzmq_takes() {
        let taken = |text: &str| parse(text).unwrap();
        let name = |name: &str| Host::Name(name.to_owned());
        let ip = |ip: &str| Host::Ip(ip.parse().unwrap());
        assert_eq!(taken("tcp://eth0:5555"), tcp(name("eth0"), 5555));
        assert_eq!(taken("tcp://eth0.7:5555"), tcp(name("eth0.7"), 5555));
        assert_eq!(taken("tcp://*:5555"), tcp(Host::Any, 5555));
        assert_eq!(taken("tcp://127.0.0.1:*"), tcp(ip("127.0.0.1"), 0));
        assert_eq!(taken("tcp://127.0.0.1:0"), tcp(ip("127.0.0.1"), 0));
        assert_eq!(taken("tcp://[::1]:5555"), tcp(ip("::1"), 5555));
        assert_eq!(
            taken("tcp://a-host.example:1"),
            tcp(name("a-host.example"), 1)
        );
        assert_eq!(
            taken("tcp://[fe80::1%eth0]:5555"),
            tcp(
                Host::Scoped("fe80::1".parse().unwrap(), "eth0".to_owned()),
                5555
            )
        );
        assert_eq!(taken("ipc:///tmp/x"), Endpoint::ipc(Path::new("/tmp/x")));
        assert_eq!(taken("ipc://x"), Endpoint::ipc(Path::new("x")));
        assert_eq!(taken("ipc://*"), Endpoint::Ipc(IpcName::Any));
        assert_eq!(taken("inproc://a"), Endpoint::Inproc("a".to_owned()));
    }

    #[test]
    fn refuses_the_rest_and_says_why() {
        use ParseError as E;
        let bad_host = |host: &str| Err(E::BadHost(host.to_owned()));
        let bad_port = |port: &str| Err(E::BadPort(port.to_owned()));
        assert_eq!(parse(""), Err(E::NoTransport));
        assert_eq!(parse("127.0.0.1:5555"), Err(E::NoTransport));
        assert_eq!(
            parse("udp://h:1"),
            Err(E::UnknownTransport("udp".to_owned()))
        );
        assert_eq!(
            parse("TCP://h:1"),
            Err(E::UnknownTransport("TCP".to_owned()))
        );
        assert_eq!(parse("tcp://"), Err(E::NoHost));
        assert_eq!(parse("tcp://:5555"), Err(E::NoHost));
        assert_eq!(parse("tcp://host"), Err(E::NoPort("host".to_owned())));
        assert_eq!(parse("tcp://[::1]"), Err(E::NoPort("[::1]".to_owned())));
        assert_eq!(parse("tcp://host:"), bad_port(""));
        assert_eq!(parse("tcp://host:65536"), bad_port("65536"));
        assert_eq!(parse("tcp://host:x"), bad_port("x"));
        assert_eq!(parse("tcp://host:+1"), bad_port("+1"));
        assert_eq!(parse("tcp://host:1 "), bad_port("1 "));
        assert_eq!(parse("tcp://::1:5555"), bad_host("::1"));
        assert_eq!(parse("tcp://[::1:5555"), bad_host("[::1"));
        assert_eq!(parse("tcp://[1.2.3.4]:5555"), bad_host("[1.2.3.4]"));
        assert_eq!(parse("tcp://[::1%]:5555"), bad_host("[::1%]"));
        assert_eq!(parse("tcp://a b:5555"), bad_host("a b"));
        assert_eq!(parse("tcp://a/b:5555"), bad_host("a/b"));
        assert_eq!(
            parse("tcp://a;b:5555"),
            Err(E::SourceAddress("a".to_owned()))
        );
        assert_eq!(parse("ipc://"), Err(E::NoName("ipc")));
        assert_eq!(parse("ipc://@a"), Err(E::AbstractName));
        assert_eq!(parse("inproc://"), Err(E::NoName("inproc")));
        assert_eq!(parse("ipc://a\0b"), Err(E::ControlCharacter));
    }

    #[test]
    fn the_limit_of_a_path_is_named() {
        assert!(parse(&format!("ipc://{}", "x".repeat(IPC_PATH_MAX))).is_ok());
        let error = parse(&format!("ipc://{}", "x".repeat(IPC_PATH_MAX + 1))).unwrap_err();
        assert!(
            error.to_string().contains(&IPC_PATH_MAX.to_string()),
            "{error}"
        );
    }

    fn hosts() -> impl Strategy<Value = Host> {
        let name = "[a-z][a-z0-9.-]{0,14}";
        prop_oneof![
            Just(Host::Any),
            any::<IpAddr>().prop_map(Host::Ip),
            (any::<Ipv6Addr>(), name).prop_map(|(ip, zone)| Host::Scoped(ip, zone)),
            name.prop_map(Host::Name),
        ]
    }

    fn endpoints() -> impl Strategy<Value = Endpoint> {
        let port = any::<u16>().prop_map(|n| NonZeroU16::new(n).map_or(Port::Any, Port::Number));
        prop_oneof![
            (hosts(), port).prop_map(|(host, port)| Endpoint::Tcp { host, port }),
            "[a-z/.]{1,100}".prop_map(|path| Endpoint::ipc(Path::new(&path))),
            Just(Endpoint::Ipc(IpcName::Any)),
            "[a-z0-9/.:*]{1,30}".prop_map(Endpoint::Inproc),
        ]
    }

    proptest! {
        #[test]
        fn what_is_printed_is_parsed_back(endpoint in endpoints()) {
            prop_assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn no_tcp_address_panics(text in "[a-z0-9:*.%;\\[\\]]{0,24}") {
            if let Ok(endpoint) = parse(&format!("tcp://{text}")) {
                prop_assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
            }
        }
    }
}
