//! PUSH: messages out, many a write.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use perf_core::units;
use tokio::io::{AsyncRead, AsyncWrite};

use super::connection::{Connection, WRITE_SIZE, linger};
use super::error::RawError;
use crate::zmtp::{Kind, encode_frame};

/// A PUSH socket that sends messages of one size.
///
/// They lie encoded in one buffer, as many as one write takes whole, and are written
/// from there again and again: a message costs what its bytes cost.
#[derive(Debug)]
pub struct RawPush<S> {
    connection: Connection<S>,
    /// Whole messages, all of one length.
    batch: Vec<u8>,
    /// The length of a message's header.
    header: usize,
    /// The length of a message with its header.
    stride: usize,
    /// How much of the batch is to go out, and how much of that is gone.
    end: usize,
    sent: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> RawPush<S> {
    /// A socket whose messages have `size` bytes, all zero until stamped.
    pub fn new(connection: Connection<S>, size: usize) -> Self {
        let mut message = Vec::new();
        let framing = connection.decoder().framing();
        encode_frame(framing, Kind::Last, &vec![0; size], &mut message);
        let stride = message.len();
        Self {
            connection,
            batch: message.repeat((WRITE_SIZE / stride).max(1)),
            header: stride - size,
            stride,
            end: 0,
            sent: 0,
        }
    }

    /// Sends one message or more, and `at_most` so many, at once and in one
    /// write if the stream takes it: how many.
    ///
    /// `stamp` is given the body of each first, as the last message in that
    /// place has left it, and may write into it.
    ///
    /// # Errors
    /// The peer is gone, or sends what a PULL socket would not.
    pub async fn push(
        &mut self,
        at_most: u64,
        mut stamp: impl FnMut(&mut [u8]),
    ) -> Result<u64, RawError> {
        // What a dropped call has left unsent.
        poll_fn(|cx| self.poll_send(cx)).await?;
        let messages = units::at_most(at_most, self.batch.len() / self.stride);
        self.end = messages * self.stride;
        self.sent = 0;
        for message in self.batch[..self.end].chunks_exact_mut(self.stride) {
            // Nothing here can panic, so that a stamp that does nothing leaves
            // no loop behind.
            if let Some(body) = message.get_mut(self.header..) {
                stamp(body);
            }
        }
        poll_fn(|cx| self.poll_send(cx)).await?;
        Ok(units::count(messages))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RawError>> {
        if self.sent < self.end {
            let batch = &self.batch[..self.end];
            ready!(self.connection.poll_send(batch, &mut self.sent, cx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Closes the socket so that nothing is lost: all has been handed to the
    /// system when it returns, and the peer has closed its end too, unless it
    /// takes more than [`LINGER`](super::LINGER) over it.
    ///
    /// # Errors
    /// The stream broke: the peer may not have read all.
    pub async fn finish(mut self) -> Result<(), RawError> {
        poll_fn(|cx| self.poll_send(cx)).await?;
        linger(poll_fn(|cx| self.connection.poll_finish(cx))).await
    }
}
