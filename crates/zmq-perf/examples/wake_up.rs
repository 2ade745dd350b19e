//! The least that two threads need to hand something over and back: a counter,
//! and a wake-up each way. `bench/compare` runs it beside `inproc_lat`, whose
//! floor it is: no transport between threads that sleep is faster.
//!
//! `wake_up COUNT` prints what `inproc_lat` prints.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use perf_core::clock::{Clock, MonotonicClock};

/// Sleeps until the counter has come to `turn`.
fn wait(counter: &AtomicU64, turn: u64) {
    while counter.load(Ordering::Acquire) != turn {
        thread::park();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let count: u64 = std::env::args()
        .nth(1)
        .ok_or("usage: wake_up COUNT")?
        .parse()?;
    // Even: the turn of the thread that measures; odd: that of the other.
    let counter = AtomicU64::new(0);
    let measuring = thread::current();
    let elapsed = thread::scope(|scope| {
        let other = scope.spawn(|| {
            for trip in 0..count {
                wait(&counter, 2 * trip + 1);
                counter.store(2 * trip + 2, Ordering::Release);
                measuring.unpark();
            }
        });
        let clock = MonotonicClock::new();
        let start = clock.now();
        for trip in 0..count {
            counter.store(2 * trip + 1, Ordering::Release);
            other.thread().unpark();
            wait(&counter, 2 * trip + 2);
        }
        clock.now().since(start)
    });
    let one_way = elapsed.as_secs_f64() * 1e6 / perf_core::units::float(count) / 2.0;
    perf_core::cli::print(&format!("average latency: {one_way:.3} [us]\n"))?;
    Ok(())
}
