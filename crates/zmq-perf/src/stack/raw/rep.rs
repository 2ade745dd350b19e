//! REP: requests in, their echoes back.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};

use super::connection::{Connection, linger};
use super::envelope::body_size;
use super::error::{RawError, WrongSize};
use super::peers::{Accept, Peers};
use crate::zmtp::{Message, SocketType};

/// A REP socket that sends each request back, envelope and all.
pub struct RawRep<A: Accept> {
    peers: Peers<A, Option<Reply>>,
    size: usize,
}

/// A reply on its way out: the request, where it arrived.
#[derive(Debug)]
struct Reply {
    message: Message,
    sent: usize,
}

impl<A: Accept> RawRep<A> {
    /// A socket for requests of `size` bytes from the peers of `acceptor`. What
    /// is larger than `limit` is refused before it has arrived.
    pub fn new(acceptor: A, size: usize, limit: usize) -> Self {
        Self {
            peers: Peers::new(acceptor, SocketType::Rep, limit),
            size,
        }
    }

    /// Answers one request, of any peer. While there is no peer it waits.
    ///
    /// # Errors
    /// A peer was refused ([`RawError::is_stranger`]) or has failed, or the
    /// last one has left ([`RawError::Closed`]). That peer is gone; the next
    /// call goes on with the others.
    pub async fn serve(&mut self) -> Result<(), RawError> {
        let size = self.size;
        let served = poll_fn(|cx| {
            self.peers.poll_turn(cx, |connection, reply, cx| {
                poll_serve(connection, reply, size, cx)
            })
        });
        served.await.map(|_| ())
    }

    /// How many requests of each peer were answered, in the order in which the
    /// peers came.
    #[must_use]
    pub fn shares(&self) -> &[u64] {
        self.peers.shares()
    }

    /// Closes the socket so that no reply is lost: it returns when all peers
    /// have closed their ends too, or after [`LINGER`](super::LINGER).
    ///
    /// # Errors
    /// A stream broke: its peer may not have got its last reply.
    pub async fn finish(mut self) -> Result<(), RawError> {
        linger(poll_fn(|cx| {
            self.peers.poll_finish(cx, |connection, reply, cx| {
                ready!(poll_reply(connection, reply, cx))?;
                connection.poll_finish(cx)
            })
        }))
        .await
    }
}

fn poll_serve<S>(
    connection: &mut Connection<S>,
    reply: &mut Option<Reply>,
    size: usize,
    cx: &mut Context<'_>,
) -> Poll<Result<u64, RawError>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while reply.is_none() {
        if let Some(message) = connection.next_message()? {
            let got = body_size(connection.decoder().parts(message))?;
            WrongSize::check(size, got)?;
            *reply = Some(Reply { message, sent: 0 });
        } else {
            ready!(connection.poll_receive(cx))?;
        }
    }
    ready!(poll_reply(connection, reply, cx))?;
    Poll::Ready(Ok(1))
}

/// Sends the reply, if there is one. Until it is gone nothing is read.
fn poll_reply<S>(
    connection: &mut Connection<S>,
    reply: &mut Option<Reply>,
    cx: &mut Context<'_>,
) -> Poll<Result<(), RawError>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if let Some(Reply { message, sent }) = reply {
        ready!(connection.poll_echo(*message, sent, cx))?;
        *reply = None;
    }
    Poll::Ready(Ok(()))
}
