//! How programs are to have their SVIDs: whose files they are, and which DNS names the org lets them carry.

use std::collections::BTreeMap;

use identity::principal::host::{HostGlob, HostName};

use super::machine::{all_parsed, parsed};
use super::place::{Notes, Spot, error};
use super::tree::{Entry, Node, short};
use crate::stored::ProgramSvid;

/// A certificate has room for more, but nobody reads them.
const MAX_NAMES: usize = 32;

/// What the org allows, and which names are taken.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    allowed: &'a [HostGlob],
    said: Option<Spot>,
    taken: BTreeMap<HostName, (String, Spot)>,
}

impl<'a> Names<'a> {
    pub(crate) const fn of(allowed: &'a [HostGlob], said: Option<Spot>) -> Self {
        Self { allowed, said, taken: BTreeMap::new() }
    }

    /// What is said of a service or user, `whose`.
    pub(crate) fn read(&mut self, notes: &mut Notes<'_>, whose: &str, of: &Node) -> Option<ProgramSvid> {
        let entry = of.get("svid")?;
        let node = &entry.value;
        let svid = ProgramSvid {
            owner: parsed(node, "owner"),
            group: parsed(node, "group"),
            mode: parsed(node, "mode").unwrap_or_default(),
            dns: all_parsed(node, "dns").into_iter().collect(),
            reload: all_parsed(node, "reload"),
        };
        if let Some(mode) = node.get("mode").filter(|_| svid.mode.is_for_group() && node.get("group").is_none()) {
            let draft =
                error(mode.spot(), format!("mode {} lets a group read the key, and no group is named", svid.mode));
            notes.push(draft.hint("name one with `group`, or leave the mode at 0600"));
        }
        self.names(notes, whose, node);
        reload(notes, node);
        Some(svid)
    }

    fn names(&mut self, notes: &mut Notes<'_>, whose: &str, svid: &Node) {
        let Some(entry) = svid.get("dns") else { return };
        let items = entry.value.items();
        if items.len() > MAX_NAMES {
            let draft = error(entry.at, format!("{} DNS names; an SVID carries {MAX_NAMES} at most", items.len()));
            notes.push(draft.hint("split the service"));
            return;
        }
        for item in items {
            let Some(name) = item.text().and_then(|text| text.parse::<HostName>().ok()) else { continue };
            if !self.allowed.iter().any(|glob| glob.matches(&name)) {
                let draft = error(item.at, format!("the org does not let SVIDs carry `{}`", short(name.as_str())));
                notes.push(match self.said {
                    Some(at) => draft.also(at, "it lets them carry these").hint("add a pattern that fits there"),
                    None => draft.hint("list what they may carry: under `org`, `svid: {dns: [PATTERN]}`"),
                });
            }
            match self.taken.get(&name) {
                Some((other, first)) if *first != item.at => {
                    let draft = error(item.at, format!("`{name}` is a name of {other} already"));
                    let hint = "whoever goes by DNS names could not tell one from the other: keep one of them";
                    notes.push(draft.also(*first, "it is first here").hint(hint));
                }
                _ => drop(self.taken.insert(name, (whose.to_owned(), item.at))),
            }
        }
    }
}

/// Which program it is must not depend on where the agent runs.
fn reload(notes: &mut Notes<'_>, svid: &Node) {
    let Some(first) = svid.get("reload").and_then(|entry: &Entry| entry.value.items().first()) else { return };
    if first.text().is_some_and(|program| !program.starts_with('/')) {
        let draft = error(first.at, format!("`{}` is no path from `/` on", short(first.text().unwrap_or_default())));
        notes.push(draft.hint("name the program whole: `which nginx` says where it is"));
    }
}
