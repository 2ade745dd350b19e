//! How long a run goes on, and why it ended.

use std::num::NonZeroU64;
use std::time::Duration;

/// How much load a run makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunLimit {
    /// A number of operations.
    Count(NonZeroU64),
    /// A length of time. Looked at between operations; the operation that is
    /// under way when it is over still counts.
    Elapsed(Duration),
}

impl RunLimit {
    /// The number of operations, when that is what limits the run.
    #[must_use]
    pub const fn count(self) -> Option<u64> {
        match self {
            Self::Count(count) => Some(count.get()),
            Self::Elapsed(_) => None,
        }
    }

    /// The length of time, when that is what limits the run.
    #[must_use]
    pub const fn elapsed(self) -> Option<Duration> {
        match self {
            Self::Count(_) => None,
            Self::Elapsed(duration) => Some(duration),
        }
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The limit was reached.
    Complete,
    /// Ctrl-C or SIGTERM.
    Interrupted,
    /// An operation failed, or the peer fell silent.
    Failed,
}

impl StopReason {
    /// The word that stands for it in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}
