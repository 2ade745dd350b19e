//! The services (Part 4): a request's body in, a response's body out.
//!
//! Nothing here knows sockets or chunks, and nothing waits.

mod attribute;
mod discovery;
mod session;
mod view;

use std::fmt;
use std::sync::Arc;

use opcua::types::{
    BinaryDecodable, BinaryEncodable, Context, DataValue, DateTime, MessageInfo, ObjectId,
    RequestHeader, ResponseHeader, ServiceFault, StatusCode,
};
use perf_core::clock::Timestamp;

use super::Shared;
use super::sessions::Session;
use crate::endpoint::EndpointUrl;
use crate::wire::ProtocolError;
use crate::wire::channel::SecureChannel;
use crate::wire::message;

/// What a connection knows that services need.
pub(crate) struct Services {
    /// The sessions that this connection's channel created or took over.
    sessions: Vec<Arc<Session>>,
    /// The URL by which this client reached the server.
    url: EndpointUrl,
    /// Used again for every read.
    results: Vec<DataValue>,
}

/// One request and where its response goes.
struct Call<'a> {
    shared: &'a Shared,
    channel: &'a SecureChannel,
    context: &'a Context<'a>,
    body: &'a [u8],
    now: Timestamp,
    reply: &'a mut Vec<u8>,
}

/// A service that was refused as a whole.
struct Fault {
    handle: u32,
    status: StatusCode,
}

impl Call<'_> {
    /// The request itself. When only its header can be read, the client is
    /// told so; when not even that, the connection ends.
    fn request<R: BinaryDecodable>(&self) -> Result<R, Refusal> {
        R::decode(&mut &*self.body, self.context).map_err(|error| match self.header() {
            Ok(header) => Refusal::from(header.refuse(error.status())),
            Err(error) => error.into(),
        })
    }

    fn header(&self) -> Result<RequestHeader, ProtocolError> {
        message::decode(&mut &*self.body, self.context)
    }

    fn respond<R: BinaryEncodable + MessageInfo>(&mut self, response: &R) -> Result<(), Refusal> {
        let start = message::encode(response, self.context, self.reply)?;
        // The first field of every response's header, which is its first.
        let ticks = self.shared.clock.ticks();
        message::overwrite(self.reply, start, ticks.to_le_bytes());
        Ok(())
    }

    /// Writes what happened to the log, and on which channel.
    fn log(&self, line: fmt::Arguments<'_>) {
        let id = self.channel.id();
        self.shared.log(format_args!("secure channel {id}: {line}"));
    }
}

/// A header without a time, which [`Call::respond`] adds.
fn response_header(request: &RequestHeader) -> ResponseHeader {
    ResponseHeader::new_timestamped_service_result(DateTime::null(), request, StatusCode::Good)
}

fn fault(shared: &Shared, fault: &Fault) -> ServiceFault {
    ServiceFault {
        response_header: ResponseHeader::new_timestamped_service_result(
            shared.clock.date_time(),
            fault.handle,
            fault.status,
        ),
    }
}

/// Why there is no response.
enum Refusal {
    /// The client gets a `ServiceFault` and goes on.
    Service(Fault),
    /// The connection ends.
    Connection(ProtocolError),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Service(fault)
    }
}

impl From<ProtocolError> for Refusal {
    fn from(error: ProtocolError) -> Self {
        Self::Connection(error)
    }
}

/// Refuses the service that a header asks for.
trait Refuse {
    fn refuse(&self, status: StatusCode) -> Fault;
}

impl Refuse for RequestHeader {
    fn refuse(&self, status: StatusCode) -> Fault {
        Fault {
            handle: self.request_handle,
            status,
        }
    }
}

impl Services {
    pub(crate) fn new(url: EndpointUrl) -> Self {
        Self {
            sessions: Vec::new(),
            url,
            results: Vec::new(),
        }
    }

    /// The sessions that use this connection.
    pub(crate) fn sessions(&self) -> &[Arc<Session>] {
        &self.sessions
    }

    /// The URL by which the client says that it reached the server.
    pub(crate) fn set_url(&mut self, url: &EndpointUrl) {
        self.url = url.with_port(self.url.port());
    }

    /// Replaces `reply` with a fault for a request whose response cannot be
    /// sent.
    pub(crate) fn refuse_response(
        shared: &Shared,
        mut body: &[u8],
        status: StatusCode,
        reply: &mut Vec<u8>,
    ) -> Result<(), ProtocolError> {
        let context = shared.context.context();
        message::decode_type(&mut body, &context)?;
        let header: RequestHeader = message::decode(&mut body, &context)?;
        let fault = fault(shared, &header.refuse(status));
        message::encode(&fault, &context, reply).map(drop)
    }

    /// Answers one request: replaces `reply` with the response's body.
    pub(crate) fn answer(
        &mut self,
        shared: &Shared,
        channel: &SecureChannel,
        mut body: &[u8],
        now: Timestamp,
        reply: &mut Vec<u8>,
    ) -> Result<(), ProtocolError> {
        let context = shared.context.context();
        let service = message::decode_type(&mut body, &context)?;
        let mut call = Call {
            shared,
            channel,
            context: &context,
            body,
            now,
            reply,
        };
        let answered = match service {
            Some(service) => self.dispatch(service, &mut call),
            None => unsupported(&call),
        };
        match answered {
            Ok(()) => Ok(()),
            Err(Refusal::Connection(error)) => Err(error),
            Err(Refusal::Service(refused)) => {
                message::encode(&fault(shared, &refused), &context, call.reply).map(drop)
            }
        }
    }

    fn dispatch(&mut self, service: ObjectId, call: &mut Call<'_>) -> Result<(), Refusal> {
        use ObjectId as O;
        match service {
            O::ReadRequest_Encoding_DefaultBinary => self.read(call),
            O::WriteRequest_Encoding_DefaultBinary => self.write(call),
            O::BrowseRequest_Encoding_DefaultBinary => self.browse(call),
            O::BrowseNextRequest_Encoding_DefaultBinary => self.browse_next(call),
            O::TranslateBrowsePathsToNodeIdsRequest_Encoding_DefaultBinary => {
                self.translate_browse_paths(call)
            }
            O::RegisterNodesRequest_Encoding_DefaultBinary => self.register_nodes(call),
            O::UnregisterNodesRequest_Encoding_DefaultBinary => self.unregister_nodes(call),
            O::GetEndpointsRequest_Encoding_DefaultBinary => self.get_endpoints(call),
            O::FindServersRequest_Encoding_DefaultBinary => self.find_servers(call),
            O::CreateSessionRequest_Encoding_DefaultBinary => self.create_session(call),
            O::ActivateSessionRequest_Encoding_DefaultBinary => self.activate_session(call),
            O::CloseSessionRequest_Encoding_DefaultBinary => self.close_session(call),
            _ => unsupported(call),
        }
    }

    /// Checks that a request comes from a session that may ask on this channel
    /// (Part 4, 5.7.1), and counts it as a sign of life.
    #[inline]
    fn authorize(&mut self, header: &RequestHeader, call: &Call<'_>) -> Result<(), Fault> {
        let session = self
            .sessions
            .iter()
            .find(|session| session.token == header.authentication_token)
            .ok_or_else(|| header.refuse(StatusCode::BadSessionIdInvalid))?;
        match session.touch(call.channel.id(), call.now) {
            Ok(true) => Ok(()),
            Ok(false) => Err(header.refuse(StatusCode::BadSessionNotActivated)),
            Err(status) => {
                let token = session.token.clone();
                self.sessions.retain(|session| session.token != token);
                Err(header.refuse(status))
            }
        }
    }
}

fn unsupported(call: &Call<'_>) -> Result<(), Refusal> {
    Err(call
        .header()?
        .refuse(StatusCode::BadServiceUnsupported)
        .into())
}

/// A list that must have something in it, and not too much.
fn within_limits<T>(list: Option<Vec<T>>, header: &RequestHeader) -> Result<Vec<T>, Fault> {
    let list = list.unwrap_or_default();
    if list.is_empty() {
        return Err(header.refuse(StatusCode::BadNothingToDo));
    }
    if list.len() > message::size(super::address_space::MAX_NODES) {
        return Err(header.refuse(StatusCode::BadTooManyOperations));
    }
    Ok(list)
}
