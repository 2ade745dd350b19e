//! The other end of a tool in the hands of a test: ZMTP 3.0 with the NULL
//! mechanism, as little of it as the tests need.
//!
//! Source: RFC 23 (ZMTP 3.0), RFC 28 (REQ, REP), RFC 30 (PUSH, PULL).

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use super::{PATIENCE, eventually};

const LONG: u8 = 2;
const MORE: u8 = 1;
const COMMAND: u8 = 4;

/// How a connection ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum How {
    /// As a program ends that has read everything.
    Closes,
    /// As the system does for one that has not.
    Resets,
}

/// Both ways.
pub(crate) const HOW: [How; 2] = [How::Closes, How::Resets];

impl How {
    fn end(self, stream: TcpStream) {
        if let Self::Resets = self {
            let socket = socket2::SockRef::from(&stream);
            socket.set_linger(Some(std::time::Duration::ZERO)).unwrap();
        }
        drop(stream);
    }
}

/// Signature, version 3.0, mechanism NULL, no server, filler.
fn greeting() -> [u8; 64] {
    let mut greeting = [0; 64];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

fn ready(socket_type: &str) -> Vec<u8> {
    let mut body = b"\x05READY\x0bSocket-Type\0\0\0".to_vec();
    body.push(u8::try_from(socket_type.len()).unwrap());
    body.extend(socket_type.as_bytes());
    body
}

/// Where tools connect to.
pub(crate) struct Listener(TcpListener);

impl Listener {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("tcp://{}", self.0.local_addr().unwrap())
    }

    /// A connection on which nothing has been said.
    pub(crate) fn accept_raw(&self) -> TcpStream {
        let (stream, _) = eventually("a connection", || match self.0.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            result => Some(result.unwrap()),
        });
        stream.set_nonblocking(false).unwrap();
        stream
    }

    /// Takes a connection and, once the tool has said something, ends it
    /// without a word.
    pub(crate) fn hang_up(&self, how: How) {
        let mut stream = self.accept_raw();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // Some tools say no more than the signature until they have heard one.
        assert!(stream.read(&mut greeting()).unwrap() >= 10);
        how.end(stream);
    }

    /// The next tool that connects.
    pub(crate) fn accept(&self, socket_type: &str) -> Peer {
        Peer::greet(self.accept_raw(), socket_type)
    }
}

/// A connection to a tool.
pub(crate) struct Peer(TcpStream);

impl Peer {
    /// Connects to a tool that is bound.
    pub(crate) fn connect(endpoint: &str, socket_type: &str) -> Self {
        let address = endpoint.strip_prefix("tcp://").unwrap();
        Self::greet(TcpStream::connect(address).unwrap(), socket_type)
    }

    fn greet(stream: TcpStream, socket_type: &str) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut peer = Self(stream);
        peer.0.write_all(&greeting()).unwrap();
        assert_eq!(peer.take(64)[0], 0xff);
        peer.frame(COMMAND, &ready(socket_type));
        let (flags, body) = peer.take_frame();
        assert_eq!((flags, &body[..6]), (COMMAND, &b"\x05READY"[..]));
        peer
    }

    /// Sends one message of these frames.
    pub(crate) fn send(&mut self, frames: &[&[u8]]) {
        let (last, first) = frames.split_last().unwrap();
        for frame in first {
            self.frame(MORE, frame);
        }
        self.frame(0, last);
    }

    /// Sends a request or a reply: a message behind an empty frame.
    pub(crate) fn send_enveloped(&mut self, size: usize) {
        self.send(&[&[], &vec![0; size]]);
    }

    /// Receives one message.
    pub(crate) fn recv(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        loop {
            let (flags, body) = self.take_frame();
            frames.push(body);
            if flags & MORE == 0 {
                return frames;
            }
        }
    }

    /// Receives a request or a reply; returns its size.
    pub(crate) fn recv_enveloped(&mut self) -> usize {
        let message = self.recv();
        assert!(message.len() == 2 && message[0].is_empty(), "{message:?}");
        message[1].len()
    }

    /// Ends the connection.
    pub(crate) fn leave(self, how: How) {
        how.end(self.0);
    }

    fn frame(&mut self, flags: u8, body: &[u8]) {
        let mut frame = Vec::with_capacity(body.len() + 9);
        put_header(&mut frame, flags, body.len());
        frame.extend(body);
        self.0.write_all(&frame).unwrap();
    }

    fn take_frame(&mut self) -> (u8, Vec<u8>) {
        let flags = self.take(1)[0];
        let length = if flags & LONG == 0 {
            u64::from(self.take(1)[0])
        } else {
            u64::from_be_bytes(self.take(8).try_into().unwrap())
        };
        (flags & !LONG, self.take(usize::try_from(length).unwrap()))
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }
}

fn put_header(frame: &mut Vec<u8>, flags: u8, length: usize) {
    if let Ok(short) = u8::try_from(length) {
        frame.extend([flags, short]);
    } else {
        frame.push(flags | LONG);
        frame.extend((length as u64).to_be_bytes());
    }
}
