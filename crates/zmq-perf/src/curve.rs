//! Keys of CURVE (RFC 26 of ZeroMQ): libzmq's perf tools' own, or from files.
//!
//! Keys are only ever read from files, and nothing here shows one: neither
//! `Debug` nor an error.

use std::fmt;
use std::path::{Path, PathBuf};

/// The secret key of the end that binds; libzmq 4.3, `perf/local_thr.cpp`.
const PERF_SERVER: &str = "{X}#>t#jRGaQ}gMhv=30r(Mw+87YGs+5%kh=i@f8";

/// The secret key of the end that connects; libzmq 4.3,
/// `perf/remote_thr.cpp`.
const PERF_CLIENT: &str = "9R9bV}[6z6DC-%$!jTVTKvWc=LEL{4i4gzUe$@Zx";

/// The alphabet of Z85 (RFC 32 of ZeroMQ), in the order of the digits.
const ALPHABET: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// The characters of a key as text.
const TEXT: usize = 40;

/// A key, public or secret: 32 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// The key itself, for the stack.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads the 40 characters of Z85; blanks around them do not count.
    fn from_z85(text: &str) -> Option<Self> {
        let text = text.trim().as_bytes();
        if text.len() != TEXT {
            return None;
        }
        let mut key = [0; 32];
        for (word, digits) in key.chunks_exact_mut(4).zip(text.chunks_exact(5)) {
            let mut value: u32 = 0;
            for digit in digits {
                let at = ALPHABET.iter().position(|letter| letter == digit)?;
                let at = u32::try_from(at).ok()?;
                value = value.checked_mul(85)?.checked_add(at)?;
            }
            word.copy_from_slice(&value.to_be_bytes());
        }
        Some(Self(key))
    }

    fn read(path: &Path) -> Result<Self, KeyError> {
        let text = std::fs::read_to_string(path).map_err(|source| KeyError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Self::from_z85(&text).ok_or_else(|| KeyError::NoKey(path.to_owned()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key file {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file holds something else.
    #[error("{} holds no CURVE key; it must hold the {TEXT} characters of one as Z85 text, as zmq_curve_keypair makes it", .0.display())]
    NoKey(PathBuf),
    /// The server's public key without its secret one, where both ends are in
    /// this process.
    #[error(
        "--loopback has the server in this process, so --curve-server-key cannot be kept apart from its secret key; leave it out"
    )]
    Loopback,
}

/// What is known of the end that binds, which is CURVE's server.
#[derive(Debug, Clone)]
pub enum Server {
    /// Its secret key, from which its public one follows.
    Secret(Key),
    /// Its public key, at the end that connects.
    Public(Key),
}

/// The keys that one end has.
#[derive(Debug, Clone)]
pub struct Keys {
    /// Of the end that binds.
    pub server: Server,
    /// The secret key of the end that connects.
    pub client: Key,
}

impl Keys {
    /// The keys of libzmq's perf tools, with the secret key of the end that
    /// binds replaced by the one in a file.
    ///
    /// # Errors
    /// When the file holds no key.
    pub fn of_server(secret: Option<&Path>) -> Result<Self, KeyError> {
        Ok(Self {
            server: Server::Secret(or_perf(secret, PERF_SERVER)?),
            client: or_perf(None, PERF_CLIENT)?,
        })
    }

    /// The keys of libzmq's perf tools, with those of the end that connects
    /// replaced by the ones in files.
    ///
    /// # Errors
    /// When a file holds no key.
    pub fn of_client(server: Option<&Path>, secret: Option<&Path>) -> Result<Self, KeyError> {
        let server = match server {
            Some(path) => Server::Public(Key::read(path)?),
            None => Server::Secret(or_perf(None, PERF_SERVER)?),
        };
        Ok(Self {
            server,
            client: or_perf(secret, PERF_CLIENT)?,
        })
    }
}

/// The key in a file, or the one of libzmq's perf tools.
fn or_perf(path: Option<&Path>, perf: &str) -> Result<Key, KeyError> {
    match path {
        Some(path) => Key::read(path),
        None => Key::from_z85(perf).ok_or_else(|| KeyError::NoKey(PathBuf::new())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z85_is_read_as_its_rfc_writes_it() {
        // The test vector of RFC 32, four times over.
        let key = Key::from_z85(&"HelloWorld".repeat(4)).unwrap();
        let word = [0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b];
        assert_eq!(key.bytes()[..], word.repeat(4));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let long = "0".repeat(41);
        let overflow = "#".repeat(40);
        let foreign = "~".repeat(40);
        for junk in ["", "HelloWorld", &long, &overflow, &foreign] {
            assert_eq!(Key::from_z85(junk), None, "{junk}");
        }
        assert!(Key::from_z85(&format!(" {}\r\n", "0".repeat(40))).is_some());
    }

    #[test]
    fn no_key_is_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, "HelloWorldHelloWorldHelloWorldHelloWorl~").unwrap();
        let error = Keys::of_server(Some(&path)).unwrap_err();
        assert!(!format!("{error:?} {error}").contains("Hello"));
        let keys = Keys::of_server(None).unwrap();
        assert_eq!(
            format!("{keys:?}"),
            "Keys { server: Secret(Key(..)), client: Key(..) }"
        );
    }
}
