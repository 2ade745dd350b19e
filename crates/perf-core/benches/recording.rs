//! What measuring costs: `cargo bench -p perf-core`.
//!
//! One operation of about 150 ns is done over and over in four ways, in turns:
//! by a bare `for` loop, by the closed loop without a recorder, with a
//! histogram, and with a histogram that an interval line may tap. The medians
//! of the rounds are printed with the difference to the bare loop. This only
//! shows; it fails nothing, since a shared machine is no judge.

use std::future::Future;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use perf_core::cli::print;
use perf_core::clock::{Clock, MonotonicClock, cost_of_reading};
use perf_core::limit::RunLimit;
use perf_core::load::{Operation, Run, closed_loop};
use perf_core::recorder::{Discard, HistogramRecorder, Recorder, Tap};
use perf_core::units::float;

const ROUNDS: usize = 41;
const OPERATIONS: u64 = 100_000;

/// Some work whose result depends on the last: about 150 ns, which is less than
/// the quickest thing that a tool does once a turn of its loop.
struct Work(u64);

impl Work {
    /// Never a part of the loop around it, so that every loop does the same.
    #[inline(never)]
    fn once(&mut self) {
        for _ in 0..150 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .rotate_left(1);
        }
    }
}

impl Operation for Work {
    type Error = std::convert::Infallible;

    #[inline]
    async fn execute(&mut self, _: u64) -> Result<u64, Self::Error> {
        self.once();
        Ok(1)
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

fn per_operation(elapsed: Duration) -> f64 {
    elapsed.as_secs_f64() * 1e9 / float(OPERATIONS)
}

fn bare(clock: MonotonicClock) -> f64 {
    let mut work = Work(1);
    let started = clock.now();
    for _ in 0..OPERATIONS {
        work.once();
    }
    black_box(work.0);
    per_operation(clock.now().since(started))
}

fn looped<R: Recorder>(clock: MonotonicClock, recorder: R) -> f64 {
    let mut work = Work(1);
    let mut run = Run::new(clock, recorder);
    let limit = NonZeroU64::new(OPERATIONS).map_or(RunLimit::Endless, RunLimit::Count);
    let started = clock.now();
    let Ok(()) = block_on(closed_loop(&mut work, limit, &mut run));
    black_box(work.0);
    per_operation(clock.now().since(started))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let clock = MonotonicClock::new();
    let tap = Arc::new(Tap::default());
    let mut columns: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        columns[0].push(bare(clock));
        columns[1].push(looped(clock, Discard));
        columns[2].push(looped(clock, HistogramRecorder::closed_loop()));
        let tapped = HistogramRecorder::closed_loop().tapped(Arc::clone(&tap));
        columns[3].push(looped(clock, tapped));
    }
    let [bare, discard, histogram, tapped] = columns.map(median);
    let reading = cost_of_reading(&clock);
    let line = |name: &str, ns: f64| {
        let more = ns - bare;
        format!(
            "{name:<28} {ns:8.1} ns {more:+8.1} ns {:+7.2} %\n",
            more / bare * 100.0
        )
    };
    let text = format!(
        "{ROUNDS} rounds of {OPERATIONS} operations, medians; one reading of the clock: {} ns\n{}{}{}{}",
        reading.as_nanos(),
        line("bare loop", bare),
        line("closed_loop, Discard", discard),
        line("closed_loop, histogram", histogram),
        line("closed_loop, tapped histogram", tapped),
    );
    // A reader that went away ends the bench as it would any tool.
    let _ = print(&text);
}
