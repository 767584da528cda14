//! The operator's home: which orgs are in it, which one is meant, and how to get at its gateway.

use std::path::PathBuf;

use clap::Args;
use ground::passphrase::{NoPassphrase, Passphrase};
use ground::sealed::SealError;
use identity::bundle::Roots;
use identity::key::EdKey;
use identity::principal::{Address, OrgName};
use node::answer::gateway::{Gateway, GatewayError};
use node::report::{Exit, Failure};
use node::store::gateway::GatewayFolder;
use operate::desk::DeskError;
use operate::folder::OperatorFolder;
use operate::keys::{KeyError, SignerKeys};
use operate::remote::RemoteDesk;
use operate::session::{OperateError, Session};
use wire::connect::{CallError, Gateway as Peer};

use crate::local::AnyDesk;

/// Options of every command, before or after its words.
#[derive(Debug, Clone, Args)]
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
    /// Read the passphrase from a file instead of asking
    #[arg(long, global = true, value_name = "FILE", env = "FREEHOLD_PASSPHRASE_FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// Sign although this machine's clock seems wrong; only if you looked at it
    #[arg(long, global = true)]
    trust_clock: bool,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
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
        let entries = std::fs::read_dir(self.home()).into_iter().flatten().flatten();
        let mut orgs: Vec<OrgName> = entries
            .filter(|entry| entry.path().join("operator").is_dir() || entry.path().join("gateway").is_dir())
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        orgs.sort();
        orgs
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

    pub fn passphrase(&self, prompt: &str) -> Result<Passphrase, NoPassphrase> {
        match &self.passphrase_file {
            Some(path) => Passphrase::from_file(path),
            None => Passphrase::ask(prompt),
        }
    }

    /// Opens the signer keys that are here.
    pub fn keys(&self, org: &OrgName, doing: &str) -> Result<SignerKeys, Failure> {
        let folder = OperatorFolder::at(&self.home(), org);
        let known = folder.known().map_err(|why| {
            Failure::new(doing, &why).hint("this takes the operator's folder of the org; say where it is: --home DIR")
        })?;
        let ask = || self.passphrase(&format!("passphrase of `{org}`"));
        SignerKeys::open(&folder, &known.signers, ask).map_err(|why| {
            let failure = Failure::new(doing, &why);
            match why {
                KeyError::Passphrase(_) => {
                    failure.hint("give the passphrase with --passphrase-file FILE, or run this at a terminal")
                }
                KeyError::Seal(SealError::WrongPassphrase) => failure.hint("nothing was done: try again"),
                KeyError::Seal(SealError::Unreadable) => failure.hint(format!(
                    "the key files are in `{}`: put a good copy of the one that is damaged in its place",
                    folder.path("signers").display()
                )),
                KeyError::NoKey | KeyError::NotEnough { .. } => {
                    failure.hint("run this where the signers' key files are: --home DIR")
                }
                KeyError::File(_) | KeyError::Seal(_) | KeyError::NotAKey(_) | KeyError::Sign(_) => failure,
            }
        })
    }

    /// A session to look at things.
    pub async fn session(&self, doing: &str) -> Result<Session<AnyDesk>, Failure> {
        let org = self.org(doing)?;
        self.begin(&org, None, doing).await
    }

    /// A session to change things, with the keys to sign them; the passphrase is asked for once.
    pub async fn signing_session(&self, doing: &str) -> Result<(Session<AnyDesk>, SignerKeys), Failure> {
        let org = self.org(doing)?;
        let keys = self.keys(&org, doing)?;
        let session = self.begin(&org, Some(&keys), doing).await?;
        Ok((session, keys))
    }

    async fn begin(&self, org: &OrgName, keys: Option<&SignerKeys>, doing: &str) -> Result<Session<AnyDesk>, Failure> {
        let folder = OperatorFolder::at(&self.home(), org);
        let desk = self.desk(org, keys, doing).await?;
        let mut session = Session::begin(folder, desk).await.map_err(|why| failure(doing, &why))?;
        session.trust_clock = self.trust_clock;
        Ok(session)
    }

    /// The gateway's folder, if nobody else has it open, else the gateway over the network.
    async fn desk(&self, org: &OrgName, keys: Option<&SignerKeys>, doing: &str) -> Result<AnyDesk, Failure> {
        let failed = |why: &(dyn std::error::Error + 'static)| Failure::new(doing, why);
        let gateway = GatewayFolder::at(&self.home(), org);
        if self.gateway.is_some() || !gateway.folder.exists() {
            let memory = OperatorFolder::at(&self.home(), org).memory().map_err(|why| failed(&why))?;
            let addresses = self.gateway.clone().map_or(memory.gateways, |address| vec![address]);
            return self.remote(org, keys, addresses.into_iter().map(Peer::from).collect(), doing).await;
        }
        let mut last = Failure::failed(doing, "another process holds the gateway's folder and does not serve")
            .hint("wait for it, or stop it");
        // Another command may hold the folder for a moment; a gateway holds it for long, and says where it listens.
        for _ in 0..50 {
            match Gateway::open(&gateway) {
                Ok(open) => return Ok(AnyDesk::Local(Box::new(open))),
                Err(GatewayError::Busy) => {}
                Err(why) => {
                    let failure = failed(&why);
                    return Err(match why.hint() {
                        Some(hint) => failure.hint(hint),
                        None => failure,
                    });
                }
            }
            if let Some(serving) = gateway.serving().map_err(|why| failed(&why))? {
                let about = gateway.about().map_err(|why| failed(&why))?;
                let dial = Some(node::answer::serve::loopback(serving.listen));
                let door = about.addresses.into_iter().take(1).map(|address| Peer { address, dial }).collect();
                match self.remote(org, keys, door, doing).await {
                    Ok(desk) => return Ok(desk),
                    // The file may be a killed gateway's, and the lock another command's.
                    Err(why) if why.exit == Exit::Failed => last = why,
                    Err(why) => return Err(why),
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Err(last)
    }

    async fn remote(
        &self,
        org: &OrgName,
        keys: Option<&SignerKeys>,
        doors: Vec<Peer>,
        doing: &str,
    ) -> Result<AnyDesk, Failure> {
        let failed = |why: &(dyn std::error::Error + 'static)| Failure::new(doing, why);
        let folder = OperatorFolder::at(&self.home(), org);
        let opened =
            if keys.is_none() { Some(self.keys(org, doing).map_err(|why| why.exit(Exit::Usage))?) } else { None };
        let keys = keys.or(opened.as_ref());
        let (known, memory) =
            (folder.known().map_err(|why| failed(&why))?, folder.memory().map_err(|why| failed(&why))?);
        let author = keys.ok_or(KeyError::NoKey).and_then(|keys| keys.author(memory.signer.as_ref()));
        let (signer, key) = author.map_err(|why| failed(&why))?;
        let own = (signer.clone(), EdKey::from_seed(&key.seed()));
        let roots = Roots::from_certificates(vec![known.founding.record.endpoint_root.0.clone().into()]);
        let desk = RemoteDesk::connect(doors, roots, known, own).await.map_err(|why| {
            failed(&why).hint("is the gateway running? start it: freehold serve; or name it: --gateway HOST:PORT")
        })?;
        Ok(AnyDesk::Remote(Box::new(desk)))
    }
}

/// An operator's failure, with the gateway's refusal or the connection's fate brought to light.
pub fn failure(doing: &str, why: &OperateError) -> Failure {
    match why {
        OperateError::Desk(DeskError::Refused(refusal) | DeskError::Call(CallError::Refused(refusal))) => {
            Failure::new(doing, refusal)
        }
        OperateError::Desk(DeskError::Call(call)) => Failure::new(doing, call),
        OperateError::LedgerBehind
        | OperateError::Knowledge(_)
        | OperateError::NotAsTold { .. }
        | OperateError::NotTaken => Failure::new(doing, why)
            .exit(Exit::Refused)
            .hint("keep the gateway's folder for evidence, and put the newest copy of it in its place"),
        OperateError::Clock(_) => Failure::new(doing, why)
            .exit(Exit::Refused)
            .hint("nothing was signed: set the clock that is wrong; if this one is right, add --trust-clock"),
        OperateError::Desk(DeskError::OtherAnswer)
        | OperateError::Folder(_)
        | OperateError::Key(_)
        | OperateError::Envelope(_)
        | OperateError::NotWritten(_)
        | OperateError::NoRandomness(_)
        | OperateError::NoSuch { .. }
        | OperateError::Unwise(_) => Failure::new(doing, why),
    }
}
