//! The distribution of durations: `hdrhistogram`, nanoseconds, 3 significant
//! digits.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::units::{nanos, rounded};

/// The longest duration that a histogram holds apart from longer ones.
///
/// Longer ones are counted as this one, and in [`LatencyHistogram::clipped`].
pub const LONGEST: Duration = Duration::from_mins(2);

/// Every quantile is right to this many significant decimal digits.
const SIGNIFICANT_DIGITS: u8 = 3;

/// A histogram of durations from 1 ns to [`LONGEST`].
///
/// All its memory (about 230 KB) is allocated when it is made.
#[derive(Debug, Clone)]
pub struct LatencyHistogram {
    counts: Histogram<u64>,
    clipped: u64,
}

impl LatencyHistogram {
    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        // 1 < 2 * LONGEST and 3 <= 5 hold for these constants, which are the
        // only conditions of `new_with_bounds`; `new` is the total fallback.
        let counts = Histogram::new_with_bounds(1, nanos(LONGEST), SIGNIFICANT_DIGITS)
            .unwrap_or_else(|_| unreachable!("the bounds are constants"));
        Self { counts, clipped: 0 }
    }

    /// Adds one duration. Allocates nothing.
    #[inline]
    pub fn record(&mut self, duration: Duration) {
        let ns = nanos(duration);
        if self.counts.record(ns.max(1)).is_err() {
            self.clip(ns);
        }
    }

    #[cold]
    fn clip(&mut self, ns: u64) {
        self.clipped += 1;
        self.counts.saturating_record(ns);
    }

    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        // Both histograms have the same bounds, so that adding cannot fail.
        if self.counts.add(&other.counts).is_ok() {
            self.clipped += other.clipped;
        }
    }

    /// Forgets all samples; keeps the memory.
    pub fn clear(&mut self) {
        self.counts.reset();
        self.clipped = 0;
    }

    /// The number of samples.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.counts.len()
    }

    /// Whether there is no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How many samples were longer than [`LONGEST`] and stand there as that.
    #[must_use]
    pub const fn clipped(&self) -> u64 {
        self.clipped
    }

    /// The mean of the samples; `None` when there are none.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_nanos(rounded(self.counts.mean())))
    }

    /// The counts, for renderers.
    #[must_use]
    pub const fn counts(&self) -> &Histogram<u64> {
        &self.counts
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_sample_beyond_the_range_is_counted_and_clipped() {
        let mut histogram = LatencyHistogram::new();
        histogram.record(Duration::from_mins(1));
        assert_eq!(histogram.clipped(), 0);
        histogram.record(LONGEST * 10);
        assert_eq!((histogram.len(), histogram.clipped()), (2, 1));
        histogram.clear();
        assert_eq!((histogram.len(), histogram.clipped()), (0, 0));
    }

    #[test]
    fn zero_counts_as_one_nanosecond() {
        let mut histogram = LatencyHistogram::new();
        histogram.record(Duration::ZERO);
        assert_eq!(histogram.counts().min(), 1);
    }

    proptest! {
        /// Against exact order statistics: the value at a quantile is the
        /// sorted sample at that rank, to 3 significant digits.
        #[test]
        fn quantiles_agree_with_a_sorted_vector(
            mut samples in prop::collection::vec(1_u64..60_000_000_000, 1..500),
            quantile in 0.0_f64..=1.0,
        ) {
            let mut histogram = LatencyHistogram::new();
            for &ns in &samples {
                histogram.record(Duration::from_nanos(ns));
            }
            samples.sort_unstable();
            let rank = crate::units::truncated((quantile * crate::units::float(crate::units::count(samples.len()))).ceil()).max(1);
            let exact = samples[usize::try_from(rank - 1).unwrap()];
            let got = histogram.counts().value_at_quantile(quantile);
            prop_assert!(got >= exact, "{got} < {exact}");
            prop_assert!(got <= exact + exact / 1000 + 1, "{got} > {exact}");
        }

        #[test]
        fn merging_is_recording_all(
            left in prop::collection::vec(1_u64..60_000_000_000, 0..200),
            right in prop::collection::vec(1_u64..60_000_000_000, 0..200),
        ) {
            let fill = |samples: &[u64]| {
                let mut histogram = LatencyHistogram::new();
                for &ns in samples {
                    histogram.record(Duration::from_nanos(ns));
                }
                histogram
            };
            let mut merged = fill(&left);
            merged.merge(&fill(&right));
            let both = fill(&[left, right].concat());
            prop_assert_eq!(merged.counts(), both.counts());
        }
    }
}
