//! Who may log in, and with which password.

use std::collections::HashMap;
use std::path::Path;
use std::{fmt, fs, io};

/// The users of a file: a line `name:password` each.
#[derive(Clone, Default)]
pub struct Users(HashMap<String, Vec<u8>>);

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Why a file gives no users. Never says what is in it.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// The file could not be read.
    #[error("cannot read the user file {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A line has no colon, or nothing before it.
    #[error("line {line} of the user file {path} is not name:password")]
    Line {
        /// The file.
        path: String,
        /// Counted from 1.
        line: usize,
    },
    /// There is no user in it.
    #[error("the user file {0} names no user; write name:password, a line each")]
    Empty(String),
}

impl Users {
    /// Reads a file of lines `name:password`. The password is all that follows
    /// the first colon. Empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// When the file cannot be read, a line is none, or there is no user.
    pub fn load(path: &Path) -> Result<Self, UsersError> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|source| UsersError::Read {
            path: name.clone(),
            source,
        })?;
        let mut users = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((user, password)) = line.split_once(':').filter(|(user, _)| !user.is_empty())
            else {
                return Err(UsersError::Line {
                    path: name,
                    line: number + 1,
                });
            };
            users.insert(user.to_owned(), password.as_bytes().to_vec());
        }
        if users.is_empty() {
            return Err(UsersError::Empty(name));
        }
        Ok(Self(users))
    }

    /// Whether the user exists and the password is right, in a time that does
    /// not depend on where a wrong password differs.
    #[must_use]
    pub fn admit(&self, user: &str, password: &[u8]) -> bool {
        let (known, right) = match self.0.get(user) {
            Some(right) => (true, right.as_slice()),
            None => (false, &[][..]),
        };
        let differs = right
            .iter()
            .chain(std::iter::repeat(&0))
            .zip(password)
            .fold(0, |differs, (a, b)| differs | (a ^ b));
        known && right.len() == password.len() && differs == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Users, UsersError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        fs::write(&path, text).unwrap();
        Users::load(&path)
    }

    #[test]
    fn users_are_admitted_with_their_password_only() {
        let users = load("# test users\n\nalice:s:cret\nbob:\n").unwrap();
        assert!(users.admit("alice", b"s:cret"));
        assert!(users.admit("bob", b""));
        for (user, password) in [
            ("alice", &b"s:cre"[..]),
            ("alice", b"s:cret\0"),
            ("alice", b""),
            ("carol", b""),
            ("", b""),
        ] {
            assert!(!users.admit(user, password), "{user}");
        }
    }

    #[test]
    fn a_wrong_file_is_refused_without_its_content() {
        for (text, part) in [
            ("", "no user"),
            ("# only this\n", "no user"),
            ("alice:x\nsecretpassword\n", "line 2"),
            (":secretpassword\n", "line 1"),
        ] {
            let error = load(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert!(!error.contains("secretpassword"));
        }
        let missing = Users::load(Path::new("/nonexistent/users")).unwrap_err();
        assert!(missing.to_string().contains("/nonexistent/users"));
    }

    #[test]
    fn passwords_are_not_shown() {
        let shown = format!("{:?}", load("alice:secretpassword").unwrap());
        assert!(shown.contains("alice") && !shown.contains("secretpassword"));
    }
}
