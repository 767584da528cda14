//! What is said of a machine: its policy over the org's, its labels, its checks and the files it is to have.

use std::collections::BTreeSet;

use identity::principal::Name;
use identity::principal::label::Label;
use identity::text::Bytes;
use identity::time::Seconds;

use super::form;
use super::names::{Names, Whom};
use super::place::{Notes, Spot, error};
use super::tree::{Entry, Node};
use super::tunnel;
use crate::fleet::{MachineSpec, Policy};
use crate::stored::{Check, Confirm, Delivered, FileName, Probe};

use super::Attached;
use super::keys::MAX_DELIVERED;

/// All files of one machine together: they travel in one manifest.
const MAX_ALL_DELIVERED: usize = 2 << 20;
const CHECK_TIMEOUT: Seconds = Seconds(5);
const STATUS_OK: u16 = 200;

/// What is needed to read a machine, and how files are found.
pub(crate) struct Reader<'r, 'a> {
    pub(crate) notes: &'r mut Notes<'a>,
    pub(crate) names: &'r Names,
    pub(crate) attached: &'r Attached<'r>,
    /// The org's bound on the life of SVIDs, and where it says so.
    pub(crate) longest: Option<(Seconds, Spot)>,
}

/// A text under a key that has the form it should have.
pub(crate) fn parsed<T: std::str::FromStr>(node: &Node, key: &str) -> Option<T> {
    node.get(key)?.value.text()?.parse().ok()
}

/// All texts under a key that have the form they should have.
pub(crate) fn all_parsed<T: std::str::FromStr>(node: &Node, key: &str) -> Vec<T> {
    let items = node.get(key).map(|entry| entry.value.items()).unwrap_or_default();
    items.iter().filter_map(|item| item.text()?.parse().ok()).collect()
}

pub(crate) fn flag(node: &Node, key: &str) -> bool {
    node.get(key).and_then(|entry| entry.value.text()) == Some("true")
}

pub(crate) fn labels(node: &Node) -> BTreeSet<Label> {
    let entries = node.get("labels").map(|entry| entry.value.entries()).unwrap_or_default();
    entries.iter().filter_map(|entry| format!("{}={}", entry.key, entry.value.text()?).parse().ok()).collect()
}

impl Reader<'_, '_> {
    pub(crate) fn machine(&mut self, entry: &Entry, defaults: &Policy) -> MachineSpec {
        let node = &entry.value;
        MachineSpec {
            labels: labels(node),
            roles: self.names.roles(self.notes, node.get("roles"), Whom::Other),
            address: parsed(node, "address"),
            relay: flag(node, "relay"),
            policy: self.policy(entry, defaults),
        }
    }

    /// What is said here wins over what the org says; checks and files are merged by name.
    pub(crate) fn policy(&mut self, entry: &Entry, defaults: &Policy) -> Policy {
        let node = &entry.value;
        let mut policy = defaults.clone();
        if node.get("gateways").is_some() {
            policy.gateways = all_parsed(node, "gateways");
        }
        if let Some(life) = node.get("lifetimes").and_then(|lives| parsed(&lives.value, "svid")) {
            policy.svid_life = Some(life);
            self.not_longer(node, life);
        }
        if let Some(wait) = node.get("sync").and_then(|sync| parsed(&sync.value, "wait")) {
            policy.sync.wait = wait;
        }
        if let Some(apply) = node.get("apply") {
            policy.apply.deadline = parsed(&apply.value, "deadline").unwrap_or(policy.apply.deadline);
            policy.apply.confirm = match apply.value.get("confirm").and_then(|entry| entry.value.text()) {
                Some("operator") => Confirm::Operator,
                Some("offline") => Confirm::Offline,
                Some("auto") => Confirm::Auto,
                _ => policy.apply.confirm,
            };
        }
        let checks = node.get("checks").map(|entry| entry.value.entries()).unwrap_or_default();
        policy.checks.extend(checks.iter().filter_map(|entry| self.check(entry)));
        let files = node.get("files").map(|entry| entry.value.entries()).unwrap_or_default();
        policy.files.extend(files.iter().filter_map(|entry| self.file(entry)));
        tunnel::read(self.notes, self.names, node, &mut policy.tunnel);
        if ["apply", "checks", "files"].iter().any(|key| node.get(key).is_some()) {
            self.check_policy(entry, &policy);
        }
        policy
    }

    fn not_longer(&mut self, node: &Node, life: Seconds) {
        let spot = node.get("lifetimes").and_then(|lives| lives.value.get("svid")).map(Entry::spot);
        if let (Some(at), Some((most, org))) = (spot, self.longest)
            && life > most
            && at != org
        {
            let draft = error(at, format!("an SVID may live {most} in this org, not {life}"));
            self.notes.push(draft.also(org, "the org says so here").hint("shorten this one, or lengthen the org's"));
        }
    }

    /// What only the whole shows.
    fn check_policy(&mut self, entry: &Entry, policy: &Policy) {
        let below = |section: &str, name: &str| {
            let section = entry.value.get(section);
            section.and_then(|section| section.value.get(name)).map_or(entry.at, |entry| entry.at)
        };
        for (name, check) in &policy.checks {
            if check.timeout >= policy.apply.deadline {
                let (timeout, deadline) = (check.timeout, policy.apply.deadline);
                let message = format!("the check `{name}` may take {timeout}, but all must be well within {deadline}");
                let draft = error(below("checks", name.as_str()), message);
                self.notes.push(draft.hint("shorten its `timeout`, or lengthen `apply.deadline`"));
            }
        }
        for name in policy.files.keys() {
            let ends = name.as_str().match_indices('/').filter_map(|(at, _)| name.as_str().get(..at)?.parse().ok());
            if let Some(file) = ends.into_iter().find(|folder: &FileName| policy.files.contains_key(folder)) {
                let draft =
                    error(below("files", name.as_str()), format!("`{file}` is a file, so `{name}` cannot be in it"));
                self.notes.push(draft.hint("rename one of them"));
            }
        }
        let size: usize = policy.files.values().map(|file| file.content.0.len()).sum();
        if size > MAX_ALL_DELIVERED {
            let at = entry.value.get("files").map_or(entry.at, |files| files.at);
            let draft =
                error(at, format!("the files have {size} bytes together; {MAX_ALL_DELIVERED} are delivered at most"));
            self.notes.push(draft.hint("deliver what is small, and let it fetch what is large"));
        }
    }

    fn check(&mut self, entry: &Entry) -> Option<(Name, Check)> {
        let node = &entry.value;
        let probe = if let Some(address) = parsed(node, "tcp") {
            Probe::Tcp(address)
        } else if let Some(text) = node.get("http").and_then(|entry| entry.value.text()) {
            let (at, path) = form::url(text).ok()?;
            Probe::Http { at, path, status: parsed(node, "status").unwrap_or(STATUS_OK) }
        } else {
            Probe::Command(all_parsed(node, "command"))
        };
        if let (Some(status), Probe::Tcp(_) | Probe::Command(_)) = (node.get("status"), &probe) {
            let draft = error(status.at, "`status` is for `http`");
            self.notes.push(draft.hint("leave it out, or check with `http`"));
        }
        if let Probe::Command(words) = &probe
            && words.first().is_none_or(String::is_empty)
        {
            return None;
        }
        let timeout = parsed(node, "timeout").unwrap_or(CHECK_TIMEOUT);
        Some((entry.key.parse().ok()?, Check { probe, timeout }))
    }

    fn file(&mut self, entry: &Entry) -> Option<(FileName, Delivered)> {
        let node = &entry.value;
        let executable = flag(node, "executable");
        let name: FileName = entry.key.parse().ok()?;
        let content = match node.get("from") {
            Some(from) => {
                let path: FileName = from.value.text()?.parse().ok()?;
                match (self.attached)(&path) {
                    Ok(bytes) if bytes.len() > MAX_DELIVERED => {
                        let message =
                            format!("`{path}` has {} bytes; {MAX_DELIVERED} are delivered at most", bytes.len());
                        self.notes.push(
                            error(from.spot(), message).hint("deliver what is small, and let it fetch what is large"),
                        );
                        return None;
                    }
                    Ok(bytes) => bytes,
                    Err(why) => {
                        let draft = error(from.spot(), format!("cannot read `{path}`: {why}"));
                        self.notes.push(draft.hint("the path begins at the fleet's folder, and must stay in it"));
                        return None;
                    }
                }
            }
            None => node.get("content")?.value.text()?.as_bytes().to_vec(),
        };
        Some((name, Delivered { content: Bytes(content), executable }))
    }
}
