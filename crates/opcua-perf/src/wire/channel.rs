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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

    /// The mode that the client asked for in its `OpenSecureChannel`.
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

    /// A nonce for an `OpenSecureChannel`: as long as the policy wants, none
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

    /// An `OpenSecureChannel` is one chunk, and signed and encrypted even in the
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

/// What stands in the clear before an `OpenSecureChannel` (Part 6, 6.7.2.3).
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use opcua::core::comms::message_chunk::MessageChunk;
    use opcua::core::comms::secure_channel::{Role as TheirRole, SecureChannel as TheirChannel};
    use opcua::crypto::{CertificateStore, PrivateKey};
    use opcua::sync::RwLock;
    use opcua::types::{ChannelSecurityToken, DateTime};
    use proptest::prelude::*;

    use super::*;
    use crate::certificate::tests::{alice, bob};

    const SECURE: [SecurityPolicy; 5] = [
        SecurityPolicy::Basic128Rsa15,
        SecurityPolicy::Basic256,
        SecurityPolicy::Basic256Sha256,
        SecurityPolicy::Aes128Sha256RsaOaep,
        SecurityPolicy::Aes256Sha256RsaPss,
    ];
    const MODES: [MessageSecurityMode; 2] = [
        MessageSecurityMode::Sign,
        MessageSecurityMode::SignAndEncrypt,
    ];
    const ID: u32 = 7;
    const CLIENT_NONCE: u8 = 1;
    const SERVER_NONCE: u8 = 2;

    fn client(policy: SecurityPolicy, mode: MessageSecurityMode) -> SecureChannel {
        let secure = policy != SecurityPolicy::None;
        SecureChannel::client(
            secure.then(alice),
            secure.then(|| PeerCertificate::parse(bob().der()).unwrap()),
            policy,
            mode,
        )
    }

    fn nonce(policy: SecurityPolicy, fill: u8) -> Vec<u8> {
        match policy {
            SecurityPolicy::None => Vec::new(),
            policy => vec![fill; policy.secure_channel_nonce_length()],
        }
    }

    fn open_token(channel: &mut SecureChannel, token: u32) {
        let (local, remote) = match channel.role {
            Role::Client => (CLIENT_NONCE, SERVER_NONCE),
            Role::Server => (SERVER_NONCE, CLIENT_NONCE),
        };
        let shift = u8::try_from(token).unwrap();
        let local = nonce(channel.policy, local + shift);
        let remote = nonce(channel.policy, remote + shift);
        channel.set_id(ID);
        channel
            .install_token(token, &local, &ByteString::from(remote))
            .unwrap();
    }

    /// Takes the first frame of `bytes` apart.
    fn open_first(
        channel: &mut SecureChannel,
        bytes: &mut [u8],
    ) -> Result<(ChunkKind, u32, Vec<u8>), ProtocolError> {
        let header = FrameHeader::parse(*bytes.first_chunk().unwrap(), usize::MAX)?;
        let opened = channel.open(&header, &mut bytes[..header.size])?;
        Ok((opened.chunk, opened.request_id, opened.body.to_vec()))
    }

    /// A client and a server with an open channel between them, without the
    /// slow exchange that opens it.
    fn pair(policy: SecurityPolicy, mode: MessageSecurityMode) -> (SecureChannel, SecureChannel) {
        let mut client = client(policy, mode);
        let mut server = SecureChannel::server(Some(bob()));
        server.policy = policy;
        server.mode = mode;
        open_token(&mut client, 1);
        open_token(&mut server, 1);
        (client, server)
    }

    fn all_pairs() -> impl Iterator<Item = (SecureChannel, SecureChannel)> {
        SECURE
            .into_iter()
            .flat_map(|policy| MODES.map(|mode| pair(policy, mode)))
            .chain([pair(SecurityPolicy::None, MessageSecurityMode::None)])
    }

    #[test]
    fn a_channel_is_opened_under_every_policy() {
        for policy in SECURE.into_iter().chain([SecurityPolicy::None]) {
            let mut client = client(policy, MessageSecurityMode::Sign);
            let mut server = SecureChannel::server(Some(bob()));
            for body in [&b"issue"[..], b"renew"] {
                let mut wire = Vec::new();
                client
                    .seal(FrameKind::OpenChannel, 1, body, &mut wire)
                    .unwrap();
                let opened = open_first(&mut server, &mut wire).unwrap();
                assert_eq!(opened, (ChunkKind::Final, 1, body.to_vec()));
                assert_eq!(server.policy(), policy);
                wire.clear();
                server
                    .seal(FrameKind::OpenChannel, 1, body, &mut wire)
                    .unwrap();
                let opened = open_first(&mut client, &mut wire).unwrap();
                assert_eq!(opened, (ChunkKind::Final, 1, body.to_vec()));
                assert_eq!(server.peer().is_some(), policy != SecurityPolicy::None);
            }
        }
    }

    #[test]
    fn what_one_end_seals_the_other_opens() {
        for (mut client, mut server) in all_pairs() {
            for length in [0, 1, 15, 16, 17, 100] {
                let body = vec![0x5a; length];
                let mut wire = Vec::new();
                client
                    .seal(FrameKind::Message, 5, &body, &mut wire)
                    .unwrap();
                let opened = open_first(&mut server, &mut wire).unwrap();
                assert_eq!(opened, (ChunkKind::Final, 5, body.clone()));
                wire.clear();
                server
                    .seal(FrameKind::Message, 6, &body, &mut wire)
                    .unwrap();
                let opened = open_first(&mut client, &mut wire).unwrap();
                assert_eq!(opened, (ChunkKind::Final, 6, body));
            }
        }
    }

    #[test]
    fn a_long_message_goes_in_chunks_that_fit() {
        for (mut client, mut server) in all_pairs() {
            let body: Vec<u8> = (0..50_000_u32).map(|i| i.to_le_bytes()[0]).collect();
            let mut wire = Vec::new();
            client
                .seal(FrameKind::Message, 5, &body, &mut wire)
                .unwrap();
            let (mut whole, mut rest) = (Vec::new(), wire.as_mut_slice());
            while !rest.is_empty() {
                let header = FrameHeader::parse(*rest.first_chunk().unwrap(), 8192).unwrap();
                let (frame, after) = rest.split_at_mut(header.size);
                let opened = server.open(&header, frame).unwrap();
                assert_eq!(opened.chunk == ChunkKind::Final, after.is_empty());
                whole.extend_from_slice(opened.body);
                rest = after;
            }
            assert_eq!(whole, body);
        }
    }

    #[test]
    fn a_message_beyond_the_peers_limits_is_not_sent() {
        let (mut client, mut server) = pair(SecurityPolicy::None, MessageSecurityMode::None);
        let limits = |message_bytes, chunks| PeerLimits {
            chunk_bytes: 8192,
            message_bytes,
            chunks,
        };
        let send = |channel: &mut SecureChannel, length| {
            channel
                .seal(FrameKind::Message, 1, &vec![0; length], &mut Vec::new())
                .map_err(|error| error.status)
        };
        client.set_peer_limits(limits(1000, 0));
        assert_eq!(send(&mut client, 1000), Ok(()));
        assert_eq!(send(&mut client, 1001), Err(StatusCode::BadRequestTooLarge));
        server.set_peer_limits(limits(0, 2));
        assert_eq!(send(&mut server, 16_000), Ok(()));
        assert_eq!(
            send(&mut server, 17_000),
            Err(StatusCode::BadResponseTooLarge)
        );
    }

    #[test]
    fn a_token_is_renewed_without_losing_a_message() {
        for (mut client, mut server) in all_pairs() {
            let mut under_way = Vec::new();
            server
                .seal(FrameKind::Message, 3, b"old token", &mut under_way)
                .unwrap();
            open_token(&mut server, 2);
            let mut still_old = Vec::new();
            server
                .seal(FrameKind::Message, 4, b"still old", &mut still_old)
                .unwrap();
            open_token(&mut client, 2);
            assert!(open_first(&mut client, &mut under_way).is_ok());
            assert!(open_first(&mut client, &mut still_old).is_ok());
            let mut wire = Vec::new();
            client
                .seal(FrameKind::Message, 5, b"new token", &mut wire)
                .unwrap();
            assert!(open_first(&mut server, &mut wire).is_ok());
            assert_eq!(server.active.as_ref().unwrap().id, 2);
            assert!(server.other.is_none(), "the old token is gone");
            wire.clear();
            server
                .seal(FrameKind::Message, 6, b"new token", &mut wire)
                .unwrap();
            assert!(open_first(&mut client, &mut wire).is_ok());
        }
    }

    #[test]
    fn no_changed_byte_goes_unnoticed() {
        for policy in [
            SecurityPolicy::Basic256Sha256,
            SecurityPolicy::Basic128Rsa15,
        ] {
            for mode in MODES {
                let (mut client, mut server) = pair(policy, mode);
                let mut wire = Vec::new();
                client
                    .seal(FrameKind::Message, 5, b"a message", &mut wire)
                    .unwrap();
                for at in HEADER..wire.len() {
                    let mut changed = wire.clone();
                    changed[at] ^= 1;
                    assert!(open_first(&mut server, &mut changed).is_err(), "byte {at}");
                }
            }
        }
    }

    #[test]
    fn a_cut_chunk_is_refused() {
        for (mut client, mut server) in all_pairs() {
            let mut wire = Vec::new();
            client
                .seal(FrameKind::Message, 5, &[1; 40], &mut wire)
                .unwrap();
            for length in HEADER..wire.len() {
                let mut cut = wire[..length].to_vec();
                let size = u32::try_from(length).unwrap();
                cut[4..8].copy_from_slice(&size.to_le_bytes());
                let opened = open_first(&mut server, &mut cut);
                // Without security only the headers can be missed.
                let too_short = length < SYMMETRIC_HEADER + SEQUENCE_HEADER;
                assert!(
                    opened.is_err() || (server.mode() == MessageSecurityMode::None && !too_short)
                );
                server.last_received = Some(1);
            }
        }
    }

    #[test]
    fn a_wrong_padding_under_a_right_signature_is_refused() {
        let (mut client, mut server) = pair(
            SecurityPolicy::Basic256Sha256,
            MessageSecurityMode::SignAndEncrypt,
        );
        let policy = client.policy;
        let keys = client.active.take().unwrap().keys.unwrap().local;
        let signature = policy.symmetric_signature_size();
        for padding in [[0xff; 8], [0x07; 8], [0x40; 8], [0; 8]] {
            // 8 + 16 + 8 + 32 bytes: whole blocks.
            let mut frame = Vec::new();
            frame.extend_from_slice(b"MSGF");
            frame.extend_from_slice(&80_u32.to_le_bytes());
            frame.extend_from_slice(&ID.to_le_bytes());
            frame.extend_from_slice(&1_u32.to_le_bytes());
            frame.extend_from_slice(&2_u32.to_le_bytes());
            frame.extend_from_slice(&5_u32.to_le_bytes());
            frame.extend_from_slice(&[b'x'; 16]);
            frame.extend_from_slice(&padding);
            frame.resize(80, 0);
            let (plain, place) = frame.split_at_mut(80 - signature);
            policy.symmetric_sign(&keys, plain, place).unwrap();
            let mut cipher = vec![0; 80];
            policy
                .symmetric_encrypt(&keys, &frame[SYMMETRIC_HEADER..], &mut cipher)
                .unwrap();
            frame[SYMMETRIC_HEADER..].copy_from_slice(&cipher[..64]);
            server.last_received = Some(1);
            let opened = open_first(&mut server, &mut frame);
            let length = usize::from(padding[0]) + 1;
            let right = length == 1 || length == 8;
            assert_eq!(opened.is_ok(), right, "{padding:?}");
        }
    }

    #[test]
    fn chunks_come_in_sequence() {
        let (mut client, mut server) = pair(SecurityPolicy::None, MessageSecurityMode::None);
        let mut wire = Vec::new();
        client.seal(FrameKind::Message, 1, b"", &mut wire).unwrap();
        let again = wire.clone();
        assert!(open_first(&mut server, &mut wire).is_ok());
        let replayed = open_first(&mut server, &mut again.clone()).unwrap_err();
        assert_eq!(replayed.status, StatusCode::BadSequenceNumberInvalid);
        // It may begin again when it is nearly used up (Part 6, 6.7.2.4).
        server.last_received = Some(LAST_SEQUENCE);
        assert!(server.check_sequence(1).is_ok());
        server.last_received = Some(LAST_SEQUENCE - 1);
        assert!(server.check_sequence(1).is_err());
        client.next_sequence = LAST_SEQUENCE;
        assert_eq!(client.take_sequence(), LAST_SEQUENCE);
        assert_eq!(client.take_sequence(), 1);
    }

    #[test]
    fn a_channel_and_a_token_are_the_peers_own() {
        let (mut client, mut server) = pair(SecurityPolicy::None, MessageSecurityMode::None);
        let mut wire = Vec::new();
        client.seal(FrameKind::Message, 1, b"", &mut wire).unwrap();
        let status = |server: &mut SecureChannel, at: usize| {
            let mut changed = wire.clone();
            changed[at] ^= 0x40;
            open_first(server, &mut changed).unwrap_err().status
        };
        assert_eq!(
            status(&mut server, 8),
            StatusCode::BadSecureChannelIdInvalid
        );
        assert_eq!(
            status(&mut server, 12),
            StatusCode::BadSecureChannelTokenUnknown
        );
        let mut closed = SecureChannel::server(None);
        assert_eq!(status(&mut closed, 0), StatusCode::BadTcpMessageTypeInvalid);
        let unopened = open_first(&mut closed, &mut wire.clone()).unwrap_err();
        assert_eq!(unopened.status, StatusCode::BadSecureChannelIdInvalid);
    }

    #[test]
    fn what_is_secret_needs_a_certificate_here() {
        let mut client = client(
            SecurityPolicy::Basic256Sha256,
            MessageSecurityMode::SignAndEncrypt,
        );
        let mut wire = Vec::new();
        client
            .seal(FrameKind::OpenChannel, 1, b"request", &mut wire)
            .unwrap();
        let status = |identity| {
            let mut server = SecureChannel::server(identity);
            open_first(&mut server, &mut wire.clone())
                .unwrap_err()
                .status
        };
        assert_eq!(status(None), StatusCode::BadSecurityPolicyRejected);
        assert_eq!(status(Some(alice())), StatusCode::BadCertificateInvalid);
    }

    /// async-opcua's own channel, which this one must be understood by.
    fn theirs(policy: SecurityPolicy, mode: MessageSecurityMode) -> TheirChannel {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(RwLock::new(CertificateStore::new(folder.path())));
        let mut channel = TheirChannel::new(store, TheirRole::Server, Arc::default());
        let own = PrivateKey::from_pem(bob().key_pem().unwrap().as_bytes());
        channel.set_cert(Some(bob().x509().clone()));
        channel.set_private_key(Some(own.unwrap()));
        channel.set_remote_cert(Some(alice().x509().clone()));
        channel.set_security_policy(policy);
        channel.set_security_mode(mode);
        channel.set_security_token(ChannelSecurityToken {
            channel_id: ID,
            token_id: 1,
            created_at: DateTime::now(),
            revised_lifetime: 60_000,
        });
        channel.set_local_nonce(&nonce(policy, SERVER_NONCE + 1));
        channel.set_remote_nonce(&nonce(policy, CLIENT_NONCE + 1));
        channel.derive_keys();
        channel
    }

    #[test]
    fn async_opcuas_channel_understands_this_one_and_is_understood() {
        use opcua::core::comms::message_chunk::{MessageChunkType, MessageIsFinalType};
        for policy in SECURE {
            for mode in MODES {
                let mut ours = client(policy, mode);
                let theirs = theirs(policy, mode);
                let mut wire = Vec::new();
                ours.seal(FrameKind::OpenChannel, 1, b"open", &mut wire)
                    .unwrap();
                let opened = theirs.verify_and_remove_security(wire.into()).unwrap();
                assert!(opened.data.ends_with(b"open"), "{policy} {mode:?}");
                open_token(&mut ours, 1);
                for length in [0, 1, 31, 32, 500] {
                    let body = vec![0x33; length];
                    let mut wire = Vec::new();
                    ours.seal(FrameKind::Message, 9, &body, &mut wire).unwrap();
                    let opened = theirs.verify_and_remove_security(wire.into()).unwrap();
                    assert_eq!(opened.data[24..], body, "{policy} {mode:?}");
                    let chunk = MessageChunk::new(
                        ours.last_received.map_or(1, |last| last + 1),
                        9,
                        MessageChunkType::Message,
                        MessageIsFinalType::Final,
                        &theirs,
                        &body,
                    )
                    .unwrap();
                    let mut sent = vec![0; 4096];
                    let size = theirs.apply_security(&chunk, &mut sent).unwrap();
                    let opened = open_first(&mut ours, &mut sent[..size]).unwrap();
                    assert_eq!(opened, (ChunkKind::Final, 9, body), "{policy} {mode:?}");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_bytes_are_opened_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            kind in 0usize..3,
            secure: bool,
        ) {
            let (policy, mode) = if secure {
                (SecurityPolicy::Basic256Sha256, MessageSecurityMode::SignAndEncrypt)
            } else {
                (SecurityPolicy::None, MessageSecurityMode::None)
            };
            let (_, mut server) = pair(policy, mode);
            let kind = [FrameKind::Message, FrameKind::OpenChannel, FrameKind::CloseChannel][kind];
            let mut frame = kind.letters().to_vec();
            frame.push(b'F');
            let size = u32::try_from(HEADER + bytes.len()).unwrap();
            frame.extend_from_slice(&size.to_le_bytes());
            frame.extend_from_slice(&bytes);
            let _ = open_first(&mut server, &mut frame);
        }

        #[test]
        fn a_damaged_open_request_is_opened_or_refused(at in 8usize..2000, with: u8) {
            let mut client = client(
                SecurityPolicy::Aes256Sha256RsaPss,
                MessageSecurityMode::Sign,
            );
            let mut wire = Vec::new();
            client.seal(FrameKind::OpenChannel, 1, b"request", &mut wire).unwrap();
            let at = 8 + at % (wire.len() - 8);
            wire[at] = with;
            let mut server = SecureChannel::server(Some(bob()));
            let _ = open_first(&mut server, &mut wire);
        }
    }
}
