//! What honest people do seldom, and to the whole: other signers, another root, a machine stopped, a gateway out of a backup.

use identity::head::TrustState;
use identity::key::{PublicKey, Sign as _};
use trials::attack::intruder::Intruder;
use trials::attack::thief::Thief;
use trials::place::{stderr, until};

use super::world::{Cast, World, serve};
use crate::gateways::restored::put_back;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    Signers,
    Rotate,
    Suspend,
    Restore,
}

impl World {
    pub fn deed(&mut self, nth: u64) {
        let deed = match nth % 4 {
            0 => Deed::Signers,
            1 => Deed::Rotate,
            2 => Deed::Suspend,
            _ => Deed::Restore,
        };
        self.deeds.push(deed);
        match deed {
            Deed::Signers => self.other_signers(),
            Deed::Rotate => self.rotate(),
            Deed::Suspend => self.suspend(),
            Deed::Restore => self.restore(),
        }
    }

    /// The signer who came last goes. Where one key is not the threshold, the liar has it from then on.
    fn other_signers(&mut self) {
        let goes = self.signers.pop().unwrap();
        let comes = format!("dot-{}", self.sets.len());
        let former = Thief::of(self.place()).signer_of(&goes);
        let key = former.public();
        self.at_home(&["signer", "replace", &goes, &comes, "--unprotected", "--yes"]);
        let new = Thief::of(self.place()).signer_of(&comes).public();
        self.signers.push(comes);
        self.came(|keys| keys.remove(&key) && keys.insert(new));
        self.honest.insert(new);
        if let (Some(liar), false) = (&self.liar, self.cast == Cast::OneOfTwo) {
            liar.by_hand(|hand| hand.former.push(former));
            self.honest.remove(&key);
            self.late.insert(key);
        }
    }

    fn came(&mut self, change: impl FnOnce(&mut std::collections::BTreeSet<PublicKey>) -> bool) {
        let mut keys = self.sets.last().unwrap().clone();
        assert!(change(&mut keys), "no other set: {keys:?}");
        self.sets.push(keys);
    }

    /// As far as it goes: a gateway that lies may hold it up, while it is there.
    fn rotate(&mut self) {
        let (address, domain) = (self.place().address(), self.dice.pick(["endpoint", "identity"]));
        self.rotations.push((domain, self.version_in_use(domain)));
        self.at(&address, &["rotate", domain, "--no-wait", "--grace", "30d"]);
        self.at(&address, &["rotate", domain, "--continue", "--wait", "5s", "--grace", "30d"]);
    }

    fn version_in_use(&self, domain: &str) -> u64 {
        let lines = Thief::of(self.place()).known().head.head.trust;
        let in_use = lines.iter().find(|line| line.domain.word() == domain && line.state == TrustState::Active);
        in_use.unwrap().version
    }

    /// How many rotations people began, and how many roots another one has followed.
    pub fn rotated(&self) -> [usize; 2] {
        let turned = self.rotations.iter().filter(|(domain, before)| self.version_in_use(domain) > *before);
        [self.rotations.len(), turned.count()]
    }

    /// Nobody holds it up any more. Whoever does not run is left behind by name: machines of the liar's own, and the liar itself where
    /// it was removed.
    pub fn finish_rotations(&mut self, mended: bool) {
        let address = self.place().address();
        for (domain, before) in self.rotations.clone() {
            until(&format!("`{domain}` has another root than that of version {before}"), || {
                let state = self.read(&self.ledger());
                let live = state.members.values().filter(|member| member.standing.is_live());
                let runs = |name: &str| self.agents.contains_key(name) || name == "laptop" || mended && name == "vps";
                let away = live.map(|member| &member.claim().name).filter(|name| !runs(name.as_str()));
                let anyway: Vec<String> = away.map(|name| format!("--anyway={name}")).collect();
                let words = ["rotate", domain, "--wait", "5s", "--grace", "30d", "--yes"];
                let words: Vec<&str> = words.into_iter().chain(anyway.iter().map(String::as_str)).collect();
                self.version_in_use(domain) > before || {
                    self.at(&address, &words);
                    self.version_in_use(domain) > before
                }
            });
        }
    }

    fn suspend(&mut self) {
        let names: Vec<String> = self.agents.keys().cloned().collect();
        let Some(name) = self.dice.choose(&names).cloned() else { return };
        self.suspended.insert(self.names[&name.parse().unwrap()]);
        self.at_home(&["suspend", &name, "--for", "12s", "--yes"]);
    }

    /// The first gateway's disk is lost: what the backup does not have, the home has.
    fn restore(&mut self) {
        self.at_home(&["node", "list"]);
        let voice = Intruder::at(self.place().org().join("gateway")).voice().public();
        self.asked.voices.insert(voice);
        drop(self.laptop.take());
        put_back(self.place(), "backup");
        self.laptop = Some(serve(self.place()));
        until("the first gateway goes on in another voice", || self.reopen("laptop"));
    }

    /// Whoever has the phrases may have begun a recovery: the signers, who are there, stop it.
    pub fn stop_recovery(&mut self) {
        let address = self.place().address();
        let told = self.at(&address, &["recover", "--cancel", "--yes"]);
        if told.status.success() {
            self.came(|_| true);
        } else {
            assert!(stderr(&told).contains("no recovery waits"), "{}", stderr(&told));
        }
    }
}
