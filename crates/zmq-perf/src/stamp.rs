//! `--stamp`: a send time in each message, and the delay that it shows.
//!
//! The first 8 bytes of the payload hold the sender's wall clock in
//! nanoseconds since 1970, the next 8 a mark of the sender's host, both in
//! little-endian order. On one host both ends read one clock. On two hosts the
//! delay also holds what their clocks differ by, and nothing here can tell
//! that apart.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use bytes::Bytes;
use perf_core::clock::wall_clock;
use perf_core::histogram::LatencyHistogram;
use perf_core::units::nanos;

/// The bytes of a stamp: the least size of a stamped message.
pub const STAMP_BYTES: usize = 16;

/// What a sender writes into each payload before it goes.
pub trait Fill: Clone + Send + 'static {
    /// Whether it writes anything: a payload that is always the same can be
    /// shared by all messages.
    const WRITES: bool;

    /// Writes into a payload, whose other bytes are zero.
    fn fill(&mut self, payload: &mut [u8]);

    /// The payload of the next message: the one that all share, or a copy that
    /// has something of its own written into it.
    #[inline]
    fn apply(&mut self, shared: &Bytes) -> Bytes {
        if !Self::WRITES {
            return shared.clone();
        }
        let mut payload = shared.to_vec();
        self.fill(&mut payload);
        payload.into()
    }
}

/// Nothing.
#[derive(Debug, Clone, Copy)]
pub struct Zeros;

impl Fill for Zeros {
    const WRITES: bool = false;

    #[inline]
    fn fill(&mut self, _: &mut [u8]) {}
}

/// The time of sending.
#[derive(Debug, Clone, Copy)]
pub struct SendTime {
    host: u64,
}

impl SendTime {
    /// Stamps of this host.
    #[must_use]
    pub fn new() -> Self {
        Self { host: host_mark() }
    }
}

impl Default for SendTime {
    fn default() -> Self {
        Self::new()
    }
}

impl Fill for SendTime {
    const WRITES: bool = true;

    #[inline]
    fn fill(&mut self, payload: &mut [u8]) {
        if let Some((stamp, _)) = payload.split_first_chunk_mut::<STAMP_BYTES>() {
            let (time, host) = stamp.split_at_mut(8);
            time.copy_from_slice(&nanos(wall_clock()).to_le_bytes());
            host.copy_from_slice(&self.host.to_le_bytes());
        }
    }
}

/// What a receiver does with each payload when it has arrived.
pub trait Visit {
    /// Looks at a payload.
    fn visit(&mut self, payload: &[u8]);

    /// Forgets the payloads so far: they were warm-up.
    fn forget(&mut self) {}
}

/// Nothing.
#[derive(Debug, Clone, Copy)]
pub struct Ignore;

impl Visit for Ignore {
    #[inline]
    fn visit(&mut self, _: &[u8]) {}
}

/// Takes the delay of each stamped message.
#[derive(Debug)]
pub struct Delays {
    host: u64,
    /// Arrival minus send time.
    pub times: LatencyHistogram,
    /// Messages that were sent on another host.
    pub from_elsewhere: u64,
    /// Messages that arrived before they were sent, as the clocks tell; they
    /// count as 0.
    pub negative: u64,
}

impl Delays {
    /// No delays yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            host: host_mark(),
            times: LatencyHistogram::new(),
            from_elsewhere: 0,
            negative: 0,
        }
    }
}

impl Default for Delays {
    fn default() -> Self {
        Self::new()
    }
}

impl Visit for Delays {
    #[inline]
    fn visit(&mut self, payload: &[u8]) {
        let arrived = nanos(wall_clock());
        let Some((sent, rest)) = payload.split_first_chunk() else {
            return;
        };
        let Some((host, _)) = rest.split_first_chunk() else {
            return;
        };
        let sent = u64::from_le_bytes(*sent);
        self.from_elsewhere += u64::from(u64::from_le_bytes(*host) != self.host);
        self.negative += u64::from(arrived < sent);
        self.times
            .record(Duration::from_nanos(arrived.saturating_sub(sent)));
    }

    fn forget(&mut self) {
        self.times.clear();
        self.from_elsewhere = 0;
        self.negative = 0;
    }
}

/// A number that differs between hosts, as far as the system tells them apart:
/// made from the boot's identity on Linux, from the host's name elsewhere.
fn host_mark() -> u64 {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let name = ["HOSTNAME", "COMPUTERNAME"]
        .into_iter()
        .find_map(|key| std::env::var(key).ok());
    let mut hasher = DefaultHasher::new();
    boot.or(name).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_tells_when_and_where_it_was_sent() {
        let mut payload = [0; 24];
        SendTime::new().fill(&mut payload);
        assert_eq!(payload[16..], [0; 8]);
        let mut delays = Delays::new();
        delays.visit(&payload);
        assert_eq!((delays.times.len(), delays.from_elsewhere), (1, 0));
        assert!(delays.times.counts().max() < 10_000_000_000);
        payload[15] ^= 1;
        payload[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        delays.visit(&payload);
        assert_eq!((delays.from_elsewhere, delays.negative), (1, 1));
    }

    #[test]
    fn a_payload_without_room_is_left_alone() {
        let mut payload = [7; 15];
        SendTime::new().fill(&mut payload);
        assert_eq!(payload, [7; 15]);
        let mut delays = Delays::new();
        delays.visit(&payload);
        assert_eq!(delays.times.len(), 0);
    }
}
