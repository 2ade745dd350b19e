//! Ping-pong: one end sends a message and waits for it to come back, over and
//! over. Upstream: `perf/remote_lat.cpp`, `perf/local_lat.cpp`.

use std::sync::Arc;

use perf_core::limit::RunLimit;
use perf_core::load::{Operation, Progress};
use perf_core::measure::{Halt, Plan};

use crate::crew::{Worker, drive, open_all};
use crate::endpoint::Endpoint;
use crate::error::{Done, Ended, Error};
use crate::loopback::{OtherEnd, Place};
use crate::session::{self, Measured, Patience};
use crate::stack::{Reply, Request, Socket, Stack, StackError};

struct RoundTrip<R>(R);

impl<R: Request> Operation for RoundTrip<R> {
    type Error = StackError;

    #[inline]
    async fn execute(&mut self, _: u64) -> Result<u64, StackError> {
        self.0.round_trip().await.map(|()| 1)
    }
}

impl<R: Request> Worker for RoundTrip<R> {
    fn left(&self) -> Arc<Progress> {
        // Whoever has its reply has nothing left to send.
        Arc::default()
    }

    async fn finish(self) -> Result<(), StackError> {
        Ok(())
    }
}

struct Serve<R>(R);

impl<R: Reply> Operation for Serve<R> {
    type Error = StackError;

    #[inline]
    async fn execute(&mut self, _: u64) -> Result<u64, StackError> {
        self.0.serve().await.map(|()| 1)
    }
}

/// How far a number of round trips came.
#[must_use]
pub const fn done(completed: u64, limit: RunLimit) -> Done {
    Done {
        completed,
        of: limit.count(),
        what: "round trips",
    }
}

/// The end that measures: connects as often as there are to be peers, and
/// makes round trips as planned.
///
/// # Errors
/// When there was nothing to measure. A run that ends early still has its
/// result.
pub async fn request<S: Stack>(
    socket: &Socket,
    plan: &Plan,
    patience: &Patience,
) -> Result<Measured, Ended> {
    let nothing = done(0, plan.limit);
    let opened = open_all(socket.peers, async || {
        S::Request::connect(socket).await.map(RoundTrip)
    });
    let ends = session::connect(socket, patience, nothing, opened).await?;
    Ok(drive(ends, plan, patience, socket).await)
}

/// The end that sends everything back: binds, tells `on_bound` where, and
/// serves as many round trips as planned; without a count until its last peer
/// has closed the connection.
///
/// # Errors
/// When it did not serve one.
pub async fn reply<S: Stack>(
    socket: &Socket,
    plan: &Plan,
    patience: &Patience,
    on_bound: impl FnOnce(&Endpoint),
) -> Result<Measured, Ended> {
    let (end, bound) = session::bind(socket, S::Reply::bind(socket)).await?;
    on_bound(&bound);
    let mut serve = Serve(end);
    let nothing = done(0, plan.limit);
    session::first(&mut serve, &patience.waiting(), &bound, nothing).await?;
    let mut measured = session::rest(&mut serve, plan, patience, bound).await;
    measured.shares = serve.0.shares().to_vec();
    if plan.limit == RunLimit::Endless {
        measured.end_with_peer();
    } else if measured.finished.halt.is_none() {
        measured.finished.halt = match patience.running().bounded(serve.0.finish()).await {
            Ok(Ok(())) => None,
            Ok(Err(source)) => Some(Halt::Failed(source)),
            Err(stop) => Some(Halt::Stopped(stop)),
        };
    }
    Ok(measured)
}

/// Both ends in one process: the other at its place, until this one closes its
/// connection.
///
/// # Errors
/// As [`request`].
pub(crate) async fn loopback<S: Stack>(
    socket: &Socket,
    plan: &Plan,
    patience: &Patience,
    place: Place,
) -> Result<Measured, Ended> {
    place
        .run(Box::pin(both::<S>(socket, plan, patience, place)))
        .await
}

async fn both<S: Stack>(
    socket: &Socket,
    plan: &Plan,
    patience: &Patience,
    place: Place,
) -> Result<Measured, Ended> {
    let (tell, told) = tokio::sync::oneshot::channel();
    let theirs = (socket.clone(), patience.uninterrupted());
    let their_plan = Plan::bare(RunLimit::Endless, plan.show.wording);
    let other = OtherEnd::start(place, patience.threads.clone(), move || async move {
        let on_bound = |bound: &Endpoint| {
            // Nobody listens any more when this process is ending.
            let _ = tell.send(bound.clone());
        };
        let mut served = reply::<S>(&theirs.0, &their_plan, &theirs.1, on_bound).await?;
        served
            .ended(done(served.completed(), their_plan.limit))
            .map_or(Ok(()), Err)
    })?;
    let Ok(endpoint) = told.await else {
        other.join().await?;
        return Err(Error::Loopback.into());
    };
    let ours = Socket {
        endpoint,
        ..socket.clone()
    };
    let measured = request::<S>(&ours, plan, patience).await?;
    if measured.finished.halt.is_none() {
        other.join().await?;
    }
    Ok(measured)
}
