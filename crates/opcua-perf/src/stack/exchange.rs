//! The client's end of a secure channel: one request, one response.

use std::sync::Arc;

use opcua::crypto::SecurityPolicy;
use opcua::types::{
    BinaryDecodable, BinaryEncodable, ByteString, Context, ContextOwned, DataValue, MessageInfo,
    MessageSecurityMode, NamespaceMap, NodeId, ObjectId, OpenSecureChannelRequest,
    OpenSecureChannelResponse, ReadResponse, RequestHeader, ResponseHeader,
    SecurityTokenRequestType, ServiceFault, StatusCode, UAString,
};
use perf_core::clock::Timestamp;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{CallError, StackError, Target};
use crate::certificate::{Identity, PeerCertificate};
use crate::clock::DayClock;
use crate::policy::Policy;
use crate::wire::assembler::{Assembled, Assembler};
use crate::wire::channel::{PeerLimits, SecureChannel};
use crate::wire::frame::{FrameHeader, FrameKind, FrameReader};
use crate::wire::message::{self, size};
use crate::wire::{Limits, ProtocolError};

/// What this client takes from a server.
const LIMITS: Limits = Limits {
    chunk_bytes: 65_536,
    chunks: 1024,
    message_bytes: 32 * 1024 * 1024,
    array_elements: 100_000,
    string_bytes: 4 * 1024 * 1024,
};

/// A response, as far as every response is alike.
pub(super) trait Response: Sized {
    /// Its type on the wire.
    const TYPE: ObjectId;

    /// Decodes what comes behind the type.
    fn decode(body: &mut &[u8], context: &Context<'_>) -> Result<Self, CallError>;
}

/// Decodes a response by the crate's codec.
fn decode_whole<R: BinaryDecodable>(
    body: &mut &[u8],
    context: &Context<'_>,
    header: impl FnOnce(&R) -> &ResponseHeader,
) -> Result<R, CallError> {
    let response: R = message::decode(body, context)?;
    let status = header(&response).service_result;
    if status.is_bad() {
        Err(CallError::Refused(status))
    } else {
        Ok(response)
    }
}

/// The responses that this client understands.
macro_rules! responses {
    ($($response:ident $id:ident)*) => {
        $(
            impl Response for opcua::types::$response {
                const TYPE: ObjectId = ObjectId::$id;

                fn decode(body: &mut &[u8], context: &Context<'_>) -> Result<Self, CallError> {
                    decode_whole(body, context, |response: &Self| &response.response_header)
                }
            }
        )*
    };
}

responses! {
    OpenSecureChannelResponse OpenSecureChannelResponse_Encoding_DefaultBinary
    GetEndpointsResponse GetEndpointsResponse_Encoding_DefaultBinary
    CreateSessionResponse CreateSessionResponse_Encoding_DefaultBinary
    ActivateSessionResponse ActivateSessionResponse_Encoding_DefaultBinary
    CloseSessionResponse CloseSessionResponse_Encoding_DefaultBinary
}

/// A `ReadResponse` (Part 4, 5.11.2), as far as the read loop wants to know.
pub(super) struct Values(pub(super) Vec<DataValue>);

impl Response for Values {
    const TYPE: ObjectId = ObjectId::ReadResponse_Encoding_DefaultBinary;

    fn decode(body: &mut &[u8], context: &Context<'_>) -> Result<Self, CallError> {
        let values = if skip_good_header(body) {
            message::decode(body, context)?
        } else {
            decode_whole(body, context, |response: &ReadResponse| {
                &response.response_header
            })?
            .results
        };
        Ok(Self(values.unwrap_or_default()))
    }
}

/// Skips a response's header (Part 4, 7.33) that says that all is well and
/// nothing else, as nearly all of them do; leaves any other where it is.
///
/// What is skipped are a timestamp and a handle, then come the result, the
/// mask of the diagnostics, the length of the string table and the additional
/// header: null. The crate's codec makes a calendar date of the timestamp.
fn skip_good_header(body: &mut &[u8]) -> bool {
    const UNREAD: usize = 12;
    const NO_STRINGS: [u8; 12] = [0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0];
    const EMPTY_STRINGS: [u8; 12] = [0; 12];
    let Some((head, rest)) = body.split_at_checked(UNREAD + NO_STRINGS.len()) else {
        return false;
    };
    let told = &head[UNREAD..];
    let good = told == NO_STRINGS || told == EMPTY_STRINGS;
    if good {
        *body = rest;
    }
    good
}

/// A request that is encoded once and sent again and again.
pub(super) struct Prepared {
    body: Vec<u8>,
    /// Where the timestamp of its header is (Part 4, 7.32).
    timestamp: usize,
    /// Where its handle is, which follows.
    handle: usize,
}

impl Prepared {
    fn new<Q>(request: &Q, token: &NodeId, context: &Context<'_>) -> Result<Self, ProtocolError>
    where
        Q: BinaryEncodable + MessageInfo,
    {
        let mut body = Vec::new();
        let start = message::encode(request, context, &mut body)?;
        // The header comes first, and the token first in it.
        let timestamp = start + token.byte_len(context);
        Ok(Self {
            body,
            timestamp,
            handle: timestamp + size_of::<i64>(),
        })
    }

    /// The body with another time and another handle.
    fn restamped(&mut self, ticks: i64, handle: u32) -> &[u8] {
        message::overwrite(&mut self.body, self.timestamp, ticks.to_le_bytes());
        message::overwrite(&mut self.body, self.handle, handle.to_le_bytes());
        &self.body
    }
}

/// How a channel is to be secured.
pub(super) struct Security {
    pub(super) policy: SecurityPolicy,
    pub(super) mode: MessageSecurityMode,
    /// Both certificates; none under the policy None.
    pub(super) certificates: Option<(Arc<Identity>, PeerCertificate)>,
}

impl Security {
    pub(super) const NONE: Self = Self {
        policy: SecurityPolicy::None,
        mode: MessageSecurityMode::None,
        certificates: None,
    };
}

/// An open secure channel over a connection of its own.
pub(super) struct Exchange {
    stream: TcpStream,
    reader: FrameReader,
    channel: SecureChannel,
    assembler: Assembler,
    context: ContextOwned,
    clock: DayClock,
    last_request: u32,
    token_lifetime: u32,
    renew_at: Timestamp,
    body: Vec<u8>,
    out: Vec<u8>,
}

impl Exchange {
    /// Connects and opens the channel.
    pub(super) async fn open(target: &Target<'_>, security: Security) -> Result<Self, StackError> {
        let url = &target.url;
        (target.log)(format_args!("connecting to {url}"));
        let failed = |source| StackError::Connect {
            url: url.clone(),
            source,
        };
        let stream = TcpStream::connect((url.host(), url.port()))
            .await
            .map_err(failed)?;
        stream.set_nodelay(true)?;
        let peer = stream.peer_addr()?;
        (target.log)(format_args!("TCP connection to {peer} established"));
        let (identity, server) = security.certificates.unzip();
        let mut exchange = Self {
            stream,
            reader: FrameReader::new(LIMITS.chunk_bytes),
            channel: SecureChannel::client(identity, server, security.policy, security.mode),
            assembler: Assembler::new(LIMITS),
            context: ContextOwned::new_default(NamespaceMap::new(), LIMITS.decoding()),
            clock: DayClock::new(),
            last_request: 0,
            token_lifetime: target.token_lifetime,
            renew_at: Timestamp::default(),
            body: Vec::new(),
            out: Vec::new(),
        };
        exchange.greet(&url.to_string()).await?;
        exchange
            .request_token(SecurityTokenRequestType::Issue)
            .await
            .map_err(|error| error.during("OpenSecureChannel"))?;
        (target.log)(format_args!(
            "secure channel {} opened with SecurityPolicy {} and SecurityMode {:?}",
            exchange.channel.id(),
            Policy(security.policy),
            security.mode
        ));
        Ok(exchange)
    }

    /// HEL and ACK (Part 6, 7.1.2.3 and 7.1.2.4).
    async fn greet(&mut self, url: &str) -> Result<(), StackError> {
        self.out.clear();
        message::append(&message::hello(url, &LIMITS), &mut self.out)?;
        self.stream.write_all(&self.out).await?;
        let acknowledge = loop {
            if let Some((header, frame)) = self.reader.take()? {
                break match header.kind {
                    FrameKind::Acknowledge => message::decode_acknowledge(frame)?,
                    _ => return Err(unexpected(&header, frame).into()),
                };
            }
            fill(&mut self.reader, &mut self.stream).await?;
        };
        self.channel.set_peer_limits(PeerLimits {
            chunk_bytes: size(acknowledge.receive_buffer_size).min(LIMITS.chunk_bytes),
            message_bytes: size(acknowledge.max_message_size),
            chunks: size(acknowledge.max_chunk_count),
        });
        Ok(())
    }

    /// Opens the channel, or renews its token (Part 4, 5.6.2).
    async fn request_token(&mut self, kind: SecurityTokenRequestType) -> Result<(), CallError> {
        let nonce = self.channel.make_nonce();
        let request = OpenSecureChannelRequest {
            request_header: self.header(&NodeId::null()),
            client_protocol_version: 0,
            request_type: kind,
            security_mode: self.channel.mode(),
            client_nonce: if nonce.is_empty() {
                ByteString::null()
            } else {
                ByteString::from(nonce.as_slice())
            },
            requested_lifetime: self.token_lifetime,
        };
        let asked = self.clock.now();
        let response: OpenSecureChannelResponse =
            self.send(FrameKind::OpenChannel, &request).await?;
        let token = response.security_token;
        self.channel.set_id(token.channel_id);
        self.channel
            .install_token(token.token_id, &nonce, &response.server_nonce)?;
        // Renewed when three quarters of its life are over.
        self.renew_at = asked + Duration::from_millis(u64::from(token.revised_lifetime)) * 3 / 4;
        Ok(())
    }

    /// The header of the next request.
    pub(super) fn header(&mut self, token: &NodeId) -> RequestHeader {
        RequestHeader {
            authentication_token: token.clone(),
            timestamp: self.clock.date_time(),
            request_handle: self.next_handle(),
            audit_entry_id: UAString::null(),
            ..RequestHeader::default()
        }
    }

    /// The handle of the next request.
    fn next_handle(&mut self) -> u32 {
        // 0 is not used as a handle by anyone.
        self.last_request = self.last_request.wrapping_add(1).max(1);
        self.last_request
    }

    /// Encodes a request that will be sent many times, in the session of
    /// `token`.
    pub(super) fn prepare<Q>(&self, request: &Q, token: &NodeId) -> Result<Prepared, ProtocolError>
    where
        Q: BinaryEncodable + MessageInfo,
    {
        Prepared::new(request, token, &self.context.context())
    }

    /// Sends a prepared request as the next one, and waits for its response.
    pub(super) async fn repeat<R: Response>(
        &mut self,
        prepared: &mut Prepared,
    ) -> Result<R, CallError> {
        let body = prepared.restamped(self.clock.ticks(), self.next_handle());
        self.transmit(FrameKind::Message, body).await?;
        self.receive(FrameKind::Message).await
    }

    /// Renews the security token when it is time.
    #[inline]
    pub(super) async fn keep_open(&mut self) -> Result<(), CallError> {
        if self.clock.now() >= self.renew_at {
            self.request_token(SecurityTokenRequestType::Renew).await?;
        }
        Ok(())
    }

    /// One service: sends the request whose header [`Self::header`] made last,
    /// and waits for its response.
    pub(super) async fn call<Q, R>(&mut self, request: &Q) -> Result<R, CallError>
    where
        Q: BinaryEncodable + MessageInfo,
        R: Response,
    {
        self.send(FrameKind::Message, request).await
    }

    async fn send<Q, R>(&mut self, kind: FrameKind, request: &Q) -> Result<R, CallError>
    where
        Q: BinaryEncodable + MessageInfo,
        R: Response,
    {
        let mut body = std::mem::take(&mut self.body);
        message::encode(request, &self.context.context(), &mut body)?;
        self.transmit(kind, &body).await?;
        self.body = body;
        self.receive(kind).await
    }

    /// Sends a request's body with the last handle.
    async fn transmit(&mut self, kind: FrameKind, body: &[u8]) -> Result<(), CallError> {
        self.out.clear();
        self.channel
            .seal(kind, self.last_request, body, &mut self.out)?;
        self.stream.write_all(&self.out).await?;
        Ok(())
    }

    /// Waits for the response to the last request.
    async fn receive<R: Response>(&mut self, kind: FrameKind) -> Result<R, CallError> {
        loop {
            while let Some((header, frame)) = self.reader.take()? {
                if header.kind != kind {
                    return Err(unexpected(&header, frame).into());
                }
                let chunk = self.channel.open(&header, frame)?;
                match self.assembler.push(chunk)? {
                    Some(message) if message.request_id == self.last_request => {
                        return decode_response(&message, &self.context);
                    }
                    // Part of a message, or the answer to a request that
                    // nobody waits for any more.
                    _ => {}
                }
            }
            fill(&mut self.reader, &mut self.stream).await?;
        }
    }

    /// The certificate that the server used; none under the policy None.
    pub(super) const fn server_certificate(&self) -> Option<&PeerCertificate> {
        self.channel.peer()
    }

    /// Closes the channel and the connection (Part 4, 5.6.3). The server sends
    /// nothing back.
    pub(super) async fn close(mut self) {
        let request = opcua::types::CloseSecureChannelRequest {
            request_header: self.header(&NodeId::null()),
        };
        self.out.clear();
        let sealed =
            message::encode(&request, &self.context.context(), &mut self.body).and_then(|_| {
                self.channel.seal(
                    FrameKind::CloseChannel,
                    self.last_request,
                    &self.body,
                    &mut self.out,
                )
            });
        if sealed.is_ok() {
            // The connection is given up either way.
            let _ = self.stream.write_all(&self.out).await;
        }
        let _ = self.stream.shutdown().await;
    }
}

fn decode_response<R: Response>(
    message: &Assembled<'_>,
    context: &ContextOwned,
) -> Result<R, CallError> {
    let context = context.context();
    let mut body = message.body;
    if message.aborted {
        let status: StatusCode = message::decode(&mut body, &context)?;
        return Err(CallError::Refused(status));
    }
    let kind = message::decode_type(&mut body, &context)?;
    if kind == Some(R::TYPE) {
        return R::decode(&mut body, &context);
    }
    if kind == Some(ObjectId::ServiceFault_Encoding_DefaultBinary) {
        let fault: ServiceFault = message::decode(&mut body, &context)?;
        return Err(CallError::Refused(fault.response_header.service_result));
    }
    Err(ProtocolError::new(
        StatusCode::BadUnknownResponse,
        format!("a response of the type {kind:?} to another request"),
    )
    .into())
}

/// Waits for more bytes of the server.
async fn fill(reader: &mut FrameReader, stream: &mut TcpStream) -> Result<(), StackError> {
    match reader.fill(stream).await? {
        0 => Err(StackError::Closed),
        _ => Ok(()),
    }
}

fn unexpected(header: &FrameHeader, frame: &[u8]) -> ProtocolError {
    match header.kind {
        FrameKind::Error => message::decode_error(frame),
        kind => ProtocolError::new(
            StatusCode::BadTcpMessageTypeInvalid,
            format!("the server sent a frame of kind {kind:?} that has no place here"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcua::types::{ReadRequest, Variant};
    use proptest::prelude::*;

    fn context() -> ContextOwned {
        ContextOwned::new_default(NamespaceMap::new(), LIMITS.decoding())
    }

    fn request(token: &NodeId, ticks: i64, handle: u32) -> ReadRequest {
        ReadRequest {
            request_header: RequestHeader {
                authentication_token: token.clone(),
                timestamp: ticks.into(),
                request_handle: handle,
                audit_entry_id: UAString::null(),
                ..RequestHeader::default()
            },
            ..ReadRequest::default()
        }
    }

    fn tokens() -> impl Strategy<Value = NodeId> {
        prop_oneof![
            (0..3_u16, any::<u32>()).prop_map(NodeId::from),
            (0..3_u16, "[a-z]{0,40}").prop_map(|(ns, name)| NodeId::new(ns, UAString::from(name))),
            prop::collection::vec(any::<u8>(), 0..40)
                .prop_map(|bytes| NodeId::new(1, ByteString::from(bytes))),
        ]
    }

    proptest! {
        #[test]
        fn a_prepared_request_is_what_the_codec_would_send(
            token in tokens(),
            ticks in 0..200_000_000_000_000_000_i64,
            handle in any::<u32>(),
        ) {
            let context = context();
            let context = context.context();
            let mut expected = Vec::new();
            message::encode(&request(&token, ticks, handle), &context, &mut expected).unwrap();
            let earlier = request(&token, 7, 1);
            let mut prepared = Prepared::new(&earlier, &token, &context).unwrap();
            prop_assert_eq!(prepared.restamped(ticks, handle), expected);
        }

        #[test]
        fn a_read_response_holds_what_the_codec_finds(
            status in prop_oneof![
                Just(StatusCode::Good),
                Just(StatusCode::UncertainInitialValue),
                Just(StatusCode::BadTooManyOperations),
            ],
            strings in prop_oneof![
                Just(None),
                Just(Some(Vec::new())),
                Just(Some(vec![UAString::from("why")])),
            ],
            values in prop::option::of(prop::collection::vec(any::<u64>(), 0..4)),
            cut in 0..60_usize,
        ) {
            let context = context();
            let context = context.context();
            let values = values.map(|values| -> Vec<DataValue> {
                values.into_iter().map(|value| DataValue::value_only(Variant::UInt64(value))).collect()
            });
            let response = ReadResponse {
                response_header: ResponseHeader {
                    string_table: strings,
                    service_result: status,
                    ..ResponseHeader::new_good(7_u32)
                },
                results: values.clone(),
                diagnostic_infos: None,
            };
            let mut body = Vec::new();
            let start = message::encode(&response, &context, &mut body).unwrap();
            match Values::decode(&mut &body[start..], &context) {
                Ok(Values(found)) => {
                    prop_assert!(!status.is_bad());
                    prop_assert_eq!(found, values.unwrap_or_default());
                }
                Err(CallError::Refused(refused)) => prop_assert_eq!(refused, status),
                Err(CallError::Lost(error)) => prop_assert!(false, "{}", error),
            }
            // What is cut off is an error or less, and no panic.
            let end = body.len().saturating_sub(cut).max(start);
            let _ = Values::decode(&mut &body[start..end], &context);
        }
    }
}
