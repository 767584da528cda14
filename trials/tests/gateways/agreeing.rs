//! Two gateways at once: rights hold, names have one holder, a kill in the middle loses nothing.

use trials::place::{ended, json, succeeded, text, until};

use super::Two;

#[test]
fn each_gateway_spends_its_own_right_and_a_joiner_finds_the_one_that_has_one_left() {
    let (two, _laptop, _vps) = Two::serving();
    let place = &two.place;
    let told = place.freehold(&["invite", "create", "--uses", "1", "--at", "laptop", "--at", "vps"]);
    ended(&told, 1, "cannot be handed to 2 gateways");
    let invite = place.invite(&["--uses", "3", "--at", "laptop", "--at", "vps", "--name", "n-*"]);
    let code = text(&invite, "code");
    for node in ["n-1", "n-2", "n-3"] {
        succeeded(&place.join(node, &code));
    }
    two.settle();
    let fourth = place.join("n-4", &code);
    ended(&fourth, 3, "all");
    for gateway in [place.address(), two.address()] {
        let shown = two.at(&gateway, &["invite", "show", &text(&invite, "id")]);
        assert_eq!(shown["spent"], 3, "{shown}");
    }
}

#[test]
fn one_name_at_two_gateways_at_the_same_moment_has_no_holder_until_operators_decide() {
    let (two, _laptop, _vps) = Two::serving();
    let (place, a, b) = (&two.place, two.place.address(), two.address());
    for round in 0..3 {
        let name = format!("twin-{round}");
        let codes = [&a, &b].map(|gateway| text(&two.at(gateway, &["invite", "create", "--name", &name]), "code"));
        let joins: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> = codes
                .iter()
                .enumerate()
                .map(|(nth, code)| {
                    let name = name.clone();
                    scope.spawn(move || place.node(&format!("{name}-{nth}"), &["join", "--name", &name], code))
                })
                .collect();
            started.into_iter().map(|join| join.join().unwrap()).collect()
        });
        let joined = joins.iter().filter(|join| join.status.success()).count();
        two.settle();
        let named = |gateway: &str| {
            let nodes = two.at(gateway, &["node", "list"]);
            let named = nodes.as_array().unwrap().iter().filter(|row| row["name"] == name.as_str());
            let mut named: Vec<_> = named.map(|row| (text(row, "node_key"), text(row, "state"))).collect();
            named.sort();
            named
        };
        until("both say the same", || named(&a) == named(&b));
        // Whoever came later was refused where it was known already; else both wait.
        let (all, live) = (named(&a), named(&a).into_iter().filter(|(_, state)| state != "waiting").count());
        assert!((all.len(), live) == (1, 1) || (all.len(), live) == (2, 0), "{all:?}");
        assert!(joined <= all.len(), "{joined} joined, and these are known: {all:?}");
    }
}

#[test]
fn killed_in_the_middle_of_an_exchange_either_comes_back_and_has_all() {
    let (two, mut laptop, mut vps) = Two::serving();
    let (place, a, b) = (&two.place, two.place.address(), two.address());
    for round in 0..4 {
        let node = format!("k-{round}");
        let (at, other) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let code = text(&two.at(at, &["invite", "create", "--name", &node]), "code");
        succeeded(&place.join(&node, &code));
        // At once, while the other asks for it.
        if round % 2 == 0 {
            vps.kill();
            vps = two.serve_vps();
        } else {
            laptop.kill();
            laptop = place.serve();
        }
        until("the other has it", || two.state_at(other, &node).as_deref() == Some("member"));
    }
    two.settle();
    for gateway in [&a, &b] {
        let audit = json(&place.freehold(&["audit", "--verify", "--json", "--gateway", gateway]));
        assert!(audit.is_object() || audit.is_array(), "{audit}");
    }
}
