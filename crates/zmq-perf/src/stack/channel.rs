//! The stack `raw` within one process: bare tokio channels.
//!
//! Nothing but the channel lies between the two ends, so this is the floor of
//! every inproc transport. An end that binds puts its channels under its name
//! into a table of the process; an end that connects takes them out of it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use perf_core::load::Progress;
use perf_core::units::count;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;

use super::{Pull, Push, Reply, Request, Socket, Stack, StackError, Step, check_size};
use crate::endpoint::Endpoint;
use crate::stamp::{Fill, Visit};
use crate::transport::TransportError;

/// The version of tokio: the lock file's, which a test compares.
pub const VERSION: &str = "1.54.1";

/// The stack.
#[derive(Debug, Clone, Copy)]
pub struct Channel;

impl Stack for Channel {
    type Request = ChannelRequest;
    type Reply = ChannelReply;
    type Push = ChannelPush;
    type Pull = ChannelPull;
}

/// How many messages a channel holds: upstream's high-water mark.
const CAPACITY: usize = 1000;

/// How many payload bytes a channel holds, about.
const CAPACITY_BYTES: usize = 16 << 20;

/// How many messages are taken from a channel at once.
const BATCH: usize = 256;

fn capacity(size: usize) -> usize {
    (CAPACITY_BYTES / size.max(1)).clamp(1, CAPACITY)
}

/// What an end that has bound leaves for the one that connects.
struct Ends {
    to: Sender<Bytes>,
    from: Option<Receiver<Bytes>>,
}

/// The ends that nobody has connected to yet, by name, and a bell that rings
/// when there is a new one.
struct Table {
    ends: Mutex<HashMap<String, Ends>>,
    bell: watch::Sender<()>,
}

impl Table {
    fn get() -> &'static Self {
        static TABLE: OnceLock<Table> = OnceLock::new();
        TABLE.get_or_init(|| Self {
            ends: Mutex::default(),
            bell: watch::channel(()).0,
        })
    }

    fn ends(&self) -> MutexGuard<'_, HashMap<String, Ends>> {
        // The map is whole after every step on it.
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, endpoint: &Endpoint, ends: Ends) -> Step<()> {
        match self.ends().entry(name(endpoint)?.to_owned()) {
            Entry::Occupied(_) => return Err(TransportError::InUse.into()),
            Entry::Vacant(free) => free.insert(ends),
        };
        // Nobody may be waiting.
        let _ = self.bell.send(());
        Ok(())
    }

    async fn take(&self, endpoint: &Endpoint) -> Step<Ends> {
        let name = name(endpoint)?;
        let mut bell = self.bell.subscribe();
        loop {
            if let Some(ends) = self.ends().remove(name) {
                return Ok(ends);
            }
            bell.changed().await.map_err(|_| StackError::PeerClosed)?;
        }
    }
}

fn name(endpoint: &Endpoint) -> Step<&str> {
    match endpoint {
        Endpoint::Inproc(name) => Ok(name),
        other => Err(StackError::Unsupported(format!(
            "a channel carries inproc:// and not {}://",
            other.transport()
        ))),
    }
}

/// The end that asks: a channel each way.
pub struct ChannelRequest {
    to: Sender<Bytes>,
    from: Receiver<Bytes>,
    size: usize,
    message: Bytes,
}

impl Request for ChannelRequest {
    async fn connect(socket: &Socket) -> Step<Self> {
        let ends = Table::get().take(&socket.endpoint).await?;
        Ok(Self {
            to: ends.to,
            from: ends
                .from
                .ok_or_else(|| StackError::NoFit("it only receives".to_owned()))?,
            size: socket.size,
            message: vec![0; socket.size].into(),
        })
    }

    async fn round_trip(&mut self) -> Step<()> {
        let request = std::mem::take(&mut self.message);
        self.to
            .send(request)
            .await
            .map_err(|_| StackError::PeerClosed)?;
        self.message = self.from.recv().await.ok_or(StackError::PeerClosed)?;
        check_size(self.size, self.message.len())
    }
}

/// The end that answers.
pub struct ChannelReply {
    to: Sender<Bytes>,
    from: Receiver<Bytes>,
    size: usize,
}

impl Reply for ChannelReply {
    async fn bind(socket: &Socket) -> Step<(Self, Endpoint)> {
        let (ask, from) = channel(capacity(socket.size));
        let (to, answer) = channel(capacity(socket.size));
        let theirs = Ends {
            to: ask,
            from: Some(answer),
        };
        Table::get().put(&socket.endpoint, theirs)?;
        let size = socket.size;
        Ok((Self { to, from, size }, socket.endpoint.clone()))
    }

    async fn serve(&mut self) -> Step<()> {
        let request = self.from.recv().await.ok_or(StackError::PeerClosed)?;
        check_size(self.size, request.len())?;
        self.to
            .send(request)
            .await
            .map_err(|_| StackError::PeerClosed)
    }
}

/// The end that sends.
pub struct ChannelPush {
    to: Sender<Bytes>,
    payload: Bytes,
}

impl Push for ChannelPush {
    async fn connect(socket: &Socket) -> Step<Self> {
        Ok(Self {
            to: Table::get().take(&socket.endpoint).await?.to,
            payload: vec![0; socket.size].into(),
        })
    }

    async fn push(&mut self, at_most: u64, fill: &mut impl Fill) -> Step<u64> {
        let batch = at_most.min(count(BATCH));
        for _ in 0..batch {
            let payload = fill.apply(&self.payload);
            self.to
                .send(payload)
                .await
                .map_err(|_| StackError::PeerClosed)?;
        }
        Ok(batch)
    }

    fn left(&self) -> Arc<Progress> {
        Arc::default()
    }

    async fn finish(self) -> Step<()> {
        // What is in the channel stays there for the receiver.
        Ok(())
    }
}

/// The end that receives.
pub struct ChannelPull {
    from: Receiver<Bytes>,
    size: usize,
    messages: Vec<Bytes>,
}

impl Pull for ChannelPull {
    async fn bind(socket: &Socket) -> Step<(Self, Endpoint)> {
        let (to, from) = channel(capacity(socket.size));
        Table::get().put(&socket.endpoint, Ends { to, from: None })?;
        let pull = Self {
            from,
            size: socket.size,
            messages: Vec::with_capacity(BATCH),
        };
        Ok((pull, socket.endpoint.clone()))
    }

    async fn pull(&mut self, at_most: u64, visit: &mut impl Visit) -> Step<u64> {
        let at_most = usize::try_from(at_most).unwrap_or(usize::MAX).min(BATCH);
        let pulled = self.from.recv_many(&mut self.messages, at_most).await;
        if pulled == 0 {
            return Err(StackError::PeerClosed);
        }
        for message in self.messages.drain(..) {
            check_size(self.size, message.len())?;
            visit.visit(&message);
        }
        Ok(count(pulled))
    }
}
