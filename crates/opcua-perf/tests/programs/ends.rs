//! Ends that stop, vanish, or come in numbers.

use crate::common::TestServer;
use opcua_perf::read_speed_text::HEADER;

#[test]
fn ctrl_c_ends_an_endless_client_well() {
    let server = TestServer::start(&[]);
    let client = server.client(&["--row-every", "100"]);
    client.stdout_line("ns\t\t");
    client.signal("INT");
    let ended = client.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert!(ended.stderr.contains(" reads in "), "{}", ended.stderr);
    server
        .program
        .stderr_line("session \"opcua-perf-client\" closed");
}

#[test]
fn ctrl_c_cuts_a_counted_run_short() {
    let server = TestServer::start(&[]);
    let client = server.client(&["--reads", "1000000000", "--row-every", "100"]);
    client.stdout_line("ns\t\t");
    client.signal("TERM");
    let ended = client.end();
    assert_eq!(ended.code(), 130, "{}", ended.stderr);
    assert!(ended.error().contains("interrupted"), "{}", ended.stderr);
}

#[test]
fn an_interrupted_run_is_reported() {
    let server = TestServer::start(&[]);
    let client = server.client(&["--json", "--interval", "50ms", "--reads", "1000000000"]);
    client.stderr_line("/s; round trip p50");
    client.signal("INT");
    let ended = client.end();
    assert_eq!(ended.code(), 130, "{}", ended.stderr);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["stop"], "interrupted");
    assert!(report["result"]["operations"].as_u64() > Some(0));
    assert!(!report["intervals"].as_array().unwrap().is_empty());
}

#[test]
fn ctrl_c_ends_the_server_well_and_tells_the_clients() {
    let server = TestServer::start(&[]);
    let client = server.client(&["--row-every", "100"]);
    client.stdout_line("ns\t\t");
    server.program.signal("INT");
    let ended = client.end();
    assert_eq!(ended.code(), 1, "{}", ended.stderr);
    assert!(
        ended.error().contains("BadServerHalted"),
        "{}",
        ended.stderr
    );
    let ended = server.program.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    for line in ["session \"opcua-perf-client\" closed", "stopped"] {
        assert!(ended.stderr.contains(line), "{}", ended.stderr);
    }
}

#[test]
fn a_server_that_is_killed_is_an_error_and_what_was_measured_is_printed() {
    for stack in ["raw", "async-opcua"] {
        let mut server = TestServer::start(&[]);
        let client = server.client(&["--row-every", "100", "--stack", stack]);
        client.stdout_line("ns\t\t");
        server.program.kill();
        let ended = client.end();
        assert_eq!(ended.code(), 1, "{stack}: {}", ended.stderr);
        let error = ended.error();
        assert!(error.contains("lost opc.tcp://"), "{stack}: {error}");
        assert!(ended.stderr.contains(" reads in "), "{}", ended.stderr);
    }
}

#[test]
fn a_server_that_is_suspended_is_an_error_and_what_was_measured_is_printed() {
    for stack in ["raw", "async-opcua"] {
        let server = TestServer::start(&[]);
        let args = ["--timeout", "400ms", "--stack", stack];
        let client = server.client(&args);
        client.stderr_line("session activated");
        // The header tells that reads have begun.
        client.stdout_line("readPerSec");
        server.program.signal("STOP");
        let ended = client.end();
        server.program.signal("CONT");
        assert_eq!(ended.code(), 1, "{stack}: {}", ended.stderr);
        let error = ended.error();
        assert!(
            error.contains("fell silent") || error.contains("no answer from"),
            "{stack}: {error}"
        );
        assert!(error.contains("--timeout"), "{stack}: {error}");
    }
}

#[test]
fn twenty_five_clients_are_served_fairly() {
    let server = TestServer::start(&[]);
    let clients: Vec<_> = (0..25)
        .map(|_| server.client(&["--reads", "1000", "--timeout", "60s"]))
        .collect();
    for client in clients {
        let ended = client.end();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        assert_eq!(
            ended.stdout.strip_prefix(HEADER).unwrap().lines().count(),
            1
        );
    }
}

#[test]
fn one_session_too_many_is_refused_and_others_go_on() {
    let server = TestServer::start(&["--max-sessions", "1"]);
    let first = server.client(&["--row-every", "100"]);
    first.stdout_line("ns\t\t");
    let second = server.run(&["--reads", "1"]);
    assert_eq!(second.code(), 1);
    assert!(
        second.error().contains("BadTooManySessions"),
        "{}",
        second.error()
    );
    first.stdout_line("ns\t\t");
    first.signal("INT");
    assert_eq!(first.end().code(), 0);
    server
        .program
        .stderr_line("session \"opcua-perf-client\" closed");
    server.assert_serves();
}

/// CPU time of a process so far, in clock ticks.
#[cfg(target_os = "linux")]
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    let ticks = |at: usize| fields[at].parse::<u64>().unwrap();
    ticks(11) + ticks(12)
}

/// Waits until a process has used no more than 2 of 100 ticks a second (ticks
/// are 10 ms) over a second.
#[cfg(target_os = "linux")]
fn wait_until_idle(pid: u32) {
    let deadline = crate::common::Deadline::new();
    loop {
        let before = cpu_ticks(pid);
        std::thread::sleep(std::time::Duration::from_secs(1));
        if cpu_ticks(pid) - before <= 2 {
            return;
        }
        assert!(deadline.left().is_some(), "it is still busy");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_client_that_is_killed_leaves_nothing_behind() {
    let server = TestServer::start(&["--max-sessions", "1"]);
    let mut client = server.client(&["--row-every", "100"]);
    client.stdout_line("ns\t\t");
    let busy = cpu_ticks(server.program.child.id());
    client.stdout_line("ns\t\t");
    client.kill();
    server.program.stderr_line("connection 1 ");
    wait_until_idle(server.program.child.id());
    assert!(cpu_ticks(server.program.child.id()) >= busy);
    server
        .program
        .stderr_line("closed: nothing was asked of it for too long");
    server.assert_serves();
}

#[cfg(target_os = "linux")]
#[test]
fn an_idle_server_sleeps_also_while_clients_are_connected() {
    let server = TestServer::start(&[]);
    wait_until_idle(server.program.child.id());
    let client = server.client(&["--rate", "1"]);
    client.stderr_line("session activated");
    wait_until_idle(server.program.child.id());
}
