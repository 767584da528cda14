//! Root keys at hand: found by the bundles that name them, drawn for a new version, opened by one passphrase.

use std::cell::RefCell;
use std::path::PathBuf;

use ground::clock;
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::sealed::SealError;
use identity::authority::Authority;
use identity::bundle::InDomain;
use identity::id::Fingerprint;
use identity::trust;
use operate::session::Session;
use operate::trust::roots::{self, RootError, RootKeyring, Sealing};
use operate::trust::step;
use pki_types::CertificateDer;
use terminal::again::{patiently, wrong_passphrase};
use terminal::failure::Failure;

use crate::home::{Common, During};

/// A folder with root keys, and the passphrase that was typed for it.
pub struct RootKeys<'a> {
    common: &'a Common,
    folder: PathBuf,
    prompt: String,
    asked: RefCell<Option<Passphrase>>,
}

impl<'a> RootKeys<'a> {
    pub fn new(common: &'a Common, session: &Session, folder: Option<PathBuf>) -> Self {
        let folder = folder.unwrap_or_else(|| session.folder.folder.clone());
        let prompt = format!("passphrase of the root keys of `{}`", session.known.founding.record.name);
        Self { common, folder, prompt, asked: RefCell::default() }
    }

    /// Asks once, or again if that was wrong.
    fn ask(&self) -> Result<Passphrase, NoPassphrase> {
        if let Some(passphrase) = &*self.asked.borrow() {
            return Ok(passphrase.clone());
        }
        let typed = self.common.passphrase(&self.prompt)?;
        Ok(self.asked.borrow_mut().insert(typed).clone())
    }

    fn patiently<T>(&self, attempt: impl FnMut() -> Result<T, RootError>) -> Result<T, RootError> {
        let wrong = |why: &RootError| {
            let is_wrong = matches!(why, RootError::Seal(SealError::WrongPassphrase));
            if is_wrong {
                *self.asked.borrow_mut() = None;
            }
            wrong_passphrase(is_wrong)
        };
        patiently(self.common.passphrase_file.is_none(), wrong, attempt)
    }

    /// The root of the next version: one that was drawn by a command that was cut off, else a new one.
    pub async fn next<T: InDomain>(&self, session: &mut Session, doing: &str) -> Result<Authority<T>, Failure> {
        let published = step::published_roots(session).await.during(doing)?;
        let own: Vec<Fingerprint> =
            published.into_iter().filter(|(line, _)| line.domain == T::DOMAIN).map(|(_, root)| root).collect();
        if let Some(drawn) = roots::drawn::<T>(&self.folder, &own, clock::now()).during(doing)? {
            // Before its key is opened: what lies here may be the other domain's.
            step::check_root::<T>(session, &drawn.certificate).await.during(doing)?;
            if !self.common.json {
                eprintln!("taking up the root {} that was drawn before and never published", drawn.fingerprint());
            }
            return drawn.open(|| self.ask()).during(doing);
        }
        self.fresh(session, doing)
    }

    /// A new root, whatever lies there.
    pub fn fresh<T: InDomain>(&self, session: &Session, doing: &str) -> Result<Authority<T>, Failure> {
        // A root that a wrong clock dated would be good for nobody, and publishing it would lock its own operator out.
        session.check_clock(clock::now()).during(doing)?;
        let passphrase = match self.patiently(|| roots::sealing(&self.folder, || self.ask())).during(doing)? {
            Some(Sealing::Open) => None,
            Some(Sealing::Passphrase(passphrase)) => Some(passphrase),
            None => self.common.new_passphrase(false, doing)?,
        };
        let version = trust::next_version(&session.lines(), T::DOMAIN);
        let org = &session.known.founding.record.name;
        roots::draw(&self.folder, org, version, passphrase.as_ref(), clock::now()).during(doing)
    }
}

impl RootKeyring for RootKeys<'_> {
    fn open<T: InDomain>(&self, wanted: &CertificateDer<'static>) -> Result<Authority<T>, RootError> {
        self.patiently(|| roots::open(&self.folder, wanted, || self.ask()))
    }
}
