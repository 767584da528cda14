//! What only the whole fleet shows of tunnels: forwards that nobody may use, ports that two want, doors left open.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use identity::principal::glob::TooHard;
use identity::principal::{Host, HostPort, Name};

use super::reach::Reach;
use super::work::Work;
use super::{same_listener, word};
use crate::fleet::{At, Fleet, MachineSpec, ServiceSpec, UserSpec};
use crate::source::place::{Notes, Spot, error, warning};
use crate::source::spots::Spots;
use crate::source::tunnel::{ForwardTold, Told};
use crate::stored::{Forward, Socks};

/// Whoever a forward asks for may call the service, and is at home there.
pub(crate) fn forwards(
    notes: &mut Notes<'_>,
    fleet: &Fleet,
    spots: &Spots,
    reach: &Reach<'_>,
    work: &mut Work,
) -> Result<(), TooHard> {
    let (mut shut, mut judge) = (Shut::default(), Judge { reach, work });
    for machine in machines(fleet, spots) {
        for (address, forward) in &machine.spec.policy.tunnel.forward {
            if let Some(said) = machine.told.forward.get(address) {
                shut.look(fleet, &mut judge, machine, forward, said)?;
            }
        }
    }
    shut.tell(notes, fleet);
    Ok(())
}

/// What is not wrong, but hardly meant. Told once, however many machines it concerns.
pub(crate) fn doubts(notes: &mut Notes<'_>, fleet: &Fleet, spots: &Spots) {
    let is_open = |address: &HostPort| !matches!(address.host, Host::Ip(ip) if ip.is_loopback());
    if let (Some(stale), Some(at)) = (&fleet.org.stale, spots.stale)
        && stale.roles.is_empty()
        && !stale.every_node
    {
        notes.push(warning(at, "`org.stale` holds for nobody").hint("name roles under `roles`, or leave it out"));
    }
    let (mut told, mut listens) = (BTreeSet::new(), BTreeMap::<Spot, bool>::new());
    for Machine { at, spec, told: said } in machines(fleet, spots) {
        let tunnel = &spec.policy.tunnel;
        if let Some(spot) = said.listen {
            *listens.entry(spot).or_default() |= spec.address.is_some();
        }
        if let (Socks::At { addr, password: false }, Some(spot)) = (&tunnel.socks, said.socks)
            && is_open(addr)
            && told.insert(spot)
        {
            let message = format!("whoever reaches {addr} calls services as {} and those at home there", word(at));
            notes.push(
                warning(spot, message).hint("listen on 127.0.0.1, or ask for a password: `socks: {password: true}`"),
            );
        }
        for (address, forward) in tunnel.forward.iter().filter(|(address, _)| is_open(address)) {
            if let Some(said) = said.forward.get(address).filter(|said| told.insert(said.at)) {
                let who = forward.user.as_ref().map_or_else(|| word(at), |user| format!("`{user}`"));
                let message = format!("whoever reaches {address} calls `{}` as {who}", forward.service);
                notes
                    .push(warning(said.at, message).hint("listen on 127.0.0.1, unless others are to have this way in"));
            }
        }
    }
    without_password(notes, fleet, spots, told);
    for (spot, _) in listens.into_iter().filter(|(_, is_called)| !is_called) {
        let draft = warning(spot, "nobody calls there: no machine that listens there has an `address`");
        notes
            .push(draft.hint("give it an `address`; or leave this out, since what comes by a relay needs no listener"));
    }
}

/// Forwards that speak for a user of a machine on which SOCKS asks for a password.
fn without_password(notes: &mut Notes<'_>, fleet: &Fleet, spots: &Spots, mut told: BTreeSet<Spot>) {
    for Machine { at, spec, told: said } in machines(fleet, spots) {
        let asks = matches!(spec.policy.tunnel.socks, Socks::At { password: true, .. });
        for (address, forward) in spec.policy.tunnel.forward.iter().filter(|_| asks) {
            if let (Some(user), Some(said)) = (&forward.user, said.forward.get(address))
                && told.insert(said.at)
            {
                let message =
                    format!("whoever is on {} calls `{}` as `{user}` by {address}", word(at), forward.service);
                notes.push(warning(said.at, message).hint(
                    "SOCKS asks for a password there, and a forward never does: leave it out, or leave out its `user`",
                ));
            }
        }
    }
}

/// One for which anything is said, with where it is said.
#[derive(Clone, Copy)]
struct Machine<'f> {
    at: &'f At,
    spec: &'f MachineSpec,
    told: &'f Told,
}

fn machines<'f>(fleet: &'f Fleet, spots: &'f Spots) -> impl Iterator<Item = Machine<'f>> {
    spots.tunnels.iter().filter_map(|(at, told)| {
        let spec = match at {
            At::Node(name) => fleet.nodes.get(name)?,
            At::Class(name) => &fleet.classes.get(name)?.like,
        };
        Some(Machine { at, spec, told })
    })
}

/// Who may call what, within what all rules may take.
struct Judge<'r, 'f> {
    reach: &'r Reach<'f>,
    work: &'r mut Work,
}

impl<'f> Judge<'_, 'f> {
    /// Does one of these roles allow it?
    fn allows(&mut self, roles: &BTreeSet<Name>, service: &'f ServiceSpec, at: Spot) -> Result<bool, TooHard> {
        for role in self.reach.allowing(service) {
            self.work.step(at)?;
            if roles.contains(role) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_home(&mut self, user: &UserSpec, place: &At, at: Spot) -> Result<bool, TooHard> {
        for home in &user.nodes {
            self.work.step(at)?;
            if home == place {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Forwards through which nothing would come, each with the machines for which it is so.
#[derive(Default)]
struct Shut<'f> {
    machine: BTreeMap<(Spot, &'f Name), Vec<&'f At>>,
    user: BTreeMap<(Spot, &'f Name), &'f Name>,
    not_home: BTreeMap<(Spot, &'f Name), Vec<&'f At>>,
}

impl<'f> Shut<'f> {
    fn look(
        &mut self,
        fleet: &'f Fleet,
        judge: &mut Judge<'_, 'f>,
        Machine { at, spec, .. }: Machine<'f>,
        forward: &'f Forward,
        said: &'f ForwardTold,
    ) -> Result<(), TooHard> {
        let Some(service) = fleet.services.get(&forward.service) else { return Ok(()) };
        match &forward.user {
            None if !judge.reach.every_node_may(service) && !judge.allows(&spec.roles, service, said.at)? => {
                self.machine.entry((said.service, &forward.service)).or_default().push(at);
            }
            None => {}
            Some(name) => {
                let Some(user) = fleet.users.get(name) else { return Ok(()) };
                if !judge.allows(&user.roles, service, said.at)? {
                    self.user.insert((said.service, &forward.service), name);
                }
                if !judge.is_home(user, at, said.at)? {
                    self.not_home.entry((said.user.unwrap_or(said.at), name)).or_default().push(at);
                }
            }
        }
        Ok(())
    }

    fn tell(self, notes: &mut Notes<'_>, fleet: &Fleet) {
        let cure = |service: &Name, whom: &str| {
            let groups = fleet.services.get(service).map(|it| it.groups.iter().map(|name| format!("`{name}`")));
            let groups: Vec<String> = groups.into_iter().flatten().collect();
            if groups.is_empty() {
                "put it into a group that a role allows".to_owned()
            } else {
                format!("give {whom} a role that allows {}", groups.join(" or "))
            }
        };
        for ((at, service), machines) in self.machine {
            let draft = error(at, format!("{} may not call `{service}`", several(&machines)));
            let hint =
                format!("{}, or say for which user it asks: {{service: {service}, user: NAME}}", cure(service, "it"));
            notes.push(draft.hint(hint));
        }
        for ((at, service), user) in self.user {
            let draft = error(at, format!("the user `{user}` may not call `{service}`"));
            notes.push(draft.hint(format!("{}, or remove the forward", cure(service, &format!("`{user}`")))));
        }
        for ((at, user), machines) in self.not_home {
            let draft = error(at, format!("the user `{user}` is not at home on {}", several(&machines)));
            let hint = format!("name it under `nodes` of `{user}`, or leave `user` out: then the machine itself asks");
            notes.push(draft.hint(hint));
        }
    }
}

fn several(machines: &[&At]) -> String {
    match machines {
        [one] => word(one),
        [one, two] => format!("{} and {}", word(one), word(two)),
        [one, more @ ..] => format!("{} and {} more", word(one), more.len()),
        [] => String::new(),
    }
}

/// Who wants a port of a machine, and where that is said.
type Wanted<'f> = BTreeMap<u16, BTreeMap<&'f Host, (String, Spot)>>;

/// Two that want one port of a machine, of whom one is its tunnel's.
pub(crate) fn ports(notes: &mut Notes<'_>, fleet: &Fleet, spots: &Spots, work: &mut Work) -> Result<(), TooHard> {
    let mut services: BTreeMap<&At, Vec<(&Name, &HostPort)>> = BTreeMap::new();
    for (name, service) in &fleet.services {
        for at in &service.at {
            services.entry(at).or_default().push((name, &service.addr));
        }
    }
    let mut told = BTreeSet::new();
    for Machine { at, spec, told: said } in machines(fleet, spots) {
        let mut wanted = Wanted::new();
        for (name, addr) in services.get(at).into_iter().flatten() {
            if let Some(spot) = spots.addr.get(*name) {
                wanted.entry(addr.port).or_default().entry(&addr.host).or_insert((format!("`{name}`"), *spot));
            }
        }
        for (address, what, spot) in listeners(spec, said) {
            let there = wanted.entry(address.port).or_default();
            if let Some((other, first)) = clash(there, &address.host, spot, work)? {
                if told.insert((spot, *first)) {
                    let draft = error(spot, format!("{other} and {what} both listen on {address} of {}", word(at)));
                    notes.push(draft.also(*first, format!("{other} is here")).hint("give one of them another port"));
                }
                continue;
            }
            there.insert(&address.host, (what.to_owned(), spot));
        }
    }
    Ok(())
}

fn listeners<'f>(spec: &'f MachineSpec, said: &'f Told) -> Vec<(&'f HostPort, &'static str, Spot)> {
    let tunnel = &spec.policy.tunnel;
    let socks = match &tunnel.socks {
        Socks::At { addr, .. } => Some((addr, "SOCKS", said.socks)),
        Socks::Off => None,
    };
    let forwards = tunnel.forward.keys().map(|at| (at, "a forward", said.forward.get(at).map(|said| said.at)));
    let listen = tunnel.listen.as_ref().map(|at| (at, "the tunnel", said.listen));
    let resolver = tunnel.resolver.as_ref().map(|at| (at, "the resolver", said.resolver));
    let all = listen.into_iter().chain(socks).chain(resolver).chain(forwards);
    all.filter_map(|(at, what, spot)| Some((at, what, spot?))).collect()
}

/// Who has it already. A machine may have many listeners on one port: they are looked up, not gone through.
fn clash<'w>(
    there: &'w BTreeMap<&Host, (String, Spot)>,
    host: &Host,
    at: Spot,
    work: &mut Work,
) -> Result<Option<&'w (String, Spot)>, TooHard> {
    let every = [Host::Ip(Ipv4Addr::UNSPECIFIED.into()), Host::Ip(Ipv6Addr::UNSPECIFIED.into())];
    match host {
        Host::Ip(ip) if !ip.is_unspecified() => {
            let words = ip.is_loopback().then(|| Host::Dns("localhost".to_owned()));
            let same = [Some(host), every.first(), every.last(), words.as_ref()];
            Ok(same.into_iter().flatten().find_map(|host| there.get(host)))
        }
        _ => {
            for (other, found) in there {
                work.step(at)?;
                if same_listener(other, host) {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        }
    }
}
