//! What an operator's tool would never hand in: refused whole, and the head only ever goes forward.

use std::collections::BTreeSet;

use ground::{clock, random};
use identity::envelope::Envelope;
use identity::head::{Cause, Head};
use identity::id::{Digest, InviteId, OrgId};
use identity::key::{EdKey, Sign as _};
use identity::signers::{Quorum, Recovery, Signer, SignerSet, Succession};
use identity::time::{Seconds, Timestamp};
use org::invite::admission::Leave;
use org::invite::approve::{Decision, Verdict};
use org::invite::{Invite, Right, Uses};
use org::ledger::entry::Action;
use org::suspend::Suspension;
use trials::attack::intruder::Intruder;
use trials::attack::thief::Thief;
use trials::client::stranger::Dial;
use trials::place::{Place, succeeded, text};
use wire::control::Call;

use super::Scene;

/// A gateway, and a thief who holds a signer's key: the worst that the API can be asked.
struct Desk {
    scene: Scene,
    thief: Thief,
    stranger: EdKey,
}

impl Desk {
    fn new() -> Self {
        Self::at(Scene::new())
    }

    fn at(scene: Scene) -> Self {
        let thief = Thief::of(&scene.place);
        Self { scene, thief, stranger: random::ed25519().unwrap() }
    }

    fn invite(&self) -> Invite {
        let known = self.thief.known();
        let mandate = known.head.head.mandates.first().unwrap();
        Invite {
            label: "forged".to_owned(),
            signers: known.signers.version,
            rights: vec![Right { gateway: mandate.gateway.clone(), voice: mandate.voice, uses: Uses::Unlimited }],
            created_at: clock::now(),
            expires_at: clock::now() + Seconds::DAY,
            names: vec!["*".parse().unwrap()],
            ..testorg::invite(random::invite_id().unwrap(), self.stranger.public())
        }
    }

    fn good(&self) -> Envelope {
        self.thief.seal(&self.invite(), &self.thief.signer())
    }

    /// The next head, but for the change.
    fn draft(&self, change: impl FnOnce(&mut Head)) -> Head {
        let known = self.thief.known().head;
        let mut head = known.head;
        head.version += 1;
        head.previous = vec![known.digest];
        (head.issued_at, head.cause) = (clock::now(), Cause::Refresh);
        change(&mut head);
        head
    }

    fn head(&self, change: impl FnOnce(&mut Head)) -> Envelope {
        self.thief.seal(&self.draft(change), &self.thief.signer())
    }

    /// The stranger alone signs, from the next set on.
    fn coup(&self) -> Succession {
        let known = self.thief.known();
        let (version, head) = (known.signers.version + 1, Some(known.head.digest));
        Succession { version, previous: known.signers.id, also: Vec::new(), quorum: alone(&self.stranger), head }
    }

    fn check(&self, objects: Vec<Envelope>, why: &str, case: &str) {
        let (code, told) = self.thief.hand_in(objects);
        assert_eq!(code, "ledger_refuses", "{case}: {told}");
        assert!(told.contains(why), "{case}: expected `{why}` in `{told}`");
    }

    fn taken(&self, objects: Vec<Envelope>, case: &str) {
        assert_eq!(self.thief.hand_in(objects), ("ok".to_owned(), String::new()), "{case}");
    }

    /// How many entries the gateway has written.
    fn written(&self) -> usize {
        Intruder::at(self.scene.place.org().join("gateway")).entries().len()
    }
}

fn alone(key: &EdKey) -> Quorum {
    Quorum::new(1, vec![Signer { name: "eve".parse().unwrap(), key: key.public() }]).unwrap()
}

/// The same words, and nobody's signature.
fn bare(envelope: &Envelope) -> Envelope {
    envelope.kept(&BTreeSet::new())
}

#[test]
fn what_the_signers_in_force_did_not_sign_is_refused() {
    let desk = Desk::new();
    let (before, written) = (desk.scene.truth(), desk.written());
    let (thief, stranger) = (&desk.thief, &desk.stranger);
    let unsigned = "0 of the 1 signers that it needs have signed";
    desk.check(vec![bare(&desk.good())], unsigned, "an invite that nobody signed");
    desk.check(vec![thief.seal(&desk.invite(), stranger)], unsigned, "an invite by a stranger");
    desk.check(vec![thief.seal(&desk.invite(), &thief.voice())], unsigned, "an invite by the gateway");
    let mut grafted = serde_json::to_value(desk.good()).unwrap();
    grafted["signatures"] = serde_json::to_value(desk.good()).unwrap()["signatures"].clone();
    let grafted: Envelope = serde_json::from_value(grafted).unwrap();
    desk.check(vec![grafted], unsigned, "an invite under another's signature");
    let yes = Decision { about: Digest([1; 32]), verdict: Verdict::Approve, until: None };
    desk.check(vec![thief.seal(&yes, stranger)], unsigned, "a yes by a stranger");

    let unsigned = "the signers in force have not signed this head";
    desk.check(vec![bare(&desk.head(|_| {}))], unsigned, "a head that nobody signed");
    desk.check(vec![thief.seal(&desk.draft(|_| {}), stranger)], unsigned, "a head by a stranger");
    desk.check(vec![thief.seal(&desk.draft(|_| {}), &thief.voice())], unsigned, "a head by the gateway");
    let eves = SignerSet::later(thief.known().org(), 2, alone(stranger)).as_ref();
    let of_eve = thief.seal(&desk.draft(|head| head.signers = eves), stranger);
    desk.check(vec![of_eve.clone()], unsigned, "a head by a set that nobody made");

    let not_next = "it does not follow the signers in force";
    let coup = desk.coup();
    desk.check(vec![thief.seal(&coup, stranger)], not_next, "a coup");
    desk.check(vec![thief.seal(&coup, stranger), of_eve.clone()], not_next, "a coup with its head");
    desk.check(vec![of_eve, thief.seal(&coup, stranger)], unsigned, "a head with its coup");
    let elsewhere = Succession { previous: Digest([1; 32]), ..coup.clone() };
    desk.check(vec![thief.seal(&elsewhere, &thief.signer())], not_next, "the successor of another set");
    let skips = Succession { version: coup.version + 1, ..coup.clone() };
    desk.check(vec![thief.seal(&skips, &thief.signer())], not_next, "a version is skipped");
    let (version, previous, head, at) = (coup.version, coup.previous, coup.head, clock::now());
    let recovery = Recovery { version, previous, quorum: coup.quorum, head, settles: false, at };
    desk.check(vec![thief.seal(&recovery, &thief.signer())], not_next, "a recovery without a recovery key");

    assert_eq!((desk.scene.truth(), desk.written()), (before, written));
    assert_eq!(thief.survey().signers, Vec::new());
    desk.scene.audit();
    desk.scene.place.code(&[]);
}

#[test]
fn fewer_than_the_threshold_are_nobody_and_their_signatures_add_up() {
    let desk = Desk::at(Scene::of(Place::founded(&["--signers", "2-of-3"])));
    let (before, thief) = (desk.scene.truth(), &desk.thief);
    let [one, other] = ["ann", "ann-2"].map(|name| thief.signer_of(name));
    let too_few = "1 of the 2 signers that it needs have signed";
    let invite = thief.seal(&desk.invite(), &one);
    desk.check(vec![invite.clone()], too_few, "an invite by one of two");
    let twice = invite.clone().signed(&one).unwrap();
    desk.check(vec![twice], too_few, "one signer twice");
    let padded = invite.clone().signed(&desk.stranger).unwrap();
    desk.check(vec![padded], too_few, "a signer and a stranger");
    let head = desk.head(|_| {});
    desk.check(vec![head.clone()], "the signers in force have not signed this head", "a head by one of two");
    desk.check(vec![thief.seal(&desk.coup(), &one)], "it does not follow the signers in force", "a coup by one of two");
    assert_eq!(desk.scene.truth(), before);
    // What was refused left nothing behind that the second signature could complete by itself.
    desk.check(vec![bare(&invite).signed(&other).unwrap()], too_few, "the other one alone");
    desk.taken(vec![invite.signed(&other).unwrap()], "both");
    desk.taken(vec![head.clone(), head.signed(&other).unwrap()], "one copy with one signature, and one with both");
    desk.scene.audit();
}

#[test]
fn what_belongs_to_another_org_or_is_of_another_kind_is_refused() {
    let desk = Desk::new();
    let (before, written) = (desk.scene.truth(), desk.written());
    let (thief, signer) = (&desk.thief, desk.thief.signer());
    let elsewhere = Some(OrgId([9; 32]));
    let other_org = "belongs to another org";
    let invite = Envelope::seal(elsewhere, &desk.invite()).unwrap().signed(&signer).unwrap();
    desk.check(vec![invite], other_org, "another org's invite");
    let head = Envelope::seal(elsewhere, &desk.draft(|_| {})).unwrap().signed(&signer).unwrap();
    desk.check(vec![head], other_org, "another org's head");
    let coup = Envelope::seal(elsewhere, &desk.coup()).unwrap().signed(&signer).unwrap();
    desk.check(vec![coup], other_org, "another org's signers");
    let yes = Decision { about: Digest([1; 32]), verdict: Verdict::Approve, until: None };
    let yes = Envelope::seal(elsewhere, &yes).unwrap().signed(&signer).unwrap();
    desk.check(vec![yes], other_org, "another org's yes");

    // What only a gateway says, said by a signer, and the other way round.
    let ledger = Intruder::at(desk.scene.place.org().join("gateway"));
    let join = Action::NodeJoin { node_key: Digest([1; 32]), name: "web-1".parse().unwrap() };
    for (case, entry) in [
        ("an entry in the gateway's voice", ledger.says(join.clone())),
        ("an entry in a signer's", ledger.entry(&signer, clock::now(), join.clone())),
        ("an entry that carries a head", ledger.says(Action::Take { envelope: desk.head(|_| {}) })),
    ] {
        desk.check(vec![entry.envelope], "nobody hands in something of the kind `entry`", case);
    }
    let leave = thief.seal(&Leave { node_key: signer.public(), at: clock::now() }, &signer);
    desk.check(vec![leave], "nobody hands in something of the kind `leave`", "what only a machine says");
    let nobody = Suspension {
        node_key: Digest([1; 32]),
        name: "web-1".parse().unwrap(),
        at: clock::now(),
        until: clock::now() + Seconds::HOUR,
        reason: "odd".to_owned(),
    };
    let nobody = thief.seal(&nobody, &signer);
    desk.check(vec![nobody], "no machine here has this key under the name `web-1`", "a suspension of nobody");
    assert_eq!((desk.scene.truth(), desk.written()), (before.clone(), written));

    // Nor are entries taken of a chain that no head has given to a gateway.
    let stray = ledger.entry(&desk.stranger, clock::now(), Action::Take { envelope: desk.good() });
    let reply = thief.call(&mut Dial::to(desk.scene.port()).line(), &Call::Hand { entries: vec![stray.envelope] });
    assert_eq!(reply.code(), "ok", "{:?}", reply.body);
    assert_eq!((desk.scene.truth(), desk.written()), (before, written));
    desk.scene.audit();
}

#[test]
fn what_a_former_signer_signs_is_refused_whoever_brings_it() {
    let desk = Desk::new();
    let place = &desk.scene.place;
    succeeded(&place.freehold(&["org", "card", "--out", "harbor.card"]));
    let made = place.operator_facts("ben", &["signer", "new", "ben", "--card", "harbor.card", "--unprotected"]);
    succeeded(&place.freehold(&["signer", "add", "ben", "--key", &text(&made, "key"), "--yes"]));
    let (ben, his) = (Thief::at(place.path("ben/harbor"), place.port).signer_of("ben"), desk.thief.known().signers);
    desk.taken(vec![desk.thief.seal(&desk.invite(), &ben)], "while he signs");
    let under_him = desk.thief.seal(&desk.draft(|_| {}), &ben);
    succeeded(&place.freehold(&["signer", "remove", "ben", "--yes"]));
    let before = desk.scene.truth();
    let invite = desk.thief.seal(&desk.invite(), &ben);
    desk.check(vec![invite], "0 of the 1 signers that it needs have signed", "an invite");
    let unsigned = "the signers in force have not signed this head";
    let his_head = desk.draft(|head| head.signers = his.as_ref());
    let other = "signed under signer set 2, but set 3 is in force";
    desk.check(vec![desk.thief.seal(&his_head, &ben)], other, "a head of the set that he was in");
    desk.check(vec![desk.thief.seal(&desk.draft(|_| {}), &ben)], unsigned, "a head of the set in force");
    let (code, told) = desk.thief.hand_in(vec![under_him]);
    assert_eq!(code, "ledger_refuses", "a head that he kept: {told}");
    let succession = Succession { version: his.version + 1, previous: his.id, ..desk.coup() };
    desk.check(
        vec![desk.thief.seal(&succession, &ben)],
        "two signer sets claim one place, or would",
        "another successor",
    );
    assert_eq!(desk.scene.truth(), before);
    desk.scene.audit();
    place.code(&[]);
}

#[test]
fn all_is_taken_or_nothing_and_nothing_is_written_twice() {
    let desk = Desk::new();
    let (before, written) = (desk.scene.truth(), desk.written());
    let (good, bad) = (desk.good(), desk.thief.seal(&desk.invite(), &desk.stranger));
    let unsigned = "0 of the 1 signers that it needs have signed";
    desk.check(vec![good.clone(), bad.clone()], unsigned, "good and bad together");
    desk.check(vec![bad, good.clone()], unsigned, "bad and good together");
    assert_eq!((desk.scene.truth(), desk.written()), (before, written));

    desk.taken(vec![good.clone()], "good alone");
    let after = desk.scene.truth();
    assert_eq!(desk.written(), written + 1);
    desk.taken(vec![good.clone()], "again");
    desk.taken(vec![good.clone(), good], "twice");
    assert_eq!((desk.scene.truth(), desk.written()), (after, written + 1));
    let twin = desk.good();
    desk.taken(vec![twin.clone(), twin], "one thing twice in one call");
    assert_eq!(desk.written(), written + 2);
    desk.taken(Vec::new(), "nothing");
    desk.scene.audit();
}

#[test]
fn the_head_never_goes_back_and_never_forgets() {
    let desk = Desk::new();
    let place = &desk.scene.place;
    let code = place.code(&[]);
    trials::client::joiner::Joiner::join(&code, "web-1", place.port);
    let first = desk.thief.known().head_envelope;
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    let (before, written) = (desk.scene.truth(), desk.written());
    assert_eq!(desk.thief.known().head.head.version, 2);

    desk.taken(vec![first], "the first head again, as it was signed: it is here");
    desk.check(vec![desk.head(|head| head.version = 1)], "head 1 is older than head 2", "a new head 1");
    desk.check(vec![desk.head(|head| head.version = 0)], "head 0 is older than head 2", "head 0");
    let other = |head: &mut Head| (head.version, head.recent) = (2, vec![Digest([9; 32])]);
    desk.check(vec![desk.head(other)], "two different heads with version 2", "another head 2");
    let pardon = desk.head(|head| head.revocations.node_keys.clear());
    desk.check(vec![pardon], "head 3 forgets revocations", "a pardon");
    let round = desk.head(|head| {
        head.previous.clear();
        head.revocations.node_keys.clear();
    });
    desk.check(vec![round], "head 3 forgets revocations", "a pardon that goes round the one in force");
    let soon = clock::now() + Seconds::HOUR;
    let node_key = text(&place.facts(&["node", "show", "web-1"]), "node_key");
    let key = node_key.parse::<identity::key::PublicKey>().unwrap().digest();
    let shorter = desk.head(|head| {
        head.revocations.node_keys.clear();
        head.revocations.node_keys.insert_until(key, soon);
    });
    desk.check(vec![shorter], "head 3 forgets revocations", "a revocation that ends sooner");
    let rootless = desk.head(|head| head.trust.clear());
    desk.check(vec![rootless], "head 3 undoes what an earlier head said of the trusted roots", "no roots");
    let drafted: Timestamp = clock::now() - Seconds::HOUR.times(2);
    let kept = desk.head(|head| head.issued_at = drafted);
    desk.check(vec![kept], "before the one that is in force: make it anew", "a head that was kept back");
    let unstaged = desk.head(|head| head.members = Some(Digest([7; 32])));
    desk.check(vec![unstaged], "not handed in", "a map that is not here");
    let ahead = desk.head(|head| head.issued_at = clock::now() + Seconds::HOUR);
    let (code, told) = desk.thief.hand_in(vec![ahead]);
    assert_eq!(code, "malformed", "from the future: {told}");
    assert!(told.contains("one of the two clocks is wrong"), "{told}");

    // Two heads at once: the second must follow the first.
    let (next, back) = (desk.head(|_| {}), desk.head(other));
    desk.check(vec![next, back], "head 2 is older than head 3", "forward and back");

    assert_eq!((desk.scene.truth(), desk.written()), (before, written));
    assert_eq!(desk.thief.survey().head.digest(), desk.thief.known().head.digest);
    assert_eq!(place.state_of("web-1").as_deref(), Some("revoked"));
    desk.scene.audit();
    succeeded(&place.freehold(&["refresh"]));
    assert_eq!(desk.thief.known().head.head.version, 3);
}

#[test]
fn no_head_cuts_machines_off_in_passing() {
    let desk = Desk::new();
    let invite = desk.scene.place.invite(&[]);
    succeeded(&desk.scene.place.join("web-1", &text(&invite, "code")));
    let id: InviteId = text(&invite, "id").parse().unwrap();
    // Said to be a refresh, it revokes the invite as of before the machine came in.
    let sly = desk.head(|head| head.revocations.invites.extend([id]));
    desk.check(vec![sly], "machines joined meanwhile", "a revocation under another cause");
    assert_eq!(desk.scene.place.state_of("web-1").as_deref(), Some("member"));
}
