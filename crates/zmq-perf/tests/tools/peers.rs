//! Peers that are not as they should be.

use super::support::http::{self, BAD_REQUEST, GET};
use super::support::text::lines;
use super::support::zmtp::{HOW, Listener, Peer};
use super::support::{Kind, Stack, Tool, assert_line};

on_each_stack! {
    the_wrong_tool_fails_and_the_right_one_is_waited_for,
    a_bound_socket_of_the_wrong_type,
    an_http_server,
    a_peer_that_hangs_up_is_asked_again,
    an_http_client_is_let_go,
    a_visitor_does_not_disturb_a_run,
    a_request_of_another_size,
    a_reply_of_another_size,
    a_message_of_another_size,
    a_message_of_two_parts,
    both_ends_disagree_about_the_size,
    one_end_has_a_smaller_count,
    a_requester_that_leaves,
    a_replier_that_leaves,
    a_sender_that_leaves,
    a_receiver_that_leaves,
    a_receiver_that_leaves_when_all_is_queued,
}

#[cfg(target_os = "linux")]
mod killed {
    on_each_stack! { an_end_is_killed }
    use super::an_end_is_killed;
}

/// Enough to never come to an end.
const ENDLESS: &str = "1000000000000";

impl Kind {
    const fn bound_type(self) -> &'static str {
        match self {
            Self::Latency => "REP",
            Self::Throughput => "PULL",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Latency => Self::Throughput,
            Self::Throughput => Self::Latency,
        }
    }
}

/// How the line ends when the other side has gone.
fn assert_gone(line: &str, start: &str) {
    assert!(line.starts_with(start), "{line:?} is not {start:?}...");
    assert!(
        line.ends_with(": the other side closed the connection")
            || line.contains("connection lost"),
        "{line}"
    );
}

/// A bound tool, a connection to it in the hand of the test.
fn bound(stack: Stack, kind: Kind, size: &str, count: &str) -> (Tool, Peer) {
    let mut tool = stack.start(kind.local(), &["tcp://127.0.0.1:*", size, count]);
    let socket_type = match kind {
        Kind::Latency => "REQ",
        Kind::Throughput => "PUSH",
    };
    let peer = Peer::connect(&tool.bound(), socket_type);
    (tool, peer)
}

/// A tool that is connected to the hand of the test.
fn connected(stack: Stack, kind: Kind, size: &str, count: &str) -> (Tool, Peer) {
    let listener = Listener::new();
    let tool = stack.start(kind.remote(), &[&listener.endpoint(), size, count]);
    (tool, listener.accept(kind.bound_type()))
}

fn the_wrong_tool_fails_and_the_right_one_is_waited_for(stack: Stack) {
    for kind in Kind::BOTH {
        let mut local = stack.start(kind.local(), &["tcp://127.0.0.1:*", "1", "10"]);
        let endpoint = local.bound();
        let wrong = stack.run(kind.other().remote(), &[&endpoint, "1", "10"]);
        assert_line(
            wrong.failed(1),
            &format!("cannot connect to {endpoint}: the other side is no fitting ZeroMQ peer ("),
            "); run the matching tool there",
        );
        assert_eq!(wrong.stdout, "");
        assert_line(
            &local.says("refused a peer"),
            &format!(
                "{}: refused a peer: the other side is no fitting ZeroMQ peer (",
                kind.local()
            ),
            "); run the matching tool there",
        );
        let remote = stack.start(kind.remote(), &[&endpoint, "1", "10"]);
        let stdout = super::support::whole(kind, local, remote);
        assert_eq!(lines(kind, &stdout).count, 10);
    }
}

fn a_bound_socket_of_the_wrong_type(stack: Stack) {
    for kind in Kind::BOTH {
        let listener = Listener::new();
        let endpoint = listener.endpoint();
        let tool = stack.start(kind.remote(), &[&endpoint, "1", "10"]);
        let _peer = listener.accept("PUB");
        let ended = tool.end();
        assert_line(
            ended.failed(1),
            &format!("cannot connect to {endpoint}: the other side is no fitting ZeroMQ peer ("),
            "); run the matching tool there",
        );
    }
}

fn an_http_server(stack: Stack) {
    for kind in Kind::BOTH {
        for answer in [BAD_REQUEST, "HTTP/1.0 400\r\n\r\n"] {
            let endpoint = http::serve(answer);
            let ended = stack.run(kind.remote(), &[&endpoint, "1", "10"]);
            assert_line(
                ended.failed(1),
                &format!(
                    "cannot connect to {endpoint}: the other side is no fitting ZeroMQ peer ("
                ),
                "); run the matching tool there",
            );
            assert_eq!(ended.stdout, "");
        }
    }
}

/// A tool at the same address that was just ending, or a forwarder to one that
/// has not started yet: the next one is waited for.
fn a_peer_that_hangs_up_is_asked_again(stack: Stack) {
    for kind in Kind::BOTH {
        for how in HOW {
            let listener = Listener::new();
            let remote = stack.start(kind.remote(), &[&listener.endpoint(), "1", "1"]);
            for _ in 0..2 {
                listener.hang_up(how);
            }
            let mut peer = listener.accept(kind.bound_type());
            peer.recv();
            if kind == Kind::Latency {
                peer.send_enveloped(1);
            }
            drop(peer);
            remote.end().succeeded();
        }
    }
}

fn an_http_client_is_let_go(stack: Stack) {
    for kind in Kind::BOTH {
        let mut local = stack.start(kind.local(), &["tcp://127.0.0.1:*", "1", "10"]);
        let endpoint = local.bound();
        for request in [GET, "GET / HTTP/1.0\r\n\r\n"] {
            http::get(&endpoint, request);
            local.says("refused a peer: the other side is no fitting ZeroMQ peer (");
        }
        let remote = stack.start(kind.remote(), &[&endpoint, "1", "10"]);
        let stdout = super::support::whole(kind, local, remote);
        assert_eq!(lines(kind, &stdout).count, 10);
    }
}

fn a_visitor_does_not_disturb_a_run(stack: Stack) {
    let mut local = stack.start("local_lat", &["tcp://127.0.0.1:*", "5", "4"]);
    let endpoint = local.bound();
    let mut peer = Peer::connect(&endpoint, "REQ");
    let mut round_trip = || {
        peer.send_enveloped(5);
        assert_eq!(peer.recv_enveloped(), 5);
    };
    round_trip();
    http::get(&endpoint, GET);
    local.says("refused a peer");
    round_trip();
    drop(Peer::connect(&endpoint, "REQ"));
    round_trip();
    // Connects, says nothing, and stays.
    let _silent = std::net::TcpStream::connect(endpoint.strip_prefix("tcp://").unwrap()).unwrap();
    round_trip();
    assert_eq!(local.end().succeeded(), "");
}

fn a_request_of_another_size(stack: Stack) {
    let (local, mut peer) = bound(stack, Kind::Latency, "10", "3");
    peer.send_enveloped(10);
    assert_eq!(peer.recv_enveloped(), 10);
    peer.send_enveloped(11);
    assert_eq!(
        local.end().failed(1),
        "failed after 1 of 3 round trips: a message of 11 bytes instead of 10; \
         give both ends the same message size"
    );
}

fn a_reply_of_another_size(stack: Stack) {
    let (remote, mut peer) = connected(stack, Kind::Latency, "10", "3");
    for size in [10, 10, 0] {
        assert_eq!(peer.recv_enveloped(), 10);
        peer.send_enveloped(size);
    }
    let ended = remote.end();
    assert_eq!(
        ended.failed(1),
        "failed after 2 of 3 round trips: a message of 0 bytes instead of 10; \
         give both ends the same message size"
    );
    assert_eq!(lines(Kind::Latency, &ended.stdout).count, 2);
}

fn a_message_of_another_size(stack: Stack) {
    let (local, mut peer) = bound(stack, Kind::Throughput, "0", "3");
    for size in [0, 0, 300] {
        peer.send(&[&vec![0; size]]);
    }
    let ended = local.end();
    assert_eq!(
        ended.failed(1),
        "failed after 2 of 3 messages: a message of 300 bytes instead of 0; \
         give both ends the same message size"
    );
    assert_eq!(lines(Kind::Throughput, &ended.stdout).count, 2);
}

fn a_message_of_two_parts(stack: Stack) {
    let (local, mut peer) = bound(stack, Kind::Throughput, "1", "3");
    peer.send(&[b"a", b"b"]);
    let ended = local.end();
    // A stack may take a message for what its parts are together.
    let line = ended.failed(1);
    assert!(
        line.contains("2 parts instead of 1") || line.contains("2 bytes instead of 1"),
        "{line}"
    );
    assert_eq!(ended.stdout, "");
}

fn both_ends_disagree_about_the_size(stack: Stack) {
    for kind in Kind::BOTH {
        let mut local = stack.start(kind.local(), &["tcp://127.0.0.1:*", "10", ENDLESS]);
        let remote = stack.start(kind.remote(), &[&local.bound(), "20", ENDLESS]);
        let (local, remote) = (local.end(), remote.end());
        assert_line(
            local.failed(1),
            "failed after 0 of ",
            ": a message of 20 bytes instead of 10; give both ends the same message size",
        );
        assert_gone(remote.failed(1), "failed after ");
        assert_eq!((local.stdout.as_str(), remote.stdout.as_str()), ("", ""));
    }
}

fn one_end_has_a_smaller_count(stack: Stack) {
    let pair = |kind: Kind, local: &str, remote: &str| {
        let mut bound = stack.start(kind.local(), &["tcp://127.0.0.1:*", "1", local]);
        let connected = stack.start(kind.remote(), &[&bound.bound(), "1", remote]);
        (bound.end(), connected.end())
    };
    let (local, remote) = pair(Kind::Latency, "10", "5");
    assert_gone(local.failed(1), "failed after 5 of 10 round trips: ");
    assert_eq!(lines(Kind::Latency, remote.succeeded()).count, 5);

    let (local, remote) = pair(Kind::Latency, "5", "10");
    assert_eq!(local.succeeded(), "");
    assert_gone(remote.failed(1), "failed after 5 of 10 round trips: ");
    assert_eq!(lines(Kind::Latency, &remote.stdout).count, 5);

    let (local, remote) = pair(Kind::Throughput, "10", "5");
    assert_gone(local.failed(1), "failed after 5 of 10 messages: ");
    assert_eq!(lines(Kind::Throughput, &local.stdout).count, 5);
    assert_eq!(remote.succeeded(), "");

    let (local, remote) = pair(Kind::Throughput, "5", ENDLESS);
    assert_eq!(lines(Kind::Throughput, local.succeeded()).count, 5);
    assert_gone(remote.failed(1), "failed after ");
}

fn a_requester_that_leaves(stack: Stack) {
    for how in HOW {
        let (local, mut peer) = bound(stack, Kind::Latency, "1", "10");
        for _ in 0..3 {
            peer.send_enveloped(1);
            assert_eq!(peer.recv_enveloped(), 1);
        }
        peer.leave(how);
        assert_gone(local.end().failed(1), "failed after 3 of 10 round trips: ");
    }
}

fn a_replier_that_leaves(stack: Stack) {
    for how in HOW {
        let (remote, mut peer) = connected(stack, Kind::Latency, "1", "10");
        for _ in 0..3 {
            assert_eq!(peer.recv_enveloped(), 1);
            peer.send_enveloped(1);
        }
        assert_eq!(peer.recv_enveloped(), 1);
        peer.leave(how);
        let ended = remote.end();
        assert_gone(ended.failed(1), "failed after 3 of 10 round trips: ");
        assert_eq!(lines(Kind::Latency, &ended.stdout).count, 3);
    }
}

fn a_sender_that_leaves(stack: Stack) {
    let (local, mut peer) = bound(stack, Kind::Throughput, "1", "10");
    for _ in 0..3 {
        peer.send(&[&[0]]);
    }
    drop(peer);
    let ended = local.end();
    assert_gone(ended.failed(1), "failed after 3 of 10 messages: ");
    assert_eq!(lines(Kind::Throughput, &ended.stdout).count, 3);
}

fn a_receiver_that_leaves(stack: Stack) {
    for how in HOW {
        let (remote, mut peer) = connected(stack, Kind::Throughput, "1", ENDLESS);
        for _ in 0..3 {
            assert_eq!(peer.recv(), [[0]]);
        }
        peer.leave(how);
        let ended = remote.end();
        assert_gone(ended.failed(1), "failed after ");
        assert_eq!(ended.stdout, "");
    }
}

/// What the tool has handed to its stack has not left yet.
fn a_receiver_that_leaves_when_all_is_queued(stack: Stack) {
    let (remote, mut peer) = connected(stack, Kind::Throughput, "131072", "100");
    assert_eq!(peer.recv()[0].len(), 131_072);
    drop(peer);
    assert_gone(remote.end().failed(1), "failed after ");
}

#[cfg(target_os = "linux")]
fn an_end_is_killed(stack: Stack) {
    // So large that what the system holds is soon read.
    const SIZE: &str = "4096";
    for kind in Kind::BOTH {
        for local_dies in [true, false] {
            let mut local = stack.start(kind.local(), &["tcp://127.0.0.1:*", SIZE, ENDLESS]);
            let mut remote = stack.start(kind.remote(), &[&local.bound(), SIZE, ENDLESS]);
            local.works();
            remote.works();
            let (killed, other) = if local_dies {
                (&mut local, remote)
            } else {
                (&mut remote, local)
            };
            killed.kill();
            let measures = (kind == Kind::Latency) == local_dies;
            let ended = other.end();
            assert_gone(ended.failed(1), "failed after ");
            if measures {
                assert!(lines(kind, &ended.stdout).count > 1, "{ended:?}");
            } else {
                assert_eq!(ended.stdout, "");
            }
        }
    }
}
