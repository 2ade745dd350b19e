//! The messages inside the frames: the Connection Protocol's own, and the
//! services' (Part 6, 5.2.9: the type's `NodeId`, then the structure).

use opcua::core::comms::tcp_types::{AcknowledgeMessage, ErrorMessage, HelloMessage};
use opcua::types::{
    BinaryDecodable, BinaryEncodable, Context, DecodingOptions, MessageInfo, NodeId, ObjectId,
    SimpleBinaryDecodable, SimpleBinaryEncodable, StatusCode,
};

use super::{Limits, ProtocolError};
use crate::wire::frame::SMALLEST_CHUNK_LIMIT;

/// Replaces `body` with a message: its type, then itself. Returns where the
/// message itself begins.
pub(crate) fn encode<M: BinaryEncodable + MessageInfo>(
    message: &M,
    context: &Context<'_>,
    body: &mut Vec<u8>,
) -> Result<usize, ProtocolError> {
    body.clear();
    NodeId::from(message.type_id()).encode(body, context)?;
    let start = body.len();
    message.encode(body, context)?;
    Ok(start)
}

/// Writes a field of a fixed length over the one that is encoded at `at`. A
/// message is longer than that; one that is not stays as it is.
pub(crate) fn overwrite<const N: usize>(body: &mut [u8], at: usize, field: [u8; N]) {
    if let Some(place) = body.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = field;
    }
}

/// Takes the type of a message off its body; `None` for one that no standard
/// knows.
pub(crate) fn decode_type(
    body: &mut &[u8],
    context: &Context<'_>,
) -> Result<Option<ObjectId>, ProtocolError> {
    let id = NodeId::decode(body, context)?;
    Ok(id.as_object_id().ok())
}

/// Takes a structure off a message's body.
pub(crate) fn decode<M: BinaryDecodable>(
    body: &mut &[u8],
    context: &Context<'_>,
) -> Result<M, ProtocolError> {
    Ok(M::decode(body, context)?)
}

/// Appends a frame of the Connection Protocol.
pub(crate) fn append<M: SimpleBinaryEncodable>(
    message: &M,
    out: &mut Vec<u8>,
) -> Result<(), ProtocolError> {
    Ok(message.encode(out)?)
}

/// The hello of a client with these limits.
pub(crate) fn hello(url: &str, limits: &Limits) -> HelloMessage {
    HelloMessage::new(
        url,
        limits.chunk_bytes,
        limits.chunk_bytes,
        limits.message_bytes,
        limits.chunks,
    )
}

/// Reads a hello and checks what the standard asks of it (Part 6, 7.1.2.3).
pub(crate) fn decode_hello(frame: &[u8]) -> Result<HelloMessage, ProtocolError> {
    let hello =
        <HelloMessage as SimpleBinaryDecodable>::decode(&mut &*frame, &connection_options())?;
    if !hello.is_valid_buffer_sizes() {
        return Err(ProtocolError::new(
            StatusCode::BadConnectionRejected,
            format!("the client's buffers are smaller than {SMALLEST_CHUNK_LIMIT} bytes"),
        ));
    }
    Ok(hello)
}

/// Reads an acknowledgement and checks it (Part 6, 7.1.2.4).
pub(crate) fn decode_acknowledge(frame: &[u8]) -> Result<AcknowledgeMessage, ProtocolError> {
    let acknowledge =
        <AcknowledgeMessage as SimpleBinaryDecodable>::decode(&mut &*frame, &connection_options())?;
    let smallest = size(acknowledge.receive_buffer_size).min(size(acknowledge.send_buffer_size));
    if smallest < SMALLEST_CHUNK_LIMIT {
        return Err(ProtocolError::new(
            StatusCode::BadConnectionRejected,
            format!("the server's buffers are smaller than {SMALLEST_CHUNK_LIMIT} bytes"),
        ));
    }
    Ok(acknowledge)
}

/// Reads the last words of a peer.
pub(crate) fn decode_error(frame: &[u8]) -> ProtocolError {
    match <ErrorMessage as SimpleBinaryDecodable>::decode(&mut &*frame, &connection_options()) {
        Ok(error) => ProtocolError::new(
            error.error,
            match error.reason.value() {
                Some(reason) if !reason.is_empty() => {
                    format!("the peer closed the connection: {reason}")
                }
                _ => "the peer closed the connection".to_owned(),
            },
        ),
        Err(error) => error.into(),
    }
}

/// A size of the Connection Protocol as a size in memory.
pub(crate) fn size(bytes: u32) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The Connection Protocol's strings are at most 4096 bytes long.
fn connection_options() -> DecodingOptions {
    DecodingOptions {
        max_string_length: 4096,
        ..DecodingOptions::minimal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hello_with_tiny_buffers_is_refused() {
        let mut bytes = Vec::new();
        append(
            &HelloMessage::new("opc.tcp://h:1", 8191, 65_535, 0, 0),
            &mut bytes,
        )
        .unwrap();
        let error = decode_hello(&bytes).unwrap_err();
        assert_eq!(error.status, StatusCode::BadConnectionRejected);
    }

    #[test]
    fn last_words_keep_status_and_reason() {
        let mut bytes = Vec::new();
        let error = ErrorMessage::new(StatusCode::BadTcpServerTooBusy, "come back later");
        append(&error, &mut bytes).unwrap();
        let heard = decode_error(&bytes);
        assert_eq!(heard.status, StatusCode::BadTcpServerTooBusy);
        assert!(heard.reason.ends_with("come back later"));
    }

    proptest! {
        #[test]
        fn any_frame_is_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_hello(&bytes);
            let _ = decode_acknowledge(&bytes);
            let _ = decode_error(&bytes);
        }
    }
}
