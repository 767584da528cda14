//! `freehold backup`: everything that is needed to start again on an empty machine, in one encrypted file.

mod keys;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use gateway::store::folder::GatewayFolder;
use ground::age::wrap::NotUnwrapped;
use ground::archive::{ArchiveError, To};
use ground::clock;
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use keys::{Opening, SealingOptions};
use operate::backup::{BackupContents, BackupError};
use serde::Serialize;
use terminal::failure::{Exit, Failure};
use terminal::show::show;
use terminal::table::{or_dash, table};

use crate::backup::check::{self, CheckError, CheckReport, OpenInvite};
use crate::backup::make::{self, MakeError};
use crate::backup::restore::{self, Half, RestoreError};
use crate::home::{Common, During};

#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Write everything of the org that is in this home to one encrypted file
    Create(Create),
    /// Read a backup, check all of it, and say what it would bring back
    Verify(Verify),
    /// Bring an org back into a home that does not have it
    Restore(Restore),
}

impl BackupCommand {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::Create(create) => create.run(common),
            Self::Verify(verify) => verify.run(common),
            Self::Restore(restore) => restore.run(common),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold backup create                                   ./harbor-2030-01-01T090000Z.tar.age
  freehold backup create --out /media/stick/harbor.tar.age
  freehold backup create --to age1zvkyg2lqzraa2lnj...      for whoever has that key; no passphrase

The gateway may run meanwhile. Keep the file on another machine or medium, and its passphrase, or the
identity that opens it, apart from it: both together are the org. Make a new one from time to time: what
happens after it is not in it. It is an age file with a tar file in it: without freehold,
`age --decrypt harbor.tar.age | tar -tv` shows what is in it.")]
pub struct Create {
    /// Where to write it; there must be no such file [default: ./ORG-TIME.tar.age]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    sealing: SealingOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold backup verify harbor.tar.age         changes nothing; exits with 1 and names what is damaged")]
pub struct Verify {
    /// The backup
    file: PathBuf,
    #[command(flatten)]
    opening: Opening,
}

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
struct Created<'a> {
    org: &'a str,
    org_id: String,
    made_at: Timestamp,
    file: String,
    bytes: u64,
    /// Empty if a passphrase opens it.
    recipients: Vec<String>,
    operator: bool,
    gateway: bool,
    files: Vec<&'a str>,
}

impl Create {
    fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not make a backup";
        let org = common.org(doing)?;
        let stamp = clock::now().to_string().replace(':', "");
        let out = self.out.unwrap_or_else(|| PathBuf::from(format!("{org}-{stamp}.tar.age")));
        if out.symlink_metadata().is_ok() {
            return Err(create_failure(doing, &MakeError::Backup(BackupError::Exists(out))));
        }
        let to = self.sealing.get(common.json, doing)?;
        let made = make::make(&common.home(), &org, &out, &to).map_err(|why| create_failure(doing, &why))?;
        let bytes = std::fs::metadata(&out).map_or(0, |meta| meta.len());
        let told = Created {
            org: made.org.as_str(),
            org_id: made.org_id.to_string(),
            made_at: made.made_at,
            file: out.display().to_string(),
            bytes,
            recipients: recipients(&to),
            operator: made.has("operator"),
            gateway: made.has("gateway"),
            files: made.files.iter().map(|item| item.path.as_str()).collect(),
        };
        show(common.json, &told, || describe_created(&made, &out, bytes, &to));
        Ok(())
    }
}

fn recipients(to: &To) -> Vec<String> {
    match to {
        To::Passphrase(_) => Vec::new(),
        To::Recipients(all) => all.iter().map(ToString::to_string).collect(),
    }
}

fn describe_created(made: &BackupContents, out: &Path, bytes: u64, to: &To) -> String {
    let half = |half: &str| made.files.iter().filter(|item| item.path.first() == half).count();
    let mut lines = vec![format!("backup of `{}` in `{}`, {}", made.org, out.display(), size(bytes))];
    lines.push(match half("operator") {
        0 => "  operator  NOT in it: signer and root keys are in another home; back them up there too".to_owned(),
        count => {
            format!("  operator  {count} files: signer and root keys as they are sealed, what is known of the org")
        }
    });
    lines.push(match half("gateway") {
        0 => "  gateway   NOT in it: its keys and its ledger are elsewhere; back them up there too".to_owned(),
        count => format!("  gateway   {count} files: its keys, its ledger, its own node"),
    });
    lines.extend(recipients(to).iter().map(|recipient| format!("  for       {recipient}")));
    let (key, more) = match to {
        To::Passphrase(_) => ("its passphrase", ""),
        To::Recipients(_) => ("the identity that opens it", " --identity FILE"),
    };
    lines.push(format!("Keep it on another machine or medium, and {key} apart from it: both together are the org."));
    lines.push(format!("check it: freehold backup verify {}{more}", out.display()));
    lines.join("\n")
}

fn create_failure(doing: &str, why: &MakeError) -> Failure {
    let failure = Failure::new(doing, why);
    match why {
        MakeError::Backup(BackupError::Exists(_)) => failure.exit(Exit::Usage).hint("name another: --out FILE"),
        MakeError::Backup(BackupError::LeadsOut(_)) => failure.hint("put the file itself there instead of the link"),
        MakeError::Busy | MakeError::Restless => failure.hint("try again in a moment"),
        _ => failure.hint("no backup was written"),
    }
}

impl Verify {
    fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("the backup `{}` does not hold", self.file.display());
        let with = self.opening.get(&doing, &self.file)?;
        let name = ground::random::bytes::<16>().during(&doing)?;
        let scratch = std::env::temp_dir().join(format!("freehold-verify-{}", identity::text::hex(&name)));
        let report = check::check(&self.file, &with, scratch).map_err(|why| check_failure(&doing, &why))?;
        show(common.json, &report, || format!("{}\nall of it holds", describe(&report)));
        Ok(())
    }
}

fn check_failure(doing: &str, why: &CheckError) -> Failure {
    let failure = Failure::new(doing, why);
    match why {
        CheckError::Backup(BackupError::Archive { source, .. }) => failure.hint(archive_hint(source)),
        _ => failure.hint(ANOTHER),
    }
}

const ANOTHER: &str = "use another backup, or another copy of this one";

const fn archive_hint(why: &ArchiveError) -> &'static str {
    match why {
        ArchiveError::NotUnwrapped(NotUnwrapped::WrongPassphrase) => {
            "try the passphrase again; if it is right, the file is damaged: use another backup"
        }
        ArchiveError::NotUnwrapped(NotUnwrapped::OtherRecipients) => {
            "name the identity of somebody whom it is encrypted to: --identity FILE"
        }
        ArchiveError::NotUnwrapped(NotUnwrapped::TooCostly { .. }) => {
            "open it with `age --decrypt`, and encrypt it again: `age --passphrase`"
        }
        _ => ANOTHER,
    }
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
    fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not restore `{}`", self.file.display());
        let with = self.opening.get(&doing, &self.file)?;
        let home = common.home();
        let (report, folder) =
            restore::restore(&self.file, &home, self.only, &with).map_err(|why| restore_failure(&doing, &why))?;
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

fn restore_failure(doing: &str, why: &RestoreError) -> Failure {
    match why {
        RestoreError::Check(why) => check_failure(doing, why),
        RestoreError::Backup(why @ BackupError::Archive { source, .. }) => {
            Failure::new(doing, why).hint(format!("nothing was changed; {}", archive_hint(source)))
        }
        RestoreError::Exists { .. } => Failure::new(doing, why)
            .exit(Exit::Refused)
            .hint("restore into another home: --home DIR; or put the old folder aside first, for evidence"),
        RestoreError::Busy => Failure::new(doing, why).hint("wait until it has ended"),
        RestoreError::NotIn(_) => {
            Failure::new(doing, why).exit(Exit::Usage).hint("freehold backup verify says what is in it")
        }
        _ => Failure::new(doing, why).hint("nothing was changed"),
    }
}

fn describe(report: &CheckReport) -> String {
    let yes = |is: bool, what: String| if is { what } else { "not in it".to_owned() };
    let keys = format!("signers {}; roots {}", report.signers.join(", "), roots_in_words(report));
    let ledger = format!(
        "{} entries, {} nodes, {} open invites",
        or_dash(report.entries.as_ref()),
        or_dash(report.nodes.as_ref()),
        report.open_invites.len()
    );
    [
        format!("backup of `{}`, made at {} ({} ago)", report.org, report.made_at, ago(report.made_at)),
        format!("  org id    {}", report.org_id),
        format!("  head      {}", report.head),
        format!("  operator  {}", yes(report.operator, keys)),
        format!("  gateway   {}", yes(report.gateway, ledger)),
        format!("  size      {}, {} files", size(report.bytes), report.files),
    ]
    .join("\n")
}

fn roots_in_words(report: &CheckReport) -> String {
    let keys = report.root_keys.iter().filter(|root| root.key).count();
    match (report.roots, keys) {
        (true, 2) => "both".to_owned(),
        (true, keys) => format!("all {keys}"),
        (false, 0) => "NOT in it".to_owned(),
        (false, keys) => format!("NOT ALL in it: {keys} key(s), and one that is trusted is missing"),
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

fn ago(then: Timestamp) -> Seconds {
    let past = clock::now().since(then);
    // Exact enough for people.
    match past.0 {
        0..120 => past,
        120..7_200 => Seconds(past.0 / 60 * 60),
        7_200..172_800 => Seconds(past.0 / 3_600 * 3_600),
        _ => Seconds(past.0 / 86_400 * 86_400),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}
