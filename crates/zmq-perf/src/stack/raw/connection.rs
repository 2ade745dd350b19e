//! One stream, after its handshake: messages in, bytes out, heartbeats answered.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::error::RawError;
use crate::transport::PIECE;
use crate::zmtp::{
    Command, Decoder, Handshake, Item, Message, Peer, Progress, SocketType, encode_pong,
};

/// The most that is taken for one message unless told otherwise: what libzmq's
/// tools can ask for, whose sizes are a C `int`.
pub const DEFAULT_LIMIT: usize = 0x7fff_ffff;

/// What a message may need beside its body within the limit: the headers and
/// routing ids of an envelope that has come through a chain of proxies.
const ENVELOPE: usize = 8 * 1024;

/// Bytes read at once, at most: as much as Linux sends as one piece. What is
/// read is then still in the first- or second-level cache when the messages
/// are looked at, and so is the buffer for the next read. Longer reads measure
/// slower, up to a third.
pub(super) const READ_SIZE: usize = PIECE;

/// Bytes written at once, at most. Large, so that one system call and one
/// wake-up of the peer serve many messages, and well below a [`PIECE`].
pub(super) const WRITE_SIZE: usize = PIECE / 4 * 3;

/// How long a socket that closes waits for its peer to close too.
///
/// The bytes are with the system by then, which delivers them without us. Only
/// input that arrives after the socket is gone could make it drop them.
pub const LINGER: Duration = Duration::from_secs(1);

/// Waits for `ending`, for [`LINGER`] at most.
pub(super) async fn linger(
    ending: impl Future<Output = Result<(), RawError>>,
) -> Result<(), RawError> {
    tokio::time::timeout(LINGER, ending).await.unwrap_or(Ok(()))
}

/// Answers that a peer may leave unread before nothing more is read from it.
const MAX_ANSWERS: usize = 4 * 1024;

/// Bytes on their way out.
#[derive(Debug, Default)]
struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    fn pending(&self) -> usize {
        self.bytes.len() - self.sent
    }

    fn poll_send<S>(&mut self, stream: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<()>>
    where
        S: AsyncWrite + Unpin,
    {
        if self.pending() > 0 {
            ready!(poll_write_all(stream, &self.bytes, &mut self.sent, cx))?;
            self.bytes.clear();
            self.sent = 0;
        }
        Poll::Ready(Ok(()))
    }
}

/// Shakes hands over `stream`, as a socket of type `local` that takes messages
/// of up to `limit` bytes. A body of `limit` bytes fits, with its envelope.
///
/// # Errors
/// The peer is of another kind ([`RawError::Handshake`]), or gone.
pub async fn handshake<S>(
    stream: S,
    local: SocketType,
    limit: usize,
) -> Result<Connection<S>, RawError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut handshaking = Handshaking::new(stream, local, READ_SIZE, limit);
    let peer = poll_fn(|cx| handshaking.poll(cx)).await?;
    Ok(handshaking.finish(peer))
}

/// A stream in its handshake.
#[derive(Debug)]
pub(super) struct Handshaking<S> {
    stream: S,
    decoder: Decoder,
    machine: Handshake,
    out: Outbox,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Handshaking<S> {
    /// Reads into `capacity` bytes, and takes messages of up to `limit` bytes.
    pub(super) fn new(stream: S, local: SocketType, capacity: usize, limit: usize) -> Self {
        let mut out = Outbox::default();
        let machine = Handshake::new(local, &mut out.bytes);
        Self {
            stream,
            decoder: Decoder::new(capacity, limit.saturating_add(ENVELOPE)),
            machine,
            out,
        }
    }

    /// Goes on until it is known who the peer is.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Peer, RawError>> {
        loop {
            let input = self.decoder.unread();
            let step = self.machine.advance(input, &mut self.out.bytes);
            // Before a refusal ends it, so that the peer can tell why. And
            // without waiting: two ends that only write wait for each other.
            let sent = self.out.poll_send(&mut self.stream, cx);
            match step? {
                Progress::More { consumed } => self.decoder.consume(consumed),
                Progress::Done { consumed, peer } => {
                    self.decoder.consume(consumed);
                    self.decoder.set_framing(peer.version.framing());
                    return Poll::Ready(Ok(peer));
                }
            }
            if let Poll::Ready(sent) = sent {
                sent.map_err(RawError::HandshakeIo)?;
            }
            let filled = poll_fill(&mut self.stream, &mut self.decoder, cx);
            if ready!(filled).map_err(RawError::HandshakeIo)? == 0 {
                let awaited = self.machine.awaits();
                return Poll::Ready(Err(RawError::ClosedInHandshake(awaited)));
            }
        }
    }

    /// The connection with `peer`. What the handshake has not sent yet goes
    /// out before anything else.
    pub(super) fn finish(self, peer: Peer) -> Connection<S> {
        Connection {
            stream: self.stream,
            decoder: self.decoder,
            peer,
            answers: self.out,
        }
    }
}

/// A stream whose handshake is over.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    decoder: Decoder,
    peer: Peer,
    /// What must go out between two messages: PONGs.
    answers: Outbox,
}

impl<S> Connection<S> {
    /// Who is at the other end.
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The next message that has arrived whole.
    ///
    /// Commands on the way are obeyed.
    pub(super) fn next_message(&mut self) -> Result<Option<Message>, RawError> {
        while let Some(item) = self.decoder.next_item()? {
            match item {
                Item::Message(message) => return Ok(Some(message)),
                Item::Command(command) => self.obey(command)?,
            }
        }
        Ok(None)
    }

    fn obey(&mut self, command: Message) -> Result<(), RawError> {
        let body = self.decoder.single(command).unwrap_or_default();
        match Command::parse(body)? {
            Command::Ping { context } => encode_pong(context, &mut self.answers.bytes),
            Command::Error(reason) => {
                return Err(RawError::PeerError(reason.escape_ascii().to_string()));
            }
            Command::Ready(_) | Command::Other => {}
        }
        Ok(())
    }

    /// Takes the messages behind `message` that are just like it, as
    /// [`Decoder::visit_alike`] does.
    #[inline]
    pub(super) fn visit_alike<E>(
        &mut self,
        message: Message,
        at_most: u64,
        visit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> (u64, Result<(), E>) {
        self.decoder.visit_alike(message, at_most, visit)
    }

    /// Where the messages are.
    #[inline]
    pub(super) const fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Why there is nothing more to read.
    fn closed(&self) -> RawError {
        if self.decoder.unread().is_empty() {
            RawError::Closed
        } else {
            RawError::ClosedInMessage
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Reads once, after all whole messages have been taken. The messages taken
    /// before are then gone.
    ///
    /// # Errors
    /// Also when the peer has closed the connection.
    pub(super) fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RawError>> {
        match self.answers.poll_send(&mut self.stream, cx) {
            Poll::Ready(sent) => sent.map_err(RawError::Io)?,
            Poll::Pending if self.answers.pending() > MAX_ANSWERS => return Poll::Pending,
            Poll::Pending => {}
        }
        let filled = poll_fill(&mut self.stream, &mut self.decoder, cx);
        if ready!(filled).map_err(RawError::Io)? == 0 {
            return Poll::Ready(Err(self.closed()));
        }
        Poll::Ready(Ok(()))
    }

    /// Sends `bytes`, whole messages of which `sent` bytes are gone already.
    /// The peer may send commands meanwhile, and nothing else.
    ///
    /// # Errors
    /// Also when the peer has closed the connection, even if it could still be
    /// written to.
    pub(super) fn poll_send(
        &mut self,
        bytes: &[u8],
        sent: &mut usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), RawError>> {
        while self.answers.pending() <= MAX_ANSWERS {
            match poll_fill(&mut self.stream, &mut self.decoder, cx).map_err(RawError::Io)? {
                Poll::Pending => break,
                Poll::Ready(0) => return Poll::Ready(Err(self.closed())),
                Poll::Ready(_) if self.next_message()?.is_some() => {
                    return Poll::Ready(Err(RawError::Unasked));
                }
                Poll::Ready(_) => {}
            }
        }
        if *sent == 0 {
            ready!(self.answers.poll_send(&mut self.stream, cx)).map_err(RawError::Io)?;
        }
        poll_write_all(&mut self.stream, bytes, sent, cx).map_err(RawError::Io)
    }

    /// Sends a message back as it came, of which `sent` bytes are gone already.
    pub(super) fn poll_echo(
        &mut self,
        message: Message,
        sent: &mut usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), RawError>> {
        if *sent == 0 {
            ready!(self.answers.poll_send(&mut self.stream, cx)).map_err(RawError::Io)?;
        }
        let bytes = self.decoder.wire(message);
        poll_write_all(&mut self.stream, bytes, sent, cx).map_err(RawError::Io)
    }

    /// Ends the stream so that all that was sent can be read: it closes this
    /// half, and waits for the peer to close the other.
    ///
    /// A stream that is closed with input unread is reset, and the peer loses
    /// what it has not read yet. So what comes is read, and thrown away.
    pub(super) fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RawError>> {
        ready!(self.answers.poll_send(&mut self.stream, cx)).map_err(RawError::Io)?;
        ready!(Pin::new(&mut self.stream).poll_shutdown(cx)).map_err(RawError::Io)?;
        loop {
            self.decoder.consume(usize::MAX);
            let filled = poll_fill(&mut self.stream, &mut self.decoder, cx);
            if ready!(filled).map_err(RawError::Io)? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// Reads once into the space of the decoder: how many bytes, 0 at the end.
fn poll_fill<S>(
    stream: &mut S,
    decoder: &mut Decoder,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>>
where
    S: AsyncRead + Unpin,
{
    let mut space = ReadBuf::new(decoder.space());
    ready!(Pin::new(stream).poll_read(cx, &mut space))?;
    let len = space.filled().len();
    decoder.filled(len);
    Poll::Ready(Ok(len))
}

/// Writes what `sent` leaves of `bytes`, a piece at a time, and flushes.
fn poll_write_all<S>(
    stream: &mut S,
    bytes: &[u8],
    sent: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>>
where
    S: AsyncWrite + Unpin,
{
    while *sent < bytes.len() {
        let end = bytes.len().min(*sent + WRITE_SIZE);
        let written = Pin::new(&mut *stream).poll_write(cx, &bytes[*sent..end]);
        match ready!(written)? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            len => *sent += len,
        }
    }
    Pin::new(stream).poll_flush(cx)
}
