//! Known attacks in another setting: several signers must agree, a rotation is under way, a disk was put back, a recovery waits, and
//! the gateway that is stolen is the first one.

use std::collections::BTreeSet;

use ground::{clock, random};
use identity::certificate::draft_svid;
use identity::envelope::Envelope;
use identity::head::Cause;
use identity::key::{EdKey, Sign as _};
use identity::signers::{Quorum, Signer, Succession};
use identity::time::Seconds;
use org::invite::admission::{Claim, ClaimAuthority};
use org::ledger::entry::Action;
use org::state::State;
use trials::intruder::Intruder;
use trials::joiner::{Joiner, check_in};
use trials::place::{json, succeeded, text, until};
use trials::stranger::Dial;
use trials::thief::{Thief, a_day};
use wire::known::Known;
use wire::permit::Ask;

use super::Two;
use super::hasty::{begin, begun, founded, key_of_eve, take_over};

/// An admission that the thief writes, with the secret of an invite.
fn admitted(state: &State, code: &str, name: &str) -> Action {
    let joiner = Joiner::new(code, name);
    let invite = state.invite(joiner.code.ticket.authority().invite().unwrap()).unwrap().1.envelope.clone();
    Action::NodeAdmit { claim: joiner.signed_claim(), invite: Some(invite), approval: None }
}

/// What signers who were replaced can make: a head that takes something away, a set of their own, their word for a machine.
fn of_former(old: &Known, state: &State, former: &[EdKey; 2], code: &str) -> [Action; 3] {
    let seal = |mut envelope: Envelope| {
        for key in former {
            envelope.sign(key).unwrap();
        }
        envelope
    };
    let web = state.named(&"web-1".parse().unwrap()).next().unwrap().claim().node_key.digest();
    let mut head = old.head.head.clone();
    (head.version, head.previous) = (head.version + 1, vec![old.head.digest]);
    head.cause = Cause::NodeRevoke { node_key: web, name: "web-1".parse().unwrap() };
    head.revocations.node_keys.insert(web);
    let (name, key) = ("eve".parse().unwrap(), former[0].public());
    let quorum = Quorum::new(1, vec![Signer { name, key }]).unwrap();
    let set = old.signers.as_ref();
    let step = Succession { version: 2, previous: set.id, also: vec![], quorum, head: Some(old.head.digest) };
    let joiner = Joiner::new(code, "web-9");
    let roles = BTreeSet::from(["operator".parse().unwrap()]);
    let until = Some(clock::now() + Seconds::DAY);
    let claim = Claim { authority: ClaimAuthority::Signers, roles, until, ..joiner.claim() };
    let claim = seal(Envelope::seal(Some(old.org()), &claim).unwrap()).signed(&joiner.node_key).unwrap();
    [
        Action::Take { envelope: seal(Envelope::seal(Some(old.org()), &head).unwrap()) },
        Action::Take { envelope: seal(Envelope::seal(Some(old.org()), &step).unwrap()) },
        Action::NodeAdmit { claim, invite: None, approval: None },
    ]
}

#[test]
fn where_two_must_agree_replaced_signers_and_a_stolen_voice_give_nothing_in_the_middle_of_a_rotation() {
    let (two, _laptop, vps) = Two::founded(&["--signers", "2-of-3", "--recovery-delay", "1s"]).both_serve();
    let (place, a) = (&two.place, two.place.address());
    place.joined("web-1");
    let outdated = place.code(&["--uses", "5", "--at", "vps"]);
    let revoked = place.invite(&["--uses", "5", "--at", "vps"]);
    succeeded(&place.freehold(&["invite", "revoke", &text(&revoked, "id"), "--yes"]));
    let thief = Thief::of(place);
    let (old, former) = (thief.known(), ["ann-2", "ann-3"].map(|name| thief.signer_of(name)));
    for (goes, comes) in [("ann-2", "bea"), ("ann-3", "cat")] {
        succeeded(&place.freehold(&["signer", "replace", goes, comes, "--unprotected", "--yes"]));
    }
    let replaced = clock::now();
    succeeded(&place.freehold(&["trust", "publish", "endpoint"]));
    two.settle();
    vps.stop();
    // For one delay those who had the threshold could freeze whoever hears of another set of theirs.
    until("one delay has run", || clock::now().since(replaced) > Seconds(3));

    let intruder = Intruder::at(place.scope("vps").join("gateway"));
    let state = intruder.state();
    let smuggled = [admitted(&state, &outdated, "web-7"), admitted(&state, &text(&revoked, "code"), "web-8")];
    for action in smuggled.into_iter().chain(of_former(&old, &state, &former, &outdated)) {
        intruder.put(&intruder.says(action));
    }
    let (last, vps) = (intruder.entries().last().unwrap().digest, two.serve_vps());
    let first = Intruder::at(place.org().join("gateway"));
    until("the first gateway has heard it all", || first.entries().iter().any(|signed| signed.digest == last));

    // Whatever is signed now, in the middle of the rotation, says nothing of it.
    let before = thief.known().head.head;
    succeeded(&place.freehold(&["refresh", "--gateway", &a]));
    let after = thief.known().head.head;
    assert_eq!((&after.revocations, &after.trust, after.signers), (&before.revocations, &before.trust, before.signers));
    let state = first.state();
    assert!(!state.is_frozen() && state.signer_set().version == 3, "{:?}", state.signer_set());
    for name in ["web-7", "web-8", "web-9"] {
        let stands = two.state_at(&a, name);
        assert!(stands.as_deref().is_none_or(|stands| stands == "waiting"), "`{name}` came in: {stands:?}");
    }
    assert_eq!(two.state_at(&a, "web-1").as_deref(), Some("member"));
    let alarms = two.at(&a, &["status"])["alarms"].to_string();
    assert!(alarms.contains("counts for nothing"), "{alarms}");
    // With a stolen issuing key, under the name that the forged head was about.
    let (asking, issuing) = (Joiner::new(&outdated, "web-1"), Thief::at(place.scope("vps"), two.port()));
    let binding = asking.svid(a_day().not_after).binding;
    let draft = draft_svid(&asking.principal(), &binding, random::serial().unwrap(), a_day()).unwrap();
    let own = issuing.sign_draft(&draft, &asking.svid_key);
    assert_eq!(Dial::to(place.port).with(&own).line().code(Ask::CheckIn, &check_in()), "not_admitted");
    // And the rotation can be taken back, by those who sign now.
    succeeded(&place.freehold(&["trust", "rollback", "endpoint", "--gateway", &a]));
    assert_eq!(two.at(&a, &["audit", "--verify"])["ok"], true);
    drop(vps);
}

#[test]
fn a_first_gateway_that_is_stolen_and_set_back_locks_nobody_out_of_the_second() {
    let (two, laptop, _vps) = Two::serving();
    let (place, a, b) = (&two.place, two.place.address(), two.address());
    let words = ["invite", "create", "--uses", "4", "--at", "laptop", "--name", "n-*"];
    let code = text(&two.at(&a, &words), "code");
    succeeded(&place.join("n-1", &code));
    two.settle();
    // By the next head it has a place of its own.
    succeeded(&place.freehold(&["refresh", "--gateway", &b]));
    two.settle();
    laptop.stop();
    let (folder, copy) = (place.org().join("gateway"), place.path("copy"));
    place.copy(&folder, &copy);
    let laptop = place.serve();
    succeeded(&place.join("n-2", &code));
    two.settle();
    laptop.stop();
    // The older copy, into which the thief writes another machine where `n-2` stood.
    std::fs::remove_dir_all(&folder).unwrap();
    place.copy(&copy, &folder);
    let intruder = Intruder::at(folder);
    intruder.put(&intruder.says(admitted(&intruder.state(), &code, "n-9")));
    let _laptop = place.serve();
    let second = Intruder::at(place.scope("vps").join("gateway"));
    until("the second one knows that the chain forks", || !second.state().judged.fold.forks.is_empty());

    // At the survivor operators go on, with all that was settled.
    for words in [&["node", "list"][..], &["status"], &["invite", "create"], &["refresh"]] {
        succeeded(&place.freehold(&[words, &["--gateway", &b]].concat()));
    }
    assert_eq!(two.state_at(&b, "n-1").as_deref(), Some("member"));
    assert_eq!(two.state_at(&b, "n-2").as_deref(), Some("waiting"));
    succeeded(&place.freehold(&["node", "revoke", "n-1", "--yes", "--gateway", &b]));
    succeeded(&place.freehold(&["gateway", "remove", "laptop", "--yes", "--gateway", &b]));
    succeeded(&place.freehold(&["node", "approve", "n-2", "--yes", "--gateway", &b]));
    let live = |name: &str| two.state_at(&b, name).filter(|stands| stands != "waiting" && stands != "revoked");
    assert!(live("n-2").is_some(), "operators listed it: {:?}", two.state_at(&b, "n-2"));
    assert_eq!(live("n-9"), None, "the thief's machine is nobody");
    assert_eq!(two.state_at(&b, "n-1").as_deref(), Some("revoked"));
    assert_eq!(two.at(&b, &["audit", "--verify"])["ok"], true);
}

#[test]
fn a_recovery_that_the_first_gateway_dates_back_waits_at_the_second_where_the_signers_stop_it() {
    let (two, phrases) = founded("24h");
    let (two, laptop, vps) = two.both_serve();
    let (place, b) = (&two.place, two.address());
    two.settle();
    assert_eq!((laptop.stop(), vps.stop()), (Some(0), Some(0)));
    let folder = place.org().join("gateway");
    place.copy(&folder, &place.path("kept"));
    let laptop = place.serve();
    begin(&two, &place.address(), &phrases);
    laptop.kill();
    let intruder = Intruder::at(folder.clone());
    let recovery = intruder.entries().iter().find_map(begun).cloned().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    place.copy(&place.path("kept"), &folder);
    let long_ago = clock::now() - Seconds::HOUR.times(25);
    intruder.put(&intruder.entry(&intruder.voice(), long_ago, Action::Take { envelope: recovery.clone() }));
    intruder.saw(recovery.digest(), long_ago);
    let (_laptop, _vps) = (place.serve(), two.serve_vps());
    take_over(&intruder, place.port, (&recovery, &key_of_eve(place)));
    let last = intruder.entries().last().unwrap().digest;

    let second = Intruder::at(place.scope("vps").join("gateway"));
    until("the second one has heard of her head", || second.entries().iter().any(|signed| signed.digest == last));
    let is_hers = |state: &State| state.signer_set().quorum.key_of(&"eve".parse().unwrap()).is_some();
    assert!(!is_hers(&second.state()), "the thief's signers are in force at the honest gateway");
    let at_second = |words: &[&str]| place.freehold(&[words, &["--gateway", &b]].concat());
    assert_eq!(json(&at_second(&["recover", "--cancel", "--yes", "--json"]))["state"], "cancelled");
    succeeded(&at_second(&["refresh"]));
    succeeded(&at_second(&["gateway", "remove", "laptop", "--yes"]));
    let invite = json(&at_second(&["invite", "create", "--json"]));
    succeeded(&place.join("web-1", &text(&invite, "code")));
    let state = second.state();
    assert!(!is_hers(&state) && !state.is_frozen());
    assert_eq!(two.at(&b, &["audit", "--verify"])["ok"], true);
}
