//! One client's connection: bytes in, bytes out.

use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opcua::core::comms::tcp_types::{AcknowledgeMessage, ErrorMessage};
use opcua::crypto::SecurityPolicy;
use opcua::types::{
    ByteString, ChannelSecurityToken, MessageSecurityMode, ObjectId, OpenSecureChannelRequest,
    OpenSecureChannelResponse, ResponseHeader, SecurityTokenRequestType, StatusCode,
};
use perf_core::clock::Timestamp;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::Shared;
use super::services::Services;
use crate::endpoint::EndpointUrl;
use crate::wire::ProtocolError;
use crate::wire::assembler::Assembler;
use crate::wire::channel::{PeerLimits, SecureChannel};
use crate::wire::frame::{FrameHeader, FrameKind, FrameReader};
use crate::wire::message::{self, size};

/// From the first byte to an open secure channel.
pub(super) const TIME_TO_OPEN: Duration = Duration::from_secs(10);
/// A client that takes nothing for this long is given up.
const TIME_TO_TAKE: Duration = Duration::from_secs(10);
/// Responses are sent when this many bytes of them wait, or no request is left.
const FLUSH: usize = 65_536;
/// A buffer that grew beyond this for one large response is made smaller.
const KEEP: usize = 262_144;

/// How a security token's lifetime is bounded, in milliseconds.
const SHORTEST_LIFETIME: u32 = 1_000;
const LONGEST_LIFETIME: u32 = 3_600_000;

/// The server's end of one connection.
pub(super) struct Connection {
    shared: Arc<Shared>,
    channel: SecureChannel,
    assembler: Assembler,
    services: Services,
    greeted: bool,
    last_token: u32,
    /// When the connection is closed unless its channel is opened or renewed.
    deadline: Arc<AtomicU64>,
    body: Vec<u8>,
    out: Vec<u8>,
}

/// How a connection ended.
enum End {
    /// The client closed its channel, or the connection.
    Closed,
    /// The server has to say why.
    Protocol(ProtocolError),
    Io(io::Error),
}

impl From<ProtocolError> for End {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>, deadline: Arc<AtomicU64>, local: SocketAddr) -> Self {
        Self {
            channel: SecureChannel::server(shared.identity.clone()),
            assembler: Assembler::new(shared.limits),
            services: Services::new(EndpointUrl::from_socket(local)),
            shared,
            greeted: false,
            last_token: 0,
            deadline,
            body: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Serves the client to the end.
    pub(super) async fn serve(
        mut self,
        mut stream: TcpStream,
        number: u64,
        stop: oneshot::Receiver<StatusCode>,
    ) {
        let end = self.exchange(&mut stream, stop).await;
        let now = self.shared.clock.now();
        for session in self.services.sessions() {
            session.orphan(self.channel.id(), now);
        }
        match end {
            End::Closed => self.shared.log(format_args!("connection {number} closed")),
            End::Io(error) => self
                .shared
                .log(format_args!("connection {number} lost: {error}")),
            End::Protocol(error) => {
                self.shared
                    .log(format_args!("connection {number} closed: {error}"));
                self.out.clear();
                let last_words = ErrorMessage::new(error.status, &error.reason);
                if message::append(&last_words, &mut self.out).is_ok() {
                    // The client may be gone already.
                    let _ = flush(&mut stream, &mut self.out).await;
                }
            }
        }
    }

    async fn exchange(
        &mut self,
        stream: &mut TcpStream,
        mut stop: oneshot::Receiver<StatusCode>,
    ) -> End {
        let mut reader = FrameReader::new(self.shared.limits.chunk_bytes);
        loop {
            if let Err(end) = self.answer_all(stream, &mut reader).await {
                return end;
            }
            let read = tokio::select! {
                biased;
                read = reader.fill(stream) => read,
                reason = &mut stop => {
                    let status = reason.unwrap_or(StatusCode::BadServerHalted);
                    return ProtocolError::new(status, "closed by the server").into();
                }
            };
            match read {
                Ok(0) => return End::Closed,
                Ok(_) => {}
                Err(error) => return error.into(),
            }
        }
    }

    /// Answers every request that has come whole.
    async fn answer_all(
        &mut self,
        stream: &mut TcpStream,
        reader: &mut FrameReader,
    ) -> Result<(), End> {
        let now = self.shared.clock.now();
        while let Some((header, frame)) = reader.take()? {
            if self.handle(&header, frame, now)?.is_break() {
                flush(stream, &mut self.out).await?;
                return Err(End::Closed);
            }
            if self.out.len() >= FLUSH {
                flush(stream, &mut self.out).await?;
            }
        }
        self.shared.pacer.touch(now);
        Ok(flush(stream, &mut self.out).await?)
    }

    fn handle(
        &mut self,
        header: &FrameHeader,
        frame: &mut [u8],
        now: Timestamp,
    ) -> Result<ControlFlow<()>, ProtocolError> {
        match header.kind {
            FrameKind::Hello if !self.greeted => self.greet(frame)?,
            FrameKind::OpenChannel if self.greeted => self.open_channel(header, frame, now)?,
            FrameKind::Message => self.message(header, frame, now)?,
            FrameKind::CloseChannel => {
                self.channel.open(header, frame)?;
                return Ok(ControlFlow::Break(()));
            }
            kind => {
                return Err(ProtocolError::new(
                    StatusCode::BadTcpMessageTypeInvalid,
                    format!("a frame of kind {kind:?} has no place here"),
                ));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn message(
        &mut self,
        header: &FrameHeader,
        frame: &mut [u8],
        now: Timestamp,
    ) -> Result<(), ProtocolError> {
        let chunk = self.channel.open(header, frame)?;
        let Some(request) = self.assembler.push(chunk)? else {
            return Ok(());
        };
        if request.aborted {
            return Ok(());
        }
        let Self {
            shared,
            services,
            channel,
            body,
            out,
            ..
        } = self;
        services.answer(shared, channel, request.body, now, body)?;
        match channel.seal(FrameKind::Message, request.request_id, body, out) {
            Err(error) if error.status == StatusCode::BadResponseTooLarge => {
                Services::refuse_response(shared, request.body, error.status, body)?;
                channel.seal(FrameKind::Message, request.request_id, body, out)
            }
            sealed => sealed,
        }
    }

    /// HEL and ACK (Part 6, 7.1.2.3 and 7.1.2.4).
    fn greet(&mut self, frame: &[u8]) -> Result<(), ProtocolError> {
        let hello = message::decode_hello(frame)?;
        self.greeted = true;
        // A URL that cannot be read is no reason to send the client away.
        if let Ok(url) = hello.endpoint_url.as_ref().parse() {
            self.services.set_url(&url);
        }
        let own = self.shared.limits;
        let receive = own.chunk_bytes.min(size(hello.send_buffer_size));
        let send = own.chunk_bytes.min(size(hello.receive_buffer_size));
        self.channel.set_peer_limits(PeerLimits {
            chunk_bytes: send,
            message_bytes: size(hello.max_message_size),
            chunks: size(hello.max_chunk_count),
        });
        let number = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        let acknowledge = AcknowledgeMessage::new(
            0,
            number(receive),
            number(send),
            number(own.message_bytes),
            number(own.chunks),
        );
        message::append(&acknowledge, &mut self.out)
    }

    /// Opens the channel or renews its token (Part 4, 5.6.2).
    fn open_channel(
        &mut self,
        header: &FrameHeader,
        frame: &mut [u8],
        now: Timestamp,
    ) -> Result<(), ProtocolError> {
        let renewal = self.channel.is_open();
        let chunk = self.channel.open(header, frame)?;
        let context = self.shared.context.context();
        let mut body = chunk.body;
        let kind = message::decode_type(&mut body, &context)?;
        if kind != Some(ObjectId::OpenSecureChannelRequest_Encoding_DefaultBinary) {
            return Err(ProtocolError::new(
                StatusCode::BadTcpMessageTypeInvalid,
                "an OPN that holds another message",
            ));
        }
        let request: OpenSecureChannelRequest = message::decode(&mut body, &context)?;
        if renewal != (request.request_type == SecurityTokenRequestType::Renew) {
            return Err(ProtocolError::new(
                StatusCode::BadRequestTypeInvalid,
                "a channel is issued once and then renewed",
            ));
        }
        if renewal {
            if request.security_mode != self.channel.mode() {
                return Err(rejected_mode(self.channel.policy(), request.security_mode));
            }
        } else {
            self.accept_security(request.security_mode)?;
            self.channel.set_mode(request.security_mode);
            self.channel.set_id(self.shared.next_channel());
        }
        self.last_token = self.last_token.wrapping_add(1);
        let nonce = self.channel.make_nonce();
        self.channel
            .install_token(self.last_token, &nonce, &request.client_nonce)?;
        let lifetime = request
            .requested_lifetime
            .clamp(SHORTEST_LIFETIME, LONGEST_LIFETIME);
        // A quarter more than agreed on, for a renewal that is on its way.
        let end = now + Duration::from_millis(u64::from(lifetime)) * 5 / 4;
        self.deadline.store(end.as_nanos(), Ordering::Relaxed);
        let created = self.shared.clock.date_time();
        let response = OpenSecureChannelResponse {
            response_header: ResponseHeader::new_timestamped_service_result(
                created,
                &request.request_header,
                StatusCode::Good,
            ),
            server_protocol_version: 0,
            security_token: ChannelSecurityToken {
                channel_id: self.channel.id(),
                token_id: self.last_token,
                created_at: created,
                revised_lifetime: lifetime,
            },
            server_nonce: if nonce.is_empty() {
                ByteString::null()
            } else {
                ByteString::from(nonce)
            },
        };
        message::encode(&response, &context, &mut self.body)?;
        self.channel.seal(
            FrameKind::OpenChannel,
            chunk.request_id,
            &self.body,
            &mut self.out,
        )?;
        self.shared.log(format_args!(
            "secure channel {} {} with SecurityPolicy {} and SecurityMode {:?}",
            self.channel.id(),
            if renewal { "renewed" } else { "opened" },
            self.channel.policy(),
            self.channel.mode(),
        ));
        Ok(())
    }

    /// Without security a channel can always be opened, to ask for the
    /// endpoints; a session needs a policy that is offered.
    fn accept_security(&self, mode: MessageSecurityMode) -> Result<(), ProtocolError> {
        let policy = self.channel.policy();
        let secure = matches!(
            mode,
            MessageSecurityMode::Sign | MessageSecurityMode::SignAndEncrypt
        );
        match policy {
            SecurityPolicy::None if mode == MessageSecurityMode::None => Ok(()),
            SecurityPolicy::None => Err(rejected_mode(policy, mode)),
            _ if !self.shared.policies.contains(&policy) => Err(ProtocolError::new(
                StatusCode::BadSecurityPolicyRejected,
                format!("the security policy {policy} is not offered"),
            )),
            _ if secure => Ok(()),
            _ => Err(rejected_mode(policy, mode)),
        }
    }
}

fn rejected_mode(policy: SecurityPolicy, mode: MessageSecurityMode) -> ProtocolError {
    ProtocolError::new(
        StatusCode::BadSecurityModeRejected,
        format!("the mode {mode:?} does not go with {policy}"),
    )
}

/// Sends a client away that is one too many.
pub(super) async fn refuse(mut stream: TcpStream) {
    let mut out = Vec::new();
    let busy = ErrorMessage::new(StatusCode::BadTcpServerTooBusy, "too many connections");
    if message::append(&busy, &mut out).is_ok() {
        let _ = flush(&mut stream, &mut out).await;
    }
}

/// Sends what waits. The common case, a socket with room, costs one system
/// call and no timer.
async fn flush(stream: &mut TcpStream, out: &mut Vec<u8>) -> io::Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    let sent = match stream.try_write(out) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        sent => sent?,
    };
    if sent < out.len() {
        tokio::time::timeout(TIME_TO_TAKE, stream.write_all(&out[sent..]))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    }
    out.clear();
    out.shrink_to(KEEP);
    Ok(())
}
