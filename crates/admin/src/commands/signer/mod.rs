//! `freehold signer list | new | add | replace | remove | threshold | settle | hand-over`.

pub mod unlock;
pub mod token;
pub mod over;
mod shown;
mod inbox;
pub mod sign;
pub mod send;
pub mod recover;
mod list;
mod settle;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ground::passphrase::Passphrase;
use identity::key::PublicKey;
use identity::principal::SignerName;
use operate::folder::OperatorFolder;
use operate::key::token::uri::TokenUri;
use operate::session::Session;
use operate::signer;
use operate::signer::describe::quorum_changes;
use operate::signer::home::{self, OnToken};
use operate::signer::over::Ending;
use operate::signer::over::ends_with;
use operate::signer::{Change, changed};
use operate::trust::adopted::bounded;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use wire::known::Known;

use list::List;
use settle::Settle;

use crate::home::{Common, During};
use crate::waiting::{Consent, Left, told};

#[derive(Debug, Subcommand)]
pub enum SignerCommand {
    /// List the signers, and the sets that came before
    List(List),
    /// Make a signer's key in this home, from the org's card
    New(New),
    /// Add a signer
    Add(Add),
    /// Put a new key in the place of a signer's
    Replace(Replace),
    /// Remove a signer; the last one stays
    Remove(Remove),
    /// Change how many must agree
    Threshold(ThresholdTo),
    /// Make one of several sets that claim one place
    Settle(Settle),
    /// Move a signer's key to a home of its own
    HandOver(HandOver),
}

impl SignerCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(common).await,
            Self::New(new) => new.run(common),
            Self::Add(add) => add.run(common).await,
            Self::Replace(replace) => replace.run(common).await,
            Self::Remove(remove) => remove.run(common).await,
            Self::Threshold(threshold) => threshold.run(common).await,
            Self::Settle(settle) => Box::pin(settle.run(common)).await,
            Self::HandOver(hand_over) => hand_over.run(common),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold org card --out harbor.card                       an operator, who gives you the file
  freehold signer new ben --card harbor.card                you; check the org id with that operator
  freehold signer add ben --key ed25519:...                 that operator, with the key that you were shown")]
pub struct New {
    /// The signer's name; it stands for this key for ever
    name: SignerName,
    /// The org's card, if this home does not know the org yet
    #[arg(long, value_name = "FILE")]
    card: Option<PathBuf>,
    /// Keep the key unencrypted
    #[arg(long, conflicts_with = "passphrase_file")]
    unprotected: bool,
}

#[derive(Serialize)]
struct Made {
    org: String,
    org_id: String,
    name: String,
    key: String,
}

impl New {
    fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not make a key for `{}`", self.name);
        let (folder, known) = match &self.card {
            None => known_here(common, &doing)?,
            Some(path) => home::from_card(&common.home(), path).during(&doing)?,
        };
        let key = find_or_make_key(common, &folder, &known, &self.name, self.unprotected, &doing)?;
        let told = Made {
            org: known.founding.record.name.to_string(),
            org_id: known.org().to_string(),
            name: self.name.to_string(),
            key: key.to_string(),
        };
        show(common.json, &told, || {
            format!(
                "org     {}\norg id  {}\nsigner  {}\nkey     {}\n\nCheck the org id with an operator whom you trust, who then runs:\n\n  freehold signer add {} --key {}\n",
                told.org, told.org_id, told.name, told.key, told.name, told.key
            )
        });
        Ok(())
    }
}

fn known_here(common: &Common, doing: &str) -> Result<(OperatorFolder, Known), Failure> {
    let org = common.org(doing).map_err(|why| why.hint("or start from the org's card: --card FILE"))?;
    let folder = OperatorFolder::at(&common.home(), &org);
    let known = folder.known().during(doing)?;
    Ok((folder, known))
}

/// The key of somebody who is no signer yet: the one that an earlier run left here, or a new one.
pub fn find_or_make_key(
    common: &Common,
    folder: &OperatorFolder,
    known: &Known,
    name: &SignerName,
    unprotected: bool,
    doing: &str,
) -> Result<PublicKey, Failure> {
    if home::has_new_key(folder, known, name) {
        return common.public_key_here(folder, name, doing);
    }
    home::check_free(folder, name).during(doing)?;
    let passphrase = common.new_passphrase(unprotected, doing)?;
    home::make_key(folder, name, passphrase.as_ref()).during(doing)
}

/// Where a new signer's key comes from.
#[derive(Debug, Args)]
pub struct Source {
    /// The key that the new signer made elsewhere: freehold signer new [default: a new key in this home]
    #[arg(long, value_name = "KEY")]
    key: Option<PublicKey>,
    /// A hardware token that holds the key, as a PKCS#11 URI
    #[arg(long, value_name = "URI", conflicts_with_all = ["key", "unprotected"])]
    pkcs11: Option<TokenUri>,
    /// Make the key on the token
    #[arg(long, requires = "pkcs11")]
    generate: bool,
    /// Keep a key that is made here unencrypted
    #[arg(long, conflicts_with_all = ["key", "passphrase_file"])]
    unprotected: bool,
}

impl Source {
    fn key(&self, common: &Common, name: &SignerName, doing: &str) -> Result<PublicKey, Failure> {
        match (self.key, &self.pkcs11) {
            (Some(key @ PublicKey::Ed25519(_)), _) => Ok(key),
            (Some(_), _) => Err(Failure::usage(doing, "a signer's key is an Ed25519 key")),
            (None, Some(uri)) => {
                let (folder, known) = known_here(common, doing)?;
                let on = OnToken { uri, generate: self.generate };
                home::use_token(&folder, &known, name, on, Passphrase::ask).during(doing)
            }
            (None, None) => {
                let (folder, known) = known_here(common, doing)?;
                find_or_make_key(common, &folder, &known, name, self.unprotected, doing)
            }
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold signer add ben --key ed25519:...                 ben made his key with `freehold signer new`
  freehold signer add ben --key ed25519:... --threshold 2   from then on two must agree
  freehold signer add spare                                 a second key in this home
  freehold signer add ann-token --pkcs11 'pkcs11:token=ann;object=freehold?module-path=/usr/lib/softhsm/libsofthsm2.so'

The signers of now sign the new set, and enough of the new ones sign its first head: whoever is added shows that the
key is really there.")]
pub struct Add {
    /// The new signer's name; it stands for this key for ever
    name: SignerName,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    terms: Terms,
}

#[derive(Debug, Args)]
pub struct Terms {
    /// How many must agree from then on [default: as now]
    #[arg(long, value_name = "K")]
    threshold: Option<usize>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Add {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not add the signer `{}`", self.name);
        let key = self.source.key(common, &self.name, &doing)?;
        change(common, &doing, &Change::Add { name: self.name, key }, &self.terms).await
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold signer replace ann ann-2025                      a new key in this home, in place of ann's
  freehold signer replace ann ben --key ed25519:...

A name stands for one key for ever, so the new key has a name of its own. Invites that only the old key signed
end, unless they are carried over: freehold sign --over.")]
pub struct Replace {
    /// The signer who goes
    old: SignerName,
    /// The name of the new key
    name: SignerName,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    terms: Terms,
}

impl Replace {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not replace the signer `{}`", self.old);
        let key = self.source.key(common, &self.name, &doing)?;
        change(common, &doing, &Change::Replace { old: self.old, name: self.name, key }, &self.terms).await
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold signer remove ben --threshold 1")]
pub struct Remove {
    /// The signer who goes
    name: SignerName,
    #[command(flatten)]
    terms: Terms,
}

impl Remove {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not remove the signer `{}`", self.name);
        change(common, &doing, &Change::Remove { name: self.name }, &self.terms).await
    }
}

#[derive(Debug, Args)]
pub struct ThresholdTo {
    /// How many must agree from then on
    k: usize,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl ThresholdTo {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let terms = Terms { threshold: Some(self.k), yes: self.yes };
        change(common, "could not change the threshold", &Change::Keep, &terms).await
    }
}

#[derive(Serialize)]
struct Changed {
    version: u64,
    threshold: usize,
    signers: Vec<String>,
    /// What ends with it, unless it is carried over.
    ends: Vec<Ending>,
    #[serde(flatten)]
    pending: Left,
}

fn tell_ends(ends: &[Ending]) {
    let lines = bounded(&ends.iter().map(Ending::in_words).collect::<Vec<_>>());
    if !lines.is_empty() {
        eprintln!("these end with it; carry them over then: freehold sign --over");
        for line in lines {
            eprintln!("  {line}");
        }
    }
}

async fn change(common: &Common, doing: &str, change: &Change, terms: &Terms) -> Result<(), Failure> {
    let (mut session, keys) = common.signing_session_with_all(doing).await?;
    let now = session.known.signers.clone();
    let next = changed(&now.quorum, change, terms.threshold).during(doing)?;
    let ends = ends_with(&mut session, &next).await.during(doing)?;
    if !common.json {
        for line in quorum_changes(&now.quorum, &next) {
            eprintln!("{line}");
        }
        tell_ends(&ends);
    }
    let consent = Consent { common, doing, yes: terms.yes, question: "Sign the new set?" };
    let draft = |session: &Session, now| Ok(signer::draft(session, change, terms.threshold, now)?.roll());
    let sign = async |session: &mut Session| signer::change(session, &keys, change, terms.threshold).await;
    let (quorum, pending) = consent.sign(&mut session, draft, sign).await?;
    let signers = quorum.signers().iter().map(|signer| signer.name.to_string()).collect();
    let result = Changed { version: now.version + 1, threshold: quorum.threshold(), signers, ends, pending };
    show(common.json, &result, || {
        told(result.pending.waiting(), || {
            let (k, n) = (result.threshold, result.signers.len());
            format!("signer set {} is in force: {k} of {n} must agree: {}", result.version, result.signers.join(", "))
        })
    });
    Ok(())
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold found harbor --signers 2-of-3
  freehold signer hand-over ann-2 --to /media/ben/.freehold       then: freehold --home /media/ben/.freehold sign FILE

The key file is moved, not copied: this home cannot sign as that signer any more. Its passphrase stays the same.")]
pub struct HandOver {
    /// The signer whose key goes
    name: SignerName,
    /// The home that it goes to
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

#[derive(Serialize)]
struct HandedOver {
    name: String,
    home: String,
}

impl HandOver {
    fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not hand over the key of `{}`", self.name);
        let (folder, known) = known_here(common, &doing)?;
        home::hand_over(&folder, &known, &self.name, &self.to).during(&doing)?;
        let told = HandedOver { name: self.name.to_string(), home: self.to.display().to_string() };
        show(common.json, &told, || {
            format!("the key of `{}` is in `{}` now, and no longer here", told.name, told.home)
        });
        Ok(())
    }
}
