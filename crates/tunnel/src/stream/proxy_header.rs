//! The PROXY header of version 2 that tells a service who calls: the caller's address, its SPIFFE id, and its node.
//!
//! | part | what it holds |
//! |---|---|
//! | command | `PROXY`, always: what stands after `LOCAL` is to be thrown away, and the id would be, too |
//! | family | TCP over IPv4, or over IPv6 as soon as one end has such an address; unspecified if the address is unknown |
//! | value 0xE0 | the caller's SPIFFE id, as text |
//! | value 0xE1 | the name of the node that it is at home on, as text |
//!
//! The kinds 0xE0 to 0xEF are those that the protocol leaves to whoever uses it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use identity::principal::{NodeName, Principal};

pub(crate) const PRINCIPAL: u8 = 0xE0;
pub(crate) const NODE: u8 = 0xE1;

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
const PROXY: u8 = 0x21;
const UNKNOWN: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;

/// To be sent before anything else. `source` is where the peer was seen; nothing, if it came by a relay.
pub fn v2(source: Option<SocketAddr>, destination: SocketAddr, principal: &Principal, node: &NodeName) -> Vec<u8> {
    let (family, mut rest) = match source {
        Some(source) => addresses(source, destination),
        None => (UNKNOWN, Vec::new()),
    };
    put(&mut rest, PRINCIPAL, &principal.to_string());
    put(&mut rest, NODE, node.as_str());
    let mut header = SIGNATURE.to_vec();
    header.extend([PROXY, family]);
    header.extend(length(rest.len()));
    header.extend(rest);
    header
}

fn addresses(source: SocketAddr, destination: SocketAddr) -> (u8, Vec<u8>) {
    let mut bytes = Vec::with_capacity(36);
    let family = match (source.ip().to_canonical(), destination.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes.extend(from.octets());
            bytes.extend(to.octets());
            TCP4
        }
        (from, to) => {
            bytes.extend(wide(from).octets());
            bytes.extend(wide(to).octets());
            TCP6
        }
    };
    bytes.extend(source.port().to_be_bytes());
    bytes.extend(destination.port().to_be_bytes());
    (family, bytes)
}

const fn wide(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Names are short, whatever they are: an id has at most 146 bytes.
fn put(bytes: &mut Vec<u8>, kind: u8, text: &str) {
    bytes.push(kind);
    bytes.extend(length(text.len()));
    bytes.extend(text.as_bytes());
}

fn length(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(source: Option<&str>, destination: &str) -> Vec<u8> {
        let principal = "spiffe://harbor/user/alice".parse().unwrap();
        let source = source.map(|text| text.parse().unwrap());
        v2(source, destination.parse().unwrap(), &principal, &"laptop".parse().unwrap())
    }

    const TOLD: &[u8] = b"\xE0\x00\x1aspiffe://harbor/user/alice\xE1\x00\x06laptop";

    #[test]
    fn the_bytes_are_those_of_the_protocol() {
        let cases: [(Option<&str>, &str, u8, &[u8]); 5] = [
            (Some("192.0.2.7:40000"), "127.0.0.1:8080", TCP4, &[192, 0, 2, 7, 127, 0, 0, 1, 0x9c, 0x40, 0x1f, 0x90]),
            (Some("[::ffff:192.0.2.7]:1"), "127.0.0.1:2", TCP4, &[192, 0, 2, 7, 127, 0, 0, 1, 0, 1, 0, 2]),
            (
                Some("[2001:db8::1]:1"),
                "127.0.0.1:2",
                TCP6,
                &[
                    0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff,
                    127, 0, 0, 1, 0, 1, 0, 2,
                ],
            ),
            (
                Some("192.0.2.7:1"),
                "[::1]:2",
                TCP6,
                &[
                    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                    0, 1, 0, 1, 0, 2,
                ],
            ),
            (None, "127.0.0.1:8080", UNKNOWN, &[]),
        ];
        for (source, destination, family, addresses) in cases {
            let rest = [addresses, TOLD].concat();
            let count = u16::try_from(rest.len()).unwrap().to_be_bytes();
            let expected = [SIGNATURE.as_slice(), &[0x21, family], &count, &rest].concat();
            assert_eq!(header(source, destination), expected, "{source:?} to {destination}");
        }
    }

    #[test]
    fn a_reader_of_such_headers_finds_the_caller() {
        use wire::carry::proxied::{Read, Whose, parse};
        for source in ["192.0.2.7", "2001:db8::1"] {
            let caller: IpAddr = source.parse().unwrap();
            let bytes = header(Some(&SocketAddr::new(caller, 40_000).to_string()), "127.0.0.1:8080");
            let (first, rest) = bytes.split_at(16);
            assert_eq!(parse(first), Ok(Read::More(rest.len())));
            assert_eq!(parse(&bytes), Ok(Read::Whole(Whose::Client(caller))));
        }
    }
}
