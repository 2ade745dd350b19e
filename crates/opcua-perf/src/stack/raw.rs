//! The stack `raw`: a request loop on a socket, with async-opcua's codec and
//! cryptography and nothing of its tasks and queues.

use opcua::crypto::{create_signature_data, legacy_encrypt_secret, random, verify_signature_data};
use opcua::types::{
    ActivateSessionRequest, ActivateSessionResponse, AnonymousIdentityToken,
    ApplicationDescription, ApplicationType, ByteString, CloseSessionRequest, CloseSessionResponse,
    CreateSessionRequest, CreateSessionResponse, DataValue, ExtensionObject, LocalizedText, NodeId,
    ReadRequest, SignatureData, TimestampsToReturn, UAString, UserNameIdentityToken,
};

use super::discovery::{Unsecured, encrypts_password};
use super::exchange::{Exchange, Prepared, Security, Values};
use super::{CallError, Chosen, Login, ReadPlan, ReadSession, StackError, Target};
use crate::certificate::PeerCertificate;

/// What a nonce of a session must have at least (Part 4, 5.7.2).
const NONCE: usize = 32;

/// How long the server is to keep the session without a request, in
/// milliseconds.
const SESSION_TIMEOUT: f64 = 600_000.0;

/// A session on an [`Exchange`].
pub(crate) struct RawSession {
    exchange: Exchange,
    token: NodeId,
    request: Prepared,
    values: Vec<DataValue>,
}

impl RawSession {
    /// Opens a session on the endpoint that was chosen.
    pub(crate) async fn open(
        target: &Target<'_>,
        chosen: &Chosen,
        unsecured: Unsecured,
        plan: ReadPlan,
    ) -> Result<Self, StackError> {
        let mut exchange = match &target.identity {
            None => unsecured.0,
            Some(identity) => {
                unsecured.close().await;
                let server = PeerCertificate::parse(chosen.endpoint.server_certificate.as_ref())?;
                let security = Security {
                    policy: target.policy,
                    mode: target.mode,
                    certificates: Some((identity.clone(), server)),
                };
                Exchange::open(target, security).await?
            }
        };
        let (token, nonce) = create(&mut exchange, target).await?;
        activate(&mut exchange, target, chosen, &token, &nonce).await?;
        (target.log)(format_args!("session activated"));
        let request = ReadRequest {
            request_header: exchange.header(&token),
            max_age: plan.max_age,
            timestamps_to_return: TimestampsToReturn::Neither,
            nodes_to_read: Some(plan.nodes),
        };
        let request = exchange.prepare(&request, &token)?;
        Ok(Self {
            exchange,
            token,
            request,
            values: Vec::new(),
        })
    }
}

impl ReadSession for RawSession {
    async fn read(&mut self) -> Result<&[DataValue], CallError> {
        self.exchange.keep_open().await?;
        let repeated = self.exchange.repeat(&mut self.request).await;
        Values(self.values) = repeated.map_err(CallError::settled)?;
        Ok(&self.values)
    }

    async fn limit(&mut self) -> Option<u32> {
        let request = ReadRequest {
            request_header: self.exchange.header(&self.token),
            max_age: 0.0,
            timestamps_to_return: TimestampsToReturn::Neither,
            nodes_to_read: Some(vec![super::limit_node()]),
        };
        let Values(values) = self.exchange.call(&request).await.ok()?;
        super::limit_of(&values)
    }

    async fn close(mut self) {
        let request = CloseSessionRequest {
            request_header: self.exchange.header(&self.token),
            delete_subscriptions: true,
        };
        // The session is given up either way.
        let _: Result<CloseSessionResponse, _> = self.exchange.call(&request).await;
        self.exchange.close().await;
    }
}

/// `CreateSession` (Part 4, 5.7.2): gives the session's token and the server's
/// nonce.
async fn create(
    exchange: &mut Exchange,
    target: &Target<'_>,
) -> Result<(NodeId, ByteString), StackError> {
    let nonce = random::byte_string(NONCE);
    let certificate = target
        .identity
        .as_ref()
        .map_or_else(ByteString::null, |identity| {
            ByteString::from(identity.der())
        });
    let request = CreateSessionRequest {
        request_header: exchange.header(&NodeId::null()),
        client_description: description(target),
        server_uri: UAString::null(),
        endpoint_url: target.url.to_string().into(),
        session_name: super::CLIENT_NAME.into(),
        client_nonce: nonce.clone(),
        client_certificate: certificate,
        requested_session_timeout: SESSION_TIMEOUT,
        max_response_message_size: 0,
    };
    let response: CreateSessionResponse = exchange
        .call(&request)
        .await
        .map_err(|error| error.during("CreateSession"))?;
    if let (Some(identity), Some(server)) = (&target.identity, exchange.server_certificate()) {
        if !response
            .server_certificate
            .as_ref()
            .starts_with(server.der())
        {
            return Err(StackError::ServerSignature);
        }
        verify_signature_data(
            &response.server_signature,
            target.policy,
            server.x509(),
            identity.x509(),
            nonce.as_ref(),
        )
        .map_err(|_| StackError::ServerSignature)?;
    }
    Ok((response.authentication_token, response.server_nonce))
}

fn description(target: &Target<'_>) -> ApplicationDescription {
    ApplicationDescription {
        application_uri: super::application_uri(target.identity.as_deref()).into(),
        product_uri: "urn:opcua-perf".into(),
        application_name: LocalizedText::new("en", super::CLIENT_NAME),
        application_type: ApplicationType::Client,
        ..ApplicationDescription::default()
    }
}

/// `ActivateSession` (Part 4, 5.7.3).
async fn activate(
    exchange: &mut Exchange,
    target: &Target<'_>,
    chosen: &Chosen,
    token: &NodeId,
    nonce: &ByteString,
) -> Result<(), StackError> {
    let crypto = |error: opcua::types::Error| StackError::Service {
        service: "ActivateSession",
        status: error.status(),
    };
    let client_signature = match (&target.identity, exchange.server_certificate()) {
        (Some(identity), Some(server)) => create_signature_data(
            identity.key(),
            target.policy,
            &server.as_byte_string(),
            nonce,
        )
        .map_err(crypto)?,
        _ => SignatureData::null(),
    };
    let request = ActivateSessionRequest {
        request_header: exchange.header(token),
        client_signature,
        client_software_certificates: None,
        locale_ids: None,
        user_identity_token: identity_token(target, chosen, nonce)?,
        user_token_signature: SignatureData::null(),
    };
    let _: ActivateSessionResponse = exchange
        .call(&request)
        .await
        .map_err(|error| error.during("ActivateSession"))?;
    Ok(())
}

fn identity_token(
    target: &Target<'_>,
    chosen: &Chosen,
    nonce: &ByteString,
) -> Result<ExtensionObject, StackError> {
    let policy_id = chosen.token.policy_id.clone();
    let (name, password) = match &target.login {
        Login::Anonymous => {
            return Ok(ExtensionObject::new(AnonymousIdentityToken { policy_id }));
        }
        Login::User(name, password) => (name, password),
    };
    let certificate = if encrypts_password(target, &chosen.token) {
        let bytes = chosen.endpoint.server_certificate.as_ref();
        Some(PeerCertificate::parse(bytes)?.x509().clone())
    } else {
        None
    };
    let secret = legacy_encrypt_secret(
        target.policy,
        target.mode,
        &chosen.token,
        nonce.as_ref(),
        &certificate,
        password.0.as_bytes(),
    )
    .map_err(|error| StackError::Protocol {
        status: error.status(),
        reason: "the password cannot be encrypted as the server wants it".to_owned(),
    })?;
    Ok(ExtensionObject::new(UserNameIdentityToken {
        policy_id,
        user_name: name.as_str().into(),
        password: secret.secret,
        encryption_algorithm: secret.encryption_algorithm,
    }))
}
