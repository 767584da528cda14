//! The suspensions that a node, or a gateway, knows of, each with its first sight: one file, written whole.

use std::path::{Path, PathBuf};

use ground::clock;
use identity::causes::describe;
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::Sign as _;
use org::suspend::suspended::{Suspended, Suspensions};
use wire::known::Known;

use crate::store::scope::{Scope, ScopeError, read_json, write_json};

const NAME: &str = "suspensions.json";

pub(crate) fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// What cannot be read is told, and comes anew from whoever is asked next: its own dates end it in any case.
pub fn load(folder: &Path) -> Suspensions {
    let read = read_json(&path(folder)).unwrap_or_else(|why| {
        tracing::error!(why = describe(&why), "which machines are suspended is forgotten until somebody tells it anew");
        None
    });
    read.unwrap_or_default()
}

pub fn save(folder: &Path, suspensions: &Suspensions) -> Result<(), ScopeError> {
    write_json(&path(folder), suspensions)
}

/// What somebody handed over: on disk before anybody is stopped by it. True if it says something new.
pub(crate) fn take(scope: &Scope, known: &Known, handed: &[Envelope]) -> Result<bool, ScopeError> {
    let mut all = load(&scope.folder);
    let now = clock::now();
    let is_new = all.take(known.heeded(handed, now), &known.signers, known.now(now));
    if is_new {
        save(&scope.folder, &all)?;
    }
    Ok(is_new)
}

/// The mark of all that are known here.
pub(crate) fn mark(scope: &Scope) -> Option<Digest> {
    load(&scope.folder).mark()
}

/// Who stopped this very machine, if somebody did.
pub(crate) fn own(scope: &Scope, known: &Known) -> Result<Option<Suspended>, ScopeError> {
    let stopped = load(&scope.folder).stopped(&known.signers);
    let node_key = scope.node_key()?.public().digest();
    Ok(stopped.of(node_key, known.now(clock::now())).cloned())
}

#[cfg(test)]
mod tests {
    use identity::time::Seconds;
    use org::suspend::Suspension;

    use super::*;
    use crate::scene::{self, founding, scope, sealed};

    #[test]
    fn a_suspension_is_on_disk_with_its_first_sight_and_a_damaged_file_stops_nothing_for_longer() {
        let (_root, scope) = scope();
        let founding = founding();
        let known = scene::known(&founding, &scene::head(&founding));
        let node_key = scope.node_key().unwrap().public().digest();
        let now = known.now(clock::now());
        let body = Suspension {
            node_key,
            name: "web-1".parse().unwrap(),
            at: now,
            until: now + Seconds::HOUR,
            reason: "odd".to_owned(),
        };
        assert_eq!(own(&scope, &known).unwrap(), None);
        for by in ["eve", "ann"] {
            assert_eq!(take(&scope, &known, &[sealed(&founding, &body, by)]).unwrap(), by == "ann");
        }
        let told = own(&scope, &known).unwrap().unwrap();
        assert_eq!((told.by.as_str(), told.until), ("ann", now + Seconds::HOUR));
        let written = std::fs::read(path(&scope.folder)).unwrap();
        assert!(!take(&scope, &known, &[sealed(&founding, &body, "ann")]).unwrap());
        assert_eq!(std::fs::read(path(&scope.folder)).unwrap(), written);
        std::fs::write(path(&scope.folder), "{").unwrap();
        assert_eq!(own(&scope, &known).unwrap(), None);
        assert!(take(&scope, &known, &[sealed(&founding, &body, "ann")]).unwrap());
        assert_eq!(own(&scope, &known).unwrap().map(|told| told.until), Some(now + Seconds::HOUR));
    }
}
