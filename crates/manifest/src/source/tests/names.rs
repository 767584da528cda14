//! Names and what refers to them: each message, whole.

use super::scene::{WELL, broken, same, told_of, with};

#[test]
fn a_key_twice_names_both_places() {
    let told = broken("  desk:\n", "  desk:\n  desk:\n");
    same(
        &told,
        "
fleet.yaml:5:3: error: the key `desk` is there twice
  5 |   desk:
    |   ^^^^
  fleet.yaml:4:3: it is first here
  4 |   desk:
    |   ^^^^
  hint: keep one of them, or rename one
",
    );
}

#[test]
fn a_name_twice_in_two_files_names_both_places() {
    let told = with("nodes: {desk: }\n");
    same(
        &told,
        "
more.yaml:1:9: error: the node `desk` is declared twice
  1 | nodes: {desk: }
    |         ^^^^
  fleet.yaml:4:3: it is first here
  4 |   desk:
    |   ^^^^
  hint: each name stands for one thing: rename one
",
    );
}

#[test]
fn a_name_of_two_kinds_names_both_places() {
    let told = with("users: {gw: {roles: staff, nodes: desk}}\n");
    same(
        &told,
        "
more.yaml:1:9: error: `gw` is a user and a node
  1 | users: {gw: {roles: staff, nodes: desk}}
    |         ^^
  fleet.yaml:3:3: it is first here
  3 |   gw: {address: 'gw.example:7444'}
    |   ^^
  hint: each name stands for one thing: rename one
",
    );
}

#[test]
fn a_host_name_stands_for_its_first_part_and_collides_by_it() {
    let told = with("nodes: {Desk.Example.com: }\n");
    same(
        &told,
        "
more.yaml:1:9: error: the node `desk` is declared twice (the host name `Desk.Example.com` stands for its first part)
  1 | nodes: {Desk.Example.com: }
    |         ^^^^^^^^^^^^^^^^
  fleet.yaml:4:3: it is first here
  4 |   desk:
    |   ^^^^
  hint: each name stands for one thing: rename one
",
    );
}

#[test]
fn a_role_or_group_twice_names_both_places() {
    let told = with("roles: {staff: {allow: pages}}\ngroups: {pages: }\n");
    same(
        &told,
        "
more.yaml:1:9: error: the role `staff` is declared twice
  1 | roles: {staff: {allow: pages}}
    |         ^^^^^
  fleet.yaml:10:3: it is first here
  10 |   staff: {allow: pages}
     |   ^^^^^
  hint: keep one of them

more.yaml:2:10: error: the group `pages` is declared twice
  2 | groups: {pages: }
    |          ^^^^^
  fleet.yaml:11:10: it is first here
  11 | groups: [pages]
     |          ^^^^^
  hint: keep one of them
",
    );
}

#[test]
fn the_role_of_every_node_is_declared_once() {
    let told = told_of(&[
        ("a.yaml", WELL),
        (
            "b.yaml",
            "roles: {node: {allow: pages}}
",
        ),
        (
            "c.yaml",
            "roles: {node: }
",
        ),
    ]);
    same(
        &told,
        "
c.yaml:1:9: error: the role `node` is declared twice
  1 | roles: {node: }
    |         ^^^^
  b.yaml:1:9: it is first here
  1 | roles: {node: {allow: pages}}
    |         ^^^^
  hint: keep one of them
",
    );
}

#[test]
fn a_reference_that_leads_nowhere_names_what_was_meant() {
    let told = broken("at: gw", "at: gv");
    same(
        &told,
        "
fleet.yaml:6:14: error: there is no node or class `gv`
  6 |   wiki: {at: gv, addr: '127.0.0.1:80', groups: pages}
    |              ^^
  hint: did you mean `gw`?
",
    );
}

#[test]
fn a_reference_to_another_kind_says_what_it_is() {
    let told = broken("nodes: desk", "nodes: wiki");
    same(
        &told,
        "
fleet.yaml:8:42: error: `wiki` is a service, not a node or class
  8 |   ann: {roles: [operator, staff], nodes: wiki}
    |                                          ^^^^
  hint: what may stand here is declared under `nodes`
",
    );
}

#[test]
fn a_role_or_group_that_is_not_there_is_named() {
    let told = broken("roles: [operator, staff]", "roles: [operator, stuff]")
        + "\n"
        + &broken("groups: pages}", "groups: [page, wiki]}");
    same(
        &told,
        "
fleet.yaml:8:27: error: there is no role `stuff`
  8 |   ann: {roles: [operator, stuff], nodes: desk}
    |                           ^^^^^
  hint: did you mean `staff`?
fleet.yaml:6:49: error: there is no group `page`
  6 |   wiki: {at: gw, addr: '127.0.0.1:80', groups: [page, wiki]}
    |                                                 ^^^^
  hint: did you mean `pages`?

fleet.yaml:6:55: error: `wiki` is a service, not a group
  6 |   wiki: {at: gw, addr: '127.0.0.1:80', groups: [page, wiki]}
    |                                                       ^^^^
  hint: what may stand here is declared under `groups`
",
    );
}

#[test]
fn a_place_in_a_list_twice_names_both() {
    let told = broken("at: gw", "at: [gw, gw.example.com]");
    same(
        &told,
        "
fleet.yaml:6:19: error: `gw.example.com` is in the list twice
  6 |   wiki: {at: [gw, gw.example.com], addr: '127.0.0.1:80', groups: pages}
    |                   ^^^^^^^^^^^^^^
  fleet.yaml:6:15: it is first here
  6 |   wiki: {at: [gw, gw.example.com], addr: '127.0.0.1:80', groups: pages}
    |               ^^
  hint: keep one of them
",
    );
}
