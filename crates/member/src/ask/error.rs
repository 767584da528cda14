//! Why asking a gateway did not bring what was asked for.

use std::collections::BTreeSet;

use identity::certificate::BadCertificate;
use identity::envelope::BadEnvelope;
use identity::key::BadKey;
use identity::members::BadListing;
use identity::principal::NodeName;
use identity::principal::host::HostName;
use identity::time::Timestamp;
use identity::verifier::Untrusted;
use manifest::stored::BadManifest;
use org::ledger::evidence::BadEvidence;
use org::refusal::Refusal;
use wire::connect::clocks::Clocks;
use wire::connect::{Believed, CallError};
use wire::known::{BadKnowledge, Known};

use crate::ask::source::NotTaken;
use crate::store::scope::ScopeError;

#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error("this machine is not a member yet: join first")]
    NotJoined,
    #[error("a join as `{begun}` was begun here and is not finished")]
    OtherWish { begun: NodeName },
    #[error("an operator must approve this machine first")]
    Waits { claim: identity::id::Digest },
    #[error("nobody approved this machine in time")]
    WaitedInVain(#[source] Refusal),
    #[error("no gateway is known")]
    NoGateway,
    #[error("what the gateway sent does not hold: {0}")]
    BadAnswer(BadAnswer),
    #[error("the gateway offers an SVID until {until}, {}: {clocks}", if *over { "which is over here" } else { "longer than its mandate allows" })]
    Untimely { until: Timestamp, over: bool, clocks: Box<Clocks> },
    #[error("the gateway says no by another time than it is here: {clocks}")]
    OtherTime {
        #[source]
        refusal: Refusal,
        clocks: Box<Clocks>,
    },
    #[error("what the gateway says of the org does not hold: {0}")]
    Knowledge(BadKnowledge),
    #[error("what the gateway says of this node's place does not hold: {0}")]
    Listing(#[from] BadListing),
    #[error("what the gateway offers this node to be does not hold: {0}")]
    Manifest(#[from] BadManifest),
    #[error("the gateway does not say what head {head} wants this node to be: it holds it back, or has lost it")]
    Withheld { head: u64 },
    #[error("nobody answered before the trial was over")]
    OutOfTime,
    #[error(transparent)]
    Tree(#[from] NotTaken),
    #[error("this machine's key was revoked by the operators")]
    Revoked,
    #[error(transparent)]
    NoRandomness(#[from] ground::random::NoRandomness),
}

/// What does not hold of what a gateway sent, or of what this machine would have answered.
#[derive(Debug, thiserror::Error)]
pub enum BadAnswer {
    #[error("the org is called otherwise than the code says")]
    OtherName,
    #[error("the challenge is not 32 bytes")]
    Challenge,
    #[error(
        "the certificate: {why}{}",
        if why.moment().is_some() { ": is the gateway's clock right, and this one?" } else { "" }
    )]
    Certificate { why: Box<Untrusted> },
    #[error("the certificate is for somebody else")]
    OthersCertificate,
    #[error("the certificate of an SVID carries {}, and the manifest says {}", names(carried), names(wanted))]
    OtherNames { carried: Vec<String>, wanted: BTreeSet<HostName> },
    #[error("the admission: {0}")]
    Admission(Box<BadEvidence>),
    #[error("the admission: {0}")]
    AdmissionEnvelope(Box<BadEnvelope>),
    #[error("the admission is not by a mandated gateway")]
    UnmandatedAdmission,
    #[error("the admission is another machine's")]
    OthersAdmission,
    #[error("the admission says something else than the claim")]
    OtherClaim,
    #[error("it names a manifest and does not send it")]
    NoManifest,
    #[error("it does not say how this node is listed")]
    Unlisted,
    #[error("the roots in the tree are not taken: {0}")]
    TreeRoots(&'static str),
    #[error("version {version} of the `identity` bundle has no certificate for the issuing key of `{gateway}`")]
    Uncertified { version: u64, gateway: NodeName },
    /// Beside what this folder knew before.
    #[error("{0}")]
    Behind(Box<BadKnowledge>),
    #[error("{0}")]
    Request(BadCertificate),
    #[error("{0}")]
    Envelope(Box<BadEnvelope>),
    #[error("{0}")]
    Key(BadKey),
}

fn names<'n>(names: impl IntoIterator<Item = &'n (impl ToString + 'n)>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{}`", name.to_string())).collect();
    if names.is_empty() { "no DNS name".to_owned() } else { names.join(", ") }
}

impl From<BadAnswer> for AskError {
    fn from(why: BadAnswer) -> Self {
        Self::BadAnswer(why)
    }
}

impl From<BadEnvelope> for BadAnswer {
    fn from(why: BadEnvelope) -> Self {
        Self::Envelope(Box::new(why))
    }
}

impl AskError {
    /// The gateway's no, if it said one.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Call(CallError::Refused(refusal)) | Self::OtherTime { refusal, .. } | Self::WaitedInVain(refusal) => {
                Some(refusal)
            }
            _ => None,
        }
    }

    /// The two clocks, if they may be what is wrong.
    pub fn clocks(&self) -> Option<&Clocks> {
        match self {
            Self::Untimely { clocks, .. } | Self::OtherTime { clocks, .. } => Some(clocks),
            Self::Call(CallError::NotInForce { clocks, .. }) => clocks.as_deref(),
            _ => None,
        }
    }
}

/// A no that another clock would not have said is told with both clocks, if they are apart: a person must not go by the
/// gateway's alone.
pub(crate) fn with_clocks(why: AskError, gateway: &Believed, known: &Known) -> AskError {
    match why {
        AskError::Call(CallError::Refused(refusal)) if refusal.is_about_time() => match gateway.clocks(known) {
            Some(clocks) => AskError::OtherTime { refusal, clocks: Box::new(clocks) },
            None => AskError::Call(CallError::Refused(refusal)),
        },
        why => why,
    }
}
