//! `freehold rollback`: a new head that says again what an earlier one said of the fleet.

use clap::Args;
use operate::publish::run;
use terminal::failure::Failure;
use terminal::show::show;

use crate::commands::fleet::publish::{Ended, Person, PublishOptions, finish};
use crate::home::{Common, During};
use crate::planning;
use crate::waiting::{Consent, leave};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold rollback                 to the fleet that was published before the present one
  freehold rollback --to 41 --yes
  freehold rollback --to 41 --dry-run     only says what it would do, and the members' map that would be signed

Versions only rise: this is a new head. Revocations, mandates and signers stay as they are; so do keys of machines that
were replaced since. The files of the fleet are not touched: mend them before the next publish.")]
pub struct Rollback {
    /// The head to go back to [default: the last that published another fleet]
    #[arg(long, value_name = "HEAD")]
    to: Option<u64>,
    /// Only say what it would do: whoever is to sign another's compares the members' map
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    how: PublishOptions,
}

impl Rollback {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not roll back";
        if self.dry_run {
            return self.look(common, doing).await;
        }
        let (mut session, keys) = common.signing_session(doing).await?;
        let consent = Consent { common, doing, yes: self.how.yes, question: "Go back to it?" };
        let mut person = Person::new(consent, String::new());
        let made = run::go_back(&mut session, &keys, self.to, &mut person).await;
        let made = made.map_err(|why| why.told(doing))?;
        let pending = leave(common, doing, &session.known, &made.head)?;
        finish(common, &mut session, Ended { doing, made, pending, patterns: Vec::new(), how: self.how }).await
    }

    /// Nothing is signed.
    async fn look(&self, common: &Common, doing: &str) -> Result<(), Failure> {
        let mut session = common.session(doing).await?;
        let (to, prepared) = run::look_back(&mut session, self.to).await.during(doing)?;
        show(common.json, &planning::as_facts(&session, &prepared), || {
            let (words, root) = (planning::in_words(&session, &prepared), prepared.compiled.root);
            format!("back to what head {} said\n{words}\nthe members' map would be {root}", to.version)
        });
        Ok(())
    }
}
