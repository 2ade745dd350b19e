//! From a stream of bytes to messages, in place in one large buffer.

use perf_core::units::count;

use super::frame::{FrameError, Framing, Header, Kind, MAX_HEADER};

/// Bytes of a stream, and where in them the messages are.
///
/// ```text
/// 0        start                    end            capacity
/// | done   | unread                 | space        |
/// ```
///
/// A message is never copied out: it is read where it arrived, and its bytes
/// stay there until [`Decoder::space`] is asked for. The buffer grows only for a
/// message that does not fit into it, as the message arrives: what a peer
/// claims costs nothing, and nothing beyond the limit is taken.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes of whole parts, from `start` on, of a message that isn't whole.
    scanned: usize,
    /// Parts in them.
    parts: usize,
    /// Bytes from `start` on that the message needs in order to go on.
    needed: usize,
    capacity: usize,
    framing: Framing,
    limit: usize,
}

/// What a stream holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// A whole message.
    Message(Message),
    /// A whole command; [`Decoder::single`] gives its body.
    Command(Message),
}

/// Where a message lies in the buffer of its decoder. It is valid until the
/// next [`Decoder::space`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    start: usize,
    /// Where the body of the last part starts.
    body: usize,
    end: usize,
    parts: usize,
}

impl Decoder {
    /// A decoder that reads into `capacity` bytes and takes messages of up to
    /// `limit` bytes, all parts and their headers together.
    #[must_use]
    pub fn new(capacity: usize, limit: usize) -> Self {
        // A header must fit, whatever was asked for.
        let capacity = capacity.max(2 * MAX_HEADER);
        Self {
            buffer: vec![0; capacity],
            start: 0,
            end: 0,
            scanned: 0,
            parts: 0,
            needed: 0,
            capacity,
            framing: Framing::V3,
            limit,
        }
    }

    /// Goes on in this framing, that of ZMTP 3.x unless it is called.
    pub fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
    }

    /// The framing that the stream has.
    #[must_use]
    pub const fn framing(&self) -> Framing {
        self.framing
    }

    /// What has arrived and is not consumed.
    #[must_use]
    pub fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Consumes bytes that someone else has read (the handshake), or that are
    /// of no interest; all that are unread when `len` is more.
    pub fn consume(&mut self, len: usize) {
        self.start += len.min(self.end - self.start);
        self.scanned = 0;
        self.parts = 0;
        self.needed = 0;
    }

    /// Where to put what arrives next. It is never empty.
    pub fn space(&mut self) -> &mut [u8] {
        let held = self.end - self.start;
        let needed = self.needed.max(held + MAX_HEADER);
        if self.start + needed > self.buffer.len() || self.is_mostly_done() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.start = 0;
            self.end = held;
        }
        if needed > self.buffer.len() && held >= self.buffer.len() / 2 {
            // Doubling what is half full, and not what the peer claims at once:
            // it gets memory only for what it really sends.
            let len = (needed + self.capacity).min(2 * self.buffer.len());
            self.buffer.resize(len, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Whether little is left to move, and moving it gains a lot of space.
    fn is_mostly_done(&self) -> bool {
        self.end - self.start <= self.start / 16
    }

    /// Tells that `len` bytes have been put into the space.
    pub fn filled(&mut self, len: usize) {
        self.end += len.min(self.buffer.len() - self.end);
    }

    /// The next message or command, when it is whole.
    ///
    /// # Errors
    /// The stream is not ZMTP from here on; the next call says the same.
    #[inline]
    pub fn next_item(&mut self) -> Result<Option<Item>, FrameError> {
        loop {
            let at = self.start + self.scanned;
            let Some(header) = self.framing.header(&self.buffer[at..self.end])? else {
                self.needed = self.scanned + MAX_HEADER;
                return Ok(None);
            };
            let end = self.start + self.measure(header)?;
            if end > self.end {
                self.needed = end - self.start;
                return Ok(None);
            }
            let found = Message {
                start: self.start,
                body: at + header.len,
                end,
                parts: self.parts + 1,
            };
            match header.kind {
                Kind::Last => {
                    self.consume(end - self.start);
                    return Ok(Some(Item::Message(found)));
                }
                Kind::More => {
                    self.scanned = end - self.start;
                    self.parts += 1;
                }
                Kind::Command => return Ok(Some(Item::Command(self.take_command(at, found)))),
            }
        }
    }

    /// Takes the messages that follow `message`, the one that was taken last,
    /// and are just like it: one part, the same header. `visit` is given the
    /// body of each. At most `at_most`, and none after one that it fails on.
    /// Says how many it has approved of, and how it has failed.
    ///
    /// A flood is messages of one size. Where the next one starts then follows
    /// from where the last one started, and not from a length that has to be
    /// loaded first, so the processor looks at many of them at a time.
    #[inline]
    pub fn visit_alike<E>(
        &mut self,
        message: Message,
        at_most: u64,
        mut visit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> (u64, Result<(), E>) {
        if message.parts != 1 || message.end != self.start {
            return (0, Ok(()));
        }
        let len = message.end - message.start;
        let header = Header {
            kind: Kind::Last,
            len: message.body - message.start,
            body: count(message.end - message.body),
        };
        let mut visited = 0;
        for next in self.buffer[self.start..self.end].chunks_exact(len) {
            let Some(body) = next.get(header.len..) else {
                break;
            };
            if visited == at_most || self.framing.header(next) != Ok(Some(header)) {
                break;
            }
            self.start += len;
            if let Err(error) = visit(body) {
                return (visited, Err(error));
            }
            visited += 1;
        }
        (visited, Ok(()))
    }

    /// How far a frame reaches from the start of its message.
    #[inline]
    fn measure(&self, header: Header) -> Result<usize, FrameError> {
        let before = self.scanned + header.len;
        let claimed = header.body.saturating_add(count(before));
        match usize::try_from(claimed) {
            Ok(reach) if reach <= self.limit => Ok(reach),
            _ => Err(FrameError::TooLarge {
                claimed,
                limit: count(self.limit),
            }),
        }
    }

    /// Consumes a command. libzmq sends its heartbeats even between the parts
    /// of a message: then the parts move behind the command, so that the
    /// message stays in one piece.
    fn take_command(&mut self, at: usize, found: Message) -> Message {
        let len = found.end - at;
        self.buffer[self.start..found.end].rotate_right(len);
        let command = Message {
            start: self.start,
            body: self.start + (found.body - at),
            end: self.start + len,
            parts: 1,
        };
        self.start += len;
        command
    }

    /// The bytes of a message as they came, headers and all.
    #[must_use]
    pub fn wire(&self, message: Message) -> &[u8] {
        &self.buffer[message.start..message.end]
    }

    /// The body of a message that has one part, or of a command.
    #[must_use]
    #[inline]
    pub fn single(&self, message: Message) -> Option<&[u8]> {
        (message.parts == 1).then(|| &self.buffer[message.body..message.end])
    }

    /// The parts of a message.
    #[must_use]
    pub fn parts(&self, message: Message) -> Parts<'_> {
        Parts {
            framing: self.framing,
            rest: self.wire(message),
        }
    }
}

/// The parts of one message, in order.
#[derive(Debug, Clone)]
pub struct Parts<'a> {
    framing: Framing,
    rest: &'a [u8],
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // The decoder has found every one of these headers good.
        let header = self.framing.header(self.rest).ok()??;
        let body = usize::try_from(header.body).ok()?;
        let (part, rest) = self.rest.get(header.len..)?.split_at_checked(body)?;
        self.rest = rest;
        Some(part)
    }
}
