//! Flood: one end sends as fast as it can, the other measures how fast the
//! messages arrive. Upstream: `perf/remote_thr.cpp`, `perf/local_thr.cpp`.

use perf_core::limit::RunLimit;
use std::sync::Arc;

use perf_core::load::{Operation, Progress};
use perf_core::measure::Plan;

use crate::crew::{Worker, drive, open_all};
use crate::endpoint::Endpoint;
use crate::error::{Done, Ended, Error};
use crate::loopback::{OtherEnd, Place};
use crate::session::{self, Measured, Patience};
use crate::stack::{Pull, Push, Socket, Stack, StackError};
use crate::stamp::{Fill, Visit};

/// A stack whose buffer never runs empty would keep Ctrl-C waiting for
/// millions of messages; after so many the runtime's other tasks have a turn.
const TURN: u64 = 8192;

struct PullSome<'a, P, V> {
    end: P,
    visit: &'a mut V,
    since_turn: u64,
}

impl<P: Pull, V: Visit> Operation for PullSome<'_, P, V> {
    type Error = StackError;

    #[inline]
    async fn execute(&mut self, at_most: u64) -> Result<u64, StackError> {
        if self.since_turn >= TURN {
            self.since_turn = 0;
            tokio::task::yield_now().await;
        }
        let pulled = self.end.pull(at_most, self.visit).await?;
        self.since_turn += pulled;
        Ok(pulled)
    }

    fn forget(&mut self) {
        self.visit.forget();
    }
}

struct PushSome<P, F> {
    end: P,
    fill: F,
}

impl<P: Push, F: Fill> Operation for PushSome<P, F> {
    type Error = StackError;

    #[inline]
    async fn execute(&mut self, at_most: u64) -> Result<u64, StackError> {
        self.end.push(at_most, &mut self.fill).await
    }
}

impl<P: Push, F: Fill> Worker for PushSome<P, F> {
    fn left(&self) -> Arc<Progress> {
        self.end.left()
    }

    async fn finish(self) -> Result<(), StackError> {
        self.end.finish().await
    }
}

/// How far a number of messages came.
#[must_use]
pub const fn done(completed: u64, limit: RunLimit) -> Done {
    Done {
        completed,
        of: limit.count(),
        what: "messages",
    }
}

/// The end that measures: binds, tells `on_bound` where, and receives as
/// planned, the untimed first message included in a count.
///
/// A run that is limited in time ends early when the last peer has closed its
/// connection, and otherwise takes what still comes before it closes its own.
///
/// # Errors
/// When there was nothing to measure. A run that ends early still has its
/// result.
pub async fn receive<S: Stack>(
    socket: &Socket,
    plan: &Plan,
    patience: &Patience,
    visit: &mut impl Visit,
    on_bound: impl FnOnce(&Endpoint) -> Result<(), Error>,
) -> Result<Measured, Ended> {
    let (end, bound) = session::bind(socket, S::Pull::bind(socket)).await?;
    on_bound(&bound)?;
    let mut pull = PullSome {
        end,
        visit,
        since_turn: 0,
    };
    let nothing = done(0, plan.limit);
    session::first(&mut pull, &patience.waiting(), &bound, nothing).await?;
    let mut measured = session::rest(&mut pull, plan, patience, bound).await;
    measured.shares = pull.end.shares().to_vec();
    if plan.limit.elapsed().is_some() {
        measured.end_with_peer();
        if measured.finished.halt.is_none() {
            session::drain(&mut pull, patience).await;
        }
    }
    Ok(measured)
}

/// The end that sends: connects as often as there are to be peers, sends as
/// planned, and returns when the last message has left.
///
/// # Errors
/// When there was nothing to send to. A run that ends early still has its
/// result.
pub async fn send<S: Stack>(
    socket: &Socket,
    plan: &Plan,
    patience: &Patience,
    fill: impl Fill,
) -> Result<Measured, Ended> {
    let nothing = done(0, plan.limit);
    let opened = open_all(socket.peers, async || {
        let end = S::Push::connect(socket).await?;
        let fill = fill.clone();
        Ok(PushSome { end, fill })
    });
    let ends = session::connect(socket, patience, nothing, opened).await?;
    Ok(drive(ends, plan, patience, socket).await)
}

/// Both ends in one process: the other at its place.
///
/// # Errors
/// As [`receive`].
pub(crate) async fn loopback<S: Stack>(
    socket: &Socket,
    plan: &Plan,
    patience: &Patience,
    visit: &mut impl Visit,
    fill: impl Fill,
    place: Place,
) -> Result<Measured, Ended> {
    place
        .run(Box::pin(both::<S>(
            socket, plan, patience, visit, fill, place,
        )))
        .await
}

async fn both<S: Stack>(
    socket: &Socket,
    plan: &Plan,
    patience: &Patience,
    visit: &mut impl Visit,
    fill: impl Fill,
    place: Place,
) -> Result<Measured, Ended> {
    let their_plan = Plan::bare(sent_for(plan), plan.show.wording);
    let mut other = None;
    let start = |bound: &Endpoint| {
        let theirs = Socket {
            endpoint: bound.clone(),
            ..socket.clone()
        };
        let threads = patience.threads.clone();
        let patience = patience.uninterrupted();
        let send = move || async move {
            let mut sent = send::<S>(&theirs, &their_plan, &patience, fill).await?;
            if their_plan.limit == RunLimit::Endless {
                sent.end_with_peer();
            }
            sent.ended(done(sent.completed(), their_plan.limit))
                .map_or(Ok(()), Err)
        };
        other = Some(OtherEnd::start(place, threads, send)?);
        Ok(())
    };
    let measured = receive::<S>(socket, plan, patience, visit, start).await?;
    if let (None, Some(other)) = (&measured.finished.halt, other) {
        other.join().await?;
    }
    Ok(measured)
}

/// What the sender has to send for a receiver with this plan. Where a count
/// and a time are mixed it cannot know, and goes on until the receiver closes.
fn sent_for(plan: &Plan) -> RunLimit {
    match (plan.limit, plan.warmup) {
        (limit, None) => limit,
        (RunLimit::Count(count), Some(RunLimit::Count(warmup))) => {
            RunLimit::Count(count.saturating_add(warmup.get()))
        }
        (RunLimit::Elapsed(length), Some(RunLimit::Elapsed(warmup))) => {
            RunLimit::Elapsed(length + warmup)
        }
        _ => RunLimit::Endless,
    }
}
