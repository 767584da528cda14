//! `freehold refresh`: the head and the mandates last longer; nothing else changes, unless it goes round a bad head.

use clap::Args;
use ground::clock;
use operate::publish::around;
use operate::publish::around::Detour;
use operate::publish::heads;
use operate::replica::roll::names;
use operate::session::Session;
use operate::session::timely::Reliance;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::{Common, During};
use crate::waiting::{Consent, Left, leave, told};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold refresh                  once a month at least: joiners refuse a head that is no longer fresh
  freehold refresh --reset-clock    the newest head was signed by a clock that was ahead: says what time it really is
  freehold refresh --around 41      the heads after 41 should never have been signed: shows what changes, asks, goes round them

Whoever goes round a head says again what the named one said: mandates, fleet, release, roots. What was taken away since
stays so: revoked keys and invites, closed chains, retired roots. Machines that only the bad heads list are revoked.")]
pub struct Refresh {
    /// The newest head is dated in the future, by a wrong clock: overrule it with the time of this machine
    #[arg(long)]
    reset_clock: bool,
    /// Go round the newest head: follow this one instead, the last good one [its version, or 8 digits of its digest]
    #[arg(long, value_name = "HEAD")]
    around: Option<String>,
    /// Do not ask before going round
    #[arg(long, requires = "around")]
    yes: bool,
}

#[derive(Serialize)]
struct Refreshed {
    head: u64,
    fresh_until: String,
    mandates_until: Vec<String>,
    #[serde(flatten)]
    pending: Left,
    #[serde(skip_serializing_if = "Option::is_none")]
    around: Option<Around>,
}

#[derive(Serialize)]
struct Around {
    follows: u64,
    digest: String,
    goes_round: u64,
    changes: Vec<String>,
    remade: Vec<String>,
    stays: Vec<String>,
}

impl Refresh {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = if self.around.is_some() { "could not go round the head" } else { "could not refresh the head" };
        let (mut session, keys) = common.signing_session(doing).await?;
        if self.reset_clock {
            session.reliance = Reliance::Resets;
        }
        let detour = self.plan(common, &mut session, doing).await?;
        let (head, pending) = if let Some(detour) = &detour {
            let consent = Consent { common, doing, yes: self.yes, question: "Go round it?" };
            let draft = |session: &Session, now| Ok(around::draft(session, detour, now)?.roll);
            let sign = async |session: &mut Session| around::go(session, &keys, detour).await;
            consent.sign(&mut session, draft, sign).await?
        } else {
            let made = heads::refresh(&mut session, &keys).await.during(doing)?;
            let pending = leave(common, doing, &session.known, &made)?;
            (made.what, pending)
        };
        let refreshed = Refreshed {
            head: head.version,
            fresh_until: head.fresh_until.to_string(),
            mandates_until: head.mandates.iter().map(|mandate| mandate.not_after.to_string()).collect(),
            pending,
            around: detour.map(Around::from),
        };
        show(common.json, &refreshed, || {
            told(refreshed.pending.waiting(), || {
                let round = refreshed.around.as_ref().map(|it| format!(" goes round head {}, and", it.goes_round));
                format!("head {}{} is fresh until {}", refreshed.head, round.unwrap_or_default(), refreshed.fresh_until)
            })
        });
        Ok(())
    }

    /// Shown first.
    async fn plan(&self, common: &Common, session: &mut Session, doing: &str) -> Result<Option<Detour>, Failure> {
        let Some(said) = &self.around else { return Ok(None) };
        let detour = around::plan(session, said, clock::now()).await.during(doing)?;
        if !common.json {
            eprintln!("{}", in_words(&detour));
        }
        Ok(Some(detour))
    }
}

impl From<Detour> for Around {
    fn from(detour: Detour) -> Self {
        let Detour { follows, goes_round, changes, remade, stays, .. } = detour;
        let (follows, digest) = (follows.head.version, follows.digest.to_string());
        let remade = remade.iter().map(ToString::to_string).collect();
        Self { follows, digest, goes_round: goes_round.0, changes, remade, stays }
    }
}

fn in_words(detour: &Detour) -> String {
    let (then, round) = (&detour.follows, detour.goes_round.0);
    let mut lines = vec![format!(
        "goes round head {round}, on from head {} of {}, {}:",
        then.head.version, then.head.issued_at, then.digest
    )];
    lines.extend(detour.changes.iter().map(|line| format!("  {line}")));
    if !detour.remade.is_empty() {
        lines.push(format!("  means to be something else than now: {}", names(&detour.remade)));
    }
    if !detour.stays.is_empty() {
        lines.push(format!("what was taken away since head {} stays so:", then.head.version));
        lines.extend(detour.stays.iter().map(|line| format!("  {line}")));
    }
    lines.join("\n")
}
