//! `opc.tcp://host:port/path`: parsed here, once, into a type.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// The port that IANA registered for OPC UA TCP (Part 6, 7.2).
pub const DEFAULT_PORT: u16 = 4840;

const SCHEME: &str = "opc.tcp://";

/// No DNS name is longer (RFC 1035, 2.3.4).
const LONGEST_HOST: usize = 253;

/// The URL of an OPC UA TCP endpoint (Part 6, 7.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointUrl {
    host: Host,
    port: u16,
    /// Empty, or begins with a slash.
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    /// A DNS name or an IPv4 address.
    Name(String),
    /// Written in brackets.
    Ipv6(Ipv6Addr),
}

impl EndpointUrl {
    /// The URL `opc.tcp://host:port` of an address.
    #[must_use]
    pub fn from_socket(address: std::net::SocketAddr) -> Self {
        let host = match address {
            std::net::SocketAddr::V4(v4) => Host::Name(v4.ip().to_string()),
            std::net::SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
                Some(v4) => Host::Name(v4.to_string()),
                None => Host::Ipv6(*v6.ip()),
            },
        };
        Self {
            host,
            port: address.port(),
            path: String::new(),
        }
    }

    /// The host as a resolver takes it: an IPv6 address without its brackets.
    #[must_use]
    pub fn host(&self) -> String {
        match &self.host {
            Host::Name(name) => name.clone(),
            Host::Ipv6(address) => address.to_string(),
        }
    }

    /// Whether it can only be on this host.
    #[must_use]
    pub fn is_on_this_host(&self) -> bool {
        match &self.host {
            Host::Ipv6(address) => address.is_loopback(),
            Host::Name(name) => {
                name == "localhost"
                    || name
                        .parse::<std::net::Ipv4Addr>()
                        .is_ok_and(|address| address.is_loopback())
            }
        }
    }

    /// The port; [`DEFAULT_PORT`] when the URL names none.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The same host and path at another port.
    #[must_use]
    pub fn with_port(&self, port: u16) -> Self {
        Self {
            port,
            ..self.clone()
        }
    }
}

impl fmt::Display for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, path, .. } = self;
        match &self.host {
            Host::Name(name) => write!(f, "{SCHEME}{name}:{port}{path}"),
            Host::Ipv6(address) => write!(f, "{SCHEME}[{address}]:{port}{path}"),
        }
    }
}

/// Why a text is no endpoint URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another scheme, or none.
    #[error("expected opc.tcp://host:port, not {0:?}")]
    Scheme(String),
    /// `opc.tcp://:4840`.
    #[error("no host between opc.tcp:// and the port; write opc.tcp://host:port")]
    NoHost,
    /// Characters that no host name has, or too many of them.
    #[error("{0:?} is no host name and no address; IPv6 is written in brackets, as [::1]")]
    Host(String),
    /// Not a number from 0 to 65535.
    #[error("port {0:?} is not a number from 0 to 65535")]
    Port(String),
}

impl FromStr for EndpointUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text
            .get(..SCHEME.len())
            .filter(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
            .and_then(|_| text.get(SCHEME.len()..))
            .ok_or_else(|| UrlError::Scheme(text.chars().take(64).collect()))?;
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        let (host, port) = split_authority(authority)?;
        let port = match port {
            None => DEFAULT_PORT,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits
                    .parse()
                    .map_err(|_| UrlError::Port(digits.to_owned()))?
            }
            Some(junk) => return Err(UrlError::Port(junk.to_owned())),
        };
        Ok(Self {
            host,
            port,
            path: path.to_owned(),
        })
    }
}

/// Host, and what follows its colon if there is one.
fn split_authority(authority: &str) -> Result<(Host, Option<&str>), UrlError> {
    let wrong = || UrlError::Host(authority.chars().take(LONGEST_HOST).collect());
    if let Some(bracketed) = authority.strip_prefix('[') {
        let (address, rest) = bracketed.split_once(']').ok_or_else(wrong)?;
        let address = address.parse().map_err(|_| wrong())?;
        let port = match rest {
            "" => None,
            _ => Some(rest.strip_prefix(':').ok_or_else(wrong)?),
        };
        return Ok((Host::Ipv6(address), port));
    }
    let (name, port) = match authority.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (authority, None),
    };
    if name.is_empty() {
        return Err(UrlError::NoHost);
    }
    // A second colon is an IPv6 address without brackets: its port would be a guess.
    let plausible =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_') || b >= 128;
    if name.len() > LONGEST_HOST
        || !name.bytes().all(plausible)
        || port.is_some_and(|p| p.contains(':'))
    {
        return Err(wrong());
    }
    Ok((Host::Name(name.to_owned()), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<EndpointUrl, UrlError> {
        text.parse()
    }

    #[test]
    fn a_url_is_taken_apart() {
        let url = parse("opc.tcp://plc-1.local:4841/UA/Server").unwrap();
        assert_eq!((url.host().as_str(), url.port()), ("plc-1.local", 4841));
        assert_eq!(url.to_string(), "opc.tcp://plc-1.local:4841/UA/Server");
        assert_eq!(
            parse("opc.tcp://10.0.0.7").unwrap().to_string(),
            "opc.tcp://10.0.0.7:4840"
        );
        assert_eq!(parse("OPC.TCP://h").unwrap().port(), DEFAULT_PORT);
        let v6 = parse("opc.tcp://[::1]:0/").unwrap();
        assert_eq!((v6.host().as_str(), v6.port()), ("::1", 0));
        assert_eq!(v6.with_port(9).to_string(), "opc.tcp://[::1]:9/");
    }

    #[test]
    fn what_is_no_url_is_refused_by_name() {
        for (text, word) in [
            ("", "opc.tcp://host:port"),
            ("http://localhost:4840", "http://localhost:4840"),
            ("localhost:4840", "localhost:4840"),
            ("opc.tcp://", "no host"),
            ("opc.tcp://:4840", "no host"),
            ("opc.tcp://h:", "port \"\""),
            ("opc.tcp://h:+1", "port \"+1\""),
            ("opc.tcp://h:65536", "port \"65536\""),
            ("opc.tcp://::1:4840", "no host"),
            ("opc.tcp://fe80::1", "brackets"),
            ("opc.tcp://[::1", "brackets"),
            ("opc.tcp://[::1]4840", "brackets"),
            ("opc.tcp://a b:1", "brackets"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text:?}: {error}");
        }
        assert!(parse(&format!("opc.tcp://{}", "a".repeat(254))).is_err());
    }

    #[test]
    fn an_address_becomes_a_url() {
        for (address, url) in [
            ("127.0.0.1:4840", "opc.tcp://127.0.0.1:4840"),
            ("[::1]:4840", "opc.tcp://[::1]:4840"),
            ("[::ffff:10.1.2.3]:1", "opc.tcp://10.1.2.3:1"),
        ] {
            let made = EndpointUrl::from_socket(address.parse().unwrap());
            assert_eq!(made.to_string(), url);
            assert_eq!(parse(url).unwrap(), made);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in ".*") {
            let _ = parse(&text);
            let _ = parse(&format!("opc.tcp://{text}"));
        }

        #[test]
        fn what_is_printed_is_taken_again(
            host in "[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?",
            port in any::<Option<u16>>(),
            path in "(/[A-Za-z0-9_/]{0,12})?",
        ) {
            let text = match port {
                Some(port) => format!("opc.tcp://{host}:{port}{path}"),
                None => format!("opc.tcp://{host}{path}"),
            };
            let url = parse(&text).unwrap();
            prop_assert_eq!(url.port(), port.unwrap_or(DEFAULT_PORT));
            prop_assert_eq!(parse(&url.to_string()).unwrap(), url);
        }

        #[test]
        fn ipv6_is_printed_in_brackets(address in any::<u128>(), port in any::<u16>()) {
            let address = Ipv6Addr::from(address);
            let url = parse(&format!("opc.tcp://[{address}]:{port}")).unwrap();
            prop_assert_eq!(parse(&url.to_string()).unwrap(), url);
        }
    }
}
