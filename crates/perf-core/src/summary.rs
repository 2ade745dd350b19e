//! What is said of a run in a few numbers. What is undefined is absent, not 0.

use std::time::Duration;

use crate::histogram::LatencyHistogram;
use crate::load::Measurement;
use crate::units::{float, per_second};

/// Operations in a time, and what follows from the size of each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throughput {
    /// Messages a second; `None` when no time passed or nothing was counted.
    pub msgs_per_s: Option<f64>,
    /// Payload bits a second; `None` as above.
    pub bits_per_s: Option<f64>,
}

impl Throughput {
    /// The throughput of messages of `size` bytes of payload.
    #[must_use]
    pub fn new(measurement: &Measurement, size: u64) -> Self {
        let msgs_per_s = (measurement.completed > 0)
            .then(|| per_second(measurement.completed, measurement.elapsed))
            .flatten();
        Self {
            msgs_per_s,
            bits_per_s: msgs_per_s.map(|rate| rate * float(size) * 8.0),
        }
    }
}

/// The mean time of an operation; `None` when none was completed.
#[must_use]
pub fn mean(measurement: &Measurement) -> Option<Duration> {
    (measurement.completed > 0).then(|| measurement.elapsed.div_f64(float(measurement.completed)))
}

/// The quantiles that a summary shows, with their names.
pub const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// A distribution in a few numbers, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencySummary {
    /// The number of samples; at least 1.
    pub samples: u64,
    /// The shortest.
    pub min_ns: f64,
    /// The values at [`QUANTILES`].
    pub quantiles_ns: [f64; QUANTILES.len()],
    /// The longest.
    pub max_ns: f64,
    /// The arithmetic mean.
    pub mean_ns: f64,
    /// The standard deviation of the population.
    pub stddev_ns: f64,
}

impl LatencySummary {
    /// The summary of a histogram; `None` when it is empty.
    #[must_use]
    pub fn new(histogram: &LatencyHistogram) -> Option<Self> {
        let counts = histogram.counts();
        (!histogram.is_empty()).then(|| Self {
            samples: counts.len(),
            min_ns: float(counts.min()),
            quantiles_ns: QUANTILES.map(|(_, q)| float(counts.value_at_quantile(q))),
            max_ns: float(counts.max()),
            mean_ns: counts.mean(),
            stddev_ns: counts.stdev(),
        })
    }

    /// The same distribution with every duration multiplied by `factor`: a
    /// quantile of the scaled values is the scaled quantile.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            samples: self.samples,
            min_ns: self.min_ns * factor,
            quantiles_ns: self.quantiles_ns.map(|ns| ns * factor),
            max_ns: self.max_ns * factor,
            mean_ns: self.mean_ns * factor,
            stddev_ns: self.stddev_ns * factor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::StopReason;
    use crate::units::rounded;

    fn measured(completed: u64, elapsed: Duration) -> Measurement {
        Measurement {
            completed,
            elapsed,
            stop: StopReason::Complete,
        }
    }

    #[test]
    fn throughput_does_not_overflow_at_large_sizes() {
        // nanomsg #179: 98,795 msg/s of 7168 B were printed as 1370.333 Mb/s.
        let t = Throughput::new(&measured(98_795, Duration::from_secs(1)), 7168);
        let megabits = t.bits_per_s.unwrap() / 1e6;
        assert!((megabits - 5665.3).abs() < 0.1, "{megabits}");
    }

    #[test]
    fn nothing_in_no_time_has_no_throughput_and_no_mean() {
        let t = Throughput::new(&measured(0, Duration::ZERO), 1);
        assert_eq!((t.msgs_per_s, t.bits_per_s), (None, None));
        assert_eq!(mean(&measured(0, Duration::from_secs(1))), None);
    }

    #[test]
    fn a_summary_agrees_with_exact_numbers() {
        let mut histogram = LatencyHistogram::new();
        for ns in 1..=1000 {
            histogram.record(Duration::from_nanos(ns));
        }
        let summary = LatencySummary::new(&histogram).unwrap();
        assert_eq!(summary.samples, 1000);
        // Up to 2,048 ns every nanosecond has a bucket of its own.
        assert_eq!(
            summary.quantiles_ns.map(rounded),
            [500, 900, 990, 999, 1000]
        );
        assert!((summary.min_ns - 1.0).abs() < f64::EPSILON);
        assert!((summary.max_ns - 1000.0).abs() < f64::EPSILON);
        assert!((summary.mean_ns - 500.5).abs() < 1e-9);
        // The population's deviation of 1..=n is sqrt((n^2 - 1) / 12).
        assert!((summary.stddev_ns - (999_999.0_f64 / 12.0).sqrt()).abs() < 1e-6);
        assert_eq!(summary.scaled(0.5).quantiles_ns.map(rounded)[0], 250);
        assert_eq!(LatencySummary::new(&LatencyHistogram::new()), None);
    }
}
