//! The test server: one variable, `ns=1;i=42`, that tells the nanoseconds of
//! the day, for whatever OPC UA client asks.
//!
//! The server of async-opcua is not used. Under the policy None it answers
//! `ActivateSession` with a null nonce, which open62541 1.5's client refuses;
//! its namespace 1 belongs to its own diagnostics; and a request crosses
//! several queues and tasks. This one is a loop on a socket: `connection`
//! cuts, checks and decrypts with `wire`, `services` answers.
//!
//! Every wait on a client is bounded and so is what it can make the server
//! keep: connections, sessions, bytes of a message, elements of an array.

mod address_space;

mod connection;
mod pacing;
mod services;
mod sessions;
mod users;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use opcua::crypto::SecurityPolicy;
use opcua::sync::Mutex;
use opcua::types::{ContextOwned, NamespaceMap, StatusCode};
use perf_core::clock::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use self::address_space::AddressSpace;
use self::connection::{Connection, TIME_TO_OPEN};
use self::pacing::Pacer;
use self::sessions::Sessions;
pub use self::users::{Users, UsersError};
use crate::certificate::{Identity, IdentityError, uri_of_this_host};
use crate::clock::DayClock;
use crate::endpoint::EndpointUrl;
use crate::wire::Limits;

/// Where the server writes what happens, a line at a time.
pub type Log = Arc<dyn Fn(fmt::Arguments<'_>) + Send + Sync>;

/// The identifiers of the user token policies.
const ANONYMOUS: &str = "anonymous";
const USER_NAME: &str = "username";

/// What the server takes from a client.
const LIMITS: Limits = Limits {
    chunk_bytes: 65_536,
    chunks: 64,
    message_bytes: 2 * 1024 * 1024,
    array_elements: 10_000,
    string_bytes: 65_536,
};

/// Connections that have no session yet, or are a discovery, beside those that
/// the sessions need.
const SPARE_CONNECTIONS: usize = 32;

/// How often sessions and connections are looked at for those whose time is
/// over.
const LOOK_AROUND: Duration = Duration::from_millis(250);

/// How long clients get to hear that the server ends.
const TIME_TO_END: Duration = Duration::from_secs(1);

/// What the server is to be.
pub struct ServerConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: EndpointUrl,
    /// What is offered. At least one.
    pub policies: Vec<SecurityPolicy>,
    /// The certificate; made when a policy needs one and there is none.
    pub identity: Option<Identity>,
    /// Who may log in by name; anonymous clients always may.
    pub users: Option<Users>,
    /// Sessions at once.
    pub max_sessions: usize,
    /// Spin while requests flow. The runtime must look for I/O on each of its
    /// turns (`event_interval(1)`).
    pub spin: bool,
    /// Where events are written.
    pub log: Log,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Something else listens there. Systems say that in words of their own.
    #[error(
        "cannot listen on {0}: the address is in use; end the program that holds it, or use another"
    )]
    InUse(EndpointUrl),
    /// The address could not be bound.
    #[error("cannot listen on {url}")]
    Listen {
        /// What was asked for.
        url: EndpointUrl,
        /// Why.
        source: io::Error,
    },
    /// There is no certificate.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    url: EndpointUrl,
    spin: bool,
    shared: Arc<Shared>,
}

/// What all connections share.
struct Shared {
    policies: Vec<SecurityPolicy>,
    identity: Option<Arc<Identity>>,
    users: Option<Users>,
    application_uri: String,
    space: AddressSpace,
    clock: DayClock,
    sessions: Sessions,
    connections: Mutex<HashMap<u64, Open>>,
    most_connections: usize,
    pacer: Pacer,
    limits: Limits,
    context: ContextOwned,
    log: Log,
    last_channel: AtomicU32,
}

/// How to end a connection from outside.
struct Open {
    deadline: Arc<AtomicU64>,
    stop: oneshot::Sender<StatusCode>,
}

impl Server {
    /// Binds the address; clients can connect from now on.
    ///
    /// # Errors
    /// When the address cannot be bound, or no certificate can be made.
    pub async fn bind(config: ServerConfig) -> Result<Self, ServerError> {
        let ServerConfig {
            listen,
            policies,
            identity,
            users,
            max_sessions,
            spin,
            log,
        } = config;
        let name = address_space::PRODUCT_NAME;
        let application_uri = identity
            .as_ref()
            .and_then(Identity::application_uri)
            .unwrap_or_else(|| uri_of_this_host(name));
        let secure = policies
            .iter()
            .any(|&policy| policy != SecurityPolicy::None);
        let identity = match identity {
            None if secure => Some(Identity::generate(&application_uri, name)?),
            identity => identity,
        };
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ServerError::InUse(listen.clone()),
            _ => ServerError::Listen {
                url: listen.clone(),
                source,
            },
        };
        let listener = TcpListener::bind((listen.host(), listen.port()))
            .await
            .map_err(failed)?;
        let url = listen.with_port(listener.local_addr().map_err(failed)?.port());
        let clock = DayClock::new();
        let shared = Shared {
            policies,
            identity: identity.map(Arc::new),
            users,
            space: AddressSpace::new(&application_uri, clock.date_time()),
            application_uri,
            clock,
            sessions: Sessions::new(max_sessions),
            connections: Mutex::default(),
            most_connections: max_sessions.saturating_add(SPARE_CONNECTIONS),
            pacer: Pacer::default(),
            limits: LIMITS,
            context: ContextOwned::new_default(NamespaceMap::new(), LIMITS.decoding()),
            log,
            last_channel: AtomicU32::new(0),
        };
        shared.log(format_args!("listening on {url}"));
        shared.warn_of_clear_passwords();
        Ok(Self {
            listener,
            url,
            spin,
            shared: Arc::new(shared),
        })
    }

    /// Where the server listens, with the port that was really bound.
    #[must_use]
    pub const fn url(&self) -> &EndpointUrl {
        &self.url
    }

    /// Serves until `stop` is done; then tells the clients and closes.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self {
            listener,
            spin,
            shared,
            ..
        } = self;
        let spinning = Arc::clone(&shared);
        let spinner =
            spin.then(|| tokio::spawn(async move { spinning.pacer.spin(&spinning.clock).await }));
        let mut connections = JoinSet::new();
        let mut ticks = tokio::time::interval(LOOK_AROUND);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut number = 0;
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        number += 1;
                        shared.admit(number, stream, peer, &mut connections).await;
                    }
                    Err(error) => {
                        // Out of descriptors, most likely: wait for some to come free.
                        shared.log(format_args!("cannot accept a connection: {error}"));
                        tokio::time::sleep(LOOK_AROUND).await;
                    }
                },
                _ = ticks.tick(), if shared.has_clients() => shared.look_around(),
                Some(_) = connections.join_next() => {}
            }
        }
        drop(listener);
        if let Some(spinner) = spinner {
            spinner.abort();
        }
        for (_, open) in shared.connections.lock().drain() {
            // One that is gone needs no telling.
            let _ = open.stop.send(StatusCode::BadServerHalted);
        }
        let _ = tokio::time::timeout(TIME_TO_END, connections.join_all()).await;
        for session in shared.sessions.close_all() {
            shared.log(format_args!("session {:?} closed", session.name));
        }
        shared.log(format_args!("stopped"));
    }
}

impl Shared {
    fn log(&self, line: fmt::Arguments<'_>) {
        (self.log)(line);
    }

    /// The policy with which passwords are encrypted where the channel has
    /// none; `None` when the server has no certificate.
    fn password_policy(&self) -> Option<SecurityPolicy> {
        self.identity
            .as_ref()
            .map(|_| SecurityPolicy::Basic256Sha256)
    }

    fn warn_of_clear_passwords(&self) {
        let clear = self.policies.contains(&SecurityPolicy::None);
        if self.users.is_some() && clear && self.password_policy().is_none() {
            self.log(format_args!(
                "warning: passwords cross the network unencrypted; offer a secure --security-policy or give a --certificate"
            ));
        }
    }

    fn next_channel(&self) -> u32 {
        // 0 is no channel.
        self.last_channel
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_add(1)
            .max(1)
    }

    async fn admit(
        self: &Arc<Self>,
        number: u64,
        stream: TcpStream,
        peer: SocketAddr,
        connections: &mut JoinSet<()>,
    ) {
        let ready = stream.set_nodelay(true).and_then(|()| stream.local_addr());
        let local = match ready {
            Ok(local) => local,
            Err(error) => {
                self.log(format_args!(
                    "connection {number} from {peer} lost: {error}"
                ));
                return;
            }
        };
        if self.connections.lock().len() >= self.most_connections {
            self.log(format_args!(
                "connection {number} from {peer} refused: there are {} already",
                self.most_connections
            ));
            connection::refuse(stream).await;
            return;
        }
        self.log(format_args!("connection {number} from {peer}"));
        let end = self.clock.now() + TIME_TO_OPEN;
        let deadline = Arc::new(AtomicU64::new(end.as_nanos()));
        let (stop, stopped) = oneshot::channel();
        let open = Open {
            deadline: Arc::clone(&deadline),
            stop,
        };
        self.connections.lock().insert(number, open);
        let shared = Arc::clone(self);
        connections.spawn(async move {
            let _registered = Registered(Arc::clone(&shared), number);
            Connection::new(shared, deadline, local)
                .serve(stream, number, stopped)
                .await;
        });
    }

    fn has_clients(&self) -> bool {
        !self.connections.lock().is_empty() || !self.sessions.is_empty()
    }

    /// Ends the sessions and connections whose time is over.
    fn look_around(&self) {
        let now = self.clock.now();
        for session in self.sessions.expire(now) {
            self.log(format_args!(
                "session {:?} closed: nothing was asked of it for too long",
                session.name
            ));
        }
        let over: Vec<_> = self
            .connections
            .lock()
            .extract_if(|_, open| {
                now >= Timestamp::from_nanos(open.deadline.load(Ordering::Relaxed))
            })
            .collect();
        for (_, open) in over {
            let _ = open.stop.send(StatusCode::BadTimeout);
        }
    }
}

/// Takes a connection off the list, however its task ends.
struct Registered(Arc<Shared>, u64);

impl Drop for Registered {
    fn drop(&mut self) {
        self.0.connections.lock().remove(&self.1);
    }
}
