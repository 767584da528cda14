//! What a node keeps for its tunnel: its place in the members' map, keys that were met, ports that were had, passwords, and
//! the log of who opened what.

pub(crate) mod log;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use ground::file::{self, FileAccess};
use ground::random;
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::Sign as _;
use identity::members::Listing;
use identity::principal::{Name, NodeName, OrgName};
use org::member::peer::Presented;
use serde::{Deserialize, Serialize};
use tunnel::access::pins;
use tunnel::control::listener::ListenerId;
use tunnel::local::pointers;
use wire::known::Known;
use zeroize::Zeroizing;

use crate::store::scope::{Scope, ScopeError, read_json, write_json};

const PLACE: &str = "listing.json";
const MET: &str = "tunnel.json";
const SOCKS: &str = "socks";
const POINTERS: &str = "tunnel";

/// The newest head by which this node was shown its place, and the place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlaceFile {
    schema: u32,
    by: Envelope,
    listing: Option<Listing>,
}

/// Keys by the name under which they were met first, and ports that were had.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Met {
    pub schema: u32,
    pub pins: BTreeMap<NodeName, Digest>,
    pub ports: BTreeMap<ListenerId, SocketAddr>,
}

impl Met {
    /// What cannot be read is forgotten: keys are met again, and ports are bound again.
    pub(crate) fn load(scope: &Scope) -> Self {
        read_json(&scope.path(MET))
            .unwrap_or_else(|why| {
                tracing::error!(%why, "what the tunnel met before is forgotten");
                None
            })
            .unwrap_or_else(|| Self { schema: 1, ..Self::default() })
    }

    pub(crate) fn save(&self, scope: &Scope) -> Result<(), ScopeError> {
        write_json(&scope.path(MET), self)
    }

    /// A key that was judged, under a name that is its own from now on.
    pub(crate) fn pin(&mut self, name: NodeName, node_key: Digest) {
        if self.pins.contains_key(&name) || self.pins.len() < pins::MOST {
            self.pins.insert(name, node_key);
        }
    }

    /// Keys that are of no use to anybody any more.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&Digest) -> bool) {
        self.pins.retain(|_, key| !is_gone(key));
    }
}

/// Keeps what was checked: how a head in force lists this node. What cannot be written is asked for again.
pub(crate) fn keep_place(scope: &Scope, known: &Known, listing: Option<&Listing>) {
    let place = PlaceFile { schema: 1, by: known.head_envelope.clone(), listing: listing.cloned() };
    let kept = || -> Result<(), ScopeError> {
        let path = scope.path(PLACE);
        if read_json::<PlaceFile>(&path).ok().flatten().as_ref() != Some(&place) {
            write_json(&path, &place)?;
        }
        Ok(())
    };
    if let Err(why) = kept() {
        tracing::warn!(%why, "this node's place in the members' map could not be written down");
    }
}

/// What this node shows of itself to others; nothing while it was never shown its place.
pub(crate) fn presented(scope: &Scope) -> Result<Option<Presented>, ScopeError> {
    let Some(PlaceFile { by, listing, .. }) = read_json(&scope.path(PLACE))? else {
        return Ok(None);
    };
    let own_key = scope.node_key()?.public().digest();
    let is_named = matches!(&listing, Some(Listing::Own { leaf, .. }) if leaf.node_key == own_key);
    let admission = if is_named { None } else { scope.admission()? };
    Ok(Some(Presented { by, listing, admission }))
}

/// A password for each of these users, made once, in files that only they should be given. Others' are wiped. One that
/// cannot be read or made is one user without, and why.
pub(crate) fn passwords(scope: &Scope, users: &BTreeSet<Name>) -> (BTreeMap<Name, Digest>, BTreeMap<Name, ScopeError>) {
    for entry in fs::read_dir(scope.path(SOCKS)).into_iter().flatten().flatten() {
        let name = entry.file_name().to_str().and_then(|name| name.parse::<Name>().ok());
        if name.is_none_or(|name| !users.contains(&name))
            && let Err(why) = file::wipe(&entry.path())
        {
            // It opens nothing: nobody has it on record.
            tracing::warn!(%why, "the password of somebody who is no longer here was not wiped");
        }
    }
    let (mut digests, mut failed) = (BTreeMap::new(), BTreeMap::new());
    for user in users {
        match password(scope, user) {
            Ok(digest) => drop(digests.insert(user.clone(), digest)),
            Err(why) => drop(failed.insert(user.clone(), why)),
        }
    }
    (digests, failed)
}

fn password(scope: &Scope, user: &Name) -> Result<Digest, ScopeError> {
    let path = password_file(scope, user);
    if path.exists() {
        let token = file::read_secret(&path)?;
        // Half of one, or nothing, would be easy to guess.
        if std::str::from_utf8(token.trim_ascii()).is_ok_and(|token| token.parse::<Digest>().is_ok()) {
            return Ok(Digest::of(token.trim_ascii()));
        }
        tracing::error!(user = %user, "this user's password for SOCKS is damaged: it is made anew");
    }
    file::make_private_folder(&scope.path(SOCKS))?;
    let token = Zeroizing::new(random::bytes::<32>()?);
    // A digest of what is random is as random, and is written in plain letters.
    let text = Zeroizing::new(format!("{}\n", Digest::of(token.as_slice())));
    file::write(&path, text.as_bytes(), FileAccess::Private)?;
    Ok(Digest::of(text.trim().as_bytes()))
}

pub(crate) fn password_file(scope: &Scope, user: &Name) -> PathBuf {
    scope.path(SOCKS).join(user.as_str())
}

/// Texts for browsers and for systemd-resolved, beside the keys and readable by the same user.
pub(crate) fn write_pointers(
    scope: &Scope,
    org: &OrgName,
    at: &BTreeMap<ListenerId, SocketAddr>,
) -> Result<(), ScopeError> {
    let folder = scope.path(POINTERS);
    file::make_private_folder(&folder)?;
    if let Some(socks) = at.get(&ListenerId::Socks) {
        file::write(&folder.join("proxy.pac"), pointers::pac(org, *socks).as_bytes(), FileAccess::Private)?;
    }
    if let Some(resolver) = at.get(&ListenerId::Resolver) {
        file::write(&folder.join("resolved.conf"), pointers::resolved(org, *resolver).as_bytes(), FileAccess::Private)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::scope;

    #[test]
    fn a_password_is_made_once_and_goes_with_its_user() {
        let (_root, scope) = scope();
        let (ann, bob): (Name, Name) = ("ann".parse().unwrap(), "bob".parse().unwrap());
        let both = passwords(&scope, &[ann.clone(), bob.clone()].into()).0;
        assert_ne!(both[&ann], both[&bob]);
        let alone = passwords(&scope, &[ann.clone()].into()).0;
        assert_eq!(alone, [(ann.clone(), both[&ann])].into());
        assert!(!password_file(&scope, &bob).exists());
        let said = fs::read_to_string(password_file(&scope, &ann)).unwrap();
        assert_eq!(Digest::of(said.trim().as_bytes()), both[&ann]);
        let again = passwords(&scope, &[ann.clone(), bob.clone()].into()).0;
        assert_ne!(again[&bob], both[&bob]);
    }

    #[test]
    fn one_password_that_cannot_be_had_is_one_user_without() {
        let (_root, scope) = scope();
        let (ann, bob): (Name, Name) = ("ann".parse().unwrap(), "bob".parse().unwrap());
        let both = [ann.clone(), bob.clone()].into();
        passwords(&scope, &both);
        fs::remove_file(password_file(&scope, &ann)).unwrap();
        fs::create_dir(password_file(&scope, &ann)).unwrap();
        let (digests, failed) = passwords(&scope, &both);
        assert_eq!(digests.into_keys().collect::<Vec<_>>(), [bob]);
        assert_eq!(failed.into_keys().collect::<Vec<_>>(), [ann]);
    }

    #[test]
    fn a_password_that_is_damaged_is_made_anew_and_never_easy_to_guess() {
        let (_root, scope) = scope();
        let ann: Name = "ann".parse().unwrap();
        let made = |scope: &Scope| passwords(scope, &[ann.clone()].into()).0[&ann];
        let first = made(&scope);
        for broken in ["", "a1b2c3\n", "\0"] {
            file::write(&password_file(&scope, &ann), broken.as_bytes(), FileAccess::Private).unwrap();
            let next = made(&scope);
            assert!(next != first && next != Digest::of(broken.trim().as_bytes()), "{broken:?}");
            assert_eq!(made(&scope), next);
        }
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered_and_who_was_revoked_is_forgotten() {
        let (_root, scope) = scope();
        let mut met = Met::load(&scope);
        let (one, other) = (Digest([1; 32]), Digest([2; 32]));
        for n in 0..pins::MOST {
            met.pin(format!("web-{n}").parse().unwrap(), if n % 2 == 0 { one } else { other });
        }
        met.pin("late".parse().unwrap(), one);
        assert!(!met.pins.contains_key(&"late".parse::<NodeName>().unwrap()));
        met.forget(|key| *key == other);
        assert_eq!(met.pins.len(), pins::MOST / 2);
        met.save(&scope).unwrap();
        assert_eq!(Met::load(&scope), met);
    }
}
