//! What is in a backup, as `verify` and `restore` tell of it, and why one does not hold.

use ground::age::wrap::NotUnwrapped;
use ground::archive::ArchiveError;
use ground::clock;
use identity::time::{Seconds, Timestamp};
use operate::backup::BackupError;
use terminal::failure::Failure;
use terminal::table::or_dash;

use crate::backup::check::{CheckError, CheckReport};
use crate::home::Explain;

impl Explain for CheckError {
    fn explain(&self, doing: String) -> Failure {
        match self {
            Self::Backup(why) => backup_failure(doing, why),
            _ => Failure::new(doing, self).hint(ANOTHER),
        }
    }
}

pub fn backup_failure(doing: impl Into<String>, why: &BackupError) -> Failure {
    let failure = Failure::new(doing, why);
    match why {
        BackupError::Archive { source, .. } => failure.hint(archive_hint(source)),
        _ => failure.hint(ANOTHER),
    }
}

pub const ANOTHER: &str = "use another backup, or another copy of this one";

pub const fn archive_hint(why: &ArchiveError) -> &'static str {
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

pub fn describe(report: &CheckReport) -> String {
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

pub fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}
