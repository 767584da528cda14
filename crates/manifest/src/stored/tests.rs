//! Which rows match whom, which names of files are safe, and which bytes are a manifest.

use super::*;

fn table() -> Access {
    let mut access = Access::default();
    let web = || vec!["web-*".parse().unwrap()];
    let rows = vec![
        Caller::Placed {
            principal: "spiffe://harbor/user/alice".parse().unwrap(),
            at: vec![
                Place::Node("laptop".parse().unwrap()),
                Place::Class { class: "web".parse().unwrap(), names: web() },
            ],
        },
        Caller::Node("beta".parse().unwrap()),
        Caller::Class { class: "web".parse().unwrap(), names: web() },
    ];
    access.callers.insert("wiki".parse().unwrap(), rows);
    access.callers.insert("pulse".parse().unwrap(), vec![Caller::AnyNode]);
    access
}

#[test]
fn a_row_matches_a_principal_at_its_place_and_nobody_else() {
    for (service, principal, node, may) in [
        ("wiki", "spiffe://harbor/user/alice", "laptop", true),
        ("wiki", "spiffe://harbor/user/alice", "web-7", true),
        ("wiki", "spiffe://harbor/user/alice", "beta", false), // not her node
        ("wiki", "spiffe://harbor/user/bob", "laptop", false),
        ("wiki", "spiffe://harbor/service/alice", "laptop", false),
        ("wiki", "spiffe://other/user/alice", "laptop", false),
        ("wiki", "spiffe://harbor/node/beta", "beta", true),
        ("wiki", "spiffe://harbor/node/beta", "web-1", false), // bound by another node
        ("wiki", "spiffe://harbor/node/web-1", "web-1", true),
        ("wiki", "spiffe://harbor/user/web-1", "web-1", false),
        ("wiki", "spiffe://harbor/node/gamma", "gamma", false),
        ("pulse", "spiffe://harbor/node/gamma", "gamma", true),
        ("pulse", "spiffe://harbor/user/alice", "laptop", false),
        ("none", "spiffe://harbor/node/beta", "beta", false),
    ] {
        let found = table().permits(&service.parse().unwrap(), &principal.parse().unwrap(), &node.parse().unwrap());
        assert_eq!(found, may, "{service} {principal} {node}");
    }
}

#[test]
fn a_file_stays_in_its_folder() {
    for good in ["motd", "etc/wiki.conf", "a/b/c/d", "unit@1.service"] {
        assert!(good.parse::<FileName>().is_ok(), "{good}");
    }
    for bad in ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", ".hidden", "a/.ssh", "-rf", "a b", "a\\b", "é", "x."]
    {
        assert!(bad.parse::<FileName>().is_err(), "{bad}");
    }
}

#[test]
fn a_manifest_is_read_as_the_head_names_it_or_not_at_all() {
    let manifest = Manifest::empty(SCHEMA);
    let bytes = manifest.bytes();
    assert_eq!(Manifest::read(&bytes, manifest.digest()), Ok(manifest.clone()));
    let spaced = [&b" "[..], &bytes].concat();
    assert_eq!(Manifest::read(&spaced, manifest.digest()), Err(BadManifest::OtherBytes));
    let newer = br#"{"schema":99,"what":"ever"}"#;
    assert_eq!(Manifest::read(newer, Digest::of(newer)), Err(BadManifest::NewerSchema { found: 99, known: SCHEMA }));
    let odd = br#"{"schema":3,"what":"ever"}"#;
    assert!(matches!(Manifest::read(odd, Digest::of(odd)), Err(BadManifest::Malformed(_))));
}
