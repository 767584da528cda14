//! Entries of the ledger, one after the other: applied, folded in any order, stored and restored.

use identity::head::{InviteCut, Revocations};
use identity::principal::{Author, NodeName};
use identity::signers::{Recovery, SignersRef, Succession};
use identity::time::Seconds;
use org::admission::{Admission, Claim};
use org::derived::{restore, rows, rows_after};
use org::entry::{Action, Cause, Entry, SignedEntry};
use org::fold::fold_opened;
use org::invite::Uses;
use org::restore::Confirmation;
use org::state::State;
use org::suspend::Suspension;

use crate::cast::{GATEWAYS, NOW, SIGNERS, public};
use crate::harbor::{HARBOR, Harbor, INVITE, claim, head, low_claim, pattern, quorum};
use crate::laws::opens_only_as_itself;
use crate::sealing::{self, Text, digest_of, name_of};

pub fn seeds() -> Vec<Vec<u8>> {
    vec![
        joins(),
        replaces(),
        low(),
        twice(),
        takes_back(),
        succeeds(),
        recovers(),
        suspends(),
        restores(),
        forks(),
        goes_too_far(),
    ]
}

/// Writes entries as a text; what is inside them becomes parts of its own.
struct Story {
    harbor: Harbor,
    text: Text,
    names: Vec<(String, String)>,
}

impl Story {
    fn new() -> Self {
        Self { harbor: HARBOR.copy(), text: Text::default(), names: Vec::new() }
    }

    fn object<T: identity::envelope::Payload>(&mut self, body: &T, by: &str) -> identity::envelope::Envelope {
        let envelope = self.harbor.sealed(body, &by.split(' ').collect::<Vec<_>>());
        let n = self.text.add(Some(self.harbor.founding.id), body, by, &self.names);
        self.names.push(name_of(&envelope, n));
        envelope
    }

    fn entry(&mut self, who: &str, action: Action) -> SignedEntry {
        let signed = self.harbor.try_write(who, action);
        let n = self.text.add(Some(self.harbor.founding.id), &signed.entry, who, &self.names);
        self.names.push(digest_of(&signed.envelope, n));
        signed
    }

    fn admit(&mut self, gateway: &str, n: u8, name: &str) -> SignedEntry {
        let claimed = self.object(&claim(n, name), &format!("invite-1 node-{n}"));
        let admission = self.harbor.admission(gateway, claimed);
        let admission = self.object(&admission, gateway);
        self.entry(gateway, Action::NodeAdmit { admission })
    }
}

fn joins() -> Vec<u8> {
    let mut story = Story::new();
    story.admit("gw-1", 1, "web-1");
    let (node_key, name) = (public("node-1").digest(), "web-1".parse().expect("a name"));
    story.entry("gw-1", Action::NodeJoin { node_key, name });
    let leave = story.object(&Harbor::leave(1), "node-1");
    story.entry("gw-1", Action::NodeLeave { leave, name: "web-1".parse().expect("a name") });
    story.text.bytes()
}

/// A machine was reinstalled: its old key signs that a new one takes its place.
fn replaces() -> Vec<u8> {
    let mut story = Story::new();
    story.admit("gw-1", 1, "web-1");
    let next = Claim { replaces: Some(public("node-1")), ..claim(2, "web-1") };
    let claimed = story.object(&next, "invite-1 node-1 node-2");
    let admission = story.harbor.admission("gw-2", claimed);
    let admission = story.object(&admission, "gw-2");
    story.entry("gw-2", Action::NodeAdmit { admission });
    assert!(story.harbor.state.is_gone(public("node-1").digest()));
    story.text.bytes()
}

/// Let in by a pattern, on a host name that proves nothing.
fn low() -> Vec<u8> {
    let mut story = Story::new();
    let invite = story.object(&pattern(), "ann ben");
    let claimed = story.object(&low_claim(1), "node-1");
    let admission = Admission { invite: Some(invite), ..story.harbor.admission("gw-1", claimed) };
    let admission = story.object(&admission, "gw-1");
    story.entry("gw-1", Action::NodeAdmit { admission });
    story.text.bytes()
}

/// Both gateways let the same machine in, and neither has heard of the other.
fn twice() -> Vec<u8> {
    let mut story = Story::new();
    story.admit("gw-1", 1, "web-1");
    story.harbor.state = HARBOR.state.clone();
    story.admit("gw-2", 1, "web-1");
    story.text.bytes()
}

fn takes_back() -> Vec<u8> {
    let mut story = Story::new();
    let signers = HARBOR.signers().clone();
    let (node_key, name) = (public("node-1").digest(), "web-1".parse().expect("a name"));
    let mut revocations = Revocations { node_keys: [node_key].into(), ..Revocations::default() };
    let second = story.object(&head(2, &signers, revocations.clone()), "ann ben");
    story.entry("ann", Action::HeadPublish { head: second, cause: Cause::NodeRevoke { name, node_key } });
    revocations.invites.insert(InviteCut { invite: INVITE, seen: HARBOR.state.frontier.cuts() });
    let third = story.object(&head(3, &signers, revocations), "ann ben");
    story.entry("ben", Action::HeadPublish { head: third, cause: Cause::InviteRevoke { invite: INVITE } });
    story.text.bytes()
}

fn succeeds() -> Vec<u8> {
    let mut story = Story::new();
    let previous = HARBOR.signers().id;
    let next = Succession { version: 2, previous, also: Vec::new(), quorum: quorum(1, &["ann", "cat"]), head: None };
    let signers = story.object(&next, "ann ben");
    let mut second = head(2, HARBOR.signers(), Revocations::default());
    second.signers = SignersRef { version: 2, id: signers.digest() };
    let second = story.object(&second, "cat");
    story.entry("ann", Action::SignersInstall { signers, head: second });
    let set = story.harbor.state.signer_set().clone();
    let third = story.object(&head(3, &set, Revocations::default()), "cat");
    story.entry("cat", Action::HeadPublish { head: third, cause: Cause::Refresh });
    story.text.bytes()
}

/// The signers are lost; a day later the recovery key's choice takes over.
fn recovers() -> Vec<u8> {
    let mut story = Story::new();
    let previous = HARBOR.signers().id;
    let next = Recovery { version: 2, previous, quorum: quorum(1, &["cat"]), head: None, settles: false, at: NOW };
    let recovery = story.object(&next, "safe");
    story.entry("gw-1", Action::RecoveryBegin { recovery: recovery.clone() });
    let mut second = head(2, HARBOR.signers(), Revocations::default());
    second.signers = SignersRef { version: 2, id: recovery.digest() };
    let second = story.object(&second, "cat");
    story.harbor.now = NOW + Seconds::DAY;
    story.entry("cat", Action::SignersInstall { signers: recovery, head: second });
    assert_eq!(story.harbor.state.signer_set().version, 2);
    story.text.bytes()
}

fn suspends() -> Vec<u8> {
    let mut story = Story::new();
    story.admit("gw-1", 1, "web-1");
    let (node_key, name): (_, NodeName) = (public("node-1").digest(), "web-1".parse().expect("a name"));
    let (until, reason) = (NOW + Seconds::HOUR, "odd".to_owned());
    let suspension = story.object(&Suspension { node_key, name: name.clone(), at: NOW, until, reason }, "ben");
    story.entry("ben", Action::NodeSuspend { suspension, name });
    story.text.bytes()
}

/// A machine joins, the ledger is restored from before that, and goes on in a new epoch.
fn restores() -> Vec<u8> {
    let mut story = Story::new();
    story.admit("gw-1", 1, "web-1");
    story.harbor.state = HARBOR.state.clone();
    let mut second = head(1_002, HARBOR.signers(), Revocations::default());
    second.epoch = HARBOR.state.next_epoch();
    let second = story.object(&second, "ann ben");
    story.entry("ann", Action::HeadPublish { head: second, cause: Cause::Restore });
    let confirmation = story.object(&Confirmation { epoch: 2, invites: [INVITE].into() }, "ann ben");
    story.entry("ben", Action::InviteConfirm { confirmation });
    story.admit("gw-1", 2, "web-2");
    assert_eq!(story.harbor.state.epoch().number, 2);
    story.text.bytes()
}

/// One gateway, two entries for one place.
fn forks() -> Vec<u8> {
    let mut story = Story::new();
    story.admit("gw-1", 1, "web-1");
    story.harbor.state = HARBOR.state.clone();
    story.admit("gw-1", 2, "web-2");
    story.text.bytes()
}

/// A gateway spends more than its right, and then the other one publishes a head.
fn goes_too_far() -> Vec<u8> {
    let mut story = Story::new();
    story.admit("gw-2", 1, "web-1");
    story.admit("gw-2", 2, "web-2");
    let second = story.object(&head(2, HARBOR.signers(), Revocations::default()), "ann ben");
    story.entry("gw-1", Action::HeadPublish { head: second, cause: Cause::Refresh });
    assert_eq!(story.harbor.state.void.len(), 2);
    story.text.bytes()
}

pub fn check(data: &[u8]) -> bool {
    let Some(parts) = sealing::read(data) else {
        return false;
    };
    let org = HARBOR.founding.id;
    let mut opened = Vec::new();
    for part in parts.into_iter().filter(|part| part.kind == "entry") {
        let body = opens_only_as_itself::<Entry>(&part.envelope, Some(org));
        if let Ok(signed) = SignedEntry::open(org, part.envelope) {
            assert_eq!(Some(&signed.entry), body.as_ref());
            assert_eq!(signed.envelope.signers_among(&[signed.entry.key].into()).len(), 1, "its own key signed");
            opened.push(signed);
        }
    }
    if opened.is_empty() {
        return false;
    }
    let (state, taken) = apply_all(&opened);
    let log = || HARBOR.log.iter().cloned();
    let there = fold_opened(&HARBOR.founding, log().chain(opened.iter().cloned()));
    if taken.len() == opened.len() {
        assert!(there.forks.is_empty() && there.unplaced.is_empty());
        assert_eq!(there.state, state, "applied one by one, and folded");
    }
    let back = fold_opened(&HARBOR.founding, opened.iter().rev().cloned().chain(log()).chain(opened.iter().cloned()));
    assert_eq!(there, back, "in any order, and however often");
    for state in [&state, &there.state] {
        hold(state);
        for signed in &opened {
            org::audit::line(state, signed);
        }
    }
    taken.iter().any(|signed| !state.void.contains_key(&signed.digest))
}

/// In the given order, each if it fits; with what the store does.
fn apply_all(entries: &[SignedEntry]) -> (State, Vec<SignedEntry>) {
    let (mut state, mut taken) = (HARBOR.state.clone(), Vec::new());
    for signed in entries {
        let before = state.clone();
        if state.apply(signed).is_err() {
            assert_eq!(state, before, "what does not fit changes nothing");
            continue;
        }
        assert_eq!(state.frontier.place_of(&signed.entry.author), Some(&signed.place()));
        let all = rows(&state);
        if let Some(changed) = rows_after(&state, signed) {
            let mut kept = rows(&before);
            kept.extend(changed);
            assert_eq!(kept, all, "the rows that it changed are written");
        }
        assert_eq!(restore(&HARBOR.founding, &all).as_ref(), Ok(&state), "stored and restored");
        taken.push(signed.clone());
    }
    (state, taken)
}

/// Never over-spent; a name has one holder; what was revoked stays revoked.
fn hold(state: &State) {
    for record in state.invites.values() {
        for gateway in GATEWAYS {
            let author = Author::Gateway(gateway.parse().expect("a name"));
            let spends = record.spent.values().flatten().filter(|spend| spend.by.author == author).count();
            match record.invite.right_of(&gateway.parse().expect("a name")) {
                None => assert_eq!(spends, 0, "{gateway} has no right"),
                Some(Uses::Limited(uses)) => assert!(spends <= uses as usize, "{gateway}: {spends} of {uses}"),
                Some(Uses::Unlimited) => {}
            }
        }
    }
    for name in state.names.keys() {
        let holds = |member: &&org::state::MemberRecord| {
            let ended = member.left || state.revocations.node_keys.contains(&member.claim().node_key.digest());
            member.claim().name == *name && !member.outrun && !ended
        };
        assert!(state.named(name).filter(holds).count() <= 1, "{name} has two holders");
    }
    assert!(state.signer_set().quorum.threshold() >= 1 && state.first.quorum.keys().len() == SIGNERS.len());
}
