//! What a gateway answers a node that waits for news, and what nodes ask: no answer makes a node believe what the
//! operators did not sign.

use std::sync::LazyLock;

use identity::envelope::Envelope;
use identity::head::Revocations;
use identity::id::Digest;
use identity::members::{ClassLeaf, InClass, Leaf, Listing, Meant, MembersMap, NodeLeaf, Said, class_key, node_key};
use identity::principal::NodeName;
use identity::text::Bytes;
use identity::time::Seconds;
use manifest::stored::{Manifest, SCHEMA};
use wire::known::Known;
use wire::sync::{SyncAnswer, SyncRequest};

use crate::cast::{GATEWAYS, NOW, SIGNERS, ed, public};
use crate::harbor::{HARBOR, head};

/// Members of every sort, one class, and the head that names them.
struct Map {
    map: MembersMap,
    member: NodeLeaf,
    /// One of the class, and one that is to have nothing.
    classed: NodeLeaf,
    idle: NodeLeaf,
    class: ClassLeaf,
    manifest: Manifest,
    known: Known,
    newer: Envelope,
}

static MAP: LazyLock<Map> = LazyLock::new(|| {
    let manifest = Manifest::empty(SCHEMA);
    let member = NodeLeaf {
        name: "web-1".parse().expect("a name"),
        node_key: public("node-1").digest(),
        admission: Digest([2; 32]),
        manifest: Meant::Own(manifest.digest()),
    };
    let named = |name: &str, key: &str, manifest: Meant| NodeLeaf {
        name: name.parse().expect("a name"),
        node_key: public(key).digest(),
        manifest,
        ..member.clone()
    };
    let classed = named("web-2", "node-3", Meant::Class("web".parse().expect("a name")));
    let idle = named("idle", "node-4", Meant::Nothing);
    let class = ClassLeaf {
        class: "web".parse().expect("a name"),
        names: vec!["web-*".parse().expect("a pattern")],
        manifest: manifest.digest(),
    };
    let map = {
        let nodes = [&member, &classed, &idle].map(|leaf| Leaf::Node(leaf.clone()));
        MembersMap::of(&[&nodes[..], &[Leaf::Class(class.clone())]].concat()).expect("four keys")
    };
    let seal = |version| {
        let mut head = head(version, HARBOR.signers(), Revocations::default());
        head.members = Some(map.root());
        let sealed = Envelope::seal(Some(HARBOR.founding.id), &head).expect("sealed");
        SIGNERS.iter().fold(sealed, |sealed, name| sealed.signed(&ed(name)).expect("signed"))
    };
    let known = Known::new(HARBOR.founding.clone(), &[], &seal(5)).expect("it is signed");
    let newer = seal(6);
    Map { map, member, classed, idle, class, manifest, known, newer }
});

fn listing(name: &str) -> Listing {
    let at = node_key(&name.parse().expect("a name"));
    match (MAP.map.prove(at), name.starts_with("web-")) {
        (Some(path), _) if name == MAP.classed.name.as_str() => {
            let class = InClass {
                leaf: MAP.class.clone(),
                path: MAP.map.prove(class_key(&MAP.class.class)).expect("it is there"),
            };
            Listing::Own { leaf: MAP.classed.clone(), path, class: Some(class) }
        }
        (Some(path), _) if name == MAP.idle.name.as_str() => Listing::Own { leaf: MAP.idle.clone(), path, class: None },
        (Some(path), _) => Listing::Own { leaf: MAP.member.clone(), path, class: None },
        (None, true) => Listing::Class {
            leaf: MAP.class.clone(),
            path: MAP.map.prove(class_key(&MAP.class.class)).expect("it is there"),
            absence: MAP.map.prove_absence(at).expect("it is not there"),
        },
        (None, false) => Listing::Unlisted { absence: MAP.map.prove_absence(at).expect("it is not there") },
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let answer = |head: Option<Envelope>, listing: Option<Listing>| SyncAnswer {
        signers: Vec::new(),
        head,
        rivals: Some(vec![MAP.newer.clone()]),
        manifest: listing.as_ref().map(|_| Bytes(MAP.manifest.bytes())),
        listing,
        consent: None,
        tip: HARBOR.invite.clone(),
        recoveries: vec![HARBOR.founding.envelope.clone()],
        suspensions: Some(vec![HARBOR.invite.clone()]),
    };
    let listings = ["web-1", "web-2", "idle", "web-9", "db"].map(|name| answer(None, Some(listing(name))));
    let answers = listings.into_iter().chain([answer(Some(MAP.newer.clone()), None)]);
    let request = SyncRequest {
        signers: 1,
        head: 5,
        digest: Some(Digest([4; 32])),
        rivals: Some(Digest([5; 32])),
        listed: 5,
        have: vec![MAP.manifest.digest()],
        waits_for: Some(Digest([1; 32])),
        sighted: vec![Digest([2; 32])],
        suspended: Some(Digest([3; 32])),
        tip: Some(HARBOR.invite.clone()),
        wait: Seconds(50),
        report: Some(HARBOR.invite.clone()),
    };
    let json = |answer: SyncAnswer| serde_json::to_vec(&answer).expect("JSON");
    answers.map(json).chain([serde_json::to_vec(&request).expect("JSON"), MAP.manifest.bytes()]).collect()
}

pub fn check(data: &[u8]) -> bool {
    let read = reads_as_itself(data);
    if let Ok(request) = serde_json::from_slice::<SyncRequest>(data) {
        let again: SyncRequest = serde_json::from_slice(&serde_json::to_vec(&request).expect("JSON")).expect("again");
        assert_eq!((again.head, again.have), (request.head, request.have));
        return true;
    }
    let Ok(answer) = serde_json::from_slice::<SyncAnswer>(data) else {
        return read;
    };
    if let Some(listing) = &answer.listing {
        places_truly(listing);
    }
    if let Some(manifest) = &answer.manifest {
        reads_as_itself(&manifest.0);
    }
    ratchets(&answer);
    true
}

/// No listing says of anybody what the map does not say.
fn places_truly(listing: &Listing) {
    let (root, manifest) = (MAP.map.root(), Said::Manifest(MAP.manifest.digest()));
    let (member, stranger) = (MAP.member.node_key, public("node-2").digest());
    let check = |name: &str, key| listing.check(root, &name.parse().expect("a name"), key).ok();
    assert!([None, Some(manifest)].contains(&check("web-1", member)), "a member's place");
    assert!([None, Some(manifest)].contains(&check("web-2", MAP.classed.node_key)), "a listed class member's place");
    assert!([None, Some(Said::Nothing)].contains(&check("idle", MAP.idle.node_key)), "one that is to have nothing");
    for name in ["web-1", "web-2", "idle"] {
        assert_eq!(check(name, stranger), None, "another's place");
    }
    // That no class covers a name is not shown by anything: a class's place can be withheld, not changed.
    assert!([None, Some(Said::NoWord), Some(manifest)].contains(&check("web-9", stranger)), "a class's place");
    assert!([None, Some(Said::NoWord)].contains(&check("db", stranger)), "no place");
    let shown = |name: &NodeName| listing.leaf_of(root, name).ok();
    assert!([None, Some(Some(&MAP.member))].contains(&shown(&MAP.member.name)), "somebody has the name");
    assert!([None, Some(None)].contains(&shown(&"db".parse().expect("a name"))), "nobody has it");
}

/// What is read as a manifest is written as one, and nothing of it leads out of its folder.
fn reads_as_itself(bytes: &[u8]) -> bool {
    let Ok(manifest) = Manifest::read(bytes, Digest::of(bytes)) else {
        return false;
    };
    assert!(Manifest::read(bytes, Digest([0; 32])).is_err(), "other bytes than the head names");
    assert_eq!(Manifest::read(&manifest.bytes(), manifest.digest()), Ok(manifest.clone()));
    for name in manifest.runs.files.keys() {
        let parts: Vec<_> = std::path::Path::new(name.as_str()).components().collect();
        assert!(parts.iter().all(|part| matches!(part, std::path::Component::Normal(_))), "it leads elsewhere");
    }
    true
}

/// Whatever comes, what is known only grows.
fn ratchets(answer: &SyncAnswer) {
    if let Ok(newer) = MAP.known.advance(&answer.signers, answer.head.as_ref(), NOW) {
        let (new, old) = (&newer.head.head, &MAP.known.head.head);
        let later =
            new.place() > old.place() || (new.place() == old.place() && newer.head.digest < MAP.known.head.digest);
        assert!(later || newer.head.digest == MAP.known.head.digest, "a head went back");
        assert!(new.revocations.includes(&old.revocations), "a revocation was forgotten");
        assert!(newer.signers.version >= MAP.known.signers.version, "a signer set went back");
    }
    for recovery in &answer.recoveries {
        assert!(MAP.known.notice(recovery, NOW).is_none_or(|known| known.sights().len() == 1));
    }
    let voices = GATEWAYS.map(public);
    let _ = answer.tip.signers_among(&voices.into());
}
