//! Who is declared where: each name once, and what refers to a name leads to it.

use std::collections::{BTreeMap, BTreeSet};

use identity::principal::{Name, NodeName};

use super::form;
use super::place::{Notes, Spot, error, meant};
use super::tree::{Entry, Node, short};
use crate::fleet::{At, ROLE_NODE, ROLE_OPERATOR};

/// Every name of the fleet, and where it was declared.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) nodes: BTreeMap<NodeName, Spot>,
    pub(crate) classes: BTreeMap<Name, Spot>,
    pub(crate) services: BTreeMap<Name, Spot>,
    pub(crate) users: BTreeMap<Name, Spot>,
    /// Without `node`.
    pub(crate) roles: BTreeMap<Name, Spot>,
    pub(crate) groups: BTreeMap<Name, Spot>,
    pub(crate) invites: BTreeMap<Name, Spot>,
}

/// To whom a role is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whom {
    User,
    Other,
}

/// What was declared of each kind, in all files: name and spot, and what was said.
#[derive(Debug, Default)]
pub(crate) struct Declared<'t> {
    pub(crate) org: Vec<&'t Entry>,
    pub(crate) nodes: Vec<&'t Entry>,
    pub(crate) classes: Vec<&'t Entry>,
    pub(crate) services: Vec<&'t Entry>,
    pub(crate) users: Vec<&'t Entry>,
    pub(crate) roles: Vec<&'t Entry>,
    pub(crate) groups: Vec<(&'t str, Spot)>,
    pub(crate) invites: Vec<&'t Entry>,
}

impl<'t> Declared<'t> {
    pub(crate) fn of(trees: &'t [Node]) -> Self {
        let mut all = Self::default();
        for entry in trees.iter().flat_map(Node::entries) {
            let kind = match entry.key.as_str() {
                "org" => {
                    all.org.push(entry);
                    continue;
                }
                "groups" => {
                    let below = entry.value.entries().iter().map(|group| (group.key.as_str(), group.at));
                    all.groups.extend(below);
                    all.groups.extend(entry.value.items().iter().filter_map(|item| Some((item.text()?, item.at))));
                    continue;
                }
                "nodes" => &mut all.nodes,
                "classes" => &mut all.classes,
                "services" => &mut all.services,
                "users" => &mut all.users,
                "roles" => &mut all.roles,
                "invites" => &mut all.invites,
                _ => continue,
            };
            kind.extend(entry.value.entries());
        }
        all
    }
}

impl Names {
    /// Roles, groups and invites have names of their own kind: they stand only where nothing else can stand, and it is
    /// natural that the group of the service `wiki` is called `wiki`, too. All others share one space of names.
    pub(crate) fn collect(notes: &mut Notes<'_>, declared: &Declared<'_>) -> Self {
        let mut names = Self::default();
        let mut taken: BTreeMap<String, (&str, &str, Spot)> = BTreeMap::new();
        for (kind, entries) in [
            ("node", &declared.nodes),
            ("class", &declared.classes),
            ("service", &declared.services),
            ("user", &declared.users),
        ] {
            for entry in entries {
                let Some(name) = space(kind, &entry.key) else { continue };
                if let Some((other, written, first)) = taken.get(&name) {
                    let draft = error(entry.at, twice(kind, &entry.key, other, written, &name));
                    notes.push(
                        draft.also(*first, "it is first here").hint("each name stands for one thing: rename one"),
                    );
                    continue;
                }
                names.put(kind, &name, entry.at);
                taken.insert(name, (kind, &entry.key, entry.at));
            }
        }
        own_space(notes, "role", declared.roles.iter().map(|entry| (entry.key.as_str(), entry.at)), &mut names.roles);
        own_space(notes, "group", declared.groups.iter().copied(), &mut names.groups);
        own_space(
            notes,
            "invite",
            declared.invites.iter().map(|entry| (entry.key.as_str(), entry.at)),
            &mut names.invites,
        );
        names
    }

    fn put(&mut self, kind: &str, name: &str, at: Spot) {
        let kind = match kind {
            "class" => &mut self.classes,
            "service" => &mut self.services,
            "user" => &mut self.users,
            _ => {
                self.nodes.extend(name.parse().ok().map(|name: NodeName| (name, at)));
                return;
            }
        };
        kind.extend(name.parse().ok().map(|name: Name| (name, at)));
    }

    /// Nodes and classes.
    pub(crate) fn places(&self, notes: &mut Notes<'_>, list: Option<&Entry>) -> Vec<(At, Spot)> {
        let mut found: Vec<(At, Spot)> = Vec::new();
        let mut seen: BTreeMap<At, Spot> = BTreeMap::new();
        for item in list.map(|entry| entry.value.items()).unwrap_or_default() {
            let Some(text) = item.text() else { continue };
            let Ok(name) = form::machine(text) else { continue };
            let at = match name.as_str().parse::<Name>() {
                _ if self.nodes.contains_key(&name) => At::Node(name),
                Ok(class) if self.classes.contains_key(&class) => At::Class(class),
                _ => {
                    let known = self.nodes.keys().map(NodeName::as_str).chain(self.classes.keys().map(Name::as_str));
                    let what = [(&self.services, "a service"), (&self.users, "a user")];
                    let other =
                        name.as_str().parse::<Name>().ok().and_then(|name| {
                            what.iter().find(|(kind, _)| kind.contains_key(&name)).map(|(_, word)| *word)
                        });
                    let dangling = Dangling { kind: "node or class", text: name.as_str(), other, section: "nodes" };
                    dangling.complain(notes, item.at, known);
                    continue;
                }
            };
            if let Some(first) = seen.insert(at.clone(), item.at) {
                let draft = error(item.at, format!("`{}` is in the list twice", short(text)));
                notes.push(draft.also(first, "it is first here").hint("keep one of them"));
            } else {
                found.push((at, item.at));
            }
        }
        found
    }

    pub(crate) fn roles(&self, notes: &mut Notes<'_>, list: Option<&Entry>, whom: Whom) -> BTreeSet<Name> {
        let mut found = BTreeSet::new();
        for item in list.map(|entry| entry.value.items()).unwrap_or_default() {
            let Some(text) = item.text() else { continue };
            if text == ROLE_NODE {
                let draft = error(item.at, "the role `node` is not given: every node has it, and nobody else");
                notes.push(draft.hint("leave it out; say under `roles` what it allows"));
                continue;
            }
            let Ok(name) = text.parse::<Name>() else { continue };
            if text == ROLE_OPERATOR {
                if whom == Whom::User {
                    found.insert(name);
                } else {
                    let draft = error(item.at, "the role `operator` is for users");
                    notes.push(draft.hint("operators are people: make a role of its own for what this must reach"));
                }
            } else if self.roles.contains_key(&name) {
                found.insert(name);
            } else {
                let known = self.roles.keys().map(Name::as_str).chain([ROLE_OPERATOR]);
                Dangling { kind: "role", text, other: None, section: "roles" }.complain(notes, item.at, known);
            }
        }
        found
    }

    /// Roles that something is said about, and whether `node` is among them.
    pub(crate) fn roles_meant(&self, notes: &mut Notes<'_>, list: Option<&Entry>) -> (BTreeSet<Name>, bool) {
        let (mut found, mut every_node) = (BTreeSet::new(), false);
        for item in list.map(|entry| entry.value.items()).unwrap_or_default() {
            let Some(text) = item.text() else { continue };
            every_node |= text == ROLE_NODE;
            let Ok(name) = text.parse::<Name>() else { continue };
            if text == ROLE_OPERATOR || self.roles.contains_key(&name) {
                found.insert(name);
            } else {
                let known = self.roles.keys().map(Name::as_str).chain([ROLE_OPERATOR, ROLE_NODE]);
                Dangling { kind: "role", text, other: None, section: "roles" }.complain(notes, item.at, known);
            }
        }
        (found, every_node)
    }

    pub(crate) fn service(&self, notes: &mut Notes<'_>, item: &Node) -> Option<Name> {
        let others = [
            Other { there: &self.users, word: "a user" },
            Other { there: &self.groups, word: "a group" },
            Other { there: &self.classes, word: "a class" },
        ];
        self.one(notes, item, Wanted { there: &self.services, kind: "service", section: "services" }, &others)
    }

    pub(crate) fn user(&self, notes: &mut Notes<'_>, item: &Node) -> Option<Name> {
        let others = [
            Other { there: &self.services, word: "a service" },
            Other { there: &self.roles, word: "a role" },
            Other { there: &self.classes, word: "a class" },
        ];
        self.one(notes, item, Wanted { there: &self.users, kind: "user", section: "users" }, &others)
    }

    fn one(
        &self,
        notes: &mut Notes<'_>,
        item: &Node,
        Wanted { there, kind, section }: Wanted<'_>,
        others: &[Other<'_>],
    ) -> Option<Name> {
        let text = item.text()?;
        let name: Name = text.parse().ok()?;
        if there.contains_key(&name) {
            return Some(name);
        }
        let node = text.parse().is_ok_and(|node: NodeName| self.nodes.contains_key(&node)).then_some("a node");
        let other = others.iter().find(|other| other.there.contains_key(&name)).map(|other| other.word).or(node);
        Dangling { kind, text, other, section }.complain(notes, item.at, there.keys().map(Name::as_str));
        None
    }

    pub(crate) fn groups(&self, notes: &mut Notes<'_>, list: Option<&Entry>) -> BTreeSet<Name> {
        let mut found = BTreeSet::new();
        for item in list.map(|entry| entry.value.items()).unwrap_or_default() {
            let Some((text, name)) = item.text().and_then(|text| Some((text, text.parse::<Name>().ok()?))) else {
                continue;
            };
            if self.groups.contains_key(&name) {
                found.insert(name);
            } else {
                let other = self.services.contains_key(&name).then_some("a service");
                let dangling = Dangling { kind: "group", text, other, section: "groups" };
                dangling.complain(notes, item.at, self.groups.keys().map(Name::as_str));
            }
        }
        found
    }
}

/// What else a name may have been meant as.
struct Other<'a> {
    there: &'a BTreeMap<Name, Spot>,
    word: &'static str,
}

/// What a name is to be one of.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    there: &'a BTreeMap<Name, Spot>,
    kind: &'a str,
    section: &'a str,
}

/// The name for which no second may stand in the shared space.
fn space(kind: &str, text: &str) -> Option<String> {
    if kind == "node" {
        return form::machine(text).ok().map(|name| name.as_str().to_owned());
    }
    text.parse::<Name>().ok().map(|name| name.as_str().to_owned())
}

fn twice(kind: &str, text: &str, other: &str, written: &str, name: &str) -> String {
    let host = [text, written].into_iter().find(|text| *text != name);
    let rule =
        host.map(|host| format!(" (the host name `{}` stands for its first part)", short(host))).unwrap_or_default();
    if kind == other {
        format!("the {kind} `{name}` is declared twice{rule}")
    } else {
        format!("`{name}` is a {kind} and a {other}{rule}")
    }
}

fn own_space<'e>(
    notes: &mut Notes<'_>,
    kind: &str,
    entries: impl Iterator<Item = (&'e str, Spot)>,
    names: &mut BTreeMap<Name, Spot>,
) {
    let mut every_node: Option<Spot> = None;
    for (text, at) in entries {
        let first = if let Ok(name) = text.parse::<Name>() {
            Some(*names.entry(name).or_insert(at))
        } else if kind == "role" && text == ROLE_NODE {
            Some(*every_node.get_or_insert(at))
        } else {
            None
        };
        if let Some(first) = first.filter(|first| *first != at) {
            let draft = error(at, format!("the {kind} `{}` is declared twice", short(text)));
            notes.push(draft.also(first, "it is first here").hint("keep one of them"));
        }
    }
}

/// A name that leads nowhere.
struct Dangling<'d> {
    kind: &'d str,
    text: &'d str,
    /// What has this name instead.
    other: Option<&'d str>,
    section: &'d str,
}

impl Dangling<'_> {
    fn complain<'n>(&self, notes: &mut Notes<'_>, at: Spot, known: impl Iterator<Item = &'n str>) {
        let near = if notes.is_crowded() { None } else { meant(self.text, known) };
        let (kind, text) = (self.kind, short(self.text));
        let message = match self.other {
            Some(other) => format!("`{text}` is {other}, not a {kind}"),
            None => format!("there is no {kind} `{text}`"),
        };
        let hint = match self.other {
            Some(_) => format!("what may stand here is declared under `{}`", self.section),
            None => format!("declare it under `{}`", self.section),
        };
        let draft = error(at, message).hint(hint);
        notes.push(draft.maybe_hint(near.map(|near| format!("did you mean `{near}`?"))));
    }
}
