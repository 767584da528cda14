//! What a stolen voice, replaced signers and old invites make of it together, written among a gateway's rows; and that nothing came of
//! it anywhere.

use std::collections::BTreeSet;

use ground::{clock, random};
use identity::envelope::Envelope;
use identity::head::{Cause, Head};
use identity::id::Digest;
use identity::key::{EdKey, Sign as _};
use identity::signers::{Quorum, Signer, Succession};
use identity::time::Seconds;
use org::invite::admission::{Claim, ClaimAuthority};
use org::ledger::entry::{Action, SignedEntry};
use org::state::State;
use trials::attack::intruder::Intruder;
use trials::attack::thief::Thief;
use trials::client::joiner::Joiner;
use trials::place::{succeeded, text};
use wire::known::Known;

use super::Two;

/// Two of three signers, before they were replaced: their keys, what they went by, and two invites of theirs for one gateway, of
/// which one was revoked.
pub struct Loot {
    old: Known,
    former: [EdKey; 2],
    pub outdated: String,
    revoked: String,
    /// A gateway that nobody mandated but they.
    evil: EdKey,
}

/// Keys of machines that were never let in, by names that begin so.
pub const NAMES: [&str; 4] = ["web-6", "web-7", "web-8", "web-9"];

/// An admission that the thief writes, with the secret of an invite.
pub fn admitted(state: &State, code: &str, name: &str) -> Action {
    let joiner = Joiner::new(code, name);
    let invite = state.invite(joiner.code.ticket.authority().invite().unwrap()).unwrap().1.envelope.clone();
    Action::NodeAdmit { claim: joiner.signed_claim(), invite: Some(invite), approval: None }
}

impl Loot {
    /// `web-1` is a member, and the signers are replaced.
    pub fn of(two: &Two, gateway: &str) -> Self {
        let loot = Self::before(two, gateway);
        replace(two);
        loot
    }

    /// They are not replaced yet.
    pub fn before(two: &Two, gateway: &str) -> Self {
        let place = &two.place;
        place.joined("web-1");
        let outdated = place.code(&["--uses", "5", "--at", gateway]);
        let revoked = place.invite(&["--uses", "5", "--at", gateway]);
        succeeded(&place.freehold(&["invite", "revoke", &text(&revoked, "id"), "--yes"]));
        let thief = Thief::of(place);
        let former = ["ann-2", "ann-3"].map(|name| thief.signer_of(name));
        Self { old: thief.known(), former, outdated, revoked: text(&revoked, "code"), evil: random::ed25519().unwrap() }
    }

    fn by_former(&self, mut envelope: Envelope) -> Envelope {
        for key in &self.former {
            envelope.sign(key).unwrap();
        }
        envelope
    }

    fn seal<T: identity::envelope::Payload>(&self, body: &T) -> Envelope {
        self.by_former(Envelope::seal(Some(self.old.org()), body).unwrap())
    }

    /// A head that takes `web-1` away and mandates a gateway of the thief's own.
    fn head(&self, state: &State) -> Envelope {
        let web = state.named(&"web-1".parse().unwrap()).next().unwrap().claim().node_key.digest();
        let mut head = self.old.head.head.clone();
        (head.version, head.previous) = (head.version + 1, vec![self.old.head.digest]);
        head.cause = Cause::NodeRevoke { node_key: web, name: "web-1".parse().unwrap() };
        head.revocations.node_keys.insert(web);
        let mut evil = head.mandates[0].clone();
        (evil.gateway, evil.voice) = ("gw-evil".parse().unwrap(), self.evil.public());
        head.mandates.push(evil);
        self.seal(&head)
    }

    /// Their word for a machine, which is to be an operator.
    fn word(&self) -> Action {
        let joiner = Joiner::new(&self.outdated, NAMES[3]);
        let roles = BTreeSet::from(["operator".parse().unwrap()]);
        let until = Some(clock::now() + Seconds::DAY);
        let claim = Claim { authority: ClaimAuthority::Signers, roles, until, ..joiner.claim() };
        let claim = self.seal(&claim).signed(&joiner.node_key).unwrap();
        Action::NodeAdmit { claim, invite: None, approval: None }
    }

    /// A set of their own. For one delay those who had the threshold can freeze whoever hears of another set of theirs.
    pub fn step(&self) -> Action {
        let (name, key) = ("eve".parse().unwrap(), self.former[0].public());
        let quorum = Quorum::new(1, vec![Signer { name, key }]).unwrap();
        let set = self.old.signers.as_ref();
        let head = Some(self.old.head.digest);
        Action::Take { envelope: self.seal(&Succession { version: 2, previous: set.id, also: vec![], quorum, head }) }
    }

    /// Into rows from which nobody serves. The last entry.
    pub fn smuggle(&self, intruder: &Intruder) -> Digest {
        let state = intruder.state();
        let [by_evil, by_outdated, by_revoked, _] = NAMES;
        let own = admitted(&state, &self.outdated, by_evil);
        intruder.put(&intruder.says(admitted(&state, &self.outdated, by_outdated)));
        intruder.put(&intruder.says(admitted(&state, &self.revoked, by_revoked)));
        intruder.put(&intruder.says(Action::Take { envelope: self.head(&state) }));
        intruder.put(&intruder.entry(&self.evil, clock::now(), own));
        let last: SignedEntry = intruder.says(self.word());
        intruder.put(&last);
        last.digest
    }

    /// Whatever is signed now, by those who sign now, says nothing of it.
    pub fn check(&self, two: &Two, gateway: &str, replica: &Intruder) {
        let thief = Thief::of(&two.place);
        let before: Head = thief.known().head.head;
        succeeded(&two.place.freehold(&["refresh", "--gateway", gateway]));
        let after = thief.known().head.head;
        let voices = |head: &Head| head.mandates.iter().map(|mandate| mandate.voice).collect::<Vec<_>>();
        let about = |head: &Head| (head.revocations.clone(), head.trust.clone(), head.signers, voices(head));
        assert_eq!(about(&after), about(&before));
        assert!(!voices(&after).contains(&self.evil.public()));
        let state = replica.state();
        assert!(!state.is_frozen() && state.signer_set().as_ref() == after.signers, "{:?}", state.signer_set());
        for name in NAMES {
            let stands = two.state_at(gateway, name);
            assert!(stands.as_deref().is_none_or(|stands| stands == "waiting"), "`{name}` came in: {stands:?}");
        }
        assert_eq!(two.state_at(gateway, "web-1").as_deref(), Some("member"));
        let alarms = two.at(gateway, &["status"])["alarms"].to_string();
        assert!(alarms.contains("counts for nothing"), "{alarms}");
    }
}

pub fn replace(two: &Two) {
    for (goes, comes) in [("ann-2", "bea"), ("ann-3", "cat")] {
        succeeded(&two.place.freehold(&["signer", "replace", goes, comes, "--unprotected", "--yes"]));
    }
}
