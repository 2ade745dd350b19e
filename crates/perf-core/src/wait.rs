//! How an end waits.

/// How the thread of a runtime waits when no task is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// It sleeps until the system wakes it.
    #[default]
    Sleep,
    /// It looks for I/O again and again and never sleeps (busy polling).
    Spin,
    /// It sleeps, unless a task yields: then it looks for I/O on each of its
    /// turns. For a server that spins while requests flow.
    SpinOnDemand,
}
