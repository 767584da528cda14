//! A machine asks to be a gateway, and what operators hand back. No secret is in either.

use identity::bundle::Domain;
use identity::certificate::{self, BadCertificate, RequestedKey};
use identity::envelope::{BadEnvelope, Envelope, Payload};
use identity::id::OrgId;
use identity::key::PublicKey;
use identity::principal::{Address, Host, NodeName, OrgName};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};

/// So long before the certificate of an issuing key ends, operators are told: only a new version of the roots renews it.
pub const ENDS_SOON: Seconds = Seconds::DAY.times(90);

/// More ways to one machine are not told to all the others.
pub const MAX_ADDRESSES: usize = 16;

/// Signed by the node key, and by the voice that it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayRequest {
    pub node: NodeName,
    pub node_key: PublicKey,
    pub voice: PublicKey,
    /// Certificate requests of the two issuing keys; only their public keys are used.
    pub identity: Bytes,
    pub endpoint: Bytes,
    /// Names under which it wants to be met.
    pub hosts: Vec<Host>,
    pub addresses: Vec<Address>,
    pub at: Timestamp,
}

impl Payload for GatewayRequest {
    const KIND: &'static str = "gateway-request";
    const SCHEMA: u32 = 1;
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadGatewayRequest {
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    #[error("the certificate request of an issuing key does not hold")]
    Certificate(#[from] BadCertificate),
    #[error("it names no address, or more than {MAX_ADDRESSES}")]
    Addresses,
    #[error("its two issuing keys are one")]
    SameKey,
}

/// A request whose signatures hold, with the keys in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedRequest {
    pub request: GatewayRequest,
    pub identity: RequestedKey,
    pub endpoint: RequestedKey,
}

impl CheckedRequest {
    /// Both keys must have signed: the machine that asks, and the voice that is to speak for it. That the node key is a
    /// member's is the caller's to check.
    pub fn open(org: OrgId, envelope: &Envelope) -> Result<Self, BadGatewayRequest> {
        let named: GatewayRequest = envelope.peek(Some(org))?;
        let request: GatewayRequest = envelope.open_signed_by(Some(org), &[named.node_key, named.voice])?;
        if request.addresses.is_empty()
            || request.addresses.len().max(request.hosts.len()) > MAX_ADDRESSES
            || request.hosts.is_empty()
        {
            return Err(BadGatewayRequest::Addresses);
        }
        let identity = certificate::read_request(&request.identity.0)?;
        let endpoint = certificate::read_request(&request.endpoint.0)?;
        if identity.id == endpoint.id {
            return Err(BadGatewayRequest::SameKey);
        }
        Ok(Self { request, identity, endpoint })
    }
}

/// The issuing keys of a gateway, and what it would use next. Signed by its voice, so that one gateway can hand on
/// another's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuersNotice {
    pub gateway: NodeName,
    /// A certificate of each key in use; whoever certifies the key anew takes only the public key out of it.
    pub identity: Bytes,
    pub endpoint: Bytes,
    /// Certificate requests of keys that lie ready. They are used once a mandate names them.
    pub spare_identity: Bytes,
    pub spare_endpoint: Bytes,
    /// The voice in which it would begin another chain, once a mandate names it.
    pub spare_voice: PublicKey,
    pub at: Timestamp,
}

impl IssuersNotice {
    /// Of the key that is in use in a domain.
    pub const fn certificate(&self, domain: Domain) -> &Bytes {
        match domain {
            Domain::Identity => &self.identity,
            Domain::Endpoint => &self.endpoint,
        }
    }
}

impl Payload for IssuersNotice {
    const KIND: &'static str = "issuers";
    const SCHEMA: u32 = 2;
}

/// What a new gateway is handed: certificates for its issuing keys, and what the org is. Each part is checked against
/// what is signed; the mandate itself is in the head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayGrant {
    pub freehold_grant: u32,
    pub org: OrgName,
    pub org_id: OrgId,
    pub gateway: NodeName,
    pub voice: PublicKey,
    pub identity_issuer: Bytes,
    pub endpoint_issuer: Bytes,
    pub endpoint_root: Bytes,
    /// Certificates of the same keys under the other roots that are trusted, while roots change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identity_more: Vec<Bytes>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoint_more: Vec<Bytes>,
    pub founding: Envelope,
    pub signers: Vec<Envelope>,
    /// Its own.
    pub addresses: Vec<Address>,
    /// Gateways that are there already.
    pub others: Vec<Address>,
}

impl GatewayGrant {
    pub const SCHEMA: u32 = 1;
}
