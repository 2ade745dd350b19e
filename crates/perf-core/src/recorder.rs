//! What a load loop does with the time of each operation.

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
            response: LatencyHistogram::new(),
            service: Some(LatencyHistogram::new()),
        }
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
    }
}
