//! PULL: messages in, many a read.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};

use super::connection::Connection;
use super::error::{RawError, WrongSize};
use super::peers::{Accept, Peers};
use crate::zmtp::{Decoder, Message, SocketType};

/// A PULL socket.
pub struct RawPull<A: Accept> {
    /// With each peer, what it has failed of after messages that had to be
    /// told first.
    peers: Peers<A, Option<RawError>>,
    /// A message of several parts, put together.
    assembly: Vec<u8>,
}

impl<A: Accept> RawPull<A> {
    /// A socket for messages of up to `limit` bytes from the peers of
    /// `acceptor`. What is larger is refused before it has arrived.
    pub fn new(acceptor: A, limit: usize) -> Self {
        Self {
            peers: Peers::new(acceptor, SocketType::Pull, limit),
            assembly: Vec::new(),
        }
    }

    /// Receives one message or more, and `at_most` so many, all that one read
    /// from one peer gives: how many. The peers take turns. While there is no
    /// peer it waits.
    ///
    /// `visit` is shown each message where it lies.
    ///
    /// # Errors
    /// A peer was refused ([`RawError::is_stranger`]) or has failed, or the
    /// last one has left ([`RawError::Closed`]). That peer is gone; the next
    /// call goes on with the others. All messages that came before have been
    /// counted by earlier calls.
    pub async fn pull(
        &mut self,
        at_most: u64,
        mut visit: impl FnMut(&[u8]) -> Result<(), WrongSize>,
    ) -> Result<u64, RawError> {
        let Self { peers, assembly } = self;
        poll_fn(|cx| {
            peers.poll_turn(cx, |connection, failure, cx| {
                poll_pull(connection, failure, at_most, assembly, &mut visit, cx)
            })
        })
        .await
    }

    /// How many messages came from each peer, in the order in which the peers
    /// came.
    #[must_use]
    pub fn shares(&self) -> &[u64] {
        self.peers.shares()
    }
}

fn poll_pull<S>(
    connection: &mut Connection<S>,
    failure: &mut Option<RawError>,
    at_most: u64,
    assembly: &mut Vec<u8>,
    visit: &mut impl FnMut(&[u8]) -> Result<(), WrongSize>,
    cx: &mut Context<'_>,
) -> Poll<Result<u64, RawError>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let mut pulled = 0;
        while pulled < at_most && failure.is_none() {
            let some = visit_some(connection, at_most - pulled, assembly, visit);
            let Some((visited, outcome)) = some else {
                break;
            };
            pulled += visited;
            *failure = outcome.err();
        }
        if pulled > 0 || at_most == 0 {
            return Poll::Ready(Ok(pulled));
        }
        if let Some(failure) = failure.take() {
            return Poll::Ready(Err(failure));
        }
        ready!(connection.poll_receive(cx))?;
    }
}

/// Visits the next message, and those behind it that are just like it; `None`
/// when no whole message is there.
fn visit_some<S>(
    connection: &mut Connection<S>,
    at_most: u64,
    assembly: &mut Vec<u8>,
    visit: &mut impl FnMut(&[u8]) -> Result<(), WrongSize>,
) -> Option<(u64, Result<(), RawError>)> {
    let message = match connection.next_message() {
        Ok(message) => message?,
        Err(error) => return Some((0, Err(error))),
    };
    if let Err(error) = visit_one(connection.decoder(), message, assembly, visit) {
        return Some((0, Err(error.into())));
    }
    let (alike, outcome) = connection.visit_alike(message, at_most - 1, visit);
    Some((1 + alike, outcome.map_err(RawError::from)))
}

fn visit_one(
    decoder: &Decoder,
    message: Message,
    assembly: &mut Vec<u8>,
    visit: &mut impl FnMut(&[u8]) -> Result<(), WrongSize>,
) -> Result<(), WrongSize> {
    if let Some(body) = decoder.single(message) {
        return visit(body);
    }
    assembly.clear();
    assembly.extend(decoder.parts(message).flatten());
    visit(assembly)
}
