//! `freehold trust publish DOMAIN`: a new root, handed out beside the one in use; or the same with other outside roots.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use identity::bundle::{Endpoint, Identity, InDomain, OutsideRoot};
use identity::principal::{Host, NodeName};
use operate::session::TrustError;
use operate::trust::lifetimes::Certifier;
use operate::trust::outside::OutsideWish;
use operate::trust::step;
use operate::trust::{issuers, outside};
use terminal::failure::Failure;
use terminal::show::show;

use crate::commands::trust::domain::{DomainWord, TurnTold};
use crate::home::{Common, During, failure};
use crate::root_keys::{LifetimeArgs, RootKeys};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold trust publish endpoint
  freehold trust publish identity --without vps     although `vps` sleeps, and nobody knows its issuing keys
  freehold trust publish endpoint --outside isrg-x1.pem --for gw.example.com
  freehold trust publish endpoint --outside-none

Draws a root on this machine, certifies the gateways' issuing keys with it, and hands both out. Nodes try it and take it
beside the root in use; nothing else changes until: freehold trust activate DOMAIN. All steps in one: freehold rotate

With --outside no root is drawn: the version has the roots in use, and a root of somebody else beside them. It is for a
gateway behind a web server that ends TLS with a certificate of that root (its address is wss://HOST): pasted lines then
download from HOST, and each download is checked by its hash. It is believed for those names alone, and never to enroll,
renew or sync. It goes on with later versions until --outside-none.")]
pub struct Publish {
    /// Which roots: those of gateways, or those of members
    domain: DomainWord,
    /// A gateway that is left out, because its issuing keys are not known; refused if they are; may be repeated
    #[arg(long, value_name = "NAME")]
    without: Vec<NodeName>,
    /// Where the root keys are [default: the operator's folder]
    #[arg(long, value_name = "DIR")]
    roots: Option<PathBuf>,
    #[command(flatten)]
    lifetimes: LifetimeArgs,
    /// Draw no root; add this root certificate of somebody else, a PEM file, for downloads from --for alone
    #[arg(long, value_name = "FILE", requires = "hosts", conflicts_with_all = ["without", "roots", "root_lifetime", "issuer_lifetime"])]
    outside: Option<PathBuf>,
    /// The name of a gateway for which the outside root counts; may be repeated
    #[arg(long = "for", id = "hosts", value_name = "HOST", num_args = 1.., requires = "outside")]
    hosts: Vec<Host>,
    /// Draw no root; drop the outside roots that are there
    #[arg(long, conflicts_with_all = ["without", "roots", "root_lifetime", "issuer_lifetime"])]
    outside_none: bool,
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
        step::check_unstaged(&session, T::DOMAIN).during(&doing)?;
        let made = if let Some(wish) = self.outside_wish(&doing)? {
            outside::publish(&mut session, &keys, wish).await
        } else {
            let without: BTreeSet<NodeName> = self.without.into_iter().collect();
            let left_out = issuers::check_without(&mut session, &without, T::DOMAIN).await;
            left_out.during(&doing)?;
            let lives = self.lifetimes.lives(&doing)?;
            let roots = RootKeys::new(common, &session, self.roots).lasting(lives);
            let root = roots.next::<T>(&mut session, &doing).await?;
            let under = Certifier { root: &root, life: lives.issuer };
            step::publish(&mut session, &keys, under, &without).await
        };
        let made = made.during(&doing)?;
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

    /// What is wanted of outside roots, if that is what this is about.
    fn outside_wish(&self, doing: &str) -> Result<Option<OutsideWish>, Failure> {
        if self.outside.is_none() && !self.outside_none {
            return Ok(None);
        }
        if self.domain == DomainWord::Identity {
            return Err(failure(doing, &TrustError::OutsideIdentity));
        }
        let read = |file: &PathBuf| match std::fs::read_to_string(file) {
            Ok(pem) => Ok(OutsideRoot { hosts: self.hosts.clone(), pem }),
            Err(why) => Err(Failure::failed(doing, format!("`{}` cannot be read: {why}", file.display()))
                .hint("name a PEM file with the root certificate: --outside FILE")),
        };
        Ok(Some(OutsideWish { drop: self.outside_none, add: self.outside.as_ref().map(read).transpose()? }))
    }
}
