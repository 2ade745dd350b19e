//! How an end waits.

/// How the thread of a runtime waits when no task is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// It sleeps until the system wakes it.
    #[default]
    Sleep,
    /// It looks for I/O again and again and never sleeps (busy polling).
    Spin,
}
