//! The stacks that carry a read, one file each; nothing else names what is in
//! them.
//!
//! `raw` is a request loop on a socket, `session` the Session of
//! async-opcua. Both are handed an endpoint that `discovery` chose.

mod discovery;
mod exchange;
pub(crate) mod raw;
pub(crate) mod session;

use std::fmt;
use std::io;
use std::sync::Arc;

use opcua::crypto::SecurityPolicy;
use opcua::types::{
    AttributeId, DataValue, EndpointDescription, MessageSecurityMode, ReadValueId, StatusCode,
    UserTokenPolicy, VariableId, Variant,
};

pub(crate) use self::discovery::discover;
use perf_core::report;

use crate::certificate::Identity;
use crate::endpoint::EndpointUrl;
use crate::policy::Policy;
use crate::wire::ProtocolError;

/// What the client calls itself.
const CLIENT_NAME: &str = "opcua-perf-client";

/// The client's application URI: the one in its certificate, if it has one.
fn application_uri(identity: Option<&Identity>) -> String {
    identity
        .and_then(Identity::application_uri)
        .unwrap_or_else(|| crate::certificate::uri_of_this_host(CLIENT_NAME))
}

/// Which stack carries the reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum StackKind {
    /// A request loop on a socket: the floor
    Raw,
    /// The crate async-opcua's Session: what an application on it gets
    AsyncOpcua,
}

/// The version of async-opcua that both stacks stand on.
const ASYNC_OPCUA: &str = "0.19.0";

impl StackKind {
    /// The stack as a report shows it.
    #[must_use]
    pub const fn describe(self) -> report::Stack {
        report::Stack {
            name: match self {
                Self::Raw => "raw",
                Self::AsyncOpcua => "async-opcua",
            },
            crate_name: "async-opcua",
            version: ASYNC_OPCUA,
        }
    }
}

/// A secret that is not shown.
#[derive(Clone)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// As whom a client logs in.
#[derive(Debug, Clone)]
pub enum Login {
    /// As no one in particular.
    Anonymous,
    /// By name and password.
    User(String, Password),
}

/// The server that is wanted, and how.
pub(crate) struct Target<'a> {
    pub(crate) url: EndpointUrl,
    pub(crate) policy: SecurityPolicy,
    pub(crate) mode: MessageSecurityMode,
    /// Absent under the policy None.
    pub(crate) identity: Option<Arc<Identity>>,
    pub(crate) login: Login,
    /// How long a security token is to live, in milliseconds.
    pub(crate) token_lifetime: u32,
    /// Where the steps of connecting are written.
    pub(crate) log: &'a dyn Fn(fmt::Arguments<'_>),
}

/// The endpoint and the user token policy that were chosen.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) endpoint: EndpointDescription,
    pub(crate) token: UserTokenPolicy,
}

/// What is read, over and over.
#[derive(Debug, Clone)]
pub(crate) struct ReadPlan {
    pub(crate) nodes: Vec<ReadValueId>,
    /// In milliseconds (Part 4, 5.11.2): 0 asks for a value taken now.
    pub(crate) max_age: f64,
}

/// A session that reads what its plan says.
pub(crate) trait ReadSession {
    /// One Read request and its response; a value for each node of the plan.
    fn read(&mut self) -> impl Future<Output = Result<&[DataValue], CallError>>;

    /// The most nodes that the server says it takes in one read
    /// (`MaxNodesPerRead`, Part 5, 6.3.11); `None` when it says nothing.
    fn limit(&mut self) -> impl Future<Output = Option<u32>>;

    /// Closes the session, and what is below it.
    fn close(self) -> impl Future<Output = ()>;
}

/// The node that tells [`ReadSession::limit`].
fn limit_node() -> ReadValueId {
    ReadValueId {
        node_id: VariableId::Server_ServerCapabilities_OperationLimits_MaxNodesPerRead.into(),
        attribute_id: AttributeId::Value as u32,
        ..ReadValueId::default()
    }
}

/// Its value; 0 is no limit.
fn limit_of(values: &[DataValue]) -> Option<u32> {
    match values.first()?.value {
        Some(Variant::UInt32(limit)) if limit > 0 => Some(limit),
        _ => None,
    }
}

/// Why a service gave no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The server refused this one; the session is still there.
    #[error("{0}")]
    Refused(StatusCode),
    /// There is nothing left to ask.
    #[error(transparent)]
    Lost(#[from] StackError),
}

impl From<ProtocolError> for CallError {
    fn from(error: ProtocolError) -> Self {
        Self::Lost(error.into())
    }
}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        Self::Lost(error.into())
    }
}

/// What went wrong between this end and the server.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// No connection.
    #[error("no connection to {url}; does a server listen there?")]
    Connect {
        /// Where to.
        url: EndpointUrl,
        /// Why.
        source: io::Error,
    },
    /// The server closed the connection without a word.
    #[error("the server closed the connection")]
    Closed,
    /// The connection broke.
    #[error("the connection broke")]
    Io(#[from] io::Error),
    /// One end broke the protocol, or the server said why it closes.
    #[error("{reason} ({status})")]
    Protocol {
        /// The error as the protocol has it.
        status: StatusCode,
        /// The error in words.
        reason: String,
    },
    /// A service that is needed was refused.
    #[error("the server refused {service}: {status}")]
    Service {
        /// Its name.
        service: &'static str,
        /// Why.
        status: StatusCode,
    },
    /// The server does not offer the wanted security.
    #[error(
        "the server has no endpoint with SecurityPolicy {policy} and SecurityMode {mode:?}; it offers {offered}: choose with --security-policy and --security-mode"
    )]
    NoEndpoint {
        /// What was wanted.
        policy: Policy,
        /// What was wanted.
        mode: MessageSecurityMode,
        /// What there is.
        offered: String,
    },
    /// The server does not take the wanted kind of user.
    #[error("the server takes no {wanted} there, only {offered}{hint}")]
    NoToken {
        /// What was wanted.
        wanted: &'static str,
        /// What there is.
        offered: String,
        /// What to do.
        hint: &'static str,
    },
    /// The server's signature is wrong.
    #[error("the server cannot prove that it owns its certificate")]
    ServerSignature,
    /// The session of async-opcua ended.
    #[error("async-opcua's session ended: {0}")]
    Session(StatusCode),
    /// async-opcua could not be set up.
    #[error("async-opcua cannot be set up: {0}")]
    Setup(String),
}

impl From<ProtocolError> for StackError {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol {
            status: error.status,
            reason: error.reason,
        }
    }
}

impl CallError {
    /// The same, unless it says that the session or the channel is gone and no
    /// later request can do better.
    pub(crate) fn settled(self) -> Self {
        match self {
            Self::Refused(
                status @ (StatusCode::BadSessionIdInvalid
                | StatusCode::BadSessionClosed
                | StatusCode::BadSessionNotActivated
                | StatusCode::BadSecureChannelClosed
                | StatusCode::BadSecureChannelIdInvalid
                | StatusCode::BadSecureChannelTokenUnknown
                | StatusCode::BadConnectionClosed
                | StatusCode::BadNotConnected
                | StatusCode::BadServerNotConnected
                | StatusCode::BadServerHalted
                | StatusCode::BadShutdown),
            ) => Self::Lost(StackError::Service {
                service: "a read",
                status,
            }),
            other => other,
        }
    }

    /// The same, for a service without which there is no session.
    pub(crate) fn during(self, service: &'static str) -> StackError {
        match self {
            Self::Refused(status) => StackError::Service { service, status },
            Self::Lost(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use opcua::sync::Mutex;
    use perf_core::clock::{Clock, MonotonicClock};

    use super::raw::RawSession;
    use super::session::CrateSession;
    use super::*;
    use crate::read_loop::default_node;
    use crate::server::{Server, ServerConfig};

    /// Reads for 1.5 s with tokens that live 1 s.
    async fn read_over_a_renewal(mut session: impl ReadSession) {
        let clock = MonotonicClock::new();
        while Duration::from_nanos(clock.now().as_nanos()) < Duration::from_millis(1500) {
            let values = session.read().await.unwrap();
            assert!(matches!(values[0].value, Some(Variant::UInt64(_))));
        }
        session.close().await;
    }

    #[tokio::test]
    async fn tokens_are_renewed_in_the_middle_of_a_run() {
        let seen = Arc::new(Mutex::new(String::new()));
        let log = Arc::clone(&seen);
        let server = Server::bind(ServerConfig {
            listen: "opc.tcp://127.0.0.1:0".parse().unwrap(),
            policies: vec![SecurityPolicy::Basic256Sha256],
            identity: None,
            users: None,
            max_sessions: 2,
            spin: false,
            log: Arc::new(move |line| {
                let mut log = log.lock();
                log.push_str(&line.to_string());
                log.push('\n');
            }),
        })
        .await
        .unwrap();
        let target = Target {
            url: server.url().clone(),
            policy: SecurityPolicy::Basic256Sha256,
            mode: MessageSecurityMode::SignAndEncrypt,
            identity: Some(crate::certificate::tests::alice()),
            login: Login::Anonymous,
            token_lifetime: 1000,
            log: &|_| (),
        };
        let plan = ReadPlan {
            nodes: vec![ReadValueId {
                node_id: default_node(),
                attribute_id: AttributeId::Value as u32,
                ..ReadValueId::default()
            }],
            max_age: 0.0,
        };
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn(server.run(async { drop(stopped.await) }));
        let (chosen, unsecured) = discover(&target).await.unwrap();
        let open = RawSession::open(&target, &chosen, unsecured, plan.clone());
        read_over_a_renewal(Box::pin(open).await.unwrap()).await;
        assert!(seen.lock().contains("secure channel 2 renewed"));
        let open = CrateSession::open(&target, &chosen, plan);
        read_over_a_renewal(Box::pin(open).await.unwrap()).await;
        assert!(seen.lock().contains("secure channel 3 renewed"));
        stop.send(()).unwrap();
        running.await.unwrap();
        assert!(seen.lock().ends_with("stopped\n"));
    }

    #[test]
    fn the_version_is_that_of_the_lock_file() {
        // The workspace's, or in a package its own.
        let lock = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .find_map(|folder| std::fs::read_to_string(folder.join("Cargo.lock")).ok())
            .unwrap();
        let entry = format!("name = \"async-opcua\"\nversion = \"{ASYNC_OPCUA}\"");
        assert!(lock.contains(&entry));
    }
}
