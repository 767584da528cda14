//! One line a day, until a backup was made.

use std::io::IsTerminal as _;
use std::path::Path;

use ground::clock;
use ground::file::{self, FileAccess};
use identity::principal::OrgName;
use identity::time::{Seconds, Timestamp};
use operate::folder::OperatorFolder;
use terminal::show::say_beside;

use crate::home::Common;

/// When a person was reminded last.
const REMINDED: &str = ".reminded";
const OFTEN_ENOUGH: Seconds = Seconds::DAY;

/// What to say, if the operator's half is here and was never backed up.
pub fn line(home: &Path, org: &OrgName) -> Option<String> {
    let operator = OperatorFolder::at(home, org);
    let never = operator.folder.is_dir() && matches!(operator.last_backup(), Ok(None));
    never.then(|| format!("note: there is no backup of `{org}` yet: freehold backup create"))
}

/// After a command that a person ran at a terminal.
pub fn at_terminal(common: &Common) {
    if !common.json
        && std::io::stderr().is_terminal()
        && let Some(org) = common.meant()
        && let Some(line) = line(&common.home(), &org)
        && is_due(&OperatorFolder::at(&common.home(), &org).path(REMINDED))
    {
        say_beside(&line);
    }
}

/// Not within a day of the last time; noted at once. Where it cannot be noted it is said again.
fn is_due(noted: &Path) -> bool {
    let now = clock::now();
    let last = file::read(noted).ok().and_then(|bytes| String::from_utf8(bytes).ok()?.trim().parse::<Timestamp>().ok());
    if last.is_some_and(|last| last <= now && now.since(last) < OFTEN_ENOUGH) {
        return false;
    }
    let _ = file::write(noted, format!("{now}\n").as_bytes(), FileAccess::Private);
    true
}
