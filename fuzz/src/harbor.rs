//! A small org: founded by two of two signers, two gateways with a mandate, one invite with uses for both.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use identity::bundle::{Bundle, BundleBody, Identity};
use identity::envelope::{Envelope, Payload};
use identity::head::{Cause, Head, Mandate, Revocations};
use identity::id::{Correlation, InviteId};
use identity::principal::PrincipalKind;
use identity::signers::SignerSet;
use identity::time::{Seconds, Timestamp};
use org::founding::{Founding, FoundingRecord};
use org::invite::admission::{Claim, ClaimAuthority, Leave, SealKey};
use org::invite::{Approval, Invite, InviteKind, Right, Uses};
use org::ledger::entry::{Action, SignedEntry, Stamp};
use org::state::State;
use testorg::node;
pub use testorg::quorum_of as quorum;

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

pub fn founding_record() -> FoundingRecord {
    testorg::record(quorum(2, &SIGNERS))
}

fn mandate(gateway: &str) -> Mandate {
    Mandate {
        hosts: vec!["gw.example".parse().expect("a host"), "10.0.0.1".parse().expect("a host")],
        kinds: BTreeSet::from([PrincipalKind::Node]),
        names: vec!["web-*".parse().expect("a pattern"), "db".parse().expect("a pattern")],
        not_before: NOW,
        not_after: NOW + Seconds::DAY.times(90),
        ..testorg::mandate(gateway)
    }
}

pub fn head(version: u64, signers: &SignerSet, revocations: Revocations) -> Head {
    Head {
        version,
        cause: if version == 1 { Cause::Founding } else { Cause::Refresh },
        fresh_until: NOW + Seconds::DAY.times(30),
        mandates: GATEWAYS.map(mandate).to_vec(),
        revocations,
        ..testorg::first_head(signers.as_ref())
    }
}

pub fn bundle() -> BundleBody {
    let name = "harbor".parse().expect("a name");
    Bundle::<Identity>::draft(1, None, &name, Vec::new(), include_str!("root.pem"), NOW).expect("a root")
}

pub fn invite(id: InviteId, uses: [u32; 2]) -> Invite {
    let right = |(gateway, uses)| Right { gateway: node(gateway), voice: public(gateway), uses: Uses::Limited(uses) };
    Invite {
        label: "rack 3".to_owned(),
        rights: GATEWAYS.into_iter().zip(uses).map(right).collect(),
        names: vec!["web-*".parse().expect("a pattern")],
        networks: vec!["10.0.0.0/8".parse().expect("a network")],
        labels: BTreeSet::from(["rack=3".parse().expect("a label")]),
        roles: BTreeSet::from(["backup".parse().expect("a name")]),
        ..testorg::invite(id, public("invite-1"))
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
    let claim = testorg::claim(ClaimAuthority::Invite(INVITE), public(&format!("node-{n}")), name);
    Claim { seal_key: SealKey([n; 32]), labels: BTreeSet::from(["rack=3".parse().expect("a label")]), ..claim }
}

/// The claim of a machine that fits the pattern.
pub fn low_claim(n: u8) -> Claim {
    let host = Some("lab-1.lab.example".parse().expect("a host name"));
    Claim { authority: ClaimAuthority::Pattern, host, ..claim(n, "lab-1") }
}

impl Harbor {
    fn found() -> Self {
        let founded = testorg::sealed(None, &founding_record(), &SIGNERS);
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
