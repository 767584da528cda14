//! What a damaged file is worth. An SVID, or what a gateway tells again: as much as none, until there is another.

use std::fs;
use std::io::ErrorKind;

use ground::file::FileError;
use identity::causes::describe;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::{Scope, ScopeError, Seat, Svid, read_json, read_key};

/// What becomes of this machine when a file of its scope is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worth {
    /// It is written anew: by the next exchange, or when it is needed.
    Heals,
    /// Without it, nothing goes on.
    Needed,
}

/// Every file that lies in a scope itself; how each is read. Folders below it have their own ways: `svids/`, `trust/`, `state/`.
pub(crate) const FILES: [(&str, Worth); 17] = [
    ("node.key", Worth::Needed),
    ("seal.key", Worth::Needed),
    ("pending.key", Worth::Needed),
    ("node.json", Worth::Needed),
    ("known.json", Worth::Needed),
    // While a join is not finished.
    ("wish.json", Worth::Needed),
    ("waiting.key", Worth::Needed),
    ("old.key", Worth::Needed),
    ("admission.json", Worth::Heals),
    ("tip.json", Worth::Heals),
    ("last-good.json", Worth::Heals),
    ("refused.json", Worth::Heals),
    ("left.json", Worth::Heals),
    ("suspensions.json", Worth::Heals),
    ("steady.json", Worth::Heals),
    ("listing.json", Worth::Heals),
    ("tunnel.json", Worth::Heals),
];

impl Scope {
    /// A file that a gateway tells again, or that only people read.
    pub(crate) fn read_or_forget<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ScopeError> {
        match self.read_json(name) {
            Err(why) if why.is_damage() => {
                tracing::error!(why = describe(&why), "it is forgotten, and written anew");
                Ok(None)
            }
            read => read,
        }
    }

    /// Files that nobody can read, and what becomes of them.
    pub fn damaged(&self) -> Vec<(Worth, ScopeError)> {
        let harmed = |name: &str| match name {
            _ if !self.path(name).exists() => None,
            "seal.key" => self.seal_secret().err(),
            "waiting.key" => self.waiting().err(),
            "known.json" => self.known().err(),
            "node.key" | "pending.key" | "old.key" => read_key(&self.path(name)).err(),
            json => read_json::<IgnoredAny>(&self.path(json)).err(),
        };
        let own = FILES.into_iter().filter_map(|(name, worth)| Some((worth, harmed(name)?)));
        let tips = fs::read_dir(self.path("tips")).into_iter().flatten().flatten();
        let tips = tips.filter_map(|entry| Some((Worth::Heals, read_json::<IgnoredAny>(&entry.path()).err()?)));
        own.chain(tips).filter(|(_, why)| why.is_damage()).collect()
    }
}

impl Seat {
    /// The SVID in use. A damaged one stays where it is, beside the next, until there is one more.
    pub fn svid(&self) -> Result<Option<Svid>, ScopeError> {
        match self.look() {
            Err(why) if why.is_damage() => Ok(None),
            looked => looked,
        }
    }
}

impl ScopeError {
    /// No reader will make anything of it. A key that others can read is another matter, and so is a disk that fails.
    fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::DamagedKey { .. } => true,
            // A certificate whose key is gone.
            Self::File(FileError::Io { source, .. }) => {
                matches!(source.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use ground::{clock, random};
    use identity::authority::Authority;
    use identity::bundle::Identity;
    use identity::certificate::Validity;
    use identity::time::Seconds;

    use super::*;

    /// What is made of an SVID with which this was done.
    fn found(harm: impl FnOnce(&Path)) -> (Result<Option<u64>, ScopeError>, u64) {
        let (_root, scope) = crate::scene::scope();
        let seat = scope.seat(&"spiffe://harbor/user/ann".parse().unwrap());
        let pending = seat.pending().unwrap();
        let (org, day) = ("harbor".parse().unwrap(), Validity::from_now(clock::now(), Seconds::DAY));
        let some = Authority::<Identity>::root(&org, &pending.key, random::serial().unwrap(), day).unwrap();
        seat.install(&pending, &some.pem()).unwrap();
        harm(&seat.folder.join("current"));
        (seat.svid().map(|svid| svid.map(|svid| svid.counter)), seat.pending().unwrap().counter)
    }

    #[test]
    fn what_is_damaged_is_none_and_the_next_one_is_counted_on() {
        let (well, next) = found(|_| {});
        assert_eq!((well.unwrap(), next), (Some(1), 2));
        let harms: [fn(&Path); 4] = [
            |at| fs::write(at.join("svid.pem"), "half of it").unwrap(),
            |at| fs::write(at.join("svid.pem"), "").unwrap(),
            |at| fs::write(at.join("svid.key"), "half of it").unwrap(),
            |at| fs::remove_file(at.join("svid.key")).unwrap(),
        ];
        for harm in harms {
            let (ill, next) = found(harm);
            assert_eq!((ill.unwrap(), next), (None, 2));
        }
    }

    #[test]
    fn each_file_that_is_damaged_is_named_with_what_becomes_of_it() {
        let (_root, scope) = crate::scene::scope();
        assert_eq!(scope.damaged().len(), 0);
        for (name, _) in FILES {
            ground::file::write(&scope.path(name), b"half of it", ground::file::FileAccess::Private).unwrap();
        }
        fs::create_dir(scope.path("tips")).unwrap();
        fs::write(scope.path("tips/quay.json"), "{").unwrap();
        let told = scope.damaged();
        let named = |name: &str| told.iter().any(|(_, why)| why.to_string().contains(name));
        for (name, _) in FILES {
            assert!(named(name), "{name}: {told:?}");
        }
        assert!(named("tips/quay.json") && told.len() == FILES.len() + 1, "{told:?}");
    }

    #[test]
    fn what_a_gateway_tells_again_is_forgotten_and_told_anew() {
        let (_root, scope) = crate::scene::scope();
        for name in ["tip.json", "last-good.json", "refused.json"] {
            fs::write(scope.path(name), "half of it").unwrap();
        }
        assert!(scope.tip().unwrap().is_none() && scope.last_good().unwrap().is_none());
        assert!(crate::store::refused::load(&scope).unwrap().is_none());
        fs::write(scope.path("node.json"), "half of it").unwrap();
        assert!(scope.node().unwrap_err().is_damage());
    }

    #[test]
    fn a_key_that_others_can_read_is_told() {
        let (told, _) = found(|at| fs::set_permissions(at.join("svid.key"), Permissions::from_mode(0o644)).unwrap());
        assert!(matches!(told, Err(ScopeError::File(FileError::NotPrivate { .. }))), "{told:?}");
    }
}
