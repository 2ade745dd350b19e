//! The secure channel: one chunk in, one chunk out (Part 6, 6.7).
//!
//! ```text
//! bytes     header  channel  token (MSG, CLO)      sequence  body  padding  signature
//!           8       4        4
//!                            policy, certificate,
//!                            thumbprint (OPN)
//! signed    |<---------------------------------------------------------->|
//! encrypted                                        |<-------------------------------->|
//! ```

use std::fmt;
use std::sync::Arc;

use opcua::crypto::{AesDerivedKeys, KeySize, SecurityPolicy, random};
use opcua::types::{ByteString, MessageSecurityMode, StatusCode};

use super::ProtocolError;
use super::frame::{ChunkKind, FrameHeader, FrameKind, HEADER, SMALLEST_CHUNK_LIMIT};
use crate::certificate::{Identity, PeerCertificate};

/// Header, channel and token of a symmetric chunk.
const SYMMETRIC_HEADER: usize = HEADER + 4 + 4;
/// Sequence number and request.
const SEQUENCE_HEADER: usize = 8;
/// AES's, whatever the key's length.
const CIPHER_BLOCK: usize = 16;
/// Above this many bytes of key the padding's length takes two bytes.
const LARGE_KEY: usize = 256;
/// Sequence numbers begin again before this one (Part 6, 6.7.2.4).
const LAST_SEQUENCE: u32 = u32::MAX - 1024;

/// Which end of the channel this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// A chunk that was checked and decrypted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opened<'f> {
    pub(crate) chunk: ChunkKind,
    pub(crate) request_id: u32,
    pub(crate) body: &'f [u8],
}

/// What the other end takes, from its hello or acknowledgement. 0 is no limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerLimits {
    pub(crate) chunk_bytes: usize,
    pub(crate) message_bytes: usize,
    pub(crate) chunks: usize,
}

/// One security token's keys; none under the policy None.
struct Token {
    id: u32,
    keys: Option<Keys>,
}

struct Keys {
    local: AesDerivedKeys,
    remote: AesDerivedKeys,
}

/// One end of a secure channel.
pub(crate) struct SecureChannel {
    role: Role,
    identity: Option<Arc<Identity>>,
    peer: Option<PeerCertificate>,
    policy: SecurityPolicy,
    mode: MessageSecurityMode,
    id: u32,
    /// The token that this end sends with.
    active: Option<Token>,
    /// A client: the token before, which the server may still send with. A
    /// server: the next one, which the client has not used yet (Part 4, 5.6.2).
    other: Option<Token>,
    next_sequence: u32,
    last_received: Option<u32>,
    peer_limits: PeerLimits,
    scratch: Vec<u8>,
}

impl fmt::Debug for SecureChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecureChannel")
            .field("id", &self.id)
            .field("policy", &self.policy)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

fn insecure(reason: &str) -> ProtocolError {
    ProtocolError::new(StatusCode::BadSecurityChecksFailed, reason.to_owned())
}

fn broken() -> ProtocolError {
    ProtocolError::new(
        StatusCode::BadTcpInternalError,
        "a chunk is shorter than its headers",
    )
}

impl SecureChannel {
    /// The server's end of a channel that is not open yet.
    pub(crate) fn server(identity: Option<Arc<Identity>>) -> Self {
        Self::new(
            Role::Server,
            identity,
            None,
            SecurityPolicy::None,
            MessageSecurityMode::None,
        )
    }

    /// The client's end; a policy other than None needs both certificates.
    pub(crate) fn client(
        identity: Option<Arc<Identity>>,
        server: Option<PeerCertificate>,
        policy: SecurityPolicy,
        mode: MessageSecurityMode,
    ) -> Self {
        Self::new(Role::Client, identity, server, policy, mode)
    }

    fn new(
        role: Role,
        identity: Option<Arc<Identity>>,
        peer: Option<PeerCertificate>,
        policy: SecurityPolicy,
        mode: MessageSecurityMode,
    ) -> Self {
        Self {
            role,
            identity,
            peer,
            policy,
            mode,
            id: 0,
            active: None,
            other: None,
            next_sequence: 1,
            last_received: None,
            peer_limits: PeerLimits {
                chunk_bytes: SMALLEST_CHUNK_LIMIT,
                message_bytes: 0,
                chunks: 0,
            },
            scratch: Vec::new(),
        }
    }

    pub(crate) const fn id(&self) -> u32 {
        self.id
    }

    pub(crate) const fn set_id(&mut self, id: u32) {
        self.id = id;
    }

    pub(crate) const fn policy(&self) -> SecurityPolicy {
        self.policy
    }

    pub(crate) const fn mode(&self) -> MessageSecurityMode {
        self.mode
    }

    /// The mode that the client asked for in its OpenSecureChannel.
    pub(crate) const fn set_mode(&mut self, mode: MessageSecurityMode) {
        self.mode = mode;
    }

    pub(crate) const fn is_open(&self) -> bool {
        self.active.is_some()
    }

    /// The peer's certificate; none under the policy None.
    pub(crate) const fn peer(&self) -> Option<&PeerCertificate> {
        self.peer.as_ref()
    }

    pub(crate) const fn set_peer_limits(&mut self, limits: PeerLimits) {
        self.peer_limits = limits;
    }

    /// A nonce for an OpenSecureChannel: as long as the policy wants, none
    /// under the policy None.
    pub(crate) fn make_nonce(&self) -> Vec<u8> {
        let mut nonce = match self.policy {
            SecurityPolicy::None => Vec::new(),
            policy => vec![0; policy.secure_channel_nonce_length()],
        };
        random::bytes(&mut nonce);
        nonce
    }

    /// Takes a new token into use (Part 6, 6.7.5: the keys of an end come from
    /// the other end's nonce as the secret and its own as the seed).
    pub(crate) fn install_token(
        &mut self,
        id: u32,
        local_nonce: &[u8],
        remote_nonce: &ByteString,
    ) -> Result<(), ProtocolError> {
        let keys = match self.policy {
            SecurityPolicy::None => None,
            policy => {
                let remote_nonce: &[u8] = remote_nonce.as_ref();
                if remote_nonce.len() != policy.secure_channel_nonce_length() {
                    return Err(ProtocolError::new(
                        StatusCode::BadNonceInvalid,
                        format!(
                            "a nonce of {} bytes; {policy} wants {}",
                            remote_nonce.len(),
                            policy.secure_channel_nonce_length()
                        ),
                    ));
                }
                Some(Keys {
                    local: policy.make_secure_channel_keys(remote_nonce, local_nonce),
                    remote: policy.make_secure_channel_keys(local_nonce, remote_nonce),
                })
            }
        };
        let token = Token { id, keys };
        match (self.role, self.active.is_some()) {
            (_, false) => self.active = Some(token),
            (Role::Server, true) => self.other = Some(token),
            (Role::Client, true) => self.other = self.active.replace(token),
        }
        Ok(())
    }

    /// Checks and decrypts a chunk, in place.
    pub(crate) fn open<'f>(
        &mut self,
        header: &FrameHeader,
        frame: &'f mut [u8],
    ) -> Result<Opened<'f>, ProtocolError> {
        let plain = match header.kind {
            FrameKind::OpenChannel => self.open_asymmetric(frame)?,
            _ => self.open_symmetric(frame)?,
        };
        let body = &frame[plain];
        let (sequence, body) = take_u32(body)?;
        let (request_id, body) = take_u32(body)?;
        self.check_sequence(sequence)?;
        Ok(Opened {
            chunk: header.chunk,
            request_id,
            body,
        })
    }

    /// Gives the range of sequence header and body.
    fn open_symmetric(
        &mut self,
        frame: &mut [u8],
    ) -> Result<std::ops::Range<usize>, ProtocolError> {
        let (channel, rest) = take_u32(frame.get(HEADER..).ok_or_else(broken)?)?;
        let (token, _) = take_u32(rest)?;
        if channel != self.id || !self.is_open() {
            return Err(ProtocolError::new(
                StatusCode::BadSecureChannelIdInvalid,
                format!(
                    "a message for the secure channel {channel}; this is {}",
                    self.id
                ),
            ));
        }
        if self.other.as_ref().is_some_and(|other| other.id == token) {
            if self.role == Role::Server {
                // The client uses the new token: from now on it is the only one.
                self.active = self.other.take();
            }
        } else if self.active.as_ref().is_none_or(|active| active.id != token) {
            return Err(ProtocolError::new(
                StatusCode::BadSecureChannelTokenUnknown,
                format!("a message with the unknown security token {token}"),
            ));
        }
        let keys = [&self.active, &self.other]
            .into_iter()
            .flatten()
            .find(|known| known.id == token)
            .and_then(|known| known.keys.as_ref());
        let Some(keys) = keys.filter(|_| self.mode != MessageSecurityMode::None) else {
            return Ok(SYMMETRIC_HEADER..frame.len());
        };
        let mut end = frame.len();
        let encrypted = self.mode == MessageSecurityMode::SignAndEncrypt;
        let wrong = || insecure("a message's signature, encryption or padding is wrong");
        if encrypted {
            let cipher = &frame[SYMMETRIC_HEADER..];
            self.scratch.resize(cipher.len() + CIPHER_BLOCK, 0);
            let length = self
                .policy
                .symmetric_decrypt(&keys.remote, cipher, &mut self.scratch)
                .map_err(|_| wrong())?;
            end = SYMMETRIC_HEADER + length;
            frame
                .get_mut(SYMMETRIC_HEADER..end)
                .ok_or_else(wrong)?
                .copy_from_slice(&self.scratch[..length]);
        }
        let signed = end
            .checked_sub(self.policy.symmetric_signature_size())
            .filter(|&signed| signed >= SYMMETRIC_HEADER + SEQUENCE_HEADER)
            .ok_or_else(wrong)?;
        self.policy
            .symmetric_verify_signature(&keys.remote, &frame[..signed], &frame[signed..end])
            .map_err(|_| wrong())?;
        let plain = SYMMETRIC_HEADER..signed;
        let padding = if encrypted {
            padding(&frame[plain.clone()], false).ok_or_else(wrong)?
        } else {
            0
        };
        Ok(plain.start..plain.end - padding)
    }

    /// Gives the range of sequence header and body.
    fn open_asymmetric(
        &mut self,
        frame: &mut [u8],
    ) -> Result<std::ops::Range<usize>, ProtocolError> {
        let AsymmetricHeader {
            channel,
            policy,
            certificate,
            thumbprint,
            length: start,
        } = AsymmetricHeader::parse(frame)?;
        if self.role == Role::Server && channel != self.id {
            return Err(ProtocolError::new(
                StatusCode::BadSecureChannelIdInvalid,
                format!(
                    "an OpenSecureChannel for the channel {channel}; this is {}",
                    self.id
                ),
            ));
        }
        let first = self.role == Role::Server && !self.is_open();
        if !first && policy != self.policy {
            return Err(ProtocolError::new(
                StatusCode::BadSecurityPolicyRejected,
                format!("the peer went from {} to {policy}", self.policy),
            ));
        }
        if policy == SecurityPolicy::None {
            self.policy = policy;
            return Ok(start..frame.len());
        }
        let Some(identity) = self.identity.clone() else {
            return Err(ProtocolError::new(
                StatusCode::BadSecurityPolicyRejected,
                format!("no certificate for {policy} here"),
            ));
        };
        if thumbprint != identity.thumbprint() {
            return Err(ProtocolError::new(
                StatusCode::BadCertificateInvalid,
                "the message is for another certificate",
            ));
        }
        match &self.peer {
            Some(known) if !certificate.starts_with(known.der()) => {
                return Err(insecure("the peer changed its certificate"));
            }
            Some(_) => {}
            None => {
                let peer = PeerCertificate::parse(certificate)?;
                let bits = peer.key().bit_length();
                if !policy.is_valid_keylength(bits) {
                    return Err(ProtocolError::new(
                        StatusCode::BadCertificatePolicyCheckFailed,
                        format!("a key of {bits} bits is not for {policy}"),
                    ));
                }
                self.peer = Some(peer);
            }
        }
        self.policy = policy;
        let wrong = || insecure("an OpenSecureChannel's signature or encryption is wrong");
        let peer = self.peer.as_ref().ok_or_else(wrong)?;
        let cipher = &frame[start..];
        if cipher.is_empty() || !cipher.len().is_multiple_of(identity.key().size()) {
            return Err(wrong());
        }
        self.scratch.resize(cipher.len(), 0);
        let length = policy
            .asymmetric_decrypt(identity.key(), cipher, &mut self.scratch)
            .map_err(|_| wrong())?;
        let end = start + length;
        frame[start..end].copy_from_slice(&self.scratch[..length]);
        let signed = end
            .checked_sub(peer.key().size())
            .filter(|&signed| signed >= start + SEQUENCE_HEADER)
            .ok_or_else(wrong)?;
        policy
            .asymmetric_verify_signature(peer.key(), &frame[..signed], &frame[signed..end])
            .map_err(|_| wrong())?;
        let large = identity.key().size() > LARGE_KEY;
        let padding = padding(&frame[start..signed], large).ok_or_else(wrong)?;
        Ok(start..signed - padding)
    }

    /// Each chunk's number is one more than the last (Part 6, 6.7.2.4).
    fn check_sequence(&mut self, sequence: u32) -> Result<(), ProtocolError> {
        let right = match self.last_received {
            None => true,
            Some(last) if last.checked_add(1) == Some(sequence) => true,
            Some(last) => last >= LAST_SEQUENCE && sequence < 1024,
        };
        if !right {
            return Err(ProtocolError::new(
                StatusCode::BadSequenceNumberInvalid,
                format!("chunk {sequence} is not the next one"),
            ));
        }
        self.last_received = Some(sequence);
        Ok(())
    }

    fn take_sequence(&mut self) -> u32 {
        let sequence = self.next_sequence;
        self.next_sequence = if sequence >= LAST_SEQUENCE {
            1
        } else {
            sequence + 1
        };
        sequence
    }

    /// Appends a message, in as many chunks as the peer's buffer needs.
    pub(crate) fn seal(
        &mut self,
        kind: FrameKind,
        request_id: u32,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ProtocolError> {
        if kind == FrameKind::OpenChannel {
            return self.seal_asymmetric(request_id, body, out);
        }
        let most = self.largest_body();
        self.check_peer_limits(body.len(), body.len().div_ceil(most).max(1))?;
        let mut rest = body;
        loop {
            let (part, after) = rest.split_at(rest.len().min(most));
            rest = after;
            let chunk = if rest.is_empty() {
                ChunkKind::Final
            } else {
                ChunkKind::Intermediate
            };
            self.seal_symmetric(kind, chunk, request_id, part, out)?;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    fn check_peer_limits(&self, bytes: usize, chunks: usize) -> Result<(), ProtocolError> {
        let above = |limit: usize, wanted: usize| limit > 0 && wanted > limit;
        let limits = self.peer_limits;
        if above(limits.message_bytes, bytes) || above(limits.chunks, chunks) {
            let status = match self.role {
                Role::Client => StatusCode::BadRequestTooLarge,
                Role::Server => StatusCode::BadResponseTooLarge,
            };
            return Err(ProtocolError::new(
                status,
                format!(
                    "a message of {bytes} bytes in {chunks} chunks; the peer takes {} bytes in {} chunks (0: any)",
                    limits.message_bytes, limits.chunks
                ),
            ));
        }
        Ok(())
    }

    fn signature_size(&self) -> usize {
        match self.mode {
            MessageSecurityMode::Sign | MessageSecurityMode::SignAndEncrypt => {
                self.policy.symmetric_signature_size()
            }
            _ => 0,
        }
    }

    /// The most that fits into one symmetric chunk.
    fn largest_body(&self) -> usize {
        let room = self.peer_limits.chunk_bytes - SYMMETRIC_HEADER;
        if self.mode == MessageSecurityMode::SignAndEncrypt {
            let blocks = room - room % CIPHER_BLOCK;
            blocks - SEQUENCE_HEADER - self.signature_size() - 1
        } else {
            room - SEQUENCE_HEADER - self.signature_size()
        }
    }

    fn seal_symmetric(
        &mut self,
        kind: FrameKind,
        chunk: ChunkKind,
        request_id: u32,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ProtocolError> {
        let sequence = self.take_sequence();
        let signature = self.signature_size();
        let encrypted = self.mode == MessageSecurityMode::SignAndEncrypt;
        let padding = if encrypted {
            CIPHER_BLOCK - (SEQUENCE_HEADER + body.len() + signature) % CIPHER_BLOCK
        } else {
            0
        };
        let size = SYMMETRIC_HEADER + SEQUENCE_HEADER + body.len() + padding + signature;
        let Some(token) = &self.active else {
            return Err(ProtocolError::new(
                StatusCode::BadSecureChannelClosed,
                "the secure channel is not open",
            ));
        };
        let start = out.len();
        out.reserve(size);
        out.extend_from_slice(&kind.letters());
        out.push(chunk.letter());
        out.extend_from_slice(&length_u32(size)?.to_le_bytes());
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&token.id.to_le_bytes());
        out.extend_from_slice(&sequence.to_le_bytes());
        out.extend_from_slice(&request_id.to_le_bytes());
        out.extend_from_slice(body);
        let Some(keys) = token.keys.as_ref().filter(|_| signature > 0) else {
            return Ok(());
        };
        push_padding(out, padding, false)?;
        out.resize(start + size, 0);
        let frame = &mut out[start..];
        let (plain, place) = frame.split_at_mut(size - signature);
        self.policy.symmetric_sign(&keys.local, plain, place)?;
        if encrypted {
            let plain = &mut frame[SYMMETRIC_HEADER..];
            self.scratch.resize(plain.len() + CIPHER_BLOCK, 0);
            self.policy
                .symmetric_encrypt(&keys.local, plain, &mut self.scratch)?;
            plain.copy_from_slice(&self.scratch[..plain.len()]);
        }
        Ok(())
    }

    /// An OpenSecureChannel is one chunk, and signed and encrypted even in the
    /// mode Sign (Part 6, 6.7.4).
    fn seal_asymmetric(
        &mut self,
        request_id: u32,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ProtocolError> {
        let sequence = self.take_sequence();
        let start = out.len();
        out.extend_from_slice(&FrameKind::OpenChannel.letters());
        out.push(ChunkKind::Final.letter());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.id.to_le_bytes());
        push_bytes(out, Some(self.policy.to_uri().as_bytes()))?;
        let (Some(identity), Some(peer), false) = (
            &self.identity,
            &self.peer,
            self.policy == SecurityPolicy::None,
        ) else {
            push_bytes(out, None)?;
            push_bytes(out, None)?;
            out.extend_from_slice(&sequence.to_le_bytes());
            out.extend_from_slice(&request_id.to_le_bytes());
            out.extend_from_slice(body);
            let size = length_u32(out.len() - start)?;
            out[start + 4..start + HEADER].copy_from_slice(&size.to_le_bytes());
            return Ok(());
        };
        push_bytes(out, Some(identity.der()))?;
        push_bytes(out, Some(peer.thumbprint()))?;
        let head = out.len();
        out.extend_from_slice(&sequence.to_le_bytes());
        out.extend_from_slice(&request_id.to_le_bytes());
        out.extend_from_slice(body);
        let signature = identity.key().size();
        let large = peer.key().size() > LARGE_KEY;
        let block = self.policy.asymmetric_padding_info(peer.key()).block_size;
        let smallest = if large { 2 } else { 1 };
        let unpadded = out.len() - head + smallest + signature;
        push_padding(
            out,
            smallest + unpadded.next_multiple_of(block) - unpadded,
            large,
        )?;
        let plain = out.len() - head + signature;
        let cipher = self.policy.calculate_cipher_text_size(plain, peer.key());
        let size = length_u32(head - start + cipher)?;
        out[start + 4..start + HEADER].copy_from_slice(&size.to_le_bytes());
        let signed = out.len();
        out.resize(signed + signature, 0);
        let (message, place) = out.split_at_mut(signed);
        self.policy
            .asymmetric_sign(identity.key(), &message[start..], place)?;
        self.scratch.resize(cipher, 0);
        self.policy
            .asymmetric_encrypt(peer.key(), &out[head..], &mut self.scratch)?;
        out.truncate(head);
        out.extend_from_slice(&self.scratch[..cipher]);
        Ok(())
    }
}

/// How many bytes of padding `plain` ends with, their length included; `None`
/// when they are not what they should be.
fn padding(plain: &[u8], large: bool) -> Option<usize> {
    let (high, before) = if large {
        let (&high, before) = plain.split_last()?;
        (usize::from(high), before)
    } else {
        (0, plain)
    };
    let &low = before.last()?;
    let length = (high << 8) + usize::from(low) + 1;
    let start = before
        .len()
        .checked_sub(length)
        .filter(|&start| start >= SEQUENCE_HEADER)?;
    before[start..]
        .iter()
        .all(|&b| b == low)
        .then_some(length + usize::from(large))
}

/// Appends `total` bytes of padding, their length included; the length itself
/// counts neither its own byte nor the second one.
fn push_padding(out: &mut Vec<u8>, total: usize, large: bool) -> Result<(), ProtocolError> {
    let Some(length) = total.checked_sub(if large { 2 } else { 1 }) else {
        return Ok(());
    };
    let [low, high, ..] = length_u32(length)?.to_le_bytes();
    out.extend(std::iter::repeat_n(low, length + 1));
    if large {
        out.push(high);
    }
    Ok(())
}

fn push_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) -> Result<(), ProtocolError> {
    match bytes {
        None => out.extend_from_slice(&(-1_i32).to_le_bytes()),
        Some(bytes) => {
            out.extend_from_slice(&length_u32(bytes.len())?.to_le_bytes());
            out.extend_from_slice(bytes);
        }
    }
    Ok(())
}

fn length_u32(length: usize) -> Result<u32, ProtocolError> {
    u32::try_from(length).map_err(|_| {
        ProtocolError::new(
            StatusCode::BadTcpMessageTooLarge,
            format!("{length} bytes are too many for one chunk"),
        )
    })
}

fn take_u32(bytes: &[u8]) -> Result<(u32, &[u8]), ProtocolError> {
    let (&head, rest) = bytes.split_first_chunk().ok_or_else(broken)?;
    Ok((u32::from_le_bytes(head), rest))
}

/// A string or a byte string; null is empty.
fn take_bytes(bytes: &[u8]) -> Result<(&[u8], &[u8]), ProtocolError> {
    let (length, rest) = take_u32(bytes)?;
    if length == u32::MAX {
        return Ok((&[], rest));
    }
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    rest.split_at_checked(length).ok_or_else(broken)
}

/// What stands in the clear before an OpenSecureChannel (Part 6, 6.7.2.3).
struct AsymmetricHeader<'f> {
    channel: u32,
    policy: SecurityPolicy,
    certificate: &'f [u8],
    thumbprint: &'f [u8],
    /// Bytes before the sequence header.
    length: usize,
}

impl<'f> AsymmetricHeader<'f> {
    fn parse(frame: &'f [u8]) -> Result<Self, ProtocolError> {
        let rest = frame.get(HEADER..).ok_or_else(broken)?;
        let (channel, rest) = take_u32(rest)?;
        let (uri, rest) = take_bytes(rest)?;
        let (certificate, rest) = take_bytes(rest)?;
        let (thumbprint, rest) = take_bytes(rest)?;
        let policy = match uri {
            b"" => SecurityPolicy::None,
            uri => {
                std::str::from_utf8(uri).map_or(SecurityPolicy::Unknown, SecurityPolicy::from_uri)
            }
        };
        if policy == SecurityPolicy::Unknown {
            let uri: String = String::from_utf8_lossy(uri).chars().take(80).collect();
            return Err(ProtocolError::new(
                StatusCode::BadSecurityPolicyRejected,
                format!("the security policy {uri:?} is unknown here"),
            ));
        }
        Ok(Self {
            channel,
            policy,
            certificate,
            thumbprint,
            length: frame.len() - rest.len(),
        })
    }
}
