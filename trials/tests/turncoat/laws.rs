//! What holds at every moment, whatever a gateway says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ground::clock;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::NodeName;
use ledger::store::Ledger;
use org::state::State;
use serde_json::Value;
use trials::place::text;
use wire::known::{Known, KnownFile};

use super::world::{LOOSE, World};

/// What one liar did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub lies: usize,
    pub entries: usize,
    pub forks: usize,
    /// Of roots: begun by people, and carried through in the end.
    pub rotations: [usize; 2],
}

/// Places of a chain that more than one entry claims.
pub fn forked(state: &State, voice: &PublicKey) -> usize {
    let mut places: BTreeMap<u64, usize> = BTreeMap::new();
    for written in state.replica.chains.get(voice).into_iter().flat_map(BTreeMap::values) {
        *places.entry(written.seq).or_default() += 1;
    }
    places.values().filter(|claims| **claims > 1).count()
}

impl World {
    pub fn check(&mut self) {
        self.nobody_went_back();
        let gateway = self.ledger();
        let home = self.place().org().join("operator/replica/ledger.db");
        for (whose, path) in [("the honest gateway", gateway), ("the home", home)] {
            if path.exists() {
                self.check_state(whose, &self.read(&path));
            }
        }
        self.everybody_lives();
    }

    /// Of the honest gateway.
    pub fn ledger(&self) -> PathBuf {
        self.place().org().join("gateway/ledger.db")
    }

    pub fn read(&self, path: &Path) -> State {
        let copy = self.place().path("copy.db");
        let _ = std::fs::remove_file(&copy);
        Ledger::snapshot(path, &copy).unwrap();
        let (ledger, founding) = Ledger::open(&copy).unwrap();
        ledger.state(&founding, clock::now()).unwrap()
    }

    /// How much there was to withstand, as the honest gateway has it in the end.
    pub fn tally(&self) -> Tally {
        let state = self.read(&self.ledger());
        let lies = self.story.iter().filter(|line| line.starts_with("lie: ")).count();
        let chain = state.replica.chains.get(&self.baseline.vps);
        let entries = chain.into_iter().flatten().filter(|(digest, _)| self.written.contains(digest)).count();
        let forks = forked(&state, &self.baseline.vps);
        let loose = state.members.names().filter(|name| !self.names.contains_key(*name)).count();
        let (seed, cast, heads) = (self.seed, self.cast, state.replica.heads.len());
        eprintln!(
            "seed {seed}, {cast:?}: {lies} lies; {entries} entries of its own, {forks} forks, {heads} heads, {loose} names of its own; \
             {:?}, {} sets of signers, {:?} rotations begun and done",
            self.deeds,
            self.sets.len(),
            self.rotated()
        );
        Tally { lies, entries, forks, rotations: self.rotated() }
    }

    /// A machine's head never falls, and what it knows to be revoked stays so.
    fn nobody_went_back(&mut self) {
        let nodes: Vec<String> = self.agents.keys().cloned().collect();
        for node in nodes {
            let known = self.known(&node);
            let (signers, head) = (known.signers.version, &known.head.head);
            let asked = self.names.values().filter(|key| self.asked.node_keys.contains(key));
            let revoked: BTreeSet<Digest> =
                asked.filter(|key| head.revocations.node_keys.contains(key)).copied().collect();
            let now = ((signers, head.version), revoked);
            if let Some(before) = self.followed.get(&node) {
                assert!(before.0 <= now.0, "`{node}` went back from head {:?} to {:?}", before.0, now.0);
                assert!(before.1.is_subset(&now.1), "`{node}` forgot that somebody was revoked");
            }
            self.only_what_was_asked(&format!("`{node}`"), head);
            self.nobody_else_is_suspended(&node);
            self.followed.insert(node, now);
        }
    }

    pub fn known(&self, node: &str) -> Known {
        let path = self.place().scope(node).join("known.json");
        let file: KnownFile = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        Known::from_file(file).unwrap()
    }

    fn check_state(&self, whose: &str, state: &State) {
        for (name, key) in &self.names {
            if self.asked.node_keys.contains(key) {
                assert!(state.is_gone(*key), "{whose} forgot that `{name}` was revoked");
            }
            if let Some(holder) = state.holder(name) {
                let found = holder.claim().node_key.digest();
                assert_eq!(found, *key, "{whose}: another key holds `{name}`");
            }
        }
        let live = state.members.iter().filter(|(_, member)| member.standing.is_live());
        let live: Vec<(Digest, NodeName)> = live.map(|(key, member)| (*key, member.claim().name.clone())).collect();
        let leaves = state.leaves().into_iter().flatten();
        let leaves: Vec<(Digest, NodeName)> = leaves.map(|(name, leaf)| (leaf.node_key, name.clone())).collect();
        for (what, known) in [("a member", &live), ("listed", &leaves)] {
            let strange: Vec<_> = known.iter().filter(|(key, name)| self.names.get(name) != Some(key)).collect();
            let uninvited = strange.iter().find(|(_, name)| !name.as_str().starts_with("loose-"));
            assert!(uninvited.is_none(), "{whose}: {uninvited:?} is {what}");
            assert!(strange.len() <= LOOSE, "{whose}: more than {LOOSE} came by one invite: {strange:?}");
        }
        let (version, keys) = (state.signer_set().version, state.signer_set().quorum.keys());
        let (count, own) = (self.sets.len() as u64, self.sets.last().unwrap());
        assert!(version == count && keys == *own, "{whose}: other signers: set {version} of {keys:?}");
        assert_eq!(state.head().map(|record| record.head.signers.version), Some(count), "{whose}: their head");
        assert!(!state.is_frozen(), "{whose} is frozen");
        let signed = state.replica.heads.values();
        for record in signed.filter(|record| !record.envelope.signers_among(&self.honest).is_empty()) {
            self.only_what_was_asked(whose, &record.head);
        }
    }

    /// The word of whoever signed before anybody lied stops nobody, and who signs now stopped whom people meant.
    fn nobody_else_is_suspended(&self, node: &str) {
        let file = std::fs::read(self.place().scope(node).join("suspensions.json")).unwrap_or_else(|_| b"[]".to_vec());
        let sights: Vec<Value> = serde_json::from_slice(&file).unwrap();
        for sight in sights.iter().filter(|sight| !self.late.contains(&text(sight, "signer").parse().unwrap())) {
            let target: Digest = text(sight, "target").parse().unwrap();
            assert!(self.suspended.contains(&target), "`{node}`: {sight} suspends whom nobody meant");
        }
    }

    /// Nothing stands in what operators signed that none of them asked for.
    fn only_what_was_asked(&self, whose: &str, head: &identity::head::Head) {
        let (lines, asked) = (&head.revocations, &self.asked);
        let version = head.version;
        assert!(lines.node_keys.beyond(&asked.node_keys).next().is_none(), "{whose}: head {version} revokes a machine");
        assert!(lines.invites.beyond(&asked.invites).next().is_none(), "{whose}: head {version} revokes an invite");
        assert!(lines.voices.beyond(&asked.voices).next().is_none(), "{whose}: head {version} closes a voice");
        assert!(lines.principals.beyond(&asked.principals).next().is_none(), "{whose}: head {version} ends a name");
        let strange = head.mandates.iter().find(|mandate| !self.baseline.voices.contains(&mandate.voice));
        assert!(strange.is_none(), "{whose}: head {version} mandates {strange:?}");
    }

    fn everybody_lives(&mut self) {
        let ended = |running: &mut trials::place::Running| running.0.try_wait().unwrap();
        let over = ended(self.laptop.as_mut().unwrap());
        assert_eq!(over, None, "the honest gateway ended: {}", self.log("laptop"));
        let nodes: Vec<String> = self.agents.keys().cloned().collect();
        for node in &nodes {
            let over = ended(self.agents.get_mut(node).unwrap());
            assert_eq!(over, None, "the agent of `{node}` ended: {}", self.log(node));
        }
        for who in nodes.iter().map(String::as_str).chain(["laptop"]) {
            assert!(!self.log(who).contains("panicked"), "`{who}`: {}", self.log(who));
        }
    }

    pub fn log(&self, who: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.place().path(&format!("{who}.log"))).unwrap_or_default()).into()
    }
}
