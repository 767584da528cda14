//! `freehold-node port`: where programs of this machine reach services, as it was bound and not as it was wished.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Args;
use identity::principal::{Name, Principal, PrincipalKind};
use manifest::stored::Manifest;
use member::agent::status::NodeStatus;
use member::agent::tunnel::view::{State, TunnelView, told};
use member::apply::stage::{FOLDER, Shelf};
use member::store::scope::Scope;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use tunnel::control::listener::ListenerId;

use crate::commands::roots::ScopeOptions;
use crate::program::Program;

const DOING: &str = "could not tell the port";

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node port                    every port
  freehold-node port socks              curl --socks5-hostname 127.0.0.1:$(freehold-node port socks) http://wiki.harbor.internal/
  freehold-node port socks --user ann   where SOCKS speaks for `ann`, if several are at home here
  freehold-node port wiki               the local port that leads to `wiki`, if the fleet has a forward for it
  freehold-node port wiki --json        every local address that leads to it

One is told: a port of 127.0.0.1 if there is one, as a number. What is only to be had at another address, as the one that a service
has of its own by the resolver, is told as ADDRESS:PORT.

A port that is taken when the tunnel starts becomes a free one: ask here rather than in the fleet. Where SOCKS asks for
passwords, and at the address of a service, it is that port or none, and `freehold-node status` says so.")]
pub struct Port {
    /// A service, or `socks`
    #[arg(value_name = "SERVICE|socks")]
    what: Option<Name>,
    /// The SOCKS port of this user at home here, rather than the one for whoever is there by default
    #[arg(long, value_name = "USER")]
    user: Option<Name>,
}

#[derive(Serialize)]
struct Told {
    port: u16,
    address: SocketAddr,
    place: ListenerId,
}

impl Port {
    pub fn run(self, common: &ScopeOptions) -> Result<(), Failure> {
        let scope = common.scope(DOING)?;
        let Some(status) = NodeStatus::from_agent(&scope) else {
            let why = "the agent does not run, so nothing listens";
            return Err(Failure::failed(DOING, why).hint(common.start(&scope)));
        };
        let tunnel = &status.tunnel;
        let Some(what) = &self.what else {
            let ports: BTreeMap<_, _> = tunnel.listens.iter().collect();
            show(common.json, &ports, || every(tunnel));
            return Ok(());
        };
        let user = self.user.map(|user| Principal::user(&status.org, &user));
        let found = find(tunnel, what, user.as_ref());
        if found.is_empty() {
            let program = common.program(&scope);
            return Err(match tunnel.state {
                State::Off | State::Waiting => idle(tunnel, program),
                State::Running if what.as_str() == "socks" => {
                    no_socks(tunnel, user.as_ref(), obeyed(&scope).as_ref(), program)
                }
                State::Running => no_way(tunnel, what, obeyed(&scope).as_ref(), program),
            });
        }
        show(common.json, &found, || one(&found));
        Ok(())
    }
}

fn every(tunnel: &TunnelView) -> String {
    if tunnel.listens.is_empty() {
        return format!("nothing is listened at: {}", why_nothing(tunnel));
    }
    let lines = tunnel.listens.iter().map(|(place, at)| format!("{at}  {}", told(place, &tunnel.forwards)));
    lines.collect::<Vec<_>>().join("\n")
}

fn why_nothing(tunnel: &TunnelView) -> String {
    match tunnel.state {
        State::Off => "nothing is published that this node could reach or serve".to_owned(),
        State::Waiting => tunnel.problem.clone().unwrap_or_else(|| "the tunnel's process ended".to_owned()),
        State::Running if tunnel.failed.is_empty() => {
            "the fleet turns SOCKS off for this node, and wants nothing else of it".to_owned()
        }
        State::Running => {
            let failed = tunnel.failed.iter().map(|(place, why)| format!("{}: {why}", told(place, &tunnel.forwards)));
            failed.collect::<Vec<_>>().join("; ")
        }
    }
}

fn find(tunnel: &TunnelView, what: &Name, user: Option<&Principal>) -> Vec<Told> {
    let wanted = user.map_or(ListenerId::Socks, |user| ListenerId::SocksOf(user.clone()));
    let socks = |place: &ListenerId| what.as_str() == "socks" && *place == wanted;
    let all = tunnel.listens.iter().filter(|(place, _)| socks(place)).map(|(place, at)| (place, *at));
    let found = all.chain(tunnel.ports_of(what));
    found.map(|(place, at)| Told { port: at.port(), address: at, place: place.clone() }).collect()
}

/// To be put behind `127.0.0.1:`, where the port is one of that address; whole otherwise, since it leads nowhere there.
fn one(found: &[Told]) -> String {
    let is_near =
        |told: &&Told| [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED].map(IpAddr::V4).contains(&told.address.ip());
    let near = found.iter().find(is_near).map(|told| told.port.to_string());
    near.or_else(|| found.first().map(|told| told.address.to_string())).unwrap_or_default()
}

fn idle(tunnel: &TunnelView, program: Program) -> Failure {
    let failure = Failure::failed(DOING, format!("nothing is listened at: {}", why_nothing(tunnel)));
    if tunnel.state == State::Waiting {
        return failure.hint(format!("it is started again by itself: {}", program.command("status")));
    }
    let sync = program.command("sync");
    failure.hint(format!("an operator publishes a fleet with services: freehold publish; then: {sync}"))
}

fn no_socks(tunnel: &TunnelView, user: Option<&Principal>, manifest: Option<&Manifest>, program: Program) -> Failure {
    let off = || Failure::failed(DOING, "the fleet turns SOCKS off for this node");
    let Some(user) = user else {
        return tunnel.failed.get(&ListenerId::Socks).map_or_else(off, |why| Failure::failed(DOING, why));
    };
    if let Some(why) = tunnel.failed.get(&ListenerId::SocksOf(user.clone())) {
        return Failure::failed(DOING, why);
    }
    let served: Vec<&Principal> = tunnel.listens.keys().chain(tunnel.failed.keys()).filter_map(of_one).collect();
    if served.is_empty() {
        return tunnel.failed.get(&ListenerId::Socks).map_or_else(off, |why| Failure::failed(DOING, why));
    }
    let sync = program.command("sync");
    if manifest.is_some_and(|manifest| manifest.runs.users.iter().any(|name| name.as_str() == user.name())) {
        let why = format!("`{}` is at home here, and this machine has no SVID for that user yet", user.name());
        return Failure::failed(DOING, why).hint(format!("it comes with the next exchange: {sync}"));
    }
    let users: BTreeSet<String> =
        served.iter().filter(|who| who.kind() == PrincipalKind::User).map(|who| format!("`{}`", who.name())).collect();
    let here = match users.len() {
        0 => "no user is".to_owned(),
        1 => format!("{} is", users.into_iter().collect::<String>()),
        _ => format!("{} are", users.into_iter().collect::<Vec<_>>().join(", ")),
    };
    Failure::failed(DOING, format!("`{}` is not at home here; {here}", user.name()))
        .hint("the fleet says where a user is at home: `nodes` under that user")
}

/// Whom a SOCKS port is for alone.
const fn of_one(place: &ListenerId) -> Option<&Principal> {
    match place {
        ListenerId::SocksOf(principal) => Some(principal),
        ListenerId::PeersTls
        | ListenerId::PeersQuic
        | ListenerId::Socks
        | ListenerId::Forward(_)
        | ListenerId::Service(_)
        | ListenerId::ServiceAt(..)
        | ListenerId::Resolver => None,
    }
}

/// By which manifest the node goes; nothing if there is none, or it cannot be read.
fn obeyed(scope: &Scope) -> Option<Manifest> {
    let shelf = Shelf { folder: scope.folder.join(FOLDER) };
    Some(shelf.get(shelf.pointed()?).ok()?.manifest)
}

fn no_way(tunnel: &TunnelView, what: &Name, manifest: Option<&Manifest>, program: Program) -> Failure {
    if let Some(manifest) = manifest.filter(|manifest| !manifest.access.targets.contains_key(what)) {
        if let Some(listener) = manifest.runs.services.get(what) {
            let why = format!("`{what}` is a service of this node, and no port leads to it by the tunnel");
            return Failure::failed(DOING, why).hint(format!("it listens here itself, at {}", listener.addr));
        }
        let known: Vec<_> = manifest.access.targets.keys().map(ToString::to_string).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let why = format!("nobody here may call a service `{what}`; what may be called: {known}");
        return Failure::failed(DOING, why).hint("an operator looks why: freehold access --matrix");
    }
    let failure = Failure::failed(DOING, format!("no local port leads to `{what}`"));
    let forward = "the fleet declares a forward for it";
    if tunnel.listens.contains_key(&ListenerId::Socks) {
        return failure.hint(format!("by SOCKS it can be reached: {}; or {forward}", program.command("port socks")));
    }
    failure.hint(forward)
}

#[cfg(test)]
mod tests {
    use manifest::stored::SCHEMA;

    use super::*;

    /// A tunnel that listens there; forwards lead to `wiki`.
    fn tunnel(listens: &[(&str, &str)]) -> TunnelView {
        let mut tunnel = TunnelView { state: State::Running, ..TunnelView::default() };
        for (place, at) in listens {
            let place = ListenerId::try_from((*place).to_owned()).unwrap();
            if let ListenerId::Forward(wished) = &place {
                let forward = manifest::stored::Forward { service: "wiki".parse().unwrap(), user: None };
                tunnel.forwards.insert(wished.clone(), forward);
            }
            tunnel.listens.insert(place, at.parse().unwrap());
        }
        tunnel
    }

    #[test]
    fn one_port_is_told_and_it_is_one_of_localhost_if_there_is_one() {
        let (forward, own) = (("forward/127.0.0.1:8000", "127.0.0.1:8001"), ("service/wiki", "127.72.65.209:8080"));
        let elsewhere = ("forward/127.0.0.2:8000", "127.0.0.2:8000");
        for (listens, told) in [
            (vec![forward, own], "8001"),
            (vec![elsewhere, forward], "8001"),
            (vec![own], "127.72.65.209:8080"),
            (vec![elsewhere, own], "127.0.0.2:8000"),
        ] {
            let found = find(&tunnel(&listens), &"wiki".parse().unwrap(), None);
            assert_eq!((found.len(), one(&found).as_str()), (listens.len(), told));
        }
        let found = find(&tunnel(&[("socks", "0.0.0.0:1080")]), &"socks".parse().unwrap(), None);
        assert_eq!(one(&found), "1080");
    }

    #[test]
    fn who_is_not_at_home_is_told_so_whatever_else_is_wrong() {
        let bob = "spiffe://harbor/user/bob".parse().unwrap();
        let told = |tunnel: &TunnelView| format!("{:?}", no_socks(tunnel, Some(&bob), None, Program::Node));
        let mut here = tunnel(&[
            ("socks", "127.0.0.1:1080"),
            ("socks/spiffe://harbor/node/beta", "127.0.0.1:1081"),
            ("socks/spiffe://harbor/user/ann", "127.0.0.1:1082"),
        ]);
        here.listens.remove(&ListenerId::Socks);
        here.failed.insert(ListenerId::Socks, "the port is taken".to_owned());
        assert!(told(&here).contains("`bob` is not at home here; `ann` is"), "{}", told(&here));
        here.listens.remove(&ListenerId::SocksOf("spiffe://harbor/user/ann".parse().unwrap()));
        assert!(told(&here).contains("`bob` is not at home here; no user is"), "{}", told(&here));
        assert!(told(&tunnel(&[])).contains("turns SOCKS off"));
        let mut manifest = Manifest::empty(SCHEMA);
        manifest.runs.users.insert("bob".parse().unwrap());
        let soon = format!("{:?}", no_socks(&here, Some(&bob), Some(&manifest), Program::Node));
        assert!(soon.contains("no SVID for that user yet"), "{soon}");
        here.failed.insert(ListenerId::SocksOf(bob.clone()), "his port is taken".to_owned());
        assert!(told(&here).contains("his port is taken"));
    }

    #[test]
    fn where_nothing_is_listened_at_it_is_said_why() {
        assert!(every(&TunnelView::default()).starts_with("nothing is listened at: nothing is published"));
        assert!(every(&tunnel(&[])).contains("the fleet turns SOCKS off"));
        let mut taken = tunnel(&[]);
        taken.failed.insert(ListenerId::Socks, "it is taken".to_owned());
        assert_eq!(every(&taken), "nothing is listened at: socks: it is taken");
        let there = tunnel(&[("forward/127.0.0.1:8000", "127.0.0.1:8001")]);
        assert_eq!(every(&there), "127.0.0.1:8001  forward/127.0.0.1:8000 (to `wiki`)");
    }

    #[test]
    fn what_nobody_here_may_call_is_not_said_to_be_had_by_socks() {
        let manifest = Manifest::empty(SCHEMA);
        let there = tunnel(&[("socks", "127.0.0.1:1080")]);
        let told = |manifest| format!("{:?}", no_way(&there, &"nosuch".parse().unwrap(), manifest, Program::Node));
        assert!(told(Some(&manifest)).contains("nobody here may call a service `nosuch`; what may be called: none"));
        assert!(told(None).contains("by SOCKS it can be reached"));
    }
}
