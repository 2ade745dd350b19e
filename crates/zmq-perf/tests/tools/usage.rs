//! Command lines that ask for what cannot be: one line that names the bound,
//! exit code 2, nothing on stdout, and nothing is opened.

use super::support::{Kind, run};

const TOOLS: [&str; 4] = ["local_lat", "remote_lat", "local_thr", "remote_thr"];

/// Refused: its one line.
fn refused(tool: &'static str, arguments: &[&str]) -> String {
    let ended = run(tool, arguments);
    let line = ended.failed(2);
    assert_eq!(ended.stdout, "", "{ended:?}");
    assert_eq!(ended.stderr.len(), 1, "{ended:?}");
    line.to_owned()
}

/// Refused for the value of one argument: why.
fn reason(tool: &'static str, arguments: &[&str], value: &str, argument: &str) -> String {
    let line = refused(tool, arguments);
    let start = format!("invalid value '{value}' for '{argument}': ");
    let reason = line
        .strip_prefix(&start)
        .unwrap_or_else(|| panic!("{line:?} does not start with {start:?}"));
    reason.split_once("; usage: ").unwrap().0.to_owned()
}

#[test]
fn no_arguments() {
    let line = |missing, usage| {
        format!(
            "the following required arguments were not provided: {missing}; \
             usage: {usage} (--help tells more)"
        )
    };
    assert_eq!(
        TOOLS.map(|tool| refused(tool, &[])),
        [
            line(
                "<bind-to> <message-size>",
                "local_lat [OPTIONS] <bind-to> <message-size> [roundtrip-count]"
            ),
            line(
                "<connect-to> <message-size> <roundtrip-count>",
                "remote_lat [OPTIONS] <connect-to> <message-size> [roundtrip-count]"
            ),
            line(
                "<bind-to> <message-size> <message-count>",
                "local_thr [OPTIONS] <bind-to> <message-size> [message-count] [enable_curve]"
            ),
            line(
                "<connect-to> <message-size> <message-count>",
                "remote_thr [OPTIONS] <connect-to> <message-size> [message-count] [enable_curve]"
            ),
        ]
    );
}

#[test]
fn too_few_and_too_many_arguments() {
    for tool in TOOLS {
        let line = refused(tool, &["tcp://127.0.0.1:*"]);
        assert!(line.contains("not provided: <message-size>"), "{line}");
        let line = refused(tool, &["tcp://127.0.0.1:*", "1", "1", "0", "9"]);
        assert!(line.contains("unexpected argument"), "{line}");
    }
    for measuring in ["remote_lat", "local_thr"] {
        let line = refused(measuring, &["tcp://127.0.0.1:*", "1", "1", "--loopback"]);
        assert!(
            line.contains("tcp://127.0.0.1:*") || line.contains("unexpected argument"),
            "{line}"
        );
    }
}

#[test]
fn endpoints_that_are_none() {
    for (endpoint, why) in [
        (
            "",
            "no transport; write tcp://HOST:PORT, ipc://PATH or inproc://NAME",
        ),
        (
            "127.0.0.1:5555",
            "no transport; write tcp://HOST:PORT, ipc://PATH or inproc://NAME",
        ),
        (
            "udp://127.0.0.1:5555",
            "unknown transport \"udp\"; there are tcp, ipc and inproc",
        ),
        (
            "tcp://",
            "no host; write tcp://HOST:PORT, or tcp://*:PORT to bind to every interface",
        ),
        (
            "tcp://127.0.0.1",
            "no port; write tcp://HOST:PORT, for example tcp://127.0.0.1:5555",
        ),
        (
            "tcp://127.0.0.1:65536",
            "\"65536\" is no port; write a number from 1 to 65535, or * for any free port",
        ),
        (
            "tcp://127.0.0.1:x",
            "\"x\" is no port; write a number from 1 to 65535, or * for any free port",
        ),
        (
            "tcp://127.0.0.1:",
            "\"\" is no port; write a number from 1 to 65535, or * for any free port",
        ),
        ("ipc://", "no name behind ipc://"),
    ] {
        for kind in Kind::BOTH {
            for (tool, argument) in [(kind.local(), "<bind-to>"), (kind.remote(), "<connect-to>")] {
                assert_eq!(reason(tool, &[endpoint, "1", "1"], endpoint, argument), why);
            }
        }
    }
}

#[test]
fn a_path_beyond_the_limit() {
    let limit = zmq_perf::endpoint::IPC_PATH_MAX;
    let endpoint = format!("ipc://{}", "x".repeat(limit + 1));
    let why = format!(
        "the path has {} bytes; the system's limit for a socket is {limit}",
        limit + 1
    );
    for kind in Kind::BOTH {
        for (tool, argument) in [(kind.local(), "<bind-to>"), (kind.remote(), "<connect-to>")] {
            assert_eq!(
                reason(tool, &[&endpoint, "1", "1"], &endpoint, argument),
                why
            );
        }
    }
}

#[test]
fn counts_that_are_none() {
    for (tool, argument) in [
        ("local_lat", "[roundtrip-count]"),
        ("remote_lat", "[roundtrip-count]"),
        ("local_thr", "[message-count]"),
        ("remote_thr", "[message-count]"),
    ] {
        for count in [
            "0",
            "x",
            "",
            "1k",
            "1.5",
            "+1",
            "0x10",
            "18446744073709551616",
        ] {
            let arguments = ["tcp://127.0.0.1:*", "1", count];
            assert_eq!(
                reason(tool, &arguments, count, argument),
                "expected a whole number from 1 to 18446744073709551615"
            );
        }
        let line = refused(tool, &["tcp://127.0.0.1:*", "1", "-1"]);
        assert!(line.contains("'-1'"), "{line}");
    }
}

#[test]
fn sizes_that_are_none() {
    for tool in TOOLS {
        for size in ["x", "", "1k", "1.5", "2147483648", "18446744073709551616"] {
            let arguments = ["tcp://127.0.0.1:*", size, "1"];
            assert_eq!(
                reason(tool, &arguments, size, "<message-size>"),
                "expected a whole number from 0 to 2147483647 bytes"
            );
        }
        let line = refused(tool, &["tcp://127.0.0.1:*", "-1", "1"]);
        assert!(line.contains("'-1'"), "{line}");
    }
}

#[test]
fn timeouts_that_are_none() {
    for tool in TOOLS {
        for timeout in ["0s", "10", "x", ""] {
            let timeout = format!("--timeout={timeout}");
            let line = refused(tool, &["tcp://127.0.0.1:*", "1", "1", &timeout]);
            assert!(line.contains("--timeout <TIME>"), "{line}");
        }
    }
}

#[test]
fn security_that_the_stack_does_not_carry() {
    for kind in ["local_thr", "remote_thr"] {
        let arguments = ["tcp://127.0.0.1:*", "1", "1", "1", "--stack", "zeromq"];
        let line = refused(kind, &arguments);
        assert!(line.contains("CURVE"), "{line}");
        let line = reason(
            kind,
            &["tcp://127.0.0.1:*", "1", "1", "2"],
            "2",
            "[enable_curve]",
        );
        assert_eq!(line, "expected 0 or 1");
    }
}

#[test]
fn flags_that_there_are_not() {
    for tool in ["local_lat", "remote_thr"] {
        let line = refused(tool, &["--bogus", "tcp://127.0.0.1:*", "1", "1"]);
        assert!(line.contains("--bogus"), "{line}");
    }
    for tool in ["remote_lat", "local_thr"] {
        let line = refused(tool, &["tcp://127.0.0.1:*", "1", "1", "--bogus"]);
        assert!(line.contains("--bogus"), "{line}");
    }
}

#[test]
fn help_and_versions_go_to_stdout() {
    for tool in TOOLS {
        for flag in ["--help", "-h"] {
            let help = run(tool, &[flag]);
            assert_eq!(help.remarks(), [""; 0]);
            assert_eq!(help.code, Some(0));
            let usage = format!("Usage: {tool} [OPTIONS] <");
            assert!(help.stdout.contains(&usage), "{help:?}");
            let example = format!("\n    {tool} ");
            assert_eq!(
                help.stdout.contains(&example),
                flag == "--help",
                "the long help alone has examples: {help:?}"
            );
        }
        let line = format!("{tool} {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(run(tool, &["-V"]).succeeded(), line);
        let version = run(tool, &["--version"]);
        let long = version.succeeded();
        let (first, rest) = long.split_at(line.len());
        assert_eq!(first, line);
        let keys: Vec<_> = rest
            .lines()
            .filter_map(|line| line.split(": ").next())
            .collect();
        #[cfg(feature = "omq")]
        let expected = [
            "target",
            "profile",
            "stack zeromq",
            "stack omq",
            "stack raw",
        ];
        #[cfg(not(feature = "omq"))]
        let expected = ["target", "profile", "stack zeromq", "stack raw"];
        assert_eq!(keys, expected);
    }
}
