//! What the machine was given and told, unless it is older than the first release: that is said, and is no damage.

use ground::clock;
use ground::steady::Steady;
use identity::envelope::{Envelope, Payload as _};
use org::ledger::entry::Entry;
use wire::known::{BadKnowledge, Known, KnownFile};

use super::{Scope, ScopeError};

impl Scope {
    /// A gateway's entry is the admission: before the first release it was an object of its own.
    pub fn admission(&self) -> Result<Option<Envelope>, ScopeError> {
        let admission: Option<Envelope> = self.read_json("admission.json")?;
        match admission {
            Some(other) if other.kind() != Entry::KIND => Err(self.older("admission.json")),
            admission => Ok(admission),
        }
    }

    pub fn known(&self) -> Result<Option<Known>, ScopeError> {
        let file: Option<KnownFile> = self.read_json("known.json")?;
        let known = file.map(Known::from_file).transpose().map_err(|why| match why {
            BadKnowledge::Older => self.older("known.json"),
            why => ScopeError::Knowledge(why),
        })?;
        Ok(known.map(|known| self.timed(known)))
    }

    /// With how far this machine's clock has jumped until now: no delay ends by that.
    pub fn timed(&self, known: Known) -> Known {
        let ahead = Steady::of(&self.folder).ahead(known.now(clock::now()));
        known.ahead_by(ahead)
    }

    fn older(&self, name: &str) -> ScopeError {
        ScopeError::Older { path: self.path(name) }
    }
}

#[cfg(test)]
mod tests {
    use identity::key::Sign as _;
    use org::invite::admission::Leave;

    use super::*;
    use crate::scene::{self, NOW, scope};

    #[test]
    fn what_is_older_than_the_first_release_is_said_to_be_so() {
        let (_root, scope) = scope();
        let founding = scene::founding();
        let known = scene::known(&founding, &scene::head(&founding));
        scope.save_known(&known).unwrap();
        assert!(scope.known().unwrap().is_some() && scope.admission().unwrap().is_none());
        scope.write_json("known.json", &KnownFile { schema: 1, ..known.to_file() }).unwrap();
        let key = scope.node_key().unwrap().public();
        let other = Envelope::seal(Some(founding.id), &Leave { node_key: key, at: NOW }).unwrap();
        scope.save_admission(&other).unwrap();
        for why in [scope.known().unwrap_err(), scope.admission().unwrap_err()] {
            assert!(matches!(why, ScopeError::Older { .. }), "{why}");
            assert!(why.to_string().contains("`freehold-node leave --local`, then `freehold-node join`"), "{why}");
        }
    }
}
