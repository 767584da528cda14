//! What a node keeps for its tunnel: its place in the members' map, keys that were met, ports that were had, passwords, and
//! the log of who opened what.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use ground::file::{self, Access};
use ground::random;
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::Sign as _;
use identity::members::Listing;
use identity::principal::{Name, NodeName, OrgName};
use org::peer::Presented;
use serde::{Deserialize, Serialize};
use tunnel::orders::Place;
use tunnel::ways::pointers;
use wire::known::Known;
use zeroize::Zeroizing;

use crate::store::scope::{Scope, ScopeError, read_json, write_json};

const PLACE: &str = "listing.json";
const MET: &str = "tunnel.json";
const SOCKS: &str = "socks";
const POINTERS: &str = "tunnel";
const LOG: &str = "access.log";
/// One old log is kept beside it.
const OLD_LOG: &str = "access.log.1";
const LONGEST_LOG: u64 = 16 << 20;
/// Names whose first key is remembered. Whoever is listed needs none of this.
const PINS: usize = 20_000;

/// The newest head by which this node was shown its place, and the place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceFile {
    schema: u32,
    by: Envelope,
    listing: Option<Listing>,
}

/// Keys by the name under which they were met first, and ports that were had.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Met {
    pub schema: u32,
    pub pins: BTreeMap<NodeName, Digest>,
    pub ports: BTreeMap<Place, SocketAddr>,
}

impl Met {
    /// What cannot be read is forgotten: keys are met again, and ports are bound again.
    pub fn load(scope: &Scope) -> Self {
        read_json(&scope.path(MET))
            .unwrap_or_else(|why| {
                tracing::error!(%why, "what the tunnel met before is forgotten");
                None
            })
            .unwrap_or_else(|| Self { schema: 1, ..Self::default() })
    }

    pub fn save(&self, scope: &Scope) -> Result<(), ScopeError> {
        write_json(&scope.path(MET), self)
    }

    /// The first key under a name stays until the operators publish another. Says whether that is news.
    pub fn pin(&mut self, name: NodeName, node_key: Digest) -> bool {
        if self.pins.get(&name) == Some(&node_key) || !self.pins.contains_key(&name) && self.pins.len() >= PINS {
            return false;
        }
        self.pins.insert(name, node_key);
        true
    }
}

/// Keeps what was checked: how a head in force lists this node. What cannot be written is asked for again.
pub fn keep_place(scope: &Scope, known: &Known, listing: Option<&Listing>) {
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
pub fn presented(scope: &Scope) -> Result<Option<Presented>, ScopeError> {
    let Some(PlaceFile { by, listing, .. }) = read_json(&scope.path(PLACE))? else {
        return Ok(None);
    };
    let own_key = scope.node_key()?.public().digest();
    let is_named = matches!(&listing, Some(Listing::Own { leaf, .. }) if leaf.node_key == own_key);
    let admission = if is_named { None } else { scope.admission()? };
    Ok(Some(Presented { by, listing, admission }))
}

/// A password for each of these users, made once, in files that only they should be given. Others' are wiped.
pub fn passwords(scope: &Scope, users: &BTreeSet<Name>) -> Result<BTreeMap<Name, Digest>, ScopeError> {
    let folder = scope.path(SOCKS);
    if !users.is_empty() {
        file::make_private_folder(&folder)?;
    }
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_str().and_then(|name| name.parse::<Name>().ok());
        if name.is_none_or(|name| !users.contains(&name)) {
            file::wipe(&entry.path())?;
        }
    }
    let mut digests = BTreeMap::new();
    for user in users {
        let path = password_file(scope, user);
        if !path.exists() {
            let token = Zeroizing::new(random::bytes::<32>()?);
            // A digest of what is random is as random, and is written in plain letters.
            let text = Zeroizing::new(format!("{}\n", Digest::of(token.as_slice())));
            file::write(&path, text.as_bytes(), Access::Private)?;
        }
        let token = file::read_secret(&path)?;
        digests.insert(user.clone(), Digest::of(token.trim_ascii()));
    }
    Ok(digests)
}

pub fn password_file(scope: &Scope, user: &Name) -> PathBuf {
    scope.path(SOCKS).join(user.as_str())
}

/// Texts for browsers and for systemd-resolved, beside the keys and readable by the same user.
pub fn write_pointers(scope: &Scope, org: &OrgName, at: &BTreeMap<Place, SocketAddr>) -> Result<(), ScopeError> {
    let folder = scope.path(POINTERS);
    file::make_private_folder(&folder)?;
    if let Some(socks) = at.get(&Place::Socks) {
        file::write(&folder.join("proxy.pac"), pointers::pac(org, *socks).as_bytes(), Access::Private)?;
    }
    if let Some(resolver) = at.get(&Place::Resolver) {
        file::write(&folder.join("resolved.conf"), pointers::resolved(org, *resolver).as_bytes(), Access::Private)?;
    }
    Ok(())
}

/// Opened for appending, for its owner alone.
pub fn open_log(scope: &Scope) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(scope.path(LOG))
}

/// A log that is too long becomes the old one. It is copied and cut, since whoever writes it cannot open another.
pub fn rotate_log(scope: &Scope) -> io::Result<()> {
    let path = scope.path(LOG);
    if fs::metadata(&path).map_or(0, |meta| meta.len()) < LONGEST_LOG {
        return Ok(());
    }
    let old = scope.path(OLD_LOG);
    let mut to = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&old)?;
    let mut from = OpenOptions::new().read(true).write(true).open(&path)?;
    io::copy(&mut from, &mut to)?;
    from.set_len(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::scene::scope;

    #[test]
    fn a_password_is_made_once_and_goes_with_its_user() {
        let (_root, scope) = scope();
        let (ann, bob): (Name, Name) = ("ann".parse().unwrap(), "bob".parse().unwrap());
        let both = passwords(&scope, &[ann.clone(), bob.clone()].into()).unwrap();
        assert_ne!(both[&ann], both[&bob]);
        let alone = passwords(&scope, &[ann.clone()].into()).unwrap();
        assert_eq!(alone, [(ann.clone(), both[&ann])].into());
        assert!(!password_file(&scope, &bob).exists());
        let said = fs::read_to_string(password_file(&scope, &ann)).unwrap();
        assert_eq!(Digest::of(said.trim().as_bytes()), both[&ann]);
        let again = passwords(&scope, &[ann.clone(), bob.clone()].into()).unwrap();
        assert_ne!(again[&bob], both[&bob]);
    }

    #[test]
    fn a_long_log_becomes_the_old_one_and_its_writer_goes_on() {
        let (_root, scope) = scope();
        let mut log = open_log(&scope).unwrap();
        rotate_log(&scope).unwrap();
        assert!(!scope.path(OLD_LOG).exists());
        log.set_len(LONGEST_LOG).unwrap();
        rotate_log(&scope).unwrap();
        log.write_all(b"{}\n").unwrap();
        assert_eq!(fs::read(scope.path(LOG)).unwrap(), b"{}\n");
        assert_eq!(fs::metadata(scope.path(OLD_LOG)).unwrap().len(), LONGEST_LOG);
    }

    #[test]
    fn a_key_under_a_name_is_kept_and_another_takes_its_place_only_when_it_is_told() {
        let (_root, scope) = scope();
        let mut met = Met::load(&scope);
        let (name, first) = ("web-1".parse::<NodeName>().unwrap(), Digest([1; 32]));
        assert!(met.pin(name.clone(), first));
        assert!(!met.pin(name.clone(), first), "no news");
        assert!(met.pin(name.clone(), Digest([2; 32])));
        assert!(met.pin(name.clone(), first));
        met.save(&scope).unwrap();
        assert_eq!(Met::load(&scope).pins, [(name, first)].into());
    }
}
