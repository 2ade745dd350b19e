//! The stack `async-opcua`: the crate's own Session, with its tasks and
//! queues. What an application on that crate gets, with `TCP_NODELAY` on top,
//! which the crate does not set.

use std::fs;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use opcua::client::transport::{StreamConnection, StreamConnector};
use opcua::client::{Client, ClientBuilder, ConnectionSource, IdentityToken, Session};
use opcua::core::comms::tcp_codec::TcpCodec;
use opcua::types::{
    DataValue, DecodingOptions, EndpointDescription, Error, StatusCode, TimestampsToReturn,
};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinHandle;
use tokio_util::codec::FramedRead;

use super::{CallError, Chosen, Login, ReadPlan, ReadSession, StackError, Target};
use crate::certificate::Identity;
use crate::endpoint::EndpointUrl;

/// The bounds on waiting are those of this program, not of the crate.
const UNBOUNDED: Duration = Duration::from_hours(24);

/// A session of async-opcua, and the task that runs it.
pub(crate) struct CrateSession {
    session: Arc<Session>,
    event_loop: JoinHandle<StatusCode>,
    plan: ReadPlan,
    values: Vec<DataValue>,
    /// The crate keeps keys and certificates in a folder.
    _pki: TempDir,
}

impl CrateSession {
    /// Opens a session on the endpoint that was chosen.
    pub(crate) async fn open(
        target: &Target<'_>,
        chosen: &Chosen,
        plan: ReadPlan,
    ) -> Result<Self, StackError> {
        let pki = pki(target.identity.as_deref())?;
        let client = client(target, &pki)?;
        let endpoint = EndpointDescription {
            // The host by which the user reaches the server, not the one by
            // which the server knows itself.
            endpoint_url: target.url.to_string().into(),
            ..chosen.endpoint.clone()
        };
        let identity = match &target.login {
            Login::Anonymous => IdentityToken::Anonymous,
            Login::User(name, password) => IdentityToken::new_user_name(name, password.0.as_str()),
        };
        let (session, event_loop) = client
            .session_builder()
            .with_connector(NoDelay)
            .user_identity_token(identity)
            .connect_to_endpoint_directly(endpoint)
            .and_then(|builder| builder.build(Arc::clone(client.certificate_store())))
            .map_err(|error| StackError::Setup(error.to_string()))?;
        session.disable_reconnects();
        let mut event_loop = event_loop.spawn();
        tokio::select! {
            connected = session.wait_for_connection() => {
                if !connected {
                    return Err(StackError::Closed);
                }
            }
            ended = &mut event_loop => {
                return Err(StackError::Session(ended.unwrap_or(StatusCode::BadUnexpectedError)));
            }
        }
        (target.log)(format_args!("session activated"));
        Ok(Self {
            session,
            event_loop,
            plan,
            values: Vec::new(),
            _pki: pki,
        })
    }
}

impl ReadSession for CrateSession {
    async fn read(&mut self) -> Result<&[DataValue], CallError> {
        self.values = self
            .session
            .read(
                &self.plan.nodes,
                TimestampsToReturn::Neither,
                self.plan.max_age,
            )
            .await
            .map_err(|error| CallError::Refused(error.status()).settled())?;
        Ok(&self.values)
    }

    async fn limit(&mut self) -> Option<u32> {
        let nodes = [super::limit_node()];
        let values = self.session.read(&nodes, TimestampsToReturn::Neither, 0.0);
        super::limit_of(&values.await.ok()?)
    }

    async fn close(self) {
        // The session is given up either way.
        let _ = self.session.disconnect().await;
        self.event_loop.abort();
    }
}

/// A folder with the client's certificate and key where the crate looks for
/// them; gone when the session is.
fn pki(identity: Option<&Identity>) -> Result<TempDir, StackError> {
    let folder = tempfile::Builder::new().prefix("opcua-perf-").tempdir()?;
    if let Some(identity) = identity {
        let key = identity
            .key_pem()
            .ok_or_else(|| StackError::Setup("the private key has no PEM form".to_owned()))?;
        fs::write(folder.path().join(CERTIFICATE), identity.der())?;
        fs::write(folder.path().join(KEY), key.as_bytes())?;
    }
    Ok(folder)
}

const CERTIFICATE: &str = "cert.der";
const KEY: &str = "key.pem";

fn client(target: &Target<'_>, pki: &TempDir) -> Result<Client, StackError> {
    ClientBuilder::new()
        .application_name(super::CLIENT_NAME)
        .application_uri(super::application_uri(target.identity.as_deref()))
        .product_uri("urn:opcua-perf")
        .session_name(super::CLIENT_NAME)
        .pki_dir(pki.path())
        .certificate_path(CERTIFICATE)
        .private_key_path(KEY)
        .create_sample_keypair(false)
        .trust_server_certs(true)
        .verify_server_certs(false)
        .channel_lifetime(target.token_lifetime)
        .session_timeout(600_000)
        .session_retry_limit(0)
        .request_timeout(UNBOUNDED)
        .keep_alive_interval(UNBOUNDED)
        .max_array_length(100_000)
        .max_message_size(32 * 1024 * 1024)
        .max_chunk_count(1024)
        .client()
        .map_err(|errors| StackError::Setup(errors.join(", ")))
}

/// Connects as the crate does, and sets `TCP_NODELAY`.
struct NoDelay;

type Connection = StreamConnection<OwnedReadHalf, OwnedWriteHalf>;
type Connecting = Pin<Box<dyn Future<Output = Result<Connection, Error>> + Send + Sync>>;
type Connect = fn(String, DecodingOptions) -> Connecting;

impl ConnectionSource for NoDelay {
    type Builder = StreamConnector<OwnedReadHalf, OwnedWriteHalf, Connect, Connecting>;

    fn get_connector(&self, endpoint: &EndpointDescription) -> Result<Self::Builder, Error> {
        let url = endpoint.endpoint_url.to_string();
        Ok(StreamConnector::new(connect, url))
    }
}

fn connect(url: String, options: DecodingOptions) -> Connecting {
    Box::pin(async move {
        let failed = |error: std::io::Error| {
            Error::new(StatusCode::BadConnectionRejected, error.to_string())
        };
        let endpoint: EndpointUrl = url.parse().map_err(|error: crate::endpoint::UrlError| {
            Error::new(StatusCode::BadTcpEndpointUrlInvalid, error.to_string())
        })?;
        let stream = TcpStream::connect((endpoint.host(), endpoint.port()))
            .await
            .map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let (read, write) = stream.into_split();
        let read = FramedRead::new(read, TcpCodec::new(options));
        Ok(StreamConnection::new(read, write, url))
    })
}
