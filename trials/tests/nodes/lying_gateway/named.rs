//! Every lie about what is signed has a name: in the node's status, and in its next signed report.

use std::sync::{Arc, Mutex};

use ground::random;
use identity::envelope::Envelope;
use identity::id::OrgId;
use identity::members::Listing;
use identity::principal::NodeName;
use identity::text::Bytes;
use org::refusal::Refusal;
use org::report::Report;
use trials::attack::liar::{Liar, Loot, Told};
use trials::place::{stderr, stdout, until};
use wire::sync::{SyncAnswer, SyncRequest};

use super::{Scene, confirmed, honest, stripped};

struct Stage {
    scene: Scene,
    liar: Liar,
    reports: Arc<Mutex<Vec<Report>>>,
}

impl Stage {
    /// The lie is refused under this name; then the truth is told, and the node reports what it was told before.
    fn check(&self, why: &str, lie: impl Fn(&Loot, &NodeName) -> SyncAnswer + Send + 'static) {
        self.check_told(why, move |loot, name| lie(loot, name).into());
    }

    fn check_told(&self, why: &str, lie: impl Fn(&Loot, &NodeName) -> Told + Send + 'static) {
        let before = self.scene.place.status("web-1");
        self.liar.now(move |loot: &Loot, name: &NodeName, _: &SyncRequest| lie(loot, name));
        self.scene.until_problem("web-1", why);
        let after = self.scene.place.status("web-1");
        assert_eq!((&before["head"], confirmed(&before)), (&after["head"], confirmed(&after)), "{why}");
        assert!(after["applied"]["trial"].is_null(), "{after}");
        self.tell_the_truth();
    }

    fn tell_the_truth(&self) {
        self.liar.now(honest(Arc::clone(&self.reports)));
        self.scene.until_well("web-1");
    }

    /// What was refused was reported, signed, as soon as somebody listened.
    fn check_reported(&self, why: &str, lie: impl Fn(&Loot, &NodeName) -> SyncAnswer + Send + 'static) {
        self.reports.lock().unwrap().clear();
        self.check(why, lie);
        let told = |report: &Report| report.refused.as_ref().is_some_and(|refused| refused.why.contains(why));
        until(&format!("`{why}` is reported"), || self.reports.lock().unwrap().iter().any(told));
    }
}

#[test]
fn a_gateway_that_was_taken_over_is_named_a_liar_lie_by_lie() {
    let (scene, gateway) = Scene::new(&["web-1", "web-2"]);
    let web = scene.place.agent("web-1");
    let first = scene.publish("sync: {wait: 20s}", "");
    let head = scene.publish("sync: {wait: 30s}", "files: {motd: {content: hello}}");
    scene.until_settled("web-1", head);
    let reports = Arc::default();
    let liar = scene.take_over(gateway, honest(Arc::clone(&reports)));
    let stage = Stage { scene, liar, reports };
    stage.scene.until_well("web-1");
    about_heads(&stage, first, head);
    about_places(&stage);
    no_answers(&stage);

    // Already at the door.
    stage.liar.show(stage.liar.loot().heads[&first].clone());
    stage.liar.now(|_: &Loot, _: &NodeName, _: &SyncRequest| Told::HangUp);
    let why = format!("says of the org does not hold: head {first} is older than head {head}");
    stage.scene.until_problem("web-1", &why);

    // The real gateway is back: the operators learn that there was a liar.
    let Stage { scene, liar, .. } = stage;
    drop(liar);
    let _gateway = scene.place.serve();
    scene.until_well("web-1");
    let told = |report: Report| report.refused.is_some_and(|refused| refused.why.contains(&why));
    until("the gateway was told", || scene.report("web-1").is_some_and(told));
    let status = scene.place.status("web-1");
    assert_eq!((status["head"].as_u64(), &status["running"]), (Some(head), &true.into()), "{status}");
    assert_eq!(web.stop(), Some(0));
}

fn about_heads(stage: &Stage, first: u64, head: u64) {
    let signer = || stage.liar.loot().thief.signer();
    let known = stage.liar.loot().thief.known();

    let with_head =
        |head: Envelope| move |loot: &Loot, _: &NodeName| SyncAnswer { head: Some(head.clone()), ..loot.nothing() };
    let loot = stage.liar.loot();
    stage.check_reported(
        &format!("head {first} is older than head {head}, which is known to exist"),
        with_head(loot.heads[&first].clone()),
    );
    stage.check_reported(&format!("there are two different heads with version {head}"), with_head(loot.thief.rival()));
    let next = loot.thief.head(|next| next.version += 1);
    stage.check_reported("carries 0 of the 1 signatures that it needs", with_head(stripped(&next)));
    let forged = stripped(&next).signed(&random::ed25519().unwrap()).unwrap();
    stage.check_reported("carries 0 of the 1 signatures that it needs, and 1 that do not count", with_head(forged));
    let elsewhere = Envelope::seal(Some(OrgId([9; 32])), &known.head.head).unwrap().signed(&signer()).unwrap();
    stage.check_reported("belongs to another org", with_head(elsewhere));
    let forgets = loot.thief.head(|next| {
        next.version += 1;
        next.trust.clear();
    });
    stage.check_reported("undoes what an earlier head said of the trusted roots", with_head(forgets));
}

fn about_places(stage: &Stage) {
    let with_listing = |make: fn(&Loot, u64, &NodeName) -> (Listing, Option<Bytes>)| {
        move |loot: &Loot, name: &NodeName| {
            let (listing, manifest) = make(loot, loot.newest(), name);
            SyncAnswer { listing: Some(listing), manifest, ..loot.nothing() }
        }
    };
    stage.check_reported(
        "the leaf is that of `web-2`, not of this node",
        with_listing(|loot, head, _| {
            let listing = loot.listing(head, &"web-2".parse().unwrap());
            (listing.clone(), loot.manifest_of(&listing))
        }),
    );
    stage.check_reported(
        "the manifest is not the one that the head names",
        with_listing(|loot, head, name| {
            let other = loot.listing(head, &"quay".parse().unwrap());
            (loot.listing(head, name), loot.manifest_of(&other))
        }),
    );
    stage.check_reported(
        "the way from this node's leaf to the head's map does not hold",
        with_listing(|loot, head, name| {
            let listing = loot.listing(head - 1, name);
            (listing.clone(), loot.manifest_of(&listing))
        }),
    );
    stage.check_reported(
        "it is not shown that this node's name has no leaf of its own",
        with_listing(|loot, head, name| {
            let listing = loot.as_class(head, name);
            (listing.clone(), loot.manifest_of(&listing))
        }),
    );
    stage.check_reported(
        "it is not shown that this node's name has no leaf of its own",
        with_listing(|loot, head, name| (Listing::Unlisted { absence: loot.absence_of_another(head, name) }, None)),
    );
    stage.check_reported(
        "the way from this node's leaf to the head's map does not hold",
        with_listing(|loot, head, name| {
            // As if for a head that is yet to come: its leaf names a manifest that nobody published.
            let Listing::Own { mut leaf, path, .. } = loot.listing(head, name) else { panic!("no leaf") };
            let manifest = manifest::stored::Manifest::empty(2).bytes();
            leaf.manifest = identity::members::Meant::Own(identity::id::Digest::of(&manifest));
            (Listing::Own { leaf, path, class: None }, Some(Bytes(manifest)))
        }),
    );
}

/// Whatever is no answer.
fn no_answers(stage: &Stage) {
    stage.check_told("it is too large or was cut off", |_, _| Told::Raw(vec![b' '; 9 << 20]));
    stage.check_told("answered what cannot be read", |_, _| Told::Raw(b"{\"head\":[[[[[[".to_vec()));
    stage.check_told("broke off", |_, _| Told::HangUp);
    // A word is no proof of a revocation.
    stage.check_told("this machine's key was revoked", |_, _| Told::Refuse(Refusal::KeyRevoked));
    // Words that would steer a terminal.
    let evil = "\u{1b}[2J\u{202e}gone".to_owned();
    let lie = move |_: &Loot, _: &NodeName, _: &SyncRequest| {
        Told::Refuse(Refusal::LedgerRefuses { why: evil.clone().into() })
    };
    stage.liar.now(lie);
    stage.scene.until_problem("web-1", "gone");
    let words = stage.scene.place.node("web-1", &["status"], "");
    let told = stdout(&words) + &stderr(&words);
    assert!(told.contains("gone") && !told.contains(['\u{1b}', '\u{202e}']), "{told:?}");
    stage.tell_the_truth();
}
