//! What a person sees while a run goes on: interval lines and a progress bar.
//!
//! A thread of its own that looks at the loop's counter from outside; the loop
//! does nothing for it but swap a histogram once an interval.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::note;
use crate::clock::{Clock, MonotonicClock, Timestamp};
use crate::histogram::LatencyHistogram;
use crate::limit::RunLimit;
use crate::load::Progress;
use crate::recorder::Tap;
use crate::summary::LatencySummary;
use crate::units::{float, per_second};

/// How a tool's operations are spoken of.
#[derive(Debug, Clone, Copy)]
pub struct Wording {
    /// The tool's name.
    pub tool: &'static str,
    /// What is counted: `round trips`, `messages`, `reads`.
    pub what: &'static str,
    /// What the time of an operation is called after `factor`.
    pub time: &'static str,
    /// From the time of an operation to the time that is reported: 0.5 where
    /// latency is half a round trip.
    pub factor: f64,
}

/// What to show.
#[derive(Debug, Clone, Copy)]
pub struct Show {
    /// A line for each interval of this length.
    pub interval: Option<Duration>,
    /// A progress bar, when stderr is a terminal.
    pub bar: bool,
    /// The words.
    pub wording: Wording,
}

/// What happened in one interval.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Since the start of the loop.
    pub start: Duration,
    /// Its length.
    pub elapsed: Duration,
    /// Operations completed in it.
    pub completed: u64,
    /// The times of the operations, as recorded; absent without a recorder.
    pub times: Option<LatencySummary>,
}

/// How often the bar is drawn.
const BAR_PERIOD: Duration = Duration::from_millis(200);

/// How long an interval line waits for a loop that is in the middle of an
/// operation.
const PATIENCE: Duration = Duration::from_millis(5);

/// The thread that shows a run.
#[derive(Debug)]
pub struct Monitor {
    stop: Sender<()>,
    thread: JoinHandle<(Vec<Interval>, LatencyHistogram)>,
}

impl Monitor {
    /// Begins to show a run; `None` when there is nothing to show, or no
    /// thread to be had, which costs a picture and not the measurement.
    #[must_use]
    pub fn start(
        show: Show,
        limit: RunLimit,
        progress: Arc<Progress>,
        tap: Option<Arc<Tap>>,
    ) -> Option<Self> {
        let bar = (show.bar && std::io::stderr().is_terminal())
            .then(|| Bar::new(limit, show.wording.what));
        if show.interval.is_none() && bar.is_none() {
            return None;
        }
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("monitor".to_owned())
            .spawn(move || {
                Watcher {
                    show,
                    bar,
                    clock: MonotonicClock::new(),
                    progress,
                    tap,
                    intervals: Vec::new(),
                    taken: LatencyHistogram::new(),
                    counted: 0,
                    since: Timestamp::default(),
                }
                .watch(&stopped)
            })
            .ok()?;
        Some(Self { stop, thread })
    }

    /// Ends; returns the intervals and all the samples that were taken out of
    /// the loop for them.
    #[must_use]
    pub fn finish(self) -> (Vec<Interval>, LatencyHistogram) {
        // A thread that is gone needs no stop.
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_default()
    }
}

/// A progress bar, by operations or, where only the time is known, by time.
struct Bar {
    bar: ProgressBar,
    by_time: bool,
}

impl Bar {
    fn new(limit: RunLimit, what: &'static str) -> Self {
        let (length, template) = match (limit.count(), limit.elapsed()) {
            (Some(count), _) => (
                Some(count),
                "{bar:30} {percent}% {human_pos} {msg} {per_sec} {eta}",
            ),
            (None, Some(length)) => (Some(millis(length)), "{bar:30} {percent}% {eta}"),
            (None, None) => (None, "{spinner} {human_pos} {msg} {per_sec} {elapsed}"),
        };
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what);
        Self {
            bar,
            by_time: limit.elapsed().is_some(),
        }
    }

    fn draw(&self, completed: u64, elapsed: Duration) {
        self.bar.set_position(if self.by_time {
            millis(elapsed)
        } else {
            completed
        });
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

struct Watcher {
    show: Show,
    bar: Option<Bar>,
    clock: MonotonicClock,
    progress: Arc<Progress>,
    tap: Option<Arc<Tap>>,
    intervals: Vec<Interval>,
    taken: LatencyHistogram,
    counted: u64,
    since: Timestamp,
}

impl Watcher {
    fn watch(mut self, stopped: &Receiver<()>) -> (Vec<Interval>, LatencyHistogram) {
        let mut number: u32 = 0;
        self.since = self.clock.now();
        let started = self.since;
        loop {
            let due = self
                .show
                .interval
                .map(|length| started + length * (number + 1));
            let left = due.map(|due| due.since(self.clock.now()));
            let wait = match (&self.bar, left) {
                (Some(_), Some(left)) => left.min(BAR_PERIOD),
                (None, Some(left)) => left,
                (_, None) => BAR_PERIOD,
            };
            match stopped.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
            if let Some(bar) = &self.bar {
                bar.draw(self.progress.completed(), self.clock.now().since(started));
            }
            if due.is_some_and(|due| self.clock.now() >= due) {
                number += 1;
                self.close_interval(started);
            }
        }
        if self.show.interval.is_some() {
            self.end(started);
        }
        if let Some(bar) = &self.bar {
            bar.bar.finish_and_clear();
        }
        (self.intervals, self.taken)
    }

    /// Ends the interval that is under way, says it, and begins the next.
    fn close_interval(&mut self, started: Timestamp) {
        let times = self.tap.clone().and_then(|tap| {
            if let Some(late) = tap.ask(LatencyHistogram::new()) {
                self.taken.merge(&late);
            }
            // The loop swaps at its next sample; one that is stuck in an
            // operation has its samples counted in the next interval.
            let deadline = self.clock.now() + PATIENCE;
            loop {
                if let Some(taken) = tap.take() {
                    self.taken.merge(&taken);
                    return LatencySummary::new(&taken);
                }
                if self.clock.now() >= deadline {
                    return None;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        self.push(started, times);
        if let Some(interval) = self.intervals.last() {
            self.say(interval);
        }
    }

    /// The rest behind the last whole interval.
    fn end(&mut self, started: Timestamp) {
        if let Some(taken) = self.tap.as_ref().and_then(|tap| tap.take()) {
            self.taken.merge(&taken);
        }
        if self.progress.completed() > self.counted {
            self.push(started, None);
        }
    }

    fn push(&mut self, started: Timestamp, times: Option<LatencySummary>) {
        let now = self.clock.now();
        let completed = self.progress.completed();
        self.intervals.push(Interval {
            start: self.since.since(started),
            elapsed: now.since(self.since),
            completed: completed - self.counted,
            times,
        });
        self.counted = completed;
        self.since = now;
    }

    fn say(&self, interval: &Interval) {
        let Wording {
            tool,
            what,
            time,
            factor,
        } = self.show.wording;
        let end = (interval.start + interval.elapsed).as_secs_f64();
        let rate = per_second(interval.completed, interval.elapsed).unwrap_or_default();
        let times = interval.times.map_or_else(String::new, |times| {
            let times = times.scaled(factor / 1e3);
            let [p50, _, p99, ..] = times.quantiles_ns;
            format!(
                "; {time} p50 {p50:.1} us, p99 {p99:.1} us, max {:.1} us",
                times.max_ns
            )
        });
        let line = format!(
            "{end:.1} s: {} {what}, {rate:.0}/s{times}",
            float(interval.completed)
        );
        match &self.bar {
            Some(bar) => bar.bar.suspend(|| note(tool, &line)),
            None => note(tool, &line),
        }
    }
}
