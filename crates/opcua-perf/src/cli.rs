//! The command lines of the two programs, and each program from its arguments
//! to its exit code.

mod server;

pub use self::server::server;
