//! SVIDs for programs: what is said of them and what it means, and each message, whole.

use super::scene::{WELL, broken, fleet, same, told_of};
use crate::stored::ProgramSvid;

/// The small fleet, with something said for all of it and for its service.
fn said(org: &str, wiki: &str) -> String {
    WELL.replace("org: {", &format!("org: {{{org}"))
        .replace("groups: pages}", &format!("groups: pages, svid: {{{wiki}}}}}"))
}

#[test]
fn a_program_has_its_svid_as_the_fleet_says() {
    let both = fleet(
        &said(
            "svid: {dns: ['*.example.org', 'wiki.example.net']}, ",
            "owner: www-data, group: '33', mode: 0640, dns: [Wiki.example.org, wiki.example.net], reload: [/usr/sbin/nginx, -s, reload]",
        )
        .replace("nodes: desk}", "nodes: desk, svid: {}}"),
    );
    let wiki = ProgramSvid {
        owner: Some("www-data".parse().unwrap()),
        group: Some("33".parse().unwrap()),
        mode: "0640".parse().unwrap(),
        dns: ["wiki.example.org", "wiki.example.net"].map(|name| name.parse().unwrap()).into(),
        reload: ["/usr/sbin/nginx", "-s", "reload"].map(str::to_owned).into(),
    };
    assert_eq!(both.services[&"wiki".parse().unwrap()].svid, Some(wiki));
    let ann = both.users[&"ann".parse().unwrap()].svid.clone().unwrap();
    assert_eq!((ann.mode.bits(), ann), (0o600, ProgramSvid::default()));
    assert_eq!(fleet(WELL).services[&"wiki".parse().unwrap()].svid, None);
}

#[test]
fn a_key_that_others_could_read_is_refused() {
    let mode = |mode: &str| told_of(&[("fleet.yaml", &said("", &format!("group: web, mode: {mode}")))]);
    for (bits, wrong) in [
        ("0644", "with mode 0644, everybody could get at the private key"),
        ("'0604'", "with mode 0604, everybody could get at the private key"),
        ("0660", "mode 0660 lets more be done with the private key than reading"),
        ("0700", "mode 0700 lets more be done with the private key than reading"),
        ("0200", "`0200` is not a mode (0400, 0440, 0600 or 0640)"),
        ("rw", "`rw` is not a mode (0400, 0440, 0600 or 0640)"),
    ] {
        let told = mode(bits);
        assert!(told.contains(&format!("error: {wrong}\n")), "{told}");
        assert!(told.contains("0600: its owner reads it; 0640: the group, too"), "{told}");
    }
    same(
        &broken("groups: pages}", "groups: pages, svid: {mode: 0640}}"),
        "
fleet.yaml:6:68: error: mode 0640 lets a group read the key, and no group is named
  6 |   wiki: {at: gw, addr: '127.0.0.1:80', groups: pages, svid: {mode: 0640}}
    |                                                                    ^^^^
  hint: name one with `group`, or leave the mode at 0600",
    );
}

#[test]
fn a_name_that_the_org_does_not_allow_is_refused() {
    same(
        &told_of(&[("fleet.yaml", &said("", "dns: wiki.example.org"))]),
        "
fleet.yaml:6:67: error: the org does not let SVIDs carry `wiki.example.org`
  6 |   wiki: {at: gw, addr: '127.0.0.1:80', groups: pages, svid: {dns: wiki.example.org}}
    |                                                                   ^^^^^^^^^^^^^^^^
  hint: list what they may carry: under `org`, `svid: {dns: [PATTERN]}`",
    );
    let told =
        told_of(&[("fleet.yaml", &said("svid: {dns: '*.example.org'}, ", "dns: [a.example.org, b.example.net]"))]);
    assert!(told.contains("error: the org does not let SVIDs carry `b.example.net`"), "{told}");
    assert!(told.contains("it lets them carry these") && told.contains("add a pattern that fits there"), "{told}");
    assert!(!told.contains("`a.example.org`\n"), "{told}");
}

#[test]
fn only_whole_host_names_stand_in_an_svid() {
    let name =
        |name: &str| told_of(&[("fleet.yaml", &said("svid: {dns: '*.example.org'}, ", &format!("dns: ['{name}']")))]);
    for (bad, hint) in [
        ("*.example.org", "name each host"),
        ("10.0.0.1", "whoever has an address may change"),
        ("::1", "whoever has an address may change"),
        ("localhost", "a full host name has dots"),
        ("a.example.org.", "none at its end"),
        ("a b", ""),
        ("-a.example.org", ""),
    ] {
        let told = name(bad);
        assert!(told.contains(&format!("`{bad}` is not a full host name (like wiki.example.com)")), "{told}");
        assert!(told.contains(hint), "{bad}: {told}");
    }
}

#[test]
fn a_dns_name_is_of_one_principal() {
    let text = said("svid: {dns: '*.example.org'}, ", "dns: a.example.org")
        .replace("nodes: desk}", "nodes: desk, svid: {dns: [b.example.org, a.example.org]}}");
    let told = told_of(&[("fleet.yaml", &text)]);
    assert!(told.contains("error: `a.example.org` is a name of service `wiki` already"), "{told}");
    assert!(told.contains("whoever goes by DNS names could not tell one from the other"), "{told}");
    let many: Vec<_> = (0..33).map(|number| format!("n{number}.example.org")).collect();
    let told =
        told_of(&[("fleet.yaml", &said("svid: {dns: '*.example.org'}, ", &format!("dns: [{}]", many.join(", "))))]);
    assert!(told.contains("error: 33 DNS names; an SVID carries 32 at most"), "{told}");
}

#[test]
fn what_runs_after_a_change_is_named_whole() {
    let told = told_of(&[("fleet.yaml", &said("", "reload: [nginx, -s, reload]"))]);
    assert!(told.contains("error: `nginx` is no path from `/` on"), "{told}");
    assert!(told.contains("name the program whole: `which nginx` says where it is"), "{told}");
    let told = told_of(&[("fleet.yaml", &said("", "reload: /usr/sbin/nginx -s reload"))]);
    assert!(told.contains("`services.wiki.svid.reload` must be a list of 1 to 64 texts"), "{told}");
    let told = told_of(&[("fleet.yaml", &said("", "owner: 'a b', group: '007'"))]);
    for wrong in ["`a b`", "`007`"] {
        assert!(told.contains(&format!("{wrong} is not a user or group of the machine, by name or number")), "{told}");
    }
}
