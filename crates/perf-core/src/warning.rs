//! Doubts about a measurement: typed, on stderr and in the JSON.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::clock::{MonotonicClock, cost_of_reading};
use crate::host::{CpuSpeed, cpu_speed};
use crate::units::{count, float, nanos, rounded};

/// A reason to doubt a figure.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// The tool was built without optimisation.
    DebugBuild,
    /// Reading the clock takes so long that it shows in the samples.
    SlowClock {
        /// The cost of one reading.
        ns: u64,
    },
    /// The CPUs' frequency follows the load.
    FrequencyScaling,
    /// The CPUs were throttled for heat in the middle of the run.
    Throttled {
        /// How often.
        times: u64,
    },
    /// More busy threads than CPUs, so that they took turns.
    SharedCpu {
        /// Threads that were to run at the same time.
        threads: u64,
        /// CPUs there are.
        cpus: u64,
    },
    /// Fewer than [`ENOUGH_BEYOND`] samples lie beyond a percentile shown.
    FewSamples {
        /// The lowest such percentile.
        percentile: &'static str,
        /// Samples there are.
        samples: u64,
    },
    /// Samples longer than the histogram holds.
    Clipped {
        /// How many.
        samples: u64,
    },
    /// The schedule could not be kept.
    RateMissed {
        /// Operations a second asked for.
        asked: f64,
        /// Operations a second done.
        achieved: f64,
    },
    /// A single message has no throughput.
    NoThroughput,
    /// Any other doubt, in one tool's words.
    Other {
        /// A word for scripts.
        kind: &'static str,
        /// A sentence for people.
        message: String,
    },
}

/// Samples that must lie beyond a percentile for it to mean something.
pub const ENOUGH_BEYOND: f64 = 10.0;

impl Warning {
    /// The word that scripts look for.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::DebugBuild => "debug_build",
            Self::SlowClock { .. } => "slow_clock",
            Self::FrequencyScaling => "frequency_scaling",
            Self::Throttled { .. } => "throttled",
            Self::SharedCpu { .. } => "shared_cpu",
            Self::FewSamples { .. } => "few_samples",
            Self::Clipped { .. } => "clipped",
            Self::RateMissed { .. } => "rate_missed",
            Self::NoThroughput => "no_throughput",
            Self::Other { kind, .. } => kind,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DebugBuild => f.write_str(
                "this is a debug build; its figures say nothing about the release build",
            ),
            Self::SlowClock { ns } => write!(
                f,
                "one reading of the clock takes {ns} ns, and every sample holds one"
            ),
            Self::FrequencyScaling => f.write_str(
                "the CPU's frequency follows the load; set the governor to performance for steady figures",
            ),
            Self::Throttled { times } => {
                write!(f, "the CPU was throttled {times} times during the run")
            }
            Self::SharedCpu { threads, cpus } => write!(
                f,
                "{threads} busy threads share {cpus} CPUs; they measure each other's time slices"
            ),
            Self::FewSamples {
                percentile,
                samples,
            } => write!(
                f,
                "{samples} samples are too few for {percentile}: fewer than {ENOUGH_BEYOND} lie beyond it"
            ),
            Self::Clipped { samples } => write!(
                f,
                "{samples} samples were longer than {} s and count as that",
                crate::histogram::LONGEST.as_secs()
            ),
            Self::RateMissed { asked, achieved } => write!(
                f,
                "{} operations a second were asked for and {} done",
                rounded(*asked),
                rounded(*achieved)
            ),
            Self::NoThroughput => {
                f.write_str("one message alone has no throughput; the lines show 0")
            }
            Self::Other { message, .. } => f.write_str(message),
        }
    }
}

/// A warning as the JSON shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WarningReport {
    /// A word for scripts.
    pub kind: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl From<&Warning> for WarningReport {
    fn from(warning: &Warning) -> Self {
        Self {
            kind: warning.kind(),
            message: warning.to_string(),
        }
    }
}

/// A reading of the clock that costs more than this is worth a doubt.
const SLOW_CLOCK: Duration = Duration::from_nanos(100);

/// The machine and the build before a run: what [`Doubts::after`] compares
/// with.
#[derive(Debug, Clone, Copy)]
pub struct Doubts {
    speed: CpuSpeed,
}

impl Doubts {
    /// Looks at the machine before a run.
    #[must_use]
    pub fn before() -> Self {
        Self { speed: cpu_speed() }
    }

    /// What is to be doubted after it, whatever was measured. `clock_read` says
    /// whether the clock was read around each operation, `threads` how many
    /// threads of this process were to be busy at once.
    #[must_use]
    pub fn after(self, clock_read: bool, threads: u64) -> Vec<Warning> {
        let now = cpu_speed();
        let mut warnings = Vec::new();
        if cfg!(debug_assertions) {
            warnings.push(Warning::DebugBuild);
        }
        let reading = cost_of_reading(&MonotonicClock::new());
        if clock_read && reading > SLOW_CLOCK {
            warnings.push(Warning::SlowClock { ns: nanos(reading) });
        }
        if now.scaled {
            warnings.push(Warning::FrequencyScaling);
        }
        if let times @ 1.. = now.throttled.saturating_sub(self.speed.throttled) {
            warnings.push(Warning::Throttled { times });
        }
        let cores = std::thread::available_parallelism().map_or(1, |n| count(n.get()));
        if threads > cores {
            warnings.push(Warning::SharedCpu {
                threads,
                cpus: cores,
            });
        }
        warnings
    }
}

/// The doubt about a schedule, when it was missed by more than 1 %.
#[must_use]
pub fn rate_missed(asked: f64, achieved: f64) -> Option<Warning> {
    ((achieved - asked).abs() > asked * 0.01).then_some(Warning::RateMissed { asked, achieved })
}

/// The doubt about the highest percentiles of a distribution.
#[must_use]
pub fn few_samples(samples: u64) -> Option<Warning> {
    crate::summary::QUANTILES
        .into_iter()
        .find(|(_, quantile)| float(samples) * (1.0 - quantile) < ENOUGH_BEYOND - 1e-6)
        .map(|(percentile, _)| Warning::FewSamples {
            percentile,
            samples,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_samples_must_lie_beyond_a_percentile() {
        assert_eq!(few_samples(100_000), None);
        let percentile = |samples| match few_samples(samples) {
            Some(Warning::FewSamples { percentile, .. }) => percentile,
            other => panic!("{other:?}"),
        };
        assert_eq!(percentile(99_999), "p99.99");
        assert_eq!(percentile(10_000), "p99.99");
        assert_eq!(percentile(9_999), "p99.9");
        assert_eq!(percentile(1), "p50");
    }

    #[test]
    fn a_rate_may_be_off_by_one_percent() {
        assert_eq!(rate_missed(1000.0, 990.5), None);
        assert!(rate_missed(1000.0, 989.0).is_some());
        assert!(rate_missed(1000.0, 1011.0).is_some());
    }
}
