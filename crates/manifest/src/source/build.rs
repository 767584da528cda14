//! Trees that have the right shape become a fleet: references are followed, and what the org says is merged in.

use std::collections::BTreeMap;

use identity::id::OrgId;
use identity::principal::Name;
use identity::principal::glob::NameGlob;
use identity::time::Seconds;

use super::machine::{Reader, all_parsed, flag, labels, parsed};
use super::names::{Declared, Names, Whom};
use super::place::{Notes, error, error_about};
use super::spots::Spots;
use super::tree::{Entry, Node};
use super::tunnel::Told;
use super::{Attached, KnownOrg, form, rules, svid};
use crate::fleet::{
    ClassSpec, Fleet, InviteSpec, OrgSpec, Policy, ROLE_NODE, ROLE_OPERATOR, ServiceSpec, StaleSpec, UserSpec,
};

/// What the org says is repeated for each machine: so many bytes of it, at most.
const MOST_REPEATED: usize = 1 << 30;

/// A head's, if nothing is said.
const FRESHNESS: Seconds = Seconds::DAY.times(30);

pub(crate) fn build(
    notes: &mut Notes<'_>,
    trees: &[Node],
    attached: &Attached<'_>,
    known: &[KnownOrg],
) -> Option<Fleet> {
    let declared = Declared::of(trees);
    let names = Names::collect(notes, &declared);
    let org = one_org(notes, &declared.org);
    if let Some(entry) = org {
        right_org(notes, &entry.value, known);
    }
    let mut spots =
        Spots { users: trees.iter().find_map(|tree| tree.get("users")).map(|entry| entry.at), ..Spots::default() };
    let (org_at, mut said) =
        (org.map(|entry| entry.at), org.map(|entry| Told::of(&entry.value, &Told::default())).unwrap_or_default());
    spots.stale = org.and_then(|entry| entry.value.get("stale")).map(|entry| entry.at);
    let org_svid = org.and_then(|entry| entry.value.get("svid"));
    spots.svid_dns = org_svid.and_then(|svid| svid.value.get("dns")).map(|entry| entry.at);
    let mut reader = Reader { notes, names: &names, attached, longest: None };
    let org = org_spec(&mut reader, org)?;
    let mut fleet = Fleet {
        nodes: BTreeMap::new(),
        classes: BTreeMap::new(),
        services: BTreeMap::new(),
        users: BTreeMap::new(),
        roles: BTreeMap::from([(ROLE_OPERATOR.parse().ok()?, std::collections::BTreeSet::new())]),
        every_node: std::collections::BTreeSet::new(),
        groups: names.groups.keys().cloned().collect(),
        invites: BTreeMap::new(),
        org,
    };
    if let Some(at) = org_at.filter(|_| is_too_much(&fleet.org.defaults, declared.nodes.len() + declared.classes.len()))
    {
        let draft = error(at, "what is said here is repeated for each machine: that is too much for so many");
        reader.notes.push(draft.hint("say it where it is needed: all together has room for 1 GiB"));
        fleet.org.defaults = Policy::default();
        said = Told::default();
    }
    machines(&mut reader, &declared, &mut fleet, &mut spots);
    spots.read_machines(&declared, &said);
    people(reader.notes, &names, &declared, &mut fleet, &mut spots);
    spots.names = names;
    rules::check(notes, &fleet, &spots);
    Some(fleet)
}

fn is_too_much(defaults: &Policy, machines: usize) -> bool {
    let things = defaults.files.len() + defaults.checks.len() + defaults.tunnel.forward.len() + defaults.gateways.len();
    let size: usize = defaults.files.values().map(|file| file.content.0.len()).sum();
    (things * 256 + size).saturating_mul(machines) > MOST_REPEATED
}

fn one_org<'t>(notes: &mut Notes<'_>, declared: &[&'t Entry]) -> Option<&'t Entry> {
    let Some((first, more)) = declared.split_first() else {
        let draft = error_about(None, "the fleet does not say which org it belongs to");
        notes.push(draft.hint("add `org:` with `name` and `id`; see them with: freehold org list"));
        return None;
    };
    for again in more {
        let draft = error(again.at, "`org` is declared twice").also(first.at, "it is first here");
        notes.push(draft.hint("a fleet belongs to one org: put everything about it into one place"));
    }
    Some(first)
}

/// A fleet that says what is true of another org must not be published here.
fn right_org(notes: &mut Notes<'_>, org: &Node, known: &[KnownOrg]) {
    let (Some(name), Some(id)) = (org.get("name"), org.get("id")) else { return };
    let (Some(name_text), Some(said)) = (name.value.text(), parsed::<OrgId>(org, "id")) else { return };
    let here = known.iter().find(|org| org.name.as_str() == name_text);
    match (here, known.iter().find(|org| org.id == said)) {
        (Some(here), _) if here.id == said => {}
        (Some(here), _) => {
            let draft = error(id.spot(), format!("this is another org's id: `{}` has another one here", here.name));
            notes.push(draft.hint(format!("the id of `{}` is {}", here.name, here.id)));
        }
        (None, Some(other)) => {
            let draft = error(name.spot(), format!("this is the id of the org `{}`, not of `{name_text}`", other.name));
            notes.push(draft.also(id.spot(), "the id is here").hint(format!("call it `{}`", other.name)));
        }
        (None, None) if !known.is_empty() => {
            let names: Vec<_> = known.iter().map(|org| format!("`{}`", org.name)).collect();
            let draft = error(name.spot(), format!("`{name_text}` is another org: known here is {}", names.join(", ")));
            notes.push(draft.hint("say where its home is with --home DIR, or put the org's own name and id here"));
        }
        (None, None) => {}
    }
}

/// Without a readable org, one that stands in for it, so that the rest can be looked at.
fn org_spec(reader: &mut Reader<'_, '_>, entry: Option<&Entry>) -> Option<OrgSpec> {
    let nobody = OrgSpec {
        name: "unnamed".parse().ok()?,
        id: OrgId([0; 32]),
        freshness: FRESHNESS,
        svid_life: None,
        svid_dns: Vec::new(),
        stale: None,
        defaults: Policy::default(),
    };
    let Some(entry) = entry else { return Some(nobody) };
    let svid = entry.value.get("lifetimes").and_then(|lives| lives.value.get("svid"));
    let life = svid.and_then(|svid| Some((svid.value.text()?.parse::<Seconds>().ok()?, svid.spot())));
    reader.longest = life;
    Some(OrgSpec {
        name: parsed(&entry.value, "name").unwrap_or(nobody.name),
        id: parsed(&entry.value, "id").unwrap_or(nobody.id),
        freshness: parsed(&entry.value, "freshness").unwrap_or(nobody.freshness),
        svid_life: life.map(|(life, _)| life),
        svid_dns: entry.value.get("svid").map(|svid| all_parsed(&svid.value, "dns")).unwrap_or_default(),
        stale: entry.value.get("stale").and_then(|stale| stale_spec(reader, &stale.value)),
        defaults: reader.policy(entry, &Policy::default()),
    })
}

fn stale_spec(reader: &mut Reader<'_, '_>, node: &Node) -> Option<StaleSpec> {
    let (roles, every_node) = reader.names.roles_meant(reader.notes, node.get("roles"));
    Some(StaleSpec { margin: parsed(node, "margin")?, roles, every_node })
}

fn machines(reader: &mut Reader<'_, '_>, declared: &Declared<'_>, fleet: &mut Fleet, spots: &mut Spots) {
    for entry in &declared.nodes {
        if let Ok(name) = form::machine(&entry.key)
            && !fleet.nodes.contains_key(&name)
        {
            let spec = reader.machine(entry, &fleet.org.defaults);
            fleet.nodes.insert(name, spec);
        }
    }
    for entry in &declared.classes {
        let Ok(name) = entry.key.parse::<Name>() else { continue };
        if fleet.classes.contains_key(&name) {
            continue;
        }
        let items = entry.value.get("match").map(|entry| entry.value.items()).unwrap_or_default();
        let globs = items.iter().filter_map(|item| Some((item.text()?.parse::<NameGlob>().ok()?, item.at)));
        spots.globs.extend(globs.map(|(glob, at)| (name.clone(), glob, at)));
        let spec =
            ClassSpec { names: all_parsed(&entry.value, "match"), like: reader.machine(entry, &fleet.org.defaults) };
        fleet.classes.insert(name, spec);
    }
}

fn people(notes: &mut Notes<'_>, names: &Names, declared: &Declared<'_>, fleet: &mut Fleet, spots: &mut Spots) {
    let allowed = fleet.org.svid_dns.clone();
    let mut svids = svid::Names::of(&allowed, spots.svid_dns);
    for entry in &declared.services {
        let (Ok(name), node) = (entry.key.parse::<Name>(), &entry.value) else { continue };
        let at = names.places(notes, node.get("at"));
        let groups = names.groups(notes, node.get("groups"));
        let roles = names.roles(notes, node.get("roles"), Whom::Other);
        let svid = svids.read(notes, &format!("service `{name}`"), node);
        let Some(addr) = parsed(node, "addr") else { continue };
        spots.addr.insert(name.clone(), node.get("addr").map_or(entry.at, Entry::spot));
        let places = at.iter().map(|(at, _)| at.clone()).collect();
        spots.at.insert(name.clone(), at);
        fleet.services.entry(name).or_insert(ServiceSpec {
            at: places,
            addr,
            groups,
            roles,
            tells_caller: flag(node, "tells_caller"),
            svid,
        });
    }
    for entry in &declared.users {
        let Ok(name) = entry.key.parse::<Name>() else { continue };
        let roles = names.roles(notes, entry.value.get("roles"), Whom::User);
        let at = names.places(notes, entry.value.get("nodes")).into_iter().map(|(at, _)| at).collect();
        let svid = svids.read(notes, &format!("user `{name}`"), &entry.value);
        fleet.users.entry(name).or_insert(UserSpec { roles, nodes: at, svid });
    }
    for entry in &declared.roles {
        let groups = names.groups(notes, entry.value.get("allow"));
        if entry.key == ROLE_NODE {
            fleet.every_node = groups;
        } else if let Ok(name) = entry.key.parse() {
            fleet.roles.insert(name, groups);
        }
    }
    for entry in &declared.invites {
        let Ok(name) = entry.key.parse::<Name>() else { continue };
        let invite = InviteSpec {
            names: all_parsed(&entry.value, "names"),
            hosts: all_parsed(&entry.value, "hosts"),
            approvers: match parsed::<String>(&entry.value, "approval").as_deref() {
                Some("none") => None,
                _ => Some(parsed(&entry.value, "approvers").unwrap_or(1)),
            },
            networks: all_parsed(&entry.value, "from"),
            labels: labels(&entry.value),
            roles: names.roles(notes, entry.value.get("roles"), Whom::Other),
        };
        fleet.invites.insert(name, invite);
    }
}
