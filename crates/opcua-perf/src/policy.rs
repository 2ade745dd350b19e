//! Security policies and modes, as the command lines name them.

use std::fmt;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use opcua::crypto::SecurityPolicy;
use opcua::types::MessageSecurityMode;

/// A security policy (Part 7) by the last part of its URI.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy(pub SecurityPolicy);

impl Policy {
    const fn name(self) -> &'static str {
        match self.0 {
            SecurityPolicy::None => "None",
            SecurityPolicy::Basic128Rsa15 => "Basic128Rsa15",
            SecurityPolicy::Basic256 => "Basic256",
            SecurityPolicy::Basic256Sha256 => "Basic256Sha256",
            SecurityPolicy::Aes128Sha256RsaOaep => "Aes128_Sha256_RsaOaep",
            SecurityPolicy::Aes256Sha256RsaPss => "Aes256_Sha256_RsaPss",
            SecurityPolicy::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ValueEnum for Policy {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self(SecurityPolicy::None),
            Self(SecurityPolicy::Basic256Sha256),
            Self(SecurityPolicy::Aes128Sha256RsaOaep),
            Self(SecurityPolicy::Aes256Sha256RsaPss),
            Self(SecurityPolicy::Basic128Rsa15),
            Self(SecurityPolicy::Basic256),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

/// A message security mode (Part 4, 7.20).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(pub MessageSecurityMode);

impl ValueEnum for Mode {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self(MessageSecurityMode::None),
            Self(MessageSecurityMode::Sign),
            Self(MessageSecurityMode::SignAndEncrypt),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self.0 {
            MessageSecurityMode::Sign => "Sign",
            MessageSecurityMode::SignAndEncrypt => "SignAndEncrypt",
            _ => "None",
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_last_part_of_the_uri() {
        for policy in Policy::value_variants() {
            let name = policy.to_string();
            assert_eq!(Policy::from_str(&name, false), Ok(*policy));
            let uri = policy.0.to_uri();
            assert!(uri.ends_with(&format!("#{name}")), "{uri}");
        }
    }

    #[test]
    fn case_does_not_matter() {
        assert_eq!(
            Policy::from_str("basic256SHA256", true),
            Ok(Policy(SecurityPolicy::Basic256Sha256))
        );
        assert_eq!(
            Mode::from_str("signandencrypt", true),
            Ok(Mode(MessageSecurityMode::SignAndEncrypt))
        );
        assert!(Policy::from_str("Basic512", true).is_err());
    }
}
