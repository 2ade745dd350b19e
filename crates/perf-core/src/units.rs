//! The only numeric casts of the workspace, each with the bound that makes it
//! right.

use std::time::Duration;

/// A count as a float: exact up to 2^53, then rounded to nearest.
#[must_use]
#[inline]
#[expect(
    clippy::cast_precision_loss,
    reason = "a count that is printed as a ratio or a rate; 2^53 of anything outlasts a run"
)]
pub const fn float(count: u64) -> f64 {
    count as f64
}

/// Nanoseconds of a duration; saturates after 584 years.
#[must_use]
#[inline]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The integer nearest to a float that is not negative, as C's `%.0f` rounds
/// (half to even); saturates, and takes not-a-number as 0.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is what the function promises"
)]
pub fn rounded(value: f64) -> u64 {
    value.round_ties_even() as u64
}

/// The integer part of a float that is not negative, as C's cast from double;
/// saturates, and takes not-a-number as 0.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is what the function promises"
)]
pub const fn truncated(value: f64) -> u64 {
    value as u64
}

/// `count` things in `elapsed`, as things per second; `None` in no time.
#[must_use]
pub fn per_second(count: u64, elapsed: Duration) -> Option<f64> {
    (!elapsed.is_zero()).then(|| float(count) / elapsed.as_secs_f64())
}

/// A size in memory as a 64-bit count; no machine's `usize` is wider.
#[must_use]
#[inline]
pub fn count(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

/// The smaller of a 64-bit count and a size in memory.
#[must_use]
#[inline]
pub fn at_most(limit: u64, size: usize) -> usize {
    usize::try_from(limit).map_or(size, |limit| limit.min(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_in_no_time_is_undefined() {
        assert_eq!(per_second(5, Duration::ZERO), None);
        assert_eq!(per_second(5, Duration::from_millis(500)), Some(10.0));
    }

    #[test]
    fn rounding_and_truncation_saturate() {
        assert_eq!(rounded(2.5), 2);
        assert_eq!(rounded(3.5), 4);
        assert_eq!(rounded(f64::INFINITY), u64::MAX);
        assert_eq!(rounded(f64::NAN), 0);
        assert_eq!(truncated(2.999), 2);
        assert_eq!(truncated(-1.0), 0);
    }

    #[test]
    fn nanoseconds_saturate() {
        assert_eq!(nanos(Duration::from_micros(3)), 3_000);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
    }

    #[test]
    fn at_most_takes_the_smaller() {
        assert_eq!(at_most(3, 10), 3);
        assert_eq!(at_most(u64::MAX, 10), 10);
    }
}
