//! Rows of the store, one per line: table, key and JSON. What is restored is what is stored again, and can be used.

use std::net::IpAddr;

use identity::bundle::Domain;
use identity::id::{Correlation, Digest};
use identity::principal::{Author, NodeName};
use org::derived::{Rows, restore, rows};
use org::enroll::{Attempt, consider};
use org::entry::{Action, SignedEntry};
use org::state::State;

use crate::cast::{GATEWAYS, NOW, ed, public};
use crate::harbor::{HARBOR, Harbor, claim};

pub fn seeds() -> Vec<Vec<u8>> {
    let mut harbor = HARBOR.copy();
    let mut out = vec![text(&rows(&harbor.state))];
    for (gateway, n, name) in [("gw-1", 1, "web-1"), ("gw-2", 2, "web-2")] {
        let claim = harbor.claim(n, name);
        let admission = harbor.sealed(&harbor.admission(gateway, claim), &[gateway]);
        harbor.write(gateway, Action::NodeAdmit { admission });
    }
    let (node_key, name): (_, NodeName) = (public("node-1").digest(), "web-1".parse().expect("a name"));
    harbor.write("gw-1", Action::NodeJoin { node_key, name: name.clone() });
    let leave = harbor.sealed(&Harbor::leave(1), &["node-1"]);
    harbor.write("gw-2", Action::NodeLeave { leave, name });
    let all = rows(&harbor.state);
    out.push(text(&all));
    // Each table alone, so that a mutation has less to lose its way in.
    for table in ["frontier", "members", "endings", "voices", "heads", "invites"] {
        out.push(text(&all.clone().into_iter().filter(|((at, _), _)| at == table).collect()));
    }
    out
}

fn text(rows: &Rows) -> Vec<u8> {
    let line = |((table, key), value): (&(String, String), &String)| format!("{table}\t{key}\t{value}");
    rows.iter().map(line).collect::<Vec<_>>().join("\n").into_bytes()
}

pub fn check(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let mut given = Rows::new();
    for line in text.split('\n').filter(|line| !line.is_empty()) {
        let mut parts = line.splitn(3, '\t');
        let (Some(table), Some(key), Some(value)) = (parts.next(), parts.next(), parts.next()) else {
            return false;
        };
        given.insert((table.to_owned(), key.to_owned()), value.to_owned());
    }
    let Ok(state) = restore(&HARBOR.founding, &given) else {
        return false;
    };
    let stored = rows(&state);
    assert_eq!(restore(&HARBOR.founding, &stored).as_ref(), Ok(&state), "restored, stored, restored");
    assert_eq!(rows(&state), stored);
    ask(&state);
    go_on(&state);
    true
}

/// Every question that a gateway asks of its state.
fn ask(state: &State) {
    let _ = (state.head(), state.signer_set(), state.is_frozen(), state.signer_chain(0));
    let _ = state.trusted_bundles(Domain::Identity).chain(state.trusted_bundles(Domain::Endpoint)).count();
    for member in state.members.values() {
        let _ = (state.standing(member), state.holder(&member.claim().name));
    }
    for gateway in GATEWAYS {
        let gateway: NodeName = gateway.parse().expect("a name");
        for record in state.invites.values() {
            let _ = (record.uses_left(&gateway), record.invite.uses());
        }
        let claim = claim(1, "web-1");
        let _ = consider(
            state,
            Attempt {
                claim: &claim,
                claimed: Digest([0; 32]),
                source: IpAddr::from([10, 0, 0, 1]),
                gateway: &gateway,
                now: NOW,
            },
        );
    }
}

/// Whatever was restored, the next entry is taken or refused.
fn go_on(state: &State) {
    let claim = HARBOR.claim(1, "web-1");
    let admission = HARBOR.sealed(&HARBOR.admission("gw-1", claim), &["gw-1"]);
    let invite = HARBOR.invite.clone();
    for (author, who, action) in [
        (Author::Gateway("gw-1".parse().expect("a name")), "gw-1", Action::NodeAdmit { admission }),
        (Author::Signer("ann".parse().expect("a name")), "ann", Action::InviteCreate { invite }),
    ] {
        let mut state = state.clone();
        let moment = (NOW, Correlation([7; 8]));
        let signed =
            SignedEntry::write(state.org, (&state.frontier, state.epoch().number), (author, &ed(who)), moment, action);
        let signed = signed.expect("an entry can be written");
        if state.apply(&signed).is_ok() {
            assert_eq!(restore(&HARBOR.founding, &rows(&state)).as_ref(), Ok(&state));
        }
        org::audit::line(&state, &signed);
    }
}
