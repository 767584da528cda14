//! The layout holds what it says, and everything in it fits the schemas that lie beside it.

use identity::members::MembersMap;
use identity::text::Bytes;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::compile::compile;
use crate::fleet::StaleSpec;
use crate::sample::{any_fleet, harbor, members, names, read};
use crate::stored::{Check, Delivered, Forward, Manifest, Probe, ProgramSvid, SCHEMA, Socks, Transport, TunnelPolicy};

/// Every kind of thing that a manifest can hold.
fn full() -> Fleet {
    let mut fleet = harbor();
    let alpha = &mut fleet.nodes.get_mut(&read("alpha")).unwrap().policy;
    alpha.gateways = vec![read("[::1]:7443")];
    alpha.svid_life = Some(read("12h"));
    for (name, probe) in [
        ("a", Probe::Tcp(read("127.0.0.1:1"))),
        ("b", Probe::Http { at: read("127.0.0.1:1"), path: "/".to_owned(), status: 200 }),
        ("c", Probe::Command(vec!["true".to_owned()])),
    ] {
        alpha.checks.insert(read(name), Check { probe, timeout: read("5s") });
    }
    alpha.files.insert(read("motd"), Delivered { content: Bytes(b"hi".to_vec()), executable: false });
    let forward = |user: Option<&str>| Forward { service: read("wiki"), user: user.map(read) };
    alpha.tunnel = TunnelPolicy {
        transport: Transport::Quic,
        listen: Some(read("0.0.0.0:7444")),
        socks: Socks::At { addr: read("127.0.0.1:1081"), password: true },
        forward: [(read("127.0.0.1:1"), forward(None)), (read("[::1]:2"), forward(Some("bob")))].into(),
        resolver: Some(read("127.0.0.1:53")),
    };
    fleet.services.get_mut(&read("wiki")).unwrap().svid = Some(ProgramSvid {
        owner: Some(read("www-data")),
        group: Some(read("33")),
        mode: read("0640"),
        dns: [read("wiki.example.org")].into(),
        reload: vec!["/bin/true".to_owned()],
    });
    fleet.services.get_mut(&read("pulse")).unwrap().svid = Some(ProgramSvid::default());
    fleet.nodes.get_mut(&read("alpha")).unwrap().labels.insert(read("site=north"));
    fleet.nodes.get_mut(&read("hub")).unwrap().policy.tunnel.socks = Socks::Off;
    fleet.services.get_mut(&read("pulse")).unwrap().tells_caller = true;
    fleet.org.stale = Some(StaleSpec { margin: read("1h"), roles: names("staff front probe"), every_node: false });
    fleet
}

fn emitted(fleet: &Fleet) -> BTreeMap<String, Vec<u8>> {
    emit(fleet, &compile(fleet, &members("alpha laptop web-1 web-7 stray"), SCHEMA).unwrap(), SCHEMA)
}

#[test]
fn the_layout_can_be_followed_from_the_root_to_each_manifest() {
    let files = emitted(&full());
    let map: MapFile = serde_json::from_slice(&files["map.json"]).unwrap();
    let leaves: Vec<Leaf> = map.leaves.iter().map(|entry| entry.leaf.clone()).collect();
    assert_eq!(MembersMap::of(&leaves).unwrap().root(), map.root);
    assert!(map.leaves.is_sorted_by(|a, b| a.key < b.key));
    let index: CompiledIndex = serde_json::from_slice(&files[INDEX]).unwrap();
    for digest in leaves.iter().filter_map(Leaf::manifest).chain(index.nodes.values().copied()) {
        Manifest::read(&files[&format!("manifests/{digest}.json")], digest).unwrap();
    }
    assert_eq!(index.unmatched, [read("stray")]);
    assert!(files.contains_key("waiting/hub.json"));
    assert_eq!(files.keys().filter(|name| name.starts_with("manifests/")).count(), 4);
}

#[test]
fn everything_fits_its_schema() {
    check_all(&emitted(&full()));
}

#[test]
fn the_schema_refuses_what_a_node_would_refuse() {
    let schema: Value = serde_json::from_str(MANIFEST_SCHEMA).unwrap();
    let files = emitted(&full());
    let good: Value = serde_json::from_slice(&files["waiting/hub.json"]).unwrap();
    assert_eq!(fits(&schema, &schema, &good), Ok(()));
    for (at, value) in [
        ("/schema", serde_json::json!(99)),
        ("/runs/relay", serde_json::json!("yes")),
        ("/runs/apply/confirm", serde_json::json!("never")),
        ("/access/callers", serde_json::json!({ "wiki": [{ "everyone": {} }] })),
        ("/access/targets", serde_json::json!({ "wiki": { "places": [], "callers": [] } })),
        ("/runs/tunnel/transport", serde_json::json!("udp")),
        ("/runs/tunnel/socks", serde_json::json!({ "at": { "addr": "127.0.0.1:1" } })),
        ("/runs/tunnel", serde_json::json!({ "forward": { "127.0.0.1:1": { "user": "bob" } } })),
        ("/runs/services/pulse/tells_caller", serde_json::json!("yes")),
        ("/access/stale", serde_json::json!({ "callers": [] })),
        ("/runs/svids", serde_json::json!({ "spiffe://harbor/service/pulse": { "mode": "0644" } })),
        ("/runs/svids", serde_json::json!({ "spiffe://harbor/service/pulse": { "mode": "0600", "path": "/etc" } })),
        ("/runs/sync", serde_json::json!({ "wait": 5, "what": "ever" })),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(at).unwrap() = value;
        assert!(fits(&schema, &schema, &bad).is_err(), "{at}");
        assert!(serde_json::from_value::<Manifest>(bad).is_err() || at == "/schema", "{at}");
    }
}

proptest! {
    #[test]
    fn whatever_is_compiled_fits(fleet in any_fleet()) {
        check_all(&emit(&fleet, &compile(&fleet, &members("n0 n02 n1 x7 stray"), SCHEMA).unwrap(), SCHEMA));
    }
}

fn check_all(files: &BTreeMap<String, Vec<u8>>) {
    let manifest: Value = serde_json::from_slice(&files["schemas/manifest.schema.json"]).unwrap();
    let leaf: Value = serde_json::from_slice(&files["schemas/leaf.schema.json"]).unwrap();
    for (name, bytes) in files.iter().filter(|(name, _)| name.starts_with("manifests/") || name.starts_with("waiting/"))
    {
        assert_eq!(fits(&manifest, &manifest, &serde_json::from_slice(bytes).unwrap()), Ok(()), "{name}");
    }
    let map: Value = serde_json::from_slice(&files["map.json"]).unwrap();
    for entry in map["leaves"].as_array().unwrap() {
        assert_eq!(fits(&leaf, &leaf, &entry["leaf"]), Ok(()));
    }
}

/// As much of JSON Schema as the two schemas use, patterns aside; a word that is not known here is an error.
fn fits(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    for (word, rule) in schema.as_object().unwrap() {
        match word.as_str() {
            "$ref" => fits(root, root.pointer(rule.as_str().unwrap().trim_start_matches('#')).unwrap(), value)?,
            "oneOf" => {
                let fitting = rule.as_array().unwrap().iter().filter(|one| fits(root, one, value).is_ok()).count();
                if fitting != 1 {
                    return Err(format!("{fitting} alternatives fit {value}"));
                }
            }
            "type" => {
                let found = match value {
                    Value::Null => "null",
                    Value::Bool(_) => "boolean",
                    Value::Number(_) => "integer",
                    Value::String(_) => "string",
                    Value::Array(_) => "array",
                    Value::Object(_) => "object",
                };
                if rule != found {
                    return Err(format!("{value} is not {rule}"));
                }
            }
            "enum" if !rule.as_array().unwrap().contains(value) => return Err(format!("{value} is not in {rule}")),
            "required" => {
                let missing = rule.as_array().unwrap().iter().find(|name| value.get(name.as_str().unwrap()).is_none());
                missing.map_or(Ok(()), |name| Err(format!("{name} is missing")))?;
            }
            "additionalProperties" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    if schema.get("properties").and_then(|known| known.get(name)).is_none() {
                        if rule == false {
                            return Err(format!("unknown key {name}"));
                        }
                        fits(root, rule, inner)?;
                    }
                }
            }
            "properties" => {
                for (name, inner) in rule.as_object().unwrap() {
                    value.get(name).map_or(Ok(()), |found| fits(root, inner, found))?;
                }
            }
            "items" => value.as_array().into_iter().flatten().try_for_each(|item| fits(root, rule, item))?,
            "enum" | "$schema" | "$defs" | "title" | "description" | "pattern" | "minimum" => {}
            other => return Err(format!("unknown word {other}")),
        }
    }
    Ok(())
}
