//! Tunnels: what is said of them and what it means, and each message, whole.

use proptest::prelude::*;

use super::scene::{WELL, broken, fleet, same, told_of, with};
use crate::access::{Who, may};
use crate::fleet::Fleet;
use crate::stored::{Forward, Socks, Transport, TunnelPolicy};

fn node(fleet: &Fleet, name: &str) -> TunnelPolicy {
    fleet.nodes[&name.parse().unwrap()].policy.tunnel.clone()
}

/// The small fleet, with something said for all of it and something for the desk.
fn said(org: &str, desk: &str) -> String {
    WELL.replace("org: {", &format!("org: {{tunnel: {{{org}}}, "))
        .replace("desk:", &format!("desk: {{tunnel: {{{desk}}}}}"))
}

#[test]
fn what_a_node_says_of_tunnels_wins_and_forwards_are_merged() {
    let both = fleet(
        &said(
            "transport: tls, listen: '0.0.0.0:7444', socks: {password: true}, resolver: '127.0.0.1:53', forward: {'127.0.0.1:81': wiki}",
            "transport: quic, socks: '[::1]:1081', forward: {'[::1]:82': {service: wiki, user: ann}}",
        )
        .replace("roles:\n", "roles:\n  node: {allow: pages}\n"),
    );
    let (gw, desk) = (node(&both, "gw"), node(&both, "desk"));
    let forward =
        |user: Option<&str>| Forward { service: "wiki".parse().unwrap(), user: user.map(|it| it.parse().unwrap()) };
    let expected = TunnelPolicy {
        transport: Transport::Tls,
        listen: Some("0.0.0.0:7444".parse().unwrap()),
        socks: Socks::At { addr: "127.0.0.1:1080".parse().unwrap(), password: true },
        forward: [("127.0.0.1:81".parse().unwrap(), forward(None))].into(),
        resolver: Some("127.0.0.1:53".parse().unwrap()),
    };
    assert_eq!(gw, expected);
    let forward =
        [("127.0.0.1:81".parse().unwrap(), forward(None)), ("[::1]:82".parse().unwrap(), forward(Some("ann")))];
    let expected = TunnelPolicy {
        transport: Transport::Quic,
        socks: Socks::At { addr: "[::1]:1081".parse().unwrap(), password: true },
        forward: forward.into(),
        ..expected
    };
    assert_eq!(desk, expected);
}

#[test]
fn socks_is_there_unless_it_is_off_and_can_be_had_back() {
    assert_eq!(node(&fleet(WELL), "desk"), TunnelPolicy::default());
    assert_eq!(node(&fleet(&said("socks: off", "")), "desk").socks, Socks::Off);
    let back = Socks::At { addr: "127.0.0.1:1080".parse().unwrap(), password: true };
    assert_eq!(node(&fleet(&said("socks: off", "socks: {password: true}")), "desk").socks, back);
    let moved = Socks::At { addr: "127.0.0.1:9".parse().unwrap(), password: true };
    for at in ["'127.0.0.1:9'", "{at: '127.0.0.1:9'}"] {
        let text = said("socks: {password: true}", &format!("socks: {at}"));
        assert_eq!(node(&fleet(&text), "desk").socks, moved, "who moves it does not open it");
    }
    let open = Socks::At { addr: "127.0.0.1:9".parse().unwrap(), password: false };
    assert_eq!(
        node(&fleet(&said("socks: {password: true}", "socks: {at: '127.0.0.1:9', password: false}")), "desk").socks,
        open
    );
}

#[test]
fn a_service_is_told_who_calls_and_a_stale_head_shuts_out_roles() {
    let text = WELL.replace("groups: pages}", "groups: pages, tells_caller: true}");
    let text = text.replace("org: {", "org: {stale: {margin: 1h, roles: [operator, node]}, ");
    let fleet = fleet(&text);
    assert!(fleet.services.values().all(|service| service.tells_caller));
    let stale = fleet.org.stale.unwrap();
    assert_eq!((stale.margin.0, stale.every_node, stale.roles), (3600, true, ["operator".parse().unwrap()].into()));
}

#[test]
fn what_is_listened_on_is_an_address_of_the_machine() {
    let told = with(
        "nodes:\n  a:\n    roles: staff\n    tunnel:\n      transport: udp\n      listen: a.example:1\n      socks: on\n      resolver: '127.0.0.1:0'\n      forward: {'localhost:80': wiki}\n",
    );
    same(
        &told,
        "
more.yaml:5:18: error: `nodes.a.tunnel.transport` cannot be `udp`
  5 |       transport: udp
    |                  ^^^
  hint: it is one of: auto, tls, quic

more.yaml:6:15: error: `a.example:1` is not IP:PORT
  6 |       listen: a.example:1
    |               ^^^^^^^^^^^
  hint: a machine listens on an IP address of its own: write that

more.yaml:7:14: error: `on` is not `off` or IP:PORT
  7 |       socks: on
    |              ^^
  hint: Where programs ask for services by SOCKS5, or `off`. 127.0.0.1:1080 if nothing is said.

more.yaml:8:17: error: `127.0.0.1:0` has no port that could be reached
  8 |       resolver: '127.0.0.1:0'
    |                 ^^^^^^^^^^^^^
  hint: Where names of services are resolved for programs. Nothing: nowhere.

more.yaml:9:17: error: `localhost:80` is not IP:PORT
  9 |       forward: {'localhost:80': wiki}
    |                 ^^^^^^^^^^^^^^
  hint: write 127.0.0.1:80 or [::1]:80
",
    );
}

#[test]
fn a_forward_names_a_service_and_a_user_that_are_there() {
    let told = with(
        "nodes:\n  a:\n    tunnel:\n      forward:\n        '127.0.0.1:1': wikki\n        '127.0.0.1:2': {service: pages, user: anne}\n        '127.0.0.1:3': {user: ann}\n        '127.0.0.1:4': [wiki]\n        '127.0.0.1:5': ann\n",
    );
    same(&told, "
more.yaml:5:24: error: there is no service `wikki`
  5 |         '127.0.0.1:1': wikki
    |                        ^^^^^
  hint: did you mean `wiki`?

more.yaml:6:34: error: `pages` is a group, not a service
  6 |         '127.0.0.1:2': {service: pages, user: anne}
    |                                  ^^^^^
  hint: what may stand here is declared under `services`

more.yaml:6:47: error: there is no user `anne`
  6 |         '127.0.0.1:2': {service: pages, user: anne}
    |                                               ^^^^
  hint: did you mean `ann`?

more.yaml:7:9: error: `nodes.a.tunnel.forward.127.0.0.1:3` has no `service`
  7 |         '127.0.0.1:3': {user: ann}
    |         ^^^^^^^^^^^^^
  hint: The service that it leads to.

more.yaml:8:9: error: `nodes.a.tunnel.forward.127.0.0.1:4` must be a name, or a map with any of: service, user, not a list
  8 |         '127.0.0.1:4': [wiki]
    |         ^^^^^^^^^^^^^
  hint: Addresses of this machine that lead to one service each.

more.yaml:9:24: error: `ann` is a user, not a service
  9 |         '127.0.0.1:5': ann
    |                        ^^^
  hint: what may stand here is declared under `services`
");
}

#[test]
fn whoever_a_forward_asks_for_may_call_the_service_and_is_at_home() {
    let told = with(
        "nodes:\n  a: {tunnel: {forward: {'127.0.0.1:1': wiki}}}\n  b: {tunnel: {forward: {'127.0.0.1:1': {service: wiki, user: ann}}}}\n  c: {tunnel: {forward: {'127.0.0.1:1': {service: wiki, user: bob}}}}\nusers: {bob: {nodes: c}}\n",
    );
    same(
        &told,
        "
more.yaml:2:41: error: `a` may not call `wiki`
  2 |   a: {tunnel: {forward: {'127.0.0.1:1': wiki}}}
    |                                         ^^^^
  hint: give it a role that allows `pages`, or say for which user it asks: {service: wiki, user: NAME}

more.yaml:3:63: error: the user `ann` is not at home on `b`
  3 |   b: {tunnel: {forward: {'127.0.0.1:1': {service: wiki, user: ann}}}}
    |                                                               ^^^
  hint: name it under `nodes` of `ann`, or leave `user` out: then the machine itself asks

more.yaml:4:51: error: the user `bob` may not call `wiki`
  4 |   c: {tunnel: {forward: {'127.0.0.1:1': {service: wiki, user: bob}}}}
    |                                                   ^^^^
  hint: give `bob` a role that allows `pages`, or remove the forward
",
    );
}

#[test]
fn what_the_org_forwards_is_told_once_for_all_machines() {
    let told =
        broken("org: {", "org: {tunnel: {forward: {'127.0.0.1:1': wiki, '127.0.0.1:2': {service: wiki, user: ann}}}, ");
    same(&told, "
fleet.yaml:1:41: error: `desk` and `gw` may not call `wiki`
  1 | org: {tunnel: {forward: {'127.0.0.1:1': wiki, '127.0.0.1:2': {service: wiki, user: ann}}}, name: harbor, id: '0101010101…
    |                                         ^^^^
  hint: give it a role that allows `pages`, or say for which user it asks: {service: wiki, user: NAME}

fleet.yaml:1:84: error: the user `ann` is not at home on `gw`
  1 | … {'127.0.0.1:1': wiki, '127.0.0.1:2': {service: wiki, user: ann}}}, name: harbor, id: '010101010101010101010101010101010…
    |                                                              ^^^
  hint: name it under `nodes` of `ann`, or leave `user` out: then the machine itself asks
");
}

#[test]
fn a_port_is_wanted_by_one() {
    let told = with(
        "nodes:\n  a:\n    roles: staff\n    address: a.example:7444\n    tunnel:\n      listen: '0.0.0.0:7444'\n      socks: '127.0.0.1:7444'\n      resolver: '127.0.0.1:53'\n      forward: {'127.0.0.1:53': wiki, '127.0.0.1:5353': wiki, '[::1]:80': wiki, '[0:0::1]:80': wiki}\nservices: {blog: {at: a, addr: 'localhost:5353', groups: pages}}\n",
    );
    same(
        &told,
        "
more.yaml:7:14: error: the tunnel and SOCKS both listen on 127.0.0.1:7444 of `a`
  7 |       socks: '127.0.0.1:7444'
    |              ^^^^^^^^^^^^^^^^
  more.yaml:6:15: the tunnel is here
  6 |       listen: '0.0.0.0:7444'
    |               ^^^^^^^^^^^^^^
  hint: give one of them another port

more.yaml:9:17: error: the resolver and a forward both listen on 127.0.0.1:53 of `a`
  9 |       forward: {'127.0.0.1:53': wiki, '127.0.0.1:5353': wiki, '[::1]:80': wiki, '[0:0::1]:80': wiki}
    |                 ^^^^^^^^^^^^^^
  more.yaml:8:17: the resolver is here
  8 |       resolver: '127.0.0.1:53'
    |                 ^^^^^^^^^^^^^^
  hint: give one of them another port

more.yaml:9:39: error: `blog` and a forward both listen on 127.0.0.1:5353 of `a`
  9 |       forward: {'127.0.0.1:53': wiki, '127.0.0.1:5353': wiki, '[::1]:80': wiki, '[0:0::1]:80': wiki}
    |                                       ^^^^^^^^^^^^^^^^
  more.yaml:10:32: `blog` is here
  10 | services: {blog: {at: a, addr: 'localhost:5353', groups: pages}}
     |                                ^^^^^^^^^^^^^^^^
  hint: give one of them another port

more.yaml:9:81: error: there are two forwards at [::1]:80
  9 |       forward: {'127.0.0.1:53': wiki, '127.0.0.1:5353': wiki, '[::1]:80': wiki, '[0:0::1]:80': wiki}
    |                                                                                 ^^^^^^^^^^^^^
  more.yaml:9:63: it is first here
  9 |       forward: {'127.0.0.1:53': wiki, '127.0.0.1:5353': wiki, '[::1]:80': wiki, '[0:0::1]:80': wiki}
    |                                                               ^^^^^^^^^^
  hint: keep one of them, or give one another port
",
    );
}

#[test]
fn a_machine_has_so_many_forwards() {
    let many: Vec<String> = (1..=257).map(|port| format!("'127.0.0.1:{port}': wiki")).collect();
    let told = with(&format!(
        "nodes:\n  a:\n    roles: staff\n    tunnel:\n      forward:\n        {}\n",
        many.join("\n        ").replace('\'', "\"")
    ));
    same(
        &told,
        "
more.yaml:5:7: error: 257 forwards; a machine has 256 at most
  5 |       forward:
    |       ^^^^^^^
  hint: SOCKS and the resolver lead to every service: use those
",
    );
}

#[test]
fn a_door_that_is_left_open_is_a_warning() {
    let told = with(
        "nodes:\n  a: {roles: staff, tunnel: {socks: '0.0.0.0:1080', forward: {'10.0.0.1:80': wiki}}}\n  b: {tunnel: {socks: {at: '0.0.0.0:1080', password: true}}}\n",
    );
    same(
        &told,
        "
more.yaml:2:37: warning: whoever reaches 0.0.0.0:1080 calls services as `a` and those at home there
  2 |   a: {roles: staff, tunnel: {socks: '0.0.0.0:1080', forward: {'10.0.0.1:80': wiki}}}
    |                                     ^^^^^^^^^^^^^^
  hint: listen on 127.0.0.1, or ask for a password: `socks: {password: true}`

more.yaml:2:63: warning: whoever reaches 10.0.0.1:80 calls `wiki` as `a`
  2 |   a: {roles: staff, tunnel: {socks: '0.0.0.0:1080', forward: {'10.0.0.1:80': wiki}}}
    |                                                               ^^^^^^^^^^^^^
  hint: listen on 127.0.0.1, unless others are to have this way in
",
    );
}

#[test]
fn a_forward_that_asks_for_a_user_without_a_password_is_a_warning() {
    let told = |socks: &str, user: &str| {
        broken(
            "desk:",
            &format!("desk: {{roles: staff, tunnel: {{{socks}forward: {{'127.0.0.1:1': {{service: wiki{user}}}}}}}}}"),
        )
    };
    same(
        &told("socks: {password: true}, ", ", user: ann"),
        "
fleet.yaml:4:68: warning: whoever is on `desk` calls `wiki` as `ann` by 127.0.0.1:1
  4 |   desk: {roles: staff, tunnel: {socks: {password: true}, forward: {'127.0.0.1:1': {service: wiki, user: ann}}}}
    |                                                                    ^^^^^^^^^^^^^
  hint: SOCKS asks for a password there, and a forward never does: leave it out, or leave out its `user`
",
    );
    same(&told("socks: {password: true}, ", ""), "");
    same(&told("", ", user: ann"), "");
}

#[test]
fn a_listener_that_nobody_calls_is_a_warning() {
    same(&broken("gw: {", "gw: {tunnel: {listen: '0.0.0.0:1'}, "), "");
    // What the org says is for those that have an address.
    same(&broken("org: {", "org: {tunnel: {listen: '0.0.0.0:1'}, "), "");
    let told = with("nodes: {a: {tunnel: {listen: '0.0.0.0:1'}}}\n");
    same(
        &told,
        "
more.yaml:1:30: warning: nobody calls there: no machine that listens there has an `address`
  1 | nodes: {a: {tunnel: {listen: '0.0.0.0:1'}}}
    |                              ^^^^^^^^^^^
  hint: give it an `address`; or leave this out, since what comes by a relay needs no listener
",
    );
}

#[test]
fn a_rule_for_stale_heads_names_roles_that_are_there() {
    same(&broken("org: {", "org: {stale: {margin: 1y, roles: [operater, staf]}, "), "
fleet.yaml:1:23: error: `1y` is not a span of time (like 90s, 15m, 24h or 30d)
  1 | org: {stale: {margin: 1y, roles: [operater, staf]}, name: harbor, id: '0101010101010101010101010101010101010101010101010…
    |                       ^^
  hint: How long after the end of a head's freshness the rule begins to hold.

fleet.yaml:1:35: error: there is no role `operater`
  1 | org: {stale: {margin: 1y, roles: [operater, staf]}, name: harbor, id: '0101010101010101010101010101010101010101010101010…
    |                                   ^^^^^^^^
  hint: did you mean `operator`?

fleet.yaml:1:45: error: there is no role `staf`
  1 | org: {stale: {margin: 1y, roles: [operater, staf]}, name: harbor, id: '0101010101010101010101010101010101010101010101010…
    |                                             ^^^^
  hint: did you mean `staff`?
");
    same(&broken("org: {", "org: {stale: {margin: 1h, roles: []}, "), "
fleet.yaml:1:7: warning: `org.stale` holds for nobody
  1 | org: {stale: {margin: 1h, roles: []}, name: harbor, id: '010101010101010101010101010101010101010101010101010101010101010…
    |       ^^^^^
  hint: name roles under `roles`, or leave it out
");
    same(
        &broken("org: {", "org: {stale: , "),
        "
fleet.yaml:1:7: error: `org.stale` has no `margin`
  1 | org: {stale: , name: harbor, id: '0101010101010101010101010101010101010101010101010101010101010101'}
    |       ^^^^^
  hint: How long after the end of a head's freshness the rule begins to hold.

fleet.yaml:1:7: error: `org.stale` has no `roles`
  1 | org: {stale: , name: harbor, id: '0101010101010101010101010101010101010101010101010101010101010101'}
    |       ^^^^^
  hint: Whom it holds for. `node` is every node.
",
    );
}

#[test]
fn an_address_is_where_others_reach_it() {
    same(
        &broken("gw.example:7444", "0.0.0.0:7444"),
        "
fleet.yaml:3:17: error: nobody reaches `gw` at 0.0.0.0:7444: that is where it listens, not where it is
  3 |   gw: {address: '0.0.0.0:7444'}
    |                 ^^^^^^^^^^^^^^
  hint: give the address by which others find it; where it listens is said by `tunnel.listen`
",
    );
    // All on one machine: there is nobody who could not reach it.
    same(&broken("gw.example:7444", "127.0.0.1:7444"), "");
    let told =
        told_of(&[("fleet.yaml", WELL), ("more.yaml", "nodes: {a: {address: 'localhost:7444', relay: true}}\n")]);
    same(
        &told,
        "
more.yaml:1:22: warning: other machines do not reach `a` at localhost:7444: each finds itself there
  1 | nodes: {a: {address: 'localhost:7444', relay: true}}
    |                      ^^^^^^^^^^^^^^^^
  hint: give the address by which others find it, or none: then it is reached through a relay
",
    );
}

proptest! {
    /// The oracle reads the same fleet without its forward.
    #[test]
    fn a_forward_is_taken_just_if_the_answer_is_yes(
        at in prop::sample::select(vec!["gw", "desk"]),
        user in prop::option::of(prop::sample::select(vec!["ann", "bob", "cleo"])),
        every_node: bool,
        machine: bool,
    ) {
        let text = WELL.replace("users:\n", "users:\n  bob: {roles: staff, nodes: [gw, desk]}\n  cleo: {nodes: [gw, desk]}\n");
        let text = if every_node { text.replace("roles:\n", "roles:\n  node: {allow: pages}\n") } else { text };
        let text = if machine { text.replace("gw: {", "gw: {roles: staff, ") } else { text };
        let who: Who = user.map_or_else(|| format!("node/{at}"), |user| format!("user/{user}@{at}")).parse().unwrap();
        let allowed = may(&fleet(&text), &who, &"wiki".parse().unwrap()).unwrap().allowed;
        let asks = user.map_or_else(|| "wiki".to_owned(), |user| format!("{{service: wiki, user: {user}}}"));
        let tunnel = format!("tunnel: {{forward: {{'127.0.0.1:9': {asks}}}}}");
        let text = if at == "gw" { text.replace("gw: {", &format!("gw: {{{tunnel}, ")) } else { text.replace("desk:\n", &format!("desk: {{{tunnel}}}\n")) };
        let told = told_of(&[("fleet.yaml", &text)]);
        prop_assert_eq!(allowed, !told.contains("error"), "{}\n{}", text, told);
    }
}
