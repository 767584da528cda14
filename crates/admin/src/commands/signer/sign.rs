//! `freehold sign [FILE]`: says what it would do, then adds this operator's signature.

use std::path::{Path, PathBuf};

use clap::Args;
use operate::folder::OperatorFolder;
use operate::pending::{BadPending, Pending};
use operate::signer::cosign::Looked;
use operate::signer::describe;
use operate::signer::weigh::weigh;
use terminal::confirm::confirm;
use terminal::failure::Failure;
use terminal::show::show;

use crate::commands::signer::shown::{SignOptions, WeighedView, check, in_words, tell, unfit};
use crate::commands::signer::{inbox, over};
use crate::home::{Common, During};
use crate::waiting::of_org;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold sign                                         what waits in the gateway's inbox: shows each, asks, signs
  freehold sign 77ab01cd                                the one of these that is called so
  freehold sign --show                                  only shows them
  freehold sign --drop 77ab01cd                         takes back what you left there
  freehold sign harbor-invite-5f0c2a91.pending          the same from a file
  freehold sign --over                                  after `freehold signer ...`: invites that were made before go on

What is shown is read from the bytes that are signed, never from what somebody wrote beside them. Whom a head lists is held
against this home's own copy of the ledger; where that says otherwise, or cannot tell, nothing is signed. What was found in
the inbox is left there again, signed, or delivered if yours was the last signature. Of a file nothing is sent and no gateway is
asked: `freehold node list` brings the copy up to date.")]
pub struct SignPending {
    /// What waits for signatures: a file, or the first 8 digits or more of what lies in the inbox [default: all that does]
    file: Option<PathBuf>,
    /// Take back what you left in the inbox: its first 8 digits or more
    #[arg(long, value_name = "DIGITS", value_parser = inbox::digits, conflicts_with_all = ["file", "over", "show", "anyway"])]
    drop: Option<String>,
    /// Sign anew what ended when the signers changed: invites and waivers that are still open
    #[arg(long, conflicts_with_all = ["file", "show", "anyway"])]
    over: bool,
    #[command(flatten)]
    how: SignOptions,
}

impl SignPending {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let named = self.file.as_deref().and_then(Path::to_str).and_then(|name| inbox::digits(name).ok());
        match &self.file {
            None if self.over => Box::pin(over::run(common, self.how.yes)).await,
            None => match &self.drop {
                Some(digits) => Box::pin(inbox::withdraw(common, digits)).await,
                None => Box::pin(inbox::run(common, None, &self.how)).await,
            },
            Some(file) if named.is_some() && !file.exists() => {
                Box::pin(inbox::run(common, named.as_deref(), &self.how)).await
            }
            Some(file) => self.sign(common, file),
        }
    }

    fn sign(&self, common: &Common, file: &Path) -> Result<(), Failure> {
        let doing = format!("could not sign `{}`", file.display());
        let failed = |why: BadPending| unfit(&doing, &why);
        let mut pending = Pending::read(file).map_err(failed)?;
        let org = common.org(&doing)?;
        let folder = OperatorFolder::at(&common.home(), &org);
        let known = folder.known().during(&doing)?;
        let quorums = pending.quorums(&known).map_err(failed)?;
        let does = describe::in_words(&known, &pending.handed).map_err(|why| failed(why.into()))?;
        let weighed = weigh(&folder, &known, &pending).map_err(failed)?;
        let mut signed_now = Vec::new();
        tell(common, &pending, &does, &weighed);
        if !self.how.show {
            check(common, &self.how, known.org(), &pending, &weighed).during(&doing)?;
            confirm(self.how.yes, &doing, &of_org(common, &known, "Sign it?"))?;
            let keys = common.keys_for(&folder, &quorums, &doing)?;
            let fresh = pending.sign(&known, &keys).map_err(failed)?;
            signed_now = fresh.iter().map(ToString::to_string).collect();
            if fresh.is_empty() {
                let why = "everybody whose key is here has signed it already, or is not among those who must";
                return Err(Failure::refused(&doing, why).hint("see who is missing: freehold sign --show FILE"));
            }
            pending.save(file).map_err(failed)?;
        }
        let needs = pending.needs(&known).map_err(failed)?;
        let seen = WeighedView {
            signed_now,
            file: Some(file.display().to_string()),
            ..WeighedView::new(Looked { does, weighed })
        };
        let told = seen.told(&pending, &needs);
        if !told.complete && !self.how.show {
            common.unfinished.note();
        }
        show(common.json, &told, || in_words(&told));
        Ok(())
    }
}
