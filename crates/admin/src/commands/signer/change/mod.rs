//! Who signs, changed: what the commands that do so have in common.

pub mod add;
pub mod replace;
pub mod remove;
pub mod threshold;

use clap::Args;
use ground::passphrase::Passphrase;
use identity::key::PublicKey;
use identity::principal::SignerName;
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

use crate::commands::signer::own::{Owner, known_here};
use crate::home::{Common, During};
use crate::waiting::{Consent, Left, told};

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
                Owner { common, unprotected: self.unprotected, doing }.find_or_make_key(&folder, &known, name)
            }
        }
    }
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

pub fn tell_ends(ends: &[Ending]) {
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
