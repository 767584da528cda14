//! Refusals: each has words of its own, spends nothing and leaves nothing behind.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use identity::id::InviteId;
use org::invite::code::{InviteCode, InviteSecret, Ticket};
use serde_json::Value;
use trials::place::{Place, ended, refused, stderr, succeeded, text, until};
use trials::port::Nobody;

/// A gateway, an invite that nobody has used, and everything that was said so far.
struct Refusals {
    place: Place,
    invite: Value,
    told: BTreeSet<String>,
}

impl Refusals {
    fn of(place: Place, words: &[&str]) -> Self {
        let invite = place.invite(words);
        Self { place, invite, told: BTreeSet::new() }
    }

    fn code(&self) -> InviteCode {
        text(&self.invite, "code").parse().unwrap()
    }

    /// A fresh machine knocks with `code` and is turned away: in words not heard before, and with nothing changed.
    fn check(&mut self, code: &str, words: &[&str], exit: i32, why: &str) {
        let place = &self.place;
        let spent = place.spent(&text(&self.invite, "id"));
        let nodes = place.facts(&["node", "list"]).as_array().map(Vec::len);
        let output = place.node("stranger", &[&["join"], words].concat(), code);
        ended(&output, exit, why);
        let told = stderr(&output);
        let causes: String = told.lines().filter(|line| line.contains("caused by")).collect();
        assert!(self.told.insert(causes), "said before: {told}");
        assert!(!place.scope("stranger").exists(), "half a scope was left behind: {why}");
        assert_eq!(place.spent(&text(&self.invite, "id")), spent, "a use was spent: {why}");
        assert_eq!(place.facts(&["node", "list"]).as_array().map(Vec::len), nodes, "{why}");
    }

    fn check_changed(&mut self, change: impl FnOnce(&mut InviteCode), exit: i32, why: &str) {
        let mut code = self.code();
        change(&mut code);
        self.check(&code.encode(), &["--name", "web-1"], exit, why);
    }
}

#[test]
fn a_code_that_is_not_right_is_refused_in_its_own_words() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let mut refusals = Refusals::of(place, &["--uses", "5"]);
    let whole = refusals.code().encode();
    let half: String = whole.chars().take(whole.len() / 2).collect();
    refusals.check("hello", &["--name", "web-1"], 2, "this is not an invite code");
    refusals.check(&half, &["--name", "web-1"], 2, "incomplete or was changed: copy it whole");
    let other = |invite, secret| Ticket::Token { invite, secret: InviteSecret::new(secret) };
    let id = refusals.code().ticket.invite().unwrap();
    refusals.check_changed(|code| code.ticket = other(InviteId([7; 16]), [7; 16]), 3, "this org has no invite `0707");
    refusals.check_changed(|code| code.ticket = other(id, [7; 16]), 3, "the proof does not hold");
    refusals.check_changed(|code| code.head_floor += 100, 3, "is older than head 101");
    refusals.check_changed(|code| code.signers_floor.id.0[0] ^= 1, 3, "two histories");
    refusals.check_changed(|code| code.signers_floor.version += 1, 3, "but version 2 is known to exist");
    refusals.check_changed(|code| code.endpoint_root.0[0] ^= 1, 3, "does not lead to a root that is trusted here");
    refusals.check_changed(|code| code.org.0[0] ^= 1, 3, "the founding record of another org");
    // After all that, the code itself is as good as new.
    succeeded(&refusals.place.join("web-1", &whole));
}

#[test]
fn a_code_of_another_org_is_refused_at_this_gateway() {
    let (place, other) = (Place::founded(&[]), Place::founded(&[]));
    let _gateway = place.serve();
    let foreign: InviteCode = other.code(&[]).parse().unwrap();
    let mut refusals = Refusals::of(place, &[]);
    let here = refusals.code();
    let mut led_here = foreign.clone();
    led_here.gateways.clone_from(&here.gateways);
    refusals.check(&led_here.encode(), &["--name", "web-1"], 3, "does not lead to a root that is trusted here");
    led_here.endpoint_root = here.endpoint_root;
    refusals.check(&led_here.encode(), &["--name", "web-1"], 3, "the founding record of another org");
    led_here.org = here.org;
    refusals.check(&led_here.encode(), &["--name", "web-1"], 3, "two histories");
    led_here.signers_floor = here.signers_floor;
    refusals.check(&led_here.encode(), &["--name", "web-1"], 3, "this org has no invite");
}

#[test]
fn an_invite_holds_a_machine_to_its_bounds() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let bounds = ["--uses", "2", "--name", "web-*", "--give-label", "rack=3", "--give-role", "cache"];
    let mut refusals = Refusals::of(place, &bounds);
    let code = refusals.code().encode();
    refusals.check(&code, &["--name", "Web_1"], 2, "invalid value 'Web_1'");
    refusals.check(&code, &["--name", "db-1"], 3, "does not allow the name `db-1`; it allows: web-*");
    refusals.check(&code, &["--name", "web-1", "--label", "rack=4"], 3, "does not give the label `rack=4`");
    refusals.check(&code, &["--name", "web-1", "--role", "provider"], 3, "does not give the role `provider`");
    succeeded(&refusals.place.join("web-1", &code));
    refusals.check(&code, &["--name", "web-1"], 3, "the name `web-1` belongs to another machine");
    succeeded(&refusals.place.join("web-2", &code));
    refusals.check(&code, &["--name", "web-3"], 3, "used up: all of its 2 uses are spent");
}

#[test]
fn an_invite_that_is_over_is_refused() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let far = place.code(&["--network", "10.0.0.0/8", "--network", "2001:db8::/32"]);
    let mut refusals = Refusals::of(place, &["--ttl", "1s"]);
    refusals.check(&far, &["--name", "web-1"], 3, "cannot be used from this network");
    let id = text(&refusals.invite, "id");
    until("the invite has expired", || refusals.place.facts(&["invite", "show", &id])["state"] == "expired");
    let expired = refusals.code().encode();
    refusals.check(&expired, &["--name", "web-1"], 3, "the invite expired at ");
    refusals.invite = refusals.place.invite(&[]);
    let id = text(&refusals.invite, "id");
    succeeded(&refusals.place.freehold(&["invite", "revoke", &id, "--yes"]));
    refused(&refusals.place.freehold(&["invite", "revoke", &id, "--yes"]), "already revoked");
    let revoked = refusals.code().encode();
    refusals.check(&revoked, &["--name", "web-1"], 3, "the invite was revoked");
}

#[test]
fn machines_that_joined_stay_when_their_invite_is_revoked() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let invite = place.invite(&["--uses", "2"]);
    let code = text(&invite, "code");
    succeeded(&place.join("web-1", &code));
    succeeded(&place.freehold(&["invite", "revoke", &text(&invite, "id"), "--yes"]));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    succeeded(&place.join("web-1", &code));
    refused(&place.join("web-2", &code), "the invite was revoked");
}

#[test]
fn a_revoked_key_never_returns_not_even_with_a_fresh_invite() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    check_key_is_dead(&place, "this machine's key was revoked and can never return");
    // The machine may come back as a new one, and its name is free.
    succeeded(&place.node("web-1", &["leave", "--local", "--yes"], ""));
    place.joined("web-1");
    assert_eq!(place.facts(&["node", "show", "web-1"])["state"], "member");
}

#[test]
fn a_fresh_invite_brings_a_revoked_machine_back_with_a_new_key_and_the_old_code_does_not() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let old = place.code(&["--uses", "2"]);
    succeeded(&place.join("web-1", &old));
    let key = || std::fs::read(place.scope("web-1").join("node.key")).unwrap();
    let before = key();
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    refused(&place.join("web-1", &old), "revoked");
    assert_eq!(key(), before, "nothing is wiped for it");
    succeeded(&place.join("web-1", &place.code(&[])));
    assert_ne!(key(), before);
    assert_eq!(place.facts(&["node", "show", "web-1"])["state"], "member");
}

#[test]
fn a_key_that_left_never_returns() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let scope = place.scope("web-1");
    let kept = ["node.key", "seal.key"].map(|name| (name, std::fs::read(scope.join(name)).unwrap()));
    succeeded(&place.node("web-1", &["leave", "--yes"], ""));
    assert!(!scope.exists());
    assert_eq!(place.facts(&["node", "show", "web-1"])["left"], true);
    let file = |name: &str| scope.join(name);
    ground::file::make_private_folder(&scope).unwrap();
    for (name, bytes) in kept {
        ground::file::write(&file(name), &bytes, ground::file::FileAccess::Private).unwrap();
    }
    check_key_is_dead(&place, "this machine's key left the org and can never return");
}

/// The node key of `web-1` knocks with a fresh invite, as a machine that never heard that it is over.
fn check_key_is_dead(place: &Place, why: &str) {
    let _ = std::fs::remove_file(place.scope("web-1").join("node.json"));
    let invite = place.invite(&[]);
    let output = place.join("web-1", &text(&invite, "code"));
    refused(&output, why);
    assert!(stderr(&output).contains("hint: join as a new machine"), "{}", stderr(&output));
    assert_eq!(place.spent(&text(&invite, "id")), 0);
    assert!(place.scope("web-1").join("node.key").exists(), "keys that were there before stay");
}

#[test]
fn a_copied_node_key_is_noticed_and_neither_copy_is_served() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = place.code(&[]);
    succeeded(&place.join("web-1", &code));
    let copy = std::process::Command::new("cp").arg("-a").arg(place.root("web-1")).arg(place.root("clone")).status();
    assert!(copy.unwrap().success());
    let ask_again = |root: &str| {
        let _ = std::fs::remove_file(place.scope(root).join("node.json"));
        place.node(root, &["join", "--name", "web-1"], &code)
    };
    succeeded(&ask_again("web-1"));
    refused(&ask_again("clone"), "two machines use one node key, or a disk was restored");
    refused(&ask_again("web-1"), "two machines use one node key, or a disk was restored");
    assert!(place.facts(&["node", "show", "web-1"])["alarm"].is_string());
    assert!(trials::place::stdout(&place.freehold(&["node", "list"])).contains("ALARM"));
}

#[test]
fn a_gateway_that_is_down_is_told_in_good_time_and_nothing_is_lost() {
    let place = Place::founded(&[]);
    let invite = place.invite(&[]);
    let code = text(&invite, "code");
    let began = Instant::now();
    let output = place.join("web-1", &code);
    assert!(began.elapsed() < Duration::from_secs(30), "it took {:?}", began.elapsed());
    ended(&output, 1, &format!("cannot reach the gateway at {}", place.address()));
    assert!(stderr(&output).contains("hint: is the gateway running"), "{}", stderr(&output));
    assert!(!place.scope("web-1").exists());
    assert_eq!(place.spent(&text(&invite, "id")), 0);
    let _gateway = place.serve();
    succeeded(&place.join("web-1", &code));
}

#[test]
fn a_clear_no_outranks_an_address_that_nobody_answers_at() {
    let nobody = Nobody::new();
    // By default the first one is the host name, which no other machine need know.
    for dead in ["nowhere.invalid:7443", &nobody.to_string()] {
        let place = Place::new();
        let live = place.address();
        succeeded(&place.freehold(&["found", "harbor", "--unprotected", "--advertise", dead, "--advertise", &live]));
        let _gateway = place.serve();
        let code = place.code(&[]);
        succeeded(&place.join("web-1", &code));
        let output = place.node("web-2", &["join", "--name", "web-2", "--json"], &code);
        ended(&output, 3, "the invite is used up: all of its 1 uses are spent");
        assert!(!place.scope("web-2").exists(), "half a scope was left behind");
        // Nothing hinders another name.
        succeeded(&place.node("web-2", &["join", "--name", "web-3"], &place.code(&[])));
    }
}

#[test]
fn a_refusal_in_json_carries_its_code() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = place.code(&["--name", "web-*"]);
    let output = place.node("db-1", &["join", "--name", "db-1", "--json"], &code);
    assert_eq!(output.status.code(), Some(3));
    let told: Value = serde_json::from_str(stderr(&output).trim()).unwrap();
    assert_eq!(
        (text(&told, "error"), text(&told, "code")),
        ("could not join harbor".into(), "name_not_allowed".into())
    );
    assert!(told["hint"].is_string(), "{told}");
}
