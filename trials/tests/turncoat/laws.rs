//! What holds at every moment, whatever a gateway says.

use std::collections::BTreeSet;
use std::path::Path;

use ground::clock;
use identity::id::Digest;
use identity::principal::NodeName;
use ledger::store::Ledger;
use org::state::State;
use wire::known::{Known, KnownFile};

use super::world::{LOOSE, World};

impl World {
    pub fn check(&mut self) {
        self.nobody_went_back();
        let gateway = self.place().org().join("gateway/ledger.db");
        let home = self.place().org().join("operator/replica/ledger.db");
        for (whose, path) in [("the honest gateway", gateway), ("the home", home)] {
            if path.exists() {
                self.check_state(whose, &self.read(&path));
            }
        }
        self.everybody_lives();
    }

    pub fn read(&self, path: &Path) -> State {
        let copy = self.place().path("copy.db");
        let _ = std::fs::remove_file(&copy);
        Ledger::snapshot(path, &copy).unwrap();
        let (ledger, founding) = Ledger::open(&copy).unwrap();
        ledger.state(&founding, clock::now()).unwrap()
    }

    /// How much there was to withstand.
    pub fn summary(&self) -> String {
        let state = self.read(&self.place().org().join("gateway/ledger.db"));
        let lies = self.story.iter().filter(|line| line.starts_with("lie: ")).count();
        let chain = state.replica.chains.get(&self.baseline.vps).map_or(0, std::collections::BTreeMap::len);
        let (forks, heads) = (state.judged.fold.forks.len(), state.replica.heads.len());
        let loose = state.members.names().filter(|name| !self.names.contains_key(*name)).count();
        let seed = self.seed;
        format!(
            "seed {seed}: {lies} lies; {chain} entries in its voice, {forks} forks, {heads} heads, {loose} names of its own"
        )
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
        assert_eq!(state.head().map(|record| record.head.signers.version), Some(2), "{whose}: other signers");
        assert!(!state.is_frozen(), "{whose} is frozen");
        let signed = state.replica.heads.values();
        for record in signed.filter(|record| !record.envelope.signers_among(&[self.baseline.signer].into()).is_empty())
        {
            self.only_what_was_asked(whose, &record.head);
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
        assert_eq!(ended(&mut self.laptop), None, "the honest gateway ended: {}", self.log("laptop"));
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
