//! Read and Write (Part 4, 5.11).

use opcua::types::{
    DataValue, ReadRequest, ReadResponse, ReadValueId, StatusCode, TimestampsToReturn,
    WriteRequest, WriteResponse,
};

use super::{Call, Refusal, Refuse, Services, response_header, within_limits};
use crate::server::Shared;

impl Services {
    pub(super) fn read(&mut self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let request: ReadRequest = call.request()?;
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
