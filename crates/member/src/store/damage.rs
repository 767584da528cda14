//! Which files of a scope heal when they are damaged, which stop this machine, and what lies there damaged.

use std::fs;
use std::path::PathBuf;

use identity::causes::describe;
use identity::envelope::Envelope;
use org::report::{Mark, Refused};
use org::suspend::suspended::Suspensions;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::store::scope::word::LastGood;
use crate::store::scope::{Scope, ScopeError, read_json, read_key};
use crate::store::tunnel::{Met, PlaceFile};

/// What becomes of this machine when a file of its scope is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worth {
    /// The agent forgets it, and it is written anew when there is something to say.
    Heals,
    /// The agent keeps it, and asks for another one with the next exchange.
    Renewed,
    /// Without it, nothing goes on.
    Needed,
}

/// A file that lies in a scope itself. Folders below it have their own ways: `svids/`, `trust/`, `state/`.
struct Kind {
    name: &'static str,
    worth: Worth,
    /// As whoever needs it reads it.
    read: fn(&Scope, &str) -> Result<(), ScopeError>,
}

const fn file(name: &'static str, worth: Worth, read: fn(&Scope, &str) -> Result<(), ScopeError>) -> Kind {
    Kind { name, worth, read }
}

const FILES: [Kind; 17] = [
    file("node.key", Worth::Needed, key),
    file("seal.key", Worth::Needed, |scope, _| scope.seal_secret().map(drop)),
    file("pending.key", Worth::Needed, key),
    file("node.json", Worth::Needed, |scope, _| scope.node().map(drop)),
    file("known.json", Worth::Needed, |scope, _| scope.known().map(drop)),
    // While a join is not finished.
    file("wish.json", Worth::Needed, |scope, _| scope.wish().map(drop)),
    file("waiting.key", Worth::Needed, |scope, _| scope.waiting().map(drop)),
    file("old.key", Worth::Needed, key),
    file("admission.json", Worth::Renewed, |scope, _| scope.admission().map(drop)),
    file("tip.json", Worth::Heals, json::<Envelope>),
    file("last-good.json", Worth::Heals, json::<LastGood>),
    file("refused.json", Worth::Heals, json::<Option<Refused>>),
    file("left.json", Worth::Heals, json::<Option<Mark>>),
    file("suspensions.json", Worth::Heals, json::<Suspensions>),
    // Whoever reads it begins it anew, whatever is in it.
    file("steady.json", Worth::Heals, json::<IgnoredAny>),
    file("listing.json", Worth::Heals, json::<PlaceFile>),
    file("tunnel.json", Worth::Heals, json::<Met>),
];

fn key(scope: &Scope, name: &str) -> Result<(), ScopeError> {
    read_key(&scope.path(name)).map(drop)
}

fn json<T: DeserializeOwned>(scope: &Scope, name: &str) -> Result<(), ScopeError> {
    read_json::<T>(&scope.path(name)).map(drop)
}

/// Files that nobody can read, and what becomes of them.
pub fn damaged(scope: &Scope) -> Vec<(Worth, ScopeError)> {
    let healing = healing(scope).map(|(_, why)| (Worth::Heals, why));
    let others = FILES.iter().filter(|kind| kind.worth != Worth::Heals);
    let others = others.filter_map(|kind| Some((kind.worth, harm(scope, kind.name, kind.read)?)));
    let seats = scope.uncounted_seats().into_iter().map(|why| (Worth::Needed, why));
    others.chain(healing).chain(seats).collect()
}

/// Removes what only stands in the way of what is said anew. True if there was anything.
pub(crate) fn forget(scope: &Scope) -> bool {
    let mut is_forgotten = false;
    for (path, why) in healing(scope) {
        tracing::error!(why = describe(&why), "it is forgotten, and written anew");
        match fs::remove_file(&path) {
            Ok(()) => is_forgotten = true,
            Err(why) => tracing::error!(%why, path = %path.display(), "what is damaged cannot be removed"),
        }
    }
    is_forgotten
}

fn healing(scope: &Scope) -> impl Iterator<Item = (PathBuf, ScopeError)> {
    let own = FILES.iter().filter(|kind| kind.worth == Worth::Heals);
    let own = own.filter_map(|kind| Some((scope.path(kind.name), harm(scope, kind.name, kind.read)?)));
    let tips = fs::read_dir(scope.path("tips")).into_iter().flatten().flatten();
    let tips = tips.filter_map(|entry| {
        let name = format!("tips/{}", entry.file_name().to_str()?);
        Some((entry.path(), harm(scope, &name, json::<Envelope>)?))
    });
    own.chain(tips)
}

/// What its reader says of it; nothing if it is whole, or not there.
fn harm(scope: &Scope, name: &str, read: impl Fn(&Scope, &str) -> Result<(), ScopeError>) -> Option<ScopeError> {
    if scope.path(name).exists() { read(scope, name).err().filter(ScopeError::is_damage) } else { None }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_file_that_is_damaged_is_named_with_what_becomes_of_it_and_what_heals_goes() {
        let (_root, scope) = crate::scene::scope();
        assert!(damaged(&scope).is_empty() && !forget(&scope));
        fs::create_dir(scope.path("tips")).unwrap();
        for text in ["half of it", "{\"of\": \"another kind\"}"] {
            for name in FILES.iter().map(|kind| kind.name).chain(["tips/quay.json"]) {
                ground::file::write(&scope.path(name), text.as_bytes(), ground::file::FileAccess::Private).unwrap();
            }
            let told = damaged(&scope);
            let named = |name: &str| told.iter().any(|(_, why)| why.to_string().contains(name));
            for name in FILES.iter().map(|kind| kind.name).chain(["tips/quay.json"]) {
                // A clock is begun anew by whoever reads what is known, which happened here.
                assert!(named(name) || name == "steady.json", "{name}: {told:?}");
            }
            assert!(forget(&scope));
            let left = damaged(&scope);
            assert!(left.iter().all(|(worth, _)| *worth != Worth::Heals) && left.len() == 9, "{left:?}");
        }
    }

    /// What operators read of each file is what becomes of it here.
    #[test]
    fn the_documents_tell_of_every_file_what_becomes_of_it() {
        let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/disk.md");
        let text = fs::read_to_string(at).unwrap();
        let (tree, table) = text.split_once("## What if a file of a scope is damaged?").unwrap();
        let rows: Vec<(&str, &str)> =
            table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | ")).collect();
        for Kind { name, worth, .. } in &FILES {
            let told: Vec<&str> =
                rows.iter().filter(|(files, _)| files.contains(&format!("`{name}`"))).map(|row| row.1).collect();
            let [told] = told[..] else { panic!("`{name}` stands in {} rows", told.len()) };
            let stops = ["nothing goes on", "nothing is renewed", "the join that was not finished"];
            let is_needed = stops.iter().any(|stop| told.starts_with(stop));
            assert_eq!(is_needed, *worth == Worth::Needed, "{name}: {told}");
            assert_eq!(told.contains("with the next exchange"), *worth == Worth::Renewed, "{name}: {told}");
            let is_listed = tree.split(|c: char| c.is_whitespace() || c == ',').any(|word| word == *name);
            assert!(is_listed, "`{name}` is not among the files of a scope");
        }
    }

    #[test]
    fn a_seat_whose_count_is_lost_asks_for_nothing_and_is_told() {
        let (_root, scope) = crate::scene::scope();
        let seat = scope.seat(&"spiffe://harbor/user/ann".parse().unwrap());
        for _ in 0..3 {
            seat.install(&seat.pending().unwrap(), "").unwrap();
        }
        scope.keep_seats(&[].into()).unwrap();
        let left = scope.path("principals/user-ann/left");
        assert_eq!(fs::read_to_string(&left).unwrap(), "3");
        for broken in ["", "x"] {
            fs::write(&left, broken).unwrap();
            // From 1 on it would be a second machine with this one's key.
            assert!(seat.pending().unwrap_err().is_damage());
            assert!(
                matches!(&damaged(&scope)[..], [(Worth::Needed, why)] if why.to_string().contains("user-ann/left"))
            );
        }
        fs::write(&left, "3").unwrap();
        assert_eq!((seat.pending().unwrap().counter, damaged(&scope).len()), (4, 0));
    }
}
