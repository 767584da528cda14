//! `freehold trust activate DOMAIN`: the staged version is the one to use, and the former stays for a while.

use std::collections::BTreeSet;

use clap::Args;
use identity::bundle::{Endpoint, Identity, InDomain};
use identity::principal::NodeName;
use identity::time::Seconds;
use operate::trust::step;
use operate::trust::step::LeftBehind;
use terminal::failure::Failure;
use terminal::show::show;

use crate::commands::trust::domain::{DomainWord, TurnTold};
use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold trust activate endpoint
  freehold trust activate identity --grace 30d
  freehold trust activate endpoint --anyway laptop --anyway old-nas    although these two have not taken it over

Refused while a member has not taken the staged version over; each that need not be waited for is named with --anyway. It goes
on by the former version, and is cut off only if that one is retired before it is back. Refused, too, while a gateway's issuing
key has no certificate under it; each that may be left out is named with --without.")]
pub struct Activate {
    /// Which roots: those of gateways, or those of members
    domain: DomainWord,
    /// How long the former version is trusted beside it
    #[arg(long, value_name = "SPAN", default_value = "7d")]
    grace: Seconds,
    /// A node that has not taken it over and is not waited for; may be repeated
    #[arg(long, value_name = "NODE")]
    anyway: Vec<NodeName>,
    /// A gateway that has no certificate under it, and serves nobody who goes by it alone; may be repeated
    #[arg(long, value_name = "NAME")]
    without: Vec<NodeName>,
}

impl Activate {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self.domain {
            DomainWord::Endpoint => self.run_in::<Endpoint>(common).await,
            DomainWord::Identity => self.run_in::<Identity>(common).await,
        }
    }

    async fn run_in<T: InDomain>(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not turn to the staged version of the `{}` roots", self.domain.word());
        let (mut session, keys) = common.signing_session(&doing).await?;
        let anyway: BTreeSet<NodeName> = self.anyway.into_iter().collect();
        let without: BTreeSet<NodeName> = self.without.into_iter().collect();
        let made =
            step::activate::<T>(&mut session, &keys, self.grace, LeftBehind { nodes: &anyway, gateways: &without })
                .await;
        let made = made.during(&doing)?;
        let told = TurnTold::of(common, &session.known, &made, &doing)?;
        show(common.json, &told, || {
            told.in_words(|| {
                let now = format!(
                    "version {} of `{}` is in use (head {}): {}",
                    told.trust_bundle_version, told.domain, told.head, told.sha256_fingerprint
                );
                let former = match (told.replaces_version, told.grace) {
                    (Some(former), Some(grace)) => format!(
                        "\nversion {former} is trusted beside it until {}. Then: freehold trust retire {} {former}",
                        grace.until, told.domain
                    ),
                    _ => String::new(),
                };
                format!("{now}{former}\nTake it back: freehold trust rollback {}", told.domain)
            })
        });
        Ok(())
    }
}
