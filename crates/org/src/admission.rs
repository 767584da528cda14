//! The claim that a joiner signs, the proof on the connection, and the admission that anyone can check for ever.

use std::collections::BTreeSet;

use identity::binding::Binding;
use identity::envelope::{BadEnvelope, Envelope, Payload};
use identity::id::{Digest, InviteId, OrgId};
use identity::key::{BadKey, PublicKey, Sign};
use identity::principal::{Name, NodeName};
use identity::signers::SignerSet;
use identity::text::{BadText, Bytes, base64, from_base64};
use identity::text_form;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::approve::Approved;
use crate::invite::{Approval, Invite, InviteKind};
use identity::host::HostName;
use identity::label::Label;

/// What a joiner says of itself; stable across reconnects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub authority: ClaimAuthority,
    pub node_key: PublicKey,
    pub seal_key: SealKey,
    pub name: NodeName,
    pub labels: BTreeSet<Label>,
    pub roles: BTreeSet<Name>,
    /// The full host name that it claims, where the invite asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostName>,
    /// The node key that this one takes the place of. That key signs the claim, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<PublicKey>,
    /// Until when the signers' word lets it in, if nothing else does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Payload for Claim {
    const KIND: &'static str = "claim";
    const SCHEMA: u32 = 1;
}

/// What entitles to the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimAuthority {
    Invite(InviteId),
    /// The threshold of signers over this very claim: the founder.
    Signers,
    /// A pattern that fits: low assurance.
    Pattern,
}

impl ClaimAuthority {
    pub const fn invite(self) -> Option<InviteId> {
        match self {
            Self::Invite(id) => Some(id),
            Self::Signers | Self::Pattern => None,
        }
    }
}

/// An X25519 public key, to which manifests are sealed; written in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealKey(pub [u8; 32]);

impl std::fmt::Display for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&base64(&self.0))
    }
}

impl std::str::FromStr for SealKey {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        let bad = BadText { form: "seal key (32 bytes in base64)" };
        from_base64(text).map_err(|_| bad)?.try_into().map(Self).map_err(|_| bad)
    }
}

text_form!(SealKey);

/// What both keys sign on one connection; discarded afterwards.
#[derive(Debug, Clone, Copy)]
pub struct Transcript {
    pub challenge: [u8; 32],
    pub nonce: [u8; 32],
    pub subject: Digest,
    pub request: Digest,
    pub binding: Digest,
    pub exporter: [u8; 32],
}

/// Why the transcript is signed: a proof for one purpose is worth nothing for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Enroll,
    Return,
}

impl Transcript {
    pub fn new(
        (challenge, nonce): ([u8; 32], [u8; 32]),
        subject: Digest,
        request: &[u8],
        binding: &Binding,
        exporter: [u8; 32],
    ) -> Self {
        Self { challenge, nonce, subject, request: Digest::of(request), binding: binding.digest(), exporter }
    }

    fn message(&self, purpose: Purpose) -> Vec<u8> {
        let label: &[u8] = match purpose {
            Purpose::Enroll => b"freehold enroll transcript v1\0",
            Purpose::Return => b"freehold return transcript v1\0",
        };
        let parts: [&[u8]; 7] =
            [label, &self.challenge, &self.nonce, &self.subject.0, &self.request.0, &self.binding.0, &self.exporter];
        parts.concat()
    }

    pub fn sign(&self, purpose: Purpose, key: &dyn Sign) -> Result<Bytes, BadKey> {
        key.sign(&self.message(purpose)).map(Bytes)
    }

    pub fn is_signed(&self, purpose: Purpose, key: PublicKey, signature: &Bytes) -> bool {
        key.verify(&self.message(purpose), &signature.0).is_ok()
    }
}

/// The proof that a node joined under an authority; signed by the gateway's voice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    pub claim: Envelope,
    /// Present exactly if the claim's authority is an invite or a pattern.
    pub invite: Option<Envelope>,
    /// Who said yes, if the invite asks for it: a decision about this claim, or a waiver. A touch will be a third.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Envelope>,
    pub gateway: NodeName,
    pub at: Timestamp,
}

impl Payload for Admission {
    const KIND: &'static str = "admission";
    const SCHEMA: u32 = 1;
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAdmission {
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    #[error("the admission names no authority that fits its claim")]
    NoAuthority,
    #[error("the admission's invite was signed by signer set {0}, which is not known here")]
    UnknownSigners(u64),
    #[error("the invite does not cover the claim")]
    BeyondInvite,
    #[error("the invite's kind and key do not fit each other")]
    BadInvite,
    #[error("a person must approve the claim, and nobody has")]
    NotApproved,
    #[error("the node key is not P-256")]
    NotANodeKey,
    #[error(transparent)]
    Key(#[from] BadKey),
}

/// An admission, checked whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    pub digest: Digest,
    pub claim: Claim,
    /// Digest of the claim's envelope.
    pub claimed: Digest,
    /// With the digest of its envelope.
    pub invite: Option<(Digest, Invite)>,
    pub gateway: NodeName,
    pub at: Timestamp,
}

impl Admission {
    /// Checks gateway, invite and claim afresh from the bytes.
    pub fn check(
        envelope: &Envelope,
        org: OrgId,
        voice: PublicKey,
        signers: &[SignerSet],
    ) -> Result<Admitted, BadAdmission> {
        let admission: Self = envelope.open_signed_by(Some(org), &[voice])?;
        let claim: Claim = admission.claim.peek(Some(org))?;
        if !matches!(claim.node_key, PublicKey::P256(_)) {
            return Err(BadAdmission::NotANodeKey);
        }
        let invite = match (claim.authority, &admission.invite) {
            (ClaimAuthority::Invite(_) | ClaimAuthority::Pattern, Some(invite_envelope)) => {
                let invite = open_invite(invite_envelope, org, signers)?;
                let _: Claim = admission.claim.open_signed_by(Some(org), &claim.keys(&invite))?;
                invite.check_covers(&claim, admission.at)?;
                if invite.approval == Approval::Human {
                    let approval = admission.approval.as_ref().ok_or(BadAdmission::NotApproved)?;
                    let about = (&invite, admission.claim.digest());
                    // Whoever was no signer any more when the invite was made has no say under it.
                    let sets: Vec<_> = signers.iter().filter(|set| set.version >= invite.signers).cloned().collect();
                    Approved::check(approval, about, &claim.name, admission.at, &sets)
                        .ok_or(BadAdmission::NotApproved)?;
                }
                Some((invite_envelope.digest(), invite))
            }
            (ClaimAuthority::Signers, None) if claim.replaces.is_none() => {
                let _: Claim = admission.claim.open_signed_by(Some(org), &[claim.node_key])?;
                if !signers.iter().any(|set| set.open::<Claim>(&admission.claim).is_ok()) {
                    return Err(BadAdmission::NoAuthority);
                }
                None
            }
            (ClaimAuthority::Invite(_) | ClaimAuthority::Pattern, None) | (ClaimAuthority::Signers, _) => {
                return Err(BadAdmission::NoAuthority);
            }
        };
        let (claimed, gateway, at) = (admission.claim.digest(), admission.gateway, admission.at);
        Ok(Admitted { digest: envelope.digest(), claim, claimed, invite, gateway, at })
    }
}

/// Opens an invite under the signer set that it names.
pub fn open_invite(envelope: &Envelope, org: OrgId, signers: &[SignerSet]) -> Result<Invite, BadAdmission> {
    let named: Invite = envelope.peek(Some(org))?;
    let set =
        signers.iter().find(|set| set.version == named.signers).ok_or(BadAdmission::UnknownSigners(named.signers))?;
    let invite: Invite = set.open(envelope)?;
    if invite.is_well_formed() { Ok(invite) } else { Err(BadAdmission::BadInvite) }
}

impl Claim {
    /// Whoever must have signed it, under this invite.
    pub fn keys(&self, invite: &Invite) -> Vec<PublicKey> {
        std::iter::once(self.node_key).chain(invite.second_key()).chain(self.replaces).collect()
    }

    /// Let in on a host name and an address, which can be forged: never an operator's, a gateway's or a provider's machine.
    pub const fn is_low(&self) -> bool {
        matches!(self.authority, ClaimAuthority::Pattern)
    }
}

impl Invite {
    /// Is it the invite of this claim, and does it reach so far?
    pub fn check_covers(&self, claim: &Claim, at: Timestamp) -> Result<(), BadAdmission> {
        let named = match claim.authority {
            ClaimAuthority::Invite(id) => id == self.id && self.kind.is_proven(),
            ClaimAuthority::Pattern => self.kind == InviteKind::Pattern,
            ClaimAuthority::Signers => false,
        };
        if named && self.check_claim(claim).is_ok() && self.check_time(at).is_ok() {
            Ok(())
        } else {
            Err(BadAdmission::BeyondInvite)
        }
    }
}

/// What a machine tells of itself, for a person who must decide; signed by its node key. Nothing of it is proven.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Digest of the claim's envelope.
    pub claim: Digest,
    pub hostname: String,
    pub os: String,
    pub arch: String,
    pub agent: String,
    /// More, by name: the machine's model, its kernel.
    pub more: std::collections::BTreeMap<String, String>,
}

impl Facts {
    const LONGEST: usize = 200;
    const MOST: usize = 16;

    /// Short, and nothing that steers a terminal.
    pub fn is_plain(&self) -> bool {
        let plain = |text: &String| text.chars().count() <= Self::LONGEST && !text.chars().any(char::is_control);
        let own = [&self.hostname, &self.os, &self.arch, &self.agent];
        self.more.len() <= Self::MOST && own.into_iter().chain(self.more.keys()).chain(self.more.values()).all(plain)
    }
}

impl Payload for Facts {
    const KIND: &'static str = "facts";
    const SCHEMA: u32 = 1;
}

/// A node's own word that it leaves; signed by its node key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leave {
    pub node_key: PublicKey,
    pub at: Timestamp,
}

impl Payload for Leave {
    const KIND: &'static str = "leave";
    const SCHEMA: u32 = 1;
}
