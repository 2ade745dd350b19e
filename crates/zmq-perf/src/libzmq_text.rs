//! What libzmq's tools print, to the byte, with upstream's arithmetic put
//! right.
//!
//! Upstream: `perf/remote_lat.cpp`, `perf/local_thr.cpp`, `perf/inproc_lat.cpp`,
//! `perf/inproc_thr.cpp`, `perf/proxy_thr.cpp` of libzmq 4.3.5. There, N
//! messages are divided by the time of N - 1, and integers overflow at large
//! sizes; here N - 1 messages are divided by their time, in floating point.
//! The labels and the shape are upstream's.

use std::time::Duration;

use perf_core::summary::Throughput;
use perf_core::units::{rounded, truncated};

/// The first two lines of `remote_lat` and `inproc_lat`; the latter prints
/// them before the run.
#[must_use]
pub fn latency_header(size: usize, round_trips: u64) -> String {
    format!("message size: {size} [B]\nroundtrip count: {round_trips}\n")
}

/// The last line of `remote_lat` and `inproc_lat`.
///
/// `latency` is one-way: half the mean round trip. Without a round trip there
/// is none, and the line shows 0.
#[must_use]
pub fn latency(latency: Option<Duration>) -> String {
    let micros = latency.unwrap_or_default().as_secs_f64() * 1e6;
    format!("average latency: {micros:.3} [us]\n")
}

/// The first two lines of `local_thr`, `inproc_thr` and `proxy_thr`; the
/// latter two print them before the run.
#[must_use]
pub fn throughput_header(size: usize, messages: u64) -> String {
    format!("message size: {size} [B]\nmessage count: {messages}\n")
}

/// The last two lines of `local_thr`, `inproc_thr` and `proxy_thr`. An
/// undefined throughput shows as 0.
#[must_use]
pub fn throughput(throughput: &Throughput) -> String {
    let messages = truncated(throughput.msgs_per_s.unwrap_or_default());
    let megabits = throughput.bits_per_s.unwrap_or_default() / 1e6;
    format!(
        "mean throughput: {messages} [msg/s]\n\
         mean throughput: {megabits:.3} [Mb/s]\n"
    )
}

/// Half of a mean round trip, as upstream defines latency.
#[must_use]
pub fn one_way(mean_round_trip: Duration) -> Duration {
    Duration::from_nanos(rounded(mean_round_trip.as_secs_f64() * 1e9 / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_upstreams() {
        insta::assert_snapshot!(
            latency_header(1, 100_000) + &latency(Some(Duration::from_nanos(30_915))),
            @r"
        message size: 1 [B]
        roundtrip count: 100000
        average latency: 30.915 [us]
        "
        );
        let rate = Throughput {
            msgs_per_s: Some(5_554_568.9),
            bits_per_s: Some(44_436_551.2),
        };
        insta::assert_snapshot!(
            throughput_header(1, 1_000_000) + &throughput(&rate),
            @r"
        message size: 1 [B]
        message count: 1000000
        mean throughput: 5554568 [msg/s]
        mean throughput: 44.437 [Mb/s]
        "
        );
    }

    #[test]
    fn what_is_undefined_shows_as_zero() {
        let none = Throughput {
            msgs_per_s: None,
            bits_per_s: None,
        };
        assert_eq!(
            throughput(&none),
            "mean throughput: 0 [msg/s]\nmean throughput: 0.000 [Mb/s]\n"
        );
        assert_eq!(latency(None), "average latency: 0.000 [us]\n");
    }

    #[test]
    fn latency_is_half_a_round_trip() {
        assert_eq!(
            one_way(Duration::from_nanos(61_830)),
            Duration::from_nanos(30_915)
        );
    }
}
