//! Ctrl-C and SIGTERM end a tool at once; what was measured is still printed.

use super::support::place::Place;
#[cfg(all(feature = "omq", target_os = "linux"))]
use super::support::start;
use super::support::text::lines;
use super::support::zmtp::{Listener, Peer};
use super::support::{Ended, Kind, Signal, Stack};

on_each_stack! {
    a_bound_end_that_waits_for_its_peer,
    a_connecting_end_that_waits_for_its_peer,
    a_connecting_end_whose_peer_does_not_greet,
    a_requester_in_mid_run,
    a_replier_in_mid_run,
    a_receiver_in_mid_run,
    a_sender_in_mid_run,
    a_loopback_in_mid_run,
}

const SIGNALS: [Signal; 2] = [Signal::INT, Signal::TERM];

/// How many operations its one line says were done, of how many.
fn interrupted(ended: &Ended, kind: Kind) -> (u64, u64) {
    let line = ended.failed(130);
    let words: Vec<&str> = line.splitn(6, ' ').collect();
    let ["interrupted", "after", done, "of", all, unit] = words[..] else {
        panic!("{line}");
    };
    assert_eq!(unit, kind.unit());
    (done.parse().unwrap(), all.parse().unwrap())
}

fn a_bound_end_that_waits_for_its_peer(stack: Stack) {
    for kind in Kind::BOTH {
        for signal in SIGNALS {
            let mut tool = stack.start(kind.local(), &["tcp://127.0.0.1:*", "1", "10"]);
            tool.bound();
            tool.signal(signal);
            let ended = tool.end();
            assert_eq!(interrupted(&ended, kind), (0, 10));
            assert_eq!(ended.stdout, "");
        }
    }
}

/// rust-zmq #382: never ended.
fn a_connecting_end_that_waits_for_its_peer(stack: Stack) {
    let mut waiting = Vec::new();
    for kind in Kind::BOTH {
        for signal in SIGNALS {
            let place = Place::deserted();
            let tool = stack.start(kind.remote(), &[&place.endpoint, "1", "10"]);
            waiting.push((kind, signal, tool, place));
        }
    }
    for (kind, signal, mut tool, _place) in waiting {
        tool.says("waiting for a peer at ");
        tool.signal(signal);
        let ended = tool.end();
        assert_eq!(interrupted(&ended, kind), (0, 10));
        assert_eq!(ended.stdout, "");
    }
}

fn a_connecting_end_whose_peer_does_not_greet(stack: Stack) {
    let waiting = Kind::BOTH.map(|kind| {
        let listener = Listener::new();
        let tool = stack.start(kind.remote(), &[&listener.endpoint(), "1", "10"]);
        (kind, tool, listener.accept_raw())
    });
    for (kind, mut tool, _silent) in waiting {
        tool.says("waiting for a peer at ");
        tool.signal(Signal::INT);
        assert_eq!(interrupted(&tool.end(), kind), (0, 10));
    }
}

fn a_requester_in_mid_run(stack: Stack) {
    for signal in SIGNALS {
        let listener = Listener::new();
        let tool = stack.start("remote_lat", &[&listener.endpoint(), "1", "1000"]);
        let mut peer = listener.accept("REP");
        for _ in 0..5 {
            peer.recv_enveloped();
            peer.send_enveloped(1);
        }
        // The sixth request says that the fifth reply has arrived.
        peer.recv_enveloped();
        tool.signal(signal);
        let ended = tool.end();
        assert_eq!(interrupted(&ended, Kind::Latency), (5, 1000));
        assert_eq!(lines(Kind::Latency, &ended.stdout).count, 5);
    }
}

fn a_replier_in_mid_run(stack: Stack) {
    for signal in SIGNALS {
        let mut tool = stack.start("local_lat", &["tcp://127.0.0.1:*", "1", "1000"]);
        let mut peer = Peer::connect(&tool.bound(), "REQ");
        for _ in 0..5 {
            peer.send_enveloped(1);
            peer.recv_enveloped();
        }
        tool.signal(signal);
        let ended = tool.end();
        assert_eq!(interrupted(&ended, Kind::Latency), (5, 1000));
        assert_eq!(ended.stdout, "");
    }
}

fn a_receiver_in_mid_run(stack: Stack) {
    // More than the system's buffers hold: who has sent them all knows that
    // the tool has received some.
    const SENT: u64 = 400;
    let payload = vec![0; 131_072];
    for signal in SIGNALS {
        let mut tool = stack.start("local_thr", &["tcp://127.0.0.1:*", "131072", "1000"]);
        let mut peer = Peer::connect(&tool.bound(), "PUSH");
        for _ in 0..SENT {
            peer.send(&[&payload]);
        }
        tool.signal(signal);
        let ended = tool.end();
        let (done, all) = interrupted(&ended, Kind::Throughput);
        assert!((2..=SENT).contains(&done) && all == 1000, "{ended:?}");
        let lines = lines(Kind::Throughput, &ended.stdout);
        assert_eq!((lines.size, lines.count), (131_072, done));
        assert!(lines.figure > 0.0, "{ended:?}");
    }
}

fn a_sender_in_mid_run(stack: Stack) {
    for signal in SIGNALS {
        let listener = Listener::new();
        let tool = stack.start("remote_thr", &[&listener.endpoint(), "131072", "100000"]);
        let mut peer = listener.accept("PULL");
        for _ in 0..5 {
            peer.recv();
        }
        tool.signal(signal);
        let ended = tool.end();
        let (done, all) = interrupted(&ended, Kind::Throughput);
        assert!((5..all).contains(&done) && all == 100_000, "{ended:?}");
        assert_eq!(ended.stdout, "");
    }
}

fn a_loopback_in_mid_run(stack: Stack) {
    for (name, kind) in [
        ("remote_lat", Kind::Latency),
        ("local_thr", Kind::Throughput),
    ] {
        let mut tool = stack.start(name, &["--loopback", "1", "1000000000"]);
        tool.bound();
        #[cfg(target_os = "linux")]
        tool.works();
        tool.signal(Signal::INT);
        let ended = tool.end();
        let (done, all) = interrupted(&ended, kind);
        assert_eq!(all, 1_000_000_000);
        if cfg!(target_os = "linux") {
            assert_eq!(lines(kind, &ended.stdout).count, done);
        }
    }
}

/// Their runtimes have no I/O, and so no signals of their own.
#[cfg(all(feature = "omq", target_os = "linux"))]
#[test]
fn the_ends_of_one_process_in_mid_run() {
    for (name, kind) in [
        ("inproc_lat", Kind::Latency),
        ("inproc_thr", Kind::Throughput),
        ("proxy_thr", Kind::Throughput),
    ] {
        for wait in [&[][..], &["--busy-poll"]] {
            let tool = start(name, &[&["1", "1000000000"], wait].concat());
            tool.works();
            tool.signal(Signal::INT);
            let ended = tool.end();
            let (done, all) = interrupted(&ended, kind);
            assert!(done > 0 && all == 1_000_000_000, "{ended:?}");
            assert!(lines(kind, &ended.stdout).figure > 0.0, "{ended:?}");
        }
    }
}
