//! Where to listen: addresses are wishes, and each wish has an order of tries.
//!
//! | | what is tried | why |
//! |---|---|---|
//! | 1 | where it was bound before | whoever was told goes there |
//! | 2 | the wish itself | |
//! | 3 | the wish, and so many hundreds above as the org's id says | a second org on the machine is found at one place |
//! | 4 | any free port | better than none; it is recorded and told |
//!
//! What was bound before counts only if this wish could have led there, so that a changed wish is obeyed. All tries have
//! the wish's own address: a wish for loopback never becomes another. A wish for more than loopback is tried as it is, or
//! not at all: nobody has to find out that a door to the outside is somewhere else.
//!
//! Some wishes are exact: the address that a service's name resolves to, the resolver, and SOCKS with passwords. Programs go there
//! whoever listens, and another user of the machine may: so it is that very port, or none, and that is told. Those that follow an
//! exact wish were not declared: each takes the first port that is free when it is bound for the first time, and that one, or
//! none, from then on.

use std::net::{Ipv4Addr, SocketAddr};

use identity::id::OrgId;
use identity::principal::{Host, HostPort};

/// So many hundreds there are to be told apart.
const STEPS: u16 = 99;
const STEP: u16 = 100;
/// How many listeners may follow one wish, beside it.
pub(crate) const FOLLOWERS: u16 = STEP - 1;
/// Where systems take free ports from, at the lowest.
const FREE: u16 = 32_768;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenWish {
    base: SocketAddr,
    /// Which of those that follow the base it is; 0: the base itself.
    follows: u16,
    exact: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadWish {
    #[error("`{0}` is a name: to listen, an address is needed, as 127.0.0.1:1080")]
    Name(HostPort),
    #[error("{0} is not an address of loopback, and this is for programs of this machine alone")]
    NotLoopback(SocketAddr),
    #[error("there is no port for the {0}th that would follow")]
    TooMany(u16),
}

impl ListenWish {
    /// What the fleet says, or what is so by default.
    pub(crate) fn of(wished: &HostPort) -> Result<Self, BadWish> {
        let ip = match &wished.host {
            Host::Ip(ip) => *ip,
            Host::Dns(name) if name == "localhost" => Ipv4Addr::LOCALHOST.into(),
            Host::Dns(_) => return Err(BadWish::Name(wished.clone())),
        };
        Ok(Self::at(SocketAddr::new(ip, wished.port)))
    }

    pub(crate) const fn at(base: SocketAddr) -> Self {
        Self { base, follows: 0, exact: false }
    }

    /// There, or nowhere.
    #[must_use]
    pub(crate) const fn exactly(self) -> Self {
        Self { exact: true, ..self }
    }

    /// The nth that follows, from 1 on. It was not declared, so it is for loopback, whatever the base is for.
    pub(crate) fn follower(self, nth: u16) -> Result<Self, BadWish> {
        let loopback = if self.base.ip().is_loopback() { self.base.ip() } else { Ipv4Addr::LOCALHOST.into() };
        match nth {
            1..=FOLLOWERS => Ok(Self { base: SocketAddr::new(loopback, self.base.port()), follows: nth, ..self }),
            _ => Err(BadWish::TooMany(nth)),
        }
    }

    pub(crate) fn on_loopback(self) -> Result<Self, BadWish> {
        if self.base.ip().is_loopback() { Ok(self) } else { Err(BadWish::NotLoopback(self.base)) }
    }

    /// Would a listener for that wish serve for this one? Which of the followers it is does not count.
    pub(crate) fn is_served_by(self, other: Self) -> bool {
        self.base == other.base && self.exact == other.exact && (self.follows == 0) == (other.follows == 0)
    }

    /// Where to listen, one after the other. Port 0 is any that is free.
    pub fn tries(self, before: Option<SocketAddr>, org: OrgId) -> Vec<SocketAddr> {
        let ip = self.base.ip();
        if !ip.is_loopback() {
            return vec![self.base];
        }
        // Nobody knows beforehand which port a wish for any leads to.
        if self.exact && self.base.port() != 0 {
            return self.exact_tries(before);
        }
        let offset = offset(org);
        let own = self.base.port().checked_add(self.follows);
        // A wish for any port at all has no neighborhood.
        let (own, moved) = match (self.base.port(), own) {
            (0, _) => (None, None),
            (_, own) => (own, own.and_then(|port| port.checked_add(offset))),
        };
        let before = before.filter(|before| before.ip() == ip && self.could_lead_to(before.port(), offset));
        let mut tries = Vec::with_capacity(4);
        for port in [before.map(|before| before.port()), own, moved, Some(0)].into_iter().flatten() {
            if !tries.contains(&port) {
                tries.push(port);
            }
        }
        tries.into_iter().map(|port| SocketAddr::new(ip, port)).collect()
    }

    fn exact_tries(self, before: Option<SocketAddr>) -> Vec<SocketAddr> {
        let (ip, port) = (self.base.ip(), self.base.port());
        if self.follows == 0 {
            return vec![self.base];
        }
        let follows = |port: u16| port.checked_sub(self.base.port()).is_some_and(|n| (1..=FOLLOWERS).contains(&n));
        match before.filter(|before| before.ip() == ip && follows(before.port())) {
            Some(before) => vec![before],
            None => {
                (self.follows..=FOLLOWERS).filter_map(|nth| Some(SocketAddr::new(ip, port.checked_add(nth)?))).collect()
            }
        }
    }

    fn could_lead_to(self, port: u16, offset: u16) -> bool {
        let above = port.checked_sub(self.base.port());
        let near = |above: u16| if self.follows == 0 { above == 0 } else { (1..=FOLLOWERS).contains(&above) };
        port >= FREE || above.is_some_and(|above| near(above) || above.checked_sub(offset).is_some_and(near))
    }
}

/// How far above its wish an org listens if the wish is taken: 100 to 9,900.
pub(crate) fn offset(org: OrgId) -> u16 {
    let [high, low, ..] = org.0;
    STEP * (1 + u16::from_be_bytes([high, low]) % STEPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: OrgId = OrgId([0; 32]);
    const B: OrgId = OrgId([1; 32]);

    fn wish(text: &str) -> ListenWish {
        ListenWish::of(&text.parse().unwrap()).unwrap()
    }

    #[test]
    fn the_tries_are_in_order() {
        let socks = wish("127.0.0.1:1080");
        let second = socks.follower(2).unwrap();
        let cases: [(ListenWish, Option<&str>, OrgId, &[u16]); 16] = [
            (socks, None, A, &[1080, 1180, 0]),
            (socks, None, B, &[1080, 7080, 0]),
            (socks, Some("127.0.0.1:1080"), A, &[1080, 1180, 0]),
            (socks, Some("127.0.0.1:1180"), A, &[1180, 1080, 0]),
            (socks, Some("127.0.0.1:41000"), A, &[41000, 1080, 1180, 0]),
            // Another wish led there: to another port, for another org, on another address.
            (socks, Some("127.0.0.1:1090"), A, &[1080, 1180, 0]),
            (socks, Some("127.0.0.1:1180"), B, &[1080, 7080, 0]),
            (socks, Some("0.0.0.0:1080"), A, &[1080, 1180, 0]),
            (socks, Some("127.0.0.2:41000"), A, &[1080, 1180, 0]),
            (second, None, A, &[1082, 1182, 0]),
            (second, Some("127.0.0.1:1081"), A, &[1081, 1082, 1182, 0]),
            (second, Some("127.0.0.1:1080"), A, &[1082, 1182, 0]),
            (second, Some("127.0.0.1:1184"), A, &[1184, 1082, 1182, 0]),
            (wish("[::1]:65500"), None, A, &[65500, 0]),
            (wish("127.0.0.1:0"), None, A, &[0]),
            (wish("localhost:0"), Some("127.0.0.1:41000"), A, &[41000, 0]),
        ];
        for (wish, before, org, ports) in cases {
            let tries = wish.tries(before.map(|text| text.parse().unwrap()), org);
            assert_eq!(tries.iter().map(SocketAddr::port).collect::<Vec<_>>(), ports, "{wish:?} before {before:?}");
            assert!(tries.iter().all(|at| at.ip() == wish.base.ip()), "{wish:?}");
        }
    }

    #[test]
    fn what_is_open_to_others_is_where_the_fleet_says_or_nowhere() {
        let wide = wish("0.0.0.0:1080");
        assert_eq!(wide.tries(Some("0.0.0.0:41000".parse().unwrap()), A), ["0.0.0.0:1080".parse().unwrap()]);
        let follower = wide.follower(1).unwrap();
        assert_eq!(follower.tries(None, A).first().copied(), Some("127.0.0.1:1081".parse().unwrap()));
        assert!(follower.tries(Some("0.0.0.0:1081".parse().unwrap()), A).iter().all(|at| at.ip().is_loopback()));
        assert_eq!(wide.on_loopback(), Err(BadWish::NotLoopback("0.0.0.0:1080".parse().unwrap())));
    }

    #[test]
    fn what_must_not_move_does_not() {
        let strict = wish("127.0.0.1:1080").exactly();
        for before in [None, Some("127.0.0.1:1180"), Some("127.0.0.1:41000")] {
            let before = before.map(|text| text.parse().unwrap());
            assert_eq!(strict.tries(before, A), ["127.0.0.1:1080".parse().unwrap()]);
        }
        let ports = |before: Option<&str>| -> Vec<u16> {
            let tries = strict.follower(97).unwrap().tries(before.map(|text| text.parse().unwrap()), A);
            tries.iter().map(SocketAddr::port).collect()
        };
        assert_eq!(ports(None), [1177, 1178, 1179], "nobody was told of one yet");
        assert_eq!(ports(Some("127.0.0.1:1081")), [1081], "somebody was");
        // Where it was before it had to be exact.
        assert_eq!(ports(Some("127.0.0.1:41000")), [1177, 1178, 1179]);
        assert_eq!(wish("127.0.0.1:0").exactly().tries(None, A), ["127.0.0.1:0".parse().unwrap()]);
        assert!(!strict.is_served_by(wish("127.0.0.1:1080")), "that one may be elsewhere");
    }

    #[test]
    fn what_cannot_be_listened_at_is_said() {
        let name: HostPort = "proxy.example:1080".parse().unwrap();
        assert_eq!(ListenWish::of(&name), Err(BadWish::Name(name)));
        let socks = wish("127.0.0.1:1080");
        assert_eq!(socks.follower(0), Err(BadWish::TooMany(0)));
        assert_eq!(socks.follower(FOLLOWERS + 1), Err(BadWish::TooMany(100)));
    }

    #[test]
    fn offsets_are_whole_hundreds_and_spread() {
        let all: std::collections::BTreeSet<u16> = (0..=u8::MAX).map(|n| offset(OrgId([n; 32]))).collect();
        assert!(all.iter().all(|offset| offset % 100 == 0 && (100..=9_900).contains(offset)), "{all:?}");
        assert!(all.len() > 50, "{}", all.len());
    }

    #[test]
    fn a_listener_stays_when_only_its_place_in_the_row_changes() {
        let socks = wish("127.0.0.1:1080");
        assert!(socks.follower(1).unwrap().is_served_by(socks.follower(5).unwrap()));
        assert!(!socks.is_served_by(socks.follower(1).unwrap()));
        assert!(!socks.is_served_by(wish("127.0.0.1:1081")));
    }
}
