//! `freehold backup create`: everything that is needed to start again, in one encrypted file.

use std::path::{Path, PathBuf};

use clap::Args;
use ground::archive::To;
use ground::clock;
use identity::time::Timestamp;
use operate::backup::{BackupContents, BackupError};
use serde::Serialize;
use terminal::failure::{Exit, Failure};
use terminal::show::show;

use super::keys::SealingOptions;
use super::report::size;
use crate::backup::make::{self, MakeError};
use crate::home::{Common, During as _, Explain};

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
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not make a backup";
        let org = common.org(doing)?;
        let stamp = clock::now().to_string().replace(':', "");
        let out = self.out.unwrap_or_else(|| PathBuf::from(format!("{org}-{stamp}.tar.age")));
        if out.symlink_metadata().is_ok() {
            return Err(MakeError::Backup(BackupError::Exists(out))).during(doing);
        }
        let to = self.sealing.get(common.json, doing)?;
        let made = make::make(&common.home(), &org, &out, &to).during(doing)?;
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

impl Explain for MakeError {
    fn explain(&self, doing: String) -> Failure {
        let failure = Failure::new(doing, self);
        match self {
            Self::Backup(BackupError::Exists(_)) => failure.exit(Exit::Usage).hint("name another: --out FILE"),
            Self::Backup(BackupError::LeadsOut(_)) => failure.hint("put the file itself there instead of the link"),
            Self::Busy | Self::Restless => failure.hint("try again in a moment"),
            _ => failure.hint("no backup was written"),
        }
    }
}
