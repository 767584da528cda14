//! What a damaged file is worth to its reader. An SVID, or what a gateway tells again: as much as none, until there is another.

use std::io::ErrorKind;

use ground::file::FileError;
use identity::causes::describe;
use serde::de::DeserializeOwned;

use super::{Scope, ScopeError, Seat, Svid};

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
    pub(crate) fn is_damage(&self) -> bool {
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
