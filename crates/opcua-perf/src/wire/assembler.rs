//! Chunks to messages (Part 6, 6.7.3).

use opcua::types::StatusCode;

use super::channel::Opened;
use super::frame::ChunkKind;
use super::{Limits, ProtocolError};

/// Collects the chunks of one message. A message of one chunk, which is what
/// a read is, passes through without a copy.
#[derive(Debug)]
pub(crate) struct Assembler {
    body: Vec<u8>,
    chunks: usize,
    /// The request that the chunks so far belong to.
    request_id: u32,
    limits: Limits,
}

/// A whole message, or the end of one that was given up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Assembled<'a> {
    pub(crate) request_id: u32,
    /// The message's type and structure; for one that was given up, the
    /// sender's error.
    pub(crate) body: &'a [u8],
    pub(crate) aborted: bool,
}

impl Assembler {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            body: Vec::new(),
            chunks: 0,
            request_id: 0,
            limits,
        }
    }

    /// Takes the next chunk; gives the message when it is whole.
    pub(crate) fn push<'a>(
        &'a mut self,
        chunk: Opened<'a>,
    ) -> Result<Option<Assembled<'a>>, ProtocolError> {
        let Opened {
            chunk,
            request_id,
            body,
        } = chunk;
        if self.chunks > 0 && request_id != self.request_id {
            return Err(ProtocolError::new(
                StatusCode::BadTcpInternalError,
                "the chunks of two messages are mixed",
            ));
        }
        if chunk == ChunkKind::Abort {
            self.chunks = 0;
            return Ok(Some(Assembled {
                request_id,
                body,
                aborted: true,
            }));
        }
        let before = if self.chunks == 0 { 0 } else { self.body.len() };
        if self.chunks >= self.limits.chunks || before + body.len() > self.limits.message_bytes {
            return Err(ProtocolError::new(
                StatusCode::BadTcpMessageTooLarge,
                format!(
                    "a message of more than {} chunks or {} bytes",
                    self.limits.chunks, self.limits.message_bytes
                ),
            ));
        }
        let whole = chunk == ChunkKind::Final;
        if self.chunks == 0 && whole {
            return Ok(Some(Assembled {
                request_id,
                body,
                aborted: false,
            }));
        }
        if self.chunks == 0 {
            self.body.clear();
            self.request_id = request_id;
        }
        self.body.extend_from_slice(body);
        if !whole {
            self.chunks += 1;
            return Ok(None);
        }
        self.chunks = 0;
        Ok(Some(Assembled {
            request_id,
            body: &self.body,
            aborted: false,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits {
        chunk_bytes: 8192,
        chunks: 4,
        message_bytes: 100,
        array_elements: 10,
        string_bytes: 10,
    };

    fn chunk(chunk: ChunkKind, request_id: u32, body: &[u8]) -> Opened<'_> {
        Opened {
            chunk,
            request_id,
            body,
        }
    }

    #[test]
    fn chunks_become_a_message() {
        let mut assembler = Assembler::new(LIMITS);
        assert_eq!(
            assembler.push(chunk(ChunkKind::Intermediate, 7, b"ab")),
            Ok(None)
        );
        let message = assembler
            .push(chunk(ChunkKind::Final, 7, b"c"))
            .unwrap()
            .unwrap();
        assert_eq!((message.request_id, message.body), (7, &b"abc"[..]));
        let alone = assembler
            .push(chunk(ChunkKind::Final, 8, b"d"))
            .unwrap()
            .unwrap();
        assert_eq!((alone.request_id, alone.body), (8, &b"d"[..]));
    }

    #[test]
    fn a_message_that_is_given_up_leaves_nothing_behind() {
        let mut assembler = Assembler::new(LIMITS);
        assembler
            .push(chunk(ChunkKind::Intermediate, 7, b"ab"))
            .unwrap();
        let end = assembler
            .push(chunk(ChunkKind::Abort, 7, b"why"))
            .unwrap()
            .unwrap();
        assert!(end.aborted && end.body == b"why");
        let next = assembler
            .push(chunk(ChunkKind::Final, 8, b"d"))
            .unwrap()
            .unwrap();
        assert_eq!(next.body, b"d");
    }

    #[test]
    fn mixed_and_endless_messages_are_refused() {
        let mut assembler = Assembler::new(LIMITS);
        let more = |assembler: &mut Assembler, id, body: &[u8]| {
            assembler
                .push(chunk(ChunkKind::Intermediate, id, body))
                .map(|_| ())
        };
        more(&mut assembler, 1, b"a").unwrap();
        assert!(more(&mut assembler, 2, b"b").is_err());

        let mut assembler = Assembler::new(LIMITS);
        for _ in 0..4 {
            more(&mut assembler, 1, b"").unwrap();
        }
        assert!(more(&mut assembler, 1, b"").is_err());

        let mut assembler = Assembler::new(LIMITS);
        more(&mut assembler, 1, &[0; 100]).unwrap();
        assert!(more(&mut assembler, 1, b"a").is_err());
    }

    proptest! {
        #[test]
        fn memory_is_bounded_whatever_comes(
            chunks in prop::collection::vec((0u8..3, 0u32..2, 0usize..60), 0..40)
        ) {
            let mut assembler = Assembler::new(LIMITS);
            for (kind, request_id, length) in chunks {
                let kind = [ChunkKind::Final, ChunkKind::Intermediate, ChunkKind::Abort]
                    [usize::from(kind)];
                let _ = assembler.push(chunk(kind, request_id, &[0; 60][..length]));
                prop_assert!(assembler.body.len() <= LIMITS.message_bytes);
            }
        }
    }
}
