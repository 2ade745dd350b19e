//! What the ends of every measurement have in common: patience with the peer,
//! and a word on stderr while they wait for it.

use std::num::NonZeroU64;
use std::time::Duration;

use perf_core::cli::{CpuArgs, note};
use perf_core::limit::{RunLimit, StopReason};
use perf_core::load::Operation;
use perf_core::measure::{Finished, Halt, Plan, measure};
use perf_core::runtime::{Interrupt, Watch, current_thread, current_thread_without_io, run_to_end};

use crate::endpoint::Endpoint;
use crate::error::{Done, Ended, Error};
use crate::stack::{Socket, StackError, Step};

/// How long a peer may be silent in the middle of a run, unless `--timeout`
/// says otherwise.
const SILENCE: Duration = Duration::from_secs(10);

/// A peer that is there within this time is not worth a word.
const NOTICE_AFTER: Duration = Duration::from_millis(300);

/// How long an end waits for what, and how.
#[derive(Debug, Clone)]
pub struct Patience {
    /// Ctrl-C and SIGTERM.
    pub interrupt: Interrupt,
    /// `--timeout`
    pub timeout: Option<Duration>,
    /// For an end that starts another.
    pub threads: Threads,
}

/// The threads of a tool, each with a runtime of its own.
#[derive(Debug, Clone)]
pub struct Threads {
    /// How they wait, and where they run.
    cpu: CpuArgs,
    /// Whether nothing from outside the process reaches them.
    inproc: bool,
}

impl Threads {
    /// Of ends that other processes reach.
    #[must_use]
    pub const fn between(cpu: CpuArgs) -> Self {
        let inproc = false;
        Self { cpu, inproc }
    }

    /// Of ends that are all in this process, and need no I/O.
    #[must_use]
    pub const fn within(cpu: CpuArgs) -> Self {
        let inproc = true;
        Self { cpu, inproc }
    }

    /// Runs the first or another thread's `work` on the calling one, from here
    /// on where it belongs.
    ///
    /// # Errors
    /// When the thread cannot be pinned, or there is no runtime to be had.
    pub(crate) fn run<F: Future>(
        &self,
        thread: usize,
        work: impl FnOnce() -> F,
    ) -> Result<F::Output, Error> {
        self.cpu.pin(thread).map_err(Error::Cpu)?;
        let wait = self.cpu.wait();
        let runtime = if self.inproc {
            current_thread_without_io(wait)
        } else {
            current_thread(wait)
        };
        Ok(run_to_end(runtime.map_err(Error::Runtime)?, work()))
    }

    /// Takes the signals over. Inside a runtime of theirs.
    pub(crate) fn interrupt(&self) -> Result<Interrupt, Error> {
        let installed = if self.inproc {
            Interrupt::install_on_own_thread()
        } else {
            Interrupt::install()
        };
        installed.map_err(Error::Runtime)
    }
}

impl Patience {
    /// Until the peer is there: without end, unless `--timeout` says otherwise.
    #[must_use]
    pub fn waiting(&self) -> Watch {
        Watch {
            interrupt: self.interrupt.clone(),
            silence: self.timeout,
        }
    }

    /// In the middle of the run.
    #[must_use]
    pub fn running(&self) -> Watch {
        Watch {
            interrupt: self.interrupt.clone(),
            silence: Some(self.timeout.unwrap_or(SILENCE)),
        }
    }

    /// For the other end of a loopback: it goes with the process, and a signal
    /// must not make it leave before the measuring end has heard of it.
    #[must_use]
    pub fn uninterrupted(&self) -> Self {
        Self {
            interrupt: Interrupt::never(),
            timeout: self.timeout,
            threads: self.threads.clone(),
        }
    }
}

/// Connects an end, however late its peer starts, and says so if it has to
/// wait.
///
/// # Errors
/// Why there is no connection.
pub async fn connect<T>(
    socket: &Socket,
    patience: &Patience,
    done: Done,
    open: impl Future<Output = Step<T>>,
) -> Result<T, Ended> {
    let endpoint = &socket.endpoint;
    let noticed = async {
        tokio::time::sleep(NOTICE_AFTER).await;
        note(
            socket.tool,
            &format!("waiting for a peer at {endpoint}; none answers there yet"),
        );
        std::future::pending().await
    };
    let watch = patience.waiting();
    let connected = watch.bounded(async {
        tokio::select! {
            result = open => result,
            never = noticed => never,
        }
    });
    match connected.await {
        Ok(Ok(end)) => Ok(end),
        Ok(Err(source)) => Err(Ended::Failed(Error::Connect {
            endpoint: endpoint.clone(),
            source,
        })),
        Err(stop) => Err(Ended::waiting(stop, endpoint, done)),
    }
}

/// Binds an end, and says where it waits for its peer.
///
/// # Errors
/// Why it is not bound.
pub async fn bind<T>(
    socket: &Socket,
    open: impl Future<Output = Step<(T, Endpoint)>>,
) -> Result<(T, Endpoint), Error> {
    let (end, bound) = open.await.map_err(|source: StackError| Error::Bind {
        endpoint: socket.endpoint.clone(),
        source,
    })?;
    note(
        socket.tool,
        &format!("listening on {bound}, waiting for a peer"),
    );
    Ok((end, bound))
}

/// The first operation of an end that waits for its peer.
///
/// # Errors
/// Why it did not come about.
pub async fn first<O: Operation<Error = StackError>>(
    operation: &mut O,
    watch: &Watch,
    endpoint: &Endpoint,
    done: Done,
) -> Result<(), Ended> {
    match watch.bounded(operation.execute(1)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(source)) => Err(Ended::running(Halt::Failed(source), endpoint, done)),
        Err(stop) => Err(Ended::waiting(stop, endpoint, done)),
    }
}

/// What is left of a plan behind the untimed first operation.
pub async fn rest<O: Operation<Error = StackError>>(
    operation: &mut O,
    plan: &Plan,
    patience: &Patience,
    endpoint: Endpoint,
) -> Measured {
    let limit = match plan.limit {
        RunLimit::Count(count) => NonZeroU64::new(count.get() - 1).map(RunLimit::Count),
        other => Some(other),
    };
    let finished = match limit {
        Some(limit) => {
            let plan = Plan { limit, ..*plan };
            measure(operation, &plan, &patience.running()).await
        }
        None => Finished::nothing(None, None),
    };
    Measured {
        finished,
        untimed: 1,
        endpoint,
        shares: Vec::new(),
    }
}

/// How long an end that has measured long enough still takes what comes, so
/// that the sender can end by itself.
const DRAIN: Duration = Duration::from_secs(1);

/// Takes and forgets what still comes until the peer closes.
pub async fn drain<O: Operation<Error = StackError>>(operation: &mut O, patience: &Patience) {
    let watch = Watch {
        silence: Some(DRAIN),
        ..patience.running()
    };
    // The measurement is over: how the draining ends changes nothing.
    let _ = watch
        .bounded(async { while operation.execute(u64::MAX).await.is_ok() {} })
        .await;
}

/// What one end measured, and where.
#[derive(Debug)]
pub struct Measured {
    /// The measurement, whole or not.
    pub finished: Finished<StackError>,
    /// Operations before it that were not timed: the first of an end that
    /// waited for its peer.
    pub untimed: u64,
    /// The endpoint, with what the system chose.
    pub endpoint: Endpoint,
    /// What went over each connection, where that is known.
    pub shares: Vec<u64>,
}

impl Measured {
    /// Operations completed, the untimed ones included.
    #[must_use]
    pub const fn completed(&self) -> u64 {
        self.finished.measurement.completed + self.untimed
    }

    /// Takes the end of the peer for the end of the run.
    pub fn end_with_peer(&mut self) {
        if let Some(Halt::Failed(StackError::PeerClosed)) = self.finished.halt {
            self.finished.halt = None;
            self.finished.measurement.stop = StopReason::Complete;
        }
    }

    /// Why the run is not whole, if it is not.
    pub fn ended(&mut self, done: Done) -> Option<Ended> {
        let halt = self.finished.halt.take()?;
        Some(Ended::running(halt, &self.endpoint, done))
    }
}
