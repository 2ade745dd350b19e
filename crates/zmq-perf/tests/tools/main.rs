//! The tools as their users meet them: the real programs, started from a
//! command line, over real sockets.
//!
//! A module is one promise of `docs` and the help texts; `support` starts and
//! watches the programs. No port is fixed, and no test waits for a length of
//! time where it can wait for an event.

#[cfg(test)]
#[macro_use]
mod support;

#[cfg(test)]
#[cfg(feature = "omq")]
mod curve;
#[cfg(test)]
mod endpoints;
#[cfg(test)]
mod inproc;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod memory;
#[cfg(test)]
mod peers;
#[cfg(test)]
#[cfg(feature = "omq")]
mod proxy;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod several;
#[cfg(test)]
#[cfg(unix)]
mod signals;
#[cfg(test)]
mod stdout;
#[cfg(test)]
mod timeout;
#[cfg(test)]
mod usage;
