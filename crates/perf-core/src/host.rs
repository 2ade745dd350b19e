//! Facts about the machine and the build that a reader of a figure needs.

use std::thread::available_parallelism;

use serde::Serialize;

use crate::units::count;

/// The machine that a tool ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Host {
    /// The operating system, as Rust names it: `linux`, `windows`, `macos`.
    pub os: &'static str,
    /// The architecture, as Rust names it: `x86_64`, `aarch64`.
    pub arch: &'static str,
    /// The processor's name, where it tells one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// CPUs that the process may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u64>,
}

impl Host {
    /// This machine.
    #[must_use]
    pub fn this() -> Self {
        Self {
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            cpu_model: cpu_model(),
            cores: available_parallelism().ok().map(|n| count(n.get())),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn cpu_model() -> Option<String> {
    let brand = raw_cpuid::CpuId::new().get_processor_brand_string()?;
    let name = brand.as_str().trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(not(target_arch = "x86_64"))]
fn cpu_model() -> Option<String> {
    None
}

/// How the tool was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Build {
    /// `release` or `debug`.
    pub profile: &'static str,
    /// The target triple.
    pub target: &'static str,
}

impl Build {
    /// This build.
    #[must_use]
    pub const fn this() -> Self {
        Self {
            profile: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            },
            target: env!("PERF_TARGET"),
        }
    }
}

/// What the system says about the speed of its CPUs before and after a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuSpeed {
    /// Whether a frequency governor other than `performance` rules CPU 0.
    pub scaled: bool,
    /// How often the CPUs were throttled for heat since the machine started.
    pub throttled: u64,
}

/// The state now; where the system tells nothing (virtual machines, other
/// systems than Linux), nothing is in doubt.
#[must_use]
pub fn cpu_speed() -> CpuSpeed {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let throttled = (0..available_parallelism().map_or(1, std::num::NonZero::get))
        .filter_map(|cpu| {
            read(&format!(
                "/sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count"
            ))
        })
        .filter_map(|text| text.trim().parse::<u64>().ok())
        .sum();
    CpuSpeed {
        scaled: governor.is_some_and(|governor| governor.trim() != "performance"),
        throttled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_known() {
        let host = Host::this();
        assert_eq!(host.os, std::env::consts::OS);
        assert!(host.cores.unwrap() >= 1);
        assert!(Build::this().target.contains(std::env::consts::ARCH));
    }
}
