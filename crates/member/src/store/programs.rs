//! Where programs read their SVIDs: `programs/<kind>-<name>/current` has certificate, key and roots of one moment.
//!
//! All three change with one rename of that link. Only the agent's user may write in these folders, so nobody else puts a
//! link in the way of a file that is given away.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use ground::file::{self, FileError};
use identity::id::Digest;
use identity::principal::Principal;
use identity::text::hex;
use identity::time::Timestamp;
use manifest::stored::ProgramSvid;
use org::report::ProgramTold;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::store::accounts::{self, NoAccount};
use crate::store::scope::{Scope, ScopeError, read_json, write_json};

const FOLDER: &str = "programs";
const CURRENT: &str = "current";
const RECORD: &str = "handed.json";
const RELOAD: &str = "reload.json";
const CERTIFICATE: &str = "svid.pem";
const KEY: &str = "svid.key";
const ROOTS: &str = "roots.pem";
/// Others may pass, and see no names.
const WAY: u32 = 0o711;
/// Others may look.
const OPEN: u32 = 0o755;
const READABLE: u32 = 0o644;

#[derive(Debug, thiserror::Error)]
pub(crate) enum NotHanded {
    #[error(transparent)]
    Account(#[from] NoAccount),
    #[error(
        "the agent runs as user {as_user} and may not give `{}` to {}: let it run as root (freehold-node service install), \
         or name no `owner`, and a `group` that this user is in",
        path.display(),
        owned
    )]
    NoPower { as_user: u32, path: PathBuf, owned: String },
    #[error("others cannot pass `{folder}`: chmod o+x '{folder}'", folder = .0.display())]
    NoWay(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Scope(#[from] ScopeError),
}

/// What a program reads.
#[derive(Debug, Clone)]
pub(crate) struct Handed {
    pub certificate: String,
    pub key: Zeroizing<String>,
    pub roots: String,
}

/// Whose the key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owned {
    user: Option<u32>,
    group: Option<u32>,
    mode: u32,
}

/// How the program of one principal stands with its SVID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramView {
    pub principal: Principal,
    /// Where its program reads `svid.pem`, `svid.key` and `roots.pem`.
    pub folder: PathBuf,
    pub expires_at: Timestamp,
    /// What the certificate carries beside the principal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns: Vec<String>,
    /// When its program was told of the files that lie there, if it is to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_at: Option<Timestamp>,
    /// Why it does not have it as the manifest says, or was not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<ProgramTold>,
    /// It has the files, and only the word failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untold: bool,
}

/// The last time that a program was told of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reload {
    /// Of which files, and by which words.
    pub of: Digest,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl Owned {
    pub(crate) fn by(svid: &ProgramSvid) -> Result<Self, NoAccount> {
        let user = svid.owner.as_ref().map(accounts::user).transpose()?;
        let group = svid.group.as_ref().map(accounts::group).transpose()?;
        Ok(Self { user, group, mode: svid.mode.bits() })
    }

    fn is_of(self, meta: &fs::Metadata) -> bool {
        let user = self.user.unwrap_or_else(own_user);
        let group = self.group.is_none_or(|group| meta.gid() == group);
        meta.is_file() && meta.uid() == user && group && meta.permissions().mode() & 0o7777 == self.mode
    }

    /// May whoever is to read it go through this folder?
    fn may_pass(self, meta: &fs::Metadata) -> bool {
        let mode = meta.permissions().mode();
        let owns = self.user == Some(meta.uid()) && mode & 0o100 != 0;
        owns || mode & 0o001 != 0 || (self.group == Some(meta.gid()) && mode & 0o010 != 0)
    }

    fn words(self) -> String {
        let word = |kind: &str, id: Option<u32>| id.map(|id| format!("{kind} {id}"));
        [word("user", self.user), word("group", self.group)].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError::Io { doing, path, source }
}

/// How every program stands.
pub(crate) fn views(scope: &Scope) -> Vec<ProgramView> {
    let entries = fs::read_dir(scope.path(FOLDER)).into_iter().flatten().flatten();
    let mut views: Vec<ProgramView> = entries.filter_map(|entry| view_in(&entry.path())).collect();
    views.sort_by(|a, b| a.principal.cmp(&b.principal));
    views
}

/// Each of the two files has one writer: the agent, and the task that tells a program.
fn view_in(folder: &Path) -> Option<ProgramView> {
    let view: ProgramView = read_json(&folder.join(RECORD)).ok().flatten()?;
    let reload: Option<Reload> = read_json(&folder.join(RELOAD)).ok().flatten();
    let Some(Reload { at, failed, .. }) = reload else { return Some(view) };
    Some(match failed {
        Some(why) if view.problem.is_none() => {
            let why = format!("it was not told of its new SVID: {why}");
            let problem = Some(ProgramTold { principal: view.principal.clone(), at, why });
            ProgramView { problem, untold: true, ..view }
        }
        Some(_) => view,
        None => ProgramView { told_at: Some(at), ..view },
    })
}

/// Was anything ever handed over here?
pub(crate) fn is_begun(scope: &Scope) -> bool {
    scope.path(FOLDER).exists()
}

/// Takes from programs what is theirs no longer.
pub(crate) fn keep_only<'p>(scope: &Scope, kept: impl Iterator<Item = &'p Principal>) -> Result<(), FileError> {
    let kept: Vec<PathBuf> = kept.map(|principal| Desk::of(scope, principal).folder).collect();
    for entry in fs::read_dir(scope.path(FOLDER)).into_iter().flatten().flatten() {
        if !kept.contains(&entry.path()) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            forget(&entry.path())?;
        }
    }
    Ok(())
}

fn forget(folder: &Path) -> Result<(), FileError> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            forget(&path)?;
        } else if entry.file_name() == KEY && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            file::wipe(&path)?;
        }
    }
    file::remove_folder(folder)
}

/// Where the SVID of one principal lies for its program.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    folder: PathBuf,
}

impl Desk {
    pub(crate) fn of(scope: &Scope, principal: &Principal) -> Self {
        let name = format!("{}-{}", principal.kind().word(), principal.name());
        Self { folder: scope.path(FOLDER).join(name) }
    }

    /// What a program is told to read.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn current(&self) -> PathBuf {
        self.folder.join(CURRENT)
    }

    /// What was noted of the files, without the word.
    pub(crate) fn noted(&self) -> Option<ProgramView> {
        read_json(&self.folder.join(RECORD)).ok().flatten()
    }

    pub(crate) fn reload(&self) -> Option<Reload> {
        read_json(&self.folder.join(RELOAD)).ok().flatten()
    }

    pub(crate) fn note(&self, view: &ProgramView) -> Result<(), ScopeError> {
        self.make(&self.folder)?;
        if self.noted().as_ref() == Some(view) { Ok(()) } else { write_json(&self.folder.join(RECORD), view) }
    }

    pub(crate) fn note_reload(&self, reload: &Reload) -> Result<(), ScopeError> {
        // It may have been taken away meanwhile.
        if self.folder.exists() { write_json(&self.folder.join(RELOAD), reload) } else { Ok(()) }
    }

    pub(crate) fn forget_reload(&self) -> Result<(), FileError> {
        let path = self.folder.join(RELOAD);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(io("remove", &path)(source)),
            _ => Ok(()),
        }
    }

    /// Puts all in place, unless it lies there as it should. What it is now.
    pub(crate) fn hand(&self, scope: &Scope, handed: &Handed, owned: Owned) -> Result<Digest, NotHanded> {
        self.make(&self.folder)?;
        let digest = handed.digest(owned);
        let name: String = hex(&digest.0).chars().take(16).collect();
        let before = fs::read_link(self.current()).ok();
        let folder = self.folder.join(&name);
        if !handed.lies_in(&folder, owned) {
            forget(&folder)?;
            self.write(&folder, handed, owned)?;
        }
        for file in [CERTIFICATE, KEY, ROOTS] {
            let link = self.folder.join(file);
            if !link.is_symlink() {
                file::point_link(&link, &Path::new(CURRENT).join(file))?;
            }
        }
        if before.as_deref() != Some(Path::new(&name)) {
            file::point_link(&self.current(), Path::new(&name))?;
        }
        self.sweep(Path::new(&name), before.as_deref())?;
        if owned.user.is_some() || owned.group.is_some() {
            open_way(scope, owned)?;
        }
        Ok(digest)
    }

    /// A folder for others to pass through, which only this user writes in.
    fn make(&self, folder: &Path) -> Result<(), FileError> {
        if let Some(above) = self.folder.parent().filter(|above| !above.is_dir()) {
            make_folder(above, WAY)?;
        }
        if folder.is_dir() { Ok(()) } else { make_folder(folder, OPEN) }
    }

    /// Whole, or not there: what is not finished has another name, and nobody else may enter it.
    fn write(&self, folder: &Path, handed: &Handed, owned: Owned) -> Result<(), NotHanded> {
        let draft = self.folder.join(format!(".{}.draft", std::process::id()));
        forget(&draft)?;
        DirBuilder::new().mode(0o700).create(&draft).map_err(io("make the folder", &draft))?;
        let written = handed.write_to(&draft, owned);
        if let Err(why) = written {
            forget(&draft)?;
            return Err(why);
        }
        fs::set_permissions(&draft, Permissions::from_mode(OPEN)).map_err(io("open", &draft))?;
        file::sync_folder(&draft)?;
        Ok(file::rename(&draft, folder)?)
    }

    /// What was there just before may still be in a reader's hands; older ones are not.
    fn sweep(&self, now: &Path, before: Option<&Path>) -> Result<(), FileError> {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = PathBuf::from(entry.file_name());
            let stays = name == now || before == Some(name.as_path());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && !stays && (before != Some(now) || is_draft(&name)) {
                forget(&entry.path())?;
            }
        }
        Ok(())
    }
}

fn is_draft(name: &Path) -> bool {
    name.extension().is_some_and(|ending| ending == "draft")
}

fn make_folder(folder: &Path, mode: u32) -> Result<(), FileError> {
    DirBuilder::new().mode(0o700).create(folder).map_err(io("make the folder", folder))?;
    // Also where new folders are kept from others by habit (a umask of 077).
    fs::set_permissions(folder, Permissions::from_mode(mode)).map_err(io("open", folder))?;
    file::sync_folder(folder.parent().unwrap_or(Path::new("/")))
}

/// The scope and the folder of all scopes are this program's own, and are opened for others to pass. What is above is told.
fn open_way(scope: &Scope, owned: Owned) -> Result<(), NotHanded> {
    let whole = scope.folder.canonicalize().map_err(io("look at", &scope.folder))?;
    for (nth, folder) in whole.ancestors().enumerate() {
        let meta = fs::metadata(folder).map_err(io("look at", folder))?;
        if owned.may_pass(&meta) {
            continue;
        }
        let ours = nth == 0 || nth == 1 && !folder.join("gateway.json").exists();
        if !ours || meta.uid() != own_user() {
            return Err(NotHanded::NoWay(folder.to_owned()));
        }
        let mode = meta.permissions().mode() & 0o7777 | 0o011;
        fs::set_permissions(folder, Permissions::from_mode(mode)).map_err(io("open", folder))?;
    }
    Ok(())
}

impl Handed {
    /// The same files of the same owner have the same name.
    fn digest(&self, owned: Owned) -> Digest {
        let whose = format!("{:?} {:?} {:o}", owned.user, owned.group, owned.mode);
        let parts = [&self.certificate, &*self.key, &self.roots, &whose];
        let digests: Vec<u8> = parts.iter().flat_map(|part| Digest::of(part.as_bytes()).0).collect();
        Digest::of(&digests)
    }

    fn lies_in(&self, folder: &Path, owned: Owned) -> bool {
        let same = |name: &str, text: &str| {
            fs::symlink_metadata(folder.join(name)).is_ok_and(|meta| meta.is_file() && meta.len() == text.len() as u64)
                && fs::read(folder.join(name)).is_ok_and(|found| found == text.as_bytes())
        };
        let key = fs::symlink_metadata(folder.join(KEY)).is_ok_and(|meta| owned.is_of(&meta));
        key && same(CERTIFICATE, &self.certificate) && same(KEY, &self.key) && same(ROOTS, &self.roots)
    }

    fn write_to(&self, folder: &Path, owned: Owned) -> Result<(), NotHanded> {
        for (name, text) in [(CERTIFICATE, &self.certificate), (ROOTS, &self.roots)] {
            let file = write_new(&folder.join(name), text)?;
            finish(&file, READABLE).map_err(io("write", &folder.join(name)))?;
        }
        let path = folder.join(KEY);
        let file = write_new(&path, &self.key)?;
        // First given away, then opened: nobody else reads it in between.
        fchown(&file, owned.user, owned.group).map_err(|why| match why.kind() {
            io::ErrorKind::PermissionDenied => {
                NotHanded::NoPower { as_user: own_user(), path: self_name(folder), owned: owned.words() }
            }
            _ => io("give away", &path)(why).into(),
        })?;
        Ok(finish(&file, owned.mode).map_err(io("write", &path))?)
    }
}

/// As a person knows it, whatever its draft is called.
fn self_name(draft: &Path) -> PathBuf {
    draft.with_file_name(KEY)
}

fn write_new(path: &Path, text: &str) -> Result<File, FileError> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        Ok(file)
    };
    write().map_err(io("write", path))
}

fn finish(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
