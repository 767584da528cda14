//! The map against a naive one: what it proves is so, and what is not so it cannot prove.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A second way to the same root: recursive, split at the largest power of two below the count.
fn naive_root(map: &BTreeMap<Digest, Digest>) -> Digest {
    fn top(leaves: &[(Digest, Digest)]) -> Option<Digest> {
        match leaves {
            [] => None,
            [(key, value)] => Some(leaf_hash(*key, *value)),
            many => {
                let split = many.len().next_power_of_two() / 2;
                let (left, right) = many.split_at(split);
                Some(inner_hash(top(left)?, top(right)?))
            }
        }
    }
    let leaves: Vec<_> = map.iter().map(|(key, value)| (*key, *value)).collect();
    root_hash(leaves.len() as u64, top(&leaves))
}

/// Few distinct keys, so that hits and near misses are common.
fn digest() -> impl Strategy<Value = Digest> {
    (any::<u8>(), 0_u8..2).prop_map(|(first, last)| {
        let mut bytes = [0; 32];
        (bytes[0], bytes[31]) = (first % 64, last);
        Digest(bytes)
    })
}

fn naive() -> impl Strategy<Value = BTreeMap<Digest, Digest>> {
    prop::collection::btree_map(digest(), digest(), 0..40)
}

proptest! {
    #[test]
    fn the_map_says_what_a_naive_one_says(oracle in naive(), asked in digest()) {
        let map = MembersMap::new(oracle.clone()).unwrap();
        let root = map.root();
        prop_assert_eq!(root, naive_root(&oracle));
        prop_assert_eq!(map.get(asked), oracle.get(&asked).copied());
        if let Some(value) = oracle.get(&asked) {
            prop_assert!(map.prove(asked).unwrap().leads(asked, *value, root));
            prop_assert!(map.prove_absence(asked).is_none());
        } else {
            prop_assert!(map.prove(asked).is_none());
            prop_assert!(map.prove_absence(asked).unwrap().holds(asked, root));
        }
    }

    #[test]
    fn no_honest_proof_serves_for_another_key_value_or_root(
        oracle in naive(), other in naive(), asked in digest(), wrong in digest(),
    ) {
        let map = MembersMap::new(oracle.clone()).unwrap();
        let root = map.root();
        for (key, value) in &oracle {
            let path = map.prove(*key).unwrap();
            prop_assert!(wrong == *value || !path.leads(*key, wrong, root));
            prop_assert!(wrong == *key || !path.leads(wrong, *value, root));
            prop_assert!(naive_root(&other) == root || !path.leads(*key, *value, naive_root(&other)));
        }
        if let Some(absence) = map.prove_absence(asked) {
            // It may serve for its neighbors in the same gap, never for a key that is there.
            prop_assert!(!oracle.contains_key(&wrong) || !absence.holds(wrong, root));
            prop_assert!(naive_root(&other) == root || !absence.holds(asked, naive_root(&other)));
        }
    }

    #[test]
    fn no_two_leaves_that_stand_apart_show_an_absence(oracle in naive(), left in any::<usize>(), right in any::<usize>()) {
        let map = MembersMap::new(oracle.clone()).unwrap();
        let root = map.root();
        let keys: Vec<Digest> = oracle.keys().copied().collect();
        let at = |n: usize| keys.get(n % (keys.len() + 1)).copied();
        let neighbor = |key: Option<Digest>| {
            key.map(|key| Neighbor { key, value: oracle[&key], path: map.prove(key).unwrap() })
        };
        let absence = Absence { left: neighbor(at(left)), right: neighbor(at(right)) };
        for key in &keys {
            prop_assert!(!absence.holds(*key, root), "a key that is there is shown to be absent");
        }
    }

    #[test]
    fn a_bent_path_leads_nowhere(oracle in naive(), at in any::<prop::sample::Index>(), bend in 0_usize..6, by in digest()) {
        prop_assume!(!oracle.is_empty());
        let map = MembersMap::new(oracle.clone()).unwrap();
        let keys: Vec<Digest> = oracle.keys().copied().collect();
        let key = keys[at.index(keys.len())];
        let honest = map.prove(key).unwrap();
        let mut path = honest.clone();
        match bend {
            0 => path.index = path.index.wrapping_add(1),
            1 => path.count += 1,
            2 => path.siblings.push(by),
            3 => drop(path.siblings.pop()),
            4 => path.siblings.reverse(),
            _ => if let Some(first) = path.siblings.first_mut() { *first = by },
        }
        prop_assert!(path == honest || !path.leads(key, oracle[&key], map.root()));
    }
}

#[test]
fn two_leaves_with_one_key_are_no_map() {
    let (a, b) = (Digest([1; 32]), Digest([2; 32]));
    assert_eq!(MembersMap::new([(a, a), (a, b)]), Err(Doubled));
}

fn node(name: &str, key: u8) -> NodeLeaf {
    NodeLeaf {
        name: name.parse().unwrap(),
        node_key: Digest([key; 32]),
        admission: Digest([3; 32]),
        manifest: Meant::Own(Digest([key + 100; 32])),
    }
}

#[test]
fn a_node_takes_its_own_leaf_or_its_class_with_proof_that_it_has_none() {
    let web =
        ClassLeaf { class: "web".parse().unwrap(), names: vec!["web-*".parse().unwrap()], manifest: Digest([9; 32]) };
    let leaves = [Leaf::Node(node("alpha", 1)), Leaf::Node(node("web-1", 2)), Leaf::Class(web.clone())];
    let map = MembersMap::of(&leaves).unwrap();
    let root = map.root();
    let (alpha, web_1, web_2): (NodeName, NodeName, NodeName) =
        ("alpha".parse().unwrap(), "web-1".parse().unwrap(), "web-2".parse().unwrap());
    let own = Listing::Own { leaf: node("alpha", 1), path: map.prove(node_key(&alpha)).unwrap(), class: None };
    assert_eq!(own.check(root, &alpha, Digest([1; 32])), Ok(Said::Manifest(Digest([101; 32]))));
    assert_eq!(own.check(root, &alpha, Digest([7; 32])), Err(BadListing::OtherKey));
    assert_eq!(own.check(root, &web_1, Digest([1; 32])), Err(BadListing::OtherNode(alpha.clone())));
    let forged = Listing::Own { leaf: node("alpha", 7), path: map.prove(node_key(&alpha)).unwrap(), class: None };
    assert_eq!(forged.check(root, &alpha, Digest([7; 32])), Err(BadListing::BrokenPath));
    let path = map.prove(class_key(&web.class)).unwrap();
    let absence = map.prove_absence(node_key(&web_2)).unwrap();
    let by_class = Listing::Class { leaf: web.clone(), path: path.clone(), absence: absence.clone() };
    assert_eq!(by_class.check(root, &web_2, Digest([5; 32])), Ok(Said::Manifest(Digest([9; 32]))));
    assert_eq!(by_class.check(root, &alpha, Digest([1; 32])), Err(BadListing::OtherClass(web.class.clone())));
    // A member with a leaf of its own is not handed its class's manifest instead.
    assert_eq!(by_class.check(root, &web_1, Digest([2; 32])), Err(BadListing::NotAbsent));
    let mut wider = web;
    wider.names = vec!["*".parse().unwrap()];
    let bent = Listing::Class { leaf: wider, path, absence };
    assert_eq!(bent.check(root, &web_2, Digest([5; 32])), Err(BadListing::BrokenPath));
    let unlisted = Listing::Unlisted { absence: map.prove_absence(node_key(&web_2)).unwrap() };
    assert_eq!(unlisted.check(root, &alpha, Digest([1; 32])), Err(BadListing::NotAbsent));
}

#[test]
fn a_listed_member_takes_its_class_only_as_its_leaf_names_it() {
    let class = |class: &str, glob: &str, manifest: u8| ClassLeaf {
        class: class.parse().unwrap(),
        names: vec![glob.parse().unwrap()],
        manifest: Digest([manifest; 32]),
    };
    let (web, db) = (class("web", "web-*", 9), class("db", "db-*", 8));
    let of = |meant: Meant, name: &str| NodeLeaf { manifest: meant, ..node(name, 2) };
    let web_1 = of(Meant::Class(web.class.clone()), "web-1");
    // Its maker put it into a class that does not cover it.
    let astray = of(Meant::Class(db.class.clone()), "web-2");
    let idle = of(Meant::Nothing, "idle");
    let leaves = [&web_1, &astray, &idle].map(|leaf| Leaf::Node(leaf.clone()));
    let classes = [&web, &db].map(|leaf| Leaf::Class(leaf.clone()));
    let map = MembersMap::of(&[&leaves[..], &classes[..]].concat()).unwrap();
    let key = Digest([2; 32]);
    let check = |leaf: &NodeLeaf, class: Option<&ClassLeaf>| {
        let shown = |leaf: &ClassLeaf| InClass { leaf: leaf.clone(), path: map.prove(class_key(&leaf.class)).unwrap() };
        let path = map.prove(node_key(&leaf.name)).unwrap();
        let listing = Listing::Own { leaf: leaf.clone(), path, class: class.map(shown) };
        assert_eq!(listing.leaf_of(map.root(), &leaf.name), Ok(Some(leaf)), "whose name it is, no class says");
        listing.check(map.root(), &leaf.name, key)
    };
    assert_eq!(check(&web_1, Some(&web)), Ok(Said::Manifest(Digest([9; 32]))));
    assert_eq!(check(&web_1, None), Err(BadListing::NoClass(web.class.clone())));
    assert_eq!(check(&web_1, Some(&db)), Err(BadListing::NoClass(web.class.clone())));
    assert_eq!(check(&astray, Some(&db)), Err(BadListing::OtherClass(db.class.clone())));
    assert_eq!(check(&idle, None), Ok(Said::Nothing));
    assert_eq!(check(&idle, Some(&web)), Err(BadListing::StrayClass(web.class.clone())));
    let mut richer = web.clone();
    richer.manifest = Digest([7; 32]);
    assert_eq!(check(&web_1, Some(&richer)), Err(BadListing::BrokenPath));
}

#[test]
fn what_a_leaf_means_has_one_written_form() {
    for (meant, written) in [
        (Meant::Own(Digest([0xab; 32])), format!("{{\"own\":\"{}\"}}", "ab".repeat(32))),
        (Meant::Class("web".parse().unwrap()), "{\"class\":\"web\"}".to_owned()),
        (Meant::Nothing, "\"nothing\"".to_owned()),
    ] {
        assert_eq!(serde_json::to_string(&meant).unwrap(), written);
        assert_eq!(serde_json::from_str::<Meant>(&written).unwrap(), meant);
    }
    assert!(serde_json::from_str::<Meant>("{\"own\":\"\",\"class\":\"web\"}").is_err());
    assert!(serde_json::from_str::<Meant>("\"all\"").is_err());
}
