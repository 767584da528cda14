//! A small org in which anything can happen: signers, two gateways, and what each of them has heard of.

use std::collections::{BTreeMap, BTreeSet};

use identity::envelope::{Envelope, Payload};
use identity::head::{Epoch, Head, Mandate, Revocations};
use identity::id::{Correlation, Digest, InviteId, KeyId, sha256};
use identity::key::{EdKey, P256Key, PublicKey, Sign as _};
use identity::principal::{Author, Kind, NodeName};
use identity::signers::{Quorum, Recovery, Signer, SignerSet, Succession};
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};

use crate::admission::{Admission, Claim, ClaimAuthority, Leave, SealKey};
use crate::entry::{Action, Cause, Entry, SignedEntry};
use crate::fold::{Folded, fold_opened};
use crate::founding::{Founding, FoundingRecord};
use crate::invite::{Approval, Invite, InviteKind, Right, Uses};
use crate::state::{MemberRecord, Standing, State};
use crate::suspend::Suspension;

pub const NOW: Timestamp = Timestamp::from_unix(1_800_000_000);
pub const GATEWAYS: [&str; 2] = ["gw-1", "gw-2"];
/// The invite of this number is a pattern, in every world.
pub const PATTERN: u8 = 40;

pub struct World {
    pub founding: Founding,
    /// Everything that was ever written, in an order in which it could have been.
    pub log: Vec<SignedEntry>,
    pub invites: BTreeMap<u8, Envelope>,
    /// What was written, and given up when somebody restored an older copy.
    pub lost: Vec<SignedEntry>,
    /// What each author has heard of.
    views: BTreeMap<String, State>,
}

/// A key for each name, always the same.
pub fn ed(name: &str) -> EdKey {
    EdKey::from_seed(&sha256(name.as_bytes()))
}

/// A node key for each number, always the same: PKCS#8 around a fixed scalar.
pub fn node_key(n: u8) -> P256Key {
    const HEAD: &[u8] = &[
        0x30, 0x41, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08,
        0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x27, 0x30, 0x25, 0x02, 0x01, 0x01, 0x04, 0x20,
    ];
    P256Key::from_pkcs8(&[HEAD, &[n.max(1); 32]].concat()).unwrap()
}

pub fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

pub fn author(name: &str) -> Author {
    if GATEWAYS.contains(&name) { Author::Gateway(node(name)) } else { Author::Signer(name.parse().unwrap()) }
}

pub fn quorum(threshold: usize, names: &[&str]) -> Quorum {
    let signer = |name: &&str| Signer { name: name.parse().unwrap(), key: ed(name).public() };
    Quorum::new(threshold, names.iter().map(signer).collect()).unwrap()
}

fn mandate(gateway: &str) -> Mandate {
    Mandate {
        gateway: node(gateway),
        voice: ed(gateway).public(),
        identity_issuer: KeyId([1; 32]),
        endpoint_issuer: KeyId([2; 32]),
        hosts: Vec::new(),
        kinds: BTreeSet::from([Kind::Node]),
        names: vec!["*".parse().unwrap()],
        svid_ttl: Seconds::DAY,
        not_before: NOW,
        not_after: NOW + Seconds::DAY.times(90),
        addresses: Vec::new(),
    }
}

impl World {
    /// Founded by `signers`, both gateways mandated, and everybody knows it.
    pub fn new(threshold: usize, signers: &[&str]) -> Self {
        let record = FoundingRecord {
            name: "harbor".parse().unwrap(),
            founded_at: NOW,
            identity_root: Bytes(vec![1]),
            endpoint_root: Bytes(vec![2]),
            signers: quorum(threshold, signers),
            recovery: quorum(1, &["safe"]),
            recovery_delay: Seconds::DAY,
        };
        let mut envelope = Envelope::seal(None, &record).unwrap();
        for name in signers {
            envelope.sign(&ed(name)).unwrap();
        }
        let founding = Founding::open(envelope.clone()).unwrap();
        let views = signers.iter().chain(&GATEWAYS).map(|name| ((*name).to_owned(), State::of(&founding))).collect();
        let mut world = Self { founding, log: Vec::new(), invites: BTreeMap::new(), lost: Vec::new(), views };
        let head = Head {
            version: 1,
            reverts: None,
            issued_at: NOW,
            fresh_until: NOW + Seconds::DAY.times(30),
            members: None,
            members_floor: 0,
            previous: Vec::new(),
            recent: Vec::new(),
            record: std::collections::BTreeMap::new(),
            mandates: GATEWAYS.map(mandate).to_vec(),
            placements: Vec::new(),
            revocations: Revocations::default(),
            trust: Vec::new(),
            signers: world.founding.first_signers().as_ref(),
            epoch: Epoch::first(),
            release: None,
            fleet: None,
        };
        let head = world.sealed(&head, signers);
        world.append(signers[0], Action::OrgFound { founding: envelope });
        world.append(signers[0], Action::HeadPublish { head, cause: Cause::Founding });
        world.share();
        world
    }

    // ---- what each has heard of ----

    pub fn view(&self, who: &str) -> &State {
        &self.views[who]
    }

    /// `who` hears everything that `from` knows.
    pub fn learn(&mut self, who: &str, from: &str) {
        let frontier = self.views[from].frontier.clone();
        let view = self.views.get_mut(who).unwrap();
        for signed in &self.log {
            if frontier.covers(&signed.cut()) && !view.frontier.covers(&signed.cut()) {
                let _ = view.apply(signed).unwrap();
            }
        }
    }

    /// Everybody hears everything.
    pub fn share(&mut self) {
        for view in self.views.values_mut() {
            for signed in self.log.iter().filter(|signed| !view.frontier.covers(&signed.cut())).collect::<Vec<_>>() {
                let _ = view.apply(signed).unwrap();
            }
        }
    }

    pub fn fold(&self) -> Folded {
        fold_opened(&self.founding, self.log.iter().cloned())
    }

    pub fn standing(&self, n: u8) -> Option<Standing> {
        let state = self.fold().state;
        state.member(&node_key(n).public()).map(|member| state.standing(member))
    }

    pub fn holder(&self, name: &str) -> Option<PublicKey> {
        let state = self.fold().state;
        state.holder(&node(name)).map(MemberRecord::claim).map(|claim| claim.node_key)
    }

    // ---- writing ----

    /// The next entry of `who`, not yet signed.
    pub fn draft(&self, who: &str, action: Action) -> Entry {
        let view = self.view(who);
        let restores = matches!(&action, Action::HeadPublish { cause: Cause::Restore, .. });
        let epoch = view.epoch().number + u32::from(restores);
        let (who, mut seen) = (author(who), view.frontier.clone());
        let last = seen.0.remove(&who);
        Entry {
            key: ed(match &who {
                Author::Signer(name) => name.as_str(),
                Author::Gateway(name) => name.as_str(),
            })
            .public(),
            author: who,
            epoch,
            seq: last.map_or(1, |last| last.seq + 1),
            previous: last.map(|last| last.digest),
            seen,
            at: NOW,
            correlation: Correlation([0; 8]),
            action,
        }
    }

    pub fn signed(&self, entry: &Entry, by: &str) -> SignedEntry {
        SignedEntry::open(self.founding.id, self.sealed(entry, &[by])).unwrap()
    }

    /// Writes an entry into its author's chain.
    pub fn push(&mut self, who: &str, entry: &Entry) -> SignedEntry {
        let signed = self.signed(entry, who);
        let _ = self.views.get_mut(who).unwrap().apply(&signed).unwrap();
        self.log.push(signed.clone());
        signed
    }

    pub fn append(&mut self, who: &str, action: Action) -> SignedEntry {
        let entry = self.draft(who, action);
        self.push(who, &entry)
    }

    pub fn sealed<T: Payload>(&self, body: &T, by: &[&str]) -> Envelope {
        let mut envelope = Envelope::seal(Some(self.founding.id), body).unwrap();
        for name in by {
            envelope.sign(&ed(name)).unwrap();
        }
        envelope
    }

    // ---- what signers do ----

    /// The newest signer set that `who` knows.
    pub fn signers(&self, who: &str) -> &SignerSet {
        let view = self.view(who);
        view.later.last().map_or(&view.first, |installed| &installed.set)
    }

    pub fn invite_body(&self, who: &str, n: u8, uses: [u32; 2]) -> Invite {
        let right = |(gateway, uses)| Right { gateway: node(gateway), voice: None, uses: Uses::Limited(uses) };
        Invite {
            id: InviteId([n; 16]),
            label: String::new(),
            signers: self.signers(who).version,
            kind: if n == PATTERN { InviteKind::Pattern } else { InviteKind::Token },
            key: (n != PATTERN).then(|| ed(&format!("invite {n}")).public()),
            rights: GATEWAYS.into_iter().zip(uses).filter(|(_, uses)| *uses > 0).map(right).collect(),
            created_at: NOW,
            expires_at: NOW + Seconds::DAY,
            names: vec!["*".parse().unwrap()],
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

    pub fn invite(&mut self, who: &str, n: u8, uses: [u32; 2]) -> SignedEntry {
        let invite = self.sealed(&self.invite_body(who, n, uses), &[who]);
        self.invites.insert(n, invite.clone());
        self.append(who, Action::InviteCreate { invite })
    }

    /// The head that would follow what `who` knows.
    pub fn next_head(&self, who: &str) -> Head {
        let view = self.view(who);
        let known = view.head().unwrap().head.clone();
        let (revocations, signers) = (view.revocations.clone(), self.signers(who).as_ref());
        Head { version: known.version + 1, revocations, signers, ..known }
    }

    pub fn publish(&mut self, who: &str, cause: Cause, change: impl FnOnce(&mut Revocations)) -> SignedEntry {
        let mut head = self.next_head(who);
        change(&mut head.revocations);
        let head = self.sealed(&head, &[who]);
        self.append(who, Action::HeadPublish { head, cause })
    }

    pub fn revoke_node(&mut self, who: &str, n: u8) -> SignedEntry {
        let node_key = node_key(n).public().digest();
        let cause = Cause::NodeRevoke { name: node("web"), node_key };
        self.publish(who, cause, |revocations| revocations.node_keys.extend([node_key]))
    }

    /// With everything that `who` knows as the frontier.
    pub fn revoke_invite(&mut self, who: &str, n: u8) -> SignedEntry {
        let (invite, seen) = (InviteId([n; 16]), self.view(who).frontier.cuts());
        let cut = identity::head::InviteCut { invite, seen };
        self.publish(who, Cause::InviteRevoke { invite }, |revocations| revocations.invites.extend([cut]))
    }

    pub fn succession(&self, who: &str, quorum: Quorum, by: &[&str]) -> Envelope {
        let known = self.signers(who);
        self.sealed(
            &Succession { version: known.version + 1, previous: known.id, also: Vec::new(), quorum, head: None },
            by,
        )
    }

    /// A new signer set with its first head, signed by the new set's `new`.
    pub fn install(&self, who: &str, quorum: Quorum, by: &[&str], new: &[&str]) -> Action {
        let signers = self.succession(who, quorum, by);
        self.with_head(who, signers, new)
    }

    /// The install of whatever set `signers` brings.
    pub fn with_head(&self, who: &str, signers: Envelope, new: &[&str]) -> Action {
        let mut head = self.next_head(who);
        let version = self.signers(who).version + 1;
        head.signers = identity::signers::SignersRef { version, id: signers.digest() };
        Action::SignersInstall { signers, head: self.sealed(&head, new) }
    }

    pub fn suspension(&self, by: &str, n: u8, (at, span): (Timestamp, Seconds)) -> Action {
        let (node_key, name) = (node_key(n).public().digest(), node("web"));
        let body = Suspension { node_key, name: name.clone(), at, until: at + span, reason: "odd".to_owned() };
        Action::NodeSuspend { suspension: self.sealed(&body, &[by]), name }
    }

    /// What the recovery keys would sign, to replace the newest set that `who` knows.
    pub fn recovery(&self, who: &str, quorum: Quorum) -> Envelope {
        let known = self.signers(who);
        self.sealed(
            &Recovery { version: known.version + 1, previous: known.id, quorum, head: None, settles: false, at: NOW },
            &["safe"],
        )
    }

    /// Somebody new comes, who has heard of nothing.
    pub fn welcome(&mut self, who: &str) {
        self.views.insert(who.to_owned(), State::of(&self.founding));
    }

    /// Everybody goes on from what `who` knew, in a new epoch that `by` begins. Nothing if `by` may not.
    pub fn restore(&mut self, who: &str, by: &str) {
        let mut state = self.views[who].clone();
        let mut head = state.head().unwrap().head.clone();
        (head.version, head.epoch) = (head.version + 1_000, state.next_epoch());
        let action = Action::HeadPublish { head: self.sealed(&head, &[by]), cause: Cause::Restore };
        let key = ed(by);
        let place = (&state.frontier, state.epoch().number + 1);
        let when = (NOW, Correlation([0; 8]));
        let begin = SignedEntry::write(self.founding.id, place, (author(by), &key), when, action).unwrap();
        let kept = state.frontier.clone();
        state.apply(&begin).unwrap().unwrap();
        let (log, lost) = std::mem::take(&mut self.log).into_iter().partition(|signed| kept.covers(&signed.cut()));
        self.log = log;
        self.lost.extend::<Vec<_>>(lost);
        self.log.push(begin);
        for view in self.views.values_mut() {
            *view = state.clone();
        }
    }

    // ---- what gateways do, whether or not they should ----

    pub fn claim(n: u8, invite: u8, name: &str) -> Claim {
        Claim {
            authority: if invite == PATTERN {
                ClaimAuthority::Pattern
            } else {
                ClaimAuthority::Invite(InviteId([invite; 16]))
            },
            node_key: node_key(n).public(),
            seal_key: SealKey([0; 32]),
            name: node(name),
            labels: BTreeSet::new(),
            roles: BTreeSet::new(),
            host: None,
            replaces: None,
            until: None,
        }
    }

    pub fn admission(&self, gateway: &str, n: u8, invite: u8, name: &str) -> Action {
        self.admission_of(gateway, invite, &Self::claim(n, invite, name), &[n])
    }

    /// Of a claim that the invite's key and these node keys have signed.
    pub fn admission_of(&self, gateway: &str, invite: u8, claim: &Claim, nodes: &[u8]) -> Action {
        let mut claim = self.sealed(claim, &[&format!("invite {invite}")]);
        for n in nodes {
            claim.sign(&node_key(*n)).unwrap();
        }
        let invite = Some(self.invites[&invite].clone());
        let admission = Admission { claim, invite, approval: None, gateway: node(gateway), at: NOW };
        Action::NodeAdmit { admission: self.sealed(&admission, &[gateway]) }
    }

    /// A machine under a new key, which its old key has signed, too.
    pub fn replacing(&self, gateway: &str, (n, old): (u8, u8), invite: u8, name: &str) -> Action {
        let claim = Claim { replaces: Some(node_key(old).public()), ..Self::claim(n, invite, name) };
        self.admission_of(gateway, invite, &claim, &[n, old])
    }

    pub fn admit(&mut self, gateway: &str, n: u8, invite: u8, name: &str) -> SignedEntry {
        self.append(gateway, self.admission(gateway, n, invite, name))
    }

    pub fn join(&mut self, gateway: &str, n: u8) -> SignedEntry {
        let node_key = node_key(n).public().digest();
        self.append(gateway, Action::NodeJoin { node_key, name: node("web") })
    }

    pub fn leave(&mut self, gateway: &str, n: u8) -> SignedEntry {
        let key = node_key(n);
        let leave = Envelope::seal(Some(self.founding.id), &Leave { node_key: key.public(), at: NOW }).unwrap();
        self.append(gateway, Action::NodeLeave { leave: leave.signed(&key).unwrap(), name: node("web") })
    }
}

/// Entries sorted by arbitrary numbers: any order at all.
pub fn shuffled(mut entries: Vec<SignedEntry>, order: &[u16]) -> Vec<SignedEntry> {
    let rank = |at: usize| order.get(at).copied().unwrap_or_default();
    let mut ranked: Vec<_> = entries.drain(..).enumerate().collect();
    ranked.sort_by_key(|(at, signed)| (rank(*at), signed.digest));
    ranked.into_iter().map(|(_, signed)| signed).collect()
}

pub fn digests(entries: &[SignedEntry]) -> BTreeSet<Digest> {
    entries.iter().map(|signed| signed.digest).collect()
}

/// As the audit tells it: what a failed law shows.
impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.fold().state;
        for signed in &self.log {
            let line = crate::audit::line(&state, signed);
            let seen = signed.entry.seen.0.iter().map(|(author, place)| format!("{author}#{}", place.seq));
            let seen = seen.collect::<Vec<_>>().join(" ");
            writeln!(f, "{}#{} {} {}: {} [{seen}]", line.actor, line.seq, line.action, line.subject, line.result)?;
        }
        Ok(())
    }
}
