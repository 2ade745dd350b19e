//! The stack `zeromq`: the official Rust crate.
//!
//! What the crate leaves to its user is done here: whoever sends waits for a
//! peer, knows that its last message left, and holds no more than a window of
//! messages; whoever receives learns that its last peer is gone.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use ::zeromq::{
    MultiPeerBackend, PullSocket, PushSocket, RepSocket, ReqSocket, Socket as _, SocketEvent,
    SocketOptions, SocketRecv, SocketSend, ZmqError, ZmqMessage, ZmqResult,
};
use bytes::Bytes;
use futures_util::StreamExt;
use perf_core::cli::note;
use perf_core::load::Progress;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Pull, Push, Reply, Request, Socket, Stack, StackError, Step, check_size};
use crate::endpoint::{Endpoint, Host, IpcName};
use crate::stamp::{Fill, Visit};
use crate::transport::{self, Listener, PIECE, SocketFile, TransportError};

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
            Err(ZmqError::Network(error)) if transport::no_such_sockets(&error) => {
                return Err(TransportError::NoIpc.into());
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

/// What the crate reads from a new peer at once, its default.
const FIRST_READ: usize = 128;

/// What it reads at once, at most. Its default of 64 KiB cuts a message of
/// 32 KiB, or a batch of smaller ones, where the next read has to move it.
const LONGEST_READ: usize = 256 << 10;

/// What it reads at once from all its peers together, about: the more peers,
/// the less each, as long as it is worth a call.
const SHARED_READ: usize = 16 << 20;

/// The least of that.
const LEAST_READ: usize = 16 << 10;

/// How many short reads let it read less, its default.
const SHORT_READS: usize = 2;

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
    let mut options = SocketOptions::default();
    let longest = (SHARED_READ / socket.peers.max(1)).clamp(LEAST_READ, LONGEST_READ);
    options.read_buffer(FIRST_READ, longest, SHORT_READS);
    let mut bound = S::with_options(options);
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
        poll_fn(|cx| self.poll_recv(started, cx)).await
    }

    fn poll_recv(&mut self, started: bool, cx: &mut Context<'_>) -> Poll<Step<ZmqMessage>> {
        loop {
            // The message is looked at first: events are rare, and a peer's
            // last messages count although it is gone.
            match self.poll_message(cx) {
                Poll::Ready(Ok(message)) => return Poll::Ready(Ok(message)),
                Poll::Ready(Err(error)) if started => return Poll::Ready(Err(run_error(&error))),
                Poll::Ready(Err(error)) => {
                    note(self.peers.tool, &format!("let a peer go: {error}"));
                    continue;
                }
                Poll::Pending => {}
            }
            if let Some(event) = ready!(self.peers.events.poll_next_unpin(cx)) {
                if self.peers.heard(event) && started {
                    return Poll::Ready(Err(StackError::PeerClosed));
                }
            } else {
                let ended = StackError::Stack("the monitor ended".to_owned());
                return Poll::Ready(Err(ended));
            }
        }
    }

    /// A message that is there, or the promise to wake `cx`.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<ZmqResult<ZmqMessage>> {
        match self.message_there() {
            Some(message) => Poll::Ready(message),
            None => self.socket.recv().as_mut().poll(cx),
        }
    }

    /// The next message, if it is there.
    ///
    /// The crate clones the waker twice for each message, and a task's waker
    /// counts its clones in an atomic; only who waits needs a real one. A call
    /// of the crate's that has not returned has done nothing and can be
    /// dropped.
    fn message_there(&mut self) -> Option<ZmqResult<ZmqMessage>> {
        let mut hurried = Context::from_waker(Waker::noop());
        match self.socket.recv().as_mut().poll(&mut hurried) {
            Poll::Ready(message) => Some(message),
            Poll::Pending => None,
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

/// Payload bytes that are on their way between `push` and the system, at most,
/// unless a single message is larger.
///
/// The crate's writing task encodes and writes what it finds in its queue: a
/// batch, which with its headers is less than a [`PIECE`].
const BATCH_BYTES: usize = PIECE / 16 * 15;

/// Messages in a batch, at most: what the crate writes at once.
const BATCH_MESSAGES: usize = 128;

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
    /// Messages in a batch.
    batch: u32,
    /// As many permits as a batch has messages.
    window: Arc<Semaphore>,
    left: Arc<Progress>,
    peers: Peers,
}

impl Push for ZeromqPush {
    async fn connect(socket: &Socket) -> Step<Self> {
        let batch = (BATCH_BYTES / socket.size.max(1)).clamp(1, BATCH_MESSAGES);
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
            batch: u32::try_from(batch).unwrap_or(1),
            window: Arc::new(Semaphore::new(batch)),
            left: Arc::default(),
        })
    }

    async fn push(&mut self, at_most: u64, fill: &mut impl Fill) -> Step<u64> {
        let batch = u32::try_from(at_most).map_or(self.batch, |most| most.min(self.batch));
        // Waits for the batch before, and so gives the writing task its turn.
        let permit = Arc::clone(&self.window)
            .acquire_many_owned(batch)
            .await
            .map_err(|_| StackError::PeerClosed)?;
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
        Ok(batch.into())
    }

    fn left(&self) -> Arc<Progress> {
        Arc::clone(&self.left)
    }

    async fn finish(mut self) -> Step<()> {
        // First with the socket open, so that a lost connection is seen: then
        // the tickets come back because the crate threw the messages away.
        let permits = self
            .window
            .acquire_many(self.batch)
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

/// How many messages one call of `pull` takes, at most.
const AT_ONCE: u64 = 256;

/// PULL
pub struct ZeromqPull {
    bound: Bound<PullSocket>,
    size: usize,
    started: bool,
    /// What came after the messages that the last call has told of.
    failure: Option<StackError>,
}

impl ZeromqPull {
    fn take(&self, message: &ZmqMessage, visit: &mut impl Visit) -> Step<()> {
        check(message, self.size).map(|payload| visit.visit(payload))
    }

    /// Takes what has come with the last message, without the way through the
    /// caller's loop for each.
    fn take_those_there(&mut self, at_most: u64, visit: &mut impl Visit) -> u64 {
        for taken in 0..at_most {
            let outcome = match self.bound.message_there() {
                Some(Ok(message)) => self.take(&message, visit),
                Some(Err(error)) => Err(run_error(&error)),
                None => return taken,
            };
            if let Err(failure) = outcome {
                self.failure = Some(failure);
                return taken;
            }
        }
        at_most
    }
}

impl Pull for ZeromqPull {
    async fn bind(socket: &Socket) -> Step<(Self, Endpoint)> {
        let (bound, endpoint) = bind(socket).await?;
        let pull = Self {
            bound,
            size: socket.size,
            started: false,
            failure: None,
        };
        Ok((pull, endpoint))
    }

    async fn pull(&mut self, at_most: u64, visit: &mut impl Visit) -> Step<u64> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let message = self.bound.recv(self.started).await?;
        self.started = true;
        self.take(&message, visit)?;
        let at_most = at_most.clamp(1, AT_ONCE);
        Ok(1 + self.take_those_there(at_most - 1, visit))
    }
}
