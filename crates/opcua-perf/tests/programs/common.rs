//! The real programs, started by tests: on free ports, with bounds on every
//! wait, and gone when the test is.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use perf_core::clock::{Clock, MonotonicClock};

/// Far more than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A bound on a wait.
pub(crate) struct Deadline(MonotonicClock);

impl Deadline {
    pub(crate) fn new() -> Self {
        Self(MonotonicClock::new())
    }

    /// How long it has been waited for.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_nanos(self.0.now().as_nanos())
    }

    /// How long there is left; `None` when the time is over.
    pub(crate) fn left(&self) -> Option<Duration> {
        PATIENCE.checked_sub(self.waited())
    }
}

pub(crate) fn server_program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_opcua-perf-server"))
}

pub(crate) fn client_program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_opcua-perf-client"))
}

/// A program that runs; killed when this is dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
    seen: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

/// What a program left behind.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// The error, which is the last line on stderr.
    pub(crate) fn error(&self) -> &str {
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
    pub(crate) fn start(mut command: Command) -> Self {
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
    pub(crate) fn stderr_line(&self, part: &str) -> String {
        find(&self.stderr, part).unwrap_or_else(|| {
            panic!(
                "no line with {part:?} on stderr:\n{}",
                self.seen.lock().unwrap()
            )
        })
    }

    /// Waits for a line on stdout that holds `part`.
    #[cfg(unix)]
    pub(crate) fn stdout_line(&self, part: &str) -> String {
        find(&self.stdout, part).unwrap_or_else(|| {
            panic!(
                "no line with {part:?} on stdout; stderr:\n{}",
                self.seen.lock().unwrap()
            )
        })
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> Ended {
        let deadline = Deadline::new();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                deadline.left().is_some(),
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
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.child.id().to_string())
            .status()
            .unwrap();
        assert!(status.success());
    }

    pub(crate) fn kill(&mut self) {
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
    let deadline = Deadline::new();
    loop {
        let line = lines.recv_timeout(deadline.left()?).ok()?;
        if line.contains(part) {
            return Some(line);
        }
    }
}

/// A server on a free port.
pub(crate) struct TestServer {
    pub(crate) program: Running,
    pub(crate) url: String,
}

impl TestServer {
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut command = server_program();
        command
            .args(["--listen", "opc.tcp://127.0.0.1:0"])
            .args(args);
        let program = Running::start(command);
        let line = program.stderr_line("listening on ");
        let url = line.rsplit_once(' ').unwrap().1.to_owned();
        Self { program, url }
    }

    pub(crate) fn client(&self, args: &[&str]) -> Running {
        let mut command = client_program();
        command.arg(&self.url).args(args);
        Running::start(command)
    }

    /// Runs a client to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.client(args).end()
    }

    /// Whether a client can still read.
    pub(crate) fn assert_serves(&self) {
        let ended = self.run(&["--reads", "10"]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
    }
}

/// Runs a client against a URL.
pub(crate) fn run_client(args: &[&str]) -> Ended {
    let mut command = client_program();
    command.args(args);
    Running::start(command).end()
}
