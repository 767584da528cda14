//! Types, keys and forms: each message, whole.

use super::scene::{WELL, broken, same, told_of, with};

#[test]
fn a_key_that_is_unknown_is_named_with_the_one_that_was_meant() {
    let told = broken("addr: '127.0.0.1:80'", "adress: '127.0.0.1:80'");
    same(
        &told,
        "
fleet.yaml:6:18: error: `services.wiki` has no key `adress`
  6 |   wiki: {at: gw, adress: '127.0.0.1:80', groups: pages}
    |                  ^^^^^^
  hint: did you mean `addr`?
",
    );
}

#[test]
fn what_only_follows_from_a_misspelled_key_is_not_told() {
    let forward = "nodes:\n  desk2: {tunnel: {forward: {'127.0.0.1:1': {service: wiki, user: bob}}}}\nusers: {bob: {roles: staff, nodes: desk2}}\n";
    let fleet = WELL.replace("groups: pages}", "group: pages}");
    let told = told_of(&[("fleet.yaml", &fleet), ("a.yaml", forward)]);
    same(
        &told,
        "
fleet.yaml:6:40: error: `services.wiki` has no key `group`
  6 |   wiki: {at: gw, addr: '127.0.0.1:80', group: pages}
    |                                        ^^^^^
  hint: did you mean `groups`?
",
    );
    let told = broken("{roles: [operator, staff], nodes: desk}", "{role: [operator, staff], nodes: desk}");
    assert!(told.contains("has no key `role`") && !told.contains("nobody is an operator"), "{told}");
    let told = broken("gw: {address:", "gw: {addres:");
    assert!(told.contains("has no key `addres`") && !told.contains("nobody can reach"), "{told}");
}

#[test]
fn a_key_that_is_unknown_and_like_no_other_is_told_what_there_is() {
    let told = broken("{allow: pages}", "{allow: pages, colour: red}");
    same(
        &told,
        "
fleet.yaml:10:25: error: `roles.staff` has no key `colour`
  10 |   staff: {allow: pages, colour: red}
     |                         ^^^^^^
  hint: a role has: allow
",
    );
}

#[test]
fn a_key_that_belongs_elsewhere_is_told_where() {
    let told = with("classes:\n  web: {match: web-*, address: 'a:1'}\n");
    same(
        &told,
        "
more.yaml:2:23: error: `classes.web` has no key `address`
  2 |   web: {match: web-*, address: 'a:1'}
    |                       ^^^^^^^
  hint: an address belongs to one machine: declare that one under `nodes`
",
    );
}

#[test]
fn a_map_where_a_text_should_be_is_refused() {
    let told = broken("{at: gw", "{at: {x: gw}");
    same(
        &told,
        "
fleet.yaml:6:10: error: `services.wiki.at` must be a name or a host name, or a list of such, not a map
  6 |   wiki: {at: {x: gw}, addr: '127.0.0.1:80', groups: pages}
    |          ^^
  hint: The nodes or classes on which it listens.
",
    );
}

#[test]
fn a_list_where_a_map_should_be_is_refused() {
    let told = with("nodes: [web-1]\n");
    same(
        &told,
        "
more.yaml:1:1: error: `nodes` must be a map whose keys are each a name or a host name, not a list
  1 | nodes: [web-1]
    | ^^^^^
  hint: Machines, by name.
",
    );
}

#[test]
fn a_list_where_the_whole_file_should_be_is_refused() {
    let told = with("- nodes\n");
    same(
        &told,
        "
more.yaml:1:1: error: a file of a fleet must be a map with any of: org, nodes, classes, services, users, roles, groups, invites, not a list
  1 | - nodes
    | ^
  hint: each file of a fleet is a map of these
",
    );
}

#[test]
fn a_flag_is_not_a_quoted_text() {
    let told = with("nodes:\n  a: {address: 'a:1', relay: 'yes'}\n");
    same(
        &told,
        r#"
more.yaml:2:30: error: `nodes.a.relay` must be `true` or `false`, without quotes, not the text "yes"
  2 |   a: {address: 'a:1', relay: 'yes'}
    |                              ^^^^^
  hint: Whether it carries traffic for nodes without an address.
"#,
    );
}

#[test]
fn a_key_that_says_nothing_is_refused() {
    let told = broken("groups: pages}", "groups: }");
    same(
        &told,
        "
fleet.yaml:6:40: error: `services.wiki.groups` says nothing
  6 |   wiki: {at: gw, addr: '127.0.0.1:80', groups: }
    |                                        ^^^^^^
  hint: give a name, or a list of such, or leave it out
",
    );
}

#[test]
fn only_gateways_are_reached_by_carriers() {
    let told = broken("addr: '127.0.0.1:80'", "addr: wss://127.0.0.1");
    assert!(told.contains("`wss://127.0.0.1` is not HOST:PORT"), "{told}");
    assert!(told.contains("hint: only `gateways` are reached by WebSocket or proxy; here it is HOST:PORT"), "{told}");
}

#[test]
fn a_text_of_the_wrong_form_says_which_form() {
    let told = broken("addr: '127.0.0.1:80'", "addr: 127.0.0.1");
    same(
        &told,
        "
fleet.yaml:6:24: error: `127.0.0.1` is not HOST:PORT
  6 |   wiki: {at: gw, addr: 127.0.0.1, groups: pages}
    |                        ^^^^^^^^^
  hint: Where it listens on them, as the node itself reaches it.
",
    );
}

#[test]
fn a_port_must_be_one_that_can_be_reached() {
    let told = broken("addr: '127.0.0.1:80'", "addr: '127.0.0.1:0'");
    same(
        &told,
        "
fleet.yaml:6:24: error: `127.0.0.1:0` has no port that could be reached
  6 |   wiki: {at: gw, addr: '127.0.0.1:0', groups: pages}
    |                        ^^^^^^^^^^^^^
  hint: Where it listens on them, as the node itself reaches it.
",
    );
}

#[test]
fn a_span_has_a_unit_and_bounds() {
    let told = with("nodes:\n  a: {lifetimes: {svid: 1w}, apply: {deadline: 0s}}\n");
    same(
        &told,
        "
more.yaml:2:25: error: `1w` is not a span of time (like 90s, 15m, 24h or 30d)
  2 |   a: {lifetimes: {svid: 1w}, apply: {deadline: 0s}}
    |                         ^^
  hint: How long an SVID lives at most. A node may have less than its org, not more.

more.yaml:2:48: error: `0s` is not between 1s and 1d
  2 |   a: {lifetimes: {svid: 1w}, apply: {deadline: 0s}}
    |                                                ^^
  hint: After this time, what was not confirmed goes back. 5m if nothing is said.
",
    );
}

#[test]
fn a_choice_is_one_of_its_words() {
    let told = with("nodes:\n  a: {apply: {confirm: operater}}\n");
    same(
        &told,
        "
more.yaml:2:24: error: `nodes.a.apply.confirm` cannot be `operater`
  2 |   a: {apply: {confirm: operater}}
    |                        ^^^^^^^^
  hint: did you mean `operator`?
",
    );
}

#[test]
fn a_number_is_within_its_bounds() {
    let told = with("nodes:\n  a: {checks: {up: {http: 'http://a/', status: 700}}}\n");
    same(
        &told,
        "
more.yaml:2:48: error: `nodes.a.checks.up.status` must be a number from 100 to 599, without quotes, not `700`
  2 |   a: {checks: {up: {http: 'http://a/', status: 700}}}
    |                                                ^^^
  hint: The status that `http` must answer with. 200 if nothing is said.
",
    );
}

#[test]
fn a_check_does_exactly_one_thing() {
    let told = with(
        "nodes:\n  a:\n    checks:\n      none: {timeout: 2s}\n      both: {tcp: 'a:1', command: [x]}\n      tls: {http: 'https://a/'}\n      odd: {tcp: 'a:1', status: 200}\n      bare: {command: []}\n",
    );
    same(
        &told,
        "
more.yaml:4:7: error: `nodes.a.checks.none` says nothing that could be done
  4 |       none: {timeout: 2s}
    |       ^^^^
  hint: it needs one of: tcp, http, command

more.yaml:5:7: error: `nodes.a.checks.both` has both `tcp` and `command`
  5 |       both: {tcp: 'a:1', command: [x]}
    |       ^^^^
  hint: keep one of them

more.yaml:6:19: error: `https://a/` is not a URL of plain HTTP
  6 |       tls: {http: 'https://a/'}
    |                   ^^^^^^^^^^^^
  hint: write it like http://127.0.0.1:8080/health

more.yaml:7:25: error: `status` is for `http`
  7 |       odd: {tcp: 'a:1', status: 200}
    |                         ^^^^^^
  hint: leave it out, or check with `http`

more.yaml:8:14: error: `nodes.a.checks.bare.command` must be a list of 1 to 64 texts, not an empty list
  8 |       bare: {command: []}
    |              ^^^^^^^
  hint: A program and its words, without a shell; it must end with 0.
",
    );
}

#[test]
fn a_name_is_a_label_and_its_better_form_is_offered() {
    let told = with("users: {Web_1: {roles: staff, nodes: desk}}\n");
    same(
        &told,
        "
more.yaml:1:9: error: `Web_1` is not a name: use 1 to 63 of a-z, 0-9 and `-`, beginning and ending with a letter or digit
  1 | users: {Web_1: {roles: staff, nodes: desk}}
    |         ^^^^^
  hint: call it `web-1`
",
    );
}

#[test]
fn a_name_is_neither_a_kind_nor_a_device() {
    let told = with("users: {node: , com7: , class: }\n");
    same(
        &told,
        "
more.yaml:1:9: error: `node` is reserved and cannot be a name
  1 | users: {node: , com7: , class: }
    |         ^^^^
  hint: kinds of things and names of devices are kept free: choose another

more.yaml:1:17: error: `com7` is reserved and cannot be a name
  1 | users: {node: , com7: , class: }
    |                 ^^^^
  hint: kinds of things and names of devices are kept free: choose another

more.yaml:1:25: error: `class` is reserved and cannot be a name
  1 | users: {node: , com7: , class: }
    |                         ^^^^^
  hint: kinds of things and names of devices are kept free: choose another
",
    );
}

#[test]
fn a_pattern_that_no_name_fits_is_refused() {
    let told = with("invites: {a: {names: -x*, from: 10.0.0.0/99}}\n");
    same(
        &told,
        "
more.yaml:1:22: error: no name fits `-x*`
  1 | invites: {a: {names: -x*, from: 10.0.0.0/99}}
    |                      ^^^
  hint: names begin and end with a letter or digit

more.yaml:1:33: error: `10.0.0.0/99` is not a network (like 10.0.0.0/8)
  1 | invites: {a: {names: -x*, from: 10.0.0.0/99}}
    |                                 ^^^^^^^^^^^
  hint: The networks from which they may come. If really anywhere: 0.0.0.0/0 and ::/0.
",
    );
}

#[test]
fn a_role_needs_a_holder_who_may_have_it() {
    let told = with("nodes:\n  a: {roles: [operator, node]}\n");
    same(
        &told,
        "
more.yaml:2:15: error: the role `operator` is for users
  2 |   a: {roles: [operator, node]}
    |               ^^^^^^^^
  hint: operators are people: make a role of its own for what this must reach

more.yaml:2:25: error: the role `node` is not given: every node has it, and nobody else
  2 |   a: {roles: [operator, node]}
    |                         ^^^^
  hint: leave it out; say under `roles` what it allows
",
    );
}
