//! Two gateways, of which one lies, machines with agents, and operators who go on with their work.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::{Output, Stdio};

use gateway::store::folder::GatewayFolder;
use identity::head::Revocations;
use identity::id::{Digest, InviteId};
use identity::key::{PublicKey, Sign as _};
use identity::principal::NodeName;
use member::store::scope::Scope;
use serde_json::Value;
use trials::attack::thief::Thief;
use trials::dice::Dice;
use trials::place::{Place, Running, stderr, succeeded, text, until};

use super::deeds::Deed;
use super::forge::{Hand, key_of};
use super::lies::Mind;
use super::server::Turncoat;
use crate::gateways::Two;

/// How many machines of its own the liar may let in: it has the secret of an invite for so many.
pub const LOOSE: usize = 3;

/// Who signs for the org, and what of that was stolen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cast {
    /// One of two signed; the other one was removed, and had the threshold.
    OneOfTwo,
    /// Two of three; two were replaced, and had the threshold together.
    TwoOfThree,
    /// Two of three, of whom one was replaced; and two recovery phrases.
    Phrases,
}

impl Cast {
    fn of(seed: u64) -> Self {
        match seed % 3 {
            1 => Self::OneOfTwo,
            2 => Self::TwoOfThree,
            _ => Self::Phrases,
        }
    }

    /// Those who were removed with the threshold can freeze others for one delay: what is asked here is what comes after. A recovery
    /// by stolen phrases is to wait until people stop it.
    const fn founding(self) -> [&'static str; 4] {
        match self {
            Self::OneOfTwo => ["--signers", "1-of-2", "--recovery-delay", "2s"],
            Self::TwoOfThree => ["--signers", "2-of-3", "--recovery-delay", "2s"],
            Self::Phrases => ["--signers", "2-of-3", "--recovery-delay", "24h"],
        }
    }

    /// Who goes, and who comes in the place.
    const fn replaced(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::OneOfTwo => &[],
            Self::TwoOfThree => &[("ann-2", "bea"), ("ann-3", "cat")],
            Self::Phrases => &[("ann-3", "cat")],
        }
    }
}

pub struct World {
    pub seed: u64,
    pub cast: Cast,
    pub two: Two,
    pub laptop: Option<Running>,
    pub liar: Option<Turncoat>,
    pub agents: BTreeMap<String, Running>,
    /// What honest people did: who has which name, and what was taken back.
    pub names: BTreeMap<NodeName, Digest>,
    pub asked: Revocations,
    pub suspended: BTreeSet<Digest>,
    /// Each set of signers that they made, from the first on; whoever signs now by name; all whose keys were never stolen, and those
    /// whose keys were stolen only when they had been replaced meanwhile.
    pub sets: Vec<BTreeSet<PublicKey>>,
    pub signers: Vec<String>,
    pub honest: BTreeSet<PublicKey>,
    pub late: BTreeSet<PublicKey>,
    pub deeds: Vec<Deed>,
    /// Of which root, and which version was in use before.
    pub rotations: Vec<(&'static str, u64)>,
    /// What the liar wrote.
    pub written: BTreeSet<Digest>,
    pub baseline: Baseline,
    /// The highest head that each machine followed, by its set and version, and the keys that it knew to be revoked.
    pub followed: BTreeMap<String, ((u64, u64), BTreeSet<Digest>)>,
    pub story: Vec<String>,
    pub dice: Dice,
    machines: usize,
    fleets: usize,
}

/// What was so before anybody lied.
pub struct Baseline {
    pub voices: BTreeSet<PublicKey>,
    pub vps: PublicKey,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let cast = Cast::of(seed);
        let (two, phrases) = Two::with_phrases(&cast.founding());
        let place = &two.place;
        let laptop = Some(serve(place));
        place.joined("vps");
        two.request();
        succeeded(&place.freehold(&["gateway", "add", "vps.request", "--out", "vps.grant", "--yes"]));
        two.install();
        let vps = two.serve_vps();
        let (thief, mut stolen) = (Thief::of(place), Vec::new());
        let first = thief.known().signers;
        let mut sets = vec![first.quorum.keys()];
        if cast == Cast::OneOfTwo {
            stolen.push(thief.signer_of("ann-2"));
            succeeded(&place.freehold(&["signer", "remove", "ann-2", "--yes"]));
            sets.push(thief.known().signers.quorum.keys());
        }
        for (goes, comes) in cast.replaced() {
            stolen.push(thief.signer_of(goes));
            succeeded(&place.freehold(&["signer", "replace", goes, comes, "--unprotected", "--yes"]));
            sets.push(thief.known().signers.quorum.keys());
        }
        let honest = sets.last().unwrap().clone();
        let signers = thief.known().signers.quorum.signers().iter().map(|signer| signer.name.to_string()).collect();
        let used_up = place.code(&["--name", "web-1"]);
        succeeded(&place.join("web-1", &used_up));
        let revoked = place.invite(&["--uses", "5"]);
        succeeded(&place.freehold(&["invite", "revoke", &text(&revoked, "id"), "--yes"]));
        let uses = LOOSE.to_string();
        let loose = place.invite(&["--uses", &uses, "--name", "loose-*", "--at", "vps"]);
        let door = place.invite(&["--uses", "5", "--name", "door-*", "--at", "vps", "--approval", "human"]);
        // Machines ask it before the other.
        succeeded(&place.freehold(&["gateway", "move", "vps", "--no-wait"]));
        two.settle();
        assert_eq!(vps.stop(), Some(0));
        let org = thief.known().org();
        let voice = trials::attack::intruder::Intruder::at(place.scope("vps").join("gateway")).voice();
        let mandates = thief.known().head.head.mandates;
        let (voices, vps) = (mandates.iter().map(|mandate| mandate.voice).collect(), voice.public());
        let mut asked = thief.known().head.head.revocations;
        asked.invites.insert(text(&revoked, "id").parse::<InviteId>().unwrap());
        let codes = vec![used_up, text(&revoked, "code"), text(&loose, "code"), text(&door, "code")];
        let names = ["laptop", "vps", "web-1", "web-2"].map(|name| name.parse().unwrap()).to_vec();
        let phrases =
            if cast == Cast::Phrases { phrases[..2].iter().map(|words| key_of(words)).collect() } else { vec![] };
        let mut hand = Hand::new(org, voice, (first.as_ref(), stolen));
        (hand.codes, hand.names, hand.phrases) = (codes, names, phrases);
        let folder = GatewayFolder::of_member(&Scope { folder: place.scope("vps") });
        let liar = Some(Turncoat::serve(&folder, two.port(), Mind::new(seed, hand)));
        let mut world = Self {
            seed,
            cast,
            two,
            laptop,
            liar,
            agents: BTreeMap::new(),
            names: BTreeMap::new(),
            asked,
            suspended: BTreeSet::new(),
            sets,
            signers,
            honest,
            late: BTreeSet::new(),
            deeds: Vec::new(),
            rotations: Vec::new(),
            written: BTreeSet::new(),
            baseline: Baseline { voices, vps },
            followed: BTreeMap::new(),
            story: Vec::new(),
            dice: Dice::of(seed, "operators"),
            machines: 1,
            fleets: 0,
        };
        world.learn("vps");
        let own = Scope { folder: world.place().org().join("gateway/node") };
        world.names.insert("laptop".parse().unwrap(), own.node_key().unwrap().public().digest());
        world.settle_in("web-1");
        world
    }

    pub fn place(&self) -> &Place {
        &self.two.place
    }

    /// Whoever has this key is the one that honest people mean by the name.
    fn learn(&mut self, name: &str) {
        if let Ok(key) = (Scope { folder: self.place().scope(name) }).node_key() {
            self.names.insert(name.parse().unwrap(), key.public().digest());
        }
    }

    fn settle_in(&mut self, name: &str) {
        self.learn(name);
        let log = self.place().path(&format!("{name}.log"));
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = self.place().node_command(name, &["run", "--every", "1s"]);
        let agent = Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        self.agents.insert(name.to_owned(), agent);
    }

    /// A command of the operator at one gateway. Whatever it met, it ends in good order.
    pub fn at(&mut self, gateway: &str, words: &[&str]) -> Output {
        let told = self.place().freehold(&[words, &["--gateway", gateway]].concat());
        let code = told.status.code();
        self.story.push(format!("{} at {gateway}: {code:?} {}", words.join(" "), stderr(&told).trim()));
        assert!(!stderr(&told).contains("panicked"), "{words:?}: {}", stderr(&told));
        assert!(matches!(code, Some(0..=5)), "{words:?} ended with {code:?}: {}", stderr(&told));
        told
    }

    /// At the honest gateway, where operators get their way, though they may have to look again.
    pub fn at_home(&mut self, words: &[&str]) -> Output {
        let address = self.place().address();
        let mut told = self.at(&address, words);
        for _ in 0..3 {
            if told.status.success() {
                break;
            }
            told = self.at(&address, words);
        }
        succeeded(&told);
        told
    }

    /// Machines are started anew, and ask the liar first: whoever caught it stays with the other gateway.
    fn reboot(&mut self) {
        let names: Vec<String> = self.agents.keys().cloned().collect();
        for name in names {
            if self.dice.percent(30) {
                continue;
            }
            drop(self.agents.remove(&name));
            let _ = std::fs::remove_file(self.place().scope(&name).join("last-good.json"));
            self.settle_in(&name);
        }
    }

    /// One act of honest people, and what it may lead to.
    pub fn step(&mut self) {
        self.reboot();
        let liar = self.two.address();
        match self.dice.below(12) {
            10 | 11 => self.raid(),
            0..=2 => self.welcome(),
            3 => self.send_away(),
            4 => drop(self.at_home(&["refresh"])),
            5 => self.publish(),
            6 => {
                let told = self.at_home(&["invite", "create", "--json"]);
                let id = text(&serde_json::from_slice(&told.stdout).unwrap(), "id");
                self.asked.invites.insert(id.parse().unwrap());
                self.at_home(&["invite", "revoke", &id, "--yes"]);
            }
            // With the liar itself.
            7 => drop(self.at(&liar, &["node", "list"])),
            8 => {
                let words = self.dice.pick([&["refresh"][..], &["status"], &["invite", "create"]]);
                self.at(&liar, words);
            }
            _ => drop(self.at(&liar, &["audit", "--verify"])),
        }
    }

    /// Another machine joins, at whichever gateway it asks first.
    pub fn welcome(&mut self) {
        self.machines += 1;
        let name = format!("web-{}", self.machines);
        let told = self.at_home(&["invite", "create", "--name", &name, "--json"]);
        let code = text(&serde_json::from_slice::<Value>(&told.stdout).unwrap(), "code");
        for _ in 0..4 {
            let joined = self.place().join(&name, &code);
            self.story.push(format!("{name} joins: {:?} {}", joined.status.code(), stderr(&joined).trim()));
            assert!(!stderr(&joined).contains("panicked"), "{}", stderr(&joined));
            if joined.status.success() {
                return self.settle_in(&name);
            }
        }
        // It may have been let in without hearing of it.
        self.learn(&name);
    }

    fn send_away(&mut self) {
        let names: Vec<String> = self.agents.keys().cloned().collect();
        let Some(name) = self.dice.choose(&names).cloned() else { return };
        let key = self.names[&name.parse::<NodeName>().unwrap()];
        self.asked.node_keys.insert(key);
        self.at_home(&["node", "revoke", &name, "--yes"]);
        self.agents.remove(&name);
        self.followed.remove(&name);
    }

    pub fn publish(&mut self) {
        self.fleets += 1;
        let id = self.place().facts(&["org", "list"])[0]["org_id"].clone();
        let fleet = format!(
            "org: {{name: harbor, id: {id}}}
users: {{ann: {{roles: operator, nodes: laptop}}}}
roles: {{operator: {{allow: pages}}}}
groups: [pages]
nodes: {{laptop: {{address: \"@PEERS@\", relay: true}}}}
classes: {{web: {{match: web-*, files: {{motd: {{content: \"day {}\"}}}}}}}}
services: {{wiki: {{at: laptop, addr: \"127.0.0.1:8080\", groups: pages}}}}
",
            self.fleets
        );
        self.place().write_fleet(&fleet);
        self.at_home(&["publish", "--yes", "--no-wait"]);
    }

    fn silence(&mut self) {
        let Some(liar) = self.liar.take() else { return };
        self.written = liar.by_hand(|hand| hand.written.clone());
        self.story.extend(liar.told().into_iter().map(|lie| format!("lie: {lie}")));
    }

    /// The truth is told again: the liar is removed, or its machine is mended.
    pub fn mend(&mut self) -> Option<Running> {
        self.asked.voices.insert(self.baseline.vps);
        if self.dice.percent(50) {
            self.at_home(&["gateway", "remove", "vps", "--yes"]);
            self.silence();
            return None;
        }
        self.silence();
        let vps = self.two.serve_vps();
        until("its voice is closed, or nothing was wrong with it", || self.reopen("vps"));
        Some(vps)
    }

    /// What a gateway wrote in two ways, or told of and cannot show, ends with its voice. True if that is so, or nothing was wrong.
    pub fn reopen(&mut self, gateway: &str) -> bool {
        let address = if gateway == "vps" && self.liar.is_none() { self.two.address() } else { self.place().address() };
        let told = self.at(&address, &["gateway", "reopen", gateway, "--yes"]);
        let mandates = Thief::of(self.place()).known().head.head.mandates;
        self.baseline.voices.extend(mandates.iter().filter(|it| it.gateway.as_str() == gateway).map(|it| it.voice));
        told.status.success() || stderr(&told).contains("nothing is wrong")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}: SEED={} LIES=1 plays it again. What was done:", self.seed, self.seed);
            self.silence();
            self.story.iter().for_each(|line| eprintln!("  {line}"));
        }
    }
}

/// The first gateway, with what it logs in a file.
pub fn serve(place: &Place) -> Running {
    let (listen, log) =
        (place.address(), File::options().create(true).append(true).open(place.path("laptop.log")).unwrap());
    let mut command = place.freehold_command(&["serve", "--json", "--listen", &listen]);
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"ready\""), "the gateway did not start: {line}");
    Running(child)
}
