//! How long a run goes on, and why it ended.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::units::{float, rounded};

/// How much load a run makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunLimit {
    /// A number of operations.
    Count(NonZeroU64),
    /// A length of time. Looked at between operations; the operation that is
    /// under way when it is over still counts.
    Elapsed(Duration),
    /// Until it is stopped from outside: Ctrl-C, or the end of the peer.
    Endless,
}

impl RunLimit {
    /// The number of operations, when that is what limits the run.
    #[must_use]
    pub const fn count(self) -> Option<u64> {
        match self {
            Self::Count(count) => Some(count.get()),
            Self::Elapsed(_) | Self::Endless => None,
        }
    }

    /// The length of time, when that is what limits the run.
    #[must_use]
    pub const fn elapsed(self) -> Option<Duration> {
        match self {
            Self::Count(_) | Self::Endless => None,
            Self::Elapsed(duration) => Some(duration),
        }
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The limit was reached.
    Complete,
    /// Ctrl-C or SIGTERM.
    Interrupted,
    /// An operation failed, or the peer fell silent.
    Failed,
}

impl StopReason {
    /// The word that stands for it in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// A number of operations a second, above 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate(f64);

/// The rates that a schedule can hold: a thousandth of an operation to one
/// operation a nanosecond, in operations a second.
pub const RATES: std::ops::RangeInclusive<f64> = 0.001..=1e9;

impl Rate {
    /// `per_second` operations a second; `None` outside [`RATES`].
    #[must_use]
    pub fn new(per_second: f64) -> Option<Self> {
        RATES.contains(&per_second).then_some(Self(per_second))
    }

    /// Operations a second.
    #[must_use]
    pub const fn per_second(self) -> f64 {
        self.0
    }

    /// How long after the start operation `index` (the first is 0) is due.
    #[must_use]
    pub fn due(self, index: u64) -> Duration {
        Duration::from_nanos(rounded(float(index) / self.0 * 1e9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_does_not_drift() {
        let rate = Rate::new(3.0).unwrap();
        assert_eq!(rate.due(0), Duration::ZERO);
        assert_eq!(rate.due(1), Duration::from_nanos(333_333_333));
        assert_eq!(rate.due(3_000_000), Duration::from_secs(1_000_000));
    }

    #[test]
    fn a_rate_has_bounds() {
        for bad in [0.0, -1.0, 1e10, f64::NAN, f64::INFINITY] {
            assert_eq!(Rate::new(bad), None, "{bad}");
        }
    }
}
