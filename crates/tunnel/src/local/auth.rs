//! Authentication of programs: for whom each speaks. Decides only.
//!
//! | `socks.password` | the program shows | it speaks for |
//! |---|---|---|
//! | no | nothing, or no user | the listener's own principal; else the one user at home here, or the node if there are none or several |
//! | no | a user | that one: `NAME` is a user at home here, `service/NAME` a service, `node` the node. A password that is on record must be right |
//! | yes | nothing | nobody |
//! | yes | a user and a password | that one, if a password is on record for it and is right |
//!
//! At the listener of one principal, a program speaks for that one or for nobody. With passwords, an address of a service
//! speaks for the node: whoever is at home here is not to be had without one.

use std::collections::{BTreeMap, BTreeSet};

use aws_lc_rs::constant_time;
use identity::id::{Digest, OrgId};
use identity::principal::{HostPort, Name, NodeName, OrgName, Principal, PrincipalKind};
use manifest::stored::{Forward, Socks};

use crate::access::targets::Targets;
use crate::control::order::TunnelConfig;
use crate::local::names::addresses::LoopbackAddresses;
use crate::local::socks_words::{Greeting, Login, SocksMethod};

/// Swapped whole by each order.
#[derive(Debug)]
pub struct ProgramAuth {
    pub org: OrgName,
    node: Principal,
    home: BTreeSet<Principal>,
    password: bool,
    passwords: BTreeMap<Name, Digest>,
    forwards: BTreeMap<HostPort, Forward>,
    pub addresses: LoopbackAddresses,
}

/// Which listener a program came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocksListener<'a> {
    Anyone,
    Only(&'a Principal),
}

/// Why it speaks for nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAuthenticated {
    #[error("it shows no password, and the fleet asks for one")]
    NoPassword,
    #[error("the user or the password is wrong")]
    Wrong,
    #[error("this listener is for another principal")]
    OtherDoor,
}

impl NotAuthenticated {
    /// A word for counters.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::NoPassword => "socks_no_password",
            Self::Wrong => "socks_wrong_password",
            Self::OtherDoor => "socks_other_door",
        }
    }
}

/// Where this is.
#[derive(Debug, Clone, Copy)]
pub struct ThisNode<'a> {
    pub id: OrgId,
    pub org: &'a OrgName,
    pub node: &'a NodeName,
}

impl ProgramAuth {
    pub fn new(here: ThisNode<'_>, running: &TunnelConfig, home: Vec<Principal>, targets: &Targets) -> Self {
        let resolves = running.policy.resolver.is_some();
        Self {
            org: here.org.clone(),
            node: Principal::node(here.org, here.node),
            home: home.into_iter().collect(),
            password: matches!(running.policy.socks, Socks::At { password: true, .. }),
            passwords: running.passwords.clone(),
            forwards: running.policy.forward.clone(),
            addresses: if resolves {
                LoopbackAddresses::new(here.id, &targets.services)
            } else {
                LoopbackAddresses::default()
            },
        }
    }

    pub(crate) const fn home(&self) -> &BTreeSet<Principal> {
        &self.home
    }

    /// The one user at home here, or the node.
    fn anyone(&self) -> &Principal {
        let mut users = self.home.iter().filter(|principal| principal.kind() == PrincipalKind::User);
        match (users.next(), users.next()) {
            (Some(one), None) => one,
            (None, _) | (Some(_), Some(_)) => &self.node,
        }
    }

    /// For whom whoever connects to a service's address speaks.
    pub(crate) fn by_address(&self) -> &Principal {
        if self.password { &self.node } else { self.anyone() }
    }

    /// For whom a local port asks, and for what.
    pub(crate) fn by_forward(&self, wished: &HostPort) -> Option<(Principal, &Name)> {
        let forward = self.forwards.get(wished)?;
        let user = forward.user.as_ref();
        let who = user.map_or_else(|| self.node.clone(), |user| Principal::user(&self.org, user));
        Some((who, &forward.service))
    }

    /// A program that knows how to show a user has one to show.
    pub(crate) const fn method(&self, greeting: Greeting) -> SocksMethod {
        match (greeting, self.password) {
            (Greeting { password: true, .. }, _) => SocksMethod::Password,
            (Greeting { nothing: true, .. }, false) => SocksMethod::Nothing,
            (Greeting { .. }, _) => SocksMethod::Unfit,
        }
    }

    pub(crate) fn without_login(&self, listener: SocksListener<'_>) -> Result<Principal, NotAuthenticated> {
        match listener {
            _ if self.password => Err(NotAuthenticated::NoPassword),
            SocksListener::Anyone => Ok(self.anyone().clone()),
            SocksListener::Only(principal) => Ok(principal.clone()),
        }
    }

    pub(crate) fn with_login(&self, listener: SocksListener<'_>, login: &Login) -> Result<Principal, NotAuthenticated> {
        if login.user.is_empty() {
            return self.without_login(listener);
        }
        let asked = self.principal(&login.user);
        // Whether the user or the password was wrong is not to be told apart, by the answer or by its time.
        let on_record = asked.as_ref().and_then(|principal| self.on_record(principal));
        let given = Digest::of(&login.password);
        let same = constant_time::verify_slices_are_equal(&on_record.unwrap_or(Digest([0; 32])).0, &given.0).is_ok();
        let good = match on_record {
            Some(_) => same,
            None => !self.password,
        };
        let asked = asked.filter(|principal| good && self.home.contains(principal)).ok_or(NotAuthenticated::Wrong)?;
        match listener {
            SocksListener::Only(principal) if *principal != asked => Err(NotAuthenticated::OtherDoor),
            SocksListener::Only(_) | SocksListener::Anyone => Ok(asked),
        }
    }

    fn principal(&self, user: &str) -> Option<Principal> {
        match user.split_once('/') {
            None if user == "node" => Some(self.node.clone()),
            None => Some(Principal::user(&self.org, &user.parse().ok()?)),
            Some(("service", name)) => Some(Principal::service(&self.org, &name.parse().ok()?)),
            Some(_) => None,
        }
    }

    /// Only users have passwords: a service that has a user's name has not its password.
    fn on_record(&self, principal: &Principal) -> Option<Digest> {
        let name: Name = principal.name().parse().ok().filter(|_| principal.kind() == PrincipalKind::User)?;
        self.passwords.get(&name).copied()
    }
}

#[cfg(test)]
mod tests {
    use manifest::stored::TunnelPolicy;
    use zeroize::Zeroizing;

    use super::*;

    fn auth(password: bool, home: &[&str]) -> ProgramAuth {
        let (org, node) = ("harbor".parse().unwrap(), "laptop".parse().unwrap());
        let addr: HostPort = "127.0.0.1:1080".parse().unwrap();
        let policy = TunnelPolicy { socks: Socks::At { addr, password }, ..TunnelPolicy::default() };
        let passwords = BTreeMap::from([("alice".parse().unwrap(), Digest::of(b"sea"))]);
        let (services, ports) = (BTreeMap::new(), BTreeMap::new());
        let running = TunnelConfig { address: None, relay: false, policy, services, ports, passwords };
        let home = home.iter().map(|name| of(name)).collect();
        let here = ThisNode { id: OrgId([1; 32]), org: &org, node: &node };
        ProgramAuth::new(here, &running, home, &Targets::default())
    }

    fn of(name: &str) -> Principal {
        format!("spiffe://harbor/{name}").parse().unwrap()
    }

    const SHARED: [&str; 4] = ["node/laptop", "service/alice", "user/alice", "user/bob"];

    fn login(user: &str, password: &str) -> Login {
        Login { user: user.to_owned(), password: Zeroizing::new(password.as_bytes().to_vec()) }
    }

    #[test]
    fn a_program_that_shows_nothing_speaks_for_the_one_user_or_the_node() {
        for (home, expected) in [
            (vec!["node/laptop", "user/alice"], "user/alice"),
            (vec!["node/laptop", "service/wiki"], "node/laptop"),
            (SHARED.to_vec(), "node/laptop"),
        ] {
            let auth = auth(false, &home);
            assert_eq!(auth.without_login(SocksListener::Anyone), Ok(of(expected)), "{home:?}");
            assert_eq!(auth.with_login(SocksListener::Anyone, &login("", "")), Ok(of(expected)), "{home:?}");
            assert_eq!(*auth.by_address(), of(expected));
        }
        let alice = of("user/alice");
        assert_eq!(auth(false, &SHARED).without_login(SocksListener::Only(&alice)), Ok(alice.clone()));
        let strict = auth(true, &["node/laptop", "user/alice"]);
        assert_eq!(strict.without_login(SocksListener::Anyone), Err(NotAuthenticated::NoPassword));
        assert_eq!(strict.without_login(SocksListener::Only(&alice)), Err(NotAuthenticated::NoPassword));
        assert_eq!(strict.with_login(SocksListener::Anyone, &login("", "")), Err(NotAuthenticated::NoPassword));
        assert_eq!(*strict.by_address(), of("node/laptop"));
    }

    #[test]
    fn a_user_is_one_at_home_with_the_right_password() {
        let (alice, wrong) = (of("user/alice"), Err(NotAuthenticated::Wrong));
        for (strict, user, password, expected) in [
            (true, "alice", "sea", Ok(alice.clone())),
            (true, "alice", "land", wrong.clone()),
            (true, "alice", "", wrong.clone()),
            (true, "bob", "sea", wrong.clone()),
            (true, "node", "sea", wrong.clone()),
            (true, "service/alice", "sea", wrong.clone()),
            (false, "alice", "sea", Ok(alice.clone())),
            (false, "alice", "land", wrong.clone()),
            (false, "bob", "", Ok(of("user/bob"))),
            (false, "node", "", Ok(of("node/laptop"))),
            (false, "service/alice", "", Ok(of("service/alice"))),
            (false, "carol", "", wrong.clone()),
            (false, "user/alice", "sea", wrong.clone()),
            (false, "Alice", "sea", wrong.clone()),
            (false, "service/", "", wrong),
        ] {
            let found = auth(strict, &SHARED).with_login(SocksListener::Anyone, &login(user, password));
            assert_eq!(found, expected, "{strict} {user} {password}");
        }
        let bob = of("user/bob");
        let found = auth(true, &SHARED).with_login(SocksListener::Only(&bob), &login("alice", "sea"));
        assert_eq!(found, Err(NotAuthenticated::OtherDoor));
        assert_eq!(
            auth(true, &SHARED).with_login(SocksListener::Only(&alice), &login("alice", "sea")),
            Ok(alice.clone())
        );
    }

    #[test]
    fn a_program_that_can_show_a_user_is_asked_for_it() {
        for (nothing, password, strict, expected) in [
            (true, false, false, SocksMethod::Nothing),
            (true, true, false, SocksMethod::Password),
            (false, true, false, SocksMethod::Password),
            (true, false, true, SocksMethod::Unfit),
            (true, true, true, SocksMethod::Password),
            (false, false, false, SocksMethod::Unfit),
        ] {
            assert_eq!(auth(strict, &SHARED).method(Greeting { nothing, password }), expected);
        }
    }
}
