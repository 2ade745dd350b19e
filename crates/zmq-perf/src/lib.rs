//! libzmq's performance tools in pure Rust: the library behind `local_lat`,
//! `remote_lat`, `local_thr`, `remote_thr`, `inproc_lat`, `inproc_thr` and
//! `proxy_thr`.
//!
//! The way of one measurement: `cli` turns the command line into a plan,
//! [`endpoint`] and [`transport`] reach the peer, one of the [`stack`]s carries
//! the messages, [`latency`] and [`throughput`] are what is done over and over,
//! [`libzmq_text`] says what upstream would print, and [`tool`] puts it all
//! together.

pub mod cli;
mod crew;
pub mod curve;
pub mod endpoint;
pub mod error;
pub mod latency;
pub mod libzmq_text;
mod loopback;
#[cfg(feature = "omq")]
pub mod proxy;
pub mod session;
pub mod stack;
pub mod stamp;
pub mod throughput;
pub mod tool;
pub mod transport;
pub mod zmtp;
