//! `GetEndpoints` and `FindServers` (Part 4, 5.5).

use opcua::crypto::SecurityPolicy;
use opcua::types::{
    ApplicationDescription, ApplicationType, ByteString, EndpointDescription, FindServersRequest,
    FindServersResponse, GetEndpointsRequest, GetEndpointsResponse, LocalizedText,
    MessageSecurityMode, UAString, UserTokenPolicy, UserTokenType,
};

use super::{Call, Refusal, Services, response_header};
use crate::endpoint::EndpointUrl;
use crate::server::address_space::{PRODUCT_NAME, PRODUCT_URI};
use crate::server::{ANONYMOUS, Shared, USER_NAME};

const BINARY_TRANSPORT: &str = "http://opcfoundation.org/UA-Profile/Transport/uatcp-uasc-uabinary";

impl Services {
    pub(super) fn get_endpoints(&mut self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let request: GetEndpointsRequest = call.request()?;
        let profiles = request.profile_uris.unwrap_or_default();
        let wanted =
            profiles.is_empty() || profiles.iter().any(|uri| uri.as_ref() == BINARY_TRANSPORT);
        let url = self.url_for(&request.endpoint_url);
        let response = GetEndpointsResponse {
            response_header: response_header(&request.request_header),
            endpoints: Some(if wanted {
                endpoints(call.shared, &url)
            } else {
                Vec::new()
            }),
        };
        call.respond(&response)
    }

    pub(super) fn find_servers(&mut self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let request: FindServersRequest = call.request()?;
        let server = application(call.shared, &self.url_for(&request.endpoint_url));
        let uris = request.server_uris.unwrap_or_default();
        let wanted = uris.is_empty() || uris.contains(&server.application_uri);
        let response = FindServersResponse {
            response_header: response_header(&request.request_header),
            servers: Some(if wanted { vec![server] } else { Vec::new() }),
        };
        call.respond(&response)
    }

    /// The URL under which a client is told to find this server: the host that
    /// it used itself, so that it works from where the client is.
    pub(super) fn url_for(&self, asked: &UAString) -> EndpointUrl {
        asked
            .as_ref()
            .parse::<EndpointUrl>()
            .map_or_else(|_| self.url.clone(), |url| url.with_port(self.url.port()))
    }
}

/// One endpoint for each policy and mode that the server offers.
pub(super) fn endpoints(shared: &Shared, url: &EndpointUrl) -> Vec<EndpointDescription> {
    shared
        .policies
        .iter()
        .flat_map(|&policy| modes(policy).iter().map(move |&mode| (policy, mode)))
        .map(|(policy, mode)| EndpointDescription {
            endpoint_url: url.to_string().into(),
            server: application(shared, url),
            server_certificate: certificate(shared),
            security_mode: mode,
            security_policy_uri: policy.to_uri().into(),
            user_identity_tokens: Some(token_policies(shared, policy)),
            transport_profile_uri: BINARY_TRANSPORT.into(),
            security_level: level(policy, mode),
        })
        .collect()
}

/// The server's certificate; null when it has none.
pub(super) fn certificate(shared: &Shared) -> ByteString {
    shared
        .identity
        .as_ref()
        .map_or_else(ByteString::null, |identity| {
            ByteString::from(identity.der())
        })
}

/// The modes that go with a policy.
pub(crate) const fn modes(policy: SecurityPolicy) -> &'static [MessageSecurityMode] {
    match policy {
        SecurityPolicy::None => &[MessageSecurityMode::None],
        _ => &[
            MessageSecurityMode::Sign,
            MessageSecurityMode::SignAndEncrypt,
        ],
    }
}

/// Higher is better; clients that are not told what to use take the highest.
fn level(policy: SecurityPolicy, mode: MessageSecurityMode) -> u8 {
    let policy = match policy {
        SecurityPolicy::None | SecurityPolicy::Unknown => return 0,
        SecurityPolicy::Basic128Rsa15 => 1,
        SecurityPolicy::Basic256 => 2,
        SecurityPolicy::Basic256Sha256 => 3,
        SecurityPolicy::Aes128Sha256RsaOaep => 4,
        SecurityPolicy::Aes256Sha256RsaPss => 5,
    };
    if mode == MessageSecurityMode::SignAndEncrypt {
        policy + 10
    } else {
        policy
    }
}

fn application(shared: &Shared, url: &EndpointUrl) -> ApplicationDescription {
    ApplicationDescription {
        application_uri: shared.application_uri.as_str().into(),
        product_uri: PRODUCT_URI.into(),
        application_name: LocalizedText::new("en", PRODUCT_NAME),
        application_type: ApplicationType::Server,
        gateway_server_uri: UAString::null(),
        discovery_profile_uri: UAString::null(),
        discovery_urls: Some(vec![url.to_string().into()]),
    }
}

fn token_policies(shared: &Shared, policy: SecurityPolicy) -> Vec<UserTokenPolicy> {
    let token = |id: &str, token_type, security_policy_uri| UserTokenPolicy {
        policy_id: id.into(),
        token_type,
        issued_token_type: UAString::null(),
        issuer_endpoint_url: UAString::null(),
        security_policy_uri,
    };
    let none = SecurityPolicy::None.to_uri();
    let mut policies = vec![token(ANONYMOUS, UserTokenType::Anonymous, none.into())];
    if shared.users.is_some() {
        // Null is the endpoint's own policy. Where that is None, a server with
        // a certificate still has passwords encrypted for it.
        let encryption = match (policy, shared.password_policy()) {
            (SecurityPolicy::None, Some(policy)) => policy.to_uri().into(),
            (SecurityPolicy::None, None) => none.into(),
            _ => UAString::null(),
        };
        policies.push(token(USER_NAME, UserTokenType::UserName, encryption));
    }
    policies
}
