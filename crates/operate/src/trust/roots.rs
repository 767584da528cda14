//! The roots: drawn here, opened to certify issuing keys, gone when that is done. Which one is in use, the head says.

use std::path::{Path, PathBuf};

use ground::file::{self, FileAccess, FileError};
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::random::{self, NoRandomness};
use ground::sealed::{self, SealError};
use identity::authority::Authority;
use identity::bundle::{Domain, InDomain};
use identity::certificate::{self, BadCertificate, Validity};
use identity::id::Fingerprint;
use identity::key::{BadKey, P256Key};
use identity::principal::{OrgName, SignerName};
use identity::time::Timestamp;
use pki_types::CertificateDer;

use crate::key::{self, AskPassphrase};

#[derive(Debug, thiserror::Error)]
pub enum RootError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("the root's key stays closed")]
    Passphrase(#[from] NoPassphrase),
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error("the {domain} root's key is not in `{}`", folder.display())]
    NotHere { domain: &'static str, folder: PathBuf },
    #[error("the {0} root's key does not hold")]
    Key(&'static str, #[source] BadKey),
    #[error("the {0} root's certificate does not hold")]
    Certificate(&'static str, #[source] BadCertificate),
}

/// What is sealed into a root's key file, whichever root of its domain it is.
pub fn purpose(domain: Domain) -> String {
    format!("freehold {}-root", domain.word())
}

/// Whoever has root keys, and the passphrase that opens them.
pub trait RootKeyring {
    /// The root with this certificate; one whose key is elsewhere is `NotHere`.
    fn open<D: InDomain>(&self, wanted: &CertificateDer<'static>) -> Result<Authority<D>, RootError>;
}

/// A root that lies in a folder: the founders' as `endpoint-root.pem`, later ones with a number.
#[derive(Debug, Clone)]
pub struct RootHere {
    pub number: u64,
    pub certificate: CertificateDer<'static>,
    key: PathBuf,
}

impl RootHere {
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_certificate(self.certificate.as_ref())
    }

    fn is_good(&self, now: Timestamp) -> bool {
        let validity = certificate::read(&self.certificate).map(|reading| reading.validity);
        validity.is_ok_and(|validity| (validity.not_before..=validity.not_after).contains(&now))
    }

    /// Its key may lie elsewhere.
    pub(crate) fn has_key(&self) -> bool {
        self.key.exists()
    }

    pub fn open<D: InDomain>(&self, ask: impl AskPassphrase) -> Result<Authority<D>, RootError> {
        let key = open_key::<D>(&self.key, ask)?;
        Authority::load(self.certificate.clone(), &key).map_err(|why| RootError::Certificate(D::DOMAIN.word(), why))
    }
}

/// The roots of a domain in a folder, the oldest first.
fn here<D: InDomain>(folder: &Path) -> Result<Vec<RootHere>, RootError> {
    let word = D::DOMAIN.word();
    let bad = |why| RootError::Certificate(word, why);
    let mut found = Vec::new();
    for number in numbers(folder, D::DOMAIN, ".pem") {
        let pem = file::read(&path(folder, D::DOMAIN, number, "pem"))?;
        let chain = certificate::from_pem(&String::from_utf8_lossy(&pem)).map_err(bad)?;
        let certificate = chain.into_iter().next().ok_or(BadCertificate::Unreadable("it is empty")).map_err(bad)?;
        found.push(RootHere { number, certificate, key: path(folder, D::DOMAIN, number, "key") });
    }
    Ok(found)
}

/// Opens the root with this certificate.
pub fn open<D: InDomain>(
    folder: &Path,
    wanted: &CertificateDer<'_>,
    ask: impl AskPassphrase,
) -> Result<Authority<D>, RootError> {
    let not_here = || RootError::NotHere { domain: D::DOMAIN.word(), folder: folder.to_owned() };
    let found = here::<D>(folder)?.into_iter().find(|root| root.certificate == *wanted && root.has_key());
    found.ok_or_else(not_here)?.open(ask)
}

/// A root that was drawn here and never published, because somebody was interrupted. The next turn takes it up, unless a
/// later one was published meanwhile, or its own time is not now.
pub fn drawn<D: InDomain>(
    folder: &Path,
    published: &[Fingerprint],
    now: Timestamp,
) -> Result<Option<RootHere>, RootError> {
    let mut newest = here::<D>(folder)?.into_iter().rev();
    let unused = newest.next().filter(|root| !published.contains(&root.fingerprint()));
    Ok(unused.filter(RootHere::has_key).filter(|root| root.is_good(now)))
}

/// Draws a new root and puts it beside the others: the key first, since a certificate without one is worth nothing.
pub fn draw<D: InDomain>(
    folder: &Path,
    org: &OrgName,
    version: u64,
    passphrase: Option<&Passphrase>,
    life: Validity,
) -> Result<Authority<D>, RootError> {
    let word = D::DOMAIN.word();
    let whole = numbers(folder, D::DOMAIN, ".pem");
    let half = numbers(folder, D::DOMAIN, ".key").into_iter().rfind(|number| *number > 1 && !whole.contains(number));
    let after = whole.last().map_or(version, |last| version.max(last.saturating_add(1)));
    let number = half.unwrap_or(after);
    let (at, pem) = (path(folder, D::DOMAIN, number, "key"), path(folder, D::DOMAIN, number, "pem"));
    let key = if at.exists() {
        // Interrupted between the two files.
        open_key::<D>(&at, || passphrase.cloned().ok_or(NoPassphrase::NoTerminal))?
    } else {
        let key = random::p256()?;
        file::write_new(&at, &sealed::seal(key.pkcs8(), &purpose(D::DOMAIN), passphrase)?, FileAccess::Private)?;
        key
    };
    let root = Authority::<D>::later_root(org, number, &key, random::serial()?, life);
    let root = root.map_err(|why| RootError::Certificate(word, why))?;
    file::write_new(&pem, root.pem().as_bytes(), FileAccess::Readable)?;
    Ok(root)
}

/// Whether a new root is to be protected: as the keys beside it are, by their passphrase. `None` if nothing lies there
/// that could tell.
pub fn sealing(folder: &Path, ask: impl AskPassphrase) -> Result<Option<Sealing>, RootError> {
    let mut known = false;
    for (path, purpose) in key_files(folder) {
        let bytes = file::read_secret(&path)?;
        known = true;
        if sealed::is_protected(&bytes) {
            let passphrase = ask()?;
            // A slip of the finger would lock the new root away for ever.
            sealed::open(&bytes, &purpose, || Ok::<_, RootError>(passphrase.clone()))?;
            return Ok(Some(Sealing::Passphrase(passphrase)));
        }
    }
    Ok(known.then_some(Sealing::Open))
}

/// How the keys of a folder lie there.
#[derive(Debug)]
pub enum Sealing {
    Open,
    Passphrase(Passphrase),
}

/// Every key file that shows how keys are kept here, and what it is for.
fn key_files(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for domain in [Domain::Identity, Domain::Endpoint] {
        let roots = numbers(folder, domain, ".key").into_iter().map(|number| path(folder, domain, number, "key"));
        files.extend(roots.map(|path| (path, purpose(domain))));
    }
    let signers = std::fs::read_dir(folder.join("signers")).into_iter().flatten().flatten();
    files.extend(signers.filter_map(|entry| {
        let name: SignerName = entry.file_name().to_str()?.strip_suffix(".key")?.parse().ok()?;
        Some((entry.path(), key::purpose(&name)))
    }));
    files
}

fn open_key<D: InDomain>(path: &Path, ask: impl AskPassphrase) -> Result<P256Key, RootError> {
    let bytes = file::read_secret(path)?;
    let opened = sealed::open(&bytes, &purpose(D::DOMAIN), || -> Result<Passphrase, RootError> { Ok(ask()?) })?;
    P256Key::from_pkcs8(&opened).map_err(|why| RootError::Key(D::DOMAIN.word(), why))
}

fn path(folder: &Path, domain: Domain, number: u64, ending: &str) -> PathBuf {
    let word = domain.word();
    folder.join(if number == 1 { format!("{word}-root.{ending}") } else { format!("{word}-root-{number}.{ending}") })
}

/// Which roots of a domain have a file with this ending, in rising order.
fn numbers(folder: &Path, domain: Domain, ending: &str) -> Vec<u64> {
    let stem = format!("{}-root", domain.word());
    let number_of = |name: &str| match name.strip_prefix(&stem)?.strip_suffix(ending)? {
        "" => Some(1),
        rest => rest.strip_prefix('-')?.parse().ok().filter(|number| *number > 1),
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u64> = entries.filter_map(|entry| number_of(entry.file_name().to_str()?)).collect();
    numbers.sort_unstable();
    numbers
}
