//! `freehold trust publish DOMAIN`: a new root, handed out beside the one in use.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use identity::bundle::{Endpoint, Identity, InDomain};
use identity::principal::NodeName;
use node::report::{Failure, show};

use crate::commands::trust::domain::{DomainWord, TurnTold};
use crate::home::{Common, failure};
use crate::rooting::next_root;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold trust publish endpoint
  freehold trust publish identity --without vps     although `vps` sleeps, and nobody knows its issuing keys

Draws a root on this machine, certifies the gateways' issuing keys with it, and hands both out. Nodes try it and take it
beside the root in use; nothing else changes until: freehold trust activate DOMAIN. All steps in one: freehold rotate")]
pub struct Publish {
    domain: DomainWord,
    /// A gateway that is left out, because its issuing keys are not known; may be repeated
    #[arg(long, value_name = "NAME")]
    without: Vec<NodeName>,
    /// Where the root keys are [default: the operator's folder]
    #[arg(long, value_name = "DIR")]
    roots: Option<PathBuf>,
}

impl Publish {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self.domain {
            DomainWord::Endpoint => self.run_in::<Endpoint>(common).await,
            DomainWord::Identity => self.run_in::<Identity>(common).await,
        }
    }

    async fn run_in<T: InDomain>(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not publish a version of the `{}` roots", self.domain.word());
        let (mut session, keys) = common.signing_session(&doing).await?;
        session.check_unstaged(T::DOMAIN).map_err(|why| failure(&doing, &why))?;
        let root = next_root::<_, T>(common, &mut session, self.roots, &doing).await?;
        let without: BTreeSet<NodeName> = self.without.into_iter().collect();
        let made = session.publish_trust(&keys, &root, &without).await.map_err(|why| failure(&doing, &why))?;
        drop(root);
        let told = TurnTold::of(common, &session.known, &made, &doing)?;
        show(common.json, &told, || {
            told.in_words(|| {
                format!(
                    "version {} of `{1}` is staged (head {2}): {3}\nNodes take it beside the one in use: freehold trust \
                     list\nThen turn to it: freehold trust activate {1}",
                    told.trust_bundle_version, told.domain, told.head, told.sha256_fingerprint
                )
            })
        });
        Ok(())
    }
}
