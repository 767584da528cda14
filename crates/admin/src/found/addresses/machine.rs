//! What this machine is called, and the addresses that it has (its interfaces), as the system tells.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// Interfaces that lead to nothing but what runs on this machine.
const INSIDE: [&str; 9] = ["lo", "docker", "br-", "veth", "virbr", "cni", "lxc", "lxd", "podman"];

/// Not link-local, not short-lived, and of no interface that leads to containers alone.
pub(super) fn addresses() -> Vec<IpAddr> {
    let read = |path: &str| std::fs::read_to_string(Path::new("/proc/net").join(path)).unwrap_or_default();
    let four = in_fib(&read("fib_trie"), &read("route"));
    four.into_iter().map(IpAddr::from).chain(in_inet6(&read("if_inet6")).into_iter().map(IpAddr::from)).collect()
}

/// What it may be called by others: in full first, then its bare name.
pub(super) fn names(host: &str) -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    full_names(host, &read("/etc/hosts"), &read("/etc/resolv.conf"))
}

fn full_names(host: &str, hosts: &str, resolver: &str) -> Vec<String> {
    let mut all = Vec::new();
    if !host.contains('.') {
        let words = hosts.lines().flat_map(|line| uncommented(line).split_whitespace().skip(1));
        all.extend(
            words.filter(|name| name.split_once('.').is_some_and(|(first, _)| first == host)).map(str::to_owned),
        );
        let domains = resolver.lines().filter_map(|line| {
            let mut words = uncommented(line).split_whitespace();
            matches!(words.next()?, "search" | "domain").then(|| words.map(str::to_owned).collect::<Vec<_>>())
        });
        all.extend(domains.flatten().filter(|domain| domain != ".").map(|domain| format!("{host}.{domain}")));
    }
    all.push(host.to_owned());
    let mut seen = Vec::new();
    all.retain(|name| {
        let fresh = !seen.contains(name);
        seen.push(name.clone());
        fresh
    });
    all
}

fn uncommented(line: &str) -> &str {
    line.split('#').next().unwrap_or_default()
}

/// The machine's own addresses in the routing table, without those on which only containers are.
fn in_fib(fib: &str, routes: &str) -> Vec<Ipv4Addr> {
    let inside: Vec<(u32, u32)> = routes.lines().skip(1).filter_map(inside_route).collect();
    let (mut found, mut last) = (Vec::new(), None);
    for line in fib.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line.starts_with("/32 host LOCAL")
            && let Some(address) = last
        {
            let bits = u32::from(address);
            let is_inside = inside.iter().any(|(net, mask)| bits & mask == *net);
            let useless = address.is_loopback() || address.is_link_local() || address.is_unspecified();
            if !useless && !is_inside && !found.contains(&address) {
                found.push(address);
            }
        }
    }
    found
}

/// The network, and its mask, of an interface that leads to containers alone. The kernel writes both backwards.
fn inside_route(line: &str) -> Option<(u32, u32)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, net, mask) = (words.first()?, words.get(1)?, words.get(7)?);
    let read = |hex: &str| u32::from_str_radix(hex, 16).ok().map(u32::swap_bytes);
    let (net, mask) = (read(net)?, read(mask)?);
    (is_inside(name) && mask != 0).then_some((net, mask))
}

fn is_inside(interface: &str) -> bool {
    INSIDE.iter().any(|inside| interface.starts_with(inside))
}

/// Temporary, tentative, failed, or about to go.
const PASSING: u32 = 0x01 | 0x08 | 0x20 | 0x40;

fn in_inet6(text: &str) -> Vec<Ipv6Addr> {
    let read = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let address = Ipv6Addr::from(u128::from_str_radix(words.first()?, 16).ok()?);
        let flags = u32::from_str_radix(words.get(4)?, 16).ok()?;
        let useless = address.is_loopback() || address.is_unicast_link_local() || flags & PASSING != 0;
        (!useless && !is_inside(words.get(5)?)).then_some(address)
    };
    text.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIB: &str = "Main:
  +-- 0.0.0.0/0 3 0 5
           |-- 127.0.0.1
              /32 host LOCAL
        +-- 172.17.0.0/16 2 0 2
           |-- 172.17.0.1
              /32 host LOCAL
           |-- 172.17.255.255
              /32 link BROADCAST
           |-- 203.0.113.7
              /32 host LOCAL
           |-- 169.254.1.1
              /32 host LOCAL
Local:
           |-- 203.0.113.7
              /32 host LOCAL";

    #[test]
    fn addresses_of_containers_and_of_the_machine_alone_are_left_out() {
        let routes = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
                      eth0\t00000000\t010071CB\t0003\t0\t0\t0\t00000000\n\
                      docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF";
        assert_eq!(in_fib(FIB, routes), [Ipv4Addr::new(203, 0, 113, 7)]);
        assert_eq!(in_fib(FIB, "").len(), 2);
        let six = "fd000000000000000000000000000002 04 40 00 82     eth0
fd000000000000000000000000000003 04 40 00 01     eth0
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
fd000000000000000000000000000004 05 40 00 80  docker0
00000000000000000000000000000001 01 80 10 80       lo";
        assert_eq!(in_inet6(six), ["fd00::2".parse::<Ipv6Addr>().unwrap()]);
    }

    #[test]
    fn a_bare_name_is_sought_in_full_too() {
        let hosts = "127.0.0.1 localhost\n192.0.2.7 quay.port.example quay # ours\n192.0.2.8 quayside.example";
        let found = full_names("quay", hosts, "search lan.example .\nnameserver 192.0.2.1");
        assert_eq!(found, ["quay.port.example", "quay.lan.example", "quay"]);
        assert_eq!(full_names("quay.example", hosts, "search lan"), ["quay.example"]);
    }
}
