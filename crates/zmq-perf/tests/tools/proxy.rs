//! Through a proxy.

use super::support::text::lines;
use super::support::{Kind, run};

#[test]
fn the_lines_are_upstreams() {
    for (size, count) in [(0, 1), (1, 1000), (64, 50_000), (100_000, 100)] {
        let ended = run("proxy_thr", &[&size.to_string(), &count.to_string()]);
        let lines = lines(Kind::Throughput, ended.succeeded());
        assert_eq!((lines.size, lines.count), (size, count));
        assert!(lines.figure > 0.0, "{lines:?}");
    }
}

#[test]
fn a_time_limits_a_run_as_well() {
    let ended = run("proxy_thr", &["8", "--duration", "200ms"]);
    assert!(lines(Kind::Throughput, ended.succeeded()).count > 1);
}

#[test]
fn a_stack_without_a_proxy_is_refused() {
    for stack in ["zeromq", "raw"] {
        let ended = run("proxy_thr", &["8", "100", "--stack", stack]);
        assert_eq!(
            ended.failed(2),
            "proxy_thr needs --stack omq: the others have no XPUB and XSUB over inproc"
        );
    }
}
