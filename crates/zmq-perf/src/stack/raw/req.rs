//! REQ: one message out, its echo back.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};

use super::connection::Connection;
use super::envelope::body_size;
use super::error::{RawError, WrongSize};
use crate::zmtp::{Kind, encode_frame};

/// A REQ socket that sends the same message over and over.
#[derive(Debug)]
pub struct RawReq<S> {
    connection: Connection<S>,
    size: usize,
    /// The empty part that ends the envelope, and the message, as they go out.
    request: Vec<u8>,
    /// Bytes of the request that are gone.
    sent: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> RawReq<S> {
    /// A socket whose messages have `size` bytes, all zero.
    pub fn new(connection: Connection<S>, size: usize) -> Self {
        let framing = connection.decoder().framing();
        let mut request = Vec::new();
        encode_frame(framing, Kind::More, b"", &mut request);
        encode_frame(framing, Kind::Last, &vec![0; size], &mut request);
        Self {
            connection,
            size,
            request,
            sent: 0,
        }
    }

    /// Sends the message and receives its echo.
    ///
    /// After a call that was dropped in the middle the next one ends that round
    /// trip and starts no other.
    ///
    /// # Errors
    /// The echo has another size or no envelope, or the peer is gone.
    pub async fn round_trip(&mut self) -> Result<(), RawError> {
        poll_fn(|cx| self.poll_round_trip(cx)).await
    }

    fn poll_round_trip(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RawError>> {
        if self.sent < self.request.len() {
            ready!(self.connection.poll_send(&self.request, &mut self.sent, cx))?;
        }
        let reply = loop {
            if let Some(reply) = self.connection.next_message()? {
                break reply;
            }
            ready!(self.connection.poll_receive(cx))?;
        };
        self.sent = 0;
        let got = body_size(self.connection.decoder().parts(reply))?;
        Poll::Ready(Ok(WrongSize::check(self.size, got)?))
    }
}
