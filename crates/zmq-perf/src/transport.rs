//! Sockets of the system: names become addresses, listeners are bound, streams
//! are connected. Knows nothing of ZMTP or of a stack.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

use crate::endpoint::{Endpoint, Host, IpcName, Port};

/// Connections that the system keeps waiting while an end accepts them.
const BACKLOG: u32 = 1024;

/// What Linux passes over loopback in one piece, at most. Of a longer write it
/// sends the pieces one by one, each with a wake-up of the receiver, and that
/// takes two to five times as long. So the stacks write less at once, headers
/// included, wherever that is theirs to choose; what they write is then also
/// still in the cache when the kernel copies it.
pub const PIECE: usize = 64 << 10;

/// The pause between two attempts to reach a peer that is not there yet;
/// libzmq's default reconnect interval.
pub const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Why an endpoint cannot be bound or reached.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// Neither an interface nor a host.
    #[error("no interface named {name} (there are: {there}), and no host of that name")]
    NoInterface {
        /// The name.
        name: String,
        /// The names there are.
        there: String,
    },
    /// An interface without an address.
    #[error("the interface {0} has no address")]
    NoAddress(String),
    /// A name that the resolver does not know.
    #[error("the host {name} does not resolve ({source}); check the name, or use the address")]
    Unresolved {
        /// The name.
        name: String,
        /// The resolver's word.
        source: io::Error,
    },
    /// The listing of interfaces failed.
    #[error("cannot list the interfaces")]
    Interfaces(#[source] io::Error),
    /// `*` where a peer is needed.
    #[error(
        "a wildcard cannot be connected to; write the host and port that the other end is bound to"
    )]
    Wildcard,
    /// Something else listens there.
    #[error("the address is in use; end the program that holds it, or use another")]
    InUse,
    /// The path is taken by something that is no socket.
    #[error("{0} exists and is no socket; remove it, or use another path")]
    NotASocket(PathBuf),
    /// No ipc on this system.
    #[error("ipc needs Unix sockets, which this stack has not on this system; use tcp")]
    NoIpc,
    /// inproc has no sockets of the system.
    #[error("inproc has no address outside the process")]
    Inproc,
    /// The rest.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A bound socket, which nobody accepts from yet.
#[derive(Debug)]
pub enum Listener {
    /// tcp
    Tcp(TcpListener),
    /// ipc, with the socket's file.
    #[cfg(unix)]
    Ipc(UnixListener, SocketFile),
}

/// Binds an endpoint and returns it with what the system chose.
///
/// # Errors
/// When the endpoint names nothing here, or is taken.
pub async fn bind(endpoint: &Endpoint) -> Result<(Listener, Endpoint), TransportError> {
    match endpoint {
        Endpoint::Tcp { host, port } => bind_tcp(host, *port).await,
        #[cfg(unix)]
        Endpoint::Ipc(name) => bind_ipc(name).await,
        #[cfg(not(unix))]
        Endpoint::Ipc(_) => Err(TransportError::NoIpc),
        Endpoint::Inproc(_) => Err(TransportError::Inproc),
    }
}

async fn bind_tcp(host: &Host, port: Port) -> Result<(Listener, Endpoint), TransportError> {
    let mut last = None;
    for address in bind_addresses(host, port).await? {
        match listen(address) {
            Ok(listener) => {
                let bound = listener.local_addr()?;
                return Ok((Listener::Tcp(listener), tcp_endpoint(bound, host)));
            }
            Err(error) => last = Some(error),
        }
    }
    Err(match last {
        Some(error) if error.kind() == io::ErrorKind::AddrInUse => TransportError::InUse,
        Some(error) => error.into(),
        None => TransportError::NoAddress(host.to_string()),
    })
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Elsewhere than on Windows this only takes over addresses that linger in
    // TIME_WAIT; there it would steal the address of a live program.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The endpoint that peers connect to; a scope is kept as it was written.
fn tcp_endpoint(address: SocketAddr, host: &Host) -> Endpoint {
    match (Endpoint::tcp(address), host) {
        (Endpoint::Tcp { port, .. }, Host::Scoped(..)) => Endpoint::Tcp {
            host: host.clone(),
            port,
        },
        (endpoint, _) => endpoint,
    }
}

/// The addresses that a tcp endpoint to bind stands for, the preferred one
/// first; port 0 is any.
///
/// # Errors
/// When it names nothing here.
pub async fn bind_addresses(host: &Host, port: Port) -> Result<Vec<SocketAddr>, TransportError> {
    let port = match port {
        Port::Any => 0,
        Port::Number(number) => number.get(),
    };
    local_addresses(host, port).await
}

/// The addresses that a host to bind stands for: all of an interface's (IPv4
/// first, as libzmq prefers it), or those of a name.
async fn local_addresses(host: &Host, port: u16) -> Result<Vec<SocketAddr>, TransportError> {
    match host {
        Host::Any => Ok(vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))]),
        Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, port)]),
        Host::Scoped(ip, zone) => Ok(vec![scoped(*ip, port, zone)?]),
        Host::Name(name) => {
            let interfaces = interfaces()?;
            let named: Vec<_> = interfaces.iter().filter(|i| i.name == *name).collect();
            if named.is_empty() {
                return lookup(name, port)
                    .await
                    .map_err(|_| no_interface(name, &interfaces));
            }
            let address = |i: &if_addrs::Interface| match i.ip() {
                IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, i.index.unwrap_or(0)).into(),
                ip @ IpAddr::V4(_) => SocketAddr::new(ip, port),
            };
            let mut addresses: Vec<SocketAddr> = named.into_iter().map(address).collect();
            addresses.sort_by_key(SocketAddr::is_ipv6);
            Ok(addresses)
        }
    }
}

fn interfaces() -> Result<Vec<if_addrs::Interface>, TransportError> {
    if_addrs::get_if_addrs().map_err(TransportError::Interfaces)
}

fn no_interface(name: &str, interfaces: &[if_addrs::Interface]) -> TransportError {
    let mut there: Vec<&str> = interfaces.iter().map(|i| i.name.as_str()).collect();
    there.sort_unstable();
    there.dedup();
    TransportError::NoInterface {
        name: name.to_owned(),
        there: there.join(", "),
    }
}

/// An address that only means something on one interface, named or numbered.
fn scoped(ip: std::net::Ipv6Addr, port: u16, zone: &str) -> Result<SocketAddr, TransportError> {
    let index = if let Ok(index) = zone.parse() {
        index
    } else {
        let interfaces = interfaces()?;
        interfaces
            .iter()
            .find(|i| i.name == zone)
            .and_then(|i| i.index)
            .ok_or_else(|| no_interface(zone, &interfaces))?
    };
    Ok(SocketAddrV6::new(ip, port, 0, index).into())
}

async fn lookup(name: &str, port: u16) -> Result<Vec<SocketAddr>, TransportError> {
    let unresolved = |source| TransportError::Unresolved {
        name: name.to_owned(),
        source,
    };
    let addresses: Vec<_> = tokio::net::lookup_host((name, port))
        .await
        .map_err(unresolved)?
        .collect();
    if addresses.is_empty() {
        return Err(TransportError::NoAddress(name.to_owned()));
    }
    Ok(addresses)
}

/// The addresses of a tcp endpoint to connect to.
///
/// # Errors
/// When it names nothing, or is a wildcard.
pub async fn peer_addresses(host: &Host, port: Port) -> Result<Vec<SocketAddr>, TransportError> {
    let Port::Number(port) = port else {
        return Err(TransportError::Wildcard);
    };
    let port = port.get();
    match host {
        Host::Any => Err(TransportError::Wildcard),
        Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, port)]),
        Host::Scoped(ip, zone) => Ok(vec![scoped(*ip, port, zone)?]),
        Host::Name(name) => lookup(name, port).await,
    }
}

#[cfg(unix)]
async fn bind_ipc(name: &IpcName) -> Result<(Listener, Endpoint), TransportError> {
    let path = free_path(name).await?;
    let listener = UnixListener::bind(&path)?;
    let endpoint = Endpoint::ipc(&path);
    Ok((Listener::Ipc(listener, SocketFile::new(path)), endpoint))
}

/// The path that an ipc endpoint to bind stands for, with nothing there.
///
/// # Errors
/// When something is there that may not go.
#[cfg(unix)]
pub async fn free_path(name: &IpcName) -> Result<PathBuf, TransportError> {
    let path = match name {
        IpcName::Path(path) => path.clone(),
        IpcName::Any => fresh_path(),
    };
    remove_stale(&path).await?;
    Ok(path)
}

/// There is no ipc here.
///
/// # Errors
/// Always.
#[cfg(not(unix))]
#[expect(clippy::unused_async, reason = "where there is ipc, it waits")]
pub async fn free_path(_: &IpcName) -> Result<PathBuf, TransportError> {
    Err(TransportError::NoIpc)
}

/// A path that no other process and no earlier call of this one uses.
#[cfg(unix)]
fn fresh_path() -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("zmq-perf-{}-{call}.ipc", std::process::id()))
}

/// Removes the socket file of a dead process; refuses a live one's.
#[cfg(unix)]
async fn remove_stale(path: &Path) -> Result<(), TransportError> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !is_socket(&metadata) {
        return Err(TransportError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Ok(std::fs::remove_file(path)?)
        }
        _ => Err(TransportError::InUse),
    }
}

/// The file of a bound ipc endpoint; removed when the end closes.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl SocketFile {
    /// The file of a socket that has just been bound.
    #[must_use]
    pub const fn new(path: PathBuf) -> Self {
        Self(path)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Someone else may have removed it; there is nobody to tell.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A connected stream.
#[derive(Debug)]
pub enum Stream {
    /// tcp, with `TCP_NODELAY`.
    Tcp(TcpStream),
    /// ipc
    #[cfg(unix)]
    Ipc(UnixStream),
}

/// One attempt to reach the peer.
///
/// # Errors
/// When it is not there, or the endpoint names nothing.
pub async fn connect_once(endpoint: &Endpoint) -> Result<Stream, TransportError> {
    match endpoint {
        Endpoint::Tcp { host, port } => {
            let addresses = peer_addresses(host, *port).await?;
            let stream = TcpStream::connect(addresses.as_slice()).await?;
            stream.set_nodelay(true)?;
            Ok(Stream::Tcp(stream))
        }
        #[cfg(unix)]
        Endpoint::Ipc(IpcName::Path(path)) => {
            check_peer_path(path)?;
            Ok(Stream::Ipc(UnixStream::connect(path).await?))
        }
        #[cfg(not(unix))]
        Endpoint::Ipc(IpcName::Path(_)) => Err(TransportError::NoIpc),
        Endpoint::Ipc(IpcName::Any) => Err(TransportError::Wildcard),
        Endpoint::Inproc(_) => Err(TransportError::Inproc),
    }
}

/// Refuses to connect to a path that is taken by something that is no socket:
/// waiting does not turn it into one, although the system says no more than
/// that nobody listens there.
///
/// # Errors
/// [`TransportError::NotASocket`].
pub fn check_peer_path(path: &Path) -> Result<(), TransportError> {
    #[cfg(unix)]
    if std::fs::metadata(path).is_ok_and(|found| !is_socket(&found)) {
        return Err(TransportError::NotASocket(path.to_owned()));
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

#[cfg(unix)]
fn is_socket(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_socket()
}

/// Reaches the peer, however late it starts.
///
/// # Errors
/// What waiting cannot mend.
pub async fn connect(endpoint: &Endpoint) -> Result<Stream, TransportError> {
    loop {
        match connect_once(endpoint).await {
            Err(TransportError::Io(error)) if may_come(&error) => {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            result => return result,
        }
    }
}

/// Whether a failed attempt to connect may succeed once the peer has started.
#[must_use]
pub fn may_come(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(
        error.kind(),
        K::ConnectionRefused
            | K::ConnectionReset
            | K::ConnectionAborted
            | K::TimedOut
            | K::NotFound
            | K::HostUnreachable
            | K::NetworkUnreachable
    )
}

/// Whether a failed attempt to connect says that this system has no Unix
/// sockets: a Windows before 10, and wine (`WSAEAFNOSUPPORT`).
#[must_use]
pub fn no_such_sockets(error: &io::Error) -> bool {
    cfg!(windows) && error.raw_os_error() == Some(10047)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> Endpoint {
        text.parse().unwrap()
    }

    async fn bound(text: &str) -> (Listener, Endpoint) {
        bind(&endpoint(text)).await.unwrap()
    }

    #[tokio::test]
    async fn a_wildcard_becomes_an_address_that_can_be_reached() {
        let (_listener, at) = bound("tcp://127.0.0.1:*").await;
        assert!(!at.is_wildcard(), "{at}");
        connect(&at).await.unwrap();
    }

    #[tokio::test]
    async fn an_interface_binds_to_its_own_address() {
        let loopback = interfaces()
            .unwrap()
            .into_iter()
            .find(|i| i.is_loopback() && i.ip().is_ipv4())
            .unwrap();
        let (_listener, at) = bound(&format!("tcp://{}:*", loopback.name)).await;
        let Endpoint::Tcp { host, .. } = at else {
            panic!("{at}");
        };
        assert_eq!(host, Host::Ip(loopback.ip()));
    }

    #[tokio::test]
    async fn an_unknown_interface_is_named_with_those_there_are() {
        let error = bind(&endpoint("tcp://no-such-interface.invalid:*"))
            .await
            .unwrap_err();
        let line = error.to_string();
        assert!(
            line.starts_with("no interface named no-such-interface.invalid (there are: "),
            "{line}"
        );
    }

    #[tokio::test]
    async fn an_address_in_use_is_refused() {
        let (_listener, at) = bound("tcp://127.0.0.1:*").await;
        let error = bind(&at).await.unwrap_err();
        assert!(matches!(error, TransportError::InUse), "{error}");
    }

    #[tokio::test]
    async fn a_wildcard_is_no_peer() {
        for text in ["tcp://127.0.0.1:*", "tcp://*:5555", "ipc://*"] {
            let error = connect(&endpoint(text)).await.unwrap_err();
            assert!(matches!(error, TransportError::Wildcard), "{text}: {error}");
        }
    }

    #[cfg(unix)]
    mod ipc {
        use super::*;

        #[tokio::test]
        async fn the_socket_file_goes_with_the_listener() {
            let (listener, at) = bound("ipc://*").await;
            let Endpoint::Ipc(IpcName::Path(path)) = &at else {
                panic!("{at}");
            };
            assert!(path.exists());
            connect(&at).await.unwrap();
            drop(listener);
            assert!(!path.exists());
        }

        #[tokio::test]
        async fn a_stale_file_is_no_obstacle_and_a_live_one_is() {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("s");
            drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
            assert!(path.exists());
            let at = Endpoint::ipc(&path);
            let (_listener, _) = bind(&at).await.unwrap();
            let error = bind(&at).await.unwrap_err();
            assert!(matches!(error, TransportError::InUse), "{error}");
        }

        #[tokio::test]
        async fn a_file_that_is_no_socket_is_left_alone() {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("f");
            std::fs::write(&path, "keep").unwrap();
            let error = bind(&Endpoint::ipc(&path)).await.unwrap_err();
            assert!(matches!(error, TransportError::NotASocket(_)), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "keep");
        }
    }
}
