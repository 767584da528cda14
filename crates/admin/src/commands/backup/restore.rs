//! `freehold backup restore`: brings an org back into a home that does not have it.

use std::path::PathBuf;

use clap::Args;
use gateway::store::folder::GatewayFolder;
use ground::clock;
use identity::principal::NodeName;
use identity::time::Timestamp;
use operate::backup::BackupError;
use serde::Serialize;
use terminal::failure::{Exit, Failure};
use terminal::show::show;
use terminal::table::table;

use super::keys::Opening;
use super::report::{archive_hint, describe};
use crate::backup::check::{CheckReport, OpenInvite};
use crate::backup::restore::{self, Half, RestoreError};
use crate::home::{Common, During as _, Explain};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold backup restore harbor.tar.age
  freehold backup restore harbor.tar.age --home /srv/freehold
  freehold backup restore harbor.tar.age --home /tmp/look --only operator      to get at a key that was lost

It never writes over an org. A restored gateway issues nothing until it has begun another chain: it does
not know what happened after the backup was made.")]
pub struct Restore {
    /// The backup
    file: PathBuf,
    /// Bring back one half only
    #[arg(long, value_name = "HALF")]
    only: Option<Half>,
    #[command(flatten)]
    opening: Opening,
}

#[derive(Serialize)]
struct Restored<'a> {
    #[serde(flatten)]
    report: &'a CheckReport,
    folder: String,
    halves: Vec<&'static str>,
    /// Since the backup was made.
    unknown_since: Timestamp,
    unknown_for_seconds: u64,
    /// The gateway that was restored: it issues nothing until it is reopened.
    awaits_reopening: Option<NodeName>,
}

impl Restore {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not restore `{}`", self.file.display());
        let backup = self.opening.open(&doing, &self.file, |why| unopened(&doing, why))?;
        let home = common.home();
        let (report, folder) = restore::restore(backup, &self.file, &home, self.only).during(&doing)?;
        let there = |half: Half| folder.join(half.word()).is_dir();
        let halves: Vec<_> =
            [Half::Operator, Half::Gateway].into_iter().filter(|half| there(*half)).map(Half::word).collect();
        let gateway = GatewayFolder { folder: folder.join(Half::Gateway.word()) };
        let gateway = gateway.about().ok().map(|about| about.node);
        let told = Restored {
            report: &report,
            folder: folder.display().to_string(),
            awaits_reopening: gateway,
            halves,
            unknown_since: report.made_at,
            unknown_for_seconds: clock::now().since(report.made_at).0,
        };
        show(common.json, &told, || describe_restored(&told));
        Ok(())
    }
}

fn unopened(doing: impl Into<String>, why: &BackupError) -> Failure {
    let failure = Failure::new(doing, why);
    match why {
        BackupError::Archive { source, .. } => failure.hint(format!("nothing was changed; {}", archive_hint(source))),
        _ => failure.hint("nothing was changed"),
    }
}

impl Explain for RestoreError {
    fn explain(&self, doing: String) -> Failure {
        match self {
            Self::Check(why) => why.explain(doing),
            Self::Backup(why) => unopened(doing, why),
            Self::Exists { .. } => Failure::new(doing, self)
                .exit(Exit::Refused)
                .hint("restore into another home: --home DIR; or put the old folder aside first, for evidence"),
            Self::Busy => Failure::new(doing, self).hint("wait until it has ended"),
            Self::NotIn(_) => {
                Failure::new(doing, self).exit(Exit::Usage).hint("freehold backup verify says what is in it")
            }
            _ => Failure::new(doing, self).hint("nothing was changed"),
        }
    }
}

fn describe_restored(told: &Restored<'_>) -> String {
    let report = told.report;
    let mut lines = vec![describe(report), format!("restored to `{}`: {}", told.folder, told.halves.join(", "))];
    if let Some(gateway) = &told.awaits_reopening {
        lines.push(format!(
            "\nWhat happened after {} is not in it: machines that joined, left or renewed, invites that were made or\n\
             spent, and revocations. Whoever was revoked since then is NOT revoked here until you revoke it again.",
            report.made_at
        ));
        if !report.open_invites.is_empty() {
            lines.push("These invites were open then. They are signed anew with the gateway's other chain, as far as they were not spent:".to_owned());
            lines.push(invites(&report.open_invites));
        }
        lines.push(format!(
            "The gateway issues nothing until operators have it begin another chain. Next: freehold gateway reopen {gateway}"
        ));
    }
    lines.join("\n")
}

fn invites(open: &[OpenInvite]) -> String {
    let row = |invite: &OpenInvite| {
        let left = invite.uses_left.map_or_else(|| "unlimited".to_owned(), |left| left.to_string());
        vec![invite.id.to_string(), left, invite.expires_at.to_string(), invite.label.clone()]
    };
    table(&["INVITE", "USES LEFT", "EXPIRES", "LABEL"], &open.iter().map(row).collect::<Vec<_>>())
}
