//! The certificate and the private key of an application (Part 6, 6.2.2), and
//! what is known of a peer's.

use std::path::Path;
use std::{fmt, fs, io};

use opcua::crypto::{KeySize, PrivateKey, PublicKey, X509, X509Data};
use opcua::types::{ByteString, StatusCode};

use x509_cert::der::pem::LineEnding;

use crate::wire::ProtocolError;

/// Bits of a key that is made here: what every policy of today takes.
const KEY_BITS: u32 = 2048;

/// The longest certificate that is looked at; async-opcua's bound.
const LONGEST_CERTIFICATE: usize = 32_767;

/// An application's own certificate and private key.
pub struct Identity {
    certificate: X509,
    der: Vec<u8>,
    thumbprint: Vec<u8>,
    key: PrivateKey,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file could not be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The file holds no certificate.
    #[error("{0} holds no X.509 certificate in DER or PEM")]
    Certificate(String),
    /// The file holds no RSA key.
    #[error("{0} holds no RSA private key in PEM (PKCS #8 or PKCS #1), not encrypted")]
    Key(String),
    /// The two do not belong together.
    #[error("the private key in {key} is not that of the certificate in {certificate}")]
    Mismatch {
        /// The certificate's file.
        certificate: String,
        /// The key's file.
        key: String,
    },
    /// The key pair could not be made.
    #[error("cannot make a key pair and a certificate: {0}")]
    Generate(String),
}

impl Identity {
    /// A new key pair and a self-signed certificate, good for a year.
    ///
    /// # Errors
    /// When the key pair cannot be made.
    pub fn generate(application_uri: &str, name: &str) -> Result<Self, IdentityError> {
        let data = X509Data {
            key_size: KEY_BITS,
            common_name: name.to_owned(),
            organization: "opcua-perf".to_owned(),
            organizational_unit: String::new(),
            country: String::new(),
            state: String::new(),
            alt_host_names: X509Data::alt_host_names(application_uri, None, true, true, true),
            certificate_duration_days: 365,
        };
        let (certificate, key) = X509::cert_and_pkey(&data).map_err(IdentityError::Generate)?;
        Self::new(certificate, key)
            .ok_or_else(|| IdentityError::Generate("the certificate has no DER form".to_owned()))
    }

    /// A certificate (DER or PEM) and its private key (PEM).
    ///
    /// # Errors
    /// When a file cannot be read, holds something else, or the two do not
    /// belong together.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, IdentityError> {
        let bytes = read(certificate)?;
        let parsed = X509::from_pem(&bytes)
            .or_else(|_| X509::from_der(&bytes))
            .map_err(|_| IdentityError::Certificate(certificate.display().to_string()))?;
        let private = PrivateKey::from_pem(&read(key)?)
            .map_err(|_| IdentityError::Key(key.display().to_string()))?;
        let mismatch = || IdentityError::Mismatch {
            certificate: certificate.display().to_string(),
            key: key.display().to_string(),
        };
        if !belong_together(&parsed, &private) {
            return Err(mismatch());
        }
        Self::new(parsed, private).ok_or_else(mismatch)
    }

    fn new(certificate: X509, key: PrivateKey) -> Option<Self> {
        let der = certificate.to_der().ok()?;
        let thumbprint = certificate.thumbprint().value().to_vec();
        Some(Self {
            certificate,
            der,
            thumbprint,
            key,
        })
    }

    pub(crate) const fn x509(&self) -> &X509 {
        &self.certificate
    }

    pub(crate) fn der(&self) -> &[u8] {
        &self.der
    }

    /// The application URI that the certificate is for (Part 6, 6.2.2): what
    /// the application must call itself for others to accept it.
    pub(crate) fn application_uri(&self) -> Option<String> {
        use x509_cert::der::Decode;
        use x509_cert::ext::pkix::SubjectAltName;
        use x509_cert::ext::pkix::name::GeneralName;
        let certificate = x509_cert::Certificate::from_der(&self.der).ok()?;
        let (_, names): (bool, SubjectAltName) = certificate.tbs_certificate.get().ok()??;
        names.0.iter().find_map(|name| match name {
            GeneralName::UniformResourceIdentifier(uri) => Some(uri.to_string()),
            _ => None,
        })
    }

    /// SHA-1 of the certificate (Part 6, 6.7.2.3), by which a peer says whose
    /// key it used.
    pub(crate) fn thumbprint(&self) -> &[u8] {
        &self.thumbprint
    }

    pub(crate) const fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// The private key as text (PKCS #8).
    pub(crate) fn key_pem(&self) -> Option<impl std::ops::Deref<Target = String> + use<>> {
        let der = self.key.to_der().ok()?;
        der.to_pem("PRIVATE KEY", LineEnding::LF).ok()
    }
}

/// The URI by which an application on this host calls itself.
pub(crate) fn uri_of_this_host(application: &str) -> String {
    let host = X509Data::computer_hostnames().pop();
    format!(
        "urn:{}:{application}",
        host.as_deref().unwrap_or("localhost")
    )
}

fn read(path: &Path) -> Result<Vec<u8>, IdentityError> {
    fs::read(path).map_err(|source| IdentityError::Read {
        path: path.display().to_string(),
        source,
    })
}

fn belong_together(certificate: &X509, key: &PrivateKey) -> bool {
    use opcua::crypto::SecurityPolicy::Basic256Sha256;
    let Ok(public) = certificate.public_key() else {
        return false;
    };
    let mut signature = vec![0; key.size()];
    Basic256Sha256
        .asymmetric_sign(key, b"opcua-perf", &mut signature)
        .and_then(|_| {
            Basic256Sha256.asymmetric_verify_signature(&public, b"opcua-perf", &signature)
        })
        .is_ok()
}

/// A peer's certificate. Whether to trust it is another question.
pub(crate) struct PeerCertificate {
    certificate: X509,
    der: Vec<u8>,
    thumbprint: Vec<u8>,
    key: PublicKey,
}

impl fmt::Debug for PeerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerCertificate").finish_non_exhaustive()
    }
}

impl PeerCertificate {
    /// Reads the first certificate of `bytes`; a chain may follow it.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let invalid =
            |reason: &str| ProtocolError::new(StatusCode::BadCertificateInvalid, reason.to_owned());
        let der = first_der(bytes)
            .filter(|der| der.len() <= LONGEST_CERTIFICATE)
            .ok_or_else(|| invalid("the peer's certificate is not in DER"))?;
        let certificate =
            X509::from_der(der).map_err(|_| invalid("the peer's certificate is no X.509"))?;
        let key = certificate
            .public_key()
            .map_err(|_| invalid("the peer's certificate has no RSA key"))?;
        Ok(Self {
            thumbprint: certificate.thumbprint().value().to_vec(),
            certificate,
            der: der.to_vec(),
            key,
        })
    }

    pub(crate) fn der(&self) -> &[u8] {
        &self.der
    }

    pub(crate) fn as_byte_string(&self) -> ByteString {
        ByteString::from(self.der.as_slice())
    }

    pub(crate) const fn x509(&self) -> &X509 {
        &self.certificate
    }

    pub(crate) fn thumbprint(&self) -> &[u8] {
        &self.thumbprint
    }

    pub(crate) const fn key(&self) -> &PublicKey {
        &self.key
    }
}

/// The first element of a sequence of DER elements: OPC UA sends a chain as
/// one certificate after the other (Part 6, 6.2.3).
fn first_der(bytes: &[u8]) -> Option<&[u8]> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    if tag != 0x30 {
        return None;
    }
    let (octets, length) = match first {
        0..=0x7f => (0, usize::from(first)),
        0x81..=0x84 => {
            let octets = usize::from(first & 0x7f);
            let length = rest
                .get(..octets)?
                .iter()
                .fold(0_usize, |length, &b| (length << 8) | usize::from(b));
            (octets, length)
        }
        _ => return None,
    };
    bytes.get(..length.checked_add(2 + octets)?)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, LazyLock};

    use super::*;
    use proptest::prelude::*;

    /// Key pairs take long to make; tests share two.
    static ALICE: LazyLock<Arc<Identity>> =
        LazyLock::new(|| Arc::new(Identity::generate("urn:alice", "alice").unwrap()));
    static BOB: LazyLock<Arc<Identity>> =
        LazyLock::new(|| Arc::new(Identity::generate("urn:bob", "bob").unwrap()));

    pub(crate) fn alice() -> Arc<Identity> {
        Arc::clone(&ALICE)
    }

    pub(crate) fn bob() -> Arc<Identity> {
        Arc::clone(&BOB)
    }

    #[test]
    fn a_chain_counts_as_its_first_certificate() {
        let mut chain = alice().der().to_vec();
        chain.extend_from_slice(bob().der());
        let peer = PeerCertificate::parse(&chain).unwrap();
        assert_eq!(peer.der(), alice().der());
        assert_eq!(peer.thumbprint(), alice().thumbprint());
    }

    #[test]
    fn a_certificate_tells_its_application() {
        assert_eq!(alice().application_uri().as_deref(), Some("urn:alice"));
    }

    #[test]
    fn files_are_loaded_and_checked_against_each_other() {
        use opcua::crypto::X509;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("cert.der"), alice().der()).unwrap();
        fs::write(path("key.pem"), alice().key_pem().unwrap().as_bytes()).unwrap();
        fs::write(path("other.pem"), bob().key_pem().unwrap().as_bytes()).unwrap();
        let loaded = Identity::load(&path("cert.der"), &path("key.pem")).unwrap();
        assert_eq!(loaded.der(), alice().der());
        assert!(X509::from_der(loaded.der()).is_ok());
        let error = |c: &str, k: &str| Identity::load(&path(c), &path(k)).unwrap_err().to_string();
        assert!(error("cert.der", "other.pem").contains("is not that of"));
        assert!(error("key.pem", "key.pem").contains("no X.509"));
        assert!(error("cert.der", "cert.der").contains("no RSA private key"));
        assert!(error("none.der", "key.pem").contains("cannot read"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_certificate_or_not(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = PeerCertificate::parse(&bytes);
        }

        #[test]
        fn a_damaged_certificate_is_taken_or_refused(at in 0usize..700, with: u8) {
            let mut der = alice().der().to_vec();
            let at = at % der.len();
            der[at] = with;
            let _ = PeerCertificate::parse(&der);
        }
    }
}
