//! The measuring core of zmq-perf and opcua-perf.
//!
//! This crate knows how to take time, how to drive a load and how to say what
//! came out. It knows no protocol, and only the modules `runtime` and
//! `measure` (feature `tokio`) know an async runtime.
//!
//! The way of one measurement: a checked plan, a warm-up, one of the load
//! loops in [`load`] over an [`load::Operation`], a [`report::Report`], one or
//! more renderers, an exit code from [`exit`].

pub mod cli;
pub mod clock;
pub mod exit;
pub mod histogram;
pub mod host;
pub mod limit;
pub mod load;
#[cfg(feature = "tokio")]
pub mod measure;
pub mod monitor;
pub mod recorder;
pub mod report;
pub mod resources;
#[cfg(feature = "tokio")]
pub mod runtime;
pub mod summary;
pub mod units;
pub mod wait;
pub mod warning;
