//! `freehold mandate change`.

use clap::Args;
use ground::clock;
use identity::principal::NodeName;
use identity::principal::glob::NameGlob;
use identity::time::Seconds;
use operate::gateway::mandate;
use operate::gateway::mandate::MandateWish;
use operate::session::Session;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use super::list::MandateTold;
use crate::home::{Common, During};
use crate::waiting::{Consent, Left, told};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold mandate change gw-1 --svid-ttl 8h
  freehold mandate change gw-1 --name 'web-*' --name gw-1      it may issue for these names only

What it issued for other names is refused from then on.")]
pub struct ChangeMandate {
    /// The gateway's node name
    #[arg(value_name = "GATEWAY")]
    node: NodeName,
    /// Names for which it may issue, in place of those of now; may be repeated
    #[arg(long = "name", value_name = "GLOB")]
    names: Vec<NameGlob>,
    /// How long an SVID lives
    #[arg(long, value_name = "SPAN")]
    svid_ttl: Option<Seconds>,
    /// How long the mandate lasts from now
    #[arg(long, value_name = "SPAN")]
    lasts: Option<Seconds>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Changed {
    mandate: MandateTold,
    #[serde(flatten)]
    pending: Left,
}

impl ChangeMandate {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not change the mandate of `{}`", self.node);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let names = if self.names.is_empty() { None } else { Some(self.names) };
        let wish = MandateWish { names, svid_ttl: self.svid_ttl, lasts: self.lasts };
        let known = session.head().mandates.iter().find(|mandate| mandate.gateway == self.node);
        let known =
            known.ok_or_else(|| Failure::failed(&doing, "it has no mandate").hint("see: freehold mandate list"))?;
        let next = wish.apply(known, clock::now()).during(&doing)?;
        if !common.json {
            eprintln!("{}", in_words(&MandateTold::from(&next)));
        }
        let question = format!("Change the mandate of `{}`?", self.node);
        let consent = Consent { common, doing: &doing, yes: self.yes, question: &question };
        let draft = |session: &Session, now| Ok(mandate::draft(session, &self.node, &wish, now)?.roll());
        let sign = async |session: &mut Session| mandate::change(session, &keys, &self.node, &wish).await;
        let (mandate, pending) = consent.sign(&mut session, draft, sign).await?;
        let result = Changed { mandate: MandateTold::from(&mandate), pending };
        show(common.json, &result, || told(result.pending.waiting(), || "in force".to_owned()));
        Ok(())
    }
}

fn in_words(told: &MandateTold) -> String {
    let (names, kinds) = (told.names.join(" "), told.kinds.join(", "));
    format!(
        "`{}` may issue for {kinds} named {names}, for {} each, until {}",
        told.gateway, told.svid_ttl, told.not_after
    )
}
