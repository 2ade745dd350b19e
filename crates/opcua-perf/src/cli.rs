//! The command lines of the two programs, and each program from its arguments
//! to its exit code.

mod client;
mod rows;
mod server;

use std::io;
use std::path::Path;

use perf_core::exit::Failure;

pub use self::client::client;
pub use self::server::server;
use crate::certificate::Identity;

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
