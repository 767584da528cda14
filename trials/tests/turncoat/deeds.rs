//! What honest people do seldom, and to the whole: other signers, another root, a machine stopped, a gateway out of a backup.

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

    /// As far as it goes: a gateway that lies may hold it up.
    fn rotate(&mut self) {
        let (address, domain) = (self.place().address(), self.dice.pick(["endpoint", "identity"]));
        self.at(&address, &["rotate", domain, "--no-wait", "--grace", "30d"]);
        self.at(&address, &["rotate", domain, "--continue", "--wait", "5s", "--grace", "30d"]);
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
