//! `--peers`: several connections of one process.

use serde_json::Value;

use super::support::text::lines;
use super::support::{Ended, Kind, Stack, run};

on_each_stack! {
    what_is_done_is_shared_among_the_peers,
    a_run_limited_in_time_ends,
    a_rate_is_that_of_all_peers_together,
    each_peer_is_timed_by_itself,
}

/// What went over each connection, as the document tells.
fn shares(document: &str) -> Vec<u64> {
    let document: Value = serde_json::from_str(document).unwrap();
    let peers = document["result"]["peers"].as_array().cloned();
    peers
        .unwrap_or_default()
        .iter()
        .map(|peer| peer["operations"].as_u64().unwrap())
        .collect()
}

/// Both ends as processes of their own: the bound one and the other.
fn pair(stack: Stack, kind: Kind, peers: &str, arguments: &[&str], count: &str) -> [Ended; 2] {
    let flags = ["--peers", peers, "--json"];
    let bind = ["tcp://127.0.0.1:*", "64", count];
    let mut local = stack.start(kind.local(), &[&bind[..], &flags].concat());
    let connect = [local.bound(), "64".to_owned()];
    let connect: Vec<&str> = connect.iter().map(String::as_str).collect();
    let remote = stack.run(kind.remote(), &[&connect, arguments, &flags].concat());
    [local.end(), remote]
}

fn what_is_done_is_shared_among_the_peers(stack: Stack) {
    for kind in Kind::BOTH {
        for (peers, count) in [("2", 1001), ("64", 64), ("64", 5000)] {
            let text = count.to_string();
            let ends = pair(stack, kind, peers, &[&text], &text);
            let connected = shares(ends[1].succeeded());
            assert_eq!(connected.len().to_string(), peers);
            assert_eq!(connected.iter().sum::<u64>(), count, "{connected:?}");
            assert!(connected.iter().all(|&share| share > 0), "{connected:?}");
            // Not every stack tells who sent what.
            let bound = shares(ends[0].succeeded());
            if !bound.is_empty() {
                assert_eq!(bound.len(), connected.len());
                assert_eq!(bound.iter().sum::<u64>(), count, "{bound:?}");
            }
        }
    }
}

fn a_run_limited_in_time_ends(stack: Stack) {
    for kind in Kind::BOTH {
        let mut bind = vec!["tcp://127.0.0.1:*", "64", "--peers", "5"];
        if kind == Kind::Throughput {
            bind.extend(["--duration", "1h"]);
        }
        let mut local = stack.start(kind.local(), &bind);
        let endpoint = local.bound();
        let flags = ["--peers", "5", "--duration", "100ms", "--json"];
        let remote = stack.run(
            kind.remote(),
            &[&[&endpoint[..], "64"][..], &flags].concat(),
        );
        let shares = shares(remote.succeeded());
        assert_eq!(shares.len(), 5);
        assert!(shares.iter().all(|&share| share > 0), "{shares:?}");
        local.end().succeeded();
    }
}

fn a_rate_is_that_of_all_peers_together(stack: Stack) {
    for kind in Kind::BOTH {
        let flags = ["100", "--rate", "10000"];
        let [local, remote] = pair(stack, kind, "4", &flags, "100");
        local.succeeded();
        // One at a time is under way, and the connections take turns.
        assert_eq!(shares(remote.succeeded()), [25; 4]);
    }
}

fn each_peer_is_timed_by_itself(stack: Stack) {
    let flags = ["--loopback", "1", "400", "--peers", "40"];
    let ended = stack.run("remote_lat", &[&flags[..], &["--json"]].concat());
    let document: Value = serde_json::from_str(ended.succeeded()).unwrap();
    let result = &document["result"];
    assert_eq!(result["round_trip_ns"]["samples"], 400);
    // 40 are under way at a time: one takes many times as long as its share of
    // the elapsed time.
    let share = result["elapsed_s"].as_f64().unwrap() * 1e9 / 400.0;
    let mean = result["round_trip_ns"]["mean"].as_f64().unwrap();
    assert!(mean > 5.0 * share, "{mean} {share}");
    let latency = result["latency_mean_ns"].as_f64().unwrap();
    assert!(
        (latency - mean / 2.0).abs() <= mean / 100.0,
        "{latency} {mean}"
    );
    let text = stack.run("remote_lat", &flags);
    assert_eq!(lines(Kind::Latency, text.succeeded()).count, 400);
}

#[cfg(target_os = "linux")]
mod many {
    on_each_stack! { a_thousand_peers_find_room }
    use super::a_thousand_peers_find_room;
}

#[cfg(target_os = "linux")]
fn a_thousand_peers_find_room(stack: Stack) {
    for kind in Kind::BOTH {
        let flags = ["--loopback", "1", "5000", "--peers", "1000"];
        let tool = match kind {
            Kind::Latency => kind.remote(),
            Kind::Throughput => kind.local(),
        };
        let ended = stack.run(tool, &flags);
        assert_eq!(lines(kind, ended.succeeded()).count, 5000);
    }
}

#[test]
fn too_few_and_too_many_peers_are_refused() {
    for tool in ["local_lat", "remote_lat", "local_thr", "remote_thr"] {
        for peers in ["0", "100000", "-1", "2x"] {
            let peers = format!("--peers={peers}");
            let ended = run(tool, &["tcp://127.0.0.1:1", "1", "1", &peers]);
            let line = ended.failed(2);
            assert!(
                line.contains("expected a whole number from 1 to 10000"),
                "{line}"
            );
        }
    }
}

/// A process cannot have its limit lowered from outside without `unsafe`: the
/// shell does it.
#[cfg(target_os = "linux")]
#[test]
fn a_lack_of_file_descriptors_says_what_to_raise() {
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 100 && exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_remote_lat"))
        .args(["--loopback", "1", "10", "--peers", "64"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "remote_lat: cannot have 64 peers: that needs 192 file descriptors, and this process may \
         have 100; raise the limit (ulimit -n 192)\n"
    );
}
