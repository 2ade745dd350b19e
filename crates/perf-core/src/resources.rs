//! What a run took from the machine: CPU time, context switches, memory.
//!
//! What a platform does not tell through a safe crate is absent.

use std::time::Duration;

/// What the process has used until now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Option<Duration>,
    /// CPU time in the system.
    pub system: Option<Duration>,
    /// Times that a thread of it gave the CPU up: it waited for something.
    pub voluntary_switches: Option<u64>,
    /// Times that the CPU was taken from a thread of it.
    pub involuntary_switches: Option<u64>,
    /// The most memory that was resident at one time, in bytes.
    pub peak_memory: Option<u64>,
}

impl Usage {
    /// What was used between `earlier` and now. The peak is that of the whole
    /// process.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let time = |now: Option<Duration>, then: Option<Duration>| Some(now?.saturating_sub(then?));
        let times = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            user: time(self.user, earlier.user),
            system: time(self.system, earlier.system),
            voluntary_switches: times(self.voluntary_switches, earlier.voluntary_switches),
            involuntary_switches: times(self.involuntary_switches, earlier.involuntary_switches),
            peak_memory: self.peak_memory,
        }
    }
}

/// What this process has used since it began (`getrusage(2)`).
#[cfg(unix)]
#[must_use]
pub fn usage() -> Usage {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeVal;

    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return Usage::default();
    };
    let time = |value: TimeVal| {
        let seconds = u64::try_from(value.tv_sec()).ok()?;
        let micros = u64::try_from(value.tv_usec()).ok()?;
        Some(Duration::from_secs(seconds) + Duration::from_micros(micros))
    };
    Usage {
        user: time(usage.user_time()),
        system: time(usage.system_time()),
        voluntary_switches: u64::try_from(usage.voluntary_context_switches()).ok(),
        involuntary_switches: u64::try_from(usage.involuntary_context_switches()).ok(),
        peak_memory: peak_memory(usage.max_rss()),
    }
}

/// The high-water mark of this program. `ru_maxrss` would also hold that of
/// the process that started it, when it was larger at the time of its `exec`.
#[cfg(target_os = "linux")]
fn peak_memory(_: i64) -> Option<u64> {
    let status = procfs::process::Process::myself().ok()?.status().ok()?;
    Some(status.vmhwm? * 1024)
}

/// macOS counts in bytes, the others in kilobytes.
#[cfg(all(unix, not(target_os = "linux")))]
fn peak_memory(max_rss: i64) -> Option<u64> {
    let unit = if cfg!(target_vendor = "apple") {
        1
    } else {
        1024
    };
    Some(u64::try_from(max_rss).ok()? * unit)
}

/// What this process has used since it began (`GetProcessTimes`, both modes in
/// one).
#[cfg(not(unix))]
#[must_use]
pub fn usage() -> Usage {
    Usage {
        user: Some(cpu_time::ProcessTime::now().as_duration()),
        ..Usage::default()
    }
}

/// Too few file descriptors for what is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "that needs {needed} file descriptors, and this process may have {allowed}; raise the limit (ulimit -n {needed})"
)]
pub struct TooFewDescriptors {
    /// How many it takes.
    pub needed: u64,
    /// How many the system allows.
    pub allowed: u64,
}

/// Makes sure that this process may have `needed` descriptors open at once:
/// raises its own limit (`RLIMIT_NOFILE`) where the system lets it.
///
/// # Errors
/// When the system allows fewer.
#[cfg(unix)]
pub fn allow_descriptors(needed: u64) -> Result<(), TooFewDescriptors> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    let Ok((now, most)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        // Unknown: the system will tell when there are too few.
        return Ok(());
    };
    if now >= needed {
        return Ok(());
    }
    if most >= needed && setrlimit(Resource::RLIMIT_NOFILE, needed, most).is_ok() {
        return Ok(());
    }
    Err(TooFewDescriptors {
        needed,
        allowed: now.max(most.min(needed - 1)),
    })
}

/// Elsewhere a process has no such limit that could be in the way.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn allow_descriptors(_: u64) -> Result<(), TooFewDescriptors> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn descriptors_are_refused_above_what_the_system_allows() {
        assert_eq!(allow_descriptors(1), Ok(()));
        let Err(error) = allow_descriptors(u64::MAX - 1) else {
            // A system without any limit.
            return;
        };
        assert!(error.allowed < error.needed);
        assert!(
            error
                .to_string()
                .ends_with("raise the limit (ulimit -n 18446744073709551614)"),
            "{error}"
        );
    }

    #[test]
    fn usage_only_grows() {
        let before = usage();
        let block = vec![1_u8; 32 << 20];
        assert_eq!(block.iter().map(|&b| u64::from(b)).sum::<u64>(), 32 << 20);
        let after = usage();
        assert!(after.user >= before.user);
        #[cfg(target_os = "linux")]
        assert!(after.peak_memory.unwrap() >= 32 << 20);
        let used = after.since(before);
        assert!(used.user.unwrap() <= after.user.unwrap());
    }
}
