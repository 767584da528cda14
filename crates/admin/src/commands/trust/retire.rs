//! `freehold trust retire DOMAIN N`: a version is trusted no more, and whoever would break by it is named first.

use clap::Args;
use identity::id::Fingerprint;
use operate::session::Session;
use operate::trust::dependents::look;
use operate::trust::dependents::{self, Break, WaiveOutcome};
use operate::trust::retire::{RetireWish, draft, retire};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use super::plan::{Planned, VersionWords, cures};
use crate::home::{Common, During};
use crate::waiting::{self, Consent, Left};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold trust retire endpoint 1
  freehold trust retire identity 2 --waive old-nas --waive service/wiki@old-nas
  freehold trust retire identity 2 --waive vps --waive gateway/vps    the node `vps`, and the gateway that it is
  freehold trust retire endpoint 1 --early    before its promised grace is over

Refused while anything would break by it. What may break all the same is waived by its name, one --waive for each: the
names are in the ledger, and whoever signs with you sees them. See who it is: freehold trust plan retire endpoint 1")]
pub struct Retire {
    #[command(flatten)]
    version: VersionWords,
    /// Let this break: its name as `trust plan` tells it; may be repeated
    #[arg(long, value_name = "NAME")]
    waive: Vec<String>,
    /// Before its promised grace is over
    #[arg(long)]
    early: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Retired {
    domain: &'static str,
    trust_bundle_version: u64,
    head: u64,
    roots_gone: Vec<Fingerprint>,
    waived: Vec<Break>,
    #[serde(flatten)]
    pending: Left,
}

impl Retire {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not retire the version";
        let (mut session, keys) = common.signing_session(doing).await?;
        let (domain, version) = self.version.find(&session.lines(), doing)?;
        let wish = RetireWish { domain, version, early: self.early, waived: self.waive };
        let scene = look::scene(&mut session, domain).await.during(doing)?;
        let outcome = dependents::outcome(&scene, wish.step(), None);
        let outcome = outcome.during(doing)?;
        let planned = Planned::of(&scene, wish.step(), &outcome);
        let WaiveOutcome { open, idle, several } = outcome.waive(&wish.waived);
        if !several.is_empty() {
            let why = format!("several ids begin with `{}`", several.join("`, `"));
            return Err(Failure::usage(doing, why).hint("say more of each: freehold trust plan retire"));
        }
        if !open.is_empty() {
            let names: Vec<_> = open.iter().map(|it| format!("{} `{}`: {}", it.kind.word(), it.name, it.why)).collect();
            let why = format!("{} would break, and nobody waived it:\n    {}", names.len(), names.join("\n    "));
            return Err(Failure::refused(doing, why)
                .hint(format!("{}\n      or let each break by its name: --waive NAME", cures(open))));
        }
        if !idle.is_empty() {
            let why = format!("nothing that would break is called `{}`", idle.join("`, `"));
            return Err(Failure::usage(doing, why).hint("see who would: freehold trust plan retire"));
        }
        if !self.yes {
            eprintln!("{}\n", ground::plain::plain(&planned.in_words()));
        }
        let question = format!("Trust version {version} of `{}` no more, for good?", domain.word());
        let consent = Consent { common, doing, yes: self.yes, question: &question };
        let draft = |session: &Session, now| Ok(draft(session, &scene, &wish, now)?.roll());
        let sign = async |session: &mut Session| retire(session, &keys, &wish).await;
        let ((head, waived), pending) = consent.sign(&mut session, draft, sign).await?;
        let (domain, head) = (domain.word(), head.version);
        let told = Retired { domain, trust_bundle_version: version, head, roots_gone: outcome.going, waived, pending };
        show(common.json, &told, || {
            waiting::told(told.pending.waiting(), || {
                let waived = match told.waived.len() {
                    0 => "; nobody breaks by it".to_owned(),
                    many => format!("; {many} may break by it, as you said"),
                };
                format!("version {version} of `{domain}` is trusted no more (head {head}){waived}")
            })
        });
        Ok(())
    }
}
