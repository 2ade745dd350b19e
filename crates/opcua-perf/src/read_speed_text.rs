//! The header and the columns of open62541's read performance test, to the
//! byte.
//!
//! Upstream prints with C's `printf`; the widths and the roundings are those
//! of its format.

use crate::read_loop::Row;

/// What upstream prints before the first read.
pub const HEADER: &str =
    "------ Starting reading loop. ------\nreadPerSec\t readTimeAvg\treadTimeMin\t  readTimeMax\n";

/// A row, as `printf("%.2f\t%6.0fns\t%9ldns\t\t%9ldns\n", ...)` prints it.
///
/// Without a single time (one read alone, or nothing but failures) the times
/// are 0.
#[must_use]
pub fn row(row: &Row) -> String {
    let rate = row.reads_per_s().unwrap_or_default();
    let times = row.times();
    let mean = times.mean_ns().unwrap_or_default();
    let (min, max) = (
        times.min_ns().unwrap_or_default(),
        times.max_ns().unwrap_or_default(),
    );
    format!("{rate:.2}\t{mean:6.0}ns\t{min:9}ns\t\t{max:9}ns\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn of(reads: u64, elapsed_ns: u64, times: &[u64]) -> String {
        row(&Row::of(reads, Duration::from_nanos(elapsed_ns), times))
    }

    #[test]
    fn the_header_is_upstreams() {
        assert_eq!(
            HEADER.as_bytes(),
            b"------ Starting reading loop. ------\nreadPerSec\t readTimeAvg\treadTimeMin\t  readTimeMax\n"
        );
    }

    #[test]
    fn a_row_is_upstreams() {
        // The mean of the row that upstream's own documentation shows.
        assert_eq!(
            of(100_000, 5_987_016_747, &[35_738, 1_651_602]),
            "16702.81\t843670ns\t    35738ns\t\t  1651602ns\n"
        );
    }

    #[test]
    fn columns_are_as_wide_as_c_makes_them() {
        assert_eq!(
            of(1, 1_000_000_000, &[7]),
            "1.00\t     7ns\t        7ns\t\t        7ns\n"
        );
        assert_eq!(
            of(3, 2_000_000_000, &[1_234_567_890_123, 1_234_567_890_123]),
            "1.50\t1234567890123ns\t1234567890123ns\t\t1234567890123ns\n"
        );
        assert_eq!(
            of(0, 0, &[]),
            "0.00\t     0ns\t        0ns\t\t        0ns\n"
        );
    }

    #[test]
    fn roundings_are_those_of_c() {
        // %.0f of 2.5 and 3.5: half to even. %.2f of 0.125 and 0.375: likewise.
        assert!(of(1, 1, &[2, 3]).contains("\t     2ns\t"));
        assert!(of(1, 1, &[3, 4]).contains("\t     4ns\t"));
        assert!(of(1, 8_000_000_000, &[1]).starts_with("0.12\t"));
        assert!(of(3, 8_000_000_000, &[1]).starts_with("0.38\t"));
    }
}
