//! Monotonic time, behind a trait so that tests drive it by hand.
//!
//! This is the only room that reads the machine's clocks.

use std::cell::Cell;
use std::ops::Add;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::units::nanos;

/// A point in time: nanoseconds since the origin of the [`Clock`] that gave it.
///
/// Timestamps of different clocks must not be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The point `ns` nanoseconds after the clock's origin.
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The point `duration` earlier, and no earlier than the clock's origin.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    /// Saturates at the clock's last representable point (584 years).
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

/// A source of monotonic time.
pub trait Clock {
    /// The time now. Never earlier than the answer before.
    fn now(&self) -> Timestamp;
}

impl<C: Clock> Clock for &C {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The system's monotonic clock (`CLOCK_MONOTONIC` on Linux,
/// `QueryPerformanceCounter` on Windows, `mach_absolute_time` on macOS).
#[derive(Debug, Clone, Copy)]
pub struct MonotonicClock {
    origin: Instant,
}

impl MonotonicClock {
    /// A clock whose origin is now.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the room that reads clocks"
    )]
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp(nanos(self.origin.elapsed()))
    }
}

/// What one reading of a clock costs: the mean of many, which a warning is
/// about when it is large.
pub fn cost_of_reading(clock: &impl Clock) -> Duration {
    const READINGS: u32 = 1000;
    let started = clock.now();
    for _ in 1..READINGS {
        std::hint::black_box(clock.now());
    }
    clock.now().since(started) / READINGS
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Cell<u64>,
}

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.now.set(self.now.get().saturating_add(nanos(by)));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.get())
    }
}

/// Wall-clock time since the Unix epoch; zero on a machine set to before 1970.
///
/// For what is printed and for anchors; durations come from a [`Clock`].
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the room that reads clocks"
)]
pub fn wall_clock() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_never_goes_back() {
        let clock = MonotonicClock::new();
        let mut last = clock.now();
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_later_point_minus_an_earlier_one_is_never_negative() {
        let early = Timestamp::from_nanos(5);
        let late = Timestamp::from_nanos(8);
        assert_eq!(late.since(early), Duration::from_nanos(3));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn adding_saturates() {
        let last = Timestamp::from_nanos(u64::MAX);
        assert_eq!(last + Duration::from_secs(1), last);
    }
}
