//! The real programs, started by tests: on free ports, with bounds on every
//! wait, and gone when the test is.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

/// Far more than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn server_program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_opcua-perf-server"))
}

pub fn client_program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_opcua-perf-client"))
}

/// A program that runs; killed when this is dropped.
pub struct Running {
    pub child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    seen: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

/// What a program left behind.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// The error, which is the last line on stderr.
    pub fn error(&self) -> &str {
        self.stderr.lines().last().unwrap_or_default()
    }
}

fn lines(
    from: impl Read + Send + 'static,
    seen: Option<Arc<Mutex<String>>>,
) -> (Receiver<String>, JoinHandle<()>) {
    let (sender, receiver) = channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if let Some(seen) = &seen {
                let mut seen = seen.lock().unwrap();
                seen.push_str(&line);
                seen.push('\n');
            }
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    (receiver, reader)
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let seen = Arc::default();
        let (stdout, out) = lines(child.stdout.take().unwrap(), None);
        let (stderr, err) = lines(child.stderr.take().unwrap(), Some(Arc::clone(&seen)));
        Self {
            child,
            stdout,
            stderr,
            seen,
            readers: vec![out, err],
        }
    }

    /// Waits for a line on stderr that holds `part`.
    pub fn stderr_line(&self, part: &str) -> String {
        find(&self.stderr, part).unwrap_or_else(|| {
            panic!(
                "no line with {part:?} on stderr:\n{}",
                self.seen.lock().unwrap()
            )
        })
    }

    /// Waits for a line on stdout that holds `part`.
    pub fn stdout_line(&self, part: &str) -> String {
        find(&self.stdout, part).unwrap_or_else(|| {
            panic!(
                "no line with {part:?} on stdout; stderr:\n{}",
                self.seen.lock().unwrap()
            )
        })
    }

    /// Waits for the end.
    pub fn end(mut self) -> Ended {
        let deadline = SystemTime::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                SystemTime::now() < deadline,
                "it does not end; stderr:\n{}",
                self.seen.lock().unwrap()
            );
            thread::sleep(Duration::from_millis(5));
        };
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        let stdout = self.stdout.iter().map(|line| line + "\n").collect();
        Ended {
            status,
            stdout,
            stderr: self.seen.lock().unwrap().clone(),
        }
    }

    /// Sends a signal, by its name.
    #[cfg(unix)]
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.child.id().to_string())
            .status()
            .unwrap();
        assert!(status.success());
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn find(lines: &Receiver<String>, part: &str) -> Option<String> {
    let deadline = SystemTime::now() + PATIENCE;
    loop {
        let left = deadline.duration_since(SystemTime::now()).ok()?;
        let line = lines.recv_timeout(left).ok()?;
        if line.contains(part) {
            return Some(line);
        }
    }
}

/// A server on a free port.
pub struct TestServer {
    pub program: Running,
    pub url: String,
}

impl TestServer {
    pub fn start(args: &[&str]) -> Self {
        let mut command = server_program();
        command
            .args(["--listen", "opc.tcp://127.0.0.1:0"])
            .args(args);
        let program = Running::start(command);
        let line = program.stderr_line("listening on ");
        let url = line.rsplit_once(' ').unwrap().1.to_owned();
        Self { program, url }
    }

    pub fn client(&self, args: &[&str]) -> Running {
        let mut command = client_program();
        command.arg(&self.url).args(args);
        Running::start(command)
    }

    /// Runs a client to its end.
    pub fn run(&self, args: &[&str]) -> Ended {
        self.client(args).end()
    }

    /// Whether a client can still read.
    pub fn assert_serves(&self) {
        let ended = self.run(&["--reads", "10"]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
    }
}

/// Runs a client against a URL.
pub fn run_client(args: &[&str]) -> Ended {
    let mut command = client_program();
    command.args(args);
    Running::start(command).end()
}
