//! Two floods through a proxy: two XPUB, each on a thread of its own, send to
//! an XSUB-XPUB proxy on a third, and one SUB receives, all over inproc.
//! Upstream: `perf/proxy_thr.cpp`.
//!
//! As there, each publisher sends as many messages as the subscriber receives,
//! and the clock starts before the publishers do: their start and the first
//! message's way are in the time.

use perf_core::limit::RunLimit;
use perf_core::load::Operation;
use perf_core::measure::{Plan, measure};
use tokio::sync::{oneshot, watch};

use crate::endpoint::Endpoint;
use crate::error::{Ended, Error};
use crate::loopback::{OtherEnd, Place};
use crate::session::{self, Measured, Patience, Threads};
use crate::stack::omq::proxy::{Forwarder, Publisher, Subscriber};
use crate::stack::{Socket, StackError};
use crate::throughput::done;

/// Where the publishers connect to; upstream's names.
const PUBLISHERS: [&str; 2] = ["perf_pub1", "perf_pub2"];

/// The subscriber, and what starts the publishers when the clock runs.
struct Receive<F> {
    end: Subscriber,
    start: Option<F>,
}

impl<F: FnOnce() -> Result<(), Error>> Operation for Receive<F> {
    type Error = StackError;

    async fn execute(&mut self, at_most: u64) -> Result<u64, StackError> {
        if let Some(start) = self.start.take() {
            start().map_err(|error| StackError::Stack(error.to_string()))?;
        }
        self.end.receive(at_most).await
    }
}

/// The end that measures: receives through the proxy as planned.
///
/// # Errors
/// When there was nothing to measure. A run that ends early still has its
/// result.
pub async fn receive(socket: &Socket, plan: &Plan, patience: &Patience) -> Result<Measured, Ended> {
    let (stop, stopped) = watch::channel(false);
    let mut others = vec![forward(socket, patience.threads.clone(), stopped.clone()).await?];
    let nothing = done(0, plan.limit);
    let end = session::connect(socket, patience, nothing, Subscriber::connect(socket)).await?;
    let start = || {
        for name in PUBLISHERS {
            let publisher = Socket {
                endpoint: Endpoint::Inproc(name.to_owned()),
                ..socket.clone()
            };
            others.push(flood(
                publisher,
                plan.limit,
                patience.threads.clone(),
                stopped.clone(),
            )?);
        }
        Ok(())
    };
    let mut operation = Receive {
        end,
        start: Some(start),
    };
    let finished = measure(&mut operation, plan, &patience.running()).await;
    // The other threads wait for it themselves when they are gone already.
    let _ = stop.send(true);
    drop(operation);
    if finished.halt.is_none() {
        for other in others {
            other.join().await?;
        }
    }
    Ok(Measured {
        finished,
        untimed: 0,
        shares: Vec::new(),
        endpoint: socket.endpoint.clone(),
    })
}

/// Starts the proxy on its own thread; returns when it is bound.
async fn forward(
    socket: &Socket,
    threads: Threads,
    mut stop: watch::Receiver<bool>,
) -> Result<OtherEnd, Ended> {
    let (tell, told) = oneshot::channel();
    let (subscribers, size) = (socket.endpoint.clone(), socket.size);
    let proxy = OtherEnd::start(Place::OwnThread, threads, move || async move {
        let publishers = PUBLISHERS.map(|name| Endpoint::Inproc(name.to_owned()));
        let forwarder = Forwarder::bind(&publishers, &subscribers, size)
            .await
            .map_err(|source| Error::Bind {
                endpoint: subscribers,
                source,
            })?;
        // Nobody listens any more when this process is ending.
        let _ = tell.send(());
        tokio::select! {
            _ = stop.wait_for(|&stop| stop) => Ok(()),
            ran = forwarder.run() => ran.map_err(ended),
        }
    })?;
    if told.await.is_err() {
        proxy.join().await?;
        return Err(Error::Loopback.into());
    }
    Ok(proxy)
}

/// Starts a publisher on its own thread.
fn flood(
    socket: Socket,
    limit: RunLimit,
    threads: Threads,
    mut stop: watch::Receiver<bool>,
) -> Result<OtherEnd, Error> {
    OtherEnd::start(Place::OwnThread, threads, move || async move {
        let publish = async {
            let mut publisher = Publisher::connect(&socket).await?;
            let mut sent = 0;
            while limit.count().is_none_or(|count| sent < count) {
                publisher.publish().await?;
                sent += 1;
            }
            publisher.finish().await
        };
        tokio::select! {
            _ = stop.wait_for(|&stop| stop) => Ok(()),
            published = publish => published.map_err(ended),
        }
    })
}

/// The failure of another thread.
fn ended(source: StackError) -> Ended {
    let done = done(0, RunLimit::Endless);
    Error::Run { done, source }.into()
}
