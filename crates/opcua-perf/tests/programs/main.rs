//! The real programs, started as users start them.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod bad_input;
mod common;
#[cfg(unix)]
mod ends;
mod help;
mod hostile;
mod pair;
