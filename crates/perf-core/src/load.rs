//! The load loops: the only ones there are.
//!
//! A new thing to measure is a new [`Operation`], never another loop. Nothing
//! here allocates, locks, logs or formats while a run goes on.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::limit::{Rate, RunLimit, StopReason};
use crate::recorder::{Recorder, Sample};

/// How many operations may pass between two looks at the clock of a run that
/// is limited in time and keeps no samples.
const CLOCK_STRIDE: u64 = 64;

/// One thing that is done over and over: a round trip, a batch of sends, a
/// batch of receives, a read.
pub trait Operation {
    /// Why it can fail. A failure ends the run.
    type Error;

    /// Does it at least once and `at_most` times, and says how often.
    ///
    /// An operation whose single times matter does it once. 0 says that it was
    /// tried and failed in a way that does not end the run: it is in no figure
    /// of the loop, and whoever does it keeps count.
    ///
    /// # Errors
    /// Whatever keeps it from being done.
    fn execute(&mut self, at_most: u64) -> impl Future<Output = Result<u64, Self::Error>>;

    /// How long the last one took, where several are under way at a time;
    /// `None` where it took as long as [`execute`](Self::execute).
    fn took(&self) -> Option<Duration> {
        None
    }

    /// Forgets what it has noted of the operations so far: they were warm-up.
    fn forget(&mut self) {}
}

/// How many operations a run has completed, for those who watch it from
/// outside the loop: the silence watchdog, interval lines, a progress bar.
#[derive(Debug, Default)]
pub struct Progress(AtomicU64);

impl Progress {
    /// Operations completed so far.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// For the one who does the work: a plain store, no read-modify-write.
    #[inline]
    pub fn set(&self, completed: u64) {
        self.0.store(completed, Ordering::Relaxed);
    }
}

/// The state of one run.
///
/// The caller owns it, so that it can drop a loop in the middle (Ctrl-C, a
/// timeout) and still get a [`Measurement`] of what was done until then.
#[derive(Debug)]
pub struct Run<C, R> {
    clock: C,
    recorder: R,
    progress: Arc<Progress>,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
}

/// What a run did, and in what time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measurement {
    /// Operations completed.
    pub completed: u64,
    /// From the start of the loop to its end.
    pub elapsed: Duration,
    /// Why it ended.
    pub stop: StopReason,
}

impl<C: Clock, R: Recorder> Run<C, R> {
    /// A run that has not begun.
    pub fn new(clock: C, recorder: R) -> Self {
        Self {
            clock,
            recorder,
            progress: Arc::default(),
            started: None,
            ended: None,
        }
    }

    /// The counter that the loop keeps up to date.
    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// The clock of the run.
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    /// When the loop began, if it has.
    #[must_use]
    pub const fn started(&self) -> Option<Timestamp> {
        self.started
    }

    /// Ends the run. A loop that was dropped in the middle ends now.
    pub fn finish(self, stop: StopReason) -> (Measurement, R) {
        let now = self.clock.now();
        self.finish_at(stop, now)
    }

    /// Ends the run; a loop that was dropped in the middle ended at `ended`
    /// (for one that waited in vain: when the waiting began).
    pub fn finish_at(self, stop: StopReason, ended: Timestamp) -> (Measurement, R) {
        let elapsed = self
            .started
            .map_or(Duration::ZERO, |s| self.ended.unwrap_or(ended).since(s));
        let measurement = Measurement {
            completed: self.progress.completed(),
            elapsed,
            stop,
        };
        (measurement, self.recorder)
    }
}

/// Runs `operation` until `limit`: the next starts when the last has ended.
///
/// With a recorder that is not [`Recorder::TIMED`] and a limit that is a count
/// the clock is read twice, at the two ends of the loop.
///
/// # Errors
/// The first failure of the operation. `run` still holds what was done before.
pub async fn closed_loop<O, C, R>(
    operation: &mut O,
    limit: RunLimit,
    run: &mut Run<C, R>,
) -> Result<(), O::Error>
where
    O: Operation,
    C: Clock,
    R: Recorder,
{
    let target = limit.count().unwrap_or(u64::MAX);
    let started = run.clock.now();
    let deadline = limit.elapsed().map(|duration| started + duration);
    run.started = Some(started);
    let mut completed = 0;
    let mut unlooked = 0;
    while completed < target {
        let start = R::TIMED.then(|| run.clock.now());
        let done = operation.execute(target - completed).await?;
        let end = start.map(|started| {
            let ended = run.clock.now();
            if done > 0 {
                let started = operation.took().map_or(started, |took| ended.before(took));
                run.recorder.record(Sample {
                    intended: started,
                    started,
                    ended,
                });
            }
            ended
        });
        completed += done;
        run.progress.set(completed);
        if let Some(deadline) = deadline {
            unlooked += done.max(1);
            if end.is_some() || unlooked >= CLOCK_STRIDE {
                unlooked = 0;
                if end.unwrap_or_else(|| run.clock.now()) >= deadline {
                    break;
                }
            }
        }
    }
    run.ended = Some(run.clock.now());
    Ok(())
}

/// Waits for points in time; the open loop has no runtime of its own.
pub trait Pacer {
    /// Returns at `due` or as soon after it as it can; at once if it is past.
    fn until(&mut self, due: Timestamp) -> impl Future<Output = ()>;
}

/// Runs `operation` at `rate` until `limit`: each operation is due at its
/// point of the schedule, whatever became of the ones before, and its sample
/// runs from there. So an operation that had to wait for a late one shows that
/// wait (no coordinated omission).
///
/// One operation is under way at a time; one whose time comes earlier starts
/// as soon as the one before has ended. The elapsed time is at least the whole
/// length of the schedule.
///
/// # Errors
/// The first failure of the operation. `run` still holds what was done before.
pub async fn open_loop<O, C, R>(
    operation: &mut O,
    rate: Rate,
    limit: RunLimit,
    pacer: &mut impl Pacer,
    run: &mut Run<C, R>,
) -> Result<(), O::Error>
where
    O: Operation,
    C: Clock,
    R: Recorder,
{
    let target = limit.count().unwrap_or(u64::MAX);
    let started = run.clock.now();
    let deadline = limit.elapsed().map(|duration| started + duration);
    run.started = Some(started);
    let mut completed = 0;
    let mut tried = 0;
    while completed < target {
        let intended = started + rate.due(tried);
        if deadline.is_some_and(|deadline| intended >= deadline) {
            break;
        }
        pacer.until(intended).await;
        let started = run.clock.now();
        let done = operation.execute(1).await?;
        tried += 1;
        completed += done;
        if R::TIMED && done > 0 {
            run.recorder.record(Sample {
                intended,
                started,
                ended: run.clock.now(),
            });
        }
        run.progress.set(completed);
    }
    run.ended = Some(run.clock.now().max(started + rate.due(tried)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::clock::ManualClock;
    use crate::recorder::{Discard, HistogramRecorder};

    /// Takes `cost` each time, does up to `batch` at once, fails at `fails_at`.
    struct Scripted<'a> {
        clock: &'a ManualClock,
        cost: Duration,
        batch: u64,
        fails_at: Option<u64>,
        calls: u64,
    }

    impl<'a> Scripted<'a> {
        fn new(clock: &'a ManualClock, cost: Duration) -> Self {
            Self {
                clock,
                cost,
                batch: 1,
                fails_at: None,
                calls: 0,
            }
        }
    }

    impl Operation for Scripted<'_> {
        type Error = &'static str;

        async fn execute(&mut self, at_most: u64) -> Result<u64, Self::Error> {
            self.calls += 1;
            if self.fails_at == Some(self.calls) {
                return Err("scripted");
            }
            self.clock.advance(self.cost);
            Ok(self.batch.min(at_most))
        }
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        loop {
            if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
        }
    }

    fn count(n: u64) -> RunLimit {
        RunLimit::Count(NonZeroU64::new(n).unwrap())
    }

    const MICRO: Duration = Duration::from_micros(1);

    #[test]
    fn a_counted_run_does_exactly_that_many() {
        let clock = ManualClock::default();
        let mut operation = Scripted::new(&clock, MICRO);
        operation.batch = 7;
        let mut run = Run::new(&clock, Discard);
        block_on(closed_loop(&mut operation, count(100), &mut run)).unwrap();
        let (measurement, _) = run.finish(StopReason::Complete);
        assert_eq!(
            measurement,
            Measurement {
                completed: 100,
                elapsed: MICRO * 15,
                stop: StopReason::Complete
            }
        );
    }

    /// Two are under way at a time, each takes 2 us, and one ends every us.
    struct Overlapping<'a>(&'a ManualClock);

    impl Operation for Overlapping<'_> {
        type Error = ();

        async fn execute(&mut self, _: u64) -> Result<u64, ()> {
            self.0.advance(MICRO);
            Ok(1)
        }

        fn took(&self) -> Option<Duration> {
            Some(MICRO * 2)
        }
    }

    #[test]
    fn a_sample_is_as_long_as_its_operation_though_others_ended_meanwhile() {
        let clock = ManualClock::default();
        let mut run = Run::new(&clock, HistogramRecorder::closed_loop());
        // Behind the clock's origin, before which nothing can have begun.
        clock.advance(MICRO * 5);
        block_on(closed_loop(&mut Overlapping(&clock), count(10), &mut run)).unwrap();
        let (measurement, recorder) = run.finish(StopReason::Complete);
        assert_eq!(measurement.elapsed, MICRO * 10);
        let counts = recorder.response().counts();
        assert_eq!((counts.len(), counts.min(), counts.max()), (10, 2000, 2000));
    }

    #[test]
    fn a_run_limited_in_time_ends_within_one_stride() {
        let clock = ManualClock::default();
        let mut operation = Scripted::new(&clock, MICRO);
        let mut run = Run::new(&clock, Discard);
        let limit = RunLimit::Elapsed(MICRO * 1000);
        block_on(closed_loop(&mut operation, limit, &mut run)).unwrap();
        let (measurement, _) = run.finish(StopReason::Complete);
        assert!((1000..1000 + CLOCK_STRIDE).contains(&measurement.completed));
        assert_eq!(
            measurement.elapsed,
            MICRO * u32::try_from(measurement.completed).unwrap()
        );
    }

    #[test]
    fn a_timed_run_limited_in_time_ends_at_once() {
        let clock = ManualClock::default();
        let mut operation = Scripted::new(&clock, MICRO);
        let mut run = Run::new(&clock, HistogramRecorder::closed_loop());
        let limit = RunLimit::Elapsed(MICRO * 1000);
        block_on(closed_loop(&mut operation, limit, &mut run)).unwrap();
        let (measurement, recorder) = run.finish(StopReason::Complete);
        assert_eq!(measurement.completed, 1000);
        assert_eq!(recorder.response().len(), 1000);
        assert_eq!(recorder.response().counts().max(), 1000);
    }

    #[test]
    fn a_failure_keeps_what_was_done_before() {
        let clock = ManualClock::default();
        let mut operation = Scripted::new(&clock, MICRO);
        operation.fails_at = Some(4);
        let mut run = Run::new(&clock, HistogramRecorder::closed_loop());
        let result = block_on(closed_loop(&mut operation, count(10), &mut run));
        assert_eq!(result, Err("scripted"));
        let (measurement, recorder) = run.finish(StopReason::Failed);
        assert_eq!((measurement.completed, measurement.elapsed), (3, MICRO * 3));
        assert_eq!(recorder.response().len(), 3);
    }

    /// Moves the clock to the point that is waited for.
    struct Jump<'a>(&'a ManualClock);

    impl Pacer for Jump<'_> {
        async fn until(&mut self, due: Timestamp) {
            self.0.advance(due.since(self.0.now()));
        }
    }

    /// Takes 1 us, but the one at `stalls_at` takes 10 ms.
    struct Stalling<'a> {
        clock: &'a ManualClock,
        stalls_at: u64,
        calls: u64,
    }

    impl Operation for Stalling<'_> {
        type Error = ();

        async fn execute(&mut self, _: u64) -> Result<u64, ()> {
            self.calls += 1;
            let stalls = self.calls == self.stalls_at;
            self.clock
                .advance(if stalls { MICRO * 10_000 } else { MICRO });
            Ok(1)
        }
    }

    #[test]
    fn a_stall_shows_in_every_operation_that_it_delayed() {
        let clock = ManualClock::default();
        let mut operation = Stalling {
            clock: &clock,
            stalls_at: 500,
            calls: 0,
        };
        let mut run = Run::new(&clock, HistogramRecorder::open_loop());
        let rate = Rate::new(1000.0).unwrap();
        let mut pacer = Jump(&clock);
        let limit = count(1000);
        block_on(open_loop(&mut operation, rate, limit, &mut pacer, &mut run)).unwrap();
        let (measurement, recorder) = run.finish(StopReason::Complete);
        assert_eq!(measurement.completed, 1000);
        assert_eq!(measurement.elapsed, MICRO * 1_000_000);
        let slower_than_100_us = |histogram: &crate::histogram::LatencyHistogram| {
            histogram.len() - histogram.counts().count_between(0, 100_000)
        };
        // 10 ms at 1000/s: the stalled one and the 9 that were due meanwhile.
        assert_eq!(slower_than_100_us(recorder.response()), 10);
        assert_eq!(slower_than_100_us(recorder.service().unwrap()), 1);
    }

    /// Takes 1 us; every second one fails in a way that the run survives.
    struct Flaky<'a> {
        clock: &'a ManualClock,
        calls: u64,
    }

    impl Operation for Flaky<'_> {
        type Error = ();

        async fn execute(&mut self, _: u64) -> Result<u64, ()> {
            self.calls += 1;
            self.clock.advance(MICRO);
            Ok(self.calls % 2)
        }
    }

    #[test]
    fn what_failed_is_in_no_figure_but_takes_its_time() {
        let clock = ManualClock::default();
        let mut operation = Flaky {
            clock: &clock,
            calls: 0,
        };
        let mut run = Run::new(&clock, HistogramRecorder::closed_loop());
        block_on(closed_loop(&mut operation, count(10), &mut run)).unwrap();
        let (measurement, recorder) = run.finish(StopReason::Complete);
        assert_eq!((measurement.completed, operation.calls), (10, 19));
        assert_eq!(measurement.elapsed, MICRO * 19);
        assert_eq!(recorder.response().len(), 10);
    }

    #[test]
    fn what_failed_takes_its_place_in_the_schedule() {
        let clock = ManualClock::default();
        let mut operation = Flaky {
            clock: &clock,
            calls: 0,
        };
        let mut run = Run::new(&clock, HistogramRecorder::open_loop());
        let rate = Rate::new(1000.0).unwrap();
        let limit = RunLimit::Elapsed(MICRO * 10_000);
        let mut pacer = Jump(&clock);
        block_on(open_loop(&mut operation, rate, limit, &mut pacer, &mut run)).unwrap();
        let (measurement, recorder) = run.finish(StopReason::Complete);
        assert_eq!((measurement.completed, operation.calls), (5, 10));
        assert_eq!(measurement.elapsed, MICRO * 10_000);
        assert_eq!(recorder.response().len(), 5);
        assert_eq!(recorder.response().counts().max(), 1000);
    }

    #[test]
    fn an_open_loop_limited_in_time_keeps_to_its_schedule() {
        let clock = ManualClock::default();
        let mut operation = Scripted::new(&clock, MICRO);
        let mut run = Run::new(&clock, Discard);
        let rate = Rate::new(100.0).unwrap();
        let limit = RunLimit::Elapsed(Duration::from_secs(2));
        let mut pacer = Jump(&clock);
        block_on(open_loop(&mut operation, rate, limit, &mut pacer, &mut run)).unwrap();
        let (measurement, _) = run.finish(StopReason::Complete);
        assert_eq!(measurement.completed, 200);
        assert_eq!(measurement.elapsed, Duration::from_secs(2));
    }

    #[test]
    fn a_run_dropped_in_the_middle_still_measures() {
        let clock = ManualClock::default();
        let mut operation = Scripted::new(&clock, MICRO);
        let mut run = Run::new(&clock, Discard);
        drop(closed_loop(&mut operation, count(10), &mut run));
        let (measurement, _) = run.finish(StopReason::Interrupted);
        assert_eq!(
            measurement,
            Measurement {
                completed: 0,
                elapsed: Duration::ZERO,
                stop: StopReason::Interrupted
            }
        );
    }
}
