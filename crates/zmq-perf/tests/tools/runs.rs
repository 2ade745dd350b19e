//! Whole runs: every message arrives, once, and upstream's lines say so.

use super::support::place::{Place, Transport};
use super::support::text::lines;
#[cfg(unix)]
use super::support::whole;
use super::support::{Kind, Stack};

on_each_stack! {
    every_size_is_carried_over_every_transport,
    counts_are_exact,
    a_million_messages_are_counted,
    one_message_alone_has_no_throughput,
    without_a_count_a_replier_serves_until_its_last_peer_leaves,
    a_loopback_needs_no_endpoint,
    loopback_may_stand_anywhere,
    short_loopbacks_all_end,
    a_debug_build_says_so,
    an_end_that_is_not_measuring_takes_no_loopback,
}

#[cfg(unix)]
mod first {
    on_each_stack! { either_end_may_start_first }
    use super::either_end_may_start_first;
}

fn every_size_is_carried_over_every_transport(stack: Stack) {
    const COUNT: u64 = 10;
    for &transport in Transport::ALL {
        for kind in Kind::BOTH {
            for size in [0, 1, 255, 256, 8192, 1 << 20] {
                let place = Place::free(transport);
                let stdout = stack.measure(kind, &place.endpoint, size, COUNT);
                let lines = lines(kind, &stdout);
                assert_eq!((lines.size, lines.count), (size, COUNT), "{transport:?}");
                assert!(lines.figure > 0.0, "{transport:?} {stdout}");
            }
        }
    }
}

fn counts_are_exact(stack: Stack) {
    for kind in Kind::BOTH {
        for count in [2, 1000, 2000] {
            let stdout = stack.measure(kind, "tcp://127.0.0.1:*", 256, count);
            assert_eq!(lines(kind, &stdout).count, count);
        }
    }
    let stdout = stack.measure(Kind::Latency, "tcp://127.0.0.1:*", 256, 1);
    assert_eq!(lines(Kind::Latency, &stdout).count, 1);
}

fn a_million_messages_are_counted(stack: Stack) {
    let ended = stack.run("local_thr", &["--loopback", "1", "1000000"]);
    assert_eq!(lines(Kind::Throughput, ended.succeeded()).count, 1_000_000);
}

fn one_message_alone_has_no_throughput(stack: Stack) {
    let place = Place::free(Transport::Tcp);
    let mut local = stack.start("local_thr", &[&place.endpoint, "8", "1"]);
    let remote = stack.run("remote_thr", &[&local.bound(), "8", "1"]);
    assert_eq!(remote.succeeded(), "");
    let local = local.end();
    assert!(
        local.warns("one message alone has no throughput; the lines show 0"),
        "{local:?}"
    );
    assert_eq!(
        local.succeeded(),
        "message size: 8 [B]\nmessage count: 1\n\
         mean throughput: 0 [msg/s]\nmean throughput: 0.000 [Mb/s]\n"
    );
}

#[cfg(unix)]
fn either_end_may_start_first(stack: Stack) {
    let mut waiting = Vec::new();
    for &transport in Transport::ALL {
        for kind in Kind::BOTH {
            let place = Place::known(transport);
            let remote = stack.start(kind.remote(), &[&place.endpoint, "16", "100"]);
            waiting.push((kind, remote, place));
        }
    }
    for (kind, mut remote, place) in waiting {
        let line = remote.says("waiting for a peer at ");
        assert!(line.contains(&place.endpoint), "{line}");
        let local = stack.start(kind.local(), &[&place.endpoint, "16", "100"]);
        assert_eq!(lines(kind, &whole(kind, local, remote)).count, 100);
    }
}

fn a_loopback_needs_no_endpoint(stack: Stack) {
    let ended = stack.run("remote_lat", &["--loopback", "1", "1000"]);
    assert_eq!(lines(Kind::Latency, ended.succeeded()).count, 1000);
    let ended = stack.run("local_thr", &["--loopback", "1048576", "100"]);
    assert_eq!(lines(Kind::Throughput, ended.succeeded()).count, 100);
}

fn loopback_may_stand_anywhere(stack: Stack) {
    for (tool, kind) in [
        ("remote_lat", Kind::Latency),
        ("local_thr", Kind::Throughput),
    ] {
        for arguments in [
            &["7", "--loopback", "10"][..],
            &["7", "10", "--loopback"],
            &["--timeout", "5s", "7", "--loopback", "10"],
            &["--loopback", "7", "10", "--timeout=5s"],
        ] {
            let ended = stack.run(tool, arguments);
            let lines = lines(kind, ended.succeeded());
            assert_eq!((lines.size, lines.count), (7, 10), "{arguments:?}");
        }
    }
}

/// nanomsg #599: one of many short runs never ended.
fn short_loopbacks_all_end(stack: Stack) {
    for _ in 0..50 {
        let ended = stack.run("remote_lat", &["--loopback", "1", "2"]);
        assert_eq!(lines(Kind::Latency, ended.succeeded()).count, 2);
        let ended = stack.run("local_thr", &["--loopback", "1", "2"]);
        assert_eq!(lines(Kind::Throughput, ended.succeeded()).count, 2);
    }
}

fn without_a_count_a_replier_serves_until_its_last_peer_leaves(stack: Stack) {
    let mut local = stack.start("local_lat", &["tcp://127.0.0.1:*", "1"]);
    let endpoint = local.bound();
    let remote = stack.run("remote_lat", &[&endpoint, "1", "100"]);
    assert_eq!(lines(Kind::Latency, remote.succeeded()).count, 100);
    assert_eq!(local.end().succeeded(), "");
}

/// libzmq #2038: a debug build was measured as if it were the product.
fn a_debug_build_says_so(stack: Stack) {
    let ended = stack.run("local_thr", &["--loopback", "1", "10"]);
    let warns =
        ended.warns("this is a debug build; its figures say nothing about the release build");
    assert_eq!(warns, cfg!(debug_assertions), "{ended:?}");
}

fn an_end_that_is_not_measuring_takes_no_loopback(stack: Stack) {
    for tool in ["local_lat", "remote_thr"] {
        let ended = stack.run(tool, &["--loopback", "1", "10"]);
        assert!(ended.failed(2).contains("--loopback"), "{ended:?}");
    }
}
