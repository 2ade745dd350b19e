//! Frames: the eight bytes in front of everything that crosses the socket
//! (Part 6, 7.1.2.2), and the buffer that cuts a stream into frames.

use std::io;

use opcua::types::StatusCode;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::ProtocolError;

/// The length of a frame's header.
pub(crate) const HEADER: usize = 8;

/// No end may offer a smaller buffer (Part 6, 7.1.2.3).
pub(crate) const SMALLEST_CHUNK_LIMIT: usize = 8192;

/// What a buffer begins with; it grows when a longer frame announces itself.
const FIRST_BUFFER: usize = 8192;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// `HEL`: the client's limits.
    Hello,
    /// `ACK`: the server's limits.
    Acknowledge,
    /// `ERR`: the last thing an end says.
    Error,
    /// `RHE`: a server that calls the client.
    ReverseHello,
    /// `OPN`: opens or renews a secure channel.
    OpenChannel,
    /// `CLO`: closes it.
    CloseChannel,
    /// `MSG`: a service's request or response.
    Message,
}

/// Where a chunk stands in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkKind {
    /// `F`: the last one.
    Final,
    /// `C`: more follow.
    Intermediate,
    /// `A`: the sender gave the message up.
    Abort,
}

impl FrameKind {
    pub(crate) const fn letters(self) -> [u8; 3] {
        *match self {
            Self::Hello => b"HEL",
            Self::Acknowledge => b"ACK",
            Self::Error => b"ERR",
            Self::ReverseHello => b"RHE",
            Self::OpenChannel => b"OPN",
            Self::CloseChannel => b"CLO",
            Self::Message => b"MSG",
        }
    }

    const fn from_letters(letters: [u8; 3]) -> Option<Self> {
        Some(match &letters {
            b"HEL" => Self::Hello,
            b"ACK" => Self::Acknowledge,
            b"ERR" => Self::Error,
            b"RHE" => Self::ReverseHello,
            b"OPN" => Self::OpenChannel,
            b"CLO" => Self::CloseChannel,
            b"MSG" => Self::Message,
            _ => return None,
        })
    }
}

impl ChunkKind {
    pub(crate) const fn letter(self) -> u8 {
        match self {
            Self::Final => b'F',
            Self::Intermediate => b'C',
            Self::Abort => b'A',
        }
    }

    const fn from_letter(letter: u8) -> Option<Self> {
        Some(match letter {
            b'F' => Self::Final,
            b'C' => Self::Intermediate,
            b'A' => Self::Abort,
            _ => return None,
        })
    }
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: FrameKind,
    pub(crate) chunk: ChunkKind,
    /// Bytes of the frame, these eight included.
    pub(crate) size: usize,
}

impl FrameHeader {
    /// Reads a header, and refuses what is longer than `limit` before a byte
    /// of it is waited for.
    pub(crate) fn parse(bytes: [u8; HEADER], limit: usize) -> Result<Self, ProtocolError> {
        let [a, b, c, letter, size @ ..] = bytes;
        let (Some(kind), Some(chunk)) = (
            FrameKind::from_letters([a, b, c]),
            ChunkKind::from_letter(letter),
        ) else {
            return Err(ProtocolError::new(
                StatusCode::BadTcpMessageTypeInvalid,
                format!(
                    "not OPC UA: a frame begins with {:?}",
                    String::from_utf8_lossy(&bytes)
                ),
            ));
        };
        let chunked = matches!(kind, FrameKind::Message);
        if chunk != ChunkKind::Final && !chunked {
            return Err(ProtocolError::new(
                StatusCode::BadTcpMessageTypeInvalid,
                "only a message may come in several chunks",
            ));
        }
        let size = usize::try_from(u32::from_le_bytes(size)).unwrap_or(usize::MAX);
        if size > limit {
            return Err(ProtocolError::new(
                StatusCode::BadTcpMessageTooLarge,
                format!("a frame of {size} bytes is larger than the {limit} agreed on"),
            ));
        }
        if size < HEADER {
            return Err(ProtocolError::new(
                StatusCode::BadTcpMessageTypeInvalid,
                format!("a frame of {size} bytes is shorter than its header"),
            ));
        }
        Ok(Self { kind, chunk, size })
    }
}

/// Cuts a stream into frames, in one buffer that is used again and again.
#[derive(Debug)]
pub(crate) struct FrameReader {
    buffer: Vec<u8>,
    /// Bytes that have come and are not taken yet: `start..end`.
    start: usize,
    end: usize,
    limit: usize,
}

impl FrameReader {
    /// A reader that refuses frames of more than `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            limit,
        }
    }

    /// The next frame, if it has come whole. Its bytes are the caller's to
    /// change: messages are decrypted in place.
    pub(crate) fn take(&mut self) -> Result<Option<(FrameHeader, &mut [u8])>, ProtocolError> {
        let come = &self.buffer[self.start..self.end];
        let Some(&head) = come.first_chunk() else {
            return Ok(None);
        };
        let header = FrameHeader::parse(head, self.limit)?;
        if come.len() < header.size {
            return Ok(None);
        }
        let frame = self.start..self.start + header.size;
        self.start = frame.end;
        Ok(Some((header, &mut self.buffer[frame])))
    }

    /// Waits for bytes and takes what has come; 0 at the end of the stream.
    /// May be dropped and called again.
    pub(crate) async fn fill(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<usize> {
        self.make_room();
        let read = stream.read(&mut self.buffer[self.end..]).await?;
        self.end += read;
        Ok(read)
    }

    /// Room for at least the rest of the frame that has begun.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let announced = self.buffer[..self.end]
            .first_chunk()
            .and_then(|&head| FrameHeader::parse(head, self.limit).ok())
            .map_or(0, |header| header.size);
        let wanted = announced.max(FIRST_BUFFER.min(self.limit));
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(text: [u8; 4], size: u32) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&text);
        bytes[4..].copy_from_slice(&size.to_le_bytes());
        bytes
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn headers_are_read() {
        let parsed = FrameHeader::parse(header(*b"MSGC", 100), 8192).unwrap();
        assert_eq!(
            parsed,
            FrameHeader {
                kind: FrameKind::Message,
                chunk: ChunkKind::Intermediate,
                size: 100
            }
        );
    }

    #[test]
    fn what_is_no_header_is_refused() {
        for (bytes, status) in [
            (*b"GET / HT", StatusCode::BadTcpMessageTypeInvalid),
            (header(*b"MSGX", 100), StatusCode::BadTcpMessageTypeInvalid),
            (header(*b"OPNC", 100), StatusCode::BadTcpMessageTypeInvalid),
            (header(*b"HELF", 7), StatusCode::BadTcpMessageTypeInvalid),
            (header(*b"MSGF", 8193), StatusCode::BadTcpMessageTooLarge),
            (
                header(*b"MSGF", u32::MAX),
                StatusCode::BadTcpMessageTooLarge,
            ),
        ] {
            assert_eq!(FrameHeader::parse(bytes, 8192).unwrap_err().status, status);
        }
    }

    #[test]
    fn a_long_announcement_alone_takes_no_memory_beyond_the_limit() {
        let mut reader = FrameReader::new(65_536);
        let mut stream = &header(*b"MSGF", 60_000)[..];
        block_on(async {
            reader.fill(&mut stream).await.unwrap();
            reader.fill(&mut stream).await.unwrap();
        });
        assert_eq!(reader.buffer.len(), 60_000);
    }

    proptest! {
        #[test]
        fn any_eight_bytes_are_read_or_refused(bytes: [u8; HEADER], limit in 0usize..100_000) {
            if let Ok(header) = FrameHeader::parse(bytes, limit) {
                prop_assert!(header.size <= limit && header.size >= HEADER);
                prop_assert_eq!(&header.kind.letters(), &bytes[..3]);
                prop_assert_eq!(header.chunk.letter(), bytes[3]);
            }
        }

        #[test]
        fn frames_come_out_as_they_went_in_however_the_stream_is_cut(
            sizes in prop::collection::vec(0usize..20_000, 0..8),
            cuts in prop::collection::vec(1usize..10_000, 1..16),
        ) {
            let mut bytes = Vec::new();
            for (i, size) in sizes.iter().enumerate() {
                let total = u32::try_from(size + HEADER).unwrap();
                bytes.extend(header(*b"MSGF", total));
                bytes.extend(std::iter::repeat_n(u8::try_from(i).unwrap(), *size));
            }
            let mut reader = FrameReader::new(65_536);
            let mut seen = Vec::new();
            block_on(async {
                let mut rest = &bytes[..];
                let mut cuts = cuts.iter().cycle();
                while !rest.is_empty() {
                    let cut = rest.len().min(*cuts.next().unwrap());
                    let (mut part, after) = rest.split_at(cut);
                    rest = after;
                    while !part.is_empty() {
                        reader.fill(&mut part).await.unwrap();
                        while let Some((header, frame)) = reader.take().unwrap() {
                            assert_eq!(header.size, frame.len());
                            let body = &frame[HEADER..];
                            assert!(body.iter().all(|b| usize::from(*b) == seen.len()));
                            seen.push(body.len());
                        }
                    }
                }
            });
            prop_assert_eq!(seen, sizes);
        }
    }
}
