//! Where machines could reach the gateway: what this machine is called and has is tried, and what leads here is proposed.

mod machine;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc;
use std::time::Duration;

use identity::principal::{Address, Host, Way};
use serde::Serialize;

const DEFAULT_PORT: u16 = 7443;
/// Nobody waits longer for a name.
const RESOLVES_IN: Duration = Duration::from_secs(5);
const CONNECTS_IN: Duration = Duration::from_secs(2);
/// Each that leads nowhere costs whoever joins a moment.
const MOST: usize = 8;

/// From where something is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Nowhere,
    /// From this machine alone.
    Here,
    /// From its network.
    Near,
    Everywhere,
}

/// An address, and what came of trying it.
#[derive(Debug, Clone, Serialize)]
pub struct Tried {
    #[serde(serialize_with = "in_words")]
    pub address: Address,
    pub chosen: bool,
    pub found: String,
    #[serde(skip)]
    reach: Reach,
    /// Another program has the port.
    #[serde(skip)]
    taken: bool,
}

fn in_words<S: serde::Serializer>(address: &Address, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(address)
}

/// Every address that this machine could have, the chosen ones first.
pub fn propose(host: &str) -> Vec<Tried> {
    let own = machine::addresses();
    let names = machine::names(host).into_iter().filter_map(|name| name.parse().ok());
    let hosts: Vec<Host> = names.chain(own.iter().copied().map(Host::Ip)).collect();
    let direct = hosts.into_iter().map(|host| Address::direct(host, DEFAULT_PORT));
    choose(direct.map(|address| attempt(&address, &own)).collect())
}

/// What a person named is taken as it is.
pub fn look_at(named: &[Address]) -> Vec<Tried> {
    let own = machine::addresses();
    let tried = named.iter().map(|address| attempt(address, &own));
    tried.map(|tried| Tried { chosen: true, ..tried }).collect()
}

/// All by which the most machines find it; if nothing leads here, `localhost`.
fn choose(mut tried: Vec<Tried>) -> Vec<Tried> {
    let best = tried.iter().map(|tried| tried.reach).max().unwrap_or(Reach::Nowhere);
    let fits = |tried: &&mut Tried| tried.reach == best && best >= Reach::Near;
    for tried in tried.iter_mut().filter(fits).take(MOST) {
        tried.chosen = true;
    }
    if best < Reach::Near {
        let localhost = Address::direct(Host::Dns("localhost".to_owned()), DEFAULT_PORT);
        tried.retain(|tried| tried.address != localhost);
        let found = "nothing else leads to this machine".to_owned();
        tried.push(Tried { address: localhost, chosen: true, found, reach: Reach::Here, taken: false });
    }
    tried.sort_by_key(|tried| !tried.chosen);
    tried
}

/// What is wrong with all that were chosen, in words.
pub fn warnings(tried: &[Tried]) -> Vec<String> {
    let chosen = || tried.iter().filter(|tried| tried.chosen);
    let mut lines: Vec<String> = chosen()
        .filter(|tried| tried.reach == Reach::Nowhere || tried.taken)
        .map(|tried| format!("{}: {}", tried.address, tried.found))
        .collect();
    match chosen().map(|tried| tried.reach).max() {
        Some(Reach::Everywhere) | None => {}
        Some(Reach::Near) => lines.push("only machines in the same network reach this gateway".to_owned()),
        Some(Reach::Here | Reach::Nowhere) => lines.push("no other machine reaches this gateway".to_owned()),
    }
    lines
}

fn attempt(address: &Address, own: &[IpAddr]) -> Tried {
    let tried = |reach, found| Tried { address: address.clone(), chosen: false, found, reach, taken: false };
    // The proxy looks the name up, and is another machine's.
    if let Way::Socks5 { proxy } = &address.way {
        return tried(Reach::Everywhere, format!("by the proxy at {proxy}; not tried"));
    }
    let (found, by_name) = match &address.host {
        Host::Ip(ip) => (vec![*ip], false),
        Host::Dns(name) => match resolve(name) {
            Ok(found) => (found, true),
            Err(why) => return tried(Reach::Nowhere, format!("does not resolve here: {why}")),
        },
    };
    let Some(best) = found.into_iter().max_by_key(|ip| reach_of(*ip)) else {
        return tried(Reach::Nowhere, "resolves to nothing".to_owned());
    };
    let mut words = match (by_name, reach_of(best)) {
        (true, Reach::Here) => format!("resolves to {best} here: whoever looks it up elsewhere does not come here"),
        (true, _) => format!("resolves to {best}"),
        (false, Reach::Here) => "this machine alone".to_owned(),
        (false, Reach::Near) => "a private address".to_owned(),
        (false, _) => "a public address".to_owned(),
    };
    let (mut reach, mut taken) = (reach_of(best), false);
    if own.contains(&best) && address.is_direct() {
        match listens(SocketAddr::new(best, address.port)) {
            Ok(()) => words.push_str("; it is this machine's, and answers"),
            Err(why) if why.kind() == io::ErrorKind::AddrInUse => {
                taken = true;
                words = format!("{words}; port {} is taken there by another program", address.port);
            }
            Err(why) => {
                reach = Reach::Nowhere;
                words = format!("{words}; nothing can listen there: {why}");
            }
        }
    } else if reach > Reach::Here {
        words.push_str("; not this machine's own: whatever has it must pass connections on; not tried");
    }
    Tried { taken, ..tried(reach, words) }
}

fn reach_of(ip: IpAddr) -> Reach {
    let near = match ip {
        IpAddr::V4(ip) => {
            let shared = matches!(ip.octets(), [100, second, ..] if (64..128).contains(&second));
            ip.is_private() || ip.is_link_local() || shared
        }
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    };
    match ip {
        ip if ip.is_unspecified() => Reach::Nowhere,
        ip if ip.is_loopback() => Reach::Here,
        _ if near => Reach::Near,
        _ => Reach::Everywhere,
    }
}

/// Nobody is kept by a resolver that does not answer.
fn resolve(name: &str) -> Result<Vec<IpAddr>, String> {
    let (tell, told) = mpsc::channel();
    let asked = name.to_owned();
    std::thread::spawn(move || {
        let found = (asked.as_str(), 0).to_socket_addrs();
        let _ =
            tell.send(found.map(|found| found.map(|at| at.ip()).collect::<Vec<_>>()).map_err(|why| why.to_string()));
    });
    told.recv_timeout(RESOLVES_IN).unwrap_or_else(|_| Err(format!("no answer within {} s", RESOLVES_IN.as_secs())))
}

/// Can something listen there, and be reached?
fn listens(at: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(at)?;
    TcpStream::connect_timeout(&listener.local_addr()?, CONNECTS_IN).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(host: &str, reach: Reach) -> Tried {
        let address = Address::direct(host.parse().unwrap(), DEFAULT_PORT);
        Tried { address, chosen: false, found: String::new(), reach, taken: false }
    }

    fn chosen(tried: &[Tried]) -> Vec<String> {
        tried.iter().filter(|tried| tried.chosen).map(|tried| tried.address.host.to_string()).collect()
    }

    #[test]
    fn what_is_reached_from_everywhere_is_proposed_and_else_what_is_near() {
        let private = || tried("192.168.1.5", Reach::Near);
        let all = choose(vec![tried("quay", Reach::Nowhere), private(), tried("gw.example", Reach::Everywhere)]);
        assert_eq!(chosen(&all), ["gw.example"]);
        assert!(warnings(&all).is_empty());
        let near = choose(vec![tried("quay", Reach::Here), private()]);
        assert_eq!(chosen(&near), ["192.168.1.5"]);
        assert!(warnings(&near)[0].contains("same network"));
    }

    #[test]
    fn where_nothing_leads_here_it_is_localhost_and_that_is_told() {
        let all = choose(vec![tried("quay", Reach::Nowhere), tried("127.0.1.1", Reach::Here)]);
        assert_eq!(chosen(&all), ["localhost"]);
        assert!(warnings(&all)[0].contains("no other machine"));
    }

    #[test]
    fn addresses_are_told_apart_by_who_reaches_them() {
        let of = |text: &str| reach_of(text.parse().unwrap());
        assert_eq!(["127.0.1.1", "::1"].map(of), [Reach::Here; 2]);
        assert_eq!(["10.0.0.1", "172.16.0.1", "100.64.0.1", "fd00::2", "169.254.0.1"].map(of), [Reach::Near; 5]);
        assert_eq!(["203.0.113.7", "2001:db8::1", "100.128.0.1"].map(of), [Reach::Everywhere; 3]);
        assert_eq!(of("0.0.0.0"), Reach::Nowhere);
    }

    #[test]
    fn a_name_that_nobody_has_is_told() {
        let tried = look_at(&["no-such-host.invalid:7443".parse().unwrap()]);
        assert!(tried[0].chosen, "what a person named stays");
        assert!(warnings(&tried)[0].contains("does not resolve"), "{tried:?}");
    }
}
