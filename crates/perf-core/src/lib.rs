//! The measuring core of zmq-perf and opcua-perf.
//!
//! This crate knows how to take time, how to drive a load and how to say what
//! came out. It knows no protocol, and only the module [`runtime`] (feature
//! `tokio`) knows an async runtime.
//!
//! The way of one measurement: a checked plan, a warm-up, one of the load
//! loops in [`load`] over an [`load::Operation`], a [`load::Measurement`], an
//! exit code from [`exit`].

pub mod cli;
pub mod clock;
pub mod exit;
pub mod histogram;
pub mod limit;
pub mod load;
pub mod recorder;
#[cfg(feature = "tokio")]
pub mod runtime;
pub mod summary;
pub mod units;
