//! The client's end of a secure channel: one request, one response.

use std::sync::Arc;

use opcua::crypto::SecurityPolicy;
use opcua::types::{
    BinaryDecodable, BinaryEncodable, ByteString, ContextOwned, MessageInfo, MessageSecurityMode,
    NamespaceMap, NodeId, ObjectId, OpenSecureChannelRequest, OpenSecureChannelResponse,
    RequestHeader, ResponseHeader, SecurityTokenRequestType, ServiceFault, StatusCode, UAString,
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
pub(super) trait Response: BinaryDecodable {
    /// Its type on the wire.
    const TYPE: ObjectId;

    fn header(&self) -> &ResponseHeader;
}

/// The responses that this client understands.
macro_rules! responses {
    ($($response:ident $id:ident)*) => {
        $(
            impl Response for opcua::types::$response {
                const TYPE: ObjectId = ObjectId::$id;

                fn header(&self) -> &ResponseHeader {
                    &self.response_header
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
    ReadResponse ReadResponse_Encoding_DefaultBinary
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
        let mut header = RequestHeader {
            authentication_token: token.clone(),
            audit_entry_id: UAString::null(),
            ..RequestHeader::default()
        };
        self.stamp(&mut header);
        header
    }

    /// Makes an earlier request's header that of the next request.
    pub(super) fn stamp(&mut self, header: &mut RequestHeader) {
        // 0 is not used as a handle by anyone.
        self.last_request = self.last_request.wrapping_add(1).max(1);
        header.request_handle = self.last_request;
        header.timestamp = self.clock.date_time();
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
        message::encode(request, &self.context.context(), &mut self.body)?;
        self.out.clear();
        self.channel
            .seal(kind, self.last_request, &self.body, &mut self.out)?;
        self.stream.write_all(&self.out).await?;
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
            message::encode(&request, &self.context.context(), &mut self.body).and_then(|()| {
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
        let response: R = message::decode(&mut body, &context)?;
        let status = response.header().service_result;
        return if status.is_bad() {
            Err(CallError::Refused(status))
        } else {
            Ok(response)
        };
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
