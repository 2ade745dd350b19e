//! The stack `zeromq`: the official Rust crate.
//!
//! What the crate leaves to its user is done here: whoever sends waits for a
//! peer, knows that its last message left, and holds no more than a window of
//! messages; whoever receives learns that its last peer is gone.

use std::sync::Arc;
use std::time::Duration;

use ::zeromq::{
    MultiPeerBackend, PullSocket, PushSocket, RepSocket, ReqSocket, Socket as _, SocketEvent,
    SocketOptions, SocketRecv, SocketSend, ZmqError, ZmqMessage,
};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::Either;
use perf_core::cli::note;
use perf_core::load::Progress;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Pull, Push, Reply, Request, Socket, Stack, StackError, Step, check_size};
use crate::endpoint::{Endpoint, Host, IpcName};
use crate::stamp::{Fill, Visit};
use crate::transport::{self, Listener, SocketFile, TransportError};

/// The crate's version: the lock file's, which a test compares.
pub const VERSION: &str = "0.7.0";

/// The stack.
#[derive(Debug, Clone, Copy)]
pub struct Zeromq;

impl Stack for Zeromq {
    type Request = ZeromqRequest;
    type Reply = ZeromqReply;
    type Push = ZeromqPush;
    type Pull = ZeromqPull;
}

/// The first attempt to connect ends after this long, so that the crate's own
/// pauses between its tries, which double up to 30 s, stay short.
const FIRST_ATTEMPT: Duration = Duration::from_secs(1);

/// The last attempt and all after it end after this long: the longest that a
/// handshake may take.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(8);

/// Connects a socket, however late the peer starts.
async fn connect<S: ::zeromq::Socket>(endpoint: &Endpoint) -> Step<S> {
    let address = peer_address(endpoint).await?;
    let mut attempt = FIRST_ATTEMPT;
    loop {
        let mut options = SocketOptions::default();
        options.connect_timeout(attempt);
        let mut socket = S::with_options(options);
        match socket.connect(&address).await {
            Ok(()) => return Ok(socket),
            Err(ZmqError::ConnectTimeout(_)) => attempt = (attempt * 2).min(LONGEST_ATTEMPT),
            Err(ZmqError::Network(error)) if transport::may_come(&error) => {
                tokio::time::sleep(transport::RETRY_PAUSE).await;
            }
            Err(error) if hung_up(&error) => {
                tokio::time::sleep(transport::RETRY_PAUSE).await;
            }
            Err(error) => return Err(handshake_error(error)),
        }
    }
}

/// The endpoint in the crate's words; a host name is looked up here first, so
/// that one that does not resolve fails at once and by name.
async fn peer_address(endpoint: &Endpoint) -> Step<String> {
    match endpoint {
        Endpoint::Tcp { host, port } => {
            transport::peer_addresses(host, *port).await?;
            if let Host::Scoped(..) = host {
                return Err(StackError::Unsupported(
                    "the zeromq crate takes no address with a zone (%); use --stack raw".to_owned(),
                ));
            }
        }
        Endpoint::Ipc(IpcName::Any) => return Err(TransportError::Wildcard.into()),
        Endpoint::Ipc(IpcName::Path(path)) => transport::check_peer_path(path)?,
        Endpoint::Inproc(_) => return Err(no_inproc()),
    }
    Ok(endpoint.to_string())
}

fn no_inproc() -> StackError {
    StackError::Unsupported(
        "inproc:// needs --stack omq or raw: the zeromq crate has no inproc transport".to_owned(),
    )
}

/// Whether the other side hung up before it had greeted: a peer that was just
/// ending, or a forwarder in front of one that is not there yet.
fn hung_up(error: &ZmqError) -> bool {
    // The crate has one word for the end of the stream...
    if let ZmqError::Other("Failed Greeting exchange") = error {
        return true;
    }
    // ... and wraps the system's error in its codec's, which cannot be named
    // from outside.
    std::iter::successors(Some(error as &dyn std::error::Error), |e| e.source())
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .any(transport::may_come)
}

/// An error between the connection and the first message.
fn handshake_error(error: ZmqError) -> StackError {
    match error {
        ZmqError::Network(error) => TransportError::Io(error).into(),
        other => StackError::NoFit(other.to_string()),
    }
}

/// An error while messages flow.
fn run_error(error: &ZmqError) -> StackError {
    match error {
        ZmqError::NoMessage | ZmqError::ReturnToSender { .. } | ZmqError::BufferFull(_) => {
            StackError::PeerClosed
        }
        // The crate wraps the system's error in its codec's, which cannot be
        // named from outside; either way the connection is lost.
        ZmqError::Network(_) | ZmqError::Codec(_) => {
            StackError::Stack(format!("connection lost: {error}"))
        }
        other => StackError::Stack(other.to_string()),
    }
}

/// The payload of a message, or what is wrong with the message.
fn check(message: &ZmqMessage, size: usize) -> Step<&[u8]> {
    match (message.len(), message.get(0)) {
        (1, Some(frame)) => check_size(size, frame.len()).map(|()| &frame[..]),
        (parts, _) => Err(StackError::Stack(format!(
            "a message of {parts} parts instead of 1"
        ))),
    }
}

fn payload(size: usize) -> Bytes {
    Bytes::from(vec![0; size])
}

/// A bound socket, its peers, and the file that goes with it.
struct Bound<S> {
    socket: S,
    peers: Peers,
    _file: Option<SocketFile>,
}

async fn bind<S: ::zeromq::Socket>(socket: &Socket) -> Step<(Bound<S>, Endpoint)> {
    if let Endpoint::Inproc(_) = socket.endpoint {
        return Err(no_inproc());
    }
    let (listener, endpoint) = transport::bind(&socket.endpoint).await?;
    let (listener, file): (::zeromq::Listener, _) = match listener {
        Listener::Tcp(listener) => (
            listener.into_std().map_err(TransportError::Io)?.into(),
            None,
        ),
        #[cfg(unix)]
        Listener::Ipc(listener, file) => (
            listener.into_std().map_err(TransportError::Io)?.into(),
            Some(file),
        ),
    };
    let mut bound = S::new();
    let events = bound.monitor();
    bound
        .bind_listener(listener)
        .await
        .map_err(|error| StackError::Stack(error.to_string()))?;
    let bound = Bound {
        socket: bound,
        peers: Peers {
            tool: socket.tool,
            events,
            connected: 0,
        },
        _file: file,
    };
    Ok((bound, endpoint))
}

impl<S: ::zeromq::Socket + SocketRecv> Bound<S> {
    /// The next message. Once `started`, the end of the last peer is an error;
    /// before, one that comes and goes (a probe, a wrong peer) is let go.
    async fn recv(&mut self, started: bool) -> Step<ZmqMessage> {
        loop {
            let message = std::pin::pin!(self.socket.recv());
            let event = std::pin::pin!(self.peers.events.next());
            // The message is looked at first: events are rare, and a peer's
            // last messages count although it is gone.
            match futures_util::future::select(message, event).await {
                Either::Left((Ok(message), _)) => return Ok(message),
                Either::Left((Err(error), _)) if started => return Err(run_error(&error)),
                Either::Left((Err(error), _)) => {
                    note(self.peers.tool, &format!("let a peer go: {error}"));
                }
                Either::Right((Some(event), _)) => {
                    if self.peers.heard(event) && started {
                        return Err(StackError::PeerClosed);
                    }
                }
                Either::Right((None, _)) => {
                    return Err(StackError::Stack("the monitor ended".to_owned()));
                }
            }
        }
    }
}

/// Who is connected, as the socket's monitor tells.
struct Peers {
    tool: &'static str,
    events: futures_channel::mpsc::Receiver<SocketEvent>,
    connected: i64,
}

impl Peers {
    /// Whether this was the end of the last peer.
    fn heard(&mut self, event: SocketEvent) -> bool {
        match event {
            SocketEvent::Accepted(..) => self.connected += 1,
            SocketEvent::Disconnected(_) => {
                self.connected -= 1;
                return self.connected <= 0;
            }
            SocketEvent::AcceptFailed(error) => {
                note(
                    self.tool,
                    &format!("refused a peer: {}", handshake_error(error)),
                );
            }
            _ => {}
        }
        false
    }
}

/// REQ
pub struct ZeromqRequest {
    socket: ReqSocket,
    size: usize,
    message: ZmqMessage,
}

impl Request for ZeromqRequest {
    async fn connect(socket: &Socket) -> Step<Self> {
        Ok(Self {
            socket: connect(&socket.endpoint).await?,
            size: socket.size,
            message: payload(socket.size).into(),
        })
    }

    async fn round_trip(&mut self) -> Step<()> {
        // Cloning a message clones a reference to its payload.
        let request = self.message.clone();
        self.socket
            .send(request)
            .await
            .map_err(|error| run_error(&error))?;
        self.message = self
            .socket
            .recv()
            .await
            .map_err(|error| run_error(&error))?;
        check(&self.message, self.size)?;
        Ok(())
    }
}

/// REP
pub struct ZeromqReply {
    bound: Bound<RepSocket>,
    size: usize,
    started: bool,
}

impl Reply for ZeromqReply {
    async fn bind(socket: &Socket) -> Step<(Self, Endpoint)> {
        let (bound, endpoint) = bind(socket).await?;
        let reply = Self {
            bound,
            size: socket.size,
            started: false,
        };
        Ok((reply, endpoint))
    }

    async fn serve(&mut self) -> Step<()> {
        let request = self.bound.recv(self.started).await?;
        self.started = true;
        check(&request, self.size)?;
        self.bound
            .socket
            .send(request)
            .await
            .map_err(|error| run_error(&error))
    }
}

/// How many payload bytes may be on their way between `push` and the system,
/// at most; also the distance that the sender runs ahead of the crate's
/// writing task.
const WINDOW_BYTES: usize = 16 << 20;

/// Messages that share one ticket, at most.
const TICKET_MESSAGES: usize = 256;

/// How many tickets are out, at most.
const TICKETS: usize = 16;

/// The payload of every message of a batch but the last is shared. The last
/// one's carries a ticket, which comes back when the crate has encoded the
/// message into its write buffer and drops it.
struct Ticket {
    payload: Bytes,
    left: Arc<Progress>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Only the crate's one writing task drops tickets.
        self.left.set(self.left.completed() + 1);
    }
}

impl AsRef<[u8]> for Ticket {
    fn as_ref(&self) -> &[u8] {
        &self.payload
    }
}

/// PUSH
pub struct ZeromqPush {
    socket: PushSocket,
    payload: Bytes,
    batch: u64,
    tickets: Arc<Semaphore>,
    left: Arc<Progress>,
    peers: Peers,
}

impl Push for ZeromqPush {
    async fn connect(socket: &Socket) -> Step<Self> {
        let per_window = WINDOW_BYTES / TICKETS / socket.size.max(1);
        let mut connected: PushSocket = connect(&socket.endpoint).await?;
        let peers = Peers {
            tool: socket.tool,
            events: connected.monitor(),
            connected: 1,
        };
        Ok(Self {
            socket: connected,
            peers,
            payload: payload(socket.size),
            batch: perf_core::units::count(per_window.clamp(1, TICKET_MESSAGES)),
            tickets: Arc::new(Semaphore::new(TICKETS)),
            left: Arc::default(),
        })
    }

    async fn push(&mut self, at_most: u64, fill: &mut impl Fill) -> Step<u64> {
        let permit = Arc::clone(&self.tickets)
            .acquire_owned()
            .await
            .map_err(|_| StackError::PeerClosed)?;
        let batch = at_most.min(self.batch);
        for _ in 1..batch {
            let payload = fill.apply(&self.payload);
            self.send(payload).await?;
        }
        self.send(Bytes::from_owner(Ticket {
            payload: fill.apply(&self.payload),
            left: Arc::clone(&self.left),
            _permit: permit,
        }))
        .await?;
        Ok(batch)
    }

    fn left(&self) -> Arc<Progress> {
        Arc::clone(&self.left)
    }

    async fn finish(mut self) -> Step<()> {
        // First with the socket open, so that a lost connection is seen: then
        // the tickets come back because the crate threw the messages away.
        let all = u32::try_from(TICKETS).unwrap_or(u32::MAX);
        let permits = self
            .tickets
            .acquire_many(all)
            .await
            .map_err(|_| StackError::PeerClosed)?;
        drop(permits);
        while let Ok(event) = self.peers.events.try_recv() {
            if self.peers.heard(event) {
                return Err(StackError::PeerClosed);
            }
        }
        // Then closed: the crate's writing task flushes what it has, ends,
        // and lets go of the socket's inside.
        let inside: Arc<dyn MultiPeerBackend> = self.socket.backend();
        drop(self.socket);
        while Arc::strong_count(&inside) > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

impl ZeromqPush {
    #[inline]
    async fn send(&mut self, payload: Bytes) -> Step<()> {
        self.socket
            .send(payload.into())
            .await
            .map_err(|error| run_error(&error))
    }
}

/// PULL
pub struct ZeromqPull {
    bound: Bound<PullSocket>,
    size: usize,
    started: bool,
}

impl Pull for ZeromqPull {
    async fn bind(socket: &Socket) -> Step<(Self, Endpoint)> {
        let (bound, endpoint) = bind(socket).await?;
        let pull = Self {
            bound,
            size: socket.size,
            started: false,
        };
        Ok((pull, endpoint))
    }

    async fn pull(&mut self, _: u64, visit: &mut impl Visit) -> Step<u64> {
        let message = self.bound.recv(self.started).await?;
        self.started = true;
        visit.visit(check(&message, self.size)?);
        Ok(1)
    }
}
