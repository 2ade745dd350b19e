//! Which endpoint of the server, and which user token (Part 4, 5.5.4).
//!
//! Asked for without security, over a connection of its own, which is kept for
//! the session when that has none either.

use opcua::crypto::SecurityPolicy;
use opcua::types::{
    EndpointDescription, GetEndpointsRequest, GetEndpointsResponse, MessageSecurityMode, NodeId,
    UAString, UserTokenPolicy, UserTokenType,
};

use super::exchange::{Exchange, Security};
use super::{Chosen, Login, StackError, Target};
use crate::policy::Policy;

/// Finds the endpoint; gives the unsecured channel too, for whom it is enough.
pub(crate) async fn discover(target: &Target<'_>) -> Result<(Chosen, Unsecured), StackError> {
    let mut exchange = Exchange::open(target, Security::NONE).await?;
    let request = GetEndpointsRequest {
        request_header: exchange.header(&NodeId::null()),
        endpoint_url: target.url.to_string().into(),
        locale_ids: None,
        profile_uris: None,
    };
    let response: GetEndpointsResponse = exchange
        .call(&request)
        .await
        .map_err(|error| error.during("GetEndpoints"))?;
    let endpoints = response.endpoints.unwrap_or_default();
    (target.log)(format_args!("endpoints found: {}", endpoints.len()));
    let chosen = choose(target, &endpoints)?;
    (target.log)(format_args!(
        "endpoint {} selected with SecurityMode {:?} and SecurityPolicy {}",
        chosen.endpoint.endpoint_url,
        target.mode,
        Policy(target.policy)
    ));
    (target.log)(format_args!(
        "user token policy {:?} selected ({:?})",
        chosen.token.policy_id.as_ref(),
        chosen.token.token_type
    ));
    if crosses_in_clear(target, &chosen.token) {
        (target.log)(format_args!(
            "warning: the password crosses the network unencrypted"
        ));
    }
    Ok((chosen, Unsecured(exchange)))
}

/// A channel without security.
pub(crate) struct Unsecured(pub(super) Exchange);

impl Unsecured {
    /// Closes it.
    pub(crate) async fn close(self) {
        self.0.close().await;
    }
}

fn choose(target: &Target<'_>, endpoints: &[EndpointDescription]) -> Result<Chosen, StackError> {
    let endpoint = endpoints
        .iter()
        .filter(|endpoint| {
            endpoint.security_policy_uri.as_ref() == target.policy.to_uri()
                && endpoint.security_mode == target.mode
                && endpoint.endpoint_url.as_ref().starts_with("opc.tcp:")
        })
        .max_by_key(|endpoint| endpoint.security_level)
        .ok_or_else(|| StackError::NoEndpoint {
            policy: Policy(target.policy),
            mode: target.mode,
            offered: offered(endpoints),
        })?;
    Ok(Chosen {
        endpoint: endpoint.clone(),
        token: choose_token(&target.login, endpoint)?,
    })
}

fn offered(endpoints: &[EndpointDescription]) -> String {
    let mut list = Vec::new();
    for endpoint in endpoints {
        let uri = endpoint.security_policy_uri.as_ref();
        let name = uri.rsplit_once('#').map_or(uri, |(_, name)| name);
        let entry = format!("{name}/{:?}", endpoint.security_mode);
        if !list.contains(&entry) {
            list.push(entry);
        }
    }
    if list.is_empty() {
        return "none".to_owned();
    }
    list.join(", ")
}

fn choose_token(
    login: &Login,
    endpoint: &EndpointDescription,
) -> Result<UserTokenPolicy, StackError> {
    let tokens = endpoint.user_identity_tokens.as_deref().unwrap_or_default();
    let (wanted, kind, hint) = match login {
        Login::Anonymous => (
            "anonymous user",
            UserTokenType::Anonymous,
            "; log in with --user",
        ),
        Login::User(..) => ("user name", UserTokenType::UserName, ""),
    };
    if tokens.is_empty() && kind == UserTokenType::Anonymous {
        // Old servers list nothing when they take anyone.
        return Ok(UserTokenPolicy {
            policy_id: UAString::null(),
            token_type: kind,
            issued_token_type: UAString::null(),
            issuer_endpoint_url: UAString::null(),
            security_policy_uri: UAString::null(),
        });
    }
    tokens
        .iter()
        .find(|token| token.token_type == kind && is_known(&token.security_policy_uri))
        .cloned()
        .ok_or_else(|| StackError::NoToken {
            wanted,
            offered: tokens
                .iter()
                .map(|token| format!("{:?}", token.token_type))
                .collect::<Vec<_>>()
                .join(", "),
            hint,
        })
}

fn is_known(policy_uri: &UAString) -> bool {
    policy_uri.is_empty()
        || SecurityPolicy::from_uri(policy_uri.as_ref()) != SecurityPolicy::Unknown
}

/// Whether a password is encrypted for the server's certificate (Part 4,
/// 7.41: with the token's policy, or the channel's if it names none).
pub(super) fn encrypts_password(target: &Target<'_>, token: &UserTokenPolicy) -> bool {
    let own = token.security_policy_uri.as_ref();
    if own.is_empty() {
        target.policy != SecurityPolicy::None
    } else {
        own != SecurityPolicy::None.to_uri()
    }
}

/// Whether a password would be readable on the network.
fn crosses_in_clear(target: &Target<'_>, token: &UserTokenPolicy) -> bool {
    token.token_type == UserTokenType::UserName
        && !encrypts_password(target, token)
        && target.mode != MessageSecurityMode::SignAndEncrypt
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::Password;

    fn token(id: &str, token_type: UserTokenType, policy: &str) -> UserTokenPolicy {
        UserTokenPolicy {
            policy_id: id.into(),
            token_type,
            issued_token_type: UAString::null(),
            issuer_endpoint_url: UAString::null(),
            security_policy_uri: policy.into(),
        }
    }

    fn endpoint(
        policy: SecurityPolicy,
        mode: MessageSecurityMode,
        tokens: Vec<UserTokenPolicy>,
    ) -> EndpointDescription {
        EndpointDescription {
            endpoint_url: "opc.tcp://elsewhere:1".into(),
            security_policy_uri: policy.to_uri().into(),
            security_mode: mode,
            user_identity_tokens: Some(tokens),
            ..EndpointDescription::default()
        }
    }

    fn target(login: Login) -> Target<'static> {
        Target {
            url: "opc.tcp://h".parse().unwrap(),
            policy: SecurityPolicy::None,
            mode: MessageSecurityMode::None,
            identity: None,
            login,
            token_lifetime: 1000,
            log: &|_| (),
        }
    }

    fn user() -> Login {
        Login::User("u".to_owned(), Password("p".to_owned()))
    }

    #[test]
    fn the_endpoint_is_the_one_that_was_asked_for() {
        let anonymous = || vec![token("a", UserTokenType::Anonymous, "")];
        let none = endpoint(SecurityPolicy::None, MessageSecurityMode::None, anonymous());
        let secure = endpoint(
            SecurityPolicy::Basic256Sha256,
            MessageSecurityMode::Sign,
            anonymous(),
        );
        let target = target(Login::Anonymous);
        let chosen = choose(&target, &[secure.clone(), none]).unwrap();
        assert_eq!(chosen.endpoint.security_mode, MessageSecurityMode::None);
        assert_eq!(chosen.token.policy_id.as_ref(), "a");
        let error = choose(&target, &[secure]).unwrap_err().to_string();
        assert!(
            error.contains("offers Basic256Sha256/Sign: choose with --security-policy"),
            "{error}"
        );
        assert!(
            choose(&target, &[])
                .unwrap_err()
                .to_string()
                .contains("offers none")
        );
    }

    #[test]
    fn the_token_is_of_the_kind_that_was_asked_for() {
        let tokens = vec![
            token("c", UserTokenType::Certificate, ""),
            token("x", UserTokenType::UserName, "urn:unknown"),
            token("u", UserTokenType::UserName, ""),
        ];
        let endpoint = endpoint(SecurityPolicy::None, MessageSecurityMode::None, tokens);
        assert_eq!(
            choose_token(&user(), &endpoint).unwrap().policy_id.as_ref(),
            "u"
        );
        let error = choose_token(&Login::Anonymous, &endpoint)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("only Certificate, UserName, UserName; log in with --user"),
            "{error}"
        );
        let bare = EndpointDescription::default();
        assert!(choose_token(&Login::Anonymous, &bare).is_ok());
        assert!(choose_token(&user(), &bare).is_err());
    }

    #[test]
    fn a_password_in_clear_is_noticed() {
        let kind = UserTokenType::UserName;
        let none = SecurityPolicy::None.to_uri();
        let basic = SecurityPolicy::Basic256Sha256.to_uri();
        let mut target = target(user());
        assert!(crosses_in_clear(&target, &token("u", kind, "")));
        assert!(crosses_in_clear(&target, &token("u", kind, none)));
        assert!(!crosses_in_clear(&target, &token("u", kind, basic)));
        target.policy = SecurityPolicy::Basic256Sha256;
        target.mode = MessageSecurityMode::Sign;
        assert!(!crosses_in_clear(&target, &token("u", kind, "")));
        assert!(crosses_in_clear(&target, &token("u", kind, none)));
        target.mode = MessageSecurityMode::SignAndEncrypt;
        assert!(!crosses_in_clear(&target, &token("u", kind, none)));
    }
}
