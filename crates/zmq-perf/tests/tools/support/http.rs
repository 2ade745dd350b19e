//! A peer that speaks HTTP.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use super::PATIENCE;

/// A request that is longer than ZMTP's greeting of 64 bytes.
pub(crate) const GET: &str =
    "GET /index.html HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n";

/// What a server answers to what it does not understand.
pub(crate) const BAD_REQUEST: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Sends a request to an endpoint and waits until the other side hangs up.
pub(crate) fn get(endpoint: &str, request: &str) {
    let mut stream = TcpStream::connect(endpoint.strip_prefix("tcp://").unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
}

/// Answers every connection with `answer`, and hangs up; returns where.
pub(crate) fn serve(answer: &'static str) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            // Whoever has gone needs no answer.
            let _ = stream.read(&mut request);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    endpoint
}
