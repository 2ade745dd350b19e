//! Spins while requests flow, sleeps when they have stopped.
//!
//! A thread that sleeps between requests pays a wake-up for each; one that
//! never sleeps burns a core. So a task yields again and again while the last
//! request is younger than [`SPIN`], which keeps the runtime looking at its
//! sockets, and sleeps after that until the next request comes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use perf_core::clock::Timestamp;
use tokio::sync::Notify;

use crate::clock::DayClock;

/// How long the last request may be past.
const SPIN: Duration = Duration::from_millis(1);

/// Turns between two looks at the clock.
const STRIDE: u32 = 16;

/// When the last request came, and whether anyone spins for the next.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    last: AtomicU64,
    asleep: AtomicBool,
    wake: Notify,
}

impl Pacer {
    /// A request came.
    #[inline]
    pub(crate) fn touch(&self, now: Timestamp) {
        self.last.store(now.as_nanos(), Ordering::Relaxed);
        if self.asleep.load(Ordering::Relaxed) {
            self.asleep.store(false, Ordering::Relaxed);
            self.wake.notify_one();
        }
    }

    /// Spins when there is something to spin for; never returns. Belongs on a
    /// runtime that looks for I/O on each of its turns.
    pub(crate) async fn spin(&self, clock: &DayClock) {
        loop {
            self.asleep.store(true, Ordering::Relaxed);
            self.wake.notified().await;
            while self.is_busy(clock.now()) {
                for _ in 0..STRIDE {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    fn is_busy(&self, now: Timestamp) -> bool {
        let last = Timestamp::from_nanos(self.last.load(Ordering::Relaxed));
        now.since(last) < SPIN
    }
}
