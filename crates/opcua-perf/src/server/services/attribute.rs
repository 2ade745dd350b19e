//! Read and Write (Part 4, 5.11).

use std::io::Read;

use opcua::types::{
    BinaryDecodable, Context, DataValue, DateTime, DiagnosticBits, EncodingResult, ExtensionObject,
    NodeId, ReadRequest, ReadResponse, ReadValueId, RequestHeader, StatusCode, TimestampsToReturn,
    UAString, WriteRequest, WriteResponse,
};

use super::{Call, Refusal, Refuse, Services, response_header, within_limits};
use crate::server::Shared;

impl Services {
    pub(super) fn read(&mut self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let Undated(request) = call.request()?;
        let header = &request.request_header;
        self.authorize(header, call)?;
        if request.timestamps_to_return == TimestampsToReturn::Invalid {
            return Err(header
                .refuse(StatusCode::BadTimestampsToReturnInvalid)
                .into());
        }
        if request.max_age < 0.0 {
            return Err(header.refuse(StatusCode::BadMaxAgeInvalid).into());
        }
        let nodes = within_limits(request.nodes_to_read, header)?;
        let mut results = std::mem::take(&mut self.results);
        results.clear();
        results.extend(
            nodes
                .iter()
                .map(|node| read_one(call.shared, node, request.timestamps_to_return)),
        );
        let response = ReadResponse {
            response_header: response_header(header),
            results: Some(results),
            diagnostic_infos: None,
        };
        call.respond(&response)?;
        self.results = response.results.unwrap_or_default();
        Ok(())
    }

    /// Nothing here can be written; the client learns it node by node.
    pub(super) fn write(&mut self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let request: WriteRequest = call.request()?;
        let header = &request.request_header;
        self.authorize(header, call)?;
        let nodes = within_limits(request.nodes_to_write, header)?;
        let refused = |id| match super::super::address_space::Key::of(id) {
            Some(key) if call.shared.space.node(key).is_some() => StatusCode::BadNotWritable,
            _ => StatusCode::BadNodeIdUnknown,
        };
        let response = WriteResponse {
            response_header: response_header(header),
            results: Some(nodes.iter().map(|node| refused(&node.node_id)).collect()),
            diagnostic_infos: None,
        };
        call.respond(&response)
    }
}

/// A `ReadRequest` (Part 4, 5.11.2) without its timestamp, of which the crate
/// would make a calendar date that nobody looks at.
#[derive(Debug)]
struct Undated(ReadRequest);

impl BinaryDecodable for Undated {
    fn decode<S: Read + ?Sized>(stream: &mut S, context: &Context<'_>) -> EncodingResult<Self> {
        let authentication_token = NodeId::decode(stream, context)?;
        let _ticks = i64::decode(stream, context)?;
        let request_header = RequestHeader {
            authentication_token,
            timestamp: DateTime::null(),
            request_handle: u32::decode(stream, context)?,
            return_diagnostics: DiagnosticBits::from_bits_truncate(u32::decode(stream, context)?),
            audit_entry_id: UAString::decode(stream, context)?,
            timeout_hint: u32::decode(stream, context)?,
            additional_header: ExtensionObject::decode(stream, context)?,
        };
        Ok(Self(ReadRequest {
            request_header,
            max_age: f64::decode(stream, context)?,
            timestamps_to_return: TimestampsToReturn::decode(stream, context)?,
            nodes_to_read: BinaryDecodable::decode(stream, context)?,
        }))
    }
}

/// The value, taken now, and the timestamps that were asked for.
#[inline]
fn read_one(shared: &Shared, read: &ReadValueId, wanted: TimestampsToReturn) -> DataValue {
    let mut data = DataValue::default();
    match shared.space.read(read, &shared.clock) {
        Ok(value) => data.value = Some(value),
        Err(status) => data.status = Some(status),
    }
    if wanted != TimestampsToReturn::Neither {
        let now = shared.clock.date_time();
        if wanted != TimestampsToReturn::Server && data.status.is_none() {
            data.source_timestamp = Some(now);
        }
        if wanted != TimestampsToReturn::Source {
            data.server_timestamp = Some(now);
        }
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcua::types::{BinaryEncodable, ContextOwned, DecodingOptions, NamespaceMap};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_read_request_is_what_the_codec_finds_but_for_its_date(
            token in any::<u32>(),
            ticks in any::<i64>(),
            handle in any::<u32>(),
            diagnostics in any::<u32>(),
            audit in prop::option::of("[a-z]{0,20}"),
            max_age in 0.0..1e6_f64,
            nodes in prop::option::of(prop::collection::vec(any::<u32>(), 0..5)),
            cut in 0..40_usize,
        ) {
            let context = ContextOwned::new_default(NamespaceMap::new(), DecodingOptions::default());
            let context = context.context();
            let request = ReadRequest {
                request_header: RequestHeader {
                    authentication_token: NodeId::new(1, token),
                    timestamp: ticks.into(),
                    request_handle: handle,
                    return_diagnostics: DiagnosticBits::from_bits_truncate(diagnostics),
                    audit_entry_id: audit.map_or_else(UAString::null, UAString::from),
                    ..RequestHeader::default()
                },
                max_age,
                timestamps_to_return: TimestampsToReturn::Both,
                nodes_to_read: nodes.map(|nodes| {
                    let node = |id| ReadValueId { node_id: NodeId::new(1, id), ..ReadValueId::default() };
                    nodes.into_iter().map(node).collect()
                }),
            };
            let bytes = request.encode_to_vec(&context);
            let mut expected = ReadRequest::decode(&mut &bytes[..], &context).unwrap();
            expected.request_header.timestamp = DateTime::null();
            let mut rest = &bytes[..];
            let Undated(found) = Undated::decode(&mut rest, &context).unwrap();
            prop_assert_eq!(found, expected);
            prop_assert!(rest.is_empty());
            // What is cut off is an error.
            let end = bytes.len().saturating_sub(cut + 1);
            prop_assert!(Undated::decode(&mut &bytes[..end], &context).is_err());
        }
    }
}
