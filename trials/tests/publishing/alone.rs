//! Planned with no gateway: what the home's own copy of the ledger says, and nothing guessed of what machines said.

use serde_json::{Value, json};
use trials::place::{ended, stderr, stdout, succeeded};

use super::{Scene, lines, wiki_on};

#[test]
fn a_home_plans_without_a_gateway_says_as_of_when_and_guesses_nothing() {
    let (scene, gateway) = Scene::with_wiki(&["web-1", "web-2"]);
    let place = &scene.place;
    let operator = place.home().join("harbor/operator");
    std::fs::create_dir_all(place.path("laptop/harbor")).unwrap();
    place.copy(&operator, &place.path("laptop/harbor/operator"));
    std::fs::remove_dir_all(place.path("laptop/harbor/operator/replica")).unwrap();
    // What is new since then this home only heard of: another one made it.
    scene.declare(&wiki_on("web-2"));
    scene.publish();
    succeeded(&place.freehold(&["trust", "publish", "endpoint"]));
    succeeded(&place.operator("laptop", &["node", "list"]));
    drop(gateway);

    let facts = |words: &[&str]| -> Value {
        let told = place.operator("laptop", &[words, &["--json"]].concat());
        assert!(stderr(&told).contains("no gateway answers: this is what this home knew at "), "{}", stderr(&told));
        serde_json::from_slice(&told.stdout).unwrap_or_else(|why| panic!("{words:?}: {why}: {}", stderr(&told)))
    };
    let plan = facts(&["plan"]);
    assert!(lines(&plan["summary"]).starts_with("nothing changes"), "{plan}");
    assert_eq!(plan["schema"], Value::Null);
    scene.declare(&wiki_on("web-1"));
    let moved = lines(&facts(&["plan"])["summary"]);
    assert!(moved.contains("web-1") && moved.contains("web-2"), "{moved}");
    let words = place.operator("laptop", &["plan"]);
    succeeded(&words);
    assert!(stdout(&words).contains("which schema each machine reads only a gateway knows"), "{}", stdout(&words));

    let versions = facts(&["trust", "list"]);
    let told: Vec<_> = versions.as_array().unwrap().iter().map(|it| (&it["missing"], &it["adoption"])).collect();
    assert_eq!(told, [(&json!(false), &Value::Null); 3]);
    assert_eq!(facts(&["trust", "plan", "publish", "identity"])["not_known"], json!(["gateway quay"]));
    let turn = facts(&["trust", "plan", "activate", "endpoint"]);
    assert_eq!(turn["breaks"], json!([]));
    assert_eq!(turn["not_known"], json!(["node quay", "node web-1", "node web-2"]));
    let words = place.operator("laptop", &["trust", "plan", "activate", "endpoint"]);
    ended(&words, 3, "who would get through this step is not known");
    assert!(stdout(&words).contains("whether these would break is not known:\n  node quay"), "{}", stdout(&words));
}
