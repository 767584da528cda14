//! A small org: founded by two of two signers, two gateways with a mandate, one invite with uses for both.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use identity::bundle::{Bundle, BundleBody, Identity};
use identity::envelope::{Envelope, Payload};
use identity::head::{Cause, Head, Mandate, Revocations};
use identity::id::{Correlation, InviteId, KeyId};
use identity::principal::{NodeName, PrincipalKind};
use identity::signers::{Quorum, Signer, SignerSet};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use org::founding::{Founding, FoundingRecord};
use org::invite::admission::{Claim, ClaimAuthority, Leave, SealKey};
use org::invite::{Approval, Invite, InviteKind, Right, Uses};
use org::ledger::entry::{Action, SignedEntry, Stamp};
use org::state::State;

use crate::cast::{self, GATEWAYS, NOW, SIGNERS, ed, node_key, public};

pub const INVITE: InviteId = InviteId([1; 16]);
pub const PATTERN: InviteId = InviteId([2; 16]);
pub const MACHINE: InviteId = InviteId([3; 16]);

/// Made once. Nothing in it depends on chance, so that a stored input means the same in every run.
#[derive(Debug)]
pub struct Harbor {
    pub founding: Founding,
    pub log: Vec<SignedEntry>,
    pub state: State,
    pub invite: Envelope,
    pub now: Timestamp,
}

pub static HARBOR: LazyLock<Harbor> = LazyLock::new(Harbor::found);

fn node(name: &str) -> NodeName {
    name.parse().expect("a name")
}

pub fn quorum(threshold: usize, names: &[&str]) -> Quorum {
    let signer = |name: &&str| Signer { name: name.parse().expect("a name"), key: public(name) };
    Quorum::new(threshold, names.iter().map(signer).collect()).expect("can be met")
}

pub fn founding_record() -> FoundingRecord {
    FoundingRecord {
        name: "harbor".parse().expect("a name"),
        founded_at: NOW,
        identity_root: Bytes(vec![1]),
        endpoint_root: Bytes(vec![2]),
        signers: quorum(2, &SIGNERS),
        recovery: quorum(1, &["safe"]),
        recovery_delay: Seconds::DAY,
    }
}

fn mandate(gateway: &str) -> Mandate {
    Mandate {
        gateway: node(gateway),
        voice: public(gateway),
        identity_issuer: KeyId([1; 32]),
        endpoint_issuer: KeyId([2; 32]),
        hosts: vec!["gw.example".parse().expect("a host"), "10.0.0.1".parse().expect("a host")],
        kinds: BTreeSet::from([PrincipalKind::Node]),
        names: vec!["web-*".parse().expect("a pattern"), "db".parse().expect("a pattern")],
        svid_ttl: Seconds::DAY,
        not_before: NOW,
        not_after: NOW + Seconds::DAY.times(90),
        addresses: Vec::new(),
    }
}

pub fn head(version: u64, signers: &SignerSet, revocations: Revocations) -> Head {
    Head {
        version,
        reverts: None,
        cause: if version == 1 { Cause::Founding } else { Cause::Refresh },
        issued_at: NOW,
        fresh_until: NOW + Seconds::DAY.times(30),
        members: None,
        previous: Vec::new(),
        recent: Vec::new(),
        record: std::collections::BTreeMap::new(),
        mandates: GATEWAYS.map(mandate).to_vec(),
        placements: Vec::new(),
        revocations,
        trust: Vec::new(),
        signers: signers.as_ref(),
        release: None,
        fleet: None,
    }
}

pub fn bundle() -> BundleBody {
    let name = "harbor".parse().expect("a name");
    Bundle::<Identity>::draft(1, None, &name, Vec::new(), include_str!("root.pem"), NOW).expect("a root")
}

pub fn invite(id: InviteId, uses: [u32; 2]) -> Invite {
    let right = |(gateway, uses)| Right { gateway: node(gateway), voice: public(gateway), uses: Uses::Limited(uses) };
    Invite {
        id,
        label: "rack 3".to_owned(),
        signers: 1,
        kind: InviteKind::Token,
        key: Some(public("invite-1")),
        rights: GATEWAYS.into_iter().zip(uses).map(right).collect(),
        created_at: NOW,
        expires_at: NOW + Seconds::DAY,
        names: vec!["web-*".parse().expect("a pattern")],
        hosts: Vec::new(),
        networks: vec!["10.0.0.0/8".parse().expect("a network")],
        labels: BTreeSet::from(["rack=3".parse().expect("a label")]),
        roles: BTreeSet::from(["backup".parse().expect("a name")]),
        approval: Approval::None,
        approvers: 1,
        files: BTreeSet::new(),
        root: None,
    }
}

/// A pattern of low assurance, for whoever claims such a host name.
pub fn pattern() -> Invite {
    let hosts = vec!["*.lab.example".parse().expect("a pattern")];
    let (kind, names) = (InviteKind::Pattern, vec!["lab-*".parse().expect("a pattern")]);
    Invite { kind, key: None, names, hosts, ..invite(PATTERN, [2, 1]) }
}

/// For the machine with the key `node-2`, whom a person must approve.
pub fn machine() -> Invite {
    let (kind, key) = (InviteKind::Machine, Some(public("node-2")));
    Invite { kind, key, approval: Approval::Human, ..invite(MACHINE, [1, 1]) }
}

pub fn claim(n: u8, name: &str) -> Claim {
    Claim {
        authority: ClaimAuthority::Invite(INVITE),
        node_key: public(&format!("node-{n}")),
        seal_key: SealKey([n; 32]),
        name: node(name),
        labels: BTreeSet::from(["rack=3".parse().expect("a label")]),
        roles: BTreeSet::new(),
        host: None,
        replaces: None,
        until: None,
    }
}

/// The claim of a machine that fits the pattern.
pub fn low_claim(n: u8) -> Claim {
    let host = Some("lab-1.lab.example".parse().expect("a host name"));
    Claim { authority: ClaimAuthority::Pattern, host, ..claim(n, "lab-1") }
}

impl Harbor {
    fn found() -> Self {
        let mut founded = Envelope::seal(None, &founding_record()).expect("a record");
        for name in SIGNERS {
            founded.sign(&ed(name)).expect("a key");
        }
        let founding = Founding::open(founded.clone()).expect("a founding");
        let mut harbor = Self { state: State::of(&founding), founding, log: Vec::new(), invite: founded, now: NOW };
        harbor.invite = harbor.sealed(&invite(INVITE, [2, 1]), &SIGNERS);
        for envelope in [
            harbor.sealed(&head(1, &harbor.founding.first_signers(), Revocations::default()), &SIGNERS),
            harbor.sealed(&bundle(), &SIGNERS),
            harbor.invite.clone(),
            harbor.sealed(&pattern(), &SIGNERS),
            harbor.sealed(&machine(), &SIGNERS),
        ] {
            let signed = harbor.write("gw-1", Action::Take { envelope });
            harbor.log.push(signed);
        }
        assert_eq!((harbor.state.invites.len(), harbor.state.judged.voices.len()), (3, 2));
        harbor
    }

    pub fn copy(&self) -> Self {
        let (founding, log) = (self.founding.clone(), self.log.clone());
        Self { founding, log, state: self.state.clone(), invite: self.invite.clone(), now: self.now }
    }

    pub fn sealed<T: Payload>(&self, body: &T, by: &[&str]) -> Envelope {
        let mut envelope = Envelope::seal(Some(self.founding.id), body).expect("an object");
        for name in by {
            envelope.sign(&*cast::key(name).expect("one of the cast")).expect("a key");
        }
        envelope
    }

    /// The next entry of a gateway, taken into the state.
    pub fn write(&mut self, gateway: &str, action: Action) -> SignedEntry {
        let voice = ed(gateway);
        let (last, moment) =
            (self.state.frontier.place_of(&public(gateway)), Stamp { at: self.now, correlation: Correlation([7; 8]) });
        let signed = SignedEntry::write(self.founding.id, last, &voice, self.state.under(), moment, action);
        let signed = signed.expect("an entry");
        self.state.take_entry(&signed, self.now);
        self.state.conclude(self.now);
        signed
    }

    pub fn claim(&self, n: u8, name: &str) -> Envelope {
        self.sealed(&claim(n, name), &["invite-1", &format!("node-{n}")])
    }

    /// What a gateway writes of whoever it lets in with the first invite.
    pub fn admit(&self, claim: Envelope) -> Action {
        Action::NodeAdmit { claim, invite: Some(self.invite.clone()), approval: None }
    }

    pub fn leave(n: u8) -> Leave {
        Leave { node_key: identity::key::Sign::public(&node_key(n)), at: NOW }
    }

    pub fn signers(&self) -> &SignerSet {
        &self.state.replica.basis.first
    }
}
