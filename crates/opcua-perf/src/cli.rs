//! The command lines of the two programs, and each program from its arguments
//! to its exit code.

mod client;
mod rows;
mod server;

use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use perf_core::cli::long_version;
use perf_core::exit::Failure;

pub use self::client::client;
pub use self::server::server;
use crate::certificate::Identity;
use crate::stack::StackKind;

/// The command lines of both programs, for whoever makes manual pages and
/// completions of them.
#[must_use]
pub fn commands() -> Vec<Command> {
    vec![client::Args::command(), server::Args::command()]
}

/// What `--version` says of a program that has these to choose from.
fn version_with(stacks: &[StackKind]) -> String {
    let stacks: Vec<_> = stacks.iter().map(|stack| stack.describe()).collect();
    long_version(env!("CARGO_PKG_VERSION"), &stacks)
}

#[derive(Debug, thiserror::Error)]
#[error("cannot start a thread or the runtime; are there file descriptors left (ulimit -n)?")]
struct NoRuntime(#[source] io::Error);

fn no_runtime(error: io::Error) -> Failure {
    Failure::run(&NoRuntime(error))
}

/// What --certificate and --private-key name; each needs the other.
fn identity(certificate: Option<&Path>, key: Option<&Path>) -> Result<Option<Identity>, Failure> {
    certificate
        .zip(key)
        .map(|(certificate, key)| Identity::load(certificate, key))
        .transpose()
        .map_err(|error| Failure::run(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_a_command_line_of_its_program() {
        for command in commands() {
            let help = command.get_after_long_help().unwrap().to_string();
            let start = format!("    {}", command.get_name());
            let examples: Vec<_> = help.lines().filter(|l| l.starts_with(&start)).collect();
            assert!(examples.len() >= 3, "{help}");
            for example in examples {
                // As a shell does it, which no example needs more of.
                let words = example
                    .split_whitespace()
                    .map(|word| word.trim_matches('"'));
                if let Err(error) = command.clone().try_get_matches_from(words) {
                    panic!("{example}: {error}");
                }
            }
        }
    }
}
