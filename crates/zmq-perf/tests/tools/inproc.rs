//! Between two threads of one process.

use super::support::text::lines;
use super::support::{Ended, Kind, run};

/// The stacks that carry inproc.
const STACKS: &[&str] = &[
    #[cfg(feature = "omq")]
    "omq",
    "raw",
];

impl Kind {
    /// The tool that has both ends.
    const fn inproc(self) -> &'static str {
        match self {
            Self::Latency => "inproc_lat",
            Self::Throughput => "inproc_thr",
        }
    }
}

fn measure(kind: Kind, arguments: &[&str], stack: &str) -> Ended {
    run(kind.inproc(), &[arguments, &["--stack", stack]].concat())
}

#[test]
fn the_lines_are_upstreams() {
    for stack in STACKS {
        for kind in Kind::BOTH {
            for size in ["0", "1", "64", "100000"] {
                let ended = measure(kind, &[size, "1000"], stack);
                let lines = lines(kind, ended.succeeded());
                assert_eq!(
                    (lines.size.to_string(), lines.count),
                    (size.to_owned(), 1000)
                );
                assert!(lines.figure > 0.0, "{lines:?}");
            }
        }
    }
}

#[cfg(feature = "omq")]
#[test]
fn omq_is_the_default() {
    let ended = run("inproc_lat", &["1", "10", "--json"]);
    assert!(ended.succeeded().contains("\"omq-tokio\""), "{ended:?}");
}

#[test]
fn one_message_arrives() {
    for stack in STACKS {
        let ended = measure(Kind::Throughput, &["1", "1"], stack);
        assert!(
            ended
                .succeeded()
                .ends_with("mean throughput: 0.000 [Mb/s]\n"),
            "{ended:?}"
        );
        let ended = measure(Kind::Latency, &["1", "1"], stack);
        assert_eq!(lines(Kind::Latency, ended.succeeded()).count, 1);
    }
}

#[test]
fn two_tasks_of_one_thread_are_no_inter_thread_test() {
    for stack in STACKS {
        for kind in Kind::BOTH {
            let ended = measure(kind, &["8", "1000", "--same-thread"], stack);
            assert_eq!(
                ended.remarks(),
                ["both ends are tasks of one thread: this is no inter-thread test"]
            );
            assert_eq!(ended.code, Some(0), "{ended:?}");
            assert_eq!(lines(kind, &ended.stdout).count, 1000);
        }
    }
}

#[test]
fn short_runs_end_again_and_again() {
    for stack in STACKS {
        for kind in Kind::BOTH {
            for _ in 0..50 {
                let ended = measure(kind, &["1", "10"], stack);
                assert_eq!(lines(kind, ended.succeeded()).count, 10);
            }
        }
    }
}

#[test]
fn a_time_limits_a_run_as_well() {
    for stack in STACKS {
        for kind in Kind::BOTH {
            let ended = measure(kind, &["8", "--duration", "200ms"], stack);
            assert!(lines(kind, ended.succeeded()).count > 1);
        }
    }
}

#[test]
fn a_stamp_shows_the_delay() {
    for stack in STACKS {
        let flags = ["16", "1000", "--stamp", "--json"];
        let ended = measure(Kind::Throughput, &flags, stack);
        assert!(ended.succeeded().contains("\"one_way_delay_ns\""));
    }
    let line = run("inproc_thr", &["15", "1000", "--stamp"]);
    assert_eq!(
        line.failed(2),
        "--stamp needs messages of at least 16 bytes, and these have 15"
    );
}

#[test]
fn nothing_but_the_document_is_on_stdout() {
    for kind in Kind::BOTH {
        let ended = measure(kind, &["1", "10", "--json"], "raw");
        let stdout = ended.succeeded();
        assert!(
            stdout.starts_with('{') && stdout.ends_with("}\n"),
            "{stdout}"
        );
    }
}

#[test]
fn a_stack_without_inproc_is_refused() {
    let refusal = "inproc:// needs --stack omq or raw: the zeromq crate has no inproc transport";
    for kind in Kind::BOTH {
        let ended = measure(kind, &["1", "10"], "zeromq");
        assert_eq!((ended.failed(2), &*ended.stdout), (refusal, ""));
        let ended = run(
            kind.local(),
            &["inproc://a", "1", "10", "--stack", "zeromq"],
        );
        assert_eq!(ended.failed(2), refusal);
    }
}

#[test]
fn inproc_does_not_leave_the_process() {
    for kind in Kind::BOTH {
        for tool in [kind.local(), kind.remote()] {
            let ended = run(tool, &["inproc://a", "1", "10", "--stack", "raw"]);
            assert_eq!(
                ended.failed(2),
                "inproc:// does not leave the process, so no other end can come; use inproc_lat or inproc_thr, which have both"
            );
        }
    }
}
