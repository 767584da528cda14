//! Known attacks in another setting: several signers must agree, a rotation is under way, a disk was put back, a recovery waits, the
//! gateway that is stolen is the first one, or it is two of three.

use ground::{clock, random};
use identity::certificate::draft_svid;
use identity::head::Cause;
use identity::id::Digest;
use identity::key::{PublicKey, Sign as _};
use identity::time::Seconds;
use org::invite::code::InviteCode;
use org::ledger::entry::Action;
use org::state::State;
use trials::attack::intruder::Intruder;
use trials::attack::thief::{Thief, a_day};
use trials::client::joiner::{Joiner, check_in};
use trials::client::stranger::Dial;
use trials::place::{Place, json, succeeded, text, until};
use wire::permit::Ask;

use super::Two;
use super::hasty::{begin, begun, founded, founded_with, key_of_eve, take_over};
use super::smuggled::{Loot, admitted};

/// Waits until a gateway has this entry of another.
pub(super) fn heard(replica: &Intruder, entry: Digest) {
    until("it has heard of it all", || replica.entries().iter().any(|signed| signed.digest == entry));
}

#[test]
fn where_two_must_agree_replaced_signers_and_a_stolen_voice_give_nothing_in_the_middle_of_a_rotation() {
    let (two, _laptop, vps) = Two::founded(&["--signers", "2-of-3", "--recovery-delay", "1s"]).both_serve();
    let (place, a) = (&two.place, two.place.address());
    let loot = Loot::of(&two, "vps");
    let replaced = clock::now();
    let publish = || place.freehold(&["trust", "publish", "endpoint"]).status.success();
    until("`vps` has told its issuing keys, and a version is published", publish);
    two.settle();
    vps.stop();
    // For one delay those who had the threshold could freeze whoever hears of another set of theirs.
    until("one delay has run", || clock::now().since(replaced) > Seconds(3));

    let intruder = Intruder::at(place.scope("vps").join("gateway"));
    intruder.put(&intruder.says(loot.step()));
    let last = loot.smuggle(&intruder);
    let vps = two.serve_vps();
    let first = Intruder::at(place.org().join("gateway"));
    heard(&first, last);
    loot.check(&two, &a, &first);
    // With a stolen issuing key, under the name that the forged head was about.
    let (asking, issuing) = (Joiner::new(&loot.outdated, "web-1"), Thief::at(place.scope("vps"), two.port()));
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
fn while_a_recovery_waits_replaced_signers_and_a_stolen_voice_give_nothing() {
    let (two, phrases) = founded_with(&["--signers", "2-of-3", "--recovery-delay", "24h"]);
    let (two, _laptop, vps) = two.both_serve();
    let (place, a) = (&two.place, two.place.address());
    let loot = Loot::of(&two, "vps");
    begin(&two, &a, &phrases);
    two.settle();
    vps.stop();
    // No succession of theirs: all would freeze by it, and the recovery is no way out while somebody objects.
    let last = loot.smuggle(&Intruder::at(place.scope("vps").join("gateway")));
    let _vps = two.serve_vps();
    let first = Intruder::at(place.org().join("gateway"));
    heard(&first, last);
    loot.check(&two, &a, &first);
    let waits = || two.at(&a, &["status"])["alarms"].to_string().contains("RECOVERY");
    assert!(waits(), "nobody hears of the recovery any more");
    // Those who sign now stop it, and nothing comes back with that.
    assert_eq!(two.at(&a, &["recover", "--cancel", "--yes"])["state"], "cancelled");
    assert!(!waits());
    loot.check(&two, &a, &first);
    assert_eq!(first.state().signer_set().version, 4);
    assert_eq!(two.at(&a, &["audit", "--verify"])["ok"], true);
}

#[test]
fn two_gateways_of_three_that_were_taken_over_together_give_nothing() {
    let (two, _laptop, vps) = Two::founded(&["--signers", "2-of-3", "--recovery-delay", "1s"]).both_serve();
    let (place, a, third) = (&two.place, two.place.address(), Place::new());
    let isp = two.becomes("isp", &third.address());
    let loot = Loot::of(&two, "vps");
    let replaced = clock::now();
    // One use at each of the two, and one machine that is not listed yet.
    let words = ["--uses", "2", "--name", "n-*", "--at", "vps", "--at", "isp"];
    let code = text(&place.invite(&words), "code");
    let [one, other] = ["vps", "isp"].map(|node| Intruder::at(place.scope(node).join("gateway")));
    let invite = code.parse::<InviteCode>().unwrap().ticket.authority().invite().unwrap();
    until("all know the invite", || [&one, &other].into_iter().all(|it| it.state().invite(invite).is_some()));
    assert_eq!((vps.stop(), isp.stop()), (Some(0), Some(0)));
    until("one delay has run", || clock::now().since(replaced) > Seconds(3));
    // Each lets in more than it may, and each writes what the other one wrote, in its own voice and in the other's name.
    let state = one.state();
    let mut written = Vec::new();
    for (intruder, names) in [(&one, ["n-1", "n-2"]), (&other, ["n-3", "n-4"])] {
        for name in names {
            intruder.put(&intruder.says(admitted(&state, &code, name)));
        }
        intruder.put(&intruder.says(loot.step()));
        written.push(loot.smuggle(intruder));
    }
    let stolen = one.entry(&other.voice(), clock::now(), admitted(&state, &code, "n-5"));
    one.put(&stolen);
    let (_vps, _isp) = (two.serve_vps(), two.serve_at("isp", &third.address()));
    let first = Intruder::at(place.org().join("gateway"));
    written.into_iter().chain([stolen.digest]).for_each(|last| heard(&first, last));
    loot.check(&two, &a, &first);
    // What the invite gives to each it may give, to nobody twice.
    let mut live = Vec::new();
    for name in ["n-1", "n-2", "n-3", "n-4", "n-5"] {
        live.extend(two.state_at(&a, name).filter(|stands| stands != "waiting").map(|_| name));
    }
    assert!(live.len() <= 2 && live.iter().all(|name| ["n-1", "n-3"].contains(name)), "{live:?}");
    for gateway in ["vps", "isp"] {
        until("it is removed", || {
            place.freehold(&["gateway", "remove", gateway, "--yes", "--gateway", &a]).status.success()
        });
    }
    loot.check(&two, &a, &first);
    assert_eq!(two.at(&a, &["audit", "--verify"])["ok"], true);
    place.joined("web-2");
}

#[test]
fn whose_unlisted_name_a_lying_gateway_contests_is_a_member_again_without_it_and_stays_one() {
    contests_an_unlisted_name(Two::founded(&[]), &[]);
}

#[test]
fn whose_unlisted_name_is_contested_is_a_member_again_where_two_must_agree() {
    contests_an_unlisted_name(Two::founded(&["--signers", "2-of-3"]), &["ann-2"]);
}

/// What `ann` signs these sign, too.
fn contests_an_unlisted_name(two: Two, co_signers: &[&str]) {
    let (two, _laptop, vps) = two.both_serve();
    let (place, a) = (&two.place, two.place.address());
    let code = place.code(&["--uses", "4", "--at", "vps", "--name", "db-*"]);
    place.joined("db-1");
    two.settle();
    vps.stop();
    let intruder = Intruder::at(place.scope("vps").join("gateway"));
    let own = intruder.state().named(&"db-1".parse().unwrap()).next().unwrap().claim().node_key.digest();
    let state = intruder.state();
    let joiner = Joiner::new(&code, "db-1");
    let invite = state.invite(joiner.code.ticket.authority().invite().unwrap()).unwrap().1.envelope.clone();
    let contests = Action::NodeAdmit { claim: joiner.signed_claim(), invite: Some(invite), approval: None };
    let contests = intruder.says(contests);
    intruder.put(&contests);
    let _vps = two.serve_vps();
    let first = Intruder::at(place.org().join("gateway"));
    heard(&first, contests.digest);
    // By design: until the next head a mandated gateway can contest a name that no map lists.
    assert_eq!(place.state_of("db-1").as_deref(), Some("waiting"));
    succeeded(&place.freehold(&["gateway", "remove", "vps", "--yes", "--gateway", &a]));
    assert_eq!(place.state_of("db-1").as_deref(), Some("member"), "the contest outlives the gateway");
    let (thief, key) = (Thief::of(place), joiner.node_key.public().digest());
    let mut revokes = thief.head(|head| {
        (head.version, head.previous, head.issued_at) =
            (head.version + 1, vec![thief.known().head.digest], clock::now());
        head.cause = Cause::NodeRevoke { node_key: key, name: "db-1".parse().unwrap() };
        head.revocations.node_keys.insert(key);
    });
    for name in co_signers {
        revokes.sign(&thief.signer_of(name)).unwrap();
    }
    assert_eq!(thief.hand_in(vec![revokes]).0, "ok");
    for _ in 0..2 {
        let shown = place.facts(&["node", "show", "db-1"]);
        assert_eq!(text(&shown, "node_key").parse::<PublicKey>().unwrap().digest(), own);
        let state = first.state();
        assert!(state.is_gone(key) && !state.is_gone(own));
        assert_eq!(place.state_of("db-1").as_deref(), Some("member"));
        succeeded(&place.node("db-1", &["sync"], ""));
        succeeded(&place.freehold(&["refresh", "--gateway", &a]));
    }
    assert_eq!(two.at(&a, &["audit", "--verify"])["ok"], true);
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
