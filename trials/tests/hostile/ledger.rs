//! Entries that an operator's tool would never hand in: refused whole, and the head only ever goes forward.

use ground::{clock, random};
use identity::envelope::Envelope;
use identity::head::{Head, InviteCut};
use identity::id::{Digest, InviteId};
use identity::key::{EdKey, Sign as _};
use identity::principal::{Author, NodeName};
use identity::signers::{Quorum, Signer, Succession};
use identity::time::Seconds;
use org::entry::{Action, Cause, Entry};
use org::frontier::Place;
use org::invite::{Approval, Invite, InviteKind, Right, Uses};
use trials::place::{succeeded, text};
use trials::thief::Thief;

use super::Scene;

/// A gateway, and a thief who holds the signer's key: the worst that the API can be asked.
struct Desk {
    scene: Scene,
    thief: Thief,
    stranger: EdKey,
    gateway: NodeName,
}

impl Desk {
    fn new() -> Self {
        let scene = Scene::new();
        let thief = Thief::of(&scene.place);
        let gateway = thief.survey().gateway;
        Self { scene, thief, stranger: random::ed25519().unwrap(), gateway }
    }

    fn invite(&self, by: &EdKey) -> Action {
        let invite = Invite {
            id: random::invite_id().unwrap(),
            label: "forged".to_owned(),
            signers: 1,
            key: Some(self.stranger.public()),
            rights: vec![Right { gateway: self.gateway.clone(), voice: None, uses: Uses::Unlimited }],
            created_at: clock::now(),
            expires_at: clock::now() + Seconds::DAY,
            names: vec!["*".parse().unwrap()],
            networks: Vec::new(),
            labels: std::collections::BTreeSet::new(),
            roles: std::collections::BTreeSet::new(),
            approval: Approval::None,
            approvers: 1,
            files: std::collections::BTreeSet::new(),
            hosts: Vec::new(),
            kind: InviteKind::Token,
            root: None,
        };
        Action::InviteCreate { invite: self.thief.seal(&invite, by) }
    }

    /// Ann's next entry, rightly signed.
    fn entry(&self, action: Action) -> Envelope {
        self.twisted(action, |_| {})
    }

    fn twisted(&self, action: Action, twist: impl FnOnce(&mut Entry)) -> Envelope {
        let mut entry = self.thief.entry(action);
        twist(&mut entry);
        self.thief.seal(&entry, &self.thief.signer())
    }

    fn publish(&self, change: impl FnOnce(&mut Head)) -> Envelope {
        let head = self.thief.head(|head| {
            head.issued_at = clock::now();
            change(head);
        });
        self.entry(Action::HeadPublish { head, cause: Cause::Refresh })
    }

    fn check(&self, entries: Vec<Envelope>, why: &str, case: &str) {
        let (code, told) = self.thief.append(entries);
        assert_eq!(code, "ledger_refuses", "{case}");
        assert!(told.contains(why), "{case}: expected `{why}` in `{told}`");
    }
}

#[test]
fn an_entry_counts_only_in_its_authors_hand_and_in_its_turn() {
    let desk = Desk::new();
    let before = desk.scene.truth();
    let good = || desk.invite(&desk.thief.signer());
    let stranger = &desk.stranger;
    let by_stranger = |twist: &dyn Fn(&mut Entry)| {
        let mut entry = desk.thief.entry(good());
        twist(&mut entry);
        desk.thief.seal(&entry, stranger)
    };
    let no_author = "is no author of this org, or signed with another key";
    desk.check(vec![by_stranger(&|entry| entry.key = stranger.public())], no_author, "a stranger as Ann");
    let as_eve = |entry: &mut Entry| {
        entry.author = Author::Signer("eve".parse().unwrap());
        (entry.key, entry.seq, entry.previous) = (stranger.public(), 1, None);
    };
    desk.check(vec![by_stranger(&as_eve)], no_author, "a stranger as herself");
    let as_gateway = |entry: &mut Entry| {
        entry.author = Author::Gateway(desk.gateway.clone());
        let place = entry.seen.place_of(&entry.author).copied().unwrap();
        (entry.key, entry.seq, entry.previous) = (stranger.public(), place.seq + 1, Some(place.digest));
    };
    desk.check(vec![by_stranger(&as_gateway)], no_author, "a stranger as the gateway");
    desk.check(vec![by_stranger(&|_| {})], "carries 0 of the 1 signatures", "Ann's key named, a stranger's used");

    desk.check(vec![desk.twisted(good(), |entry| entry.seq += 1)], "this entry is number", "one place too far");
    desk.check(vec![desk.twisted(good(), |entry| entry.seq -= 1)], "this entry is number", "a place that is taken");
    desk.check(vec![desk.twisted(good(), |entry| entry.epoch += 1)], "epoch 1 is in force", "another epoch");
    let other_past = |entry: &mut Entry| entry.previous = Some(Digest([1; 32]));
    desk.check(vec![desk.twisted(good(), other_past)], "two entries claim place", "another past");
    let future = |entry: &mut Entry| {
        let author = Author::Gateway(desk.gateway.clone());
        let place = entry.seen.place_of(&author).copied().unwrap();
        entry.seen.0.insert(author, Place { seq: place.seq + 9, ..place });
    };
    desk.check(vec![desk.twisted(good(), future)], "it has seen entries that are not known here", "the future");
    let twice = desk.entry(good());
    desk.check(vec![twice.clone(), twice], "this entry is number", "one entry twice");
    assert_eq!(desk.scene.truth(), before);
    desk.scene.audit();
}

#[test]
fn an_entry_whose_inside_does_not_hold_is_refused_with_all_that_came_with_it() {
    let desk = Desk::new();
    let before = desk.scene.truth();
    let (signer, stranger) = (desk.thief.signer(), &desk.stranger);
    let unsigned = "the object inside does not hold";
    let forged = desk.entry(desk.invite(stranger));
    desk.check(vec![forged], unsigned, "an invite by a stranger");

    // A good entry first, then a bad one that follows it: neither is taken.
    let good = desk.entry(desk.invite(&signer));
    let following = desk.twisted(desk.invite(stranger), |entry| {
        entry.seq += 1;
        entry.previous = Some(good.digest());
    });
    desk.check(vec![good, following], unsigned, "good and bad together");

    let head = desk.thief.seal(
        &{
            let mut head = desk.thief.known().head.head;
            head.version += 1;
            head
        },
        stranger,
    );
    desk.check(
        vec![desk.entry(Action::HeadPublish { head, cause: Cause::Refresh })],
        "carries 0 of the 1",
        "a head by a stranger",
    );
    let known = desk.thief.known();
    let quorum = Quorum::new(1, vec![Signer { name: "eve".parse().unwrap(), key: stranger.public() }]).unwrap();
    let succession = Succession { version: 2, previous: known.signers.id, also: Vec::new(), quorum, head: None };
    let signers = desk.thief.seal(&succession, stranger);
    let head = desk.thief.head(|head| head.version += 1);
    desk.check(vec![desk.entry(Action::SignersInstall { signers, head })], "is not signed by the threshold", "a coup");
    let lie = Cause::NodeRevoke { name: desk.gateway.clone(), node_key: Digest([1; 32]) };
    let head = desk.thief.head(|head| head.version += 1);
    desk.check(vec![desk.entry(Action::HeadPublish { head, cause: lie })], "does not do what the entry says", "a lie");
    let join = Action::NodeJoin { node_key: Digest([1; 32]), name: "web-1".parse().unwrap() };
    desk.check(vec![desk.entry(join)], "its author may not do this", "what only a gateway says");
    let admit = Action::NodeAdmit { admission: desk.thief.known().head_envelope };
    desk.check(vec![desk.entry(admit)], "its author may not do this", "what only a gateway does");

    assert_eq!(desk.scene.truth(), before);
    desk.scene.audit();
    desk.scene.place.code(&[]);
}

#[test]
fn the_head_never_goes_back_and_never_forgets() {
    let desk = Desk::new();
    let place = &desk.scene.place;
    let code = place.code(&[]);
    trials::joiner::Joiner::join(&code, "web-1", place.port);
    let first = desk.thief.known().head_envelope;
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    let before = desk.scene.truth();
    assert_eq!(desk.thief.known().head.head.version, 2);

    let old = desk.entry(Action::HeadPublish { head: first, cause: Cause::Refresh });
    desk.check(vec![old], "head 1 is older than head 2", "the first head again, as it was signed");
    desk.check(vec![desk.publish(|head| head.version = 1)], "head 1 is older than head 2", "a new head 1");
    desk.check(vec![desk.publish(|head| head.version = 0)], "head 0 is older than head 2", "head 0");
    desk.check(
        vec![desk.publish(|head| head.recent.push(Digest([9; 32])))],
        "two different heads with version 2",
        "another head 2",
    );
    let forgetful = desk.publish(|head| {
        head.version = 3;
        head.revocations.node_keys.clear();
    });
    desk.check(vec![forgetful], "head 3 forgets revocations", "a pardon");

    // Two heads at once: the second must follow the first.
    let next = desk.publish(|head| head.version = 3);
    let head = desk.thief.head(|head| head.fresh_until = clock::now());
    let back = desk.twisted(Action::HeadPublish { head, cause: Cause::Refresh }, |entry| {
        entry.seq += 1;
        entry.previous = Some(next.digest());
    });
    desk.check(vec![next, back], "head 2 is older than head 3", "forward and back");

    assert_eq!(desk.scene.truth(), before);
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
    // Said to be a refresh, it revokes the invite from before the machine came in.
    let sly = desk.publish(|head| {
        head.version += 1;
        head.revocations.invites.insert(InviteCut { invite: id, seen: Vec::new() });
    });
    desk.check(vec![sly], "machines joined meanwhile", "a cut under another cause");
    assert_eq!(desk.scene.place.state_of("web-1").as_deref(), Some("member"));
}
