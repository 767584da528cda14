//! Entries and what operators signed, as other replicas hand them over: in whatever order they come, they mean the same.

use identity::envelope::{Envelope, Payload};
use identity::head::{Cause, Head, Revocations};
use identity::id::Digest;
use identity::principal::NodeName;
use identity::signers::{Recovery, SignerSet, Succession};
use identity::time::{Seconds, Timestamp};
use org::invite::Uses;
use org::invite::admission::{Claim, ClaimAuthority};
use org::invite::approve::{Decision, Verdict};
use org::ledger::entry::{Action, Entry, SignedEntry};
use org::ledger::replica::Replica;
use org::state::State;
use org::suspend::Suspension;

use crate::cast::{NOW, public};
use crate::harbor::{HARBOR, Harbor, INVITE, MACHINE, claim, head, low_claim, machine, pattern, quorum};
use crate::laws::opens_only_as_itself;
use crate::sealing::{self, Text, digest_of, name_of};

/// As of which moment all is judged: recoveries that were seen at once are in force then.
const LATER: Timestamp = Timestamp::from_unix(1_800_000_000 + 172_800);

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
        records(),
        forks(),
        goes_too_far(),
        rivals(),
        pretends(),
        repeats(),
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

    fn object<T: Payload>(&mut self, body: &T, by: &str) -> Envelope {
        let envelope = self.harbor.sealed(body, &by.split(' ').collect::<Vec<_>>());
        let n = self.text.add(Some(self.harbor.founding.id), body, by, &self.names);
        // The envelope first: its digest does not stand in it.
        self.names.extend([name_of(&envelope, n), digest_of(&envelope, n)]);
        envelope
    }

    fn entry(&mut self, gateway: &str, action: Action) -> SignedEntry {
        let signed = self.harbor.write(gateway, action);
        let n = self.text.add(Some(self.harbor.founding.id), &signed.entry, gateway, &self.names);
        self.names.push(digest_of(&signed.envelope, n));
        signed
    }

    fn take<T: Payload>(&mut self, body: &T, by: &str) -> Envelope {
        let envelope = self.object(body, by);
        self.entry("gw-1", Action::Take { envelope: envelope.clone() });
        envelope
    }

    fn admit(&mut self, gateway: &str, n: u8, name: &str) -> SignedEntry {
        let claimed = self.object(&claim(n, name), &format!("invite-1 node-{n}"));
        let action = self.harbor.admit(claimed);
        self.entry(gateway, action)
    }

    fn counts(&self, signed: &SignedEntry) -> bool {
        self.harbor.state.judged.fold.members.values().any(|it| it.admission == signed.digest)
    }
}

fn first() -> Digest {
    HARBOR.state.under().digest
}

fn next_head(cause: Cause, revocations: Revocations) -> Head {
    Head { cause, previous: vec![first()], ..head(2, HARBOR.signers(), revocations) }
}

fn joins() -> Vec<u8> {
    let mut story = Story::new();
    let admission = story.admit("gw-1", 1, "web-1");
    assert!(story.counts(&admission));
    let (node_key, name) = (public("node-1").digest(), "web-1".parse().expect("a name"));
    story.entry("gw-1", Action::NodeJoin { node_key, name });
    let leave = story.object(&Harbor::leave(1), "node-1");
    story.entry("gw-1", Action::NodeLeave { leave, name: "web-1".parse().expect("a name") });
    assert!(story.harbor.state.is_gone(node_key));
    story.text.bytes()
}

/// A machine was reinstalled: its old key signs that a new one takes its place.
fn replaces() -> Vec<u8> {
    let mut story = Story::new();
    story.admit("gw-1", 1, "web-1");
    let next = Claim { replaces: Some(public("node-1")), ..claim(2, "web-1") };
    let claimed = story.object(&next, "invite-1 node-1 node-2");
    let action = story.harbor.admit(claimed);
    story.entry("gw-1", action);
    story.text.bytes()
}

/// Let in by a pattern, on a host name that proves nothing.
fn low() -> Vec<u8> {
    let mut story = Story::new();
    let invite = Some(story.object(&pattern(), "ann ben"));
    let claim = story.object(&low_claim(1), "node-1");
    story.entry("gw-1", Action::NodeAdmit { claim, invite, approval: None });
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
    let (node_key, name) = (public("node-1").digest(), "web-1".parse().expect("a name"));
    let mut revocations = Revocations { node_keys: [node_key].into(), ..Revocations::default() };
    let second = next_head(Cause::NodeRevoke { name, node_key }, revocations.clone());
    let taken = story.take(&second, "ann ben");
    revocations.invites.insert(INVITE);
    let third = head(3, HARBOR.signers(), revocations);
    let third = Head { previous: vec![taken.digest()], cause: Cause::InviteRevoke { invite: INVITE }, ..third };
    story.take(&third, "ben ann");
    assert_eq!(story.harbor.state.under().version, 3);
    story.text.bytes()
}

fn succeeds() -> Vec<u8> {
    let mut story = Story::new();
    let (previous, quorum) = (HARBOR.signers().id, quorum(1, &["ann", "cat"]));
    let set = SignerSet::later(HARBOR.founding.id, 2, quorum.clone());
    let next = Succession { version: 2, previous, also: Vec::new(), quorum, head: Some(first()) };
    story.take(&next, "ann ben");
    let second = Head { signers: set.as_ref(), ..next_head(Cause::SignersInstall, Revocations::default()) };
    story.take(&second, "cat");
    assert_eq!((story.harbor.state.signer_set(), story.harbor.state.under().version), (&set, 2));
    story.text.bytes()
}

/// The signers are lost; a day later the recovery key's choice takes over.
fn recovers() -> Vec<u8> {
    let mut story = Story::new();
    let (previous, quorum) = (HARBOR.signers().id, quorum(1, &["cat"]));
    let set = SignerSet::later(HARBOR.founding.id, 2, quorum.clone());
    let next = Recovery { version: 2, previous, quorum, head: Some(first()), settles: false, at: NOW };
    story.take(&next, "safe");
    story.harbor.now = LATER;
    let second = Head { signers: set.as_ref(), ..next_head(Cause::SignersInstall, Revocations::default()) };
    story.take(&second, "cat");
    assert_eq!(story.harbor.state.signer_set(), &set);
    story.text.bytes()
}

fn suspends() -> Vec<u8> {
    let mut story = Story::new();
    story.admit("gw-1", 1, "web-1");
    let (node_key, name): (_, NodeName) = (public("node-1").digest(), "web-1".parse().expect("a name"));
    let (until, reason) = (NOW + Seconds::HOUR, "odd".to_owned());
    story.take(&Suspension { node_key, name, at: NOW, until, reason }, "ben");
    assert!(story.harbor.state.objects.suspensions.contains_key(&node_key));
    story.text.bytes()
}

/// A head settles a chain, and gives its machine no place.
fn records() -> Vec<u8> {
    let mut story = Story::new();
    let admission = story.admit("gw-1", 1, "web-1");
    let mut second = next_head(Cause::Refresh, Revocations::default());
    second.record = [(public("gw-1"), admission.place())].into();
    story.take(&second, "ann ben");
    story.admit("gw-1", 2, "web-2");
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

/// A gateway spends more than its right, and the other one takes a head.
fn goes_too_far() -> Vec<u8> {
    let mut story = Story::new();
    let (one, two) = (story.admit("gw-2", 1, "web-1"), story.admit("gw-2", 2, "web-2"));
    assert!(story.counts(&one) && !story.counts(&two));
    story.take(&next_head(Cause::Refresh, Revocations::default()), "ann ben");
    story.text.bytes()
}

/// Two heads at once, of which one takes something back; the third names both.
fn rivals() -> Vec<u8> {
    let mut story = Story::new();
    let revoked = Revocations { node_keys: [public("node-1").digest()].into(), ..Revocations::default() };
    let one = story.take(&next_head(Cause::Refresh, Revocations::default()), "ann ben");
    let other = story.take(&next_head(Cause::FleetPublish, revoked.clone()), "ann ben");
    let third = head(3, HARBOR.signers(), revoked);
    story.take(&Head { previous: vec![one.digest(), other.digest()], ..third }, "ann ben");
    story.text.bytes()
}

/// A gateway carries a true head with a signature that is none, and a claim that nobody signed.
fn pretends() -> Vec<u8> {
    let mut story = Story::new();
    let fake = |envelope: &Envelope, of: &str| -> Envelope {
        let mut json = serde_json::to_value(envelope).expect("JSON");
        let sig = identity::text::base64(&[0; 64]);
        json["signatures"] = serde_json::json!([{ "keyid": public(of).to_string(), "sig": sig }]);
        serde_json::from_value(json).expect("an envelope")
    };
    let Action::Take { envelope: first } = &HARBOR.log[0].entry.action else { panic!("the first head") };
    story.entry("gw-1", Action::Take { envelope: fake(first, "ann") });
    let action = story.harbor.admit(fake(&HARBOR.claim(1, "web-1"), "invite-1"));
    let admission = story.entry("gw-1", action);
    assert!(!story.counts(&admission) && story.harbor.state.head().is_some());
    story.text.bytes()
}

/// A signer's yes, and the same in other bytes that nobody signed.
fn repeats() -> Vec<u8> {
    let mut story = Story::new();
    let claimed = story.object(&Claim { authority: ClaimAuthority::Invite(MACHINE), ..claim(2, "web-2") }, "node-2");
    let decision = Decision { about: claimed.digest(), verdict: Verdict::Approve, until: Some(NOW + Seconds::DAY) };
    let yes = story.object(&decision, "ann");
    let same = String::from_utf8(sealing::payload_of(&yes)).expect("JSON");
    story.text.add_raw(Decision::KIND, &format!("{same} "));
    let invite = Some(story.object(&machine(), "ann ben"));
    story.entry("gw-1", Action::Take { envelope: yes.clone() });
    let admission = story.entry("gw-1", Action::NodeAdmit { claim: claimed, invite, approval: Some(yes) });
    assert!(story.counts(&admission));
    story.text.bytes()
}

pub fn check(data: &[u8]) -> bool {
    let Some(parts) = sealing::read(data) else {
        return false;
    };
    let org = HARBOR.founding.id;
    let (mut opened, mut objects) = (Vec::new(), Vec::new());
    for part in parts {
        if part.kind != "entry" {
            objects.push(part.envelope);
            continue;
        }
        let body = opens_only_as_itself::<Entry>(&part.envelope, Some(org));
        if let Ok(signed) = SignedEntry::open(org, part.envelope) {
            assert_eq!(Some(&signed.entry), body.as_ref());
            assert_eq!(signed.envelope.signers_among(&[signed.entry.voice].into()).len(), 1, "its own key signed");
            opened.push(signed);
        }
    }
    if opened.is_empty() {
        return false;
    }
    let one_by_one = taken(HARBOR.log.iter().chain(&opened), true);
    let at_once = taken(opened.iter().rev().chain(&HARBOR.log).chain(&opened), false);
    is_same(&one_by_one, &at_once);
    // What came beside the entries says what it would have said inside them, whoever brought it.
    let more = |state: &State, backwards: bool| {
        let mut state = state.clone();
        let mut hand = |envelope: &Envelope| drop(state.take(envelope, NOW));
        if backwards {
            objects.iter().rev().for_each(&mut hand);
        } else {
            objects.iter().for_each(&mut hand);
        }
        state.conclude(LATER);
        state
    };
    let (there, back) = (more(&one_by_one, false), more(&at_once, true));
    is_same(&there, &back);
    replicates(&opened, &one_by_one);
    for state in [&one_by_one, &there] {
        hold(state);
        for signed in &opened {
            org::audit::line(state, signed);
        }
    }
    true
}

fn taken<'a>(entries: impl Iterator<Item = &'a SignedEntry>, one_by_one: bool) -> State {
    let mut state = State::of(&HARBOR.founding);
    for signed in entries {
        state.take_entry(signed, NOW);
        if one_by_one {
            state.conclude(NOW);
        }
    }
    state.conclude(LATER);
    state
}

/// The same by the pure judges, and as it is read back from one's own disk.
fn replicates(opened: &[SignedEntry], state: &State) {
    let (mut replica, mut remembered) = (Replica::new(&HARBOR.founding, None), State::of(&HARBOR.founding));
    remembered.replica.sights = state.replica.sights.clone();
    for signed in opened.iter().chain(&HARBOR.log) {
        replica.take(&signed.envelope, NOW).expect("it opened before");
        remembered.remember_entry(signed);
    }
    assert_eq!(replica.sights, state.replica.sights, "first sights");
    assert_eq!(replica.signers(LATER), state.judged.signers, "signers");
    if let Ok(fold) = replica.state(LATER) {
        assert_eq!(fold, state.judged.fold, "who is a member, and who waits");
    }
    remembered.conclude(LATER);
    assert_eq!(remembered.judged.signers, state.judged.signers, "remembered signers");
    assert_eq!(remembered.judged.fold, state.judged.fold, "remembered members");
}

fn is_same(one: &State, other: &State) {
    assert_eq!(one.replica.sights, other.replica.sights, "first sights");
    assert_eq!(one.judged.signers, other.judged.signers, "signers");
    assert_eq!(one.judged.ground, other.judged.ground, "ground");
    assert_eq!(one.judged.fold, other.judged.fold, "members");
    assert_eq!(one.frontier, other.frontier, "frontier");
    assert_eq!(one.judged.voices, other.judged.voices, "voices");
    assert_eq!(one.members, other.members, "records of members");
    assert_eq!(one.invites, other.invites, "invites");
    assert_eq!(one.objects, other.objects, "objects");
}

/// Never over-spent; a name has one holder; what was revoked is not let in.
fn hold(state: &State) {
    for (digest, record) in state.invites.iter() {
        for right in &record.invite.rights {
            let let_in = state.judged.fold.members.values().filter(|it| {
                let admission = state.members.get(&it.key).map(|member| &member.admission);
                admission.is_some_and(|admission| {
                    admission.voice == right.voice
                        && admission.digest == it.admission
                        && state
                            .judged
                            .fold
                            .spent
                            .get(&(right.voice, *digest))
                            .is_some_and(|keys| keys.contains_key(&it.key))
                })
            });
            if let (Uses::Limited(uses), false) = (right.uses, listed(state)) {
                let others = record.invite.rights.iter().filter(|other| other.voice == right.voice).count();
                assert!(others > 1 || let_in.count() <= uses as usize, "more than {uses} came by {}", right.voice);
            }
        }
    }
    for admitted in state.judged.fold.members.values() {
        assert!(!state.revoked().node_keys.contains(&admitted.key), "a revoked key is a member");
        assert!(!state.judged.fold.waiting.contains_key(&admitted.admission), "it counts and waits");
    }
    assert!(state.signer_set().quorum.threshold() >= 1);
}

/// Leaves outlive their invites.
fn listed(state: &State) -> bool {
    state.head().is_some_and(|record| record.head.members.is_some())
}
