//! `--timeout` bounds the wait for the peer and for each of its messages.

use super::support::place::{Place, Transport};
use super::support::text::lines;
use super::support::zmtp::{Listener, Peer};
use super::support::{Kind, Stack, assert_line};

on_each_stack! {
    an_end_alone_says_what_to_do,
    a_peer_that_does_not_greet,
    a_replier_that_falls_silent,
    a_requester_that_falls_silent,
    a_sender_that_falls_silent,
    a_receiver_that_falls_silent,
    a_receiver_that_falls_silent_at_the_end,
    a_peer_in_time_is_served,
}

#[cfg(target_os = "linux")]
mod stopped {
    on_each_stack! { a_peer_that_is_stopped }
    use super::a_peer_that_is_stopped;
}

/// Short for those who wait for its end, long for a busy machine.
const SHORT: &str = "--timeout=500ms";

/// Enough to never come to an end.
const ENDLESS: &str = "1000000000000";

/// nanomsg #1020: seems to hang.
fn an_end_alone_says_what_to_do(stack: Stack) {
    let mut alone = Vec::new();
    for kind in Kind::BOTH {
        for &transport in Transport::ALL {
            let place = Place::free(transport);
            let mut local = stack.start(kind.local(), &[&place.endpoint, "1", "10", SHORT]);
            alone.push((local.bound(), local, place));
        }
        let place = Place::deserted();
        let remote = stack.start(kind.remote(), &[&place.endpoint, "1", "10", SHORT]);
        alone.push((place.endpoint.clone(), remote, place));
    }
    for (endpoint, tool, _place) in alone {
        let ended = tool.end();
        assert_alone(ended.failed(1), &endpoint);
        assert_eq!(ended.stdout, "");
    }
}

/// A line that says that nobody came.
fn assert_alone(line: &str, endpoint: &str) {
    assert_line(
        line,
        &format!("no peer at {endpoint} within "),
        "; start the other end, or wait longer with --timeout",
    );
}

fn a_peer_that_does_not_greet(stack: Stack) {
    let waiting = Kind::BOTH.map(|kind| {
        let listener = Listener::new();
        let endpoint = listener.endpoint();
        let tool = stack.start(kind.remote(), &[&endpoint, "1", "10", SHORT]);
        (tool, endpoint, listener.accept_raw())
    });
    for (tool, endpoint, _silent) in waiting {
        assert_alone(tool.end().failed(1), &endpoint);
    }
}

/// A line that says how far it came when the other side fell silent.
fn assert_silent(line: &str, endpoint: &str, done: &str) {
    assert_line(
        line,
        &format!("the other side at {endpoint} fell silent for "),
        &format!("{done}; --timeout allows longer pauses"),
    );
}

fn a_replier_that_falls_silent(stack: Stack) {
    let listener = Listener::new();
    let endpoint = listener.endpoint();
    let tool = stack.start("remote_lat", &[&endpoint, "1", "10", SHORT]);
    let mut peer = listener.accept("REP");
    for _ in 0..3 {
        peer.recv_enveloped();
        peer.send_enveloped(1);
    }
    let ended = tool.end();
    assert_silent(ended.failed(1), &endpoint, " after 3 of 10 round trips");
    let lines = lines(Kind::Latency, &ended.stdout);
    // The silence is no part of the measurement.
    assert!(lines.count == 3 && lines.figure < 80_000.0, "{ended:?}");
}

fn a_requester_that_falls_silent(stack: Stack) {
    let mut tool = stack.start("local_lat", &["tcp://127.0.0.1:*", "1", "10", SHORT]);
    let endpoint = tool.bound();
    let mut peer = Peer::connect(&endpoint, "REQ");
    for _ in 0..3 {
        peer.send_enveloped(1);
        peer.recv_enveloped();
    }
    let ended = tool.end();
    assert_silent(ended.failed(1), &endpoint, " after 3 of 10 round trips");
    assert_eq!(ended.stdout, "");
}

fn a_sender_that_falls_silent(stack: Stack) {
    let mut tool = stack.start("local_thr", &["tcp://127.0.0.1:*", "1", "10", SHORT]);
    let endpoint = tool.bound();
    let mut peer = Peer::connect(&endpoint, "PUSH");
    for _ in 0..3 {
        peer.send(&[&[0]]);
    }
    let ended = tool.end();
    assert_silent(ended.failed(1), &endpoint, " after 3 of 10 messages");
    assert_eq!(lines(Kind::Throughput, &ended.stdout).count, 3);
}

fn a_receiver_that_falls_silent(stack: Stack) {
    let listener = Listener::new();
    let endpoint = listener.endpoint();
    let tool = stack.start("remote_thr", &[&endpoint, "131072", ENDLESS, SHORT]);
    let mut peer = listener.accept("PULL");
    peer.recv();
    let ended = tool.end();
    assert_silent(
        ended.failed(1),
        &endpoint,
        &format!(" of {ENDLESS} messages"),
    );
    assert_eq!(ended.stdout, "");
}

/// All is handed to the stack, and does not leave.
fn a_receiver_that_falls_silent_at_the_end(stack: Stack) {
    let listener = Listener::new();
    let endpoint = listener.endpoint();
    let tool = stack.start("remote_thr", &[&endpoint, "131072", "100", SHORT]);
    let mut peer = listener.accept("PULL");
    peer.recv();
    assert_silent(tool.end().failed(1), &endpoint, " of 100 messages");
}

fn a_peer_in_time_is_served(stack: Stack) {
    for kind in Kind::BOTH {
        let mut local = stack.start(
            kind.local(),
            &["tcp://127.0.0.1:*", "1", "100", "--timeout=1m"],
        );
        let remote = stack.start(kind.remote(), &[&local.bound(), "1", "100", "--timeout=1m"]);
        let stdout = super::support::whole(kind, local, remote);
        assert_eq!(lines(kind, &stdout).count, 100);
    }
}

#[cfg(target_os = "linux")]
fn a_peer_that_is_stopped(stack: Stack) {
    use super::support::Signal;
    // So large that what the system holds is soon read.
    const SIZE: &str = "4096";
    // Both ends must have started within it, however busy the machine is.
    const PATIENT: &str = "--timeout=3s";

    for kind in Kind::BOTH {
        let mut local = stack.start(kind.local(), &["tcp://127.0.0.1:*", SIZE, ENDLESS, PATIENT]);
        let endpoint = local.bound();
        let remote = stack.start(kind.remote(), &[&endpoint, SIZE, ENDLESS, PATIENT]);
        local.works();
        remote.works();
        let (measuring, other) = match kind {
            Kind::Latency => (remote, local),
            Kind::Throughput => (local, remote),
        };
        other.signal(Signal::STOP);
        let ended = measuring.end();
        let done = format!(" of {ENDLESS} {}", kind.unit());
        assert_silent(ended.failed(1), &endpoint, &done);
        assert!(lines(kind, &ended.stdout).count > 1, "{ended:?}");
    }
}
