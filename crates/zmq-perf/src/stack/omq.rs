//! The stack `omq`: the crate omq-tokio.
//!
//! tcp, ipc and inproc, with CURVE where it is asked for. What the crate
//! leaves to its user is done here: queues are bounded in bytes and not only
//! in messages, the end of a peer in mid-run is an error, and who sends closes
//! with a linger that its caller watches.

pub mod proxy;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use omq_tokio::endpoint::Host as OmqHost;
use omq_tokio::{
    CurveKeypair, CurvePublicKey, CurveSecretKey, DisconnectReason, Endpoint as OmqEndpoint,
    Error as OmqError, Message, MonitorEvent, MonitorRecvError, MonitorStream, Options, SocketType,
    TrySendError,
};
use perf_core::cli::note;
use perf_core::load::Progress;
use perf_core::units::count;

use super::{Pull, Push, Reply, Request, Socket, Stack, StackError, Step, check_size};
use crate::curve::{Key, Keys, Server};
use crate::endpoint::{Endpoint, Host, IpcName};
use crate::stamp::{Fill, Visit};
use crate::transport::{self, PIECE, SocketFile, TransportError};

/// The crate's version: the lock file's, which a test compares.
pub const VERSION: &str = "0.33.0";

/// The stack.
#[derive(Debug, Clone, Copy)]
pub struct Omq;

impl Stack for Omq {
    type Request = OmqRequest;
    type Reply = OmqReply;
    type Push = OmqPush;
    type Pull = OmqPull;
}

/// How many payload bytes the queues between two ends may hold, about.
const WINDOW_BYTES: usize = 16 << 20;

/// How many messages each of them may hold, at most; upstream's high-water
/// mark.
const WINDOW_MESSAGES: usize = 1000;

/// How many the queues of all peers may hold together, about: the crate makes
/// room for them from the start.
const SHARED_MESSAGES: usize = 64 * WINDOW_MESSAGES;

/// The least that each of many peers may hold.
const LEAST_MESSAGES: usize = 32;

/// How many messages are given to the crate, or taken from it, at once.
const BATCH: usize = 256;

/// After how many bytes the crate's I/O task has its turn to write them.
const TURN_BYTES: usize = PIECE / 4 * 3;

/// From this size on the crate frees a payload when its bytes have left, and a
/// message costs so much that one more allocation does not show.
const COUNTED_BYTES: usize = 16 << 10;

/// What a connection over loopback may hold of messages of [`COUNTED_BYTES`] and
/// more. The crate gives a whole message to the system at once, and Linux sends
/// more than a [`PIECE`] of that in a way that takes twice as long; a socket
/// whose buffer is soon full takes it piece by piece. On a network the system's
/// own choice, which grows with the round trip, is the better one.
const LOOPBACK_BUFFER: usize = PIECE / 2 * 3;

/// Which end of a connection a socket is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Bind,
    Connect,
}

/// What a socket of this side is made with.
fn options(socket: &Socket, side: Side) -> Options {
    let most = (SHARED_MESSAGES / socket.peers.max(1)).clamp(LEAST_MESSAGES, WINDOW_MESSAGES);
    let options = window(socket.size.saturating_mul(socket.peers), most);
    match &socket.curve {
        None => options,
        Some(keys) => secured(options, keys, side),
    }
}

/// Bounds the queues, and keeps what is in them when the socket closes.
fn window(size: usize, most: usize) -> Options {
    let messages = (WINDOW_BYTES / size.max(1)).clamp(1, most);
    let messages = u32::try_from(messages).unwrap_or(u32::MAX);
    Options::default()
        .linger_forever()
        .send_hwm(messages)
        .recv_hwm(messages)
}

/// Adds CURVE: the end that binds is the server, as in libzmq's tools.
fn secured(options: Options, keys: &Keys, side: Side) -> Options {
    let pair = |secret: &Key| {
        let secret = CurveSecretKey::from_bytes(*secret.bytes());
        CurveKeypair {
            public: secret.derive_public(),
            secret,
        }
    };
    match (&keys.server, side) {
        (Server::Secret(secret), Side::Bind) => options.curve_server(pair(secret)),
        (Server::Secret(secret), Side::Connect) => {
            options.curve_client(pair(&keys.client), pair(secret).public)
        }
        (Server::Public(public), _) => options.curve_client(
            pair(&keys.client),
            CurvePublicKey::from_bytes(*public.bytes()),
        ),
    }
}

fn open(kind: SocketType, options: Options) -> Step<omq_tokio::Socket> {
    omq_tokio::Socket::try_new(kind, options).map_err(|error| run_error(&error))
}

/// An error while messages flow.
fn run_error(error: &OmqError) -> StackError {
    match error {
        OmqError::Closed | OmqError::Unroutable => StackError::PeerClosed,
        other => StackError::Stack(other.to_string()),
    }
}

fn bind_error(error: OmqError) -> StackError {
    match error {
        OmqError::Io(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            TransportError::InUse.into()
        }
        OmqError::Io(error) => TransportError::Io(error).into(),
        other => run_error(&other),
    }
}

/// Connects, however late the peer starts, and waits until both have agreed.
async fn connect(kind: SocketType, socket: &Socket) -> Step<(Connected, MonitorStream)> {
    let address = peer_address(&socket.endpoint).await?;
    let mut options = options(socket, Side::Connect);
    if kind == SocketType::Push
        && socket.size >= COUNTED_BYTES
        && over_loopback(&socket.endpoint).await?
    {
        options = options.send_buffer_size(LOOPBACK_BUFFER);
    }
    let end = open(kind, options)?;
    let mut events = end.monitor();
    end.connect(address)
        .await
        .map_err(|error| run_error(&error))?;
    let ready = end.wait_connected(1, Duration::MAX);
    tokio::select! {
        biased;
        ready = ready => ready.map_err(|error| run_error(&error))?,
        reason = misfit(&mut events) => {
            let reason = match &socket.curve {
                Some(_) => format!("{reason}; are the keys of both ends right?"),
                None => reason,
            };
            return Err(StackError::NoFit(reason));
        }
    };
    let seen = end.connections_generation();
    Ok((Connected { socket: end, seen }, events))
}

/// Whether the peer is on this machine and yet connected by tcp.
async fn over_loopback(endpoint: &Endpoint) -> Step<bool> {
    let Endpoint::Tcp { host, port } = endpoint else {
        return Ok(false);
    };
    let addresses = transport::peer_addresses(host, *port).await?;
    Ok(addresses.iter().all(|address| address.ip().is_loopback()))
}

/// The endpoint in the crate's words; a host name is looked up here first, so
/// that one that does not resolve fails at once and by name.
async fn peer_address(endpoint: &Endpoint) -> Step<OmqEndpoint> {
    Ok(match endpoint {
        Endpoint::Tcp { host, port } => {
            let addresses = transport::peer_addresses(host, *port).await?;
            let port = addresses.first().map_or(0, std::net::SocketAddr::port);
            let host = match host {
                Host::Ip(ip) => OmqHost::Ip(*ip),
                Host::Name(name) => OmqHost::Name(name.clone()),
                Host::Any => return Err(TransportError::Wildcard.into()),
                Host::Scoped(..) => return Err(no_zone()),
            };
            OmqEndpoint::Tcp { host, port }
        }
        Endpoint::Ipc(IpcName::Any) => return Err(TransportError::Wildcard.into()),
        Endpoint::Ipc(IpcName::Path(path)) => {
            transport::check_peer_path(path)?;
            ipc_address(path)?
        }
        Endpoint::Inproc(name) => OmqEndpoint::Inproc { name: name.clone() },
    })
}

fn no_zone() -> StackError {
    StackError::Unsupported(
        "the omq-tokio crate takes no address with a zone (%); use --stack raw".to_owned(),
    )
}

#[cfg(unix)]
#[expect(
    clippy::unnecessary_wraps,
    reason = "elsewhere there is no ipc to be had"
)]
fn ipc_address(path: &std::path::Path) -> Step<OmqEndpoint> {
    Ok(OmqEndpoint::Ipc(omq_tokio::IpcPath::Filesystem(
        path.to_owned(),
    )))
}

#[cfg(not(unix))]
fn ipc_address(_: &std::path::Path) -> Step<OmqEndpoint> {
    Err(TransportError::NoIpc.into())
}

/// A peer that hangs up before both ends have agreed may be one that is just
/// ending; one that does it as often as this does not want this end.
const TRIES: u32 = 3;

/// Waits until the peer is found not to fit, and says why.
async fn misfit(events: &mut MonitorStream) -> String {
    let mut tries = 0;
    loop {
        match events.recv().await {
            Ok(MonitorEvent::Connected { .. }) if tries == TRIES => {
                return "it hangs up before both ends have agreed".to_owned();
            }
            Ok(MonitorEvent::Connected { .. }) => tries += 1,
            Ok(MonitorEvent::HandshakeFailed { reason, .. }) if tries == TRIES => return reason,
            Ok(MonitorEvent::ConnectStopped { reason, .. }) => return format!("{reason:?}"),
            Ok(_) | Err(MonitorRecvError::Lagged(_)) => {}
            Err(_) => std::future::pending().await,
        }
    }
}

/// A connected socket.
struct Connected {
    socket: omq_tokio::Socket,
    /// The generation of its connections when it was ready: another one means
    /// that a peer is gone, even if the crate has found it again since.
    seen: u64,
}

impl Connected {
    fn lost(&self) -> bool {
        self.socket.connections_generation() != self.seen
    }

    /// Returns when a peer is gone.
    async fn until_lost(&self) -> StackError {
        match self.socket.connections_changed(self.seen).await {
            Ok(_) => StackError::PeerClosed,
            Err(error) => run_error(&error),
        }
    }
}

/// A bound socket, and the file that goes with it.
struct Bound {
    socket: omq_tokio::Socket,
    _file: Option<SocketFile>,
    started: bool,
    /// The generation of its connections when it last had one.
    seen: u64,
}

impl Bound {
    async fn open(kind: SocketType, socket: &Socket) -> Step<(Self, Endpoint)> {
        let end = open(kind, options(socket, Side::Bind))?;
        tokio::spawn(tell_refusals(socket.tool, end.monitor()));
        let mut file = None;
        let endpoint = match &socket.endpoint {
            Endpoint::Tcp { host, port } => {
                if let Host::Scoped(..) = host {
                    return Err(no_zone());
                }
                bind_tcp(&end, transport::bind_addresses(host, *port).await?).await?
            }
            Endpoint::Ipc(name) => {
                let path = transport::free_path(name).await?;
                bind(&end, ipc_address(&path)?).await?;
                let endpoint = Endpoint::ipc(&path);
                file = Some(SocketFile::new(path));
                endpoint
            }
            Endpoint::Inproc(name) => {
                bind(&end, OmqEndpoint::Inproc { name: name.clone() }).await?;
                socket.endpoint.clone()
            }
        };
        let bound = Self {
            seen: end.connections_generation(),
            socket: end,
            _file: file,
            started: false,
        };
        Ok((bound, endpoint))
    }

    /// Returns when the last peer is gone. Until there has been a message it
    /// does not: one that comes and goes (a probe, a wrong peer) is let go.
    ///
    /// Called again it returns again, as long as no other peer has come.
    async fn until_lost(&mut self) -> StackError {
        if !self.started {
            return std::future::pending().await;
        }
        loop {
            let changed = match self.socket.connections_changed(self.seen).await {
                Ok(generation) => generation,
                Err(error) => return run_error(&error),
            };
            match self.socket.connections().await {
                Ok(peers) if peers.is_empty() => return StackError::PeerClosed,
                Ok(_) => self.seen = changed,
                Err(error) => return run_error(&error),
            }
        }
    }
}

async fn bind(end: &omq_tokio::Socket, address: OmqEndpoint) -> Step<OmqEndpoint> {
    end.bind(address).await.map_err(bind_error)
}

/// Binds to the first address that takes it.
async fn bind_tcp(end: &omq_tokio::Socket, addresses: Vec<std::net::SocketAddr>) -> Step<Endpoint> {
    let mut last = None;
    for address in addresses {
        let host = OmqHost::Ip(address.ip());
        let port = address.port();
        match bind(end, OmqEndpoint::Tcp { host, port }).await {
            Ok(OmqEndpoint::Tcp { port, .. }) => {
                return Ok(Endpoint::tcp(std::net::SocketAddr::new(address.ip(), port)));
            }
            Ok(other) => return Err(StackError::Stack(format!("bound to {other}"))),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| StackError::Stack("no address to bind".to_owned())))
}

/// Says on stderr which peers did not fit, and why.
async fn tell_refusals(tool: &'static str, mut events: MonitorStream) {
    loop {
        match events.recv().await {
            Ok(MonitorEvent::HandshakeFailed { reason, .. }) => {
                let refused = StackError::NoFit(reason);
                note(tool, &format!("refused a peer: {refused}"));
            }
            Ok(_) | Err(MonitorRecvError::Lagged(_)) => {}
            Err(_) => return,
        }
    }
}

/// The payload of a message, or what is wrong with the message.
#[inline]
fn check(message: &Message, size: usize) -> Step<&[u8]> {
    match (message.len(), message.part_slice(0)) {
        (1, Some(payload)) => check_size(size, payload.len()).map(|()| payload),
        // A payload of no bytes may come without a part to hold it.
        (0 | 1, None) => check_size(size, 0).map(|()| &[][..]),
        (parts, _) => Err(StackError::Stack(format!(
            "a message of {parts} parts instead of 1"
        ))),
    }
}

fn payload(size: usize) -> Bytes {
    Bytes::from(vec![0; size])
}

/// REQ
pub struct OmqRequest {
    end: Connected,
    size: usize,
    message: Message,
}

impl Request for OmqRequest {
    async fn connect(socket: &Socket) -> Step<Self> {
        let (end, _) = connect(SocketType::Req, socket).await?;
        Ok(Self {
            end,
            size: socket.size,
            message: Message::single(payload(socket.size)),
        })
    }

    async fn round_trip(&mut self) -> Step<()> {
        let request = std::mem::replace(&mut self.message, Message::new());
        let socket = &self.end.socket;
        let exchange = async {
            socket.send(request).await?;
            socket.recv().await
        };
        let reply = tokio::select! {
            biased;
            reply = exchange => reply,
            lost = self.end.until_lost() => return Err(lost),
        };
        self.message = reply.map_err(|error| run_error(&error))?;
        check(&self.message, self.size)?;
        Ok(())
    }
}

/// REP
pub struct OmqReply {
    end: Bound,
    size: usize,
}

impl Reply for OmqReply {
    async fn bind(socket: &Socket) -> Step<(Self, Endpoint)> {
        let (end, endpoint) = Bound::open(SocketType::Rep, socket).await?;
        let size = socket.size;
        Ok((Self { end, size }, endpoint))
    }

    async fn serve(&mut self) -> Step<()> {
        let socket = self.end.socket.clone_shared();
        let request = tokio::select! {
            biased;
            request = socket.recv() => request.map_err(|error| run_error(&error))?,
            lost = self.end.until_lost() => return Err(lost),
        };
        self.end.started = true;
        check(&request, self.size)?;
        socket
            .send(request)
            .await
            .map_err(|error| run_error(&error))
    }

    async fn finish(self) -> Step<()> {
        self.end
            .socket
            .close()
            .await
            .map_err(|error| run_error(&error))
    }
}

/// A payload that counts itself as left when it is dropped.
struct Counted {
    payload: Bytes,
    left: Arc<Progress>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.payload
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Only whether it moves matters; a lost update is no harm.
        self.left.set(self.left.completed() + 1);
    }
}

/// PUSH
pub struct OmqPush {
    end: Connected,
    events: MonitorStream,
    payload: Bytes,
    queue: VecDeque<Message>,
    /// How many more messages may be sent in this turn, and in each.
    turn: u64,
    per_turn: u64,
    left: Arc<Progress>,
}

impl Push for OmqPush {
    async fn connect(socket: &Socket) -> Step<Self> {
        let (end, events) = connect(SocketType::Push, socket).await?;
        // A header takes up to 9 bytes.
        let per_turn = (TURN_BYTES / (socket.size + 9)).max(1);
        Ok(Self {
            end,
            events,
            payload: payload(socket.size),
            queue: VecDeque::with_capacity(per_turn.min(BATCH)),
            turn: count(per_turn),
            per_turn: count(per_turn),
            left: Arc::default(),
        })
    }

    async fn push(&mut self, at_most: u64, fill: &mut impl Fill) -> Step<u64> {
        if self.turn == 0 {
            tokio::task::yield_now().await;
            self.turn = self.per_turn;
        }
        let batch = at_most.min(count(BATCH)).min(self.turn);
        self.turn -= batch;
        for _ in 0..batch {
            let message = self.message(fill);
            self.queue.push_back(message);
        }
        while !self.queue.is_empty() {
            if self.end.lost() {
                return Err(StackError::PeerClosed);
            }
            let socket = &self.end.socket;
            match socket.try_send_many(&mut self.queue, BATCH) {
                Ok(_) => {}
                Err(TrySendError::Full(message)) => {
                    self.queue.push_front(message);
                    tokio::select! {
                        biased;
                        () = socket.wait_send_ready() => {}
                        lost = self.end.until_lost() => return Err(lost),
                    }
                }
                Err(TrySendError::Closed) => return Err(StackError::PeerClosed),
                Err(TrySendError::Error(error)) => return Err(run_error(&error)),
            }
        }
        Ok(batch)
    }

    fn left(&self) -> Arc<Progress> {
        Arc::clone(&self.left)
    }

    async fn finish(self) -> Step<()> {
        if self.end.lost() {
            return Err(StackError::PeerClosed);
        }
        let mut events = self.events;
        tokio::select! {
            biased;
            closed = self.end.socket.close() => closed.map_err(|error| run_error(&error))?,
            () = cut_off(&mut events) => return Err(StackError::PeerClosed),
        }
        // A socket has nothing to send, too, when it threw everything away.
        while let Ok(event) = events.try_recv() {
            if let MonitorEvent::Disconnected { reason, .. } = event
                && !matches!(
                    reason,
                    DisconnectReason::LocalClose | DisconnectReason::PeerClosed
                )
            {
                return Err(StackError::PeerClosed);
            }
        }
        Ok(())
    }
}

/// A peer that has what it wants closes as soon as it has it; what is left to
/// do then takes no longer than this.
const GRACE: Duration = Duration::from_secs(1);

/// Returns when the peer is gone and there is still something to send.
async fn cut_off(events: &mut MonitorStream) {
    loop {
        match events.recv().await {
            Ok(MonitorEvent::Disconnected { reason, .. }) => match reason {
                DisconnectReason::LocalClose => {}
                DisconnectReason::PeerClosed => return tokio::time::sleep(GRACE).await,
                _ => return,
            },
            Ok(_) | Err(MonitorRecvError::Lagged(_)) => {}
            Err(_) => std::future::pending().await,
        }
    }
}

impl OmqPush {
    /// The next message; a large one counts itself when it has left.
    #[inline]
    fn message(&self, fill: &mut impl Fill) -> Message {
        let mut payload = fill.apply(&self.payload);
        if payload.len() >= COUNTED_BYTES {
            payload = Bytes::from_owner(Counted {
                payload,
                left: Arc::clone(&self.left),
            });
        }
        Message::single(payload)
    }
}

/// PULL
pub struct OmqPull {
    end: Bound,
    size: usize,
    messages: Vec<Message>,
    /// What is wrong with the message behind the last that was given out.
    wrong: Option<StackError>,
}

impl Pull for OmqPull {
    async fn bind(socket: &Socket) -> Step<(Self, Endpoint)> {
        let (end, endpoint) = Bound::open(SocketType::Pull, socket).await?;
        let pull = Self {
            end,
            size: socket.size,
            messages: Vec::with_capacity(BATCH),
            wrong: None,
        };
        Ok((pull, endpoint))
    }

    async fn pull(&mut self, at_most: u64, visit: &mut impl Visit) -> Step<u64> {
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        let at_most = usize::try_from(at_most).unwrap_or(usize::MAX).min(BATCH);
        let ready = self
            .end
            .socket
            .try_recv_many_into(at_most, &mut self.messages);
        let pulled = match ready {
            Err(OmqError::WouldBlock) => {
                let socket = self.end.socket.clone_shared();
                tokio::select! {
                    biased;
                    pulled = socket.recv_many_into(at_most, &mut self.messages) => pulled,
                    lost = self.end.until_lost() => return Err(lost),
                }
            }
            ready => ready,
        };
        pulled.map_err(|error| run_error(&error))?;
        self.end.started = true;
        let mut pulled = 0;
        for message in self.messages.drain(..) {
            match check(&message, self.size) {
                Ok(payload) => visit.visit(payload),
                Err(wrong) if pulled == 0 => return Err(wrong),
                Err(wrong) => {
                    self.wrong = Some(wrong);
                    break;
                }
            }
            pulled += 1;
        }
        Ok(pulled)
    }
}
