//! Places for sockets that no one else uses.

use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

/// The transports that have sockets here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    #[cfg(unix)]
    Ipc,
}

impl Transport {
    pub(crate) const ALL: &[Self] = &[
        Self::Tcp,
        #[cfg(unix)]
        Self::Ipc,
    ];
}

/// An endpoint to bind and, where it is no wildcard, to connect to.
pub(crate) struct Place {
    pub(crate) endpoint: String,
    #[cfg_attr(not(unix), expect(dead_code, reason = "held until it is dropped"))]
    directory: TempDir,
    _held: Option<Socket>,
}

impl Place {
    /// An endpoint to bind first: its owner says where it is bound.
    pub(crate) fn free(transport: Transport) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let endpoint = match transport {
            Transport::Tcp => "tcp://127.0.0.1:*".to_owned(),
            #[cfg(unix)]
            Transport::Ipc => format!("ipc://{}", directory.path().join("s").display()),
        };
        Self {
            endpoint,
            directory,
            _held: None,
        }
    }

    /// An endpoint that is known before anyone is bound to it.
    ///
    /// A port is held by a socket that does not listen, so that the system
    /// gives it to nobody else; whoever wants to take over addresses in
    /// `TIME_WAIT`, as the tools do, may bind to it.
    #[cfg(unix)]
    pub(crate) fn known(transport: Transport) -> Self {
        if transport != Transport::Tcp {
            return Self::free(transport);
        }
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(&any.into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        Self {
            endpoint: format!("tcp://{address}"),
            directory: tempfile::tempdir().unwrap(),
            _held: Some(socket),
        }
    }

    /// An endpoint where nobody listens.
    pub(crate) fn deserted() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(&any.into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        Self {
            endpoint: format!("tcp://{address}"),
            directory: tempfile::tempdir().unwrap(),
            _held: Some(socket),
        }
    }

    /// A path of its own.
    #[cfg(unix)]
    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("s")
    }
}
