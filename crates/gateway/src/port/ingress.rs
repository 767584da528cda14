//! Who calls: the socket's address, or what a proxy says that is named in the configuration (trusted proxies). A header
//! counts from nobody else.

use std::net::IpAddr;
use std::sync::Arc;

use ground::quota::{Quota, QuotaPermit, network};
use hyper::header::{HeaderMap, HeaderName};
use identity::time::Seconds;
use ipnet::IpNet;
use org::refusal::Refusal;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Machines that speak for others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// Their connections begin with a PROXY header.
    pub proxy_protocol: Vec<IpNet>,
    /// They say in `X-Forwarded-For` for whom they open a WebSocket.
    pub forwarded: Vec<IpNet>,
}

/// What every connection meets first.
#[derive(Debug)]
pub struct Ingress {
    pub proxies: Proxies,
    pub per_address: Arc<Quota<IpAddr>>,
}

/// More than an address's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

impl Proxies {
    pub fn speaks_proxy(&self, source: IpAddr) -> bool {
        among(&self.proxy_protocol, source)
    }

    /// For whom this address asks for a WebSocket: itself, unless it is named. Then the last address in the header that
    /// is not a named one's; whoever wrote the ones before it is not known.
    fn client_of(&self, source: IpAddr, headers: &HeaderMap) -> Result<IpAddr, &'static str> {
        if !among(&self.forwarded, source) {
            return Ok(source);
        }
        let mut client = None;
        for line in headers.get_all(FORWARDED_FOR).into_iter().rev() {
            let line = line.to_str().map_err(|_| UNREADABLE)?;
            for hop in line.rsplit(',') {
                let hop = address(hop.trim()).ok_or(UNREADABLE)?;
                client = Some(hop);
                if !among(&self.forwarded, hop) {
                    return Ok(hop);
                }
            }
        }
        // It may stand before its own machine.
        client.ok_or("the proxy in front does not say for whom it asks: it must set X-Forwarded-For")
    }
}

const UNREADABLE: &str = "what the proxy in front says in X-Forwarded-For is not a list of addresses";

/// An address, as some write it with its port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.parse().or_else(|_| text.parse().map(|socket: std::net::SocketAddr| socket.ip()));
    bare.ok().map(|ip: IpAddr| ip.to_canonical())
}

fn among(networks: &[IpNet], source: IpAddr) -> bool {
    let source = source.to_canonical();
    networks.iter().any(|network| network.contains(&source))
}

impl Ingress {
    /// A place for a stranger at this address. A named proxy needs none: those it speaks for do.
    pub fn enter(&self, source: IpAddr) -> Result<Option<QuotaPermit<IpAddr>>, TooMany> {
        if self.proxies.speaks_proxy(source) || among(&self.proxies.forwarded, source) {
            return Ok(None);
        }
        self.per_address.take(&network(source)).map(Some).ok_or(TooMany)
    }

    /// For whom a WebSocket is asked for, with a place of its own if the proxy had none.
    pub fn hand_on(
        &self,
        source: IpAddr,
        headers: &HeaderMap,
    ) -> Result<(IpAddr, Option<QuotaPermit<IpAddr>>), Refusal> {
        let client = self.proxies.client_of(source, headers);
        let client = client.map_err(|why| Refusal::Malformed { why: why.to_owned() })?;
        if client == source {
            return Ok((client, None));
        }
        match self.enter(client) {
            Ok(permit) => Ok((client, permit)),
            Err(TooMany) => Err(Refusal::TooManyAttempts { retry_after: Seconds::MINUTE }),
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;
    use crate::limit::limits::quota_per_address;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn proxies() -> Proxies {
        let networks = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Proxies { proxy_protocol: networks(&["192.0.2.8/32"]), forwarded: networks(&["10.0.0.0/8", "fd00::/8"]) }
    }

    fn client(source: &str, lines: &[&'static str]) -> Result<IpAddr, &'static str> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, HeaderValue::from_static(line));
        }
        proxies().client_of(ip(source), &headers)
    }

    #[test]
    fn a_header_counts_only_from_proxies_that_are_named() {
        for (source, lines, counts) in [
            ("203.0.113.5", &["198.51.100.1"][..], "203.0.113.5"),
            ("192.0.2.8", &["198.51.100.1"], "192.0.2.8"),
            ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("::ffff:10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["127.0.0.1, 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["127.0.0.1, 198.51.100.1, 10.9.9.9"], "198.51.100.1"),
            ("10.0.0.1", &["127.0.0.1", "198.51.100.1", "10.9.9.9"], "198.51.100.1"),
            ("10.0.0.1", &["nonsense, 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["198.51.100.1:4711"], "198.51.100.1"),
            ("fd00::1", &["[2001:db8::1]:4711"], "2001:db8::1"),
            ("10.0.0.1", &["10.0.0.7"], "10.0.0.7"),
        ] {
            assert_eq!(client(source, lines), Ok(ip(counts)), "{source} {lines:?}");
        }
    }

    #[test]
    fn a_named_proxy_that_does_not_say_for_whom_is_refused() {
        assert!(client("10.0.0.1", &[]).unwrap_err().contains("must set X-Forwarded-For"));
        for bad in ["", "unknown", "198.51.100.1, unknown", "198.51.100.1,", "10.0.0.7, 1.2.3"] {
            assert_eq!(client("10.0.0.1", &[bad]), Err(UNREADABLE), "{bad}");
        }
    }

    #[test]
    fn those_behind_a_proxy_have_shares_of_their_own_and_it_needs_none() {
        let ingress = Ingress { proxies: proxies(), per_address: quota_per_address(8, 2) };
        for proxy in ["192.0.2.8", "10.0.0.1"] {
            assert!((0..100).all(|_| ingress.enter(ip(proxy)).is_ok_and(|permit| permit.is_none())), "{proxy}");
        }
        let unnamed: Vec<_> = (0..2).map(|_| ingress.enter(ip("192.0.2.9")).unwrap().unwrap()).collect();
        assert!(ingress.enter(ip("192.0.2.9")).is_err());
        let headers = HeaderMap::from_iter([(FORWARDED_FOR, HeaderValue::from_static("192.0.2.9"))]);
        assert!(matches!(ingress.hand_on(ip("10.0.0.1"), &headers), Err(Refusal::TooManyAttempts { .. })));
        drop(unnamed);
        assert!(ingress.hand_on(ip("10.0.0.1"), &headers).is_ok_and(|(_, permit)| permit.is_some()));
    }
}
