//! CURVE: with the keys of libzmq's perf tools, and with keys from files.

use std::path::Path;

use super::support::place::{Place, Transport};
use super::support::text::lines;
use super::support::{Ended, Kind, OMQ, Tool, run, whole};

/// The pair of RFC 26's test vectors, in ZeroMQ's own documentation of
/// `zmq_curve`: a server.
const PUBLIC: &str = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
const SECRET: &str = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6";

impl Kind {
    /// How this kind is asked for CURVE.
    const fn curve(self) -> &'static str {
        match self {
            Self::Latency => "--curve",
            Self::Throughput => "1",
        }
    }
}

fn file(directory: &Path, name: &str, key: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, format!("{key}\n")).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Starts the bound end; returns it and the endpoint to connect to.
fn local(kind: Kind, flags: &[&str]) -> (Tool, String) {
    let arguments = [&["tcp://127.0.0.1:*", "16", "100"], flags].concat();
    let mut local = OMQ.start(kind.local(), &arguments);
    let endpoint = local.bound();
    (local, endpoint)
}

fn remote(kind: Kind, endpoint: &str, flags: &[&str]) -> Tool {
    OMQ.start(kind.remote(), &[&[endpoint, "16", "100"], flags].concat())
}

#[test]
fn both_ends_have_the_keys_of_libzmqs_tools() {
    for &transport in Transport::ALL {
        for kind in Kind::BOTH {
            let place = Place::free(transport);
            let arguments = [place.endpoint.as_str(), "1000", "100", kind.curve()];
            let mut local = OMQ.start(kind.local(), &arguments);
            let endpoint = local.bound();
            let arguments = [endpoint.as_str(), "1000", "100", kind.curve()];
            let remote = OMQ.start(kind.remote(), &arguments);
            assert_eq!(lines(kind, &whole(kind, local, remote)).count, 100);
        }
    }
}

#[test]
fn omq_is_the_default() {
    let ended = run(
        "remote_lat",
        &["--loopback", "1", "10", "--curve", "--json"],
    );
    let stdout = ended.succeeded();
    assert!(stdout.contains("\"omq-tokio\""), "{ended:?}");
    assert!(stdout.contains("\"curve\": true"), "{ended:?}");
}

#[test]
fn own_keys_come_from_files_and_are_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    let secret = file(directory.path(), "secret", SECRET);
    let public = file(directory.path(), "public", PUBLIC);
    for kind in Kind::BOTH {
        let (local, endpoint) = local(kind, &["--curve-secret-key", &secret, "--json"]);
        let flags = ["--curve-server-key", &public, "--json"];
        let remote = remote(kind, &endpoint, &flags);
        for ended in [local.end(), remote.end()] {
            assert_eq!(ended.code, Some(0), "{ended:?}");
            let said = format!("{ended:?}");
            assert!(!said.contains(SECRET) && !said.contains(PUBLIC), "{said}");
        }
    }
}

/// Two ends that do not fit: neither hangs.
fn do_not_fit(kind: Kind, local_flags: &[&str], remote_flags: &[&str]) -> (Ended, Ended) {
    let timeout = ["--timeout", "3s"];
    let (local, endpoint) = local(kind, &[local_flags, &timeout].concat());
    let remote = remote(kind, &endpoint, &[remote_flags, &timeout].concat());
    let (local, remote) = (local.end(), remote.end());
    for ended in [&local, &remote] {
        ended.failed(1);
        assert_eq!(ended.stdout, "", "{ended:?}");
    }
    (local, remote)
}

#[test]
fn a_wrong_key_fails_on_both_ends() {
    let directory = tempfile::tempdir().unwrap();
    let public = file(directory.path(), "public", PUBLIC);
    for kind in Kind::BOTH {
        let (local, _) = do_not_fit(kind, &[kind.curve()], &["--curve-server-key", &public]);
        assert!(
            local.failed(1).starts_with("no peer at tcp://127.0.0.1:"),
            "{local:?}"
        );
    }
}

#[test]
fn a_peer_without_curve_fails_on_both_ends() {
    for kind in Kind::BOTH {
        do_not_fit(kind, &[kind.curve()], &[]);
        do_not_fit(kind, &[], &[kind.curve()]);
    }
}

#[test]
fn what_is_no_key_is_refused_without_showing_it() {
    let directory = tempfile::tempdir().unwrap();
    let junk = file(directory.path(), "junk", "no key at all");
    let ended = run(
        "remote_lat",
        &[
            "tcp://127.0.0.1:5555",
            "1",
            "10",
            "--curve-server-key",
            &junk,
        ],
    );
    let line = ended.failed(2);
    assert!(
        line.contains(&junk) && !line.contains("no key at all"),
        "{line}"
    );
    let ended = run(
        "local_thr",
        &[
            "tcp://127.0.0.1:*",
            "1",
            "10",
            "--curve-secret-key",
            "/no/such/file",
        ],
    );
    assert!(
        ended
            .failed(2)
            .starts_with("cannot read the key file /no/such/file: "),
        "{ended:?}"
    );
}

#[test]
fn a_stack_without_curve_is_refused() {
    for (stack, why) in [
        ("zeromq", "the zeromq crate has no CURVE"),
        ("raw", "raw speaks the NULL mechanism only"),
    ] {
        for kind in Kind::BOTH {
            let ended = run(
                kind.local(),
                &[
                    "tcp://127.0.0.1:*",
                    "1",
                    "10",
                    kind.curve(),
                    "--stack",
                    stack,
                ],
            );
            assert_eq!(ended.failed(2), format!("CURVE needs --stack omq: {why}"));
        }
    }
}
