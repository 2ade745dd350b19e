//! open62541's read performance test in pure Rust: how often can an OPC UA
//! value be read, and how long does a read take?
//!
//! The server ([`server`]) exposes one variable that tells the time; the
//! client reads it as often as it can.

pub mod certificate;
pub mod cli;
mod clock;
pub mod endpoint;
mod loopback;
pub mod policy;
pub mod read_loop;
pub mod read_speed_text;
pub mod server;
pub mod stack;
mod wire;
