//! The two programs with each other: what is printed, and how they end.

use std::fs;
use std::process::Stdio;

use crate::common::{Ended, Running, TestServer, client_program, run_client};
use opcua_perf::read_speed_text::HEADER;

/// The four numbers of a row: reads/s, mean, min and max in nanoseconds.
fn numbers(row: &str) -> [f64; 4] {
    let columns: Vec<f64> = row
        .split('\t')
        .filter(|column| !column.is_empty())
        .map(|column| column.trim().trim_end_matches("ns").parse().unwrap())
        .collect();
    columns.try_into().unwrap()
}

fn rows(ended: &Ended) -> Vec<[f64; 4]> {
    let rows = ended.stdout.strip_prefix(HEADER).unwrap();
    rows.lines().map(numbers).collect()
}

#[test]
fn rows_are_upstreams() {
    let server = TestServer::start(&[]);
    let ended = server.run(&["--reads", "3000", "--row-every", "1000"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let rows = rows(&ended);
    assert_eq!(rows.len(), 3);
    for [rate, mean, min, max] in rows {
        assert!(
            min > 0.0 && min <= mean && mean <= max,
            "{min} {mean} {max}"
        );
        // Reads a second by one clock and time per read by the other agree.
        let ratio = rate * mean / 1e9;
        assert!((0.5..1.5).contains(&ratio), "{rate} reads/s of {mean} ns");
    }
    for step in [
        "connecting to opc.tcp://127.0.0.1:",
        "TCP connection to 127.0.0.1:",
        "opened with SecurityPolicy None and SecurityMode None",
        "endpoints found: 1",
        "selected with SecurityMode None and SecurityPolicy None",
        "user token policy \"anonymous\" selected",
        "session activated",
        "3000 reads in ",
        "round trip [us]",
    ] {
        assert!(ended.stderr.contains(step), "{step}: {}", ended.stderr);
    }
}

#[test]
fn a_run_that_is_shorter_than_a_row_has_one_row() {
    let server = TestServer::start(&[]);
    let ended = server.run(&["--reads", "500"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert_eq!(rows(&ended).len(), 1);
    let ended = server.run(&["--duration", "200ms"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert!(!rows(&ended).is_empty());
}

#[test]
fn what_is_left_behind_the_last_row_is_in_the_summary_only() {
    let server = TestServer::start(&[]);
    let ended = server.run(&["--reads", "250", "--row-every", "100"]);
    assert_eq!(rows(&ended).len(), 2);
    assert!(ended.stderr.contains("250 reads in "), "{}", ended.stderr);
}

#[test]
fn the_server_says_what_happens() {
    let server = TestServer::start(&[]);
    server.assert_serves();
    for event in [
        "connection 1 from 127.0.0.1:",
        "secure channel 1 opened with SecurityPolicy None and SecurityMode None",
        "session \"opcua-perf-client\" created",
        "session \"opcua-perf-client\" activated for \"anonymous\"",
        "session \"opcua-perf-client\" closed",
        "connection 1 closed",
    ] {
        server.program.stderr_line(event);
    }
}

#[test]
fn both_stacks_read() {
    let server = TestServer::start(&[]);
    for stack in ["raw", "async-opcua"] {
        let ended = server.run(&["--reads", "500", "--stack", stack]);
        assert_eq!(ended.code(), 0, "{stack}: {}", ended.stderr);
        assert_eq!(rows(&ended).len(), 1);
    }
}

#[test]
fn loopback_needs_no_server() {
    for stack in ["raw", "async-opcua"] {
        let ended = run_client(&["--loopback", "--reads", "500", "--stack", stack]);
        assert_eq!(ended.code(), 0, "{stack}: {}", ended.stderr);
        assert_eq!(rows(&ended).len(), 1);
    }
}

#[test]
fn both_ends_spin_and_stay_on_their_cpus_when_told() {
    let server = TestServer::start(&["--busy-poll", "--cpu", "0"]);
    let ended = server.run(&["--busy-poll", "--cpu", "0", "--reads", "500", "--json"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["settings"]["busy_poll"], true);
    assert_eq!(report["settings"]["cpu"], serde_json::json!([0]));
    let ended = run_client(&["--loopback", "--busy-poll", "--reads", "500"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
}

#[test]
fn other_nodes_are_timed_by_the_clients_clock() {
    let server = TestServer::start(&[]);
    let ended = server.run(&["--node", "i=2258", "--reads", "200"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let [_, mean, min, max] = rows(&ended)[0];
    assert!(min > 0.0 && min <= mean && mean <= max);
}

#[test]
fn many_nodes_are_read_at_once() {
    let server = TestServer::start(&[]);
    for stack in ["raw", "async-opcua"] {
        let ended = server.run(&[
            "--node",
            "ns=1;i=42",
            "--node",
            "i=2258",
            "--nodes-per-read",
            "5000",
            "--reads",
            "5",
            "--stack",
            stack,
        ]);
        assert_eq!(ended.code(), 0, "{stack}: {}", ended.stderr);
        assert!(ended.stderr.contains("values/s"), "{}", ended.stderr);
    }
}

#[test]
fn too_many_nodes_are_refused_with_the_servers_limit() {
    let server = TestServer::start(&[]);
    for stack in ["raw", "async-opcua"] {
        let ended = server.run(&["--nodes-per-read", "10001", "--stack", stack]);
        assert_eq!(ended.code(), 1);
        let hint = "it takes at most 10000: --nodes-per-read 10000";
        assert!(
            ended.error().contains(hint) || ended.error().contains("--nodes-per-read 5000"),
            "{stack}: {}",
            ended.error()
        );
        assert_eq!(ended.stdout, "", "nothing was measured");
    }
}

// Windows has no name for the stdout of a process.
#[cfg(unix)]
#[test]
fn a_warm_up_is_in_no_row() {
    let server = TestServer::start(&[]);
    let ended = server.run(&[
        "--reads",
        "200",
        "--row-every",
        "100",
        "--warmup",
        "150",
        "--json=/dev/stdout",
    ]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("\"warmup\": {"), "{}", ended.stdout);
    let header_and_two_rows = 4;
    let text = ended.stdout.lines().filter(|line| line.contains('\t'));
    assert_eq!(text.count(), header_and_two_rows - 1);
}

#[test]
fn the_report_is_one_document() {
    let server = TestServer::start(&[]);
    let ended = server.run(&["--reads", "300", "--json", "--max-age", "5"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["stop"], "complete");
    assert_eq!(report["stack"]["name"], "raw");
    assert_eq!(report["result"]["operations"], 300);
    assert_eq!(report["result"]["round_trip_ns"]["samples"], 300);
    assert_eq!(report["result"]["read_time_ns"]["samples"], 300);
    assert_eq!(report["settings"]["max_age_ms"], 5.0);
    assert_eq!(report["settings"]["security_policy"], "None");

    let ended = server.run(&["--node", "i=99999", "--json"]);
    assert_eq!(ended.code(), 1);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["stop"], "failed");
    let error = report["error"].as_str().unwrap();
    assert!(error.contains("BadNodeIdUnknown"), "{error}");
}

#[test]
fn a_schedule_is_kept() {
    let server = TestServer::start(&[]);
    let ended = server.run(&["--rate", "200", "--reads", "60", "--json"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["result"]["operations"], 60);
    assert_eq!(report["result"]["rate"]["asked_per_s"], 200.0);
    let elapsed = report["result"]["elapsed_s"].as_f64().unwrap();
    assert!((0.3..3.0).contains(&elapsed), "{elapsed}");
}

#[test]
fn users_log_in_with_their_password() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    let password = folder.path().join("password");
    fs::write(&users, "alice:s3cret\n").unwrap();
    fs::write(&password, "s3cret\n").unwrap();
    let server = TestServer::start(&["--user-file", users.to_str().unwrap()]);
    server
        .program
        .stderr_line("passwords cross the network unencrypted");
    let password = password.to_str().unwrap();
    for stack in ["raw", "async-opcua"] {
        let user = ["--user", "alice", "--password-file", password];
        let ended = server.run(&[&user[..], &["--reads", "20", "--stack", stack]].concat());
        assert_eq!(ended.code(), 0, "{stack}: {}", ended.stderr);
        assert!(
            ended
                .stderr
                .contains("the password crosses the network unencrypted"),
            "{}",
            ended.stderr
        );
        server.program.stderr_line("activated for \"alice\"");
    }
    server.assert_serves();

    let mut command = client_program();
    command
        .args([server.url.as_str(), "--user", "alice", "--reads", "1"])
        .env("OPCUA_PERF_PASSWORD", "wrong");
    let ended = Running::start(command).end();
    assert_eq!(ended.code(), 1);
    assert!(
        ended.error().contains("BadUserAccessDenied"),
        "{}",
        ended.error()
    );
    assert!(!ended.stderr.contains("wrong"), "{}", ended.stderr);
}

#[test]
fn every_policy_and_mode_carries_reads_and_passwords() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    fs::write(&users, "alice:s3cret\n").unwrap();
    let policies = [
        "Basic128Rsa15",
        "Basic256",
        "Basic256Sha256",
        "Aes128_Sha256_RsaOaep",
        "Aes256_Sha256_RsaPss",
    ];
    let server = TestServer::start(&[
        "--security-policy",
        &policies.join(","),
        "--user-file",
        users.to_str().unwrap(),
    ]);
    let run = |args: &[&str]| {
        let mut command = client_program();
        command
            .args([server.url.as_str(), "--reads", "20", "--user", "alice"])
            .args(args)
            .env("OPCUA_PERF_PASSWORD", "s3cret");
        Running::start(command).end()
    };
    for policy in policies {
        for (mode, stack) in [("Sign", "raw"), ("SignAndEncrypt", "async-opcua")] {
            let ended = run(&[
                "--security-policy",
                policy,
                "--security-mode",
                mode,
                "--stack",
                stack,
            ]);
            assert_eq!(ended.code(), 0, "{policy} {mode} {stack}: {}", ended.stderr);
            assert!(!ended.stderr.contains("unencrypted"), "{}", ended.stderr);
        }
    }
    let ended = run(&["--security-policy", "Aes256_Sha256_RsaPss"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let opened = "opened with SecurityPolicy Aes256_Sha256_RsaPss and SecurityMode SignAndEncrypt";
    assert!(ended.stderr.contains(opened), "{}", ended.stderr);
}

#[test]
fn a_reader_that_goes_away_ends_the_client_well() {
    let server = TestServer::start(&[]);
    let mut command = client_program();
    command
        .args([server.url.as_str(), "--row-every", "50"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let server = TestServer::start(&[]);
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = client_program();
    command
        .args([server.url.as_str(), "--reads", "100"])
        .stdout(full)
        .stderr(Stdio::piped());
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("cannot write the rows to stdout"),
        "{stderr}"
    );
}
