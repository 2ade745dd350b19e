//! The four ends of the stack: the raw sockets on the system's streams.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use perf_core::cli::note;
use perf_core::load::Progress;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Accept, RawError, RawPull, RawPush, RawRep, RawReq, WrongSize, handshake};
use crate::endpoint::Endpoint;
use crate::stack::{Pull, Push, Reply, Request, Socket, Stack, StackError, Step};
use crate::stamp::{Fill, Visit};
use crate::transport::{self, Listener, Stream};
use crate::zmtp::SocketType;

/// The stack.
#[derive(Debug, Clone, Copy)]
pub struct Raw;

impl Stack for Raw {
    type Request = RawRequest;
    type Reply = RawReply;
    type Push = RawPusher;
    type Pull = RawPuller;
}

/// Messages of another size than agreed are told by their size up to this many
/// bytes. Those that are still larger are refused by what they claim, before
/// they have arrived.
const OTHER_SIZES: usize = 1024 * 1024;

/// The most that an end takes for one message.
fn limit(socket: &Socket) -> usize {
    socket.size.max(OTHER_SIZES)
}

impl From<RawError> for StackError {
    fn from(error: RawError) -> Self {
        match error {
            RawError::Closed | RawError::ClosedInMessage => Self::PeerClosed,
            RawError::WrongSize(WrongSize { expected, got }) => Self::WrongSize { expected, got },
            RawError::Handshake(_) | RawError::ClosedInHandshake(_) => {
                Self::NoFit(error.to_string())
            }
            RawError::HandshakeIo(source) => Self::NoFit(source.to_string()),
            RawError::Io(source) => Self::Stack(format!("connection lost: {source}")),
            RawError::Accept(ref source) => Self::Stack(format!("{error}: {source}")),
            other => Self::Stack(other.to_string()),
        }
    }
}

/// A stream of the system, whichever.
#[derive(Debug)]
pub struct SystemStream(Stream);

impl SystemStream {
    fn get(self: Pin<&mut Self>) -> &mut Stream {
        &mut self.get_mut().0
    }
}

/// Calls a method of the stream that is there.
macro_rules! on_stream {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Stream::Tcp(stream) => {
                let $inner = Pin::new(stream);
                $call
            }
            #[cfg(unix)]
            Stream::Ipc(stream) => {
                let $inner = Pin::new(stream);
                $call
            }
        }
    };
}

impl AsyncRead for SystemStream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_stream!(self.get(), stream => stream.poll_read(cx, space))
    }
}

impl AsyncWrite for SystemStream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self.get(), stream => stream.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self.get(), stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self.get(), stream => stream.poll_shutdown(cx))
    }
}

impl Accept for Listener {
    type Stream = SystemStream;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<SystemStream>> {
        match self {
            Self::Tcp(listener) => listener.poll_accept(cx).map(|accepted| {
                let (stream, _) = accepted?;
                stream.set_nodelay(true)?;
                Ok(SystemStream(Stream::Tcp(stream)))
            }),
            #[cfg(unix)]
            Self::Ipc(listener, _) => listener
                .poll_accept(cx)
                .map_ok(|(stream, _)| SystemStream(Stream::Ipc(stream))),
        }
    }
}

/// Connects, however late the peer starts, and shakes hands.
///
/// A peer that closes the connection before it has greeted is one that is not
/// ready yet, or a forwarder in front of it.
async fn connect(socket: &Socket, local: SocketType) -> Step<super::Connection<SystemStream>> {
    loop {
        let stream = SystemStream(transport::connect(&socket.endpoint).await?);
        match handshake(stream, local, limit(socket)).await {
            Err(RawError::HandshakeIo(error)) if transport::may_come(&error) => {}
            Err(RawError::ClosedInHandshake(_)) => {}
            done => return Ok(done?),
        }
        tokio::time::sleep(transport::RETRY_PAUSE).await;
    }
}

/// What a bound end does with peers that fail.
#[derive(Debug)]
struct Door {
    tool: &'static str,
    /// Whether a message has come.
    started: bool,
}

impl Door {
    const fn new(socket: &Socket) -> Self {
        Self {
            tool: socket.tool,
            started: false,
        }
    }

    /// Lets go of a peer that is none: one whose handshake fails, and before
    /// the first message any that breaks off. All else ends the run.
    fn judge(&self, error: RawError) -> Step<()> {
        let gone = matches!(
            error,
            RawError::Closed | RawError::ClosedInMessage | RawError::Io(_)
        );
        let what = if error.is_stranger() {
            "refused a peer"
        } else if gone && !self.started {
            "let a peer go"
        } else {
            return Err(error.into());
        };
        note(
            self.tool,
            &format_args!("{what}: {}", StackError::from(error)),
        );
        Ok(())
    }
}

/// REQ
#[derive(Debug)]
pub struct RawRequest(RawReq<SystemStream>);

impl Request for RawRequest {
    async fn connect(socket: &Socket) -> Step<Self> {
        let connection = connect(socket, SocketType::Req).await?;
        Ok(Self(RawReq::new(connection, socket.size)))
    }

    async fn round_trip(&mut self) -> Step<()> {
        Ok(self.0.round_trip().await?)
    }
}

/// REP
pub struct RawReply {
    rep: RawRep<Listener>,
    door: Door,
}

impl Reply for RawReply {
    async fn bind(socket: &Socket) -> Step<(Self, Endpoint)> {
        let (listener, endpoint) = transport::bind(&socket.endpoint).await?;
        let reply = Self {
            rep: RawRep::new(listener, socket.size, limit(socket)),
            door: Door::new(socket),
        };
        Ok((reply, endpoint))
    }

    async fn serve(&mut self) -> Step<()> {
        while let Err(error) = self.rep.serve().await {
            self.door.judge(error)?;
        }
        self.door.started = true;
        Ok(())
    }

    fn shares(&self) -> &[u64] {
        self.rep.shares()
    }

    async fn finish(self) -> Step<()> {
        Ok(self.rep.finish().await?)
    }
}

/// PUSH
#[derive(Debug)]
pub struct RawPusher(RawPush<SystemStream>);

impl Push for RawPusher {
    async fn connect(socket: &Socket) -> Step<Self> {
        let connection = connect(socket, SocketType::Push).await?;
        Ok(Self(RawPush::new(connection, socket.size)))
    }

    async fn push(&mut self, at_most: u64, fill: &mut impl Fill) -> Step<u64> {
        Ok(self.0.push(at_most, |payload| fill.fill(payload)).await?)
    }

    fn left(&self) -> Arc<Progress> {
        // All that was pushed has left already; what is waited for is short.
        Arc::default()
    }

    async fn finish(self) -> Step<()> {
        Ok(self.0.finish().await?)
    }
}

/// PULL
pub struct RawPuller {
    pull: RawPull<Listener>,
    door: Door,
    size: usize,
}

impl Pull for RawPuller {
    async fn bind(socket: &Socket) -> Step<(Self, Endpoint)> {
        let (listener, endpoint) = transport::bind(&socket.endpoint).await?;
        let pull = Self {
            pull: RawPull::new(listener, limit(socket)),
            door: Door::new(socket),
            size: socket.size,
        };
        Ok((pull, endpoint))
    }

    async fn pull(&mut self, at_most: u64, visit: &mut impl Visit) -> Step<u64> {
        let size = self.size;
        loop {
            let pulled = self.pull.pull(at_most, |message| {
                WrongSize::check(size, message.len())?;
                visit.visit(message);
                Ok(())
            });
            match pulled.await {
                Ok(count) => {
                    self.door.started = true;
                    return Ok(count);
                }
                Err(error) => self.door.judge(error)?,
            }
        }
    }

    fn shares(&self) -> &[u64] {
        self.pull.shares()
    }
}
