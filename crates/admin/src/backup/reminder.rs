//! One line, until a backup was made.

use std::io::IsTerminal as _;
use std::path::Path;

use identity::principal::OrgName;
use operate::folder::OperatorFolder;

use crate::home::Common;

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
        && let Some(line) = common.meant().and_then(|org| line(&common.home(), &org))
    {
        eprintln!("{line}");
    }
}
