//! One measurement from its plan to what it left behind: warm-up, timed loop,
//! and those who watch. The one place that runs the load loops.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::clock::{Clock, MonotonicClock, Timestamp};
use crate::histogram::LatencyHistogram;
use crate::limit::{Rate, RunLimit, StopReason};
use crate::load::{Measurement, Operation, Pacer, Run, closed_loop, open_loop};
use crate::monitor::{Interval, Monitor, Show, Wording};
use crate::recorder::{Discard, HistogramRecorder, Recorder, Tap};
use crate::resources::{Usage, usage};
use crate::runtime::{Stop, Watch};

/// What is to be done.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The timed loop.
    pub limit: RunLimit,
    /// The same, before it, with its results thrown away.
    pub warmup: Option<RunLimit>,
    /// The schedule of an open loop; a closed loop without.
    pub rate: Option<Rate>,
    /// Whether each operation is timed.
    pub timed: bool,
    /// What a person sees meanwhile.
    pub show: Show,
}

impl Plan {
    /// The plan of an end that measures nothing itself: no warm-up, no
    /// schedule, no times, nothing to see.
    #[must_use]
    pub const fn bare(limit: RunLimit, wording: Wording) -> Self {
        Self {
            limit,
            warmup: None,
            rate: None,
            timed: false,
            show: Show {
                interval: None,
                bar: false,
                wording,
            },
        }
    }
}

impl Plan {
    /// What the plan asks for, as a report shows it.
    #[must_use]
    pub fn settings(&self) -> BTreeMap<&'static str, Value> {
        let seconds = |length: Duration| json!(length.as_secs_f64());
        let mut settings = BTreeMap::new();
        match self.limit {
            RunLimit::Count(count) => settings.insert("count", json!(count.get())),
            RunLimit::Elapsed(length) => settings.insert("duration_s", seconds(length)),
            RunLimit::Endless => None,
        };
        match self.warmup {
            Some(RunLimit::Count(count)) => settings.insert("warmup_count", json!(count.get())),
            Some(RunLimit::Elapsed(length)) => settings.insert("warmup_s", seconds(length)),
            Some(RunLimit::Endless) | None => None,
        };
        if let Some(rate) = self.rate {
            settings.insert("rate_per_s", json!(rate.per_second()));
        }
        if let Some(interval) = self.show.interval {
            settings.insert("interval_s", seconds(interval));
        }
        settings
    }
}

/// Why a measurement is not whole.
#[derive(Debug)]
pub enum Halt<E> {
    /// It was stopped from outside.
    Stopped(Stop),
    /// An operation failed.
    Failed(E),
}

impl<E> Halt<E> {
    /// The reason, as a measurement carries it.
    pub const fn reason(&self) -> StopReason {
        match self {
            Self::Stopped(Stop::Interrupted) => StopReason::Interrupted,
            Self::Stopped(Stop::Silent { .. }) | Self::Failed(_) => StopReason::Failed,
        }
    }
}

/// What a measurement left behind, whole or not.
#[derive(Debug)]
pub struct Finished<E> {
    /// What the timed loop did.
    pub measurement: Measurement,
    /// What the warm-up did, if there was one.
    pub warmup: Option<Measurement>,
    /// The times of the operations, if they were timed.
    pub times: Option<HistogramRecorder>,
    /// The intervals, if they were asked for.
    pub intervals: Vec<Interval>,
    /// What the timed loop took from the machine.
    pub usage: Usage,
    /// Why it is not whole, if it is not.
    pub halt: Option<Halt<E>>,
}

impl<E> Finished<E> {
    /// A measurement of nothing.
    #[must_use]
    pub fn nothing(halt: Option<Halt<E>>, warmup: Option<Measurement>) -> Self {
        Self {
            measurement: Measurement {
                completed: 0,
                elapsed: Duration::ZERO,
                stop: halt.as_ref().map_or(StopReason::Complete, Halt::reason),
            },
            warmup,
            times: None,
            intervals: Vec::new(),
            usage: Usage::default(),
            halt,
        }
    }
}

/// Does what the plan says, under `watch`.
///
/// Time that passed in silence before a stop is no part of the measurement.
pub async fn measure<O: Operation>(
    operation: &mut O,
    plan: &Plan,
    watch: &Watch,
) -> Finished<O::Error> {
    let warmed = match plan.warmup {
        Some(limit) => Some(
            Loop::bare(limit, plan.rate)
                .run(operation, Discard, watch)
                .await,
        ),
        None => None,
    };
    let warmup = warmed.as_ref().map(|warmed| warmed.measurement);
    if let Some(Looped {
        halt: halt @ Some(_),
        ..
    }) = warmed
    {
        return Finished::nothing(halt, warmup);
    }
    operation.forget();
    let mut timed_loop = Loop::bare(plan.limit, plan.rate);
    timed_loop.show = Some(plan.show);
    let before = usage();
    if !plan.timed {
        let looped = timed_loop.run(operation, Discard, watch).await;
        return looped.finish(warmup, usage().since(before), |_, _| None);
    }
    let mut recorder = match plan.rate {
        Some(_) => HistogramRecorder::open_loop(),
        None => HistogramRecorder::closed_loop(),
    };
    if plan.show.interval.is_some() {
        let tap = Arc::new(Tap::default());
        recorder = recorder.tapped(Arc::clone(&tap));
        timed_loop.tap = Some(tap);
    }
    let looped = timed_loop.run(operation, recorder, watch).await;
    looped.finish(warmup, usage().since(before), |mut recorder, taken| {
        recorder.give_back(taken);
        Some(recorder)
    })
}

/// One load loop and those who watch it.
struct Loop {
    limit: RunLimit,
    rate: Option<Rate>,
    show: Option<Show>,
    tap: Option<Arc<Tap>>,
}

/// What one load loop left behind.
struct Looped<R, E> {
    measurement: Measurement,
    recorder: R,
    intervals: Vec<Interval>,
    taken: LatencyHistogram,
    halt: Option<Halt<E>>,
}

impl Loop {
    const fn bare(limit: RunLimit, rate: Option<Rate>) -> Self {
        Self {
            limit,
            rate,
            show: None,
            tap: None,
        }
    }

    async fn run<O: Operation, R: Recorder>(
        self,
        operation: &mut O,
        recorder: R,
        watch: &Watch,
    ) -> Looped<R, O::Error> {
        let clock = MonotonicClock::new();
        let mut run = Run::new(clock, recorder);
        let progress = run.progress();
        let monitor = self
            .show
            .and_then(|show| Monitor::start(show, self.limit, Arc::clone(&progress), self.tap));
        let result = match self.rate {
            None => {
                let work = closed_loop(operation, self.limit, &mut run);
                watch.supervise(progress, work).await
            }
            Some(rate) => {
                let mut pacer = TimerPacer(clock);
                let work = open_loop(operation, rate, self.limit, &mut pacer, &mut run);
                watch.supervise(progress, work).await
            }
        };
        let now = clock.now();
        let (intervals, taken) = monitor.map(Monitor::finish).unwrap_or_default();
        let (halt, ended) = match result {
            Ok(Ok(())) => (None, now),
            Ok(Err(error)) => (Some(Halt::Failed(error)), now),
            Err(stop @ Stop::Interrupted) => (Some(Halt::Stopped(stop)), now),
            Err(stop @ Stop::Silent { idle, .. }) => (Some(Halt::Stopped(stop)), now.before(idle)),
        };
        let reason = halt.as_ref().map_or(StopReason::Complete, Halt::reason);
        let (measurement, recorder) = run.finish_at(reason, ended);
        Looped {
            measurement,
            recorder,
            intervals,
            taken,
            halt,
        }
    }
}

impl<R, E> Looped<R, E> {
    fn finish(
        self,
        warmup: Option<Measurement>,
        usage: Usage,
        times: impl FnOnce(R, &LatencyHistogram) -> Option<HistogramRecorder>,
    ) -> Finished<E> {
        Finished {
            measurement: self.measurement,
            warmup,
            times: times(self.recorder, &self.taken),
            intervals: self.intervals,
            usage,
            halt: self.halt,
        }
    }
}

/// How long before a point in time a timer is trusted no more: tokio's timers
/// have a resolution of 1 ms, and Windows may add its own tick of 15.6 ms.
const TIMER_SLACK: Duration = Duration::from_millis(if cfg!(windows) { 18 } else { 2 });

/// Waits with a timer for the larger part, and spins through the rest, in
/// turns with the runtime's other tasks.
struct TimerPacer(MonotonicClock);

impl Pacer for TimerPacer {
    async fn until(&mut self, due: Timestamp) {
        loop {
            let left = due.since(self.0.now());
            if left.is_zero() {
                return;
            }
            match left.checked_sub(TIMER_SLACK) {
                Some(sleep) if !sleep.is_zero() => tokio::time::sleep(sleep).await,
                _ => tokio::task::yield_now().await,
            }
        }
    }
}
