//! Ping-pong: one end sends a message and waits for it to come back, over and
//! over. Upstream: `perf/remote_lat.cpp`, `perf/local_lat.cpp`.

use std::num::NonZeroU64;
use std::time::Duration;

use perf_core::limit::RunLimit;
use perf_core::load::{Measurement, Operation};
use perf_core::recorder::Discard;
use perf_core::runtime::measure;
use perf_core::summary::mean;

use crate::endpoint::Endpoint;
use crate::error::{Done, Ended, Error};
use crate::libzmq_text;
use crate::loopback::OtherEnd;
use crate::session::{self, Patience};
use crate::stack::{Reply, Request, Socket, Stack, StackError};

/// What the measuring end has measured.
#[derive(Debug, Clone, Copy)]
pub struct RoundTrips {
    /// From the first send to the last reply, by the measuring end's clock.
    pub measurement: Measurement,
}

impl RoundTrips {
    /// Half of the mean round trip; `None` when none was completed.
    #[must_use]
    pub fn latency(&self) -> Option<Duration> {
        mean(&self.measurement).map(libzmq_text::one_way)
    }
}

struct RoundTrip<R>(R);

impl<R: Request> Operation for RoundTrip<R> {
    type Error = StackError;

    async fn execute(&mut self, _: u64) -> Result<u64, StackError> {
        self.0.round_trip().await.map(|()| 1)
    }
}

struct Serve<R>(R);

impl<R: Reply> Operation for Serve<R> {
    type Error = StackError;

    async fn execute(&mut self, _: u64) -> Result<u64, StackError> {
        self.0.serve().await.map(|()| 1)
    }
}

/// How far a count of round trips came.
#[must_use]
pub const fn done(completed: u64, of: NonZeroU64) -> Done {
    Done {
        completed,
        of: of.get(),
        what: "round trips",
    }
}

/// The end that measures: connects, and makes `count` round trips.
///
/// # Errors
/// When there was nothing to measure. A run that ends early still has its
/// result, beside the reason.
pub async fn request<S: Stack>(
    socket: &Socket,
    count: NonZeroU64,
    patience: &Patience,
) -> Result<(RoundTrips, Option<Ended>), Ended> {
    let end = session::connect(
        socket,
        patience,
        done(0, count),
        S::Request::connect(socket),
    )
    .await?;
    let limit = RunLimit::Count(count);
    let finished = measure(&mut RoundTrip(end), limit, Discard, &patience.running()).await;
    let measurement = finished.measurement;
    let ended = finished
        .halt
        .map(|halt| Ended::running(halt, &socket.endpoint, done(measurement.completed, count)));
    Ok((RoundTrips { measurement }, ended))
}

/// The end that sends everything back: binds, tells `on_bound` where, and
/// serves `count` round trips.
///
/// # Errors
/// Why it did not serve them all.
pub async fn reply<S: Stack>(
    socket: &Socket,
    count: NonZeroU64,
    patience: &Patience,
    on_bound: impl FnOnce(&Endpoint),
) -> Result<(), Ended> {
    let (end, bound) = session::bind(socket, S::Reply::bind(socket)).await?;
    on_bound(&bound);
    let mut serve = Serve(end);
    session::first(&mut serve, &patience.waiting(), &bound, done(0, count)).await?;
    let Some(rest) = NonZeroU64::new(count.get() - 1) else {
        return Ok(());
    };
    let limit = RunLimit::Count(rest);
    let finished = measure(&mut serve, limit, Discard, &patience.running()).await;
    let completed = finished.measurement.completed + 1;
    finished.halt.map_or(Ok(()), |halt| {
        Err(Ended::running(halt, &bound, done(completed, count)))
    })
}

/// Both ends in one process: the other on its own thread.
///
/// # Errors
/// As [`request`].
pub(crate) async fn loopback<S: Stack>(
    socket: &Socket,
    count: NonZeroU64,
    patience: &Patience,
) -> Result<(RoundTrips, Option<Ended>), Ended> {
    let (tell, told) = tokio::sync::oneshot::channel();
    let theirs = (socket.clone(), patience.clone());
    let other = OtherEnd::start(move || async move {
        let on_bound = |bound: &Endpoint| {
            // Nobody listens any more when this process is ending.
            let _ = tell.send(bound.clone());
        };
        reply::<S>(&theirs.0, count, &theirs.1, on_bound).await
    })?;
    let Ok(endpoint) = told.await else {
        other.join()?;
        return Err(Error::Loopback.into());
    };
    let ours = Socket {
        endpoint,
        ..socket.clone()
    };
    let (trips, ended) = request::<S>(&ours, count, patience).await?;
    if ended.is_none() {
        other.join()?;
    }
    Ok((trips, ended))
}
