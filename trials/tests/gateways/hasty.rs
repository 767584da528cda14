//! Two phrases and one gateway's disk are stolen. The gateway dates the beginning of a recovery back; the other one counts
//! from the moment at which it heard of it itself.

use std::os::unix::fs::PermissionsExt as _;

use ground::sealed::{self, SealError};
use ground::{clock, random};
use identity::envelope::{Envelope, Payload as _};
use identity::head::Head;
use identity::key::EdKey;
use identity::signers::{Recovery, SignerSet};
use identity::time::Seconds;
use org::ledger::entry::{Action, SignedEntry};
use org::ledger::replica::carried;
use trials::attack::intruder::Intruder;
use trials::attack::thief::signed_call;
use trials::client::stranger::Dial;
use trials::place::{Place, Running, json, stderr, succeeded, text, until};
use wire::control::Call;
use wire::permit::Ask;

use super::Two;
use super::varied::heard;

/// Both serve; the second one is the thief's, and has written that a recovery began long ago.
struct Heist {
    two: Two,
    laptop: Running,
    vps: Running,
    recovery: Envelope,
    eve: EdKey,
}

impl Heist {
    fn new(delay: &str) -> Self {
        Self::of(founded(delay), &[])
    }

    /// This is said by operators before anything is stolen.
    fn of((two, file): (Two, String), words: &[&str]) -> Self {
        let (two, laptop, vps) = two.both_serve();
        let place = &two.place;
        two.settle();
        if !words.is_empty() {
            succeeded(&place.freehold(words));
            two.settle();
        }
        assert_eq!((laptop.stop(), vps.stop()), (Some(0), Some(0)));

        // The thief has the recovery signed where nobody hears of it, and then puts the disk back: all of it, for what the
        // machine was told itself lies beside the ledger.
        let machine = place.scope("vps");
        let folder = machine.join("gateway");
        place.copy(&machine, &place.path("kept"));
        let vps = two.serve_vps();
        begin(&two, &two.address(), &file);
        vps.kill();
        let recovery = Intruder::at(folder.clone()).entries().iter().find_map(begun).cloned().unwrap();
        std::fs::remove_dir_all(&machine).unwrap();
        place.copy(&place.path("kept"), &machine);
        let (intruder, eve) = (Intruder::at(folder), key_of_eve(place));

        let long_ago = clock::now() - Seconds::HOUR.times(25);
        let action = Action::Take { envelope: recovery.clone() };
        intruder.put(&intruder.entry(&intruder.voice(), long_ago, action));
        intruder.saw(recovery.digest(), long_ago);
        let (laptop, vps) = (two.place.serve(), two.serve_vps());
        let heist = Self { two, laptop, vps, recovery, eve };
        until("the laptop has heard of the recovery", || heist.first().entries().iter().any(|it| begun(it).is_some()));
        heist
    }

    /// The honest one's ledger.
    fn first(&self) -> Intruder {
        Intruder::at(self.two.place.org().join("gateway"))
    }

    fn second(&self) -> Intruder {
        Intruder::at(self.two.place.scope("vps").join("gateway"))
    }

    /// Eve's signers take over at the second gateway, which finds that the delay is long over.
    fn take_over(&self) {
        take_over(&self.second(), self.two.port(), (&self.recovery, &self.eve));
    }

    /// The honest gateway has heard all that the other one says so far.
    fn until_heard(&self) {
        let last = self.second().entries().last().unwrap().digest;
        heard(&self.first(), last);
    }

    /// Has the honest gateway the thief's signers?
    fn is_taken(&self) -> bool {
        self.first().state().signer_set().quorum.key_of(&"eve".parse().unwrap()).is_some()
    }

    fn at_first(&self, words: &[&str]) -> std::process::Output {
        self.two.place.freehold(&[words, &["--gateway", &self.two.place.address()]].concat())
    }
}

/// Eve begins a recovery at one gateway.
pub(super) fn begin(two: &Two, gateway: &str, phrases: &str) {
    let words = ["recover", "--card", "harbor.card", "--signer", "eve", "--unprotected", "--yes", "--json"];
    let mut command = std::process::Command::new(trials::place::binary("freehold"));
    command.args(words).args(["--phrases-file", phrases, "--gateway", gateway, "--home"]);
    command.arg(two.place.path("eve")).current_dir(two.place.path("")).env("USER", "ann");
    succeeded(&trials::place::output(command));
}

pub(super) fn key_of_eve(place: &Place) -> EdKey {
    let key = std::fs::read(place.path("eve/harbor/operator/signers/eve.key")).unwrap();
    let seed: Result<_, SealError> = sealed::open(&key, "freehold signer eve", || Err(SealError::Kdf));
    EdKey::from_seed(seed.unwrap().as_slice().try_into().unwrap())
}

/// Her first head, at a gateway that finds that the delay is long over.
pub(super) fn take_over(ledger: &Intruder, port: u16, (recovery, eve): (&Envelope, &EdKey)) {
    let (state, org) = (ledger.state(), ledger.founding().id);
    let mut head: Head = state.head().unwrap().head.clone();
    (head.version, head.issued_at) = (head.version + 1, clock::now());
    let quorum = recovery.peek::<Recovery>(Some(org)).unwrap().quorum;
    head.signers = SignerSet::later(org, 2, quorum).as_ref();
    let head = Envelope::seal(Some(org), &head).unwrap().signed(eve).unwrap();
    let call = Call::Take { objects: vec![head], correlation: random::correlation().unwrap() };
    let mut line = Dial::to(port).line();
    let reply = line.ask(Ask::Control, &signed_call("eve", &call, line.exporter, eve)).unwrap();
    assert_eq!(reply.code(), "ok", "{:?}", reply.body);
}

/// An org whose recoveries take this long, and a file with two of its phrases.
pub(super) fn founded(delay: &str) -> (Two, String) {
    founded_with(&["--recovery-delay", delay])
}

pub(super) fn founded_with(words: &[&str]) -> (Two, String) {
    let (two, phrases) = Two::with_phrases(words);
    let place = &two.place;
    let stolen = place.path("stolen");
    std::fs::write(&stolen, phrases[..2].join("\n")).unwrap();
    std::fs::set_permissions(&stolen, std::fs::Permissions::from_mode(0o600)).unwrap();
    succeeded(&place.freehold(&["org", "card", "--out", "harbor.card"]));
    let file = stolen.to_string_lossy().into_owned();
    (two, file)
}

pub(super) fn begun(signed: &SignedEntry) -> Option<&Envelope> {
    carried(&signed.entry.action).find(|carried| carried.kind() == Recovery::KIND)
}

#[test]
fn a_recovery_that_another_gateway_dates_back_waits_here_and_the_signers_stop_it() {
    let heist = Heist::new("24h");
    let (place, b) = (&heist.two.place, heist.two.address());
    heist.take_over();
    heist.until_heard();
    assert!(!heist.is_taken(), "the thief's signers are in force at the honest gateway");
    let due = place.facts(&["status"])["alarms"].to_string();
    assert!(due.contains("RECOVERY"), "{due}");
    // What the others write does not wait behind it.
    place.joined("web-1");
    let cancelled = heist.at_first(&["recover", "--cancel", "--yes", "--json"]);
    succeeded(&cancelled);
    assert_eq!(json(&cancelled)["state"], "cancelled");
    // It is over here for good, whatever the second one goes on saying.
    succeeded(&heist.at_first(&["refresh"]));
    let invite = json(&heist.at_first(&["invite", "create", "--json"]));
    succeeded(&place.join("web-2", &text(&invite, "code")));
    succeeded(&heist.at_first(&["gateway", "remove", "vps", "--yes"]));
    assert!(!heist.is_taken());
    assert!(!heist.first().state().is_frozen());
    assert_eq!(json(&heist.at_first(&["audit", "--verify", "--json"]))["ok"], true);
    let eve = heist.two.place.freehold(&["node", "list", "--gateway", &b]);
    assert!(!eve.status.success(), "nobody believes it: {}", stderr(&eve));
    drop((heist.laptop, heist.vps));
}

#[test]
fn a_recovery_dated_back_waits_where_two_must_agree_and_in_the_middle_of_a_rotation() {
    let found = founded_with(&["--signers", "2-of-3", "--recovery-delay", "24h"]);
    let heist = Heist::of(found, &["trust", "publish", "identity"]);
    let place = &heist.two.place;
    heist.take_over();
    heist.until_heard();
    assert!(!heist.is_taken(), "the thief's signers are in force at the honest gateway");
    assert!(place.facts(&["status"])["alarms"].to_string().contains("RECOVERY"));
    // Those who sign go on with the rotation while it waits, and stop it together.
    succeeded(&heist.at_first(&["trust", "rollback", "identity"]));
    assert_eq!(json(&heist.at_first(&["recover", "--cancel", "--yes", "--json"]))["state"], "cancelled");
    succeeded(&heist.at_first(&["trust", "publish", "identity"]));
    succeeded(&heist.at_first(&["gateway", "remove", "vps", "--yes"]));
    let invite = json(&heist.at_first(&["invite", "create", "--json"]));
    succeeded(&place.join("web-1", &text(&invite, "code")));
    let state = heist.first().state();
    assert!(!heist.is_taken() && !state.is_frozen());
    assert_eq!((state.signer_set().version, state.signer_set().quorum.threshold()), (2, 2));
    assert_eq!(json(&heist.at_first(&["audit", "--verify", "--json"]))["ok"], true);
    drop((heist.laptop, heist.vps));
}

#[test]
fn a_recovery_is_taken_from_another_gateway_when_the_own_delay_has_run() {
    let heist = Heist::new("20s");
    let heard = clock::now();
    heist.take_over();
    // Nobody says anything new: the page is asked for again by itself.
    until("the own delay has run, and it is taken", || heist.is_taken());
    let ran = clock::now().since(heard);
    assert!(ran >= Seconds(15) && ran <= Seconds(40), "taken after {ran}");
    drop((heist.laptop, heist.vps));
}

#[test]
fn no_restart_shortens_the_delay_or_begins_it_anew() {
    let heist = Heist::new("20s");
    let heard = clock::now();
    heist.take_over();
    let Heist { two, laptop, vps, recovery, eve } = heist;
    assert_eq!(laptop.stop(), Some(0));
    let since = || {
        let ledger = rusqlite::Connection::open(two.place.org().join("gateway/ledger.db")).unwrap();
        ledger.query_row("SELECT since FROM sights", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let first = since();
    assert!(first <= heard.unix() && heard.unix() - first < 10);
    let laptop = two.place.serve();
    assert_eq!(since(), first);
    let heist = Heist { two, laptop, vps, recovery, eve };
    assert!(!heist.is_taken());
    until("the own delay has run, and it is taken", || heist.is_taken());
    assert!(clock::now().since(heard) >= Seconds(15));
    drop((heist.laptop, heist.vps));
}

#[test]
fn a_new_gateway_waits_for_no_recovery_that_its_machine_follows_already() {
    let (two, file) = founded("15s");
    let place = &two.place;
    let _laptop = place.serve();
    let words = ["recover", "--card", "harbor.card", "--signer", "zoe", "--unprotected", "--yes", "--json"];
    succeeded(&place.operator("zoe", &[&words[..], &["--phrases-file", &file]].concat()));
    assert_eq!(place.operator_facts("zoe", &["recover", "--wait", "--yes"])["state"], "done");
    // The roots were in a safe.
    for name in
        ["identity-root", "endpoint-root"].iter().flat_map(|root| [".key", ".pem"].map(|end| format!("{root}{end}")))
    {
        std::fs::copy(place.org().join("operator").join(&name), place.path("zoe/harbor/operator").join(&name)).unwrap();
    }
    let begun = clock::now();
    let invite = place.operator_facts("zoe", &["invite", "create"]);
    succeeded(&place.join("vps", &text(&invite, "code")));
    two.request();
    succeeded(&place.operator("zoe", &["gateway", "add", "vps.request", "--out", "vps.grant", "--yes"]));
    two.install();
    let _vps = two.serve_vps();
    let state = Intruder::at(place.scope("vps").join("gateway")).state();
    assert_eq!(state.signer_set().version, 2);
    let took = clock::now().since(begun);
    assert!(took < Seconds(15), "it may have waited: {took}");
    // It serves what the recovered signers say.
    let invite = place.operator_facts("zoe", &["invite", "create", "--at", "vps"]);
    succeeded(&place.join("web-1", &text(&invite, "code")));
}
