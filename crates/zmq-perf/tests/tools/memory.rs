//! A flood into a receiver that reads slowly stays in bounds.

use std::sync::mpsc::channel;

use super::support::text::lines;
use super::support::zmtp::{Listener, Peer};
use super::support::{Kind, Signal, Stack};

on_each_stack! {
    a_sender_whose_receiver_reads_slowly,
    a_receiver_that_reads_slowly,
}

const SIZE: usize = 131_072;

/// Issue 2 allows 256 MiB.
const LIMIT_MIB: u64 = 96;

fn a_sender_whose_receiver_reads_slowly(stack: Stack) {
    let listener = Listener::new();
    let tool = stack.start(
        "remote_thr",
        &[&listener.endpoint(), &SIZE.to_string(), "1000000"],
    );
    let mut peer = listener.accept("PULL");
    for _ in 0..200 {
        assert_eq!(peer.recv()[0].len(), SIZE);
        // Long enough for a sender without bounds to run away by megabytes.
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let peak = tool.peak_memory();
    assert!(peak < LIMIT_MIB, "{peak} MiB");
    drop(peer);
    assert!(tool.end().failed(1).starts_with("failed after "));
}

fn a_receiver_that_reads_slowly(stack: Stack) {
    const MESSAGES: u64 = 2000;
    const ROUND: u64 = 200;
    let mut tool = stack.start(
        "local_thr",
        &[
            "tcp://127.0.0.1:*",
            &SIZE.to_string(),
            &(MESSAGES + 1).to_string(),
        ],
    );
    let mut peer = Peer::connect(&tool.bound(), "PUSH");
    let (tell, told) = channel();
    let sender = std::thread::spawn(move || {
        let payload = vec![0; SIZE];
        for sent in 1..=MESSAGES {
            peer.send(&[&payload]);
            if sent % ROUND == 0 {
                tell.send(()).unwrap();
            }
        }
        (peer, payload)
    });
    for () in told {
        tool.signal(Signal::STOP);
        std::thread::sleep(std::time::Duration::from_millis(10));
        tool.signal(Signal::CONT);
    }
    let (mut peer, payload) = sender.join().unwrap();
    let peak = tool.peak_memory();
    assert!(peak < LIMIT_MIB, "{peak} MiB");
    peer.send(&[&payload]);
    let ended = tool.end();
    assert_eq!(
        lines(Kind::Throughput, ended.succeeded()).count,
        MESSAGES + 1
    );
}
