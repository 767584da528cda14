//! The operator's home: which orgs are in it, which one is meant, and how to get at its gateway.

mod failing;
mod told;
mod alone;
mod observing;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use gateway::gateway::{Gateway, GatewayError};
use gateway::store::folder::GatewayFolder;
use ground::clock;
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::sealed::SealError;
use identity::id::OrgId;
use identity::key::PublicKey;
use identity::principal::{Address, OrgName, SignerName};
use identity::signers::Quorum;

use operate::folder::{FolderError, OperatorFolder};
use operate::key::agent::words::Material;
use operate::key::{self, KeyError, SignerKeys};
use operate::session::Session;
use operate::session::desk::remote::RemoteDesk;
use operate::session::timely::Reliance;
use operate::trust::versions;
use terminal::again::{patiently, wrong_passphrase};
use terminal::failure::{Exit, Failure};
use wire::connect::{CallError, GatewayAddress};
use wire::known::{BadKnowledge, Known};

use crate::local::AnyDesk;
use crate::secrets::{key_failure, tell_if_weak, without_passphrase};
pub use failing::{During, Explain, failure};
use told::{tell_of_inbox, tell_roll, warn_of_recoveries};

/// So long a command waits for others that have the gateway's folder open.
const PATIENCE: Duration = Duration::from_secs(30);

/// Options of every command, before or after its words.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Common {
    /// The operator's home
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "FREEHOLD_HOME",
        default_value = "~/.freehold",
        hide_env = true
    )]
    home: PathBuf,
    /// Which org, if there are several
    #[arg(long, global = true, value_name = "ORG", env = "FREEHOLD_ORG")]
    org: Option<OrgName>,
    /// Talk to this gateway instead of the one of this home
    #[arg(long, global = true, value_name = "HOST:PORT")]
    gateway: Option<Address>,
    /// As the machine that joined under this root, with the role `observer`: looks, and signs nothing
    #[arg(
        long,
        global = true,
        value_name = "ROOT",
        env = "FREEHOLD_AS_NODE",
        conflicts_with = "gateway",
        hide_env = true
    )]
    as_node: Option<PathBuf>,
    /// Read the passphrase from a file instead of asking
    #[arg(long, global = true, value_name = "FILE", env = "FREEHOLD_PASSPHRASE_FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// Where to leave what other operators must sign, too [default: a new file in the operator's folder]
    #[arg(long, global = true, value_name = "FILE")]
    pub pending: Option<PathBuf>,
    /// Sign although this machine's clock seems wrong; only if you looked at it
    #[arg(long, global = true)]
    pub trust_clock: bool,
    /// Show tables whole, also what does not fit on the terminal
    #[arg(long, global = true)]
    pub wide: bool,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    #[arg(skip)]
    pub unfinished: Unfinished,
}

/// Whether the command left something that others must sign, too: it did what it could, and that is not all.
#[derive(Debug, Clone, Default)]
pub struct Unfinished(Arc<AtomicBool>);

impl Unfinished {
    pub fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Common {
    pub fn home(&self) -> PathBuf {
        match self.home.strip_prefix("~") {
            Ok(rest) => std::env::var_os("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from).join(rest),
            Err(_) => self.home.clone(),
        }
    }

    /// Every org in the home.
    pub fn orgs(&self) -> Vec<OrgName> {
        if let Some(root) = &self.as_node {
            return observing::orgs(root);
        }
        let entries = std::fs::read_dir(self.home()).into_iter().flatten().flatten();
        let mut orgs: Vec<OrgName> = entries
            .filter(|entry| entry.path().join("operator").is_dir() || entry.path().join("gateway").is_dir())
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        orgs.sort();
        orgs
    }

    /// The org that was named, there or not; else every one.
    pub fn chosen(&self) -> Vec<OrgName> {
        self.org.clone().map_or_else(|| self.orgs(), |org| vec![org])
    }

    /// The same, about the org that a fleet belongs to, unless one was named.
    #[must_use]
    pub fn about(&self, org: &OrgName) -> Self {
        let here = self.orgs().contains(org).then(|| org.clone());
        Self { org: self.org.clone().or(here), ..self.clone() }
    }

    /// A name that was given is that of an org in this home, if there are any.
    pub fn check_named(&self, doing: &str) -> Result<Option<&OrgName>, Failure> {
        if self.org.is_some() && !self.orgs().is_empty() {
            self.org(doing)?;
        }
        Ok(self.org.as_ref())
    }

    /// The one org that is meant.
    pub fn org(&self, doing: &str) -> Result<OrgName, Failure> {
        let orgs = self.orgs();
        if let Some(org) = &self.org {
            if orgs.contains(org) {
                return Ok(org.clone());
            }
            return Err(Failure::failed(doing, format!("there is no org `{org}` in `{}`", self.home().display()))
                .hint("see which there are: freehold org list"));
        }
        match orgs.as_slice() {
            [org] => Ok(org.clone()),
            [] => Err(Failure::failed(doing, format!("there is no org in `{}`", self.home().display()))
                .hint("found one: freehold found NAME; or say where yours is: --home DIR")),
            several => {
                let names: Vec<_> = several.iter().map(OrgName::as_str).collect();
                Err(Failure::usage(doing, format!("there are several orgs: {}", names.join(", ")))
                    .hint("say which: --org NAME, or set FREEHOLD_ORG"))
            }
        }
    }

    /// The org that is meant, if that is clear.
    pub fn meant(&self) -> Option<OrgName> {
        self.org("").ok()
    }

    pub fn passphrase(&self, prompt: &str) -> Result<Passphrase, NoPassphrase> {
        match &self.passphrase_file {
            Some(path) => Passphrase::from_file(path),
            None => Passphrase::ask(prompt),
        }
    }

    fn patiently<T>(&self, attempt: impl FnMut() -> Result<T, KeyError>) -> Result<T, KeyError> {
        let wrong = |why: &KeyError| wrong_passphrase(matches!(why, KeyError::Seal(SealError::WrongPassphrase)));
        patiently(self.passphrase_file.is_none(), wrong, attempt)
    }

    /// Opens the signer keys that are here.
    pub fn keys(&self, org: &OrgName, doing: &str) -> Result<SignerKeys, Failure> {
        let (folder, known) = self.operator(org, doing)?;
        let ask = || self.passphrase(&format!("passphrase of `{org}`"));
        self.patiently(|| SignerKeys::open(&folder, &known.signers, ask))
            .map_err(|why| key_failure(&folder, doing, &why))
    }

    /// Opens all keys of current signers that are here, to hand them to an agent.
    pub fn keys_for_agent(&self, org: &OrgName, doing: &str) -> Result<(OrgId, Vec<(SignerName, Material)>), Failure> {
        let (folder, known) = self.operator(org, doing)?;
        let ask = || self.passphrase(&format!("passphrase of `{org}`"));
        let opened = self.patiently(|| key::open_for_agent(&folder, &known.signers, ask));
        let opened = opened.map_err(|why| key_failure(&folder, doing, &why))?;
        Ok((known.org(), opened))
    }

    fn operator(&self, org: &OrgName, doing: &str) -> Result<(OperatorFolder, Known), Failure> {
        self.check_may_sign(doing)?;
        let folder = OperatorFolder::at(&self.home(), org);
        let known = folder.known().map_err(|why| match why {
            // It says itself how to go on.
            FolderError::Knowledge(BadKnowledge::Older) => Failure::new(doing, &why),
            why => Failure::new(doing, &why)
                .hint("this takes the operator's folder of the org; say where it is: --home DIR"),
        })?;
        Ok((folder, known))
    }

    /// Opens the keys of those here who belong to one of these quorums.
    pub fn keys_for(&self, folder: &OperatorFolder, quorums: &[Quorum], doing: &str) -> Result<SignerKeys, Failure> {
        let ask = || self.passphrase("passphrase of your signer key");
        self.patiently(|| SignerKeys::open_for(folder, quorums, ask)).map_err(|why| key_failure(folder, doing, &why))
    }

    /// The public half of a key that lies here.
    pub fn public_key_here(
        &self,
        folder: &OperatorFolder,
        name: &SignerName,
        doing: &str,
    ) -> Result<PublicKey, Failure> {
        let ask = || self.passphrase(&format!("passphrase of `{name}`"));
        self.patiently(|| SignerKeys::public_key(folder, name, ask)).map_err(|why| key_failure(folder, doing, &why))
    }

    /// A passphrase for a key that is about to be made; nothing if it is to lie there in the open.
    pub fn new_passphrase(&self, unprotected: bool, doing: &str) -> Result<Option<Passphrase>, Failure> {
        if unprotected {
            return Ok(None);
        }
        let passphrase = match &self.passphrase_file {
            Some(path) => Passphrase::from_file(path),
            None => Passphrase::ask_new("passphrase for the private keys of the org"),
        };
        let hint = "give it with --passphrase-file FILE; or type --unprotected to keep the keys unencrypted";
        passphrase
            .inspect(|passphrase| tell_if_weak(self.json, passphrase))
            .map(Some)
            .map_err(|why| Failure::new(doing, &why).hint(without_passphrase(&why, hint)))
    }

    /// A session to look at things.
    pub async fn session(&self, doing: &str) -> Result<Session, Failure> {
        let org = self.org(doing)?;
        if let Some(root) = &self.as_node {
            return Box::pin(self.observe(root, &org, doing)).await;
        }
        match Box::pin(self.begin(&org, None, doing, false)).await {
            Err(why) if why.nobody_answers => Box::pin(self.alone(&org, doing)).await.unwrap_or(Err(why)),
            session => session,
        }
    }

    /// A session to change things, with the keys to sign them; the passphrase is asked for once.
    pub async fn signing_session(&self, doing: &str) -> Result<(Session, SignerKeys), Failure> {
        self.signing_session_on(doing, false).await
    }

    /// The same; if `own`, with the gateway of this home, if it has one, and no other.
    pub async fn signing_session_on(&self, doing: &str, own: bool) -> Result<(Session, SignerKeys), Failure> {
        let org = self.org(doing)?;
        let keys = self.keys(&org, doing)?;
        let session = self.begin(&org, Some(&keys), doing, own).await?;
        Ok((session, keys))
    }

    /// With every key that is here: someone who comes or goes signs in two roles.
    pub async fn signing_session_with_all(&self, doing: &str) -> Result<(Session, SignerKeys), Failure> {
        self.check_may_sign(doing)?;
        let org = self.org(doing)?;
        let folder = OperatorFolder::at(&self.home(), &org);
        let ask = || self.passphrase(&format!("passphrase of `{org}`"));
        let known = folder.known().during(doing)?;
        let keys = self.patiently(|| SignerKeys::open_all(&folder, &known.signers, ask));
        let keys = keys.map_err(|why| key_failure(&folder, doing, &why))?;
        let session = self.begin(&org, Some(&keys), doing, false).await?;
        Ok((session, keys))
    }

    /// To bring a recovery: nobody here is a signer yet.
    pub async fn recovering_desk(&self, org: &OrgName, doing: &str) -> Result<AnyDesk, Failure> {
        self.desk(org, Some(&SignerKeys::default()), doing, false).await
    }

    async fn begin(
        &self,
        org: &OrgName,
        keys: Option<&SignerKeys>,
        doing: &str,
        own: bool,
    ) -> Result<Session, Failure> {
        let folder = OperatorFolder::at(&self.home(), org);
        let desk = self.desk(org, keys, doing, own).await?;
        self.begin_at(folder, desk, doing).await
    }

    async fn begin_at(&self, folder: OperatorFolder, desk: AnyDesk, doing: &str) -> Result<Session, Failure> {
        let begun = Box::pin(Session::begin(folder, desk)).await;
        let mut session = begun.during(doing)?;
        session.teller = if self.json { |_| {} } else { tell_roll };
        session.reliance = if self.trust_clock { Reliance::Trusted } else { Reliance::Doubted };
        warn_of_recoveries(&session);
        // Whoever reads JSON asks `status`; there it is counted.
        if !self.json {
            tell_of_inbox(&mut session).await;
        }
        if let Some(trouble) = &session.copy_trouble {
            eprintln!("COPY: this home's own copy of the ledger could not be brought up to date: {trouble}");
        }
        for mark in &session.odd_marks {
            eprintln!("MARK: {mark}");
        }
        for turned in versions::turned_elsewhere(&session) {
            eprintln!("TRUST: {turned}");
        }
        Ok(session)
    }

    /// The gateway's folder, if nobody else has it open, else the gateway over the network.
    async fn desk(&self, org: &OrgName, keys: Option<&SignerKeys>, doing: &str, own: bool) -> Result<AnyDesk, Failure> {
        self.check_may_sign(doing)?;
        let gateway = GatewayFolder::at(&self.home(), org);
        if self.gateway.is_some() || !gateway.folder.exists() {
            let addresses = match &self.gateway {
                Some(address) => vec![address.clone()],
                None => self.everywhere(org, doing)?,
            };
            let desk = self.reach(org, addresses.into_iter().map(GatewayAddress::from).collect(), doing).await?;
            return self.with_keys(desk, keys, org, doing);
        }
        if let Some(desk) = self.elsewhere(org, keys, &gateway, doing, own).await? {
            return Ok(desk);
        }
        let mut last = Failure::failed(doing, "another process holds the gateway's folder and does not serve")
            .hint("wait for it, or stop it");
        // Another command may hold the folder for a moment; a gateway holds it for long, and says where it listens.
        let until = Instant::now() + PATIENCE;
        loop {
            match Gateway::open(&gateway) {
                Ok(open) => return Ok(AnyDesk::Local(Box::new(open))),
                Err(GatewayError::Busy) => {}
                Err(why) => {
                    let failure = Failure::new(doing, &why);
                    return Err(match why.hint() {
                        Some(hint) => failure.hint(hint),
                        None => failure,
                    });
                }
            }
            if let Some(serving) = gateway.serving().during(doing)? {
                let about = gateway.about().during(doing)?;
                let dial = Some(serving.dial());
                let door =
                    about.addresses.into_iter().take(1).map(|address| GatewayAddress { address, dial }).collect();
                match self.reach(org, door, doing).await {
                    Ok(desk) => return self.with_keys(desk, keys, org, doing),
                    // The file may be a killed gateway's, and the lock another command's.
                    Err(why) if why.exit == Exit::Failed => last = why,
                    Err(why) => return Err(why),
                }
            }
            if Instant::now() >= until {
                return Err(last);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Everywhere that a gateway may be, the first one first.
    fn everywhere(&self, org: &OrgName, doing: &str) -> Result<Vec<Address>, Failure> {
        let (folder, known) = self.operator(org, doing)?;
        let memory = folder.memory().during(doing)?;
        let mut all = known.head.head.gateway_addresses(clock::now());
        all.extend(memory.gateways.into_iter().filter(|address| !all.contains(address)).collect::<Vec<_>>());
        Ok(all)
    }

    /// Another gateway than the one of this home, if that one does not come first, or sleeps. What is decided here alone
    /// would reach the others only when this one serves.
    async fn elsewhere(
        &self,
        org: &OrgName,
        keys: Option<&SignerKeys>,
        local: &GatewayFolder,
        doing: &str,
        own: bool,
    ) -> Result<Option<AnyDesk>, Failure> {
        // A home without an operator only looks at its own.
        let Ok(known) = OperatorFolder::at(&self.home(), org).known() else { return Ok(None) };
        let (head, now) = (&known.head.head, clock::now());
        let about = local.about().during(doing)?;
        let others = head.mandates.iter().filter(|mandate| mandate.gateway != about.node && mandate.is_active(now));
        let mut doors: Vec<GatewayAddress> =
            others.flat_map(|mandate| mandate.addresses.iter().cloned().map(GatewayAddress::from)).collect();
        if doors.is_empty() || own {
            return Ok(None);
        }
        let serving = local.serving().during(doing)?;
        if let Some(serving) = serving.filter(|_| head.active_mandate(&about.node, now).is_some()) {
            let dial = Some(serving.dial());
            let own = about.addresses.into_iter().take(1).map(|address| GatewayAddress { address, dial });
            let place = if head.first_gateway() == Some(&about.node) { 0 } else { doors.len() };
            doors.splice(place..place, own);
        }
        let mut told: Option<Failure> = None;
        for door in doors {
            match self.reach(org, vec![door], doing).await {
                Ok(desk) => return self.with_keys(desk, keys, org, doing).map(Some),
                // A clear no says more than the silence of another.
                Err(_) if told.as_ref().is_some_and(|told| told.exit == Exit::Refused) => {}
                Err(why) => told = Some(why),
            }
        }
        // Held by a gateway that does not answer: nothing can be done in its folder either.
        if let (Ok(None), Some(why)) = (local.lock(), told) {
            return Err(why);
        }
        eprintln!("no other gateway can be reached: what is decided now reaches them when this one serves again");
        Ok(None)
    }

    pub async fn remote(
        &self,
        org: &OrgName,
        keys: &SignerKeys,
        doors: Vec<GatewayAddress>,
        doing: &str,
    ) -> Result<AnyDesk, Failure> {
        let desk = self.reach(org, doors, doing).await?;
        Ok(AnyDesk::Remote(Box::new(desk.with_keys(keys.at_hand()))))
    }

    /// Nobody types a passphrase for a gateway that does not answer.
    fn with_keys(
        &self,
        desk: RemoteDesk,
        given: Option<&SignerKeys>,
        org: &OrgName,
        doing: &str,
    ) -> Result<AnyDesk, Failure> {
        let keys = given.cloned().map_or_else(|| self.keys(org, doing), Ok)?;
        Ok(AnyDesk::Remote(Box::new(desk.with_keys(keys.at_hand()))))
    }

    /// A gateway that answers, and is believed.
    async fn reach(&self, org: &OrgName, doors: Vec<GatewayAddress>, doing: &str) -> Result<RemoteDesk, Failure> {
        let folder = OperatorFolder::at(&self.home(), org);
        let (known, memory) = (folder.known().during(doing)?, folder.memory().during(doing)?);
        let roots = folder.endpoint_roots(&known);
        let desk = Box::pin(RemoteDesk::connect(doors, roots, known.clone(), memory.tip)).await;
        if let Err(CallError::Knowledge { source, .. }) = &desk
            && let Some(noticed) = known.heed(source, clock::now())
        {
            // A recovery took effect unseen by this home, which counts from now on.
            let locked = folder.lock_files().during(doing)?;
            folder.keep_known(noticed, &locked).during(doing)?;
        }
        desk.map_err(|why| {
            if let CallError::Knowledge { source: BadKnowledge::Head(_), .. } = &why {
                return Failure::new(doing, &why).exit(Exit::Refused).hint(BEHIND);
            }
            if let CallError::Knowledge { source: BadKnowledge::RecoveryWaits { .. }, .. } = &why {
                return Failure::new(doing, &why)
                    .exit(Exit::Refused)
                    .hint("this home counts from now on: run it again then");
            }
            let is_here = GatewayFolder::at(&self.home(), org).folder.exists();
            Failure::new(doing, &why).hint(if is_here { START_IT } else { IS_IT_RUNNING })
        })
    }
}

const START_IT: &str = "is the gateway running? start it: freehold serve; or name it: --gateway HOST:PORT";

/// The gateway lies elsewhere.
const IS_IT_RUNNING: &str =
    "is the gateway running? On its machine: freehold serve; another one can be named: --gateway HOST:PORT";

const BEHIND: &str = "keep the gateway's folder for evidence. Is there a newer copy of it, and did no other copy serve \
                      since? Put that in its place. Else: freehold gateway reopen NAME";

#[cfg(test)]
mod tests;
