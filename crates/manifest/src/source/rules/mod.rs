//! The rules that only the whole fleet shows: what contradicts itself is an error, what has no effect a warning.

mod work;
mod reach;
mod tunnels;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use identity::principal::glob::{NameGlob, TooHard};
use identity::principal::{Host, Name};

use super::place::{Notes, Spot, error, error_about, warning};
use super::spots::Spots;
use crate::fleet::{At, ClassSpec, Fleet, MachineSpec, ROLE_OPERATOR};
use crate::stored::Confirm;
use reach::Reach;
use work::Work;

/// Steps of comparing things with each other, of all rules together: less than a second. What a rule does once for each thing
/// that is declared counts for nothing.
const COMPARING: u32 = 5_000_000;

pub(crate) fn check(notes: &mut Notes<'_>, fleet: &Fleet, spots: &Spots) {
    let reach = Reach::of(fleet);
    let mut work = Work::of(COMPARING);
    if compare(notes, fleet, spots, &reach, &mut work).is_err() {
        work.tell(notes);
    }
    // While something is wrong, what seems to have no effect may only be misspelled.
    if !notes.has_errors() {
        without_effect(notes, fleet, spots, &reach);
        machines_without_effect(notes, fleet, spots);
        addresses_without_effect(notes, fleet, spots);
        tunnels::doubts(notes, fleet, spots);
    }
}

/// All rules by which something is wrong. With the first that takes too long it ends.
fn compare(
    notes: &mut Notes<'_>,
    fleet: &Fleet,
    spots: &Spots,
    reach: &Reach<'_>,
    work: &mut Work,
) -> Result<(), TooHard> {
    work.turn_to("use fewer `*`, or let patterns begin differently: `web-*`, `db-*`");
    disjoint_classes(notes, spots, work)?;
    nodes_outside_classes(notes, spots, work)?;
    addresses(notes, fleet, spots);
    work.turn_to("give fewer services one port of one machine");
    listeners(notes, fleet, spots, work)?;
    tunnels::ports(notes, fleet, spots, work)?;
    work.turn_to("use fewer patterns for machines that may join");
    patterns(notes, fleet, spots, work)?;
    if notes.has_heard_all() {
        relays(notes, fleet, spots);
        reachable(notes, fleet, spots, reach);
        work.turn_to("use fewer forwards, or fewer groups and roles for the services that they lead to");
        tunnels::forwards(notes, fleet, spots, reach, work)?;
        operators(notes, fleet, spots);
    }
    Ok(())
}

/// A name or host name that somebody claims proves nothing: such machines provide nothing and speak for nobody.
fn patterns(notes: &mut Notes<'_>, fleet: &Fleet, spots: &Spots, work: &mut Work) -> Result<(), TooHard> {
    let places = fleet.services.values().flat_map(|service| &service.at);
    let places = places.chain(fleet.users.values().flat_map(|user| &user.nodes));
    let serving: BTreeSet<&Name> = places
        .filter_map(|at| match at {
            At::Class(class) => Some(class),
            At::Node(_) => None,
        })
        .collect();
    for (name, invite) in &fleet.invites {
        let Some(at) = spots.names.invites.get(name).copied() else { continue };
        if invite.names.iter().any(NameGlob::is_any) {
            let draft = error(at, format!("the pattern `{name}` fits any name: it lets in whoever asks"));
            notes.push(draft.hint("say which names: `names: web-*`"));
        }
        let serving = serving.iter().filter_map(|class| Some((*class, fleet.classes.get(*class)?)));
        if let Some(class) = served_class(serving, &invite.names, at, work)? {
            let message =
                format!("the pattern `{name}` lets in machines of the class `{class}`, which has services or users");
            let draft = error(at, message);
            notes.push(
                draft.hint(
                    "a claimed name proves nothing: let such machines join with an invite that lists their names",
                ),
            );
        }
    }
    Ok(())
}

/// The first class that serves and that a machine of such a name may be in.
fn served_class<'f>(
    serving: impl Iterator<Item = (&'f Name, &'f ClassSpec)>,
    names: &[NameGlob],
    at: Spot,
    work: &mut Work,
) -> Result<Option<&'f Name>, TooHard> {
    for (class, spec) in serving {
        for (glob, own) in spec.names.iter().flat_map(|glob| names.iter().map(move |own| (glob, own))) {
            if work.shared_name(at, own, glob)?.is_some() {
                return Ok(Some(class));
            }
        }
    }
    Ok(None)
}

/// The patterns of all classes by what stands before their first `*`: two can share a name only if one beginning goes on
/// where the other ends.
struct Beginnings<'a> {
    globs: &'a [(Name, NameGlob, Spot)],
    by_beginning: BTreeMap<String, Vec<usize>>,
}

impl<'a> Beginnings<'a> {
    fn of(globs: &'a [(Name, NameGlob, Spot)]) -> Self {
        let mut by_beginning: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (nth, (_, glob, _)) in globs.iter().enumerate() {
            by_beginning.entry(Self::beginning(glob)).or_default().push(nth);
        }
        Self { globs, by_beginning }
    }

    fn beginning(glob: &NameGlob) -> String {
        glob.to_string().split('*').next().unwrap_or_default().to_owned()
    }

    /// Those with which this text begins.
    fn before<'b>(&'b self, text: &'b str) -> impl Iterator<Item = usize> + 'b {
        let beginnings = (0..=text.len()).filter_map(|end| text.get(..end));
        beginnings.filter_map(|beginning| self.by_beginning.get(beginning)).flatten().copied()
    }

    /// Those before the nth that may share a name with it.
    fn rivals<'b>(&'b self, nth: usize, beginning: &'b str) -> impl Iterator<Item = &'a (Name, NameGlob, Spot)> + 'b {
        let longer = self.by_beginning.range::<str, _>((Bound::Excluded(beginning), Bound::Unbounded));
        let longer = longer.take_while(move |(other, _)| other.starts_with(beginning)).flat_map(|(_, all)| all);
        let all = self.before(beginning).chain(longer.copied());
        all.filter(move |other| *other < nth).filter_map(|other| self.globs.get(other))
    }
}

/// A node takes what its class says only if there is one such class.
fn disjoint_classes(notes: &mut Notes<'_>, spots: &Spots, work: &mut Work) -> Result<(), TooHard> {
    let (mut reported, beginnings) = (BTreeSet::new(), Beginnings::of(&spots.globs));
    for (nth, (class, glob, at)) in spots.globs.iter().enumerate() {
        for (earlier, other, first) in beginnings.rivals(nth, &Beginnings::beginning(glob)) {
            if notes.is_crowded() {
                return Ok(());
            }
            if earlier == class || reported.contains(&(earlier, class)) {
                continue;
            }
            if let Some(name) = work.shared_name(*at, glob, other)? {
                reported.insert((earlier, class));
                let message = format!("the classes `{earlier}` and `{class}` overlap: `{name}` would be in both");
                let draft = error(*at, message).also(*first, format!("`{other}` is here"));
                notes.push(draft.hint("a node is in one class at most: make the patterns differ"));
            }
        }
    }
    Ok(())
}

/// A node that is named has nothing from a class; access tables could not tell the two apart.
fn nodes_outside_classes(notes: &mut Notes<'_>, spots: &Spots, work: &mut Work) -> Result<(), TooHard> {
    let beginnings = Beginnings::of(&spots.globs);
    for (node, at) in &spots.names.nodes {
        for (class, glob, first) in beginnings.before(node.as_str()).filter_map(|nth| spots.globs.get(nth)) {
            work.step(*first)?;
            if !glob.matches(node.as_str()) {
                continue;
            }
            let draft = error(*at, format!("the node `{node}` would be in the class `{class}`, too"));
            let draft = draft.also(*first, format!("`{glob}` fits it"));
            notes.push(draft.hint("a machine is declared by its name or by a class: leave it to the class, rename it, or narrow the pattern"));
            break;
        }
    }
    Ok(())
}

fn relays(notes: &mut Notes<'_>, fleet: &Fleet, spots: &Spots) {
    for (name, _) in fleet.nodes.iter().filter(|(_, node)| node.relay && node.address.is_none()) {
        if let Some(at) = spots.names.nodes.get(name) {
            let draft = error(*at, format!("the relay `{name}` has no address"));
            notes.push(draft.hint("give it an `address` that other nodes reach"));
        }
    }
}

/// Where one listens on everything is no place to be found at.
fn addresses(notes: &mut Notes<'_>, fleet: &Fleet, spots: &Spots) {
    for (name, node) in &fleet.nodes {
        if let (Some(address), Some(at)) = (&node.address, spots.address.get(name))
            && matches!(address.host, Host::Ip(ip) if ip.is_unspecified())
        {
            let draft =
                error(*at, format!("nobody reaches `{name}` at {address}: that is where it listens, not where it is"));
            notes.push(
                draft.hint("give the address by which others find it; where it listens is said by `tunnel.listen`"),
            );
        }
    }
}

/// A fleet on one machine, with all addresses on it, is one to try things out with. In any other, others would find
/// themselves there.
fn addresses_without_effect(notes: &mut Notes<'_>, fleet: &Fleet, spots: &Spots) {
    let itself = |host: &Host| match host {
        Host::Ip(ip) => ip.is_loopback(),
        Host::Dns(name) => name == "localhost" || name.ends_with(".localhost"),
    };
    let policies = fleet.nodes.values().map(|node| &node.policy).chain([&fleet.org.defaults]);
    let gateways = policies.flat_map(|policy| &policy.gateways).map(|gateway| &gateway.host);
    let addresses = fleet.nodes.values().filter_map(|node| Some(&node.address.as_ref()?.host));
    if gateways.chain(addresses).all(itself) {
        return;
    }
    for (name, node) in &fleet.nodes {
        if let (Some(address), Some(at)) = (&node.address, spots.address.get(name))
            && itself(&address.host)
        {
            let draft =
                warning(*at, format!("other machines do not reach `{name}` at {address}: each finds itself there"));
            notes.push(
                draft.hint("give the address by which others find it, or none: then it is reached through a relay"),
            );
        }
    }
}

fn listeners(notes: &mut Notes<'_>, fleet: &Fleet, spots: &Spots, work: &mut Work) -> Result<(), TooHard> {
    let mut taken: BTreeMap<(&At, u16), Vec<(&Host, &Name)>> = BTreeMap::new();
    for (name, service) in &fleet.services {
        let Some(second) = spots.addr.get(name) else { continue };
        for at in &service.at {
            let others = taken.entry((at, service.addr.port)).or_default();
            let mut clash = None;
            for (host, other) in others.iter() {
                work.step(*second)?;
                if same_listener(host, &service.addr.host) {
                    clash = Some(*other);
                    break;
                }
            }
            if let Some((other, first)) = clash.and_then(|other| Some((other, spots.addr.get(other)?))) {
                let message = format!("`{other}` and `{name}` both listen on {} of {}", service.addr, word(at));
                let draft = error(*second, message).also(*first, format!("`{other}` is here"));
                notes.push(draft.hint("give one of them another port"));
            }
            others.push((&service.addr.host, name));
        }
    }
    Ok(())
}

/// One port: an address that stands for all, or two words for the machine itself.
pub(super) fn same_listener(one: &Host, two: &Host) -> bool {
    let all = |host: &Host| matches!(host, Host::Ip(ip) if ip.is_unspecified());
    let itself = |host: &Host| match host {
        Host::Ip(ip) => ip.is_loopback(),
        Host::Dns(name) => name == "localhost",
    };
    let spelled = matches!((one, two), (Host::Dns(_), _) | (_, Host::Dns(_)));
    one == two || all(one) || all(two) || (spelled && itself(one) && itself(two))
}

fn reachable(notes: &mut Notes<'_>, fleet: &Fleet, spots: &Spots, reach: &Reach<'_>) {
    if fleet.nodes.values().any(|node| node.relay) {
        return;
    }
    for (name, service) in &fleet.services {
        let has_address = |at: &At| match at {
            At::Node(node) => fleet.nodes.get(node).is_some_and(|node| node.address.is_some()),
            At::Class(_) => false,
        };
        let far = spots.at.get(name).map(Vec::as_slice).unwrap_or_default();
        let callers = reach.callers(service);
        for (place, at) in far.iter().filter(|(place, _)| !has_address(place)) {
            if reach.is_for_others(service, &callers, place) {
                let message = match place {
                    At::Node(node) => {
                        format!("nobody can reach `{name}`: `{node}` has no address, and no node is a relay")
                    }
                    At::Class(class) => {
                        format!(
                            "nobody can reach `{name}`: the nodes of `{class}` have no address, and no node is a relay"
                        )
                    }
                };
                notes.push(
                    error(*at, message)
                        .hint("give the node an `address`, or let a node that has one say `relay: true`"),
                );
            }
        }
    }
}

fn operators(notes: &mut Notes<'_>, fleet: &Fleet, spots: &Spots) {
    let operator = |name: &Name| name.as_str() == ROLE_OPERATOR;
    if !fleet.users.values().any(|user| user.roles.iter().any(operator)) {
        let draft = error_about(spots.users, "nobody is an operator");
        notes.push(draft.hint("give a user the role: `roles: [operator]`"));
    }
}

fn without_effect(notes: &mut Notes<'_>, fleet: &Fleet, spots: &Spots, reach: &Reach<'_>) {
    let names = &spots.names;
    for (role, at) in names.roles.iter().filter(|(role, _)| role.as_str() != ROLE_OPERATOR) {
        if !reach.holders.get(role).is_some_and(|holders| holders.any) {
            notes.push(warning(*at, format!("nobody has the role `{role}`")).hint("give it to somebody, or remove it"));
        }
        if fleet.roles.get(role).is_some_and(BTreeSet::is_empty) {
            notes.push(warning(*at, format!("the role `{role}` allows nothing")).hint("name groups under `allow`"));
        }
    }
    let used: BTreeSet<&Name> = fleet.services.values().flat_map(|service| &service.groups).collect();
    for (group, at) in &names.groups {
        if !used.contains(group) {
            let draft = warning(*at, format!("no service is in the group `{group}`"));
            notes.push(draft.hint(format!("say `groups: [{group}]` at a service, or remove it")));
        }
        if !reach.allowing.contains_key(group) && !fleet.every_node.contains(group) {
            let draft = warning(*at, format!("no role allows the group `{group}`"));
            notes.push(draft.hint(format!("say `allow: [{group}]` at a role, or remove it")));
        }
    }
    for (name, service) in &fleet.services {
        if let Some(at) = names.services.get(name).filter(|_| !reach.by_anybody(service)) {
            let draft = warning(*at, format!("nobody may call the service `{name}`"));
            notes.push(draft.hint("put it into a group that a role of somebody allows"));
        }
    }
    for (name, user) in &fleet.users {
        let Some(at) = names.users.get(name) else { continue };
        if user.nodes.is_empty() {
            let draft = warning(*at, format!("the user `{name}` is on no node, and so has no identity anywhere"));
            notes.push(draft.hint("name their machines under `nodes`"));
        }
        if user.roles.is_empty() {
            let draft = warning(*at, format!("the user `{name}` has no role, and so may call nothing"));
            notes.push(draft.hint("give them one under `roles`"));
        }
    }
}

fn machines_without_effect(notes: &mut Notes<'_>, fleet: &Fleet, spots: &Spots) {
    let unproved =
        |machine: &MachineSpec| machine.policy.apply.confirm == Confirm::Offline && machine.policy.checks.is_empty();
    let named = fleet.nodes.iter().filter(|(_, machine)| unproved(machine));
    let named = named.filter_map(|(name, _)| Some((name.as_str(), spots.names.nodes.get(name)?)));
    let classes = fleet.classes.iter().filter(|(_, class)| unproved(&class.like));
    let classes = classes.filter_map(|(name, _)| Some((name.as_str(), spots.names.classes.get(name)?)));
    for (name, at) in named.chain(classes) {
        let draft =
            warning(*at, format!("`{name}` takes any new state: it confirms by its checks alone, and has none"));
        notes.push(draft.hint("add one under `checks`, or choose another `apply.confirm`"));
    }
}

pub(super) fn word(at: &At) -> String {
    match at {
        At::Node(name) => format!("`{name}`"),
        At::Class(name) => format!("the class `{name}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pattern_that_shares_a_name_is_passed_over() {
        let letters = ["", "a", "b", "*"];
        let words =
            letters.iter().flat_map(|a| letters.iter().flat_map(move |b| letters.map(|c| format!("{a}{b}{c}"))));
        let words: BTreeSet<String> = words.collect();
        let at = Spot { file: 0, line: 1, column: 0, width: 1 };
        let class = |nth: usize| format!("c{nth}").parse().unwrap();
        let globs = words.iter().filter_map(|word| word.parse::<NameGlob>().ok()).enumerate();
        let globs: Vec<_> = globs.map(|(nth, glob)| (class(nth), glob, at)).collect();
        assert!(globs.len() > 20, "{}", globs.len());
        let (beginnings, mut shared) = (Beginnings::of(&globs), 0);
        for (nth, (_, glob, _)) in globs.iter().enumerate() {
            let beginning = Beginnings::beginning(glob);
            let rivals: Vec<&Name> = beginnings.rivals(nth, &beginning).map(|(class, ..)| class).collect();
            for (other, ..) in globs[..nth].iter().filter(|(_, other, _)| glob.shared_name(other).is_some()) {
                shared += 1;
                assert_eq!(rivals.iter().filter(|rival| **rival == other).count(), 1, "{glob} and {other}");
            }
        }
        assert!(shared > 50, "{shared}");
    }
}
