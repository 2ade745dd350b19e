//! HdrHistogram's percentile table, as its plotter reads it.
//!
//! The layout is that of the Java implementation's
//! `outputPercentileDistribution` with 5 ticks per half distance and 3 digits.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use crate::histogram::LatencyHistogram;
use crate::units::float;

/// Steps between two halvings of the distance to 100 %.
const TICKS_PER_HALF_DISTANCE: u32 = 5;

/// The table, in microseconds; each value is multiplied by `factor`, which is
/// 0.5 where latency is half a round trip.
#[must_use]
pub fn render(histogram: &LatencyHistogram, factor: f64) -> String {
    let counts = histogram.counts();
    let micros = |ns: f64| ns * factor / 1e3;
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut rows = |line: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = text.write_fmt(line);
    };
    let mut total = 0;
    for step in counts.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
        total += step.count_since_last_iteration();
        let value = micros(float(step.value_iterated_to()));
        let quantile = step.quantile_iterated_to();
        if quantile < 1.0 {
            let odds = 1.0 / (1.0 - quantile);
            rows(format_args!(
                "{value:12.3} {quantile:2.12} {total:10} {odds:14.2}\n"
            ));
        } else {
            rows(format_args!("{value:12.3} {quantile:2.12} {total:10}\n"));
        }
    }
    let (buckets, sub_buckets) = shape(counts);
    rows(format_args!(
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n\
         #[Max     = {:12.3}, Total count    = {:12}]\n\
         #[Buckets = {buckets:12}, SubBuckets     = {sub_buckets:12}]\n",
        micros(counts.mean()),
        micros(counts.stdev()),
        micros(float(counts.max())),
        counts.len(),
    ));
    text
}

/// The numbers of buckets and of sub-buckets, which only the footer shows:
/// 2048 sub-buckets hold 3 digits, and each further bucket doubles the range.
fn shape(counts: &Histogram<u64>) -> (u32, u64) {
    let sub_buckets = 2 * 10_u64.pow(u32::from(counts.sigfig()));
    let sub_buckets = sub_buckets.next_power_of_two();
    let ranges = (counts.high() / sub_buckets).checked_ilog2();
    (ranges.map_or(1, |log| log + 2), sub_buckets)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_table_is_javas() {
        let mut histogram = LatencyHistogram::new();
        for micros in 1..=10 {
            histogram.record(Duration::from_micros(micros));
        }
        insta::assert_snapshot!(render(&histogram, 1.0));
    }

    #[test]
    fn an_empty_table_has_its_footer() {
        let text = render(&LatencyHistogram::new(), 0.5);
        assert!(text.contains("Total count    =            0"), "{text}");
    }

    #[test]
    fn latency_is_half_of_what_was_recorded() {
        let mut histogram = LatencyHistogram::new();
        histogram.record(Duration::from_micros(2));
        assert!(render(&histogram, 0.5).contains("#[Max     =        1.000"));
    }
}
