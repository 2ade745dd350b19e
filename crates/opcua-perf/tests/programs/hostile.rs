//! Peers that mean harm, or are broken: the server neither panics nor hangs
//! nor grows, and goes on serving the others.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::common::{Deadline, TestServer};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn connect(server: &TestServer) -> TcpStream {
    let address = server.url.trim_start_matches("opc.tcp://");
    let stream = TcpStream::connect(address).unwrap();
    // Far more than the server may take to answer or to close.
    stream
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    stream
}

/// Sends bytes, ends the stream, and reads until the server ends it too.
fn exchange(server: &TestServer, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(server);
    // The server may close in the middle of it.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    answer
}

fn assert_never_panicked(server: TestServer) {
    server.assert_serves();
    let mut program = server.program;
    program.kill();
    let ended = program.end();
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

/// What a real client sends in a short run.
fn recorded(server: &TestServer) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("opc.tcp://{}", listener.local_addr().unwrap());
    let target = server.url.trim_start_matches("opc.tcp://").to_owned();
    let (tell, told) = channel();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut onward = TcpStream::connect(target).unwrap();
        let mut back = (onward.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut back.0, &mut back.1));
        let mut sent = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = client.read(&mut buffer) {
            sent.extend_from_slice(&buffer[..read]);
            onward.write_all(&buffer[..read]).unwrap();
        }
        tell.send(sent).unwrap();
    });
    let ended = crate::common::run_client(&[&url, "--reads", "3"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    told.recv().unwrap()
}

fn hello(buffer: u32, url: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for number in [0, buffer, buffer, 0, 0] {
        body.extend_from_slice(&u32::to_le_bytes(number));
    }
    body.extend_from_slice(&u32::try_from(url.len()).unwrap().to_le_bytes());
    body.extend_from_slice(url.as_bytes());
    frame(*b"HELF", &body)
}

fn frame(kind: [u8; 4], body: &[u8]) -> Vec<u8> {
    let mut frame = kind.to_vec();
    frame.extend_from_slice(&u32::try_from(8 + body.len()).unwrap().to_le_bytes());
    frame.extend_from_slice(body);
    frame
}

#[test]
fn any_bytes_are_answered_or_refused() {
    let server = TestServer::start(&[]);
    let mut runner = TestRunner::new(Config::with_cases(200));
    let bytes = prop::collection::vec(any::<u8>(), 0..300);
    runner
        .run(&(bytes, any::<bool>()), |(bytes, greeted)| {
            let mut sent = Vec::new();
            if greeted {
                sent.extend(hello(65_536, "opc.tcp://h:1"));
            }
            sent.extend(bytes);
            exchange(&server, &sent);
            Ok(())
        })
        .unwrap();
    assert_never_panicked(server);
}

#[test]
fn damaged_requests_are_answered_or_refused() {
    let server = TestServer::start(&[]);
    let recorded = recorded(&server);
    let mut runner = TestRunner::new(Config::with_cases(400));
    let damage = prop::collection::vec((0..recorded.len(), any::<u8>()), 1..4);
    runner
        .run(&(damage, 0..=recorded.len()), |(damage, length)| {
            let mut bytes = recorded.clone();
            for (at, with) in damage {
                bytes[at] = with;
            }
            bytes.truncate(length.max(1));
            exchange(&server, &bytes);
            Ok(())
        })
        .unwrap();
    assert_never_panicked(server);
}

#[test]
fn last_words_say_what_was_wrong() {
    let server = TestServer::start(&[]);
    for (bytes, part) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "not OPC UA"),
        (hello(100, "opc.tcp://h:1"), "smaller than 8192"),
        (frame(*b"MSGF", &[0; 40]), "secure channel"),
        (frame(*b"OPNF", &[0; 40]), "has no place"),
        (
            [b"HELF".as_slice(), &u32::MAX.to_le_bytes()].concat(),
            "larger than",
        ),
    ] {
        let answer = exchange(&server, &bytes);
        assert!(answer.starts_with(b"ERRF"), "{part}: {answer:?}");
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_never_panicked(server);
}

#[test]
fn a_peer_that_never_opens_a_channel_is_sent_away() {
    let server = TestServer::start(&[]);
    let mut silent = connect(&server);
    let mut greeted = connect(&server);
    greeted.write_all(&hello(65_536, "opc.tcp://h:1")).unwrap();
    let waiting = Deadline::new();
    for stream in [&mut silent, &mut greeted] {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains("closed by the server"), "{text}");
    }
    assert!(waiting.waited() > Duration::from_secs(5));
    assert_never_panicked(server);
}

#[test]
fn too_many_connections_are_refused_until_some_are_gone() {
    let server = TestServer::start(&["--max-sessions", "1"]);
    let open: Vec<_> = (0..33).map(|_| connect(&server)).collect();
    server.program.stderr_line("connection 33 from");
    let mut refused = connect(&server);
    let mut answer = Vec::new();
    refused.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("too many connections"), "{text}");
    drop(open);
    server.program.stderr_line("closed");
    // The others go one by one.
    let deadline = Deadline::new();
    while server.run(&["--reads", "1"]).code() != 0 {
        assert!(deadline.left().is_some());
    }
    assert_never_panicked(server);
}

#[cfg(target_os = "linux")]
#[test]
fn peers_cannot_make_the_server_grow() {
    let server = TestServer::start(&[]);
    let announced = [
        hello(65_536, "opc.tcp://h:1"),
        [
            b"OPNF".as_slice(),
            &65_536_u32.to_le_bytes(),
            &vec![0; 60_000],
        ]
        .concat(),
    ]
    .concat();
    let open: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(&announced).unwrap();
            stream
        })
        .collect();
    server.assert_serves();
    let pid = server.program.child.id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|line| line.split_whitespace().next())
        .and_then(|kib| kib.parse::<u64>().ok())
        .unwrap();
    assert!(resident < 64 * 1024, "{resident} KiB");
    drop(open);
    assert_never_panicked(server);
}
