//! Whatever a peer sends, and however the system cuts it into pieces: nothing
//! panics, nothing grows beyond the limit, and the pieces make no difference.
//!
//! ```sh
//! cargo install cargo-fuzz
//! cargo +nightly fuzz run --sanitizer none zmtp fuzz/corpus/zmtp fuzz/seeds/zmtp -- -max_total_time=120
//! ```
//!
//! No sanitizer, since no crate here has unsafe code: the checks are those of
//! the language, and the assertions below. The first three bytes of an input
//! choose the socket type, the pieces and the buffer; the rest is what the peer
//! sends. `seeds/zmtp` has one conversation for each version of ZMTP.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zmq_perf::zmtp::{
    Command, Decoder, FrameError, Handshake, HandshakeError, Item, MAX_HANDSHAKE_COMMAND, Peer,
    Progress, SocketType, encode_pong,
};

const LIMIT: usize = 4096;

/// What came of a stream.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    peer: Option<Peer>,
    messages: Vec<Vec<Vec<u8>>>,
    sent: Vec<u8>,
    /// Its kind; what it shows of the bytes depends on how many there were.
    refused: Option<std::mem::Discriminant<HandshakeError>>,
    broken: Option<FrameError>,
}

fn converse(local: SocketType, capacity: usize, stream: &[u8], piece: usize) -> Outcome {
    let mut outcome = Outcome::default();
    let mut handshake = Handshake::new(local, &mut outcome.sent);
    let mut decoder = Decoder::new(capacity, LIMIT);
    let mut most = 0;
    for piece in stream.chunks(piece) {
        let mut piece = piece;
        while !piece.is_empty() {
            let space = decoder.space();
            let (now, later) = piece.split_at(piece.len().min(space.len()));
            space[..now.len()].copy_from_slice(now);
            decoder.filled(now.len());
            piece = later;
            if outcome.peer.is_none() {
                match handshake.advance(decoder.unread(), &mut outcome.sent) {
                    Ok(Progress::More { consumed }) => decoder.consume(consumed),
                    Ok(Progress::Done { consumed, peer }) => {
                        decoder.consume(consumed);
                        decoder.set_framing(peer.version.framing());
                        outcome.peer = Some(peer);
                    }
                    Err(error) => {
                        outcome.refused = Some(std::mem::discriminant(&error));
                        return outcome;
                    }
                }
            }
            if outcome.peer.is_some()
                && let Err(error) = drain(&mut decoder, &mut outcome)
            {
                outcome.broken = Some(error);
                return outcome;
            }
            let held = decoder.unread().len();
            assert!(
                held <= LIMIT.max(MAX_HANDSHAKE_COMMAND) + 16,
                "{held} bytes held"
            );
            // The buffer stays as large as it once had to be.
            most = most.max(held);
            let space = decoder.space().len();
            assert!(
                space <= capacity + 4 * most + 64,
                "{space} bytes for {most}"
            );
        }
    }
    outcome
}

fn drain(decoder: &mut Decoder, outcome: &mut Outcome) -> Result<(), FrameError> {
    while let Some(item) = decoder.next_item()? {
        match item {
            Item::Message(message) => {
                let parts = decoder.parts(message).map(<[u8]>::to_vec).collect();
                outcome.messages.push(parts);
                let (_, visited) = decoder.visit_alike(message, u64::MAX, |body| {
                    outcome.messages.push(vec![body.to_vec()]);
                    Ok(())
                });
                visited?;
            }
            Item::Command(command) => {
                let body = decoder.single(command).expect("a command is one frame");
                if let Command::Ping { context } = Command::parse(body)? {
                    encode_pong(context, &mut outcome.sent);
                }
            }
        }
    }
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    let Some((&[local, piece, capacity], stream)) = data.split_first_chunk() else {
        return;
    };
    let local = match local % 4 {
        0 => SocketType::Req,
        1 => SocketType::Rep,
        2 => SocketType::Push,
        _ => SocketType::Pull,
    };
    let whole = converse(local, 2 * stream.len() + 64, stream, stream.len().max(1));
    let pieces = converse(
        local,
        usize::from(capacity),
        stream,
        usize::from(piece).max(1),
    );
    assert_eq!(whole, pieces);
});
