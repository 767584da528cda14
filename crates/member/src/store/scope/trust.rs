//! The files in which other programs read the roots: one for each domain, never one in the place of the other.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ground::file::{self, FileAccess};
use identity::bundle::{Domain, InDomain, Roots};
use identity::certificate;
use serde::{Deserialize, Serialize};

use super::{Scope, ScopeError};

/// Where the roots are written for other programs, if not in the scope's own folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustPaths {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<PathBuf>,
}

impl TrustPaths {
    pub const fn of(&self, domain: Domain) -> Option<&PathBuf> {
        match domain {
            Domain::Endpoint => self.endpoint.as_ref(),
            Domain::Identity => self.identity.as_ref(),
        }
    }
}

/// Why roots are not written where somebody wants them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTrustPath {
    #[error(
        "`{}` and `{}` are one file: who may be a gateway and who may be a member are never in one",
        endpoint.display(),
        identity.display()
    )]
    Same { endpoint: PathBuf, identity: PathBuf },
    #[error("`{}` is a link: the roots are written to a plain file", .0.display())]
    Link(PathBuf),
    #[error("`{}` holds something else than certificates, and is not overwritten", .0.display())]
    Foreign(PathBuf),
    #[error("`{}` is in this program's own folder, where only `trust/{}.pem` is for others", path.display(), domain.word())]
    Own { path: PathBuf, domain: Domain },
    #[error("there is no folder `{}`", .0.display())]
    NoFolder(PathBuf),
    #[error("`{}` is no path from `/` on", .0.display())]
    Relative(PathBuf),
}

impl Scope {
    /// Where a domain's roots are for others to read.
    pub fn roots_path(&self, paths: &TrustPaths, domain: Domain) -> PathBuf {
        let own = || self.path("trust").join(format!("{}.pem", domain.word()));
        paths.of(domain).cloned().unwrap_or_else(own)
    }

    pub fn trust_paths(&self) -> Result<TrustPaths, ScopeError> {
        Ok(self.node()?.and_then(|node| node.trust).unwrap_or_default())
    }

    /// May the roots be written there? Asked when paths are set, and before each write: links come and go.
    pub fn check_trust_paths(&self, paths: &TrustPaths) -> Result<(), BadTrustPath> {
        let endpoint = self.roots_path(paths, Domain::Endpoint);
        let identity = self.roots_path(paths, Domain::Identity);
        let real = |path: &Path, domain: Domain| {
            if paths.of(domain).is_some() { real_path(path) } else { Ok(real_path(path).unwrap_or(path.to_owned())) }
        };
        let (real_endpoint, real_identity) = (real(&endpoint, Domain::Endpoint)?, real(&identity, Domain::Identity)?);
        if real_endpoint == real_identity || is_one_file(&real_endpoint, &real_identity) {
            return Err(BadTrustPath::Same { endpoint, identity });
        }
        for (path, domain) in [(&real_endpoint, Domain::Endpoint), (&real_identity, Domain::Identity)] {
            if path.is_symlink() {
                return Err(BadTrustPath::Link(path.clone()));
            }
            if paths.of(domain).is_some() {
                self.check_foreign(path, domain)?;
            }
        }
        Ok(())
    }

    /// Nothing of somebody else is overwritten, nor anything of this program that is not meant for it.
    fn check_foreign(&self, path: &Path, domain: Domain) -> Result<(), BadTrustPath> {
        let own = self.roots_path(&TrustPaths::default(), domain);
        let same = |own: &Path| real_path(own).is_ok_and(|own| own == path);
        if self.folder.canonicalize().is_ok_and(|folder| path.starts_with(folder)) && !same(&own) {
            return Err(BadTrustPath::Own { path: path.to_owned(), domain });
        }
        let ours = |bytes: Vec<u8>| {
            let text = String::from_utf8_lossy(&bytes);
            text.trim().is_empty() || certificate::from_pem(&text).is_ok_and(|read| !read.is_empty())
        };
        match fs::symlink_metadata(path) {
            Err(_) => Ok(()),
            Ok(meta) if meta.is_file() && file::read(path).is_ok_and(ours) => Ok(()),
            Ok(_) => Err(BadTrustPath::Foreign(path.to_owned())),
        }
    }

    /// Writes a domain's roots for others, if they are not there already. They are never none.
    pub fn write_roots<D: InDomain>(&self, paths: &TrustPaths, roots: &Roots<D>) -> Result<bool, ScopeError> {
        let pem = certificate::to_pem(roots.certificates());
        self.check_trust_paths(paths)?;
        let path = self.roots_path(paths, D::DOMAIN);
        if roots.certificates().is_empty() || file::read_if_there(&path)?.as_deref() == Some(pem.as_bytes()) {
            return Ok(false);
        }
        file::write(&path, pem.as_bytes(), FileAccess::Readable)?;
        Ok(true)
    }

    /// Takes the file away from other programs. True if there was one.
    pub fn withdraw_roots(&self, paths: &TrustPaths, domain: Domain) -> Result<bool, ScopeError> {
        self.check_trust_paths(paths)?;
        let path = self.roots_path(paths, domain);
        let there = path.exists();
        if there {
            file::wipe(&path)?;
        }
        Ok(there)
    }

    /// What others read now; nothing if there is no such file, or none that can be read.
    pub fn written_roots<D: InDomain>(&self, paths: &TrustPaths) -> Option<Roots<D>> {
        let bytes = file::read(&self.roots_path(paths, D::DOMAIN)).ok()?;
        Roots::from_pem(&String::from_utf8_lossy(&bytes)).ok()
    }
}

/// Through whatever links its folder is reached.
fn real_path(path: &Path) -> Result<PathBuf, BadTrustPath> {
    let (Some(folder), Some(name)) = (path.parent().filter(|_| path.is_absolute()), path.file_name()) else {
        return Err(BadTrustPath::Relative(path.to_owned()));
    };
    Ok(folder.canonicalize().map_err(|_| BadTrustPath::NoFolder(folder.to_owned()))?.join(name))
}

/// By another name, or through a link.
fn is_one_file(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        // A link that leads nowhere yet leads to what is written there next.
        _ => leads_to(one, other) || leads_to(other, one),
    }
}

fn leads_to(link: &Path, file: &Path) -> bool {
    let target = fs::read_link(link).ok().map(|target| link.parent().unwrap_or(Path::new("/")).join(target));
    let real = target.and_then(|target| Some(target.parent()?.canonicalize().ok()?.join(target.file_name()?)));
    real.as_deref() == Some(file)
}

#[cfg(test)]
mod tests;
