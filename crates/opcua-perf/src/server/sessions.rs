//! The sessions that are open (Part 4, 5.7).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use opcua::crypto::{SecurityPolicy, random};
use opcua::sync::Mutex;
use opcua::types::{ByteString, Guid, MessageSecurityMode, NodeId, StatusCode};
use perf_core::clock::Timestamp;
use perf_core::units::nanos;

/// What a nonce of a session must have at least (Part 4, 5.7.2); open62541's
/// client refuses fewer, also under the policy None.
const NONCE: usize = 32;

/// A session outlives its connection for this long at most: a client that lost
/// its connection may come back, and one that was killed leaves nothing behind.
const GRACE: Duration = Duration::from_secs(10);

/// How a session's timeout is bounded.
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(1);
const LONGEST_TIMEOUT: Duration = Duration::from_hours(1);

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: NodeId,
    /// The secret by which its requests name it.
    pub(crate) token: NodeId,
    pub(crate) name: String,
    pub(crate) timeout: Duration,
    pub(crate) policy: SecurityPolicy,
    pub(crate) mode: MessageSecurityMode,
    /// The certificate of the client that created it; empty under None.
    pub(crate) certificate: Vec<u8>,
    nonce: Mutex<ByteString>,
    user: Mutex<Option<String>>,
    active: AtomicBool,
    last_seen: AtomicU64,
    /// The secure channel that may use it; 0 for none.
    channel: AtomicU32,
    closed: AtomicBool,
}

impl Session {
    /// Takes note of a request, if the session is still open and belongs to
    /// the channel; says whether someone is logged in.
    #[inline]
    pub(crate) fn touch(&self, channel: u32, now: Timestamp) -> Result<bool, StatusCode> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(StatusCode::BadSessionClosed);
        }
        if self.channel.load(Ordering::Relaxed) != channel {
            return Err(StatusCode::BadSecureChannelIdInvalid);
        }
        self.last_seen.store(now.as_nanos(), Ordering::Relaxed);
        Ok(self.active.load(Ordering::Relaxed))
    }

    /// The nonce that the client has to sign next.
    pub(crate) fn nonce(&self) -> ByteString {
        self.nonce.lock().clone()
    }

    pub(crate) fn renew_nonce(&self) -> ByteString {
        let nonce = random::byte_string(NONCE);
        *self.nonce.lock() = nonce.clone();
        nonce
    }

    /// Logs a user in, on a channel. A session that is moved to another
    /// channel keeps its user.
    pub(crate) fn activate(&self, user: &str, channel: u32) -> Result<(), StatusCode> {
        let mut current = self.user.lock();
        let moved = self.channel.load(Ordering::Relaxed) != channel;
        match current.as_deref() {
            None if moved => return Err(StatusCode::BadSecureChannelIdInvalid),
            Some(current) if moved && current != user => {
                return Err(StatusCode::BadIdentityChangeNotSupported);
            }
            _ => {}
        }
        *current = Some(user.to_owned());
        self.active.store(true, Ordering::Relaxed);
        self.channel.store(channel, Ordering::Relaxed);
        Ok(())
    }

    /// The secure channel is gone: what it used waits for another, or for the
    /// end of its grace.
    pub(crate) fn orphan(&self, channel: u32, now: Timestamp) {
        let bound = self
            .channel
            .compare_exchange(channel, 0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        if bound {
            self.last_seen.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    fn is_over(&self, now: Timestamp) -> bool {
        let idle = now.since(Timestamp::from_nanos(
            self.last_seen.load(Ordering::Relaxed),
        ));
        let orphan = self.channel.load(Ordering::Relaxed) == 0;
        idle >= if orphan {
            self.timeout.min(GRACE)
        } else {
            self.timeout
        }
    }
}

/// What a client wants of a new session.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) timeout_ms: f64,
    pub(crate) policy: SecurityPolicy,
    pub(crate) mode: MessageSecurityMode,
    pub(crate) certificate: Vec<u8>,
    pub(crate) channel: u32,
}

/// All sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<NodeId, Arc<Session>>>,
    most: usize,
    next: AtomicU32,
}

impl Sessions {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            open: Mutex::default(),
            most,
            next: AtomicU32::new(1),
        }
    }

    pub(crate) fn create(
        &self,
        wanted: Wanted,
        now: Timestamp,
    ) -> Result<Arc<Session>, StatusCode> {
        let mut secret = [0; 16];
        random::bytes(&mut secret);
        let token = NodeId::new(0, Guid::from_bytes(secret));
        let mut open = self.open.lock();
        if open.len() >= self.most {
            return Err(StatusCode::BadTooManySessions);
        }
        let session = Arc::new(Session {
            id: NodeId::new(
                super::address_space::OWN_NAMESPACE,
                Guid::from_bytes(
                    u128::from(self.next.fetch_add(1, Ordering::Relaxed)).to_be_bytes(),
                ),
            ),
            token: token.clone(),
            name: wanted.name,
            timeout: revise_timeout(wanted.timeout_ms),
            policy: wanted.policy,
            mode: wanted.mode,
            certificate: wanted.certificate,
            nonce: Mutex::new(random::byte_string(NONCE)),
            user: Mutex::default(),
            active: AtomicBool::new(false),
            last_seen: AtomicU64::new(now.as_nanos()),
            channel: AtomicU32::new(wanted.channel),
            closed: AtomicBool::new(false),
        });
        open.insert(token, Arc::clone(&session));
        Ok(session)
    }

    pub(crate) fn find(&self, token: &NodeId) -> Option<Arc<Session>> {
        self.open.lock().get(token).cloned()
    }

    /// Closes a session; says whether it was open.
    pub(crate) fn close(&self, session: &Session) -> bool {
        let removed = self.open.lock().remove(&session.token);
        session.closed.store(true, Ordering::Relaxed);
        removed.is_some()
    }

    /// Closes the sessions whose time is over, and gives them.
    pub(crate) fn expire(&self, now: Timestamp) -> Vec<Arc<Session>> {
        let mut over = Vec::new();
        self.open.lock().retain(|_, session| {
            let ends = session.is_over(now);
            if ends {
                session.closed.store(true, Ordering::Relaxed);
                over.push(Arc::clone(session));
            }
            !ends
        });
        over
    }

    /// Closes all sessions, and gives them.
    pub(crate) fn close_all(&self) -> Vec<Arc<Session>> {
        let all: Vec<_> = self
            .open
            .lock()
            .drain()
            .map(|(_, session)| session)
            .collect();
        for session in &all {
            session.closed.store(true, Ordering::Relaxed);
        }
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.lock().is_empty()
    }
}

/// The timeout that a client gets for the one it asks for, in milliseconds;
/// 0, and what is no number, ask for the longest.
fn revise_timeout(wanted_ms: f64) -> Duration {
    let bounds = (SHORTEST_TIMEOUT, LONGEST_TIMEOUT);
    if wanted_ms > 0.0 {
        Duration::try_from_secs_f64(wanted_ms / 1000.0)
            .unwrap_or(bounds.1)
            .clamp(bounds.0, bounds.1)
    } else {
        bounds.1
    }
}

/// A timeout as the protocol has it.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    perf_core::units::float(nanos(duration) / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(channel: u32) -> Wanted {
        Wanted {
            name: "test".to_owned(),
            timeout_ms: 60_000.0,
            policy: SecurityPolicy::None,
            mode: MessageSecurityMode::None,
            certificate: Vec::new(),
            channel,
        }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn timeouts_are_bounded() {
        for (wanted, revised) in [
            (60_000.0, 60),
            (1.0, 1),
            (0.0, 3600),
            (-5.0, 3600),
            (f64::NAN, 3600),
            (f64::INFINITY, 3600),
            (1e300, 3600),
        ] {
            assert_eq!(revise_timeout(wanted).as_secs(), revised, "{wanted}");
        }
    }

    #[test]
    fn no_more_sessions_than_allowed() {
        let sessions = Sessions::new(2);
        let first = sessions.create(wanted(1), at(0)).unwrap();
        sessions.create(wanted(1), at(0)).unwrap();
        let refused = sessions.create(wanted(1), at(0)).unwrap_err();
        assert_eq!(refused, StatusCode::BadTooManySessions);
        assert!(sessions.close(&first) && !sessions.close(&first));
        assert!(sessions.create(wanted(1), at(0)).is_ok());
    }

    #[test]
    fn a_session_ends_when_nothing_is_asked_of_it() {
        let sessions = Sessions::new(2);
        let session = sessions.create(wanted(1), at(0)).unwrap();
        session.touch(1, at(50)).unwrap();
        assert!(sessions.expire(at(109)).is_empty());
        assert_eq!(sessions.expire(at(110)).len(), 1);
        assert_eq!(
            session.touch(1, at(111)).unwrap_err(),
            StatusCode::BadSessionClosed
        );
    }

    #[test]
    fn an_orphan_ends_after_its_grace() {
        let sessions = Sessions::new(2);
        let session = sessions.create(wanted(1), at(0)).unwrap();
        session.orphan(1, at(5));
        assert!(sessions.expire(at(14)).is_empty());
        assert_eq!(sessions.expire(at(15)).len(), 1);
        assert!(sessions.is_empty());
    }

    #[test]
    fn a_session_moves_to_another_channel_with_its_user_only() {
        let sessions = Sessions::new(2);
        let session = sessions.create(wanted(1), at(0)).unwrap();
        assert!(session.activate("alice", 2).is_err(), "never active");
        session.activate("alice", 1).unwrap();
        assert!(session.touch(2, at(1)).is_err());
        assert!(session.activate("bob", 2).is_err());
        session.activate("alice", 2).unwrap();
        session.touch(2, at(1)).unwrap();
        session.orphan(1, at(2));
        session.touch(2, at(3)).unwrap();
    }

    #[test]
    fn tokens_and_nonces_are_never_the_same() {
        let sessions = Sessions::new(9);
        let a = sessions.create(wanted(1), at(0)).unwrap();
        let b = sessions.create(wanted(1), at(0)).unwrap();
        assert_ne!(a.token, b.token);
        assert_ne!(a.nonce(), b.nonce());
        let old = a.nonce();
        assert_ne!(a.renew_nonce(), old);
        assert_eq!(a.nonce().as_ref().len(), 32);
        assert!(Arc::ptr_eq(&sessions.find(&b.token).unwrap(), &b));
    }
}
