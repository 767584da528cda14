//! Every way in which a gateway says no. Data, not text: it travels, and both sides print the same words.

use identity::id::{Digest, InviteId};
use identity::principal::{Name, NodeName, Principal, SignerName};
use identity::time::{Seconds, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case", deny_unknown_fields)]
pub enum Refusal {
    #[error("too many failed or unfinished attempts from this address")]
    TooManyAttempts { retry_after: Seconds },
    #[error("the gateway is busy")]
    Busy { retry_after: Seconds },
    #[error("this org has no invite `{invite}`")]
    InviteUnknown { invite: InviteId },
    #[error("the invite was revoked")]
    InviteRevoked,
    #[error("the invite was signed by people who no longer sign for the org")]
    InviteOutdated,
    #[error("the invite expired at {at}")]
    InviteExpired { at: Timestamp },
    #[error("the invite is used up: all of its {uses} uses are spent")]
    InviteUsedUp { uses: u32 },
    #[error("the invite cannot be used at this gateway")]
    InviteNotHere,
    #[error("the invite cannot be used from this network")]
    NetworkNotAllowed,
    #[error("the invite does not allow the name `{name}`; it allows: {allowed}")]
    NameNotAllowed { name: NodeName, allowed: String },
    #[error("the fleet has a class `{class}` for the name `{name}`, and the invite does not list such names")]
    NameUnlisted { name: NodeName, class: Name },
    #[error("the invite does not allow the host name `{host}`; it allows: {allowed}")]
    HostNotAllowed { host: String, allowed: String },
    #[error("no pattern lets in a machine of this name from this network")]
    NoPattern,
    #[error("the invite was made for another machine's key")]
    OtherMachine,
    #[error("an operator must approve this machine first")]
    AwaitingApproval { claim: Digest },
    #[error("an operator turned this machine away")]
    Denied,
    #[error("too many machines wait for an operator's approval")]
    TooManyWaiting,
    #[error("the invite does not give the {what} `{value}`")]
    BeyondCeiling { what: Ceiling, value: String },
    #[error("the name `{name}` belongs to another machine")]
    NameTaken { name: NodeName },
    #[error("the operators published the name `{name}` for the key of another machine")]
    NameOfAnother { name: NodeName },
    #[error("the proof does not hold: the code's secret or the machine's key is not the right one")]
    BadProof,
    #[error("there is no open challenge on this connection")]
    NoChallenge,
    #[error("the certificate request is not acceptable: only a P-256 key that signed it counts")]
    BadRequest,
    #[error("the binding does not fit what the challenge offered")]
    BadBinding,
    #[error("this machine's key was revoked and can never return")]
    KeyRevoked,
    #[error("this machine's key left the org and can never return")]
    KeyLeft,
    #[error("`{by}` suspended this machine until {until}")]
    Suspended { by: SignerName, until: Timestamp },
    #[error("this machine's admission waits for an operator's approval")]
    Waiting,
    #[error("the name `{name}` changes hands with the operators' next head, and not before")]
    ChangesHands { name: NodeName },
    #[error("this gateway does not know such an admission")]
    NotAdmitted,
    #[error("the machine was away for over a year: it must join again")]
    AwayTooLong,
    #[error("two machines use one node key, or a disk was restored: renewal {presented} does not follow {known}")]
    CounterConflict { presented: u64, known: u64 },
    #[error("`{node}` holds no place for `{principal}`")]
    NotPlaced { principal: Principal, node: NodeName },
    #[error("only a {needed} may ask this")]
    NotPermitted { needed: String },
    #[error("this connection does not use the key exchange that members need (X25519MLKEM768)")]
    WeakKeyExchange,
    #[error("the gateway's mandate is not in force: it cannot issue")]
    NoMandate,
    #[error("the org's head was fresh only until {until}: nobody new is let in")]
    HeadStale { until: Timestamp },
    #[error("the gateway's ledger is older than what was shown to it: it issues nothing until an operator restores it")]
    LedgerBehind,
    #[error("the gateway was restored from a backup: it issues nothing until operators have it begin another chain")]
    Restored,
    #[error("no operator's signature over this request and this connection")]
    NotAnOperator,
    #[error("the ledger refuses it: {why}")]
    LedgerRefuses { why: Objection },
    #[error("there is no `{what}` here")]
    NotFound { what: String },
    #[error("the request cannot be read: {why}")]
    Malformed { why: String },
    #[error("the gateway could not do it: {why}")]
    Failed { why: Fault },
}

/// What people do about it.
pub const WAY_OUT: &str = "whoever signs for each of them settles it together, at once: freehold signer settle; if they \
                           cannot, two of the recovery phrases do, after the delay: freehold recover --signer NAME (a \
                           name that no signer had)";

/// What a ledger has against something. It travels as its words: whoever reads them has no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(into = "String", from = "String")]
pub enum Objection {
    #[error("two signer sets claim one place, and nothing is issued until it is settled: {}", WAY_OUT)]
    Frozen,
    /// An invite is revoked where no machine that it let in is left out.
    #[error("machines joined meanwhile: look again, and revoke the invite from there")]
    JoinedMeanwhile,
    #[error("{most} recoveries wait already: finish one of them")]
    RecoveriesWait { most: usize },
    #[error("it follows other signers than those in force here")]
    OtherSigners,
    /// By a judge with an error of its own, or by another gateway.
    #[error("{0}")]
    Said(String),
}

impl Objection {
    pub fn of(why: &impl std::error::Error) -> Self {
        Self::Said(why.to_string())
    }
}

impl From<Objection> for String {
    fn from(why: Objection) -> Self {
        why.to_string()
    }
}

impl From<String> for Objection {
    fn from(words: String) -> Self {
        Self::Said(words)
    }
}

/// Which part of a gateway failed. Its log says the rest: who asks may be a stranger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    #[error("its disk is full")]
    DiskFull,
    #[error("its files cannot be read or written")]
    Disk,
    #[error("its store of files has no room: too many uploads at once, or too many bytes in all")]
    StoreFull,
    #[error("its ledger cannot be read or written")]
    Ledger,
    #[error("its keys cannot be used")]
    Keys,
    #[error("its system gave no random numbers")]
    Randomness,
    #[error("a fault of the program")]
    Program,
    /// One that is newer than this program.
    #[serde(other)]
    #[error("its log says why")]
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ceiling {
    Label,
    Role,
}

impl std::fmt::Display for Ceiling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Label => "label",
            Self::Role => "role",
        })
    }
}

impl Refusal {
    /// The word under which it travels.
    pub fn code(&self) -> String {
        let told = serde_json::to_value(self).unwrap_or_default();
        told.get("code").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    }

    /// What the person at the other end can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::InviteUnknown { .. }
            | Self::InviteRevoked
            | Self::InviteExpired { .. }
            | Self::InviteOutdated
            | Self::InviteUsedUp { .. }
            | Self::InviteNotHere => Some("ask an operator for a new one: freehold invite create"),
            Self::Suspended { .. } => Some("ask that operator; it ends by itself"),
            Self::NetworkNotAllowed => {
                Some("join from an allowed network, or ask an operator: freehold invite create --from")
            }
            Self::HostNotAllowed { .. } => Some(
                "give this machine such a host name, or ask an operator: freehold invite create --host, or --pattern",
            ),
            Self::NoPattern => Some("ask an operator for an invite: freehold invite create"),
            Self::OtherMachine => Some(
                "use it on the machine whose request was signed, or let an operator sign this one's: freehold-node csr",
            ),
            Self::AwaitingApproval { .. } => Some("an operator looks and says yes: freehold node approve"),
            Self::Denied => Some(
                "ask an operator why; this machine's keys are wiped, and it can ask again with a code that is still good",
            ),
            Self::TooManyWaiting => Some("an operator decides about those: freehold node waiting"),
            Self::NameUnlisted { .. } => Some(
                "ask an operator for an invite that names it: freehold invite create --name NAME; or choose another name",
            ),
            Self::NameNotAllowed { .. } => Some("choose an allowed one: freehold-node join --name NAME"),
            Self::BeyondCeiling { .. } => Some(
                "leave it out, or ask an operator for an invite that gives it: freehold invite create --give-label, --give-role",
            ),
            Self::NameTaken { .. } => Some(
                "choose another: freehold-node join --name NAME; if this is that machine, reinstalled: --old-key FILE, or an operator: freehold node replace NAME",
            ),
            Self::BadProof => {
                Some("copy the whole code again, or ask an operator for a new one: freehold invite create")
            }
            Self::KeyRevoked | Self::KeyLeft => {
                Some("join as a new machine: freehold-node leave --local, then freehold-node join with a fresh invite")
            }
            Self::TooManyAttempts { .. } | Self::Busy { .. } => Some("wait a little and try again"),
            Self::CounterConflict { .. } | Self::NameOfAnother { .. } => Some(
                "an operator looks (freehold node show NAME) and lets one machine go on: freehold node replace NAME",
            ),
            Self::AwayTooLong => Some("join again: freehold-node leave --local, then freehold-node join"),
            Self::NotAdmitted => Some(
                "ask an operator: was the gateway restored from an old copy? If not, join again: freehold-node leave --local, then freehold-node join",
            ),
            Self::NoMandate => Some(
                "an operator looks at the gateway: is its clock right? If the mandate has really ended: freehold refresh",
            ),
            Self::HeadStale { .. } => Some("an operator renews it: freehold refresh"),
            Self::LedgerBehind => Some(
                "was this gateway removed? Then stop it. Else an operator looks (freehold status), which hands it what their home has; if nobody has the rest: freehold gateway reopen NAME",
            ),
            Self::Restored => Some(
                "an operator looks at what may be missing, then has it begin another chain: freehold gateway reopen NAME",
            ),
            Self::NotAnOperator => Some("run this where a current signer's key is, or name it with --home"),
            Self::Waiting => Some("an operator sees why, and lets it stay: freehold node waiting"),
            Self::ChangesHands { .. } => Some("an operator publishes one: freehold refresh; then run this again"),
            Self::NoChallenge
            | Self::BadRequest
            | Self::BadBinding
            | Self::NotPlaced { .. }
            | Self::NotPermitted { .. }
            | Self::WeakKeyExchange
            | Self::LedgerRefuses { .. }
            | Self::NotFound { .. }
            | Self::Malformed { .. } => None,
            Self::Failed { .. } => Some("run this again later: nothing is lost; the gateway's log says more"),
        }
    }

    /// Would another clock at the gateway have let it pass?
    pub const fn is_about_time(&self) -> bool {
        matches!(self, Self::InviteExpired { .. } | Self::NoMandate | Self::HeadStale { .. } | Self::AwayTooLong)
    }

    /// True if it counts against the asker's address.
    pub const fn counts_as_failed(&self) -> bool {
        match self {
            Self::InviteUnknown { .. }
            | Self::InviteRevoked
            | Self::InviteExpired { .. }
            | Self::InviteOutdated
            | Self::InviteUsedUp { .. }
            | Self::InviteNotHere
            | Self::NetworkNotAllowed
            | Self::NameNotAllowed { .. }
            | Self::HostNotAllowed { .. }
            | Self::NoPattern
            | Self::OtherMachine
            | Self::Denied
            | Self::TooManyWaiting
            | Self::NameUnlisted { .. }
            | Self::BeyondCeiling { .. }
            | Self::NameTaken { .. }
            | Self::NameOfAnother { .. }
            | Self::BadProof
            | Self::NoChallenge
            | Self::BadRequest
            | Self::BadBinding
            | Self::KeyRevoked
            | Self::KeyLeft
            | Self::NotAdmitted
            | Self::AwayTooLong
            | Self::CounterConflict { .. }
            | Self::NotPlaced { .. }
            | Self::NotPermitted { .. }
            | Self::WeakKeyExchange
            | Self::NotAnOperator
            | Self::Malformed { .. } => true,
            Self::TooManyAttempts { .. }
            | Self::Busy { .. }
            | Self::Waiting
            | Self::ChangesHands { .. }
            | Self::AwaitingApproval { .. }
            | Self::Suspended { .. }
            | Self::NoMandate
            | Self::HeadStale { .. }
            | Self::LedgerBehind
            | Self::Restored
            | Self::LedgerRefuses { .. }
            | Self::NotFound { .. }
            | Self::Failed { .. } => false,
        }
    }
}
