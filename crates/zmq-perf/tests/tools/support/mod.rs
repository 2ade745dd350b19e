//! Starts the tools and watches them from outside: what they say, where they
//! are bound, how they end. Nothing that is started here outlives its test,
//! and every wait ends.

pub(crate) mod http;
pub(crate) mod place;
pub(crate) mod text;
pub(crate) mod zmtp;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use perf_core::clock::{Clock, MonotonicClock};

/// Only what hangs takes as long.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A stack, as the command line chooses it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stack(&'static [&'static str]);

/// What the tools carry messages with unless they are told otherwise.
pub(crate) const ZEROMQ: Stack = Stack(&[]);

/// The crate omq-tokio.
#[cfg(feature = "omq")]
pub(crate) const OMQ: Stack = Stack(&["--stack", "omq"]);

/// Nothing between the wire and the tool.
pub(crate) const RAW: Stack = Stack(&["--stack", "raw"]);

/// Makes each of the functions, which take a [`Stack`], a test of each stack.
macro_rules! on_each_stack {
    ($($test:ident),+ $(,)?) => {
        on_stack! { zeromq, ZEROMQ, $($test),+ }
        on_stack! { raw, RAW, $($test),+ }
        #[cfg(feature = "omq")]
        on_stack! { omq, OMQ, $($test),+ }
    };
}

macro_rules! on_stack {
    ($module:ident, $stack:ident, $($test:ident),+) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    super::$test($crate::support::$stack);
                }
            )+
        }
    };
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Latency,
    Throughput,
}

impl Kind {
    pub(crate) const BOTH: [Self; 2] = [Self::Latency, Self::Throughput];

    /// The end that binds.
    pub(crate) const fn local(self) -> &'static str {
        match self {
            Self::Latency => "local_lat",
            Self::Throughput => "local_thr",
        }
    }

    /// The end that connects.
    pub(crate) const fn remote(self) -> &'static str {
        match self {
            Self::Latency => "remote_lat",
            Self::Throughput => "remote_thr",
        }
    }

    /// What the tools call one operation.
    #[cfg(unix)]
    pub(crate) const fn unit(self) -> &'static str {
        match self {
            Self::Latency => "round trips",
            Self::Throughput => "messages",
        }
    }
}

/// A tool that runs.
pub(crate) struct Tool {
    name: &'static str,
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Receiver<String>,
    said: Vec<String>,
}

/// A tool that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    name: &'static str,
    /// `None`: a signal killed it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    /// Line by line.
    pub(crate) stderr: Vec<String>,
}

impl Stack {
    /// Starts a tool on this stack.
    pub(crate) fn start(self, name: &'static str, arguments: &[&str]) -> Tool {
        self.start_into(Stdio::piped(), name, arguments)
    }

    /// Starts a tool on this stack that prints its results somewhere else.
    pub(crate) fn start_into(self, stdout: Stdio, name: &'static str, arguments: &[&str]) -> Tool {
        Tool::start(stdout, name, &[arguments, self.0].concat())
    }

    /// Starts a tool on this stack and returns it with how it ended.
    pub(crate) fn run(self, name: &'static str, arguments: &[&str]) -> Ended {
        self.start(name, arguments).end()
    }

    /// A whole run of a pair of tools, the bound end first, over a fresh
    /// socket: the measuring end's stdout. The other end prints nothing.
    pub(crate) fn measure(self, kind: Kind, bind: &str, size: usize, count: u64) -> String {
        let (size, count) = (size.to_string(), count.to_string());
        let mut local = self.start(kind.local(), &[bind, &size, &count]);
        let endpoint = local.bound();
        let remote = self.start(kind.remote(), &[&endpoint, &size, &count]);
        whole(kind, local, remote)
    }
}

/// The measuring end's stdout when both ends have ended as they should. The
/// other end prints nothing.
pub(crate) fn whole(kind: Kind, local: Tool, remote: Tool) -> String {
    let (local, remote) = (local.end(), remote.end());
    let (measuring, other) = match kind {
        Kind::Latency => (remote, local),
        Kind::Throughput => (local, remote),
    };
    assert_eq!(other.succeeded(), "", "{other:?}");
    measuring.succeeded().to_owned()
}

/// Starts a tool without more flags, for command lines that say it all.
pub(crate) fn run(name: &'static str, arguments: &[&str]) -> Ended {
    start(name, arguments).end()
}

/// The same, without waiting for its end.
pub(crate) fn start(name: &'static str, arguments: &[&str]) -> Tool {
    Tool::start(Stdio::piped(), name, arguments)
}

impl Tool {
    fn start(stdout: Stdio, name: &'static str, arguments: &[&str]) -> Self {
        let program = match name {
            "local_lat" => env!("CARGO_BIN_EXE_local_lat"),
            "remote_lat" => env!("CARGO_BIN_EXE_remote_lat"),
            "local_thr" => env!("CARGO_BIN_EXE_local_thr"),
            "remote_thr" => env!("CARGO_BIN_EXE_remote_thr"),
            "inproc_lat" => env!("CARGO_BIN_EXE_inproc_lat"),
            "inproc_thr" => env!("CARGO_BIN_EXE_inproc_thr"),
            #[cfg(feature = "omq")]
            "proxy_thr" => env!("CARGO_BIN_EXE_proxy_thr"),
            other => panic!("no tool {other}"),
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().map(|mut pipe| {
            std::thread::spawn(move || {
                let mut text = String::new();
                pipe.read_to_string(&mut text).unwrap();
                text
            })
        });
        let (say, stderr) = channel();
        let pipe = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in pipe.lines().map_while(Result::ok) {
                // A test that has seen enough no longer listens.
                let _ = say.send(line);
            }
        });
        Self {
            name,
            child,
            stdout,
            stderr,
            said: Vec::new(),
        }
    }

    /// Waits until a line of stderr holds `part`, which no earlier call has
    /// waited for; returns the line.
    pub(crate) fn says(&mut self, part: &str) -> String {
        loop {
            let line = self
                .stderr
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("{} did not say {part:?}: {:?}", self.name, self.said));
            self.said.push(line.clone());
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Waits until it listens; returns the endpoint to connect to.
    pub(crate) fn bound(&mut self) -> String {
        let line = self.says("listening on ");
        let (_, rest) = line.split_once("listening on ").unwrap();
        rest.split_once(',').unwrap().0.to_owned()
    }

    /// Waits until it has ended.
    pub(crate) fn end(mut self) -> Ended {
        let what = format!("the end of {}", self.name);
        let status = eventually(&what, || self.child.try_wait().unwrap());
        let stdout = self.stdout.take().map(|reader| reader.join().unwrap());
        self.said.extend(self.stderr.iter());
        Ended {
            name: self.name,
            code: status.code(),
            stdout: stdout.unwrap_or_default(),
            stderr: std::mem::take(&mut self.said),
        }
    }

    /// Ends it without giving it a chance to say a word (SIGKILL).
    #[cfg(unix)]
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[cfg(unix)]
pub(crate) use rustix::process::Signal;

#[cfg(unix)]
impl Tool {
    pub(crate) fn signal(&self, signal: Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
    }
}

#[cfg(target_os = "linux")]
impl Tool {
    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }

    /// The most memory that it ever had, in MiB.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib / 1024
    }

    /// Waits until it is in the middle of its run: it has worked for longer
    /// than the start and the wait for a peer take.
    pub(crate) fn works(&self) {
        const TICKS: u64 = 40; // of 10 ms
        eventually(&format!("work of {}", self.name), || {
            let stat = self.proc("stat");
            // Behind the name, which may hold blanks, the first field is the third.
            let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
            let ticks = |field: usize| fields[field - 3].parse::<u64>().unwrap();
            (ticks(14) + ticks(15) > TICKS).then_some(())
        });
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How the lines on stderr begin that every run may have.
const NOTICES: &[&str] = &[
    "listening on ",
    "waiting for a peer at ",
    "refused a peer: ",
    "let a peer go: ",
    "connections: ",
    "rate: ",
    WARNING,
];

/// How a doubt about the figures begins. Which there are depends on the
/// machine and the build.
const WARNING: &str = "warning: ";

impl Ended {
    /// The lines on stderr that are not [`NOTICES`], without the tool's name.
    pub(crate) fn remarks(&self) -> Vec<&str> {
        let prefix = format!("{}: ", self.name);
        let of_tool = |line: &'_ String| {
            assert!(
                line.starts_with(&prefix),
                "a line without its tool: {self:?}"
            );
            line.len() - prefix.len()
        };
        self.stderr
            .iter()
            .map(|line| &line[line.len() - of_tool(line)..])
            .filter(|line| !NOTICES.iter().any(|notice| line.starts_with(notice)))
            .collect()
    }

    /// Whether it doubts its figures for this reason.
    pub(crate) fn warns(&self, reason: &str) -> bool {
        let line = format!("{}: {WARNING}{reason}", self.name);
        self.stderr.contains(&line)
    }

    /// The results of a run that is whole and has nothing to remark.
    pub(crate) fn succeeded(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        assert!(self.remarks().is_empty(), "{self:?}");
        &self.stdout
    }

    /// The one line of a tool that did not come to its end.
    pub(crate) fn failed(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{self:?}");
        let [line] = self.remarks()[..] else {
            panic!("not one line: {self:?}");
        };
        line
    }
}

/// Waits until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut answer: impl FnMut() -> Option<T>) -> T {
    let clock = MonotonicClock::new();
    let start = clock.now();
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(
            clock.now().since(start) < PATIENCE,
            "waited too long for {what}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Asserts that a line begins and ends so; what is between depends on the
/// system.
#[track_caller]
pub(crate) fn assert_line(line: &str, start: &str, end: &str) {
    assert!(
        line.starts_with(start) && line.ends_with(end),
        "{line:?} is not {start:?}...{end:?}"
    );
}
