//! `freehold trust rollback DOMAIN`: a new version with the roots that were there before the last turn.

use clap::Args;
use identity::bundle::{Endpoint, Identity, InDomain};
use identity::time::Seconds;
use operate::trust::step::{self, StepOutcome};
use terminal::failure::Failure;
use terminal::show::show;

use crate::commands::trust::domain::{DomainWord, TurnTold};
use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold trust rollback endpoint
  freehold trust rollback identity --grace 1d

Versions only rise: going back is a new version with the former roots. What was only staged is trusted no more at once;
what was in use already is trusted for the grace, since nodes may have certificates that lead to it alone. A version that
was retired does not come back.")]
pub struct Rollback {
    /// Which roots: those of gateways, or those of members
    domain: DomainWord,
    /// How long the version that is taken back is trusted still, if it was in use
    #[arg(long, value_name = "SPAN", default_value = "7d")]
    grace: Seconds,
}

impl Rollback {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self.domain {
            DomainWord::Endpoint => self.run_in::<Endpoint>(common).await,
            DomainWord::Identity => self.run_in::<Identity>(common).await,
        }
    }

    async fn run_in<T: InDomain>(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not take the last turn of the `{}` roots back", self.domain.word());
        let (mut session, keys) = common.signing_session(&doing).await?;
        let made = step::roll_back::<T>(&mut session, &keys, self.grace).await.during(&doing)?;
        let told = TurnTold::of(common, &session.known, &made, &doing)?;
        show(common.json, &told, || told.in_words(|| in_words(&made.what)));
        Ok(())
    }
}

pub fn in_words(turned: &StepOutcome) -> String {
    let reverts = turned.reverts.unwrap_or_default();
    let gone = match turned.grace {
        Some(grace) => format!("version {reverts} is trusted beside it until {}", grace.until),
        None => format!("version {reverts} is trusted no more"),
    };
    format!(
        "version {} of `{}` is in use (head {}): the former roots {}\n{gone}",
        turned.version,
        turned.domain.word(),
        turned.head,
        turned.roots
    )
}
