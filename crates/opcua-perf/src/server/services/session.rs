//! `CreateSession`, `ActivateSession`, `CloseSession` (Part 4, 5.7).

use std::sync::Arc;

use opcua::crypto::{
    KeySize, PrivateKey, SecurityPolicy, create_signature_data, verify_signature_data,
};
use opcua::types::{
    ActivateSessionRequest, ActivateSessionResponse, AnonymousIdentityToken, ByteString,
    CloseSessionRequest, CloseSessionResponse, CreateSessionRequest, CreateSessionResponse,
    ExtensionObject, RequestHeader, SignatureData, StatusCode, UserNameIdentityToken,
};

use super::discovery::{certificate, endpoints};
use super::{Call, Fault, Refusal, Refuse, Services, response_header};
use crate::server::sessions::{Session, Wanted, milliseconds};
use crate::server::{ANONYMOUS, Shared, USER_NAME};

/// No more than this of a client's name for its session is kept and logged.
const LONGEST_NAME: usize = 64;

impl Services {
    pub(super) fn create_session(&mut self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let request: CreateSessionRequest = call.request()?;
        let header = &request.request_header;
        let refuse = |status| Refusal::from(header.refuse(status));
        let channel = call.channel;
        if !call.shared.policies.contains(&channel.policy()) {
            return Err(refuse(StatusCode::BadSecurityPolicyRejected));
        }
        let secure = channel.policy() != SecurityPolicy::None;
        if secure && request.client_nonce.as_ref().len() < 32 {
            return Err(refuse(StatusCode::BadNonceInvalid));
        }
        if let Some(peer) = channel.peer()
            && !request.client_certificate.as_ref().starts_with(peer.der())
        {
            return Err(refuse(StatusCode::BadCertificateInvalid));
        }
        let wanted = Wanted {
            name: request
                .session_name
                .as_ref()
                .chars()
                .take(LONGEST_NAME)
                .collect(),
            timeout_ms: request.requested_session_timeout,
            policy: channel.policy(),
            mode: channel.mode(),
            certificate: channel.peer().map_or_else(Vec::new, |p| p.der().to_vec()),
            channel: channel.id(),
        };
        let server_signature = match &call.shared.identity {
            Some(identity) if secure => create_signature_data(
                identity.key(),
                channel.policy(),
                &request.client_certificate,
                &request.client_nonce,
            )
            .map_err(|error| refuse(error.status()))?,
            _ => SignatureData::null(),
        };
        let session = call
            .shared
            .sessions
            .create(wanted, call.now)
            .map_err(refuse)?;
        call.log(format_args!(
            "session {:?} created, timeout {:?}",
            session.name, session.timeout
        ));
        let response = CreateSessionResponse {
            response_header: response_header(header),
            session_id: session.id.clone(),
            authentication_token: session.token.clone(),
            revised_session_timeout: milliseconds(session.timeout),
            server_nonce: session.nonce(),
            server_certificate: certificate(call.shared),
            server_endpoints: Some(endpoints(call.shared, &self.url_for(&request.endpoint_url))),
            server_software_certificates: None,
            server_signature,
            max_request_message_size: 0,
        };
        self.sessions.push(session);
        call.respond(&response)
    }

    pub(super) fn activate_session(&mut self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let request: ActivateSessionRequest = call.request()?;
        let header = &request.request_header;
        let refuse = |status| Refusal::from(header.refuse(status));
        let channel = call.channel;
        let session = call
            .shared
            .sessions
            .find(&header.authentication_token)
            .ok_or_else(|| refuse(StatusCode::BadSessionIdInvalid))?;
        if session.policy != channel.policy()
            || session.mode != channel.mode()
            || session.certificate != channel.peer().map_or(&[][..], |peer| peer.der())
        {
            return Err(refuse(StatusCode::BadSecurityChecksFailed));
        }
        if let (Some(identity), Some(peer)) = (&call.shared.identity, channel.peer()) {
            verify_signature_data(
                &request.client_signature,
                channel.policy(),
                peer.x509(),
                identity.x509(),
                session.nonce().as_ref(),
            )
            .map_err(|_| refuse(StatusCode::BadApplicationSignatureInvalid))?;
        }
        let user = log_in(call.shared, &session, &request.user_identity_token)
            .and_then(|user| session.activate(&user, channel.id()).map(|()| user))
            .map_err(|status| {
                call.log(format_args!(
                    "session {:?} not activated: {status}",
                    session.name
                ));
                refuse(status)
            })?;
        call.log(format_args!(
            "session {:?} activated for {user:?}",
            session.name
        ));
        let response = ActivateSessionResponse {
            response_header: response_header(header),
            server_nonce: session.renew_nonce(),
            results: None,
            diagnostic_infos: None,
        };
        if !self
            .sessions
            .iter()
            .any(|known| Arc::ptr_eq(known, &session))
        {
            self.sessions.push(session);
        }
        call.respond(&response)
    }

    pub(super) fn close_session(&mut self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let request: CloseSessionRequest = call.request()?;
        let header = &request.request_header;
        let at = self.position(header)?;
        let session = self.sessions.swap_remove(at);
        if call.shared.sessions.close(&session) {
            call.log(format_args!("session {:?} closed", session.name));
        }
        let response = CloseSessionResponse {
            response_header: response_header(header),
        };
        call.respond(&response)
    }

    fn position(&self, header: &RequestHeader) -> Result<usize, Fault> {
        self.sessions
            .iter()
            .position(|session| session.token == header.authentication_token)
            .ok_or_else(|| header.refuse(StatusCode::BadSessionIdInvalid))
    }
}

/// Who the token says it is, if that is right.
fn log_in(
    shared: &Shared,
    session: &Session,
    token: &ExtensionObject,
) -> Result<String, StatusCode> {
    if token.is_null() {
        return Ok(ANONYMOUS.to_owned());
    }
    if let Some(token) = token.inner_as::<AnonymousIdentityToken>() {
        return if token.policy_id.as_ref() == ANONYMOUS {
            Ok(ANONYMOUS.to_owned())
        } else {
            Err(StatusCode::BadIdentityTokenInvalid)
        };
    }
    let (Some(token), Some(users)) = (token.inner_as::<UserNameIdentityToken>(), &shared.users)
    else {
        return Err(StatusCode::BadIdentityTokenRejected);
    };
    if token.policy_id.as_ref() != USER_NAME {
        return Err(StatusCode::BadIdentityTokenInvalid);
    }
    let user = token.user_name.as_ref();
    let password = password(shared, session, token)?;
    if users.admit(user, &password) {
        Ok(user.chars().take(LONGEST_NAME).collect())
    } else {
        Err(StatusCode::BadUserAccessDenied)
    }
}

/// The password in clear (Part 4, 7.40.2.2: length, password and the server's
/// nonce, encrypted with the server's key).
fn password(
    shared: &Shared,
    session: &Session,
    token: &UserNameIdentityToken,
) -> Result<Vec<u8>, StatusCode> {
    let secret = token.password.as_ref();
    let algorithm = token.encryption_algorithm.as_ref();
    let invalid = StatusCode::BadIdentityTokenInvalid;
    if algorithm.is_empty() {
        // In clear, where the endpoint said so or the channel encrypts.
        let offered = session.policy == SecurityPolicy::None && shared.password_policy().is_none();
        return if offered {
            Ok(secret.to_vec())
        } else {
            Err(invalid)
        };
    }
    let policy = policy_of(algorithm).ok_or(invalid)?;
    let key = shared.identity.as_ref().ok_or(invalid)?.key();
    let plain = decrypt(policy, key, secret).ok_or(invalid)?;
    let (&length, rest) = plain.split_first_chunk().ok_or(invalid)?;
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(|_| invalid)?;
    let (secret, padding) = rest.split_at_checked(length).ok_or(invalid)?;
    if padding.iter().any(|&b| b != 0) {
        return Err(invalid);
    }
    let nonce: ByteString = session.nonce();
    secret
        .strip_suffix(nonce.as_ref())
        .map(<[u8]>::to_vec)
        .ok_or(invalid)
}

fn policy_of(algorithm: &str) -> Option<SecurityPolicy> {
    [
        SecurityPolicy::Aes256Sha256RsaPss,
        SecurityPolicy::Basic256Sha256,
        SecurityPolicy::Basic128Rsa15,
    ]
    .into_iter()
    .find(|policy| policy.asymmetric_encryption_algorithm() == Some(algorithm))
}

fn decrypt(policy: SecurityPolicy, key: &PrivateKey, secret: &[u8]) -> Option<Vec<u8>> {
    if secret.is_empty() || !secret.len().is_multiple_of(key.size()) {
        return None;
    }
    let mut plain = vec![0; secret.len()];
    let length = policy.asymmetric_decrypt(key, secret, &mut plain).ok()?;
    plain.truncate(length);
    Some(plain)
}
