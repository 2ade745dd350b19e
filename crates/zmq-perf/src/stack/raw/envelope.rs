//! The envelope in front of a request or a reply (RFC 28).

use super::error::RawError;
use crate::zmtp::Parts;

/// The size of the body behind the envelope: parts that tell the way back, and
/// an empty one that ends them.
pub(super) fn body_size(mut parts: Parts<'_>) -> Result<usize, RawError> {
    if parts.any(<[u8]>::is_empty) {
        // A message ends with its last part, so there may be no body at all.
        Ok(parts.map(<[u8]>::len).sum())
    } else {
        Err(RawError::NoEnvelope)
    }
}
