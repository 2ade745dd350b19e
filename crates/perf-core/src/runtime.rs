//! tokio around a load loop: the runtime, signals, and the bound on silence.
//!
//! The only room of this crate that knows an async runtime. Nothing in it is
//! on the timed path: signals and silence are watched by a task of their own,
//! and the loop's task learns of them through one channel.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior};

use crate::load::Progress;
pub use crate::wait::Wait;

/// Runs `work` on a thread of its own, and waits for it.
///
/// A ping-pong between two processes takes a tenth less time there than on
/// their main threads (`docs/method.md`, "The runtime").
///
/// # Errors
/// When the system has no thread left.
pub fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("measuring".to_owned())
            .spawn_scoped(scope, work)?;
        Ok(thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// A runtime of one thread: the caller's.
///
/// With [`Wait::Spin`] a task that always yields keeps the thread awake, and
/// the runtime looks for I/O on each of its turns.
///
/// # Errors
/// When the system has no descriptors left for the event queue.
pub fn current_thread(wait: Wait) -> io::Result<Runtime> {
    let mut builder = Builder::new_current_thread();
    builder.enable_io();
    build(builder, wait)
}

/// The same for ends that nothing reaches from outside their process: it has
/// timers, but no sockets, files or signals. Another thread wakes it without a
/// system call when it spins, and it looks at nothing of the system's between
/// two turns.
///
/// # Errors
/// As [`current_thread`].
pub fn current_thread_without_io(wait: Wait) -> io::Result<Runtime> {
    build(Builder::new_current_thread(), wait)
}

fn build(mut builder: Builder, wait: Wait) -> io::Result<Runtime> {
    keep_freed_memory();
    builder.enable_time();
    if wait != Wait::Sleep {
        builder.event_interval(1);
    }
    let runtime = builder.build()?;
    if wait == Wait::Spin {
        runtime.spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
    }
    Ok(runtime)
}

/// Keeps the allocator from giving memory back to the system in mid-run.
///
/// glibc returns what is free at the end of its heap as soon as that exceeds
/// 128 KiB. A stack that frees one read buffer and allocates the next then pays
/// for fresh pages with every read (20 page faults a thousand messages of 1 KiB
/// were seen, and a tenth of the throughput). It learns: once a large piece has
/// been freed, it keeps twice as much. Other allocators ignore this.
fn keep_freed_memory() {
    const LARGEST_BUFFER: usize = 4 << 20;
    drop(std::hint::black_box(Vec::<u8>::with_capacity(
        LARGEST_BUFFER,
    )));
}

/// Runs `work` on `runtime` to its end, and does not wait for what it left
/// behind (a name lookup that never answers must not keep the tool alive).
pub fn run_to_end<F: Future>(runtime: Runtime, work: F) -> F::Output {
    let output = runtime.block_on(work);
    runtime.shutdown_background();
    output
}

/// Ctrl-C and SIGTERM, from the moment of [`Interrupt::install`] on.
#[derive(Debug, Clone)]
pub struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Takes the signals over from the system's default, which would end the
    /// process without a report. Must be called inside a runtime.
    ///
    /// # Errors
    /// When the system refuses the handler.
    pub fn install() -> io::Result<Self> {
        let signals = Signals::install()?;
        let (sender, receiver) = watch::channel(false);
        tokio::spawn(async move { signals.tell(&sender).await });
        Ok(Self(receiver))
    }

    /// The same, with a thread that waits for them: for a runtime without I/O.
    ///
    /// # Errors
    /// As [`Interrupt::install`], or when the system has no thread left.
    pub fn install_on_own_thread() -> io::Result<Self> {
        let (tell, told) = std::sync::mpsc::channel();
        let wait = move || {
            let (sender, receiver) = watch::channel(false);
            let installed = current_thread(Wait::Sleep).and_then(|runtime| {
                let _context = runtime.enter();
                Signals::install().map(|signals| (runtime, signals))
            });
            let (runtime, signals) = match installed {
                Ok(installed) => installed,
                // Who asked waits for it.
                Err(error) => return drop(tell.send(Err(error))),
            };
            drop(tell.send(Ok(Self(receiver))));
            runtime.block_on(signals.tell(&sender));
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(wait)?;
        told.recv()
            .map_err(|_| io::Error::other("the signals' thread panicked"))?
    }

    /// An interrupt that comes when the sender says `true`; for ends of a
    /// measurement that live on another thread, and for tests.
    #[must_use]
    pub fn from_channel(receiver: watch::Receiver<bool>) -> Self {
        Self(receiver)
    }

    /// An interrupt that does not come, for who is ended by someone else.
    #[must_use]
    pub fn never() -> Self {
        Self::from_channel(watch::channel(false).1)
    }

    /// Returns when the interrupt has come; at once if it came before.
    pub async fn wait(&mut self) {
        if self.0.wait_for(|&come| come).await.is_err() {
            // The sender is gone without an interrupt: none will come.
            std::future::pending::<()>().await;
        }
    }
}

impl Signals {
    /// Says `true` when one comes, and stays until nobody listens.
    async fn tell(self, sender: &watch::Sender<bool>) {
        self.wait().await;
        // Nobody left to tell is fine: the tool is ending anyway.
        let _ = sender.send(true);
        sender.closed().await;
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn install() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn wait(mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(windows)]
struct Signals {
    ctrl_c: tokio::signal::windows::CtrlC,
    ctrl_break: tokio::signal::windows::CtrlBreak,
}

#[cfg(windows)]
impl Signals {
    fn install() -> io::Result<Self> {
        Ok(Self {
            ctrl_c: tokio::signal::windows::ctrl_c()?,
            ctrl_break: tokio::signal::windows::ctrl_break()?,
        })
    }

    async fn wait(mut self) {
        tokio::select! {
            _ = self.ctrl_c.recv() => {}
            _ = self.ctrl_break.recv() => {}
        }
    }
}

/// Why supervised work was stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Ctrl-C or SIGTERM.
    Interrupted,
    /// No operation was completed for too long.
    Silent {
        /// The longest that was allowed.
        bound: Duration,
        /// For how long it was, when that was noticed.
        idle: Duration,
    },
}

/// What may stop supervised work.
#[derive(Debug, Clone)]
pub struct Watch {
    /// The signals.
    pub interrupt: Interrupt,
    /// The longest time without progress; `None` waits without end.
    pub silence: Option<Duration>,
}

impl Watch {
    /// Runs `work` to its end, unless a signal comes or `progress` stands
    /// still for longer than the bound; then `work` is dropped where it is.
    ///
    /// # Errors
    /// Why the work was stopped.
    pub async fn supervise<F: Future>(
        &self,
        progress: Arc<Progress>,
        work: F,
    ) -> Result<F::Output, Stop> {
        let (stop, stopped) = oneshot::channel();
        let mut interrupt = self.interrupt.clone();
        let silence = self.silence;
        let watcher = tokio::spawn(async move {
            let cause = tokio::select! {
                () = interrupt.wait() => Stop::Interrupted,
                stop = silent(silence, &progress) => stop,
            };
            // A receiver that is gone has its result already.
            let _ = stop.send(cause);
        });
        tokio::select! {
            biased;
            output = work => {
                watcher.abort();
                Ok(output)
            }
            Ok(cause) = stopped => Err(cause),
        }
    }

    /// Runs `work` to its end, unless a signal comes or it takes longer than
    /// the bound; for the steps that have no progress to count.
    ///
    /// # Errors
    /// Why the work was stopped.
    pub async fn bounded<F: Future>(&self, work: F) -> Result<F::Output, Stop> {
        self.supervise(Arc::default(), work).await
    }
}

/// Returns when `progress` has stood still for `bound`.
async fn silent(bound: Option<Duration>, progress: &Progress) -> Stop {
    let Some(bound) = bound else {
        return std::future::pending().await;
    };
    // A look every eighth of the bound overshoots by no more than that.
    let period = (bound / 8).clamp(Duration::from_millis(1), Duration::from_millis(250));
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = progress.completed();
    let mut since: Instant = ticks.tick().await;
    loop {
        let now = ticks.tick().await;
        let completed = progress.completed();
        if completed != seen {
            seen = completed;
            since = now;
        } else if now - since >= bound {
            let idle = now - since;
            return Stop::Silent { bound, idle };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paused() -> Runtime {
        Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap()
    }

    fn watch_for(silence: Option<Duration>) -> (watch::Sender<bool>, Watch) {
        let (sender, receiver) = watch::channel(false);
        let interrupt = Interrupt::from_channel(receiver);
        (sender, Watch { interrupt, silence })
    }

    #[test]
    fn work_that_ends_in_time_is_not_stopped() {
        let (_sender, watch) = watch_for(Some(Duration::from_secs(10)));
        let result = paused().block_on(watch.bounded(async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            7
        }));
        assert_eq!(result, Ok(7));
    }

    #[test]
    fn silence_stops_the_work_within_an_eighth_of_the_bound() {
        let (_sender, watch) = watch_for(Some(Duration::from_secs(1)));
        let result = paused().block_on(watch.bounded(std::future::pending::<()>()));
        let Err(Stop::Silent { idle, .. }) = result else {
            panic!("{result:?}");
        };
        assert!(
            idle >= Duration::from_secs(1) && idle <= Duration::from_millis(1130),
            "{idle:?}"
        );
    }

    #[test]
    fn an_interrupt_stops_the_work_even_if_it_came_before() {
        let (sender, watch) = watch_for(None);
        sender.send(true).unwrap();
        let result = paused().block_on(watch.bounded(std::future::pending::<()>()));
        assert_eq!(result, Err(Stop::Interrupted));
    }

    #[test]
    fn an_interrupt_that_never_comes_stops_nothing() {
        let watch = Watch {
            interrupt: Interrupt::never(),
            silence: None,
        };
        let wait = async { tokio::time::sleep(Duration::from_secs(9)).await };
        let result = paused().block_on(watch.bounded(wait));
        assert_eq!(result, Ok(()));
    }

    #[test]
    fn a_spinning_runtime_still_runs_timers() {
        let runtime = current_thread(Wait::Spin).unwrap();
        let slept = run_to_end(runtime, async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            true
        });
        assert!(slept);
    }
}
