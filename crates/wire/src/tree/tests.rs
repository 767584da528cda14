//! Trees that are whole, torn, swapped and tampered with.

use std::convert::Infallible;

use ground::random;
use identity::members::{Leaf, Meant, MembersMap, NodeLeaf};
use manifest::stored::SCHEMA;

use super::*;
use crate::scene::{NOW, known as founded, sealed};

struct Machine {
    name: NodeName,
    key: Digest,
    secret: [u8; 32],
    public: [u8; 32],
}

impl Machine {
    fn new(name: &str) -> Self {
        let (secret, public) = random::x25519().unwrap();
        Self { name: name.parse().unwrap(), key: Digest::of(name.as_bytes()), secret: *secret, public }
    }

    fn read(&self, known: &Known, files: &BTreeMap<String, Vec<u8>>) -> Result<FromTree, BadTree<Infallible>> {
        let reader = Reader { known, name: &self.name, node_key: self.key, seal_secret: &self.secret };
        reader.read(NOW, |path| Ok(files.get(path).cloned()))
    }
}

/// The next head, with a map of these machines; each has a label of its own.
fn publish(known: &Known, machines: &[&Machine], salt: &str) -> (Known, BTreeMap<String, Vec<u8>>) {
    let manifest = |machine: &Machine| {
        let mut manifest = Manifest::empty(SCHEMA);
        manifest.runs.labels.insert(format!("is={}-{salt}", machine.name).parse().unwrap());
        manifest
    };
    let leaf = |machine: &&Machine| NodeLeaf {
        name: machine.name.clone(),
        node_key: machine.key,
        admission: machine.key,
        manifest: Meant::Own(manifest(machine).digest()),
    };
    let leaves: Vec<NodeLeaf> = machines.iter().map(leaf).collect();
    let map = MembersMap::of(&leaves.iter().cloned().map(Leaf::Node).collect::<Vec<_>>()).unwrap();
    let mut head = known.head.head.clone();
    (head.version, head.members) = (head.version + 1, Some(map.root()));
    let head = sealed(Some(known.org()), &head, "ann");
    let newer = known.advance(&[], Some(&head), NOW).unwrap();
    let nodes = machines.iter().zip(leaves).map(|(machine, leaf)| ForNode {
        node_key: machine.key,
        seal_key: machine.public,
        listing: Listing::Own { path: map.prove(Leaf::Node(leaf.clone()).key()).unwrap(), leaf, class: None },
        manifest: manifest(machine).bytes(),
    });
    let contents = Contents { nodes: nodes.collect(), ..Contents::default() };
    (newer.clone(), files(&newer, &contents).unwrap())
}

#[test]
fn each_node_reads_its_own_and_nobody_elses_and_no_name_is_in_the_open() {
    let known = founded();
    let (one, two, late) = (Machine::new("web-1"), Machine::new("web-2"), Machine::new("web-3"));
    let (newer, files) = publish(&known, &[&one, &two], "a");
    for machine in [&one, &two] {
        let read = machine.read(&known, &files).unwrap();
        assert_eq!(read.known.head.digest, newer.head.digest);
        let listed = read.listed.unwrap();
        let manifest = Manifest::read(&listed.manifest, listed.digest).unwrap();
        let label = manifest.runs.labels.first().unwrap().to_string();
        assert!(label.contains(machine.name.as_str()), "{label}");
    }
    assert_eq!(late.read(&known, &files).unwrap().listed, None, "it keeps what it has");
    let open = |needle: &str| {
        files.iter().any(|(path, bytes)| {
            path.contains(needle) || bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
        })
    };
    assert!(!open("web-1") && !open("web-2"));
    // Another's box, under this node's name.
    let mut swapped = files.clone();
    let theirs = swapped[&box_of(newer.head.digest, two.key)].clone();
    swapped.insert(box_of(newer.head.digest, one.key), theirs);
    assert!(matches!(one.read(&known, &swapped), Err(BadTree::Box(BadBox::NotForUs))));
}

#[test]
fn a_tree_that_is_torn_old_foreign_or_newer_is_refused_and_says_why() {
    let known = founded();
    let one = Machine::new("web-1");
    let (second, old) = publish(&known, &[&one], "a");
    let (third, new) = publish(&second, &[&one], "b");
    assert!(matches!(one.read(&third, &old), Err(BadTree::Behind { found: 2, known: 3 })));
    assert!(matches!(one.read(&known, &BTreeMap::new()), Err(BadTree::NoTree)));
    for path in new.keys().filter(|path| *path != INDEX && !path.ends_with(FOUNDING) && !path.contains("/nodes/")) {
        let mut torn = new.clone();
        torn.remove(path);
        assert!(matches!(one.read(&known, &torn), Err(BadTree::Missing { .. })), "{path}");
        torn.insert(path.clone(), b"{".to_vec());
        assert!(matches!(one.read(&known, &torn), Err(BadTree::Malformed { .. })), "{path}");
    }
    // The box of one head under another.
    let mut mixed = new.clone();
    mixed.insert(box_of(third.head.digest, one.key), old[&box_of(second.head.digest, one.key)].clone());
    assert!(matches!(one.read(&known, &mixed), Err(BadTree::Box(BadBox::NotForUs))));

    let mut index: serde_json::Value = serde_json::from_slice(&new[INDEX]).unwrap();
    let mut with = |field: &str, value: serde_json::Value| {
        index[field] = value;
        let mut changed = new.clone();
        changed.insert(INDEX.to_owned(), serde_json::to_vec(&index).unwrap());
        one.read(&known, &changed)
    };
    assert!(matches!(with("org_id", OrgId([1; 32]).to_string().into()), Err(BadTree::OtherOrg(_))));
    assert!(matches!(with("freehold_tree", 2.into()), Err(BadTree::NewerLayout { found: 2 })));
}

#[test]
fn nothing_that_a_keeper_of_the_files_changes_is_taken() {
    let known = founded();
    let one = Machine::new("web-1");
    let (_, files) = publish(&known, &[&one], "a");
    for (path, bytes) in &files {
        // Any byte of what is signed or sealed.
        for at in (0..bytes.len()).step_by(7) {
            let mut changed = files.clone();
            changed.get_mut(path).unwrap()[at] ^= 1;
            let read = one.read(&known, &changed);
            assert!(read.is_err() || !path.ends_with(HEAD) && !path.contains("/nodes/"), "{path} {at}");
            if let Ok(read) = read {
                assert_eq!((read.known.head.head.version, read.listed.is_some()), (2, true), "{path} {at}");
            }
        }
    }
}
