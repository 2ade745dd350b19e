//! The summary that `--percentiles` prints on stderr, for people.

use std::fmt::Write as _;

use super::{Distribution, Outcome, Resources};

/// The summary of a result; each distribution with its name.
#[must_use]
pub fn render(result: &Outcome) -> String {
    let distributions: Vec<(&str, &Distribution)> = [
        ("latency (one way)", &result.latency_ns),
        ("round trip", &result.round_trip_ns),
        ("service time", &result.service_time_ns),
        ("one-way delay", &result.one_way_delay_ns),
        ("read time", &result.read_time_ns),
    ]
    .into_iter()
    .filter_map(|(name, times)| Some((name, times.as_ref()?)))
    .collect();
    let mut text = String::new();
    let mut line = |line: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    };
    if let Some(warmup) = &result.warmup {
        line(format_args!(
            "warm-up: {} {} in {:.3} s, thrown away",
            warmup.operations, result.operation, warmup.elapsed_s
        ));
    }
    line(format_args!(
        "measured: {} {} in {:.3} s",
        result.operations, result.operation, result.elapsed_s
    ));
    if let Some(rate) = &result.rate {
        line(format_args!(
            "rate: {}/s asked, {:.1}/s achieved",
            rate.asked_per_s,
            rate.achieved_per_s.unwrap_or_default()
        ));
    }
    if !distributions.is_empty() {
        let names = distributions
            .iter()
            .fold(format!("{:>8}", "[us]"), |names, (name, _)| {
                format!("{names} {name:>18}")
            });
        line(format_args!("{names}"));
    }
    for (name, take) in ROWS {
        if distributions.is_empty() {
            break;
        }
        let values = distributions
            .iter()
            .fold(format!("{name:>8}"), |values, (_, times)| {
                format!("{values} {:>18.3}", take(times) / 1e3)
            });
        line(format_args!("{values}"));
    }
    if let Some((_, times)) = distributions.first() {
        line(format_args!("{:>8} {:>18}", "samples", times.samples));
    }
    line(format_args!("{}", resources(&result.resources)));
    text
}

type Row = (&'static str, fn(&Distribution) -> f64);

const ROWS: [Row; 9] = [
    ("min", |times| times.min),
    ("p50", |times| times.p50),
    ("p90", |times| times.p90),
    ("p99", |times| times.p99),
    ("p99.9", |times| times.p99_9),
    ("p99.99", |times| times.p99_99),
    ("max", |times| times.max),
    ("mean", |times| times.mean),
    ("stddev", |times| times.stddev),
];

fn resources(resources: &Resources) -> String {
    let mut parts = Vec::new();
    if let Some(user) = resources.cpu_user_s {
        parts.push(format!("CPU {user:.3} s user"));
    }
    if let Some(system) = resources.cpu_system_s {
        parts.push(format!("{system:.3} s system"));
    }
    if let (Some(voluntary), Some(involuntary)) = (
        resources.voluntary_context_switches,
        resources.involuntary_context_switches,
    ) {
        parts.push(format!(
            "context switches {voluntary} voluntary, {involuntary} involuntary"
        ));
    }
    if let Some(bytes) = resources.peak_memory_bytes {
        let mebibytes = crate::units::float(bytes) / f64::from(1 << 20);
        parts.push(format!("peak memory {mebibytes:.1} MiB"));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_a_table() {
        let times = Distribution {
            samples: 100_000,
            min: 8_000.0,
            p50: 9_000.0,
            p90: 10_000.0,
            p99: 20_000.0,
            p99_9: 30_000.0,
            p99_99: 40_000.0,
            max: 5_000_000.0,
            mean: 9_500.0,
            stddev: 700.0,
        };
        let result = Outcome {
            operation: "round trips",
            operations: 100_000,
            elapsed_s: 0.95,
            latency_ns: Some(Distribution {
                min: 4_000.0,
                ..times
            }),
            round_trip_ns: Some(times),
            resources: Resources {
                cpu_user_s: Some(0.25),
                cpu_system_s: Some(0.5),
                voluntary_context_switches: Some(100_000),
                involuntary_context_switches: Some(3),
                peak_memory_bytes: Some(6 << 20),
            },
            ..Outcome::default()
        };
        insta::assert_snapshot!(render(&result));
    }
}
