//! Several connections of one process (`--peers`), driven as one operation.
//!
//! Each connection is a worker that takes on what is to be done next as soon
//! as it is free, so that a fast peer does more than a slow one. All run on the
//! measuring thread. The workers and the operation share one counter of what is
//! left to do; nothing is allocated for an operation.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use perf_core::clock::{Clock, MonotonicClock};
use perf_core::load::{Operation, Progress};
use perf_core::measure::{Halt, Plan, measure};
use perf_core::units::count;

use crate::session::{Measured, Patience};
use crate::stack::{Socket, StackError, Step};

/// An operation over one connection, or over several.
pub(crate) trait Worker: Operation<Error = StackError> {
    /// What moves while [`Worker::finish`] waits.
    fn left(&self) -> Arc<Progress>;

    /// Ends the connection; returns when the last byte has left.
    fn finish(self) -> impl Future<Output = Step<()>>;

    /// What each connection did, where there are several.
    fn shares(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// Opens so many connections, one after the other.
///
/// # Errors
/// Why one of them could not be opened.
pub(crate) async fn open_all<T>(
    peers: usize,
    mut open: impl AsyncFnMut() -> Step<T>,
) -> Step<Vec<T>> {
    let mut opened = Vec::with_capacity(peers);
    for _ in 0..peers {
        opened.push(open().await?);
    }
    Ok(opened)
}

/// Does what the plan says over each of the connections, and ends them when
/// that is done.
pub(crate) async fn drive<W: Worker>(
    mut ends: Vec<W>,
    plan: &Plan,
    patience: &Patience,
    socket: &Socket,
) -> Measured {
    match (ends.pop(), ends.is_empty()) {
        (Some(one), true) => to_its_end(one, plan, patience, socket).await,
        (last, _) => {
            ends.extend(last);
            to_its_end(crew(ends, plan.timed), plan, patience, socket).await
        }
    }
}

async fn to_its_end(
    mut worker: impl Worker,
    plan: &Plan,
    patience: &Patience,
    socket: &Socket,
) -> Measured {
    let watch = patience.running();
    let mut measured = Measured {
        finished: measure(&mut worker, plan, &watch).await,
        untimed: 0,
        endpoint: socket.endpoint.clone(),
        shares: worker.shares(),
    };
    if measured.finished.halt.is_none() {
        let left = worker.left();
        measured.finished.halt = match watch.supervise(left, worker.finish()).await {
            Ok(Ok(())) => None,
            Ok(Err(source)) => Some(Halt::Failed(source)),
            Err(stop) => Some(Halt::Stopped(stop)),
        };
    }
    measured
}

/// The workers as one operation.
struct Crew<F> {
    workers: FuturesUnordered<F>,
    shared: Rc<RefCell<Shared>>,
    /// What has left over each connection, and in all.
    lefts: Vec<Arc<Progress>>,
    left: Arc<Progress>,
    /// Of the operation that was told last.
    took: Option<Duration>,
}

/// What the workers and the operation know together.
#[derive(Debug)]
struct Shared {
    /// Operations that nobody has taken on.
    free: u64,
    /// Operations that a worker has taken on and not done.
    taken: u64,
    /// What has been done and not been told.
    done: VecDeque<Done>,
    /// Workers that have nothing to do, the one that waits longest first.
    idle: VecDeque<(usize, Waker)>,
    /// What each worker has done.
    shares: Vec<u64>,
    closing: bool,
}

#[derive(Debug, Clone, Copy)]
struct Done {
    operations: u64,
    took: Option<Duration>,
}

impl Shared {
    /// Operations for a worker that is free, when it is its turn: its share of
    /// what is left. What it does not do of that it gives back.
    ///
    /// Whoever waits longest is the next, so that a peer that never makes its
    /// worker wait does not get it all.
    fn poll_take(&mut self, worker: usize, waker: &Waker) -> Poll<Option<u64>> {
        if self.closing {
            return Poll::Ready(None);
        }
        let first = self.idle.front().map(|&(first, _)| first);
        if self.free == 0 || first.is_some_and(|first| first != worker) {
            match self.idle.iter_mut().find(|(idle, _)| *idle == worker) {
                Some((_, known)) => known.clone_from(waker),
                None => self.idle.push_back((worker, waker.clone())),
            }
            self.wake_next();
            return Poll::Pending;
        }
        self.idle.pop_front();
        let share = self.free / count(self.shares.len()).max(1);
        let taken = share.max(1).min(self.free);
        self.free -= taken;
        self.taken += taken;
        self.wake_next();
        Poll::Ready(Some(taken))
    }

    /// Wakes the worker that waits longest, if there is something to do.
    fn wake_next(&self) {
        if let (true, Some((_, waker))) = (self.free > 0, self.idle.front()) {
            waker.wake_by_ref();
        }
    }

    fn put(&mut self, worker: usize, taken: u64, done: Done) {
        self.taken -= taken;
        self.free += taken - done.operations;
        self.shares[worker] += done.operations;
        self.done.push_back(done);
    }

    /// Leaves no more than `at_most` to be told from now on.
    fn allow(&mut self, at_most: u64) {
        let untold: u64 = self.done.iter().map(|done| done.operations).sum();
        self.free = at_most.saturating_sub(self.taken + untold);
        self.wake_next();
    }
}

/// Works until the crew closes.
async fn work<W: Worker>(
    mut worker: W,
    number: usize,
    shared: Rc<RefCell<Shared>>,
    clock: Option<MonotonicClock>,
) -> Step<()> {
    loop {
        let taken = poll_fn(|cx| shared.borrow_mut().poll_take(number, cx.waker()));
        let Some(taken) = taken.await else {
            return worker.finish().await;
        };
        let started = clock.map(|clock| clock.now());
        let operations = worker.execute(taken).await?;
        let took = clock
            .zip(started)
            .map(|(clock, started)| clock.now().since(started));
        let done = Done { operations, took };
        shared.borrow_mut().put(number, taken, done);
    }
}

/// Makes one operation of several; `timed`: each is timed by itself.
fn crew<W: Worker>(workers: Vec<W>, timed: bool) -> Crew<impl Future<Output = Step<()>>> {
    let peers = workers.len();
    let shared = Rc::new(RefCell::new(Shared {
        free: 0,
        taken: 0,
        done: VecDeque::with_capacity(peers),
        // Each has its first turn without being woken.
        idle: (0..peers)
            .map(|worker| (worker, Waker::noop().clone()))
            .collect(),
        shares: vec![0; peers],
        closing: false,
    }));
    let clock = timed.then(MonotonicClock::new);
    let lefts = workers.iter().map(Worker::left).collect();
    let workers = workers
        .into_iter()
        .enumerate()
        .map(|(number, worker)| work(worker, number, Rc::clone(&shared), clock));
    Crew {
        workers: workers.collect(),
        shared,
        lefts,
        left: Arc::default(),
        took: None,
    }
}

impl<F: Future<Output = Step<()>>> Crew<F> {
    /// What has been done and is not told yet: all of it, or, where each is
    /// timed, the oldest.
    fn next_done(&mut self) -> Option<u64> {
        let mut shared = self.shared.borrow_mut();
        let first = shared.done.pop_front()?;
        self.took = first.took;
        let others = if first.took.is_none() {
            shared.done.drain(..).map(|done| done.operations).sum()
        } else {
            0
        };
        Some(first.operations + others)
    }
}

impl<F: Future<Output = Step<()>>> Operation for Crew<F> {
    type Error = StackError;

    async fn execute(&mut self, at_most: u64) -> Step<u64> {
        self.shared.borrow_mut().allow(at_most);
        poll_fn(|cx| {
            if let Some(done) = self.next_done() {
                return Poll::Ready(Ok(done));
            }
            match self.workers.poll_next_unpin(cx) {
                Poll::Ready(Some(Err(error))) => Poll::Ready(Err(error)),
                // A worker ends when the crew closes, and not before.
                Poll::Ready(Some(Ok(())) | None) => Poll::Ready(Err(StackError::PeerClosed)),
                Poll::Pending => self
                    .next_done()
                    .map_or(Poll::Pending, |done| Poll::Ready(Ok(done))),
            }
        })
        .await
    }

    fn took(&self) -> Option<Duration> {
        self.took
    }

    fn forget(&mut self) {
        let mut shared = self.shared.borrow_mut();
        shared.done.clear();
        shared.shares.fill(0);
    }
}

/// How often the bytes that have left are added up.
const ADDING: Duration = Duration::from_millis(50);

impl<F: Future<Output = Step<()>>> Worker for Crew<F> {
    fn left(&self) -> Arc<Progress> {
        Arc::clone(&self.left)
    }

    async fn finish(mut self) -> Step<()> {
        {
            let mut shared = self.shared.borrow_mut();
            shared.closing = true;
            shared.idle.drain(..).for_each(|(_, waker)| waker.wake());
        }
        let add_up = async {
            loop {
                self.left
                    .set(self.lefts.iter().map(|left| left.completed()).sum());
                tokio::time::sleep(ADDING).await;
            }
        };
        let all = async {
            while let Some(ended) = self.workers.next().await {
                ended?;
            }
            Ok(())
        };
        tokio::select! {
            biased;
            ended = all => ended,
            never = add_up => never,
        }
    }

    fn shares(&self) -> Vec<u64> {
        self.shared.borrow().shares.clone()
    }
}
