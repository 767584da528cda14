//! Forged papers, shown to a tunnel that runs: an old head of a signer who was replaced, and an admission under an invite for any
//! name. The thief has a mandated issuing key, too.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use ground::random;
use identity::certificate::binding::BindingTerms;
use identity::certificate::{self, draft_svid};
use identity::envelope::Envelope;
use identity::head::Head;
use identity::id::Digest;
use identity::key::{EdKey, P256Key, Sign as _};
use identity::members::{Leaf, Listing, Meant, MembersMap, NodeLeaf, node_key as place_of};
use identity::principal::{NodeName, Principal};
use org::ledger::entry::Action;
use org::member::peer::Presented;
use rustls::{ClientConnection, StreamOwned};
use serde::Serialize;
use trials::attack::intruder::Intruder;
use trials::attack::liar::Loot;
use trials::attack::thief::{Thief, a_day};
use trials::client::joiner::Joiner;
use trials::client::stranger::{Dial, Own};
use trials::place::{succeeded, until};
use wire::known::Known;
use wire::peer::{ALPN, Declined, Hello, News, Open, Opened, SCHEMA};

use super::Harbor;
use crate::publishing::Scene;

/// What is said on a connection, by the kinds of the frames.
const HELLO: u8 = 1;
const NEWS: u8 = 2;
const OPEN: u8 = 3;
const OPENED: u8 = 4;

fn frame(kind: u8, words: &impl Serialize) -> Vec<u8> {
    let words = serde_json::to_vec(words).unwrap();
    let mut header = u32::try_from(words.len()).unwrap().to_be_bytes();
    header[0] = kind;
    [&header[..], &words].concat()
}

/// Asks the tunnel of `alpha` for the wiki.
fn asks(harbor: &Harbor, own: &Own, hello: &Hello, news: Option<&News>) -> Opened {
    let told = heard(harbor.ports[1].port, own, hello, news);
    told.unwrap_or_else(|why| {
        panic!("{why}: {}", std::fs::read_to_string(harbor.scene.place.path("alpha.log")).unwrap())
    })
}

fn heard(port: u16, own: &Own, hello: &Hello, news: Option<&News>) -> std::io::Result<Opened> {
    let dial = Dial::to(port).with(own);
    let mut config = (*dial.config()).clone();
    config.alpn_protocols = vec![ALPN.to_vec()];
    let session = ClientConnection::new(Arc::new(config), "127.0.0.1".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(session, dial.plain());
    stream.write_all(&frame(HELLO, hello))?;
    if let Some(news) = news {
        stream.write_all(&frame(NEWS, news))?;
    }
    stream.write_all(&frame(OPEN, &Open::Service("wiki".parse().unwrap())))?;
    loop {
        let mut header = [0; 4];
        stream.read_exact(&mut header)?;
        let [kind, length @ ..] = header;
        let mut words = vec![0; length.iter().fold(0, |all, byte| all << 8 | usize::from(*byte))];
        stream.read_exact(&mut words)?;
        if kind == OPENED {
            return Ok(serde_json::from_slice(&words).unwrap());
        }
    }
}

/// Whoever knows this head, as the other side does, and shows this.
fn hello(known: &Known, presented: Presented) -> Hello {
    let (signers, head, digest) = (known.signers.version, known.head.head.version, known.head.digest);
    Hello { schema: SCHEMA, signers, head, digest, rivals: None, suspended: None, presented }
}

/// By the stolen issuing key, for a user on a machine that has this key.
fn svid(thief: &Thief, user: &str, node: &NodeName, node_key: &P256Key) -> Own {
    let (known, svid_key, validity) = (thief.known(), random::p256().unwrap(), a_day());
    let principal = Principal::user(&known.founding.record.name, &user.parse().unwrap());
    let (org, not_after) = (known.org(), validity.not_after);
    let id = certificate::key_id(svid_key.public()).unwrap();
    let binding = BindingTerms { org, principal: &principal, node, svid_key: id, not_after }.sign(node_key).unwrap();
    let draft = draft_svid(&principal, &binding, random::serial().unwrap(), validity).unwrap();
    thief.sign_draft(&draft, &svid_key)
}

/// In which org, and in the middle of what.
struct Setting {
    founded: &'static [&'static str],
    /// Who goes, and who comes.
    replaced: &'static [(&'static str, &'static str)],
    /// Whose keys the thief has; of those who stay, too few.
    stolen: &'static [&'static str],
    rotates: bool,
}

const ALONE: Setting =
    Setting { founded: &["--node", "quay"], replaced: &[("ann", "bea")], stolen: &["ann"], rotates: false };

const SEVERAL: Setting = Setting {
    founded: &["--node", "quay", "--signers", "2-of-3"],
    replaced: &[("ann-2", "bea"), ("ann-3", "cat")],
    stolen: &["ann-2", "ann-3", "ann"],
    rotates: true,
};

impl Setting {
    fn harbor(&self) -> Harbor {
        let harbor = Harbor::of(Scene::founded(self.founded));
        let publish = || harbor.scene.place.freehold(&["trust", "publish", "identity"]).status.success();
        if self.rotates {
            until("another root is published", publish);
        }
        harbor
    }
}

/// The gateway is stolen and stands still; the tunnels go by its last head.
fn stolen(harbor: &mut Harbor) -> Loot {
    let newest = Thief::of(&harbor.scene.place).known().head.head.version;
    until("the tunnel goes by the newest head", || harbor.tunnel("alpha")["now"]["head"] == newest);
    assert_eq!(harbor.gateway.take().unwrap().stop(), Some(0));
    Loot::of(&harbor.scene.place)
}

#[test]
fn an_old_head_that_a_replaced_signer_forges_lets_nobody_pass_for_a_member_at_a_tunnel() {
    forges_an_old_head(&ALONE);
}

#[test]
fn nor_does_one_of_replaced_signers_and_one_in_force_where_two_must_agree_and_a_root_is_being_replaced() {
    forges_an_old_head(&SEVERAL);
}

fn forges_an_old_head(setting: &Setting) {
    let mut harbor = setting.harbor();
    let place = &harbor.scene.place;
    let thief = Thief::of(place);
    let (old, former) =
        (thief.known(), setting.stolen.iter().map(|name| thief.signer_of(name)).collect::<Vec<EdKey>>());
    for (goes, comes) in setting.replaced {
        succeeded(&place.freehold(&["signer", "replace", goes, comes, "--unprotected", "--yes"]));
    }
    let loot = stolen(&mut harbor);
    let (place, known) = (&harbor.scene.place, thief.known());
    let beta: NodeName = "beta".parse().unwrap();
    // Without a twist it is let in: the machine itself, as the head in force lists it.
    let pem = std::fs::read_to_string(place.scope("beta").join("node.key")).unwrap();
    let own = svid(&thief, "ann", &beta, &P256Key::from_pem(&pem).unwrap());
    let by = loot.head(loot.newest()).clone();
    let listing = Some(loot.listing(loot.newest(), &beta));
    let shown = Presented { by, listing, admission: None };
    assert_eq!(asks(&harbor, &own, &hello(&known, shown), None), Opened::Yes);

    let (key, far) = (random::p256().unwrap(), known.head.head.version + 1_000);
    // `alpha` has met the one, and never the other.
    for node in ["beta", "quay"].map(|name| name.parse::<NodeName>().unwrap()) {
        let own = svid(&thief, "ann", &node, &key);
        let (node_key, admission) = (key.public().digest(), Digest([9; 32]));
        let leaf = NodeLeaf { name: node.clone(), node_key, admission, manifest: Meant::Nothing };
        let map = MembersMap::of(&[Leaf::Node(leaf.clone())]).unwrap();
        let twists: [fn(&mut Head, &Known, u64); 3] = [
            |_, _, _| {},
            |head, _, far| head.version = far,
            |head, known, far| (head.version, head.signers) = (far, known.head.head.signers),
        ];
        for twist in twists {
            let mut head = old.head.head.clone();
            head.members = Some(map.root());
            twist(&mut head, &known, far);
            let mut by = Envelope::seal(Some(old.org()), &head).unwrap();
            for key in &former {
                by.sign(key).unwrap();
            }
            let path = map.prove(place_of(&node)).unwrap();
            let listing = Some(Listing::Own { leaf: leaf.clone(), path, class: None });
            let shown = Presented { by: by.clone(), listing, admission: None };
            let quiet = hello(&known, shown);
            let (signers, head, digest) = (head.signers.version, head.version, by.digest());
            let loud = Hello { signers, head, digest, ..quiet.clone() };
            let news = News { signers: Vec::new(), head: Some(by), rivals: Vec::new(), suspensions: Vec::new() };
            // As if it were nothing new, and handed over as news.
            let is_later = loud.knows().place > quiet.knows().place;
            for (hello, news) in [(&quiet, None), (&loud, Some(&news).filter(|_| is_later))] {
                let told = asks(&harbor, &own, hello, news);
                let no = matches!(told, Opened::No(Declined::NotBelieved { .. } | Declined::TooOld));
                assert!(no, "`{node}` by head {head} of set {signers}: {told:?}");
            }
        }
    }
    assert_eq!(harbor.tunnel("alpha")["now"]["head"], known.head.head.version);
    let log = std::fs::read_to_string(harbor.scene.place.path("alpha.log")).unwrap();
    assert!(log.contains("which does not count any more"), "{log}");
}

#[test]
fn who_was_let_into_a_class_by_an_invite_for_any_name_has_nothing_of_the_class_at_a_tunnel() {
    is_let_into_a_class(&ALONE);
}

#[test]
fn nor_where_two_must_agree_and_a_root_is_being_replaced() {
    is_let_into_a_class(&SEVERAL);
}

fn is_let_into_a_class(setting: &Setting) {
    let mut harbor = setting.harbor();
    let place = &harbor.scene.place;
    let codes = [place.code(&["--uses", "9"]), place.code(&["--uses", "9", "--name", "web-*"])];
    harbor.declare("pages");
    let class = "classes:\n  web:\n    match: web-*\n    roles: reader\nroles:\n  reader:\n    allow: pages\n";
    std::fs::write(place.path("fleet/web.yaml"), class).unwrap();
    place.facts(&["publish", "--yes"]);
    let loot = stolen(&mut harbor);
    let place = &harbor.scene.place;
    let (thief, gateway) = (Thief::of(place), Intruder::at(place.org().join("gateway")));
    let known = thief.known();
    let meets = |code: &str, name: &str| {
        let joiner = Joiner::new(code, name);
        let id = joiner.code.ticket.authority().invite().unwrap();
        let invite = gateway.state().invite(id).unwrap().1.envelope.clone();
        let admits = Action::NodeAdmit { claim: joiner.signed_claim(), invite: Some(invite), approval: None };
        let validity = a_day();
        let binding = joiner.svid(validity.not_after).binding;
        let draft = draft_svid(&joiner.principal(), &binding, random::serial().unwrap(), validity).unwrap();
        let own = thief.sign_draft(&draft, &joiner.svid_key);
        let by = loot.head(loot.newest()).clone();
        let listing = Some(loot.listing(loot.newest(), &joiner.name));
        let shown = Presented { by, listing, admission: Some(gateway.says(admits).envelope) };
        asks(&harbor, &own, &hello(&known, shown), None)
    };
    // Both are believed, and the one is of the class.
    assert_eq!(meets(&codes[1], "web-8"), Opened::Yes);
    assert_eq!(meets(&codes[0], "web-7"), Opened::No(Declined::NotAllowed));
}
