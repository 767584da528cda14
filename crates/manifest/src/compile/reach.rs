//! Who reaches what (RBAC), once per role: the rows of each service, and the services of each set of roles.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use identity::principal::{Name, NodeName, Principal};
use serde::Serialize;

use super::places::Places;
use crate::fleet::{At, Fleet, StaleSpec};
use crate::stored::{Caller, Dial, Place};

/// A service by its place in the sorted list of all.
pub(super) type Nth = usize;

#[derive(Debug)]
pub(super) struct Reach<'a> {
    pub services: Vec<Service<'a>>,
    numbers: HashMap<&'a Name, Nth>,
    by_role: HashMap<&'a Name, Vec<Nth>>,
    every_node: Vec<Nth>,
    /// Who opens nothing new on a stale head, as JSON; nothing if nobody.
    pub stale: Option<String>,
}

/// A service as others see it. Both texts are JSON, shared by every manifest in which they stand.
#[derive(Debug)]
pub(super) struct Service<'a> {
    pub name: &'a Name,
    /// Who may call it.
    pub callers: Rc<str>,
    /// Where it is.
    pub dials: String,
    /// Its port at home.
    pub port: u16,
    /// Where it is without an address.
    hidden: Vec<&'a At>,
}

impl Service<'_> {
    /// Does it take a relay to reach this service from there?
    pub(super) fn needs_relay_from(&self, node: Option<&NodeName>) -> bool {
        self.hidden.iter().any(|at| match at {
            At::Node(name) => Some(name) != node,
            At::Class(_) => true,
        })
    }
}

impl<'a> Reach<'a> {
    pub(super) fn of(fleet: &'a Fleet, places: &Places<'a>) -> Self {
        let numbers: HashMap<&Name, Nth> = fleet.services.keys().enumerate().map(|(nth, name)| (name, nth)).collect();
        let mut by_group: HashMap<&Name, Vec<Nth>> = HashMap::new();
        for (nth, service) in fleet.services.values().enumerate() {
            for group in &service.groups {
                by_group.entry(group).or_default().push(nth);
            }
        }
        let allowed =
            |groups: &BTreeSet<Name>| union(groups.iter().filter_map(|group| by_group.get(group)).map(Vec::as_slice));
        let by_role = fleet.roles.iter().map(|(role, groups)| (role, allowed(groups))).collect();
        let rows = Rows::of(fleet);
        let mut shared: HashMap<(Vec<&Name>, bool), Rc<str>> = HashMap::new();
        let service = |(name, spec): (&'a Name, &'a crate::fleet::ServiceSpec)| {
            let roles: Vec<&Name> = rows.roles_for(&spec.groups);
            let any_node = !fleet.every_node.is_disjoint(&spec.groups);
            let callers = shared.entry((roles, any_node)).or_insert_with_key(|(roles, any)| rows.text(roles, *any));
            let (dials, hidden) = dials(fleet, places, &spec.at);
            Service { name, callers: Rc::clone(callers), dials, port: spec.addr.port, hidden }
        };
        let services = fleet.services.iter().map(service).collect();
        let stale = fleet.org.stale.as_ref().and_then(|stale| rows.stale(stale));
        Self { services, numbers, by_role, every_node: allowed(&fleet.every_node), stale }
    }

    /// The services that these roles allow, in order.
    pub(super) fn allowed_by<'r>(&self, roles: impl IntoIterator<Item = &'r Name>) -> Vec<Nth> {
        union(roles.into_iter().filter_map(|role| self.by_role.get(role)).map(Vec::as_slice))
    }

    /// The services that a node with these roles may call: every node has the role `node`, too.
    pub(super) fn allowed_to_node<'r>(&self, roles: impl IntoIterator<Item = &'r Name>) -> Vec<Nth> {
        union([self.allowed_by(roles).as_slice(), self.every_node.as_slice()])
    }

    pub(super) fn service(&self, name: &Name) -> Option<&Service<'a>> {
        self.numbers.get(name).and_then(|nth| self.services.get(*nth))
    }
}

/// Everybody who has a role, as rows of a table.
struct Rows<'a> {
    /// Each row as JSON and whether it is a node's, in the order in which rows stand in a table.
    all: Vec<(String, bool)>,
    holders: HashMap<&'a Name, Vec<usize>>,
    allowing: HashMap<&'a Name, Vec<&'a Name>>,
}

impl<'a> Rows<'a> {
    fn of(fleet: &'a Fleet) -> Self {
        let mut all: Vec<(Caller, &BTreeSet<Name>)> = everybody(fleet).collect();
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut holders: HashMap<&Name, Vec<usize>> = HashMap::new();
        for (at, (_, roles)) in all.iter().enumerate() {
            for role in *roles {
                holders.entry(role).or_default().push(at);
            }
        }
        let mut allowing: HashMap<&Name, Vec<&Name>> = HashMap::new();
        for (role, groups) in &fleet.roles {
            for group in groups {
                allowing.entry(group).or_default().push(role);
            }
        }
        let written = |(row, _): &(Caller, _)| (json(row), matches!(row, Caller::Node(_) | Caller::Class { .. }));
        Self { all: all.iter().map(written).collect(), holders, allowing }
    }

    /// Roles that allow one of these groups, and that somebody has.
    fn roles_for(&self, groups: &BTreeSet<Name>) -> Vec<&'a Name> {
        let roles: BTreeSet<&Name> =
            groups.iter().filter_map(|group| self.allowing.get(group)).flatten().copied().collect();
        roles.into_iter().filter(|role| self.holders.contains_key(role)).collect()
    }

    /// The table of those who have one of these roles. Where every node may, no node needs a row of its own.
    fn text(&self, roles: &[&Name], any_node: bool) -> Rc<str> {
        let holders = union(roles.iter().filter_map(|role| self.holders.get(role)).map(Vec::as_slice));
        let rows = holders.iter().filter_map(|at| self.all.get(*at)).filter(|(_, is_node)| !(any_node && *is_node));
        let any = any_node.then(|| json(&Caller::AnyNode));
        list(rows.map(|(text, _)| text.as_str()).chain(any.as_deref())).into()
    }

    fn stale(&self, stale: &StaleSpec) -> Option<String> {
        let roles: Vec<&Name> = stale.roles.iter().collect();
        let callers = self.text(&roles, stale.every_node);
        let anybody = &*callers != "[]";
        anybody.then(|| format!(r#"{{"margin":{},"callers":{callers}}}"#, json(&stale.margin)))
    }
}

fn everybody(fleet: &Fleet) -> impl Iterator<Item = (Caller, &BTreeSet<Name>)> {
    let org = &fleet.org.name;
    let users = fleet.users.iter().map(|(name, user)| (Principal::user(org, name), &user.nodes, &user.roles));
    let services = fleet.services.iter().map(|(name, it)| (Principal::service(org, name), &it.at, &it.roles));
    let placed = users.chain(services).filter(|(_, at, roles)| !at.is_empty() && !roles.is_empty());
    let placed = placed.map(|(principal, at, roles)| {
        let at: BTreeSet<Place> = at.iter().map(|at| place(fleet, at)).collect();
        (Caller::Placed { principal, at: at.into_iter().collect() }, roles)
    });
    let nodes = fleet.nodes.iter().filter(|(_, node)| !node.roles.is_empty());
    let nodes = nodes.map(|(name, node)| (Caller::Node(name.clone()), &node.roles));
    let classes = fleet.classes.iter().filter(|(_, class)| !class.like.roles.is_empty());
    let classes = classes
        .map(|(name, class)| (Caller::Class { class: name.clone(), names: sorted(&class.names) }, &class.like.roles));
    placed.chain(nodes).chain(classes)
}

fn place(fleet: &Fleet, at: &At) -> Place {
    match at {
        At::Node(node) => Place::Node(node.clone()),
        At::Class(class) => {
            let names = fleet.classes.get(class).map(|spec| sorted(&spec.names)).unwrap_or_default();
            Place::Class { class: class.clone(), names }
        }
    }
}

/// Where to reach a service, and which of its places have no address. Nodes of a class that are declared with an address
/// are listed by name, too: they need no relay.
fn dials<'a>(fleet: &'a Fleet, places: &Places<'a>, at: &'a [At]) -> (String, Vec<&'a At>) {
    let mut dials: BTreeMap<Place, Option<_>> = BTreeMap::new();
    let mut hidden = Vec::new();
    let address_of = |node: &NodeName| fleet.nodes.get(node).and_then(|spec| spec.address.clone());
    for at in at {
        let address = match at {
            At::Node(node) => address_of(node),
            At::Class(class) => {
                for node in places.declared_in(class) {
                    if let Some(address) = address_of(node) {
                        dials.insert(Place::Node((*node).clone()), Some(address));
                    }
                }
                fleet.classes.get(class).and_then(|spec| spec.like.address.clone())
            }
        };
        if address.is_none() {
            hidden.push(at);
        }
        dials.insert(place(fleet, at), address);
    }
    let dials: Vec<Dial> = dials.into_iter().map(|(at, address)| Dial { at, address }).collect();
    (json(&dials), hidden)
}

/// Patterns say the same in any order, so they have one.
pub(super) fn sorted<T: Ord + Clone>(all: &[T]) -> Vec<T> {
    all.iter().collect::<BTreeSet<_>>().into_iter().cloned().collect()
}

fn union<'n>(parts: impl IntoIterator<Item = &'n [usize]>) -> Vec<usize> {
    let mut parts = parts.into_iter();
    let mut all = parts.next().unwrap_or_default().to_vec();
    let first = all.len();
    for part in parts {
        all.extend_from_slice(part);
    }
    if all.len() > first {
        all.sort_unstable();
        all.dedup();
    }
    all
}

pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A JSON list of what is JSON already.
pub(super) fn list<'t>(items: impl IntoIterator<Item = &'t str>) -> String {
    let mut text = String::from("[");
    for (nth, item) in items.into_iter().enumerate() {
        text.push_str(if nth == 0 { "" } else { "," });
        text.push_str(item);
    }
    text.push(']');
    text
}
