//! Plans in golden text, and what they promise of every pair of fleets.

use identity::text::Bytes;
use proptest::prelude::*;

use super::*;
use crate::compile::compile;
use crate::fleet::{Fleet, StaleSpec};
use crate::sample::{any_fleet, harbor, member, members, names, read, service, user};
use crate::stored::{Check, Confirm, Delivered, Forward, Probe, ProgramSvid, Socks, Transport};

const ALL: &str = "alpha hub laptop web-1 web-2 web-3";

fn published(fleet: &Fleet, who: &str) -> Published {
    let Compiled { leaves, manifests, .. } = compile(fleet, &members(who), SCHEMA).unwrap();
    Published { leaves, manifests }
}

fn plan(new: &Fleet) -> Plan {
    compare(&published(&harbor(), ALL), &compile(new, &members(ALL), SCHEMA).unwrap()).unwrap()
}

#[test]
fn a_change_of_access_alone_is_told_from_both_ends_and_takes_no_trial() {
    let mut fleet = harbor();
    fleet.users.get_mut(&read("alice")).unwrap().roles = names("");
    fleet.users.get_mut(&read("bob")).unwrap().roles = names("");
    let expected = "
`alpha`: access only, no trial
  - `user/alice` may call `wiki` here, at home on laptop
  - `user/bob` may call `wiki` here, at home on laptop

`laptop`: access only, no trial
  - `user/alice` may call `shop` from here
  - `user/alice` may call `wiki` from here
  - `user/bob` may call `wiki` from here
  - `shop` is found on: web-1 at web-1.example:7444, class web (web-*) by a relay, port 8081
  - `wiki` is found on: alpha at alpha.example:7444, port 8080
  - relay `hub` at hub.example:7444

`web-1`, `web-2`, `web-3`, class `web`: access only, no trial
  - `user/alice` may call `shop` here, at home on laptop

1 user loses `shop`: `alice`
2 users lose `wiki`: `alice`, `bob`
0 nodes go on trial, 5 change access only, 1 unchanged";
    assert_eq!(format!("\n{}", plan(&fleet)), expected);
}

#[test]
fn what_can_break_a_node_goes_on_trial() {
    let mut fleet = harbor();
    let alpha = fleet.nodes.get_mut(&read("alpha")).unwrap();
    alpha.address = Some(read("alpha.example:9000"));
    alpha.labels = [read("site=north")].into();
    alpha.policy.gateways = vec![read("gw.example:7443")];
    alpha.policy.svid_life = Some(read("12h"));
    alpha.policy.apply.confirm = Confirm::Operator;
    alpha.policy.apply.deadline = read("10m");
    let probe = Probe::Http { at: read("127.0.0.1:8080"), path: "/ok".to_owned(), status: 200 };
    alpha.policy.checks.insert(read("up"), Check { probe, timeout: read("5s") });
    let file = Delivered { content: Bytes(b"hello\n".to_vec()), executable: true };
    alpha.policy.files.insert(read("bin/hello"), file);
    fleet.services.insert(read("mail"), service("alpha", "127.0.0.1:25", "post", ""));
    fleet.users.insert(read("dave"), user("postman", "alpha"));
    fleet.roles.insert(read("postman"), names("post"));
    let expected = "
`alpha`: on trial
  + service `mail` at 127.0.0.1:25
  + user `dave`
  ~ gateways: those found so far -> gw.example:7443
  ~ address: alpha.example:7444 -> alpha.example:9000
  ~ SVIDs live: as the gateway's mandate says -> 12h
  ~ goes back unless confirmed within: 5m -> 10m
  ~ confirmed by: auto -> operator
  + label `site=north`
  + check `up`: http 127.0.0.1:8080/ok = 200 within 5s
  + file `bin/hello`: sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03, executable
  + `user/dave` may call `mail` here, at home on alpha
  + `user/dave` may call `mail` from here
  + `mail` is found on: alpha at alpha.example:9000, port 25

`laptop`, `web-1`, `web-2`, `web-3`, class `web`: access only, no trial
  ~ `wiki` is found on: alpha at alpha.example:7444, port 8080 -> alpha at alpha.example:9000, port 8080

1 user gains `mail`: `dave`
`alpha` gains service `mail`
`alpha` gains user `dave`
check `up` changes on `alpha`
file `bin/hello` changes on `alpha`
1 node goes on trial, 4 change access only, 1 unchanged";
    assert_eq!(format!("\n{}", plan(&fleet)), expected);
}

#[test]
fn who_enters_leaves_matches_nothing_or_has_not_joined_is_told() {
    let mut other_machine = member("alpha");
    other_machine.node_key = Digest([9; 32]);
    let mut now = members("hub web-2 web-9 stray");
    now.push(other_machine);
    let mut fleet = harbor();
    fleet.classes.get_mut(&read("web")).unwrap().names.push(read("front-*"));
    let old = published(&harbor(), "alpha hub laptop web-2");
    let plan = compare(&old, &compile(&fleet, &now, SCHEMA).unwrap()).unwrap();
    let told = &plan.summary[plan.summary.len() - 6..];
    assert_eq!(
        told,
        [
            "2 nodes enter the map: `stray`, `web-9`",
            "1 node leaves the map: `laptop`",
            "1 node is another machine now: `alpha`",
            "class `web` covers front-*, web-* instead of web-*",
            "1 member matches nothing: `stray`",
            "2 declared nodes have not joined: `laptop`, `web-1`",
        ]
    );
    // `web-9` has had the class's manifest since it joined, and has it still: no trial.
    assert_eq!(plan.counts.on_trial, 0);
}

#[test]
fn the_first_publish_is_compared_with_nothing() {
    let plan = compare(&Published::default(), &compile(&harbor(), &members("alpha"), SCHEMA).unwrap()).unwrap();
    assert_eq!(plan.counts, Counts { on_trial: 1, access_only: 0, unchanged: 0 });
    assert!(plan.summary.contains(&"2 users gain `wiki`: `alice`, `bob`".to_owned()), "{:?}", plan.summary);
    assert!(plan.summary.contains(&"class `web` is new".to_owned()), "{:?}", plan.summary);
}

#[test]
fn a_plan_has_stable_names_in_json() {
    let mut fleet = harbor();
    fleet.services.get_mut(&read("wiki")).unwrap().addr = read("[::1]:8080");
    let told = serde_json::to_value(plan(&fleet)).unwrap();
    let expected = serde_json::json!({
        "summary": ["1 node goes on trial, 0 change access only, 5 unchanged"],
        "counts": { "on_trial": 1, "access_only": 0, "unchanged": 5 },
        "changes": [{
            "machines": [{ "node": "alpha" }],
            "on_trial": true,
            "changes": [{ "what": "service", "name": "wiki", "from": "127.0.0.1:8080", "to": "[::1]:8080" }],
        }],
        "enter": [], "leave": [], "replaced": [], "classes": [], "unmatched": [], "waiting": [],
    });
    assert_eq!(told, expected);
}

#[test]
fn what_changes_with_tunnels_is_told_node_by_node_and_in_a_few_words() {
    let mut fleet = harbor();
    let laptop = &mut fleet.nodes.get_mut(&read("laptop")).unwrap().policy.tunnel;
    laptop.transport = Transport::Quic;
    laptop.listen = Some(read("0.0.0.0:7444"));
    laptop.socks = Socks::At { addr: read("127.0.0.1:1080"), password: true };
    laptop.resolver = Some(read("127.0.0.1:5300"));
    let forward = |service, user: Option<&str>| Forward { service: read(service), user: user.map(read) };
    laptop.forward = BTreeMap::from([
        (read("127.0.0.1:80"), forward("wiki", Some("bob"))),
        (read("127.0.0.1:81"), forward("pulse", None)),
    ]);
    fleet.nodes.get_mut(&read("web-1")).unwrap().policy.tunnel.socks = Socks::Off;
    fleet.nodes.get_mut(&read("hub")).unwrap().relay = false;
    fleet.nodes.get_mut(&read("alpha")).unwrap().relay = true;
    fleet.services.get_mut(&read("pulse")).unwrap().tells_caller = true;
    fleet.services.get_mut(&read("wiki")).unwrap().addr.port = 8090;
    fleet.org.stale = Some(StaleSpec { margin: read("1h"), roles: names("staff"), every_node: true });
    let expected = "
`alpha`: on trial
  ~ service `wiki` at 127.0.0.1:8080 -> 127.0.0.1:8090
  + carries for others: yes
  + `every node` opens nothing here on a head that is stale for 1h
  + `user/alice` opens nothing here on a head that is stale for 1h, at home on laptop
  + `user/bob` opens nothing here on a head that is stale for 1h, at home on laptop

`hub`: on trial
  + `pulse` is told who calls
  - carries for others: yes
  + `every node` opens nothing here on a head that is stale for 1h
  + `user/alice` opens nothing here on a head that is stale for 1h, at home on laptop
  + `user/bob` opens nothing here on a head that is stale for 1h, at home on laptop

`laptop`: on trial
  ~ streams are carried by auto -> quic
  + listens for nodes at 0.0.0.0:7444
  ~ SOCKS: 127.0.0.1:1080 -> 127.0.0.1:1080, with a password
  + forward 127.0.0.1:80 to wiki for user/bob
  + forward 127.0.0.1:81 to pulse for this node
  + resolver at 127.0.0.1:5300
  ~ `wiki` is found on: alpha at alpha.example:7444, port 8080 -> alpha at alpha.example:7444, port 8090
  + relay `alpha` at alpha.example:7444
  - relay `hub` at hub.example:7444

`web-1`: on trial
  ~ SOCKS: 127.0.0.1:1080 -> off
  + `every node` opens nothing here on a head that is stale for 1h
  + `user/alice` opens nothing here on a head that is stale for 1h, at home on laptop
  + `user/bob` opens nothing here on a head that is stale for 1h, at home on laptop
  ~ `wiki` is found on: alpha at alpha.example:7444, port 8080 -> alpha at alpha.example:7444, port 8090
  + relay `alpha` at alpha.example:7444
  - relay `hub` at hub.example:7444

`web-2`, `web-3`, class `web`: access only, no trial
  + `every node` opens nothing here on a head that is stale for 1h
  + `user/alice` opens nothing here on a head that is stale for 1h, at home on laptop
  + `user/bob` opens nothing here on a head that is stale for 1h, at home on laptop
  ~ `wiki` is found on: alpha at alpha.example:7444, port 8080 -> alpha at alpha.example:7444, port 8090
  + relay `alpha` at alpha.example:7444
  - relay `hub` at hub.example:7444

`laptop` gains forward `127.0.0.1:80`
`laptop` gains forward `127.0.0.1:81`
who carries for others changes with `alpha` and `hub`
how services are reached changes on `laptop` and `web-1`
which services are told who calls changes on `hub`
whom a stale head shuts out changes on 6 machines
4 nodes go on trial, 2 change access only, 0 unchanged";
    assert_eq!(format!("\n{}", plan(&fleet)), expected);
    let (mut before, mut after) = (harbor(), fleet.clone());
    before.nodes.retain(|name, _| name.as_str() == "laptop");
    after.nodes.retain(|name, _| name.as_str() == "laptop");
    let told = compare(&published(&before, "laptop"), &compile(&after, &members("laptop"), SCHEMA).unwrap()).unwrap();
    let told = serde_json::to_value(&told.changes[0].changes).unwrap();
    let expected = serde_json::json!([
        { "what": "transport", "from": "auto", "to": "quic" },
        { "what": "listen", "from": null, "to": "0.0.0.0:7444" },
        { "what": "socks", "from": "127.0.0.1:1080", "to": "127.0.0.1:1080, with a password" },
        { "what": "forward", "name": "127.0.0.1:80", "from": null, "to": "wiki for user/bob" },
        { "what": "forward", "name": "127.0.0.1:81", "from": null, "to": "pulse for this node" },
        { "what": "resolver", "from": null, "to": "127.0.0.1:5300" },
        { "what": "target_at", "name": "wiki", "from": "alpha by a relay, port 8080", "to": "alpha by a relay, port 8090" },
    ]);
    assert_eq!(told, expected);
}

#[test]
fn who_has_an_svid_and_which_names_it_carries_is_told_line_by_line() {
    let with = |dns: &str, owner: Option<&str>, reload: &[&str]| {
        let mut fleet = harbor();
        let reload = reload.iter().map(|word| (*word).to_owned()).collect();
        let svid = ProgramSvid { owner: owner.map(read), dns: names(dns), reload, ..ProgramSvid::default() };
        fleet.services.get_mut(&read("wiki")).unwrap().svid = Some(svid);
        fleet
    };
    let (one, two) = (with("a.b c.d", None, &[]), with("c.d e.f", Some("www-data"), &["/bin/kick", "it"]));
    let told = |from: &Fleet, to: &Fleet| {
        let new = compile(to, &members("alpha"), SCHEMA).unwrap();
        format!("\n{}", compare(&published(from, "alpha"), &new).unwrap())
    };
    let expected = "
`alpha`: on trial
  + the program of `service/wiki` has its SVID: user the agent's own, group the agent's own, mode 0600
  + the SVID of `service/wiki` carries `a.b`
  + the SVID of `service/wiki` carries `c.d`

how programs have their SVIDs changes on `alpha`
which DNS names SVIDs carry changes on `alpha`
1 node goes on trial, 0 change access only, 0 unchanged
3 declared nodes have not joined: `hub`, `laptop`, `web-1`";
    assert_eq!(told(&harbor(), &one), expected);
    let expected = "
`alpha`: on trial
  ~ the program of `service/wiki` has its SVID: user the agent's own, group the agent's own, mode 0600 -> user www-data, group the agent's own, mode 0600, then [\"/bin/kick\", \"it\"]
  - the SVID of `service/wiki` carries `a.b`
  + the SVID of `service/wiki` carries `e.f`
";
    assert!(told(&one, &two).starts_with(expected), "{}", told(&one, &two));
}

#[test]
fn what_cannot_be_compared_is_an_error_and_not_an_empty_plan() {
    let mut old = published(&harbor(), ALL);
    old.manifests.clear();
    let mut fleet = harbor();
    fleet.org.svid_life = Some(read("1h"));
    let new = compile(&fleet, &members(ALL), SCHEMA).unwrap();
    assert!(matches!(compare(&old, &new), Err(BadPublished::Missing(_))));
}

proptest! {
    #[test]
    fn there_and_back_gains_what_was_lost(one in any_fleet(), other in any_fleet()) {
        let who = "n0 n01 n02 n1 n2 x7 stray";
        let there = compare(&published(&one, who), &compile(&other, &members(who), SCHEMA).unwrap()).unwrap();
        let back = compare(&published(&other, who), &compile(&one, &members(who), SCHEMA).unwrap()).unwrap();
        prop_assert_eq!(there.counts, back.counts);
        let turned = |plan: &Plan| {
            let lines = plan.changes.iter().flat_map(|change| change.changes.iter().map(|line| (change.machines.clone(), line.clone())));
            lines.map(|(machines, line)| (machines, Change { from: line.to, to: line.from, ..line })).collect::<Vec<_>>()
        };
        let straight: Vec<_> = back.changes.iter().flat_map(|change| change.changes.iter().map(|line| (change.machines.clone(), line.clone()))).collect();
        prop_assert_eq!(turned(&there), straight);
    }

    /// Told from the tables; held to the answers that come from the fleet alone.
    #[test]
    fn whoever_loses_or_gains_a_service_is_counted(one in any_fleet(), other in any_fleet()) {
        let who = "n0 n01 n1 n2 n3";
        let plan = compare(&published(&one, who), &compile(&other, &members(who), SCHEMA).unwrap()).unwrap();
        for (from, to, verb) in [(&one, &other, "lose"), (&other, &one, "gain")] {
            let (from, to) = (callers(from), callers(to));
            let mut counts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for (service, user) in from.difference(&to) {
                counts.entry(service).or_default().push(format!("`{user}`"));
            }
            let words = |many: usize| if many == 1 { format!("user {verb}s") } else { format!("users {verb}") };
            let sentence = |(service, users): (&&str, &Vec<String>)| {
                format!("{} {} `{service}`: {}", users.len(), words(users.len()), users.join(", "))
            };
            let expected: Vec<String> = counts.iter().map(sentence).collect();
            let is_such = |line: &&String| {
                let rest = line.split_once(' ').map(|(_, rest)| rest).unwrap_or_default();
                rest.starts_with(&words(1)) || rest.starts_with(&words(2))
            };
            let told: Vec<String> = plan.summary.iter().filter(is_such).cloned().collect();
            prop_assert_eq!(told, expected);
        }
    }

    #[test]
    fn a_fleet_against_itself_changes_nothing(fleet in any_fleet()) {
        let who = "n0 n01 n02 n1 n2 n3 x7";
        let plan = compare(&published(&fleet, who), &compile(&fleet, &members(who), SCHEMA).unwrap()).unwrap();
        prop_assert!(plan.is_empty());
        prop_assert_eq!(plan.summary, ["nothing changes"]);
    }
}

/// Service and user, for services that listen somewhere.
fn callers(fleet: &Fleet) -> BTreeSet<(String, String)> {
    let listens = |service: &&Name| !fleet.services[*service].at.is_empty();
    let rows = crate::access::matrix(fleet).rows.into_iter();
    let pairs = rows.flat_map(|row| {
        let user = row.who.to_string().strip_prefix("user/").map(str::to_owned);
        let services: Vec<String> = row.may_call.iter().filter(listens).map(ToString::to_string).collect();
        user.into_iter().flat_map(move |user| services.clone().into_iter().map(move |service| (service, user.clone())))
    });
    pairs.collect()
}
