//! The head (a signed checkpoint): the one signed object that says what is true now, and the only thing that a node
//! ratchets.

pub(crate) mod cause;
pub(crate) mod trust_lines;
pub(crate) mod lines;
pub(crate) mod marks;
pub(crate) mod revoked;

pub use cause::{Cause, Turn};
pub use lines::Lines;
pub use marks::{KeyLines, KeyMark};
pub use revoked::Revocations;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::bundle::Domain;
use crate::envelope::{BadEnvelope, Envelope, Payload};
use crate::id::{Digest, KeyId};
use crate::key::PublicKey;
use crate::principal::glob::NameGlob;
use crate::principal::{Address, Host, NodeName, Principal, PrincipalKind};
use crate::signers::{SignerSet, SignersRef};
use crate::text::BadText;
use crate::text_form;
use crate::time::{Seconds, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    pub version: u64,
    /// The head that it follows, then rivals that it takes in, at most `MOST_PREVIOUS`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<Digest>,
    /// Older heads by whose maps members may still show themselves, at most `MOST_RECENT`; emptied if keys were stolen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recent: Vec<Digest>,
    pub reverts: Option<u64>,
    pub cause: Cause,
    pub issued_at: Timestamp,
    pub fresh_until: Timestamp,
    /// Root of the members' map; absent until members are published.
    pub members: Option<Digest>,
    pub mandates: Vec<Mandate>,
    /// How far each gateway's chain is settled by this head: what lies before has a leaf, a revocation, or waits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub record: BTreeMap<PublicKey, Recorded>,
    /// Users and services that a node may hold an SVID for.
    pub placements: Vec<Placement>,
    pub revocations: Revocations,
    pub trust: Vec<TrustLine>,
    pub signers: SignersRef,
    /// The agent release, by digest; absent until one is published.
    pub release: Option<Digest>,
    /// Which state of the fleet's folder the members' map was compiled from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetRef>,
}

/// More rivals than this are taken in by the heads that follow.
pub const MOST_PREVIOUS: usize = 8;
pub const MOST_RECENT: usize = 32;
/// So long an older head's map is still shown by.
pub const RECENT: Seconds = Seconds::DAY.times(60);

/// The last entry of a chain that a head has settled: its digest fixes all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    pub seq: u64,
    pub digest: Digest,
}

/// A state of the fleet's folder, as git names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetRef {
    /// Absent if the folder is not under git.
    pub commit: Option<GitHash>,
    pub tree: Option<GitHash>,
    /// The folder had changes that were not committed.
    pub dirty: bool,
}

/// What git calls an object: 40 or 64 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GitHash(String);

impl std::fmt::Display for GitHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for GitHash {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        let hex = text.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
        if hex && matches!(text.len(), 40 | 64) { Ok(Self(text.to_owned())) } else { Err(BadText { form: "git hash" }) }
    }
}

text_form!(GitHash);

impl Payload for Head {
    const KIND: &'static str = "head";
    const SCHEMA: u32 = 1;
}

/// What a gateway may do, and with which keys, until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mandate {
    pub gateway: NodeName,
    /// Signs the gateway's ledger chain and its admissions.
    pub voice: PublicKey,
    pub identity_issuer: KeyId,
    pub endpoint_issuer: KeyId,
    /// Names for which it may hold an endpoint certificate.
    pub hosts: Vec<Host>,
    /// Kinds of principals for which it may issue.
    pub kinds: BTreeSet<PrincipalKind>,
    /// Names of principals for which it may issue.
    pub names: Vec<NameGlob>,
    /// The longest life of an SVID.
    pub svid_ttl: Seconds,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// Where machines find it. They may be wrong: whoever reads them adds them to what it has, and drops nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
}

impl Mandate {
    /// May it issue for this principal at all?
    pub fn covers(&self, principal: &Principal) -> bool {
        self.kinds.contains(&principal.kind()) && self.names.iter().any(|glob| glob.matches(principal.name()))
    }

    pub fn is_active(&self, now: Timestamp) -> bool {
        self.not_before <= now && now < self.not_after
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    pub principal: Principal,
    pub node: NodeName,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustLine {
    pub domain: Domain,
    pub version: u64,
    pub bundle: Digest,
    pub state: TrustState,
    /// From when until when it is promised to be trusted beside the one that replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Grace>,
    /// Its keys were stolen: its roots never come back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub distrusted: bool,
}

impl TrustLine {
    pub const fn new(domain: Domain, version: u64, bundle: Digest, state: TrustState) -> Self {
        Self { domain, version, bundle, state, grace: None, distrusted: false }
    }
}

/// A span of time in which a bundle is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grace {
    pub since: Timestamp,
    pub until: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustState {
    Staged,
    Active,
    Grace,
    Retired,
}

impl TrustState {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Active => "active",
            Self::Grace => "grace",
            Self::Retired => "retired",
        }
    }

    pub const fn is_trusted(self) -> bool {
        match self {
            Self::Staged | Self::Active | Self::Grace => true,
            Self::Retired => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadHead {
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    #[error("the head was signed under signer set {found}, but set {known} is in force")]
    OtherSigners { found: u64, known: u64 },
    #[error("head {found} is older than head {known}, which is known to exist")]
    Regression { found: u64, known: u64 },
    #[error("there are two different heads with version {version}")]
    Forked { version: u64 },
    #[error("head {version} forgets revocations that an earlier head made")]
    ForgetsRevocations { version: u64 },
    #[error("head {version} undoes what an earlier head said of the trusted roots: {why}")]
    ForgetsTrust { version: u64, why: trust_lines::BadLines },
    #[error("the head is no longer fresh: it was good until {until}, and here it is {now}")]
    Stale { until: Timestamp, now: Timestamp },
    #[error("head {version} was drafted at {issued_at}, before the one that is in force: make it anew")]
    DraftedEarlier { version: u64, issued_at: Timestamp },
    #[error("the head was issued at {issued_at}, which is in the future here: it is {now}")]
    FromTheFuture { issued_at: Timestamp, now: Timestamp },
}

impl BadHead {
    /// Is whoever shows it behind?
    pub const fn is_behind(&self) -> bool {
        match self {
            Self::Regression { .. } => true,
            Self::OtherSigners { found, known } => *found < *known,
            Self::Envelope(_)
            | Self::Forked { .. }
            | Self::ForgetsRevocations { .. }
            | Self::ForgetsTrust { .. }
            | Self::Stale { .. }
            | Self::DraftedEarlier { .. }
            | Self::FromTheFuture { .. } => false,
        }
    }
}

/// A head whose threshold was checked, with its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHead {
    pub head: Head,
    pub digest: Digest,
}

impl SignedHead {
    pub fn open(signers: &SignerSet, envelope: &Envelope) -> Result<Self, BadHead> {
        let head: Head = signers.open(envelope)?;
        if head.signers != signers.as_ref() {
            return Err(BadHead::OtherSigners { found: head.signers.version, known: signers.version });
        }
        Ok(Self { head, digest: envelope.digest() })
    }

    /// What a maker owes: a head goes on from the one before, and forgets no revocation, nor that a root is trusted no more.
    pub fn may_follow(&self, known: &Self) -> Result<(), BadHead> {
        let (new, old) = (&self.head, &known.head);
        if new.signers.version < old.signers.version {
            return Err(BadHead::OtherSigners { found: new.signers.version, known: old.signers.version });
        }
        let (found, before) = (new.place(), old.place());
        if found < before {
            return Err(BadHead::Regression { found: new.version, known: old.version });
        }
        if found == before && self.digest != known.digest {
            return Err(BadHead::Forked { version: new.version });
        }
        if !new.revocations.keeps(&old.revocations, new.issued_at) {
            return Err(BadHead::ForgetsRevocations { version: new.version });
        }
        // Whatever it says, a head that is heard of twice forgets nothing.
        if self.digest == known.digest {
            return Ok(());
        }
        // Operators can go round a bad head, and round the roots that it brought.
        let may = if new.previous.contains(&known.digest) { trust_lines::follows } else { trust_lines::leads_on };
        may(&old.trust, &new.trust).map_err(|why| BadHead::ForgetsTrust { version: new.version, why })
    }
}

impl Head {
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        now < self.fresh_until
    }

    /// Heads are ordered so; under another signer set numbers may begin anew.
    pub const fn place(&self) -> (u64, u64) {
        (self.signers.version, self.version)
    }

    /// What joiners demand: a floor, which is a signer set's version and a head's, and freshness.
    pub fn check_for_joiner(&self, signers: u64, head: u64, now: Timestamp) -> Result<(), BadHead> {
        if self.place() < (signers, head) {
            return Err(BadHead::Regression { found: self.version, known: head });
        }
        if !self.is_fresh(now) {
            return Err(BadHead::Stale { until: self.fresh_until, now });
        }
        // An hour's grace for clocks that are a little apart.
        if self.issued_at > now + Seconds::HOUR {
            return Err(BadHead::FromTheFuture { issued_at: self.issued_at, now });
        }
        Ok(())
    }

    pub fn mandate_for_voice(&self, voice: PublicKey) -> Option<&Mandate> {
        self.mandates.iter().find(|mandate| mandate.voice == voice)
    }

    /// The mandate of a machine, over or not.
    pub fn mandate_of(&self, gateway: &NodeName) -> Option<&Mandate> {
        self.mandates.iter().find(|mandate| mandate.gateway == *gateway)
    }

    /// The gateway that comes first: new invites go there, nodes and operators' tools try it before the others.
    pub fn first_gateway(&self) -> Option<&NodeName> {
        self.mandates.first().map(|mandate| &mandate.gateway)
    }

    /// The mandate of a machine, if it is a gateway now.
    pub fn active_mandate(&self, gateway: &NodeName, now: Timestamp) -> Option<&Mandate> {
        self.mandates.iter().find(|mandate| mandate.gateway == *gateway && mandate.is_active(now))
    }

    /// Where gateways are found, the first one's addresses first.
    pub fn gateway_addresses(&self, now: Timestamp) -> Vec<Address> {
        let active = self.mandates.iter().filter(|mandate| mandate.is_active(now));
        let mut all = Vec::new();
        for address in active.flat_map(|mandate| &mandate.addresses) {
            if !all.contains(address) {
                all.push(address.clone());
            }
        }
        all
    }

    /// Where gateways are found that can give nobody a certificate, since the key of their mandate is revoked.
    pub fn mute_addresses(&self) -> Vec<Address> {
        let is_mute = |mandate: &&Mandate| self.revocations.issuing_keys.contains(&mandate.identity_issuer);
        let (mute, others): (Vec<_>, Vec<_>) = self.mandates.iter().partition(is_mute);
        let shared = |address: &&Address| others.iter().any(|other| other.addresses.contains(address));
        mute.iter().flat_map(|mandate| &mandate.addresses).filter(|address| !shared(address)).cloned().collect()
    }

    pub fn trusted_bundles(&self, domain: Domain) -> impl Iterator<Item = &TrustLine> {
        self.trust.iter().filter(move |line| line.domain == domain && line.state.is_trusted())
    }
}
