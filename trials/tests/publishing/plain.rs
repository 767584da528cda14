//! One operator: plan, publish, refresh, roll back.

use serde_json::{Value, json};
use trials::attack::thief::Thief;
use trials::place::{ended, refused, stdout, succeeded};

use super::{QUAY, Scene, lines, wiki_on};

#[test]
fn a_plan_says_what_would_change_and_publishing_makes_it_so() {
    let scene = Scene::new();
    scene.declare(QUAY);
    let plan = scene.place.facts(&["plan"]);
    assert_eq!(plan["enter"], json!(["quay"]));
    assert!(lines(&plan["summary"]).contains("gains wiki"), "{plan}");
    let words = scene.place.freehold(&["plan"]);
    succeeded(&words);
    assert!(stdout(&words).contains("no fleet was published yet"), "{}", stdout(&words));
    assert!(stdout(&words).contains("is not under git"), "{}", stdout(&words));
    assert_eq!(scene.head().version, 1, "a plan changes nothing");

    let published = scene.publish();
    let head = scene.head();
    assert_eq!((published["head"].as_u64(), head.version), (Some(2), 2));
    assert_eq!(published["root"].as_str().unwrap(), head.members.unwrap().to_string());
    assert_eq!(plan["root"], published["root"], "what was planned is what is signed");
    assert!(head.placements.is_empty() && head.fleet.is_some());
    assert_eq!(lines(&scene.place.facts(&["plan"])["summary"]), "nothing changes");
    // A node that joins has no leaf until the next head.
    let _gateway = scene.place.serve();
    scene.place.joined("web-1");
    let plan = scene.place.facts(&["plan"]);
    assert_eq!((&plan["enter"], &plan["unmatched"]), (&json!(["web-1"]), &json!(["web-1"])));
    scene.publish();
    assert_eq!(scene.head().recent.len(), 1, "nobody lost a leaf");
    succeeded(&scene.place.freehold(&["node", "revoke", "web-1", "--yes"]));
    let plan = scene.place.facts(&["plan"]);
    assert_eq!(plan["gone"], json!([]), "the head that revoked it lists it no more");
    scene.publish();
    assert_eq!(scene.head().recent.len(), 3, "whose key is revoked shows itself by none of them");
    succeeded(&scene.place.freehold(&["audit", "--verify"]));
}

#[test]
fn whoever_the_fleet_does_not_place_loses_the_place_and_the_plan_says_so() {
    let scene = Scene::founded(&["--node", "quay", "--user", "ben"]);
    scene.declare(QUAY);
    let plan = scene.place.facts(&["plan"]);
    assert_eq!(plan["displaced"], json!(["spiffe://harbor/user/ben on quay"]));
    let words = stdout(&scene.place.freehold(&["plan"]));
    assert!(words.contains("spiffe://harbor/user/ben LOSES its place on `quay`"), "{words}");
}

#[test]
fn lifetimes_of_the_fleet_are_those_of_the_head_and_a_refresh_keeps_them() {
    let scene = Scene::new();
    scene.declare_org("  freshness: 10d\n  lifetimes:\n    svid: 12h", QUAY);
    scene.publish();
    let days = |head: &identity::head::Head| head.fresh_until.since(head.issued_at).0 / 86_400;
    assert_eq!(days(&scene.head()), 10);
    assert!(scene.head().mandates.iter().all(|mandate| mandate.svid_ttl.0 == 12 * 3_600));
    succeeded(&scene.place.freehold(&["refresh"]));
    assert_eq!((scene.head().version, days(&scene.head())), (3, 10));
    assert!(scene.head().members.is_some(), "a refresh changes nothing else");
}

#[test]
fn a_dirty_tree_needs_a_word_and_the_head_names_commit_and_tree() {
    let scene = Scene::new();
    scene.declare(QUAY);
    scene.git(&["init", "-q"]);
    refused(&scene.place.freehold(&["publish", "--yes", "--no-wait"]), "changes that are not committed: fleet.yaml");
    scene.git(&["add", "."]);
    scene.git(&["commit", "-q", "-m", "first"]);
    let clean = scene.publish();
    assert_eq!(clean["commit"].as_str().unwrap(), scene.git(&["rev-parse", "HEAD"]));
    assert_eq!(clean["tree"].as_str().unwrap(), scene.git(&["rev-parse", "HEAD^{tree}"]));
    assert_eq!(scene.head().fleet.unwrap().commit.unwrap().to_string(), scene.git(&["rev-parse", "HEAD"]));

    scene.declare(&wiki_on("web-1"));
    let dirty = scene.place.freehold(&["publish", "--yes", "--no-wait"]);
    refused(&dirty, "changes that are not committed: fleet.yaml");
    assert_eq!(scene.head().version, 2);
    let told = scene.place.facts(&["publish", "--yes", "--no-wait", "--dirty"]);
    assert_eq!((&told["dirty"], told["head"].as_u64()), (&json!(true), Some(3)));
}

#[test]
fn going_back_is_a_new_head_that_says_what_an_earlier_one_said() {
    let scene = Scene::new();
    ended(&scene.place.freehold(&["rollback", "--yes"]), 1, "no earlier head published another fleet");
    scene.declare(QUAY);
    let first = scene.publish();
    scene.declare(&QUAY.replace("8080", "9090"));
    let second = scene.publish();
    assert_ne!(first["root"], second["root"]);
    // What else happened meanwhile is not undone.
    succeeded(&scene.place.freehold(&["refresh"]));

    let back = scene.place.facts(&["rollback", "--yes", "--no-wait"]);
    assert_eq!((&back["root"], back["head"].as_u64(), back["reverts"].as_u64()), (&first["root"], Some(5), Some(2)));
    assert_eq!(scene.head().reverts, Some(2));
    let forth = scene.place.facts(&["rollback", "--yes", "--no-wait", "--to", "3"]);
    assert_eq!((&forth["root"], forth["head"].as_u64()), (&second["root"], Some(6)));
    ended(&scene.place.freehold(&["rollback", "--yes", "--to", "1"]), 1, "before a fleet was published");
    ended(&scene.place.freehold(&["rollback", "--yes", "--to", "77"]), 1, "there is no head `77`");
    assert_eq!(scene.place.facts(&["audit", "--verify"])["ok"], true);
}

#[test]
fn a_rollback_takes_the_members_of_now_and_revives_nobody() {
    let (scene, _gateway) = Scene::with_wiki(&["web-1"]);
    let key = |place: &trials::place::Place| place.facts(&["node", "show", "web-1"])["node_key"].clone();
    let old_key = key(&scene.place);
    // The machine is replaced, and another joins.
    let replaced = scene.place.facts(&["node", "replace", "web-1", "--yes"]);
    std::fs::remove_dir_all(scene.place.root("web-1")).unwrap();
    let code = replaced["code"].as_str().unwrap();
    succeeded(&scene.place.node("web-1", &["join", "--name", "web-1"], code));
    scene.place.joined("web-2");
    assert_ne!(key(&scene.place), old_key);
    scene.declare(QUAY);
    scene.publish();

    let back = scene.place.facts(&["rollback", "--yes", "--no-wait"]);
    let plan: Value = scene.place.facts(&["plan"]);
    assert!(back["reverts"].is_number());
    // The map names the new key: going forth again replaces nobody.
    assert_eq!((&plan["replaced"], &plan["gone"]), (&json!([]), &json!([])), "{plan}");
    assert_eq!(plan["enter"], json!([]), "web-2 has a leaf, too");
}

#[test]
fn what_does_not_follow_is_refused_by_the_gateway_and_nothing_forces_it() {
    let scene = Scene::new();
    let _gateway = scene.place.serve();
    scene.declare(QUAY);
    scene.publish();
    scene.publish();
    let thief = Thief::of(&scene.place);
    let hand_in = |version: u64, freshness: i64| {
        let head = thief.head(|head| {
            head.version = version;
            head.fresh_until = identity::time::Timestamp::from_unix(head.fresh_until.unix() + freshness);
        });
        thief.hand_in(vec![head])
    };
    for (version, freshness, why) in [(2, 0, "is older than head 3"), (3, 60, "two different heads with version 3")] {
        let (code, told) = hand_in(version, freshness);
        assert_eq!(code, "ledger_refuses", "{told}");
        assert!(told.contains(why), "{told}");
    }
    // A map that was never handed in is no map.
    let head = thief.head(|head| {
        head.version = 4;
        head.members = Some(identity::id::Digest([7; 32]));
    });
    let (code, told) = thief.hand_in(vec![head]);
    assert_ne!(code, "ok");
    assert!(told.contains("not handed in"), "{code} {told}");
    assert_eq!(thief.survey().head.digest(), thief.known().head_envelope.digest());
    succeeded(&scene.place.freehold(&["audit", "--verify"]));
}

#[test]
fn another_orgs_fleet_and_one_with_complaints_are_not_published() {
    let scene = Scene::new();
    scene.declare("nodes:\n  quay:\n    adress: x");
    ended(&scene.place.freehold(&["publish", "--yes"]), 1, "did you mean `address`");
    let other = Scene::new();
    other.declare(QUAY);
    std::fs::copy(other.place.path("fleet/fleet.yaml"), scene.place.path("fleet/fleet.yaml")).unwrap();
    let told = scene.place.freehold(&["publish", "--yes", "--no-wait"]);
    assert!(!told.status.success());
    assert_eq!(scene.head().version, 1);
}
