//! Any number of peers behind one socket, of which only those are looked at
//! that have something to say.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::io::{AsyncRead, AsyncWrite};

use super::connection::{Connection, Handshaking, READ_SIZE};
use super::error::RawError;
use crate::zmtp::{Peer, SocketType};

/// Where new streams come from: a listener.
pub trait Accept {
    /// A stream to a peer whose handshake has not begun.
    type Stream: AsyncRead + AsyncWrite + Unpin;

    /// The next stream; pending for ever when no more will come.
    ///
    /// # Errors
    /// No stream could be accepted now (out of file descriptors, say). It may
    /// be asked again.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Stream>>;
}

/// What the peers' buffers take together, about: the more peers, the less each.
const SHARED_READ_SIZE: usize = 4 * 1024 * 1024;

/// The least that each of many peers reads at once.
const LEAST_READ_SIZE: usize = 16 * 1024;

/// The key of the acceptor among those that are woken.
const ACCEPTOR: usize = usize::MAX;

/// The peers of a bound socket. `T` is what the socket keeps for each.
pub(super) struct Peers<A: Accept, T> {
    acceptor: A,
    accept_signal: Arc<Signal>,
    local: SocketType,
    limit: usize,
    woken: Arc<Woken>,
    slots: Vec<Option<Slot<A::Stream, T>>>,
    /// What each peer has done, in the order in which they were let in.
    shares: Vec<u64>,
}

/// One peer.
struct Slot<S, T> {
    signal: Arc<Signal>,
    stage: Stage<S, T>,
}

enum Stage<S, T> {
    Handshaking(Handshaking<S>),
    Open {
        connection: Connection<S>,
        state: T,
        share: usize,
    },
}

impl<A: Accept, T: Default> Peers<A, T> {
    /// No peers yet.
    pub(super) fn new(acceptor: A, local: SocketType, limit: usize) -> Self {
        let woken = Arc::<Woken>::default();
        let accept_signal = woken.signal(ACCEPTOR);
        accept_signal.raise();
        Self {
            acceptor,
            accept_signal,
            local,
            limit,
            woken,
            slots: Vec::new(),
            shares: Vec::new(),
        }
    }

    /// What each peer has done, in the order in which they were let in.
    pub(super) fn shares(&self) -> &[u64] {
        &self.shares
    }

    /// Gives a turn to one peer after the other, of those that have been
    /// woken, until one has done something: how much.
    ///
    /// A peer whose turn is pending sleeps until its stream wakes it. One whose
    /// turn is done goes to the end of the queue, so that all get their share.
    /// One that fails is dropped, and nobody hears of it when it has just left
    /// and others are still there.
    pub(super) fn poll_turn(
        &mut self,
        cx: &mut Context<'_>,
        mut turn: impl FnMut(
            &mut Connection<A::Stream>,
            &mut T,
            &mut Context<'_>,
        ) -> Poll<Result<u64, RawError>>,
    ) -> Poll<Result<u64, RawError>> {
        while let Some(key) = self.woken.next(cx) {
            if key == ACCEPTOR {
                self.accept()?;
                continue;
            }
            let Some(Some(slot)) = self.slots.get_mut(key) else {
                continue;
            };
            slot.signal.lower();
            let waker = Waker::from(Arc::clone(&slot.signal));
            let cx = &mut Context::from_waker(&waker);
            let done = match &mut slot.stage {
                Stage::Handshaking(handshaking) => match handshaking.poll(cx) {
                    Poll::Pending => continue,
                    Poll::Ready(Err(error)) => Err(error),
                    Poll::Ready(Ok(peer)) => {
                        self.open(key, peer);
                        continue;
                    }
                },
                Stage::Open {
                    connection,
                    state,
                    share,
                } => match turn(connection, state, cx) {
                    Poll::Pending => continue,
                    Poll::Ready(Err(error)) => Err(error),
                    Poll::Ready(Ok(count)) => {
                        self.shares[*share] += count;
                        Ok(count)
                    }
                },
            };
            match done {
                Ok(count) => {
                    slot.signal.raise();
                    return Poll::Ready(Ok(count));
                }
                Err(error) => {
                    self.slots[key] = None;
                    let alone = self.slots.iter().all(Option::is_none);
                    if alone || !matches!(error, RawError::Closed) {
                        return Poll::Ready(Err(error));
                    }
                }
            }
        }
        Poll::Pending
    }

    /// Takes one new stream, if there is one, and will look for the next.
    fn accept(&mut self) -> Result<(), RawError> {
        self.accept_signal.lower();
        let waker = Waker::from(Arc::clone(&self.accept_signal));
        let accepted = self.acceptor.poll_accept(&mut Context::from_waker(&waker));
        let Poll::Ready(accepted) = accepted else {
            return Ok(());
        };
        self.accept_signal.raise();
        let stream = accepted.map_err(RawError::Accept)?;
        let key = self
            .slots
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.slots.len());
        if key == self.slots.len() {
            self.slots.push(None);
        }
        let capacity = (SHARED_READ_SIZE / self.slots.len()).clamp(LEAST_READ_SIZE, READ_SIZE);
        let signal = self.woken.signal(key);
        signal.raise();
        self.slots[key] = Some(Slot {
            signal,
            stage: Stage::Handshaking(Handshaking::new(stream, self.local, capacity, self.limit)),
        });
        Ok(())
    }

    /// Lets a peer in whose handshake is over.
    fn open(&mut self, key: usize, peer: Peer) {
        if let Some(Slot {
            signal,
            stage: Stage::Handshaking(handshaking),
        }) = self.slots[key].take()
        {
            // Messages may have come right behind the handshake.
            signal.raise();
            let stage = Stage::Open {
                connection: handshaking.finish(peer),
                state: T::default(),
                share: self.shares.len(),
            };
            self.shares.push(0);
            self.slots[key] = Some(Slot { signal, stage });
        }
    }

    /// Ends all connections with `end`, and drops each that has ended.
    ///
    /// The first failure is told when all have ended.
    pub(super) fn poll_finish(
        &mut self,
        cx: &mut Context<'_>,
        mut end: impl FnMut(
            &mut Connection<A::Stream>,
            &mut T,
            &mut Context<'_>,
        ) -> Poll<Result<(), RawError>>,
    ) -> Poll<Result<(), RawError>> {
        let mut failure = Ok(());
        self.slots.retain_mut(|slot| match slot {
            Some(Slot {
                stage: Stage::Open {
                    connection, state, ..
                },
                ..
            }) => match end(connection, state, cx) {
                Poll::Pending => true,
                Poll::Ready(ended) => {
                    failure = std::mem::replace(&mut failure, Ok(())).and(ended);
                    false
                }
            },
            Some(_) | None => false,
        });
        failure?;
        if self.slots.is_empty() {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }
}

/// Who has been woken, in order.
#[derive(Debug, Default)]
struct Woken {
    state: Mutex<WokenState>,
}

#[derive(Debug, Default)]
struct WokenState {
    queue: VecDeque<usize>,
    /// The task that gives turns, when it sleeps.
    sleeper: Option<Waker>,
}

impl Woken {
    fn signal(self: &Arc<Self>, key: usize) -> Arc<Signal> {
        Arc::new(Signal {
            key,
            raised: AtomicBool::new(false),
            woken: Arc::clone(self),
        })
    }

    /// The next in the queue; when it is empty, `cx` is woken by the next
    /// signal.
    fn next(&self, cx: &mut Context<'_>) -> Option<usize> {
        let mut state = self.lock();
        let next = state.queue.pop_front();
        if next.is_none() {
            match &mut state.sleeper {
                Some(sleeper) => sleeper.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, WokenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The waker of one peer, or of the acceptor.
#[derive(Debug)]
struct Signal {
    key: usize,
    /// Whether it is in the queue.
    raised: AtomicBool,
    woken: Arc<Woken>,
}

impl Signal {
    /// Out of the queue: from here on a wake-up counts again.
    fn lower(&self) {
        self.raised.store(false, Ordering::Release);
    }

    /// To the end of the queue, unless it is in it.
    fn raise(&self) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            let sleeper = {
                let mut state = self.woken.lock();
                state.queue.push_back(self.key);
                state.sleeper.take()
            };
            if let Some(sleeper) = sleeper {
                sleeper.wake();
            }
        }
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.raise();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.raise();
    }
}
