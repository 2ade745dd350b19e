//! Security policies and modes, as the command lines name them.

use std::fmt;
use std::str::FromStr;

use opcua::crypto::SecurityPolicy;
use opcua::types::MessageSecurityMode;

/// Every policy that there is a choice of, the best last.
const ALL: [(SecurityPolicy, &str); 6] = [
    (SecurityPolicy::None, "None"),
    (SecurityPolicy::Basic128Rsa15, "Basic128Rsa15"),
    (SecurityPolicy::Basic256, "Basic256"),
    (SecurityPolicy::Basic256Sha256, "Basic256Sha256"),
    (SecurityPolicy::Aes128Sha256RsaOaep, "Aes128_Sha256_RsaOaep"),
    (SecurityPolicy::Aes256Sha256RsaPss, "Aes256_Sha256_RsaPss"),
];

/// A security policy (Part 7) by the last part of its URI.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy(pub SecurityPolicy);

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ALL.iter().find(|(policy, _)| *policy == self.0);
        f.write_str(name.map_or("unknown", |(_, name)| name))
    }
}

impl FromStr for Policy {
    type Err = String;

    /// Upper and lower case are the same, and so are `-`, `_` and neither.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |text: &str| {
            text.chars()
                .filter(|c| !matches!(c, '-' | '_'))
                .collect::<String>()
                .to_ascii_lowercase()
        };
        ALL.iter()
            .find(|(_, name)| plain(name) == plain(text))
            .map(|&(policy, _)| Self(policy))
            .ok_or_else(|| {
                let names: Vec<_> = ALL.iter().map(|(_, name)| *name).collect();
                format!("expected one of {}", names.join(", "))
            })
    }
}

/// A message security mode by its name.
///
/// # Errors
/// The names that there are.
pub fn parse_mode(text: &str) -> Result<MessageSecurityMode, String> {
    [
        MessageSecurityMode::None,
        MessageSecurityMode::Sign,
        MessageSecurityMode::SignAndEncrypt,
    ]
    .into_iter()
    .find(|mode| format!("{mode:?}").eq_ignore_ascii_case(text))
    .ok_or_else(|| "expected None, Sign or SignAndEncrypt".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_they_are_printed() {
        for (policy, name) in ALL {
            assert_eq!(name.parse(), Ok(Policy(policy)));
            assert_eq!(Policy(policy).to_string(), name);
            assert!(policy.to_uri().ends_with(name), "{}", policy.to_uri());
        }
        assert_eq!(
            "aes128-sha256-rsaoaep".parse(),
            Ok(Policy(SecurityPolicy::Aes128Sha256RsaOaep))
        );
        let error = "Basic512".parse::<Policy>().unwrap_err();
        assert!(error.contains("Basic256Sha256"), "{error}");
        assert_eq!(
            parse_mode("signandencrypt"),
            Ok(MessageSecurityMode::SignAndEncrypt)
        );
        assert!(parse_mode("Encrypt").is_err());
    }
}
