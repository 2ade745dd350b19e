//! open62541's read performance test in pure Rust: how often can an OPC UA
//! value be read, and how long does a read take?
//!
//! The server ([`server`]) exposes one variable that tells the time; the
//! client reads it as often as it can.

pub mod certificate;
pub mod cli;
pub mod endpoint;
pub mod policy;
pub mod server;
mod wire;
