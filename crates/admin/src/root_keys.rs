//! Root keys at hand: found by the bundles that name them, drawn for a new version, opened by one passphrase; and how long
//! they are to last.

use std::cell::RefCell;
use std::path::PathBuf;

use clap::Args;
use ground::clock;
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::sealed::SealError;
use identity::authority::Authority;
use identity::bundle::InDomain;
use identity::certificate::{self, Validity};
use identity::id::Fingerprint;
use identity::time::{Seconds, Timestamp};
use identity::trust;
use operate::session::Session;
use operate::trust::lifetimes::{ISSUER_LIFE, Lifetimes, ROOT_LIFE};
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
    lives: Lifetimes,
    asked: RefCell<Option<Passphrase>>,
}

/// How long what is drawn now is to last.
#[derive(Debug, Clone, Copy, Args)]
pub struct LifetimeArgs {
    /// How long a new root lasts, from 1y to 50y [default: 20y]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    root_lifetime: Option<Seconds>,
    /// How long the certificates of the gateways' issuing keys last under a new root, from 180d to 10y [default: 3y]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    issuer_lifetime: Option<Seconds>,
}

impl LifetimeArgs {
    pub fn lives(self, doing: &str) -> Result<Lifetimes, Failure> {
        let lives = Lifetimes::new(self.root_lifetime, self.issuer_lifetime);
        lives.map_err(|why| Failure::usage(doing, why.to_string()))
    }

    /// As they were typed, to be typed again.
    pub fn again(self) -> String {
        let root = self.root_lifetime.map(|life| format!(" --root-lifetime {life}"));
        let issuer = self.issuer_lifetime.map(|life| format!(" --issuer-lifetime {life}"));
        root.into_iter().chain(issuer).collect()
    }
}

/// Nobody counts the days of ten years: `10y` is so many times 365 days.
fn span(text: &str) -> Result<Seconds, String> {
    let years = text.strip_suffix('y').and_then(|years| years.parse::<u64>().ok());
    let years = years.and_then(|years| years.checked_mul(365 * Seconds::DAY.0)).map(Seconds);
    years.map_or_else(|| text.parse().map_err(|_| "it is no span of time (like 365d or 10y)".to_owned()), Ok)
}

/// What is said if the certificates of issuing keys would last longer than their root.
pub fn cut_short(until: Timestamp) -> String {
    format!("the certificates of the issuing keys end with their root, at {until}")
}

impl<'a> RootKeys<'a> {
    pub fn new(common: &'a Common, session: &Session, folder: Option<PathBuf>) -> Self {
        let folder = folder.unwrap_or_else(|| session.folder.folder.clone());
        let prompt = format!("passphrase of the root keys of `{}`", session.known.founding.record.name);
        let lives = Lifetimes { root: ROOT_LIFE, issuer: ISSUER_LIFE };
        Self { common, folder, prompt, lives, asked: RefCell::default() }
    }

    /// For as long as is wished.
    pub fn lasting(self, lives: Lifetimes) -> Self {
        Self { lives, ..self }
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
            let root = drawn.open(|| self.ask()).during(doing)?;
            self.say_if_cut_short(&root);
            return Ok(root);
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
        let life = Validity::from_now(clock::now(), self.lives.root);
        let root = roots::draw(&self.folder, org, version, passphrase.as_ref(), life).during(doing)?;
        self.say_if_cut_short(&root);
        Ok(root)
    }

    fn say_if_cut_short<T: InDomain>(&self, root: &Authority<T>) {
        let end = certificate::read(root.certificate()).map(|root| root.validity.not_after);
        if let Some(end) = end.ok().filter(|end| *end < clock::now() + self.lives.issuer && !self.common.json) {
            eprintln!("{}", cut_short(end));
        }
    }
}

impl RootKeyring for RootKeys<'_> {
    fn open<T: InDomain>(&self, wanted: &CertificateDer<'static>) -> Result<Authority<T>, RootError> {
        self.patiently(|| roots::open(&self.folder, wanted, || self.ask()))
    }
}
