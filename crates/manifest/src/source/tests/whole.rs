//! What only the whole fleet shows: each message, whole.

use super::scene::{WELL, broken, same, told_of, with};

#[test]
fn two_orgs_are_refused() {
    let told = with("org: {name: harbor, id: '0101010101010101010101010101010101010101010101010101010101010101'}\n");
    same(
        &told,
        "
more.yaml:1:1: error: `org` is declared twice
  1 | org: {name: harbor, id: '0101010101010101010101010101010101010101010101010101010101010101'}
    | ^^^
  fleet.yaml:1:1: it is first here
  1 | org: {name: harbor, id: '0101010101010101010101010101010101010101010101010101010101010101'}
    | ^^^
  hint: a fleet belongs to one org: put everything about it into one place
",
    );
}

#[test]
fn no_org_is_refused() {
    let told = told_of(&[("fleet.yaml", WELL.split_once('\n').unwrap().1)]);
    same(
        &told,
        "
error: the fleet does not say which org it belongs to
  hint: add `org:` with `name` and `id`; see them with: freehold org list
",
    );
}

#[test]
fn another_orgs_id_is_refused() {
    let told = broken("id: '01", "id: '02");
    same(
        &told,
        "
fleet.yaml:1:25: error: this is another org's id: `harbor` has another one here
  1 | org: {name: harbor, id: '0201010101010101010101010101010101010101010101010101010101010101'}
    |                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: the id of `harbor` is 0101010101010101010101010101010101010101010101010101010101010101
",
    );
}

#[test]
fn another_orgs_name_is_refused() {
    let told = broken("name: harbor", "name: quay");
    same(
        &told,
        "
fleet.yaml:1:13: error: this is the id of the org `harbor`, not of `quay`
  1 | org: {name: quay, id: '0101010101010101010101010101010101010101010101010101010101010101'}
    |             ^^^^
  fleet.yaml:1:23: the id is here
  1 | org: {name: quay, id: '0101010101010101010101010101010101010101010101010101010101010101'}
    |                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: call it `harbor`
",
    );
}

#[test]
fn an_org_that_is_not_known_here_is_refused() {
    let told = broken("name: harbor, id: '01", "name: quay, id: '02");
    same(
        &told,
        "
fleet.yaml:1:13: error: `quay` is another org: known here is `harbor`
  1 | org: {name: quay, id: '0201010101010101010101010101010101010101010101010101010101010101'}
    |             ^^^^
  hint: say where its home is with --home DIR, or put the org's own name and id here
",
    );
}

#[test]
fn an_empty_folder_is_told_how_to_begin() {
    let told = told_of(&[]);
    same(
        &told,
        "
error: there is no fleet: no file ends with .yaml, .yml or .json
  hint: make an example to start from: freehold fleet init DIR
",
    );
}

#[test]
fn classes_that_overlap_are_refused_with_a_name_in_both() {
    let told = with("classes:\n  web: {match: web-*}\n  first: {match: [a-1, '*-1']}\n");
    same(
        &told,
        "
more.yaml:3:24: error: the classes `web` and `first` overlap: `web-1` would be in both
  3 |   first: {match: [a-1, '*-1']}
    |                        ^^^^^
  more.yaml:2:16: `web-*` is here
  2 |   web: {match: web-*}
    |                ^^^^^
  hint: a node is in one class at most: make the patterns differ
",
    );
}

#[test]
fn a_node_that_a_class_covers_is_refused() {
    let told = with("classes: {all: {match: d*}}\n");
    same(
        &told,
        "
fleet.yaml:4:3: error: the node `desk` would be in the class `all`, too
  4 |   desk:
    |   ^^^^
  more.yaml:1:24: `d*` fits it
  1 | classes: {all: {match: d*}}
    |                        ^^
  hint: a machine is declared by its name or by a class: leave it to the class, rename it, or narrow the pattern
",
    );
}

#[test]
fn a_service_that_nobody_can_reach_is_refused() {
    let told = broken("{address: 'gw.example:7444'}", "");
    same(
        &told,
        "
fleet.yaml:6:14: error: nobody can reach `wiki`: `gw` has no address, and no node is a relay
  6 |   wiki: {at: gw, addr: '127.0.0.1:80', groups: pages}
    |              ^^
  hint: give the node an `address`, or let a node that has one say `relay: true`
",
    );
}

#[test]
fn a_service_on_a_class_needs_a_relay() {
    let told = with("classes: {web: {match: web-*}}\nservices: {shop: {at: web, addr: 'a:1', groups: pages}}\n");
    same(
        &told,
        "
more.yaml:2:23: error: nobody can reach `shop`: the nodes of `web` have no address, and no node is a relay
  2 | services: {shop: {at: web, addr: 'a:1', groups: pages}}
    |                       ^^^
  hint: give the node an `address`, or let a node that has one say `relay: true`
",
    );
}

#[test]
fn a_relay_has_an_address() {
    let told = with("nodes: {hub: {relay: true}}\n");
    same(
        &told,
        "
more.yaml:1:9: error: the relay `hub` has no address
  1 | nodes: {hub: {relay: true}}
    |         ^^^
  hint: give it an `address` that other nodes reach
",
    );
}

#[test]
fn two_listeners_on_one_address_are_refused() {
    let told = with(
        "services:\n  blog: {at: [desk, gw], addr: '0.0.0.0:80', groups: pages}\n  news: {at: gw, addr: 'localhost:80', groups: pages}\n",
    );
    same(
        &told,
        "
fleet.yaml:6:24: error: `blog` and `wiki` both listen on 127.0.0.1:80 of `gw`
  6 |   wiki: {at: gw, addr: '127.0.0.1:80', groups: pages}
    |                        ^^^^^^^^^^^^^^
  more.yaml:2:32: `blog` is here
  2 |   blog: {at: [desk, gw], addr: '0.0.0.0:80', groups: pages}
    |                                ^^^^^^^^^^^^
  hint: give one of them another port

more.yaml:3:24: error: `blog` and `news` both listen on localhost:80 of `gw`
  3 |   news: {at: gw, addr: 'localhost:80', groups: pages}
    |                        ^^^^^^^^^^^^^^
  more.yaml:2:32: `blog` is here
  2 |   blog: {at: [desk, gw], addr: '0.0.0.0:80', groups: pages}
    |                                ^^^^^^^^^^^^
  hint: give one of them another port
",
    );
}

#[test]
fn an_org_without_an_operator_is_refused() {
    let told = broken("[operator, staff]", "staff");
    same(
        &told,
        "
fleet.yaml:7:1: error: nobody is an operator
  7 | users:
    | ^^^^^
  hint: give a user the role: `roles: [operator]`
",
    );
}

#[test]
fn a_node_may_not_outlive_its_org() {
    let told = told_of(&[
        ("a.yaml", &WELL.replace("org: {", "org: {lifetimes: {svid: 24h}, ")),
        ("b.yaml", "nodes: {x: {lifetimes: {svid: 48h}}}\n"),
    ]);
    same(
        &told,
        "
b.yaml:1:31: error: an SVID may live 1d in this org, not 2d
  1 | nodes: {x: {lifetimes: {svid: 48h}}}
    |                               ^^^
  a.yaml:1:25: the org says so here
  1 | org: {lifetimes: {svid: 24h}, name: harbor, id: '0101010101010101010101010101010101010101010101010101010101010101'}
    |                         ^^^
  hint: shorten this one, or lengthen the org's
",
    );
}

#[test]
fn a_check_ends_before_the_deadline() {
    let told = with("nodes: {x: {apply: {deadline: 30s}, checks: {up: {tcp: 'a:1', timeout: 1m}}}}\n");
    same(
        &told,
        "
more.yaml:1:46: error: the check `up` may take 1m, but all must be well within 30s
  1 | nodes: {x: {apply: {deadline: 30s}, checks: {up: {tcp: 'a:1', timeout: 1m}}}}
    |                                              ^^
  hint: shorten its `timeout`, or lengthen `apply.deadline`
",
    );
}

#[test]
fn files_are_there_are_small_and_do_not_lie_in_each_other() {
    let told = with(
        "nodes:\n  x:\n    files:\n      a: {content: x}\n      a/b: {from: files/motd}\n      c: {from: files/none}\n      d: {from: files/large}\n      e: {from: ../../etc/passwd}\n      f: {content: x, from: files/motd}\n",
    );
    same(
        &told,
        "
more.yaml:5:7: error: `a` is a file, so `a/b` cannot be in it
  5 |       a/b: {from: files/motd}
    |       ^^^
  hint: rename one of them

more.yaml:6:17: error: cannot read `files/none`: it is not there
  6 |       c: {from: files/none}
    |                 ^^^^^^^^^^
  hint: the path begins at the fleet's folder, and must stay in it

more.yaml:7:17: error: `files/large` has 307200 bytes; 262144 are delivered at most
  7 |       d: {from: files/large}
    |                 ^^^^^^^^^^^
  hint: deliver what is small, and let it fetch what is large

more.yaml:8:17: error: `../../etc/passwd` is not a relative path (letters, digits and -_.@+, no part beginning with a dot)
  8 |       e: {from: ../../etc/passwd}
    |                 ^^^^^^^^^^^^^^^^
  hint: Where it lies, from the fleet's folder on. What lies under `files/` is not read as fleet.

more.yaml:9:7: error: `nodes.x.files.f` has both `content` and `from`
  9 |       f: {content: x, from: files/motd}
    |       ^
  hint: keep one of them
",
    );
}

#[test]
fn what_has_no_effect_is_a_warning() {
    let told = with(
        "roles: {idle: }\ngroups: [lost]\nusers: {bob: }\nservices: {quiet: {at: desk, addr: 'a:1'}}\nnodes: {island: {apply: {confirm: offline}}}\n",
    );
    same(
        &told,
        "
more.yaml:1:9: warning: nobody has the role `idle`
  1 | roles: {idle: }
    |         ^^^^
  hint: give it to somebody, or remove it

more.yaml:1:9: warning: the role `idle` allows nothing
  1 | roles: {idle: }
    |         ^^^^
  hint: name groups under `allow`

more.yaml:2:10: warning: no role allows the group `lost`
  2 | groups: [lost]
    |          ^^^^
  hint: say `allow: [lost]` at a role, or remove it

more.yaml:2:10: warning: no service is in the group `lost`
  2 | groups: [lost]
    |          ^^^^
  hint: say `groups: [lost]` at a service, or remove it

more.yaml:3:9: warning: the user `bob` has no role, and so may call nothing
  3 | users: {bob: }
    |         ^^^
  hint: give them one under `roles`

more.yaml:3:9: warning: the user `bob` is on no node, and so has no identity anywhere
  3 | users: {bob: }
    |         ^^^
  hint: name their machines under `nodes`

more.yaml:4:12: warning: nobody may call the service `quiet`
  4 | services: {quiet: {at: desk, addr: 'a:1'}}
    |            ^^^^^
  hint: put it into a group that a role of somebody allows

more.yaml:5:9: warning: `island` takes any new state: it confirms by its checks alone, and has none
  5 | nodes: {island: {apply: {confirm: offline}}}
    |         ^^^^^^
  hint: add one under `checks`, or choose another `apply.confirm`
",
    );
}
