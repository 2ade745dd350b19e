//! The time that both ends put into messages: monotonic, and anchored to the
//! wall clock once.

use opcua::types::DateTime;
use perf_core::clock::{Clock, MonotonicClock, Timestamp, wall_clock};
use perf_core::units::nanos;

pub(crate) const NANOS_PER_DAY: u64 = 86_400 * 1_000_000_000;

/// Ticks of 100 ns from 1601 to 1970.
const UNIX_EPOCH_TICKS: i64 = 116_444_736_000_000_000;

/// A clock that never goes back and knows the time of day.
///
/// The wall clock is looked at once. When it is set or slewed later, the time
/// told here does not follow: differences of two of its values are differences
/// of monotonic time.
#[derive(Debug)]
pub(crate) struct DayClock<C = MonotonicClock> {
    clock: C,
    /// Nanoseconds from 1970 to the clock's origin.
    origin: u64,
}

impl DayClock {
    pub(crate) fn new() -> Self {
        Self::anchored(MonotonicClock::new(), nanos(wall_clock()))
    }
}

impl<C: Clock> DayClock<C> {
    fn anchored(clock: C, unix_nanos: u64) -> Self {
        let origin = unix_nanos.saturating_sub(clock.now().as_nanos());
        Self { clock, origin }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Nanoseconds since midnight, UTC.
    pub(crate) fn nanoseconds_of_day(&self) -> u64 {
        self.unix_nanos() % NANOS_PER_DAY
    }

    pub(crate) fn date_time(&self) -> DateTime {
        DateTime::from(self.ticks())
    }

    /// The time as it is on the wire: ticks of 100 ns since 1601 (Part 6,
    /// 5.2.2.5). The crate's `DateTime` goes through a calendar, both ways,
    /// which costs as much as all else in a header.
    pub(crate) fn ticks(&self) -> i64 {
        let ticks = i64::try_from(self.unix_nanos() / 100).unwrap_or(i64::MAX);
        ticks.saturating_add(UNIX_EPOCH_TICKS)
    }

    fn unix_nanos(&self) -> u64 {
        self.origin.saturating_add(self.clock.now().as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use perf_core::clock::ManualClock;

    #[test]
    fn the_value_falls_at_midnight_and_only_there() {
        let manual = ManualClock::default();
        manual.advance(Duration::from_secs(3));
        let evening = 20_000 * NANOS_PER_DAY + NANOS_PER_DAY - 10;
        let clock = DayClock::anchored(&manual, evening);
        assert_eq!(clock.nanoseconds_of_day(), NANOS_PER_DAY - 10);
        manual.advance(Duration::from_nanos(9));
        assert_eq!(clock.nanoseconds_of_day(), NANOS_PER_DAY - 1);
        manual.advance(Duration::from_nanos(1));
        assert_eq!(clock.nanoseconds_of_day(), 0);
    }

    #[test]
    fn dates_are_those_of_the_wall_clock() {
        let clock = DayClock::anchored(ManualClock::default(), 1_000_000_000 * 1_000_000_000);
        assert_eq!(clock.date_time(), DateTime::ymd_hms(2001, 9, 9, 1, 46, 40));
    }
}
