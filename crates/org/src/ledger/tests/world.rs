//! A small org among thieves: every key by its name, and everything that anybody can sign, really signed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use identity::envelope::{Envelope, Payload};
use identity::head::{Head, Mandate};
use identity::id::{Correlation, Digest, InviteId, sha256};
use identity::key::{P256Key, PublicKey, Sign as _};
use identity::members::{Leaf, Meant, MembersMap, NodeLeaf};
use identity::principal::PrincipalKind;
use identity::signers::{Recovery, SignerSet, SignersRef, Succession};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};

pub use testorg::{key as ed, node, quorum_of as quorum, signed};

use super::replicas::{Store, hear};
use crate::founding::{Founding, FoundingRecord};
use crate::invite::admission::{Claim, ClaimAuthority, Leave, SealKey};
use crate::invite::{Approval, Invite, InviteKind, Right, Uses};
use crate::ledger::entry::{Action, SignedEntry, Stamp, Under};
use crate::ledger::fold::Leaves;

/// In days: how long a recovery waits, and how long a head is fresh.
pub const DELAY: u64 = 4;
pub const FRESH: u64 = 10;
pub const GATEWAYS: [&str; 3] = ["g1", "g2", "g3"];

pub const fn day(n: u64) -> Timestamp {
    Timestamp::from_unix(1_800_000_000 + 86_400 * n.cast_signed())
}

pub fn voice(gateway: &str) -> PublicKey {
    ed(gateway).public()
}

/// A machine's key: for each name always the same. They are slow to make, and made once.
pub fn machine(name: &str) -> Arc<P256Key> {
    static TABLE: Mutex<BTreeMap<String, Arc<P256Key>>> = Mutex::new(BTreeMap::new());
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || Arc::new(testorg::machine_key(sha256(name.as_bytes())));
    Arc::clone(table.entry(name.to_owned()).or_insert_with(make))
}

/// What leaves and revocations call a machine's key.
pub fn key(name: &str) -> Digest {
    machine(name).public().digest()
}

pub fn mandate(gateway: &str, voice: &str) -> Mandate {
    Mandate {
        voice: ed(voice).public(),
        kinds: BTreeSet::from([PrincipalKind::Node]),
        names: vec!["*".parse().unwrap()],
        not_before: day(0),
        not_after: day(10_000),
        ..testorg::mandate(gateway)
    }
}

pub fn leaf(name: &str, key_name: &str) -> NodeLeaf {
    NodeLeaf { name: node(name), node_key: key(key_name), admission: Digest([9; 32]), manifest: Meant::Nothing }
}

/// What the author of an entry says of its own past.
#[derive(Debug, Clone, Copy)]
pub struct Says {
    pub under: Under,
    pub at: Timestamp,
}

impl From<Under> for Says {
    fn from(under: Under) -> Self {
        Self { under, at: day(0) }
    }
}

/// Something signed on its way; a head with its map.
#[derive(Debug, Clone)]
pub struct Sent {
    pub envelope: Envelope,
    pub map: Option<Leaves>,
}

impl Sent {
    pub fn digest(&self) -> Digest {
        self.envelope.digest()
    }
}

impl From<Envelope> for Sent {
    fn from(envelope: Envelope) -> Self {
        Self { envelope, map: None }
    }
}

impl From<SignedEntry> for Sent {
    fn from(signed: SignedEntry) -> Self {
        signed.envelope.into()
    }
}

#[derive(Debug)]
pub struct Org {
    pub founding: Founding,
    /// The first head: all gateways are mandated, and `alpha` is listed for the machine `ka`.
    pub first: Sent,
}

impl Org {
    pub fn new(threshold: usize, signers: &[&str]) -> Self {
        let record = FoundingRecord {
            name: "harbor".parse().unwrap(),
            founded_at: day(0),
            identity_root: Bytes(vec![1]),
            endpoint_root: Bytes(vec![2]),
            signers: quorum(threshold, signers),
            recovery: quorum(2, &["phrase-1", "phrase-2", "phrase-3"]),
            recovery_delay: Seconds::DAY.times(DELAY),
        };
        let envelope = testorg::sealed(None, &record, signers);
        let founding = Founding::open(envelope.clone()).unwrap();
        let mut org = Self { founding, first: envelope.into() };
        let head = Head {
            fresh_until: day(FRESH),
            mandates: GATEWAYS.map(|name| mandate(name, name)).to_vec(),
            ..testorg::first_head(org.set().as_ref())
        };
        org.first = org.head(head, Leaves::from([(node("alpha"), leaf("alpha", "ka"))]), signers);
        org
    }

    /// The founders' set.
    pub fn set(&self) -> SignerSet {
        self.founding.first_signers()
    }

    pub fn later(&self, version: u64, threshold: usize, names: &[&str]) -> SignerSet {
        SignerSet::later(self.founding.id, version, quorum(threshold, names))
    }

    /// Knows the first head.
    pub fn replica(&self) -> Store {
        let mut replica = Store::new(&self.founding, None);
        hear(&mut replica, &self.first, 0);
        replica
    }

    /// Knows only which org it is, and perhaps what its join code says.
    pub fn newcomer(&self, floor: Option<SignersRef>) -> Store {
        Store::new(&self.founding, floor)
    }

    // ---- what is signed ----

    pub fn seal<T: Payload>(&self, body: &T, by: &[&str]) -> Envelope {
        signed(Envelope::seal(Some(self.founding.id), body).unwrap(), by)
    }

    /// A head as it stands, by whomever.
    pub fn head(&self, mut head: Head, leaves: Leaves, by: &[&str]) -> Sent {
        let map: Vec<Leaf> = leaves.values().cloned().map(Leaf::Node).collect();
        head.members = Some(MembersMap::of(&map).unwrap().root());
        Sent { envelope: self.seal(&head, by), map: Some(leaves) }
    }

    /// A head like another, and yet not: no honest tool makes it.
    pub fn forged(&self, like: &Sent, by: &[&str], change: impl FnOnce(&mut Head, &mut Leaves)) -> Sent {
        let mut head: Head = like.envelope.peek(Some(self.founding.id)).unwrap();
        let mut leaves = like.map.clone().unwrap_or_default();
        head.previous = vec![like.digest()];
        change(&mut head, &mut leaves);
        self.head(head, leaves, by)
    }

    pub fn body(&self, head: &Sent) -> Head {
        head.envelope.peek(Some(self.founding.id)).unwrap()
    }

    pub fn succession(&self, from: &SignerSet, to: &SignerSet, head: Digest, by: &[&str]) -> Envelope {
        self.agreed(&[from], to, head, by)
    }

    /// It follows several rivals, and every one of them signed it.
    pub fn agreed(&self, from: &[&SignerSet], to: &SignerSet, head: Digest, by: &[&str]) -> Envelope {
        let (previous, also) = (from[0].id, from[1..].iter().map(|set| set.id).collect());
        let quorum = to.quorum.clone();
        self.seal(&Succession { version: to.version, previous, also, quorum, head: Some(head) }, by)
    }

    pub fn recovery(&self, from: &SignerSet, to: &SignerSet, head: Digest, by: &[&str]) -> Envelope {
        self.recovered(from, to, head, (false, by))
    }

    pub fn way_out(&self, from: &SignerSet, to: &SignerSet, head: Digest, by: &[&str]) -> Envelope {
        self.recovered(from, to, head, (true, by))
    }

    fn recovered(&self, from: &SignerSet, to: &SignerSet, head: Digest, (settles, by): (bool, &[&str])) -> Envelope {
        let (version, quorum) = (to.version, to.quorum.clone());
        self.seal(&Recovery { version, previous: from.id, quorum, head: Some(head), settles, at: day(0) }, by)
    }

    /// Good for these names, so often at each gateway, until that day.
    pub fn invite(&self, id: &str, names: &[&str], rights: &[(&str, u32)], (until, by): (u64, &[&str])) -> Envelope {
        self.seal(&invite(id, names, rights, until), by)
    }

    pub fn claim(&self, (key, name): (&str, &str), invite: &Envelope, replaces: Option<&str>) -> Envelope {
        let invite: Invite = invite.peek(Some(self.founding.id)).unwrap();
        let mut claim = claim(key, name, ClaimAuthority::Invite(invite.id));
        claim.replaces = replaces.map(|old| machine(old).public());
        let sealed = self.seal(&claim, &[invite.label.as_str()]);
        let keys = std::iter::once(key).chain(replaces);
        keys.fold(sealed, |sealed, key| sealed.signed(machine(key).as_ref()).unwrap())
    }

    /// A claim that the signers themselves let in.
    pub fn word(&self, (key, name): (&str, &str), until: u64, by: &[&str]) -> Envelope {
        let claim = Claim { until: Some(day(until)), ..claim(key, name, ClaimAuthority::Signers) };
        self.seal(&claim, by).signed(machine(key).as_ref()).unwrap()
    }

    pub fn leave(&self, key: &str) -> Envelope {
        let leave = Leave { node_key: machine(key).public(), at: day(0) };
        self.seal(&leave, &[]).signed(machine(key).as_ref()).unwrap()
    }

    /// An entry wherever its author likes to put it.
    pub fn entry(
        &self,
        gateway: &str,
        last: Option<&SignedEntry>,
        says: impl Into<Says>,
        action: Action,
    ) -> SignedEntry {
        let Says { under, at } = says.into();
        let when = Stamp { at, correlation: Correlation([0; 8]) };
        SignedEntry::write(self.founding.id, last.map(SignedEntry::place), &ed(gateway), under, when, action).unwrap()
    }
}

pub fn invite(id: &str, names: &[&str], rights: &[(&str, u32)], until: u64) -> Invite {
    let right = |(gateway, uses): &(&str, u32)| Right {
        gateway: node(gateway),
        voice: voice(gateway),
        uses: Uses::Limited(*uses),
    };
    Invite {
        id: InviteId(sha256(id.as_bytes())[..16].try_into().unwrap()),
        label: id.to_owned(),
        signers: 1,
        kind: InviteKind::Token,
        key: Some(ed(id).public()),
        rights: rights.iter().map(right).collect(),
        created_at: day(0),
        expires_at: day(until),
        names: names.iter().map(|name| name.parse().unwrap()).collect(),
        hosts: Vec::new(),
        networks: Vec::new(),
        labels: BTreeSet::new(),
        roles: BTreeSet::new(),
        approval: Approval::None,
        approvers: 1,
        files: BTreeSet::new(),
        root: None,
    }
}

pub fn claim(key: &str, name: &str, authority: ClaimAuthority) -> Claim {
    Claim {
        authority,
        node_key: machine(key).public(),
        seal_key: SealKey([0; 32]),
        name: node(name),
        labels: BTreeSet::new(),
        roles: BTreeSet::new(),
        host: None,
        replaces: None,
        until: None,
    }
}

/// The same bytes, and a signature under somebody's key that is none.
pub fn junk(envelope: &Envelope, of: &str, filled_with: &str) -> Envelope {
    let mut json = serde_json::to_value(envelope).unwrap();
    let bytes: Vec<u8> = filled_with.bytes().cycle().take(64).collect();
    let sig = identity::text::base64(&bytes);
    json["signatures"] = serde_json::json!([{ "keyid": ed(of).public().to_string(), "sig": sig }]);
    serde_json::from_value(json).unwrap()
}
