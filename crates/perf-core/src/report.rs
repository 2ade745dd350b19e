//! What a run tells: one [`Report`], and the renderers that say it.
//!
//! The report holds unquirked numbers. What is undefined is absent, not 0.
//! Every key that has a unit ends in it. `docs/report.schema.json` is made
//! from these types.

pub mod csv;
pub mod hgrm;
pub mod outputs;
pub mod text;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::host::{Build, Host};
use crate::limit::Rate;
use crate::load::Measurement;
use crate::monitor::Interval;
use crate::resources::Usage;
use crate::summary::{LatencySummary, Throughput};
use crate::units::per_second;
use crate::warning::{Warning, WarningReport, rate_missed};

/// The version of the report's shape. It rises when a key goes or changes its
/// meaning, not when one comes.
pub const SCHEMA_VERSION: u32 = 1;

/// A whole run, as one JSON document.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// [`SCHEMA_VERSION`]
    pub schema_version: u32,
    /// The program's name.
    pub tool: String,
    /// The program's version.
    pub version: String,
    /// The command line.
    pub argv: Vec<String>,
    /// The wall clock when the report was begun, seconds since 1970.
    pub started_at_unix_s: f64,
    /// The stack under test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<Stack>,
    /// The machine.
    pub host: Host,
    /// The build.
    pub build: Build,
    /// What was asked for, the defaults included.
    pub settings: BTreeMap<&'static str, serde_json::Value>,
    /// Why the run ended: `complete`, `interrupted` or `failed`.
    pub stop: &'static str,
    /// What was measured; absent when nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Outcome>,
    /// The same in intervals, when `--interval` asked for them.
    pub intervals: Vec<IntervalReport>,
    /// Doubts about the figures.
    pub warnings: Vec<WarningReport>,
    /// Why it failed, as the line on stderr says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The software that carried the messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stack {
    /// As `--stack` takes it.
    pub name: &'static str,
    /// The crate that it is.
    #[serde(rename = "crate")]
    pub crate_name: &'static str,
    /// The crate's version.
    pub version: &'static str,
}

/// What was measured.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outcome {
    /// What is counted: `round trips`, `messages`, `reads`.
    pub operation: &'static str,
    /// Operations completed in the timed loop.
    pub operations: u64,
    /// The length of the timed loop.
    pub elapsed_s: f64,
    /// Operations completed a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_per_s: Option<f64>,
    /// The warm-up, whose results were thrown away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Warmup>,
    /// Messages received, the untimed first one included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Messages a second, over the time behind the first one's arrival.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_msgs_per_s: Option<f64>,
    /// Bits of payload a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_bits_per_s: Option<f64>,
    /// The mean one-way latency: half the mean round trip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_mean_ns: Option<f64>,
    /// One-way latency: half of each round trip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Distribution>,
    /// Round trips; in an open loop from the intended start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<Distribution>,
    /// Round trips from the real start; in an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_time_ns: Option<Distribution>,
    /// One-way delay under load: arrival minus the send time in the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_way_delay_ns: Option<Distribution>,
    /// Differences of successive values of the node, as upstream's columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_time_ns: Option<Distribution>,
    /// Values read a second, where a read asks for several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values_per_s: Option<f64>,
    /// The schedule of an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateReport>,
    /// Failed operations by their code; they are in no other figure.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Each connection's share, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<Peer>,
    /// What the timed loop took from the machine.
    pub resources: Resources,
}

impl Outcome {
    /// What every measurement has.
    #[must_use]
    pub fn new(
        operation: &'static str,
        measurement: &Measurement,
        warmup: Option<Measurement>,
        usage: Usage,
    ) -> Self {
        Self {
            operation,
            operations: measurement.completed,
            elapsed_s: measurement.elapsed.as_secs_f64(),
            operations_per_s: per_second(measurement.completed, measurement.elapsed),
            warmup: warmup.map(|warmup| Warmup {
                operations: warmup.completed,
                elapsed_s: warmup.elapsed.as_secs_f64(),
            }),
            resources: usage.into(),
            ..Self::default()
        }
    }

    /// Adds the schedule of an open loop; gives the doubt, when it was missed.
    pub fn set_rate(&mut self, rate: Rate) -> Option<Warning> {
        let achieved = self.operations_per_s;
        self.rate = Some(RateReport {
            asked_per_s: rate.per_second(),
            achieved_per_s: achieved,
        });
        achieved.and_then(|achieved| rate_missed(rate.per_second(), achieved))
    }

    /// Adds a throughput.
    pub fn set_throughput(&mut self, throughput: &Throughput) {
        self.throughput_msgs_per_s = throughput.msgs_per_s;
        self.throughput_bits_per_s = throughput.bits_per_s;
    }
}

/// A warm-up: the same loop, its results thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Warmup {
    /// Operations completed.
    pub operations: u64,
    /// Its length.
    pub elapsed_s: f64,
}

/// A schedule, and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RateReport {
    /// Operations a second asked for.
    pub asked_per_s: f64,
    /// Operations a second done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub achieved_per_s: Option<f64>,
}

/// One connection of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peer {
    /// Operations that went over it.
    pub operations: u64,
}

/// A distribution of durations. Its unit is in the name of the key it is
/// under.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Distribution {
    /// The number of samples.
    pub samples: u64,
    /// The shortest.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// 90 % are no longer.
    pub p90: f64,
    /// 99 % are no longer.
    pub p99: f64,
    /// 99.9 % are no longer.
    pub p99_9: f64,
    /// 99.99 % are no longer.
    pub p99_99: f64,
    /// The longest.
    pub max: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The standard deviation of the population.
    pub stddev: f64,
}

impl From<LatencySummary> for Distribution {
    fn from(summary: LatencySummary) -> Self {
        let [p50, p90, p99, p99_9, p99_99] = summary.quantiles_ns;
        Self {
            samples: summary.samples,
            min: summary.min_ns,
            p50,
            p90,
            p99,
            p99_9,
            p99_99,
            max: summary.max_ns,
            mean: summary.mean_ns,
            stddev: summary.stddev_ns,
        }
    }
}

/// What a run took from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resources {
    /// CPU time in user mode; on Windows in both modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_user_s: Option<f64>,
    /// CPU time in the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_system_s: Option<f64>,
    /// Times that a thread gave the CPU up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voluntary_context_switches: Option<u64>,
    /// Times that the CPU was taken from a thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub involuntary_context_switches: Option<u64>,
    /// The most memory that the process had resident.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
}

impl From<Usage> for Resources {
    fn from(usage: Usage) -> Self {
        Self {
            cpu_user_s: usage.user.map(|time| time.as_secs_f64()),
            cpu_system_s: usage.system.map(|time| time.as_secs_f64()),
            voluntary_context_switches: usage.voluntary_switches,
            involuntary_context_switches: usage.involuntary_switches,
            peak_memory_bytes: usage.peak_memory,
        }
    }
}

/// One interval of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IntervalReport {
    /// Since the start of the timed loop.
    pub start_s: f64,
    /// Its length.
    pub elapsed_s: f64,
    /// Operations completed in it.
    pub operations: u64,
    /// Operations completed a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_per_s: Option<f64>,
    /// One-way latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<Distribution>,
    /// Round trips; in an open loop from the intended start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<Distribution>,
}

impl IntervalReport {
    /// The interval; `one_way` is the factor from a round trip to a latency,
    /// where the tool has one.
    #[must_use]
    pub fn new(interval: &Interval, one_way: Option<f64>) -> Self {
        Self {
            start_s: interval.start.as_secs_f64(),
            elapsed_s: interval.elapsed.as_secs_f64(),
            operations: interval.completed,
            operations_per_s: per_second(interval.completed, interval.elapsed),
            latency_ns: interval
                .times
                .zip(one_way)
                .map(|(times, factor)| times.scaled(factor).into()),
            round_trip_ns: interval.times.map(Into::into),
        }
    }
}

impl Report {
    /// A report of nothing yet.
    #[must_use]
    pub fn new(tool: &str, version: &str) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            tool: tool.to_owned(),
            version: version.to_owned(),
            argv: std::env::args_os()
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect(),
            started_at_unix_s: crate::clock::wall_clock().as_secs_f64(),
            stack: None,
            host: Host::this(),
            build: Build::this(),
            settings: BTreeMap::new(),
            stop: crate::limit::StopReason::Failed.as_str(),
            result: None,
            intervals: Vec::new(),
            warnings: Vec::new(),
            error: None,
        }
    }

    /// Adds doubts.
    pub fn warn<'a>(&mut self, warnings: impl IntoIterator<Item = &'a Warning>) {
        self.warnings.extend(warnings.into_iter().map(Into::into));
    }

    /// The document, indented, with a newline at its end.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Only a map with keys that are no strings could fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}
