//! What a load loop does with the time of each operation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clock::Timestamp;
use crate::histogram::LatencyHistogram;

/// The three points of one timed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When the operation was due. In a closed loop the same as `started`.
    pub intended: Timestamp,
    /// When it was started.
    pub started: Timestamp,
    /// When it had ended.
    pub ended: Timestamp,
}

impl Sample {
    /// From the intended start to the end: what a caller on a schedule waits.
    #[must_use]
    pub const fn response_time(&self) -> Duration {
        self.ended.since(self.intended)
    }

    /// From the real start to the end.
    #[must_use]
    pub const fn service_time(&self) -> Duration {
        self.ended.since(self.started)
    }
}

/// Takes the samples of a run.
pub trait Recorder {
    /// Whether the loop has to read the clock around every operation.
    const TIMED: bool;

    /// Takes one sample. On the timed path: no allocation, no lock, no I/O.
    fn record(&mut self, sample: Sample);
}

/// Takes nothing and costs nothing: the loop reads the clock at its two ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct Discard;

impl Recorder for Discard {
    const TIMED: bool = false;

    #[inline]
    fn record(&mut self, _: Sample) {}
}

/// Keeps the distribution of the response times, and of the service times
/// where they differ (open loop).
#[derive(Debug, Default)]
pub struct HistogramRecorder {
    response: LatencyHistogram,
    service: Option<LatencyHistogram>,
    tap: Option<Arc<Tap>>,
}

impl HistogramRecorder {
    /// For a closed loop: response time and service time are one.
    #[must_use]
    pub fn closed_loop() -> Self {
        Self::default()
    }

    /// For an open loop: both distributions.
    #[must_use]
    pub fn open_loop() -> Self {
        Self {
            service: Some(LatencyHistogram::new()),
            ..Self::default()
        }
    }

    /// Lets `tap` take the response times away in intervals.
    #[must_use]
    pub fn tapped(self, tap: Arc<Tap>) -> Self {
        Self {
            tap: Some(tap),
            ..self
        }
    }

    /// Adds response times that the tap had taken away.
    pub fn give_back(&mut self, taken: &LatencyHistogram) {
        self.response.merge(taken);
    }

    /// From the intended start to the end.
    #[must_use]
    pub const fn response(&self) -> &LatencyHistogram {
        &self.response
    }

    /// From the real start to the end; only kept in an open loop.
    #[must_use]
    pub const fn service(&self) -> Option<&LatencyHistogram> {
        self.service.as_ref()
    }
}

impl Recorder for HistogramRecorder {
    const TIMED: bool = true;

    #[inline]
    fn record(&mut self, sample: Sample) {
        self.response.record(sample.response_time());
        if let Some(service) = &mut self.service {
            service.record(sample.service_time());
        }
        if let Some(tap) = &self.tap
            && tap.asked.load(Ordering::Relaxed)
        {
            tap.exchange(&mut self.response);
        }
    }
}

/// Takes the response times of an interval out of a running loop.
///
/// The one outside asks, and lays an empty histogram down; the loop swaps it
/// for the full one at its next sample. On the timed path that is one relaxed
/// load a sample, and once an interval a lock that nobody else holds.
#[derive(Debug, Default)]
pub struct Tap {
    asked: AtomicBool,
    exchange: Mutex<Option<LatencyHistogram>>,
}

impl Tap {
    /// Lays down `empty` and asks the loop to swap it. Returns what the loop
    /// had laid down for an earlier question that nobody took.
    pub fn ask(&self, empty: LatencyHistogram) -> Option<LatencyHistogram> {
        let mut slot = self.exchange.lock().ok()?;
        let late = if self.asked.load(Ordering::Acquire) {
            None
        } else {
            slot.take()
        };
        *slot = Some(empty);
        self.asked.store(true, Ordering::Release);
        late
    }

    /// What the loop has laid down since, if it has.
    pub fn take(&self) -> Option<LatencyHistogram> {
        if self.asked.load(Ordering::Acquire) {
            return None;
        }
        self.exchange.lock().ok()?.take()
    }

    #[cold]
    fn exchange(&self, full: &mut LatencyHistogram) {
        // Where the one outside holds the lock, the next sample will do.
        if let Ok(mut slot) = self.exchange.try_lock()
            && let Some(histogram) = slot.as_mut()
        {
            std::mem::swap(histogram, full);
            self.asked.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ns: u64) -> Sample {
        Sample {
            intended: Timestamp::default(),
            started: Timestamp::default(),
            ended: Timestamp::from_nanos(ns),
        }
    }

    #[test]
    fn a_tap_takes_what_was_recorded_since_it_last_did() {
        let tap = Arc::new(Tap::default());
        let mut recorder = HistogramRecorder::closed_loop().tapped(Arc::clone(&tap));
        recorder.record(sample(1));
        assert!(tap.take().is_none());
        assert!(tap.ask(LatencyHistogram::new()).is_none());
        assert!(tap.take().is_none());
        recorder.record(sample(2));
        let taken = tap.take().unwrap();
        assert_eq!(taken.len(), 2);
        recorder.record(sample(3));
        assert_eq!(recorder.response().len(), 1);
        recorder.give_back(&taken);
        assert_eq!(recorder.response().len(), 3);
    }

    #[test]
    fn a_late_answer_is_not_lost() {
        let tap = Arc::new(Tap::default());
        let mut recorder = HistogramRecorder::closed_loop().tapped(Arc::clone(&tap));
        assert!(tap.ask(LatencyHistogram::new()).is_none());
        assert!(tap.ask(LatencyHistogram::new()).is_none());
        recorder.record(sample(1));
        let late = tap.ask(LatencyHistogram::new()).unwrap();
        assert_eq!(late.len(), 1);
    }
}
