//! Flood: one end sends as fast as it can, the other measures how fast the
//! messages arrive. Upstream: `perf/remote_thr.cpp`, `perf/local_thr.cpp`.

use std::num::NonZeroU64;
use std::time::Duration;

use perf_core::limit::{RunLimit, StopReason};
use perf_core::load::{Measurement, Operation};
use perf_core::recorder::Discard;
use perf_core::runtime::{Halt, measure};

use crate::endpoint::Endpoint;
use crate::error::{Done, Ended, Error};
use crate::loopback::OtherEnd;
use crate::session::{self, Patience};
use crate::stack::{Pull, Push, Socket, Stack, StackError};

/// What the receiving end has measured.
#[derive(Debug, Clone, Copy)]
pub struct Messages {
    /// How many arrived, the first included.
    pub received: u64,
    /// Those behind the first: the clock started when the first had arrived.
    pub measurement: Measurement,
}

struct PullSome<P>(P);

impl<P: Pull> Operation for PullSome<P> {
    type Error = StackError;

    #[inline]
    async fn execute(&mut self, at_most: u64) -> Result<u64, StackError> {
        self.0.pull(at_most).await
    }
}

struct PushSome<P>(P);

impl<P: Push> Operation for PushSome<P> {
    type Error = StackError;

    #[inline]
    async fn execute(&mut self, at_most: u64) -> Result<u64, StackError> {
        self.0.push(at_most).await
    }
}

/// How far a count of messages came.
#[must_use]
pub const fn done(completed: u64, of: NonZeroU64) -> Done {
    Done {
        completed,
        of: of.get(),
        what: "messages",
    }
}

/// The end that measures: binds, tells `on_bound` where, and receives `count`
/// messages.
///
/// # Errors
/// When there was nothing to measure. A run that ends early still has its
/// result, beside the reason.
pub async fn receive<S: Stack>(
    socket: &Socket,
    count: NonZeroU64,
    patience: &Patience,
    on_bound: impl FnOnce(&Endpoint) -> Result<(), Error>,
) -> Result<(Messages, Option<Ended>), Ended> {
    let (end, bound) = session::bind(socket, S::Pull::bind(socket)).await?;
    on_bound(&bound)?;
    let mut pull = PullSome(end);
    session::first(&mut pull, &patience.waiting(), &bound, done(0, count)).await?;
    let mut messages = Messages {
        received: 1,
        measurement: Measurement {
            completed: 0,
            elapsed: Duration::ZERO,
            stop: StopReason::Complete,
        },
    };
    let Some(rest) = NonZeroU64::new(count.get() - 1) else {
        return Ok((messages, None));
    };
    let limit = RunLimit::Count(rest);
    let finished = measure(&mut pull, limit, Discard, &patience.running()).await;
    messages.measurement = finished.measurement;
    messages.received += finished.measurement.completed;
    let ended = finished
        .halt
        .map(|halt| Ended::running(halt, &bound, done(messages.received, count)));
    Ok((messages, ended))
}

/// The end that sends: connects, sends `count` messages, and returns when the
/// last has left.
///
/// # Errors
/// Why not all have left.
pub async fn send<S: Stack>(
    socket: &Socket,
    count: NonZeroU64,
    patience: &Patience,
) -> Result<(), Ended> {
    let end = session::connect(socket, patience, done(0, count), S::Push::connect(socket)).await?;
    let mut push = PushSome(end);
    let watch = patience.running();
    let finished = measure(&mut push, RunLimit::Count(count), Discard, &watch).await;
    let completed = finished.measurement.completed;
    let ended = |halt| Ended::running(halt, &socket.endpoint, done(completed, count));
    if let Some(halt) = finished.halt {
        return Err(ended(halt));
    }
    let left = push.0.left();
    match watch.supervise(left, push.0.finish()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(source)) => Err(ended(Halt::Failed(source))),
        Err(stop) => Err(ended(Halt::Stopped(stop))),
    }
}

/// Both ends in one process: the other on its own thread.
///
/// # Errors
/// As [`receive`].
pub(crate) async fn loopback<S: Stack>(
    socket: &Socket,
    count: NonZeroU64,
    patience: &Patience,
) -> Result<(Messages, Option<Ended>), Ended> {
    let mut other = None;
    let start = |bound: &Endpoint| {
        let theirs = Socket {
            endpoint: bound.clone(),
            ..socket.clone()
        };
        let patience = patience.clone();
        let send = move || async move { send::<S>(&theirs, count, &patience).await };
        other = Some(OtherEnd::start(send)?);
        Ok(())
    };
    let (messages, ended) = receive::<S>(socket, count, patience, start).await?;
    if let (None, Some(other)) = (&ended, other) {
        other.join()?;
    }
    Ok((messages, ended))
}
