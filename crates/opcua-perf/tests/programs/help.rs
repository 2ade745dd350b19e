//! What the programs say about themselves: on stdout, with exit code 0.

use std::process::Command;

use crate::common::{Running, client_program, server_program};

/// What a program prints when asked about itself.
fn told(mut program: Command, flag: &str) -> String {
    program.arg(flag);
    let ended = Running::start(program).end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert_eq!(ended.stderr, "");
    ended.stdout
}

#[test]
fn the_long_help_has_examples() {
    for (program, name) in [
        (client_program as fn() -> Command, "opcua-perf-client"),
        (server_program, "opcua-perf-server"),
    ] {
        let example = format!("\n    {name}");
        assert!(told(program(), "--help").contains(&example), "{name}");
        assert!(!told(program(), "-h").contains(&example), "{name}");
    }
}

#[test]
fn the_long_version_begins_with_the_short_one() {
    for (program, keys) in [
        (
            client_program as fn() -> Command,
            &["target", "profile", "stack raw", "stack async-opcua"][..],
        ),
        (server_program, &["target", "profile", "stack raw"]),
    ] {
        let short = told(program(), "-V");
        assert!(short.ends_with(&format!(" {}\n", env!("CARGO_PKG_VERSION"))));
        let long = told(program(), "--version");
        let rest = long.strip_prefix(&short).unwrap();
        let told: Vec<_> = rest
            .lines()
            .filter_map(|line| line.split(": ").next())
            .collect();
        assert_eq!(told, keys);
    }
}
