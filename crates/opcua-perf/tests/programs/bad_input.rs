//! What goes wrong: each as one line that says what was tried, what happened
//! and what to do, and the right exit code.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::common::{Ended, TestServer, run_client};

fn assert_fails(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!(ended.code(), code, "{}", ended.stderr);
    for part in parts {
        assert!(ended.error().contains(part), "{part}: {}", ended.stderr);
    }
    assert_eq!(ended.stdout, "", "nothing was measured");
}

/// A server that does as it is told with each connection, and its URL.
fn fake_server(serve: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("opc.tcp://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    url
}

/// A server that answers the first bytes with these, and waits for the end.
fn answering(answer: &'static [u8]) -> String {
    fake_server(move |mut stream| {
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer);
        let _ = stream.write_all(answer);
        while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
    })
}

#[test]
fn a_wrong_command_line_is_refused() {
    for (args, part) in [
        (&[][..], "--loopback"),
        (&["http://localhost:4840"], "expected opc.tcp://host:port"),
        (&["localhost:4840"], "expected opc.tcp://host:port"),
        (&["opc.tcp://localhost:65536"], "0 to 65535"),
        (
            &["opc.tcp://localhost", "--loopback"],
            "cannot be used with",
        ),
        (&["--loopback", "--reads", "0"], "from 1 to"),
        (&["--loopback", "--row-every", "0"], "from 1 to"),
        (&["--loopback", "--duration", "0s"], "above 0"),
        (
            &["--loopback", "--reads", "1", "--duration", "1s"],
            "exclude each other",
        ),
        (&["--loopback", "--rate", "0"], "operations a second"),
        (&["--loopback", "--nodes-per-read", "0"], "from 1 to 100000"),
        (
            &["--loopback", "--nodes-per-read", "100001"],
            "from 1 to 100000",
        ),
        (&["--loopback", "--node", "42"], "expected a node id"),
        (&["--loopback", "--max-age=-1"], "0 or more"),
        (
            &["--loopback", "--security-policy", "Basic512"],
            "Basic256Sha256",
        ),
        (
            &["--loopback", "--security-mode", "Sign"],
            "does not go with",
        ),
        (&["--loopback", "--user", "alice"], "--password-file"),
        (&["--loopback", "--cpu", "99999"], "no such CPU"),
        (&["--loopback", "--stack", "zeromq"], "async-opcua"),
    ] {
        assert_fails(&run_client(args), 2, &[part]);
    }
}

#[test]
fn nobody_listens() {
    // Bound and not listening: the port is taken, and connections are refused.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    let socket = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        socket
    });
    let url = format!("opc.tcp://{}", socket.local_addr().unwrap());
    let ended = run_client(&[&url]);
    assert_fails(
        &ended,
        1,
        &[
            "cannot reach",
            &url,
            "does a server listen there?",
            "refused",
        ],
    );
}

#[test]
fn a_host_that_does_not_resolve() {
    let ended = run_client(&["opc.tcp://no-such-host.invalid:4840"]);
    assert_fails(&ended, 1, &["cannot reach", "no-such-host.invalid"]);
}

#[test]
fn a_server_that_says_nothing() {
    let url = fake_server(|mut stream| {
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
    });
    let ended = run_client(&[&url, "--timeout", "300ms"]);
    assert_fails(&ended, 1, &["no answer from", &url, "--timeout"]);
}

#[test]
fn a_server_that_speaks_something_else() {
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n",
        &[0xff; 300],
    ] {
        let ended = run_client(&[&answering(answer), "--timeout", "5s"]);
        assert_fails(&ended, 1, &["cannot reach", "not OPC UA"]);
    }
}

#[test]
fn a_server_that_breaks_the_protocol() {
    for (answer, part) in [
        (&b"MSGF\x08\0\0\0"[..], "has no place here"),
        (b"ACKF\xff\xff\xff\x7f", "larger than"),
        (b"ACKF\x04\0\0\0", "shorter than its header"),
        (b"ACKF\x0c\0\0\0\0\0\0\0", "BadDecodingError"),
        (
            b"ACKF\x1c\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0",
            "smaller than 8192",
        ),
        (b"ERRF\x18\0\0\0\0\0\x7d\x80\x08\0\0\0go away!", "go away!"),
    ] {
        let ended = run_client(&[&answering(answer), "--timeout", "5s"]);
        assert_fails(&ended, 1, &["cannot reach", part]);
    }
}

#[test]
fn a_server_that_closes_at_once() {
    let url = fake_server(drop);
    let ended = run_client(&[&url, "--timeout", "5s"]);
    assert_fails(&ended, 1, &["cannot reach", &url]);
}

#[test]
fn a_node_that_does_not_exist() {
    let server = TestServer::start(&[]);
    for stack in ["raw", "async-opcua"] {
        for node in ["ns=1;i=43", "ns=2;s=Demo", "i=99999"] {
            let ended = server.run(&["--node", node, "--stack", stack]);
            assert_fails(&ended, 1, &["cannot read", node, "BadNodeIdUnknown"]);
        }
    }
    server.assert_serves();
}

#[test]
fn a_node_that_has_no_value() {
    let server = TestServer::start(&[]);
    let ended = server.run(&["--node", "i=85"]);
    assert_fails(&ended, 1, &["cannot read i=85", "BadAttributeIdInvalid"]);
}

#[test]
fn a_value_of_another_type() {
    // Our server's answers, with the type of the value changed on the way from
    // UInt64 (9) to Int64 (8): one result, of which only the value is there.
    const UINT64: [u8; 6] = [1, 0, 0, 0, 1, 9];
    const INT64: [u8; 6] = [1, 0, 0, 0, 1, 8];
    let server = TestServer::start(&[]);
    let address = server.url.trim_start_matches("opc.tcp://").to_owned();
    let url = fake_server(move |mut client| {
        let mut real = TcpStream::connect(&address).unwrap();
        let mut requests = (client.try_clone().unwrap(), real.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut requests.0, &mut requests.1));
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = real.read(&mut buffer) {
            let answer = &mut buffer[..read];
            if let Some(at) = answer.windows(6).position(|bytes| bytes == UINT64) {
                answer[at..at + 6].copy_from_slice(&INT64);
            }
            let _ = client.write_all(answer);
        }
    });
    let ended = run_client(&[&url, "--reads", "10"]);
    assert_fails(&ended, 1, &["ns=1;i=42 is ", "Int64, not UInt64", "--node"]);
    let ended = run_client(&[&url, "--reads", "10", "--node", "ns=1;i=42"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
}

#[test]
fn a_server_that_takes_certificates_only() {
    let server = TestServer::start(&["--security-policy", "Basic256Sha256"]);
    let ended = server.run(&[]);
    assert_fails(
        &ended,
        1,
        &[
            "no endpoint with SecurityPolicy None",
            "Basic256Sha256/Sign, Basic256Sha256/SignAndEncrypt",
            "--security-policy",
        ],
    );
}

#[test]
fn a_policy_that_the_server_does_not_offer() {
    let server = TestServer::start(&[]);
    let ended = server.run(&["--security-policy", "Basic256Sha256"]);
    assert_fails(&ended, 1, &["no endpoint", "offers None/None"]);
}

#[test]
fn a_server_that_knows_no_users() {
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, "x").unwrap();
    let server = TestServer::start(&[]);
    let ended = server.run(&["--user", "u", "--password-file", password.to_str().unwrap()]);
    assert_fails(&ended, 1, &["takes no user name", "only Anonymous"]);
}

#[test]
fn files_that_are_not_there() {
    let missing = "/nonexistent/file";
    for args in [
        &[
            "--loopback",
            "--certificate",
            missing,
            "--private-key",
            missing,
        ][..],
        &["--loopback", "--user", "u", "--password-file", missing],
        &["--loopback", "--csv", missing],
    ] {
        assert_fails(&run_client(args), 1, &[missing]);
    }
}

#[test]
fn an_address_in_use() {
    let server = TestServer::start(&[]);
    let mut command = crate::common::server_program();
    command.args(["--listen", &server.url]);
    let ended = crate::common::Running::start(command).end();
    assert_fails(
        &ended,
        1,
        &["cannot listen on", &server.url, "the address is in use; "],
    );
}

#[test]
fn a_wrong_command_line_of_the_server() {
    for (args, part) in [
        (
            &["--listen", "http://0.0.0.0"][..],
            "expected opc.tcp://host:port",
        ),
        (&["--max-sessions", "0"], "--max-sessions"),
        (&["--security-policy", "x"], "Basic256Sha256"),
        (&["--certificate", "c.der"], "--private-key"),
        (&["here"], "unexpected argument"),
        (&["--busy-poll", "--no-spin"], "cannot be used with"),
        (&["--cpu", "99999"], "no such CPU"),
    ] {
        let mut command = crate::common::server_program();
        command.args(args);
        assert_fails(&crate::common::Running::start(command).end(), 2, &[part]);
    }
}
