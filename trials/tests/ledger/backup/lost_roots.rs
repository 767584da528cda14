//! The roots are lost: the fleet goes on, and a backup brings them back.

use trials::place::{Place, openssl, succeeded};

use super::{back_up, restore};

#[test]
fn without_the_roots_the_fleet_goes_on_and_a_backup_brings_them_back() {
    let place = Place::founded(&["--svid-ttl", "20s"]);
    let backup = back_up(&place, "backup");
    let roots = ["identity-root.key", "endpoint-root.key", "identity-root.pem", "endpoint-root.pem"];
    let root = |name: &str| place.org().join("operator").join(name);
    let kept: Vec<_> = roots.iter().map(|name| std::fs::read(root(name)).unwrap()).collect();
    for name in roots {
        std::fs::remove_file(root(name)).unwrap();
    }
    let gateway = place.serve();
    place.joined("web-1");
    let agent = place.agent("web-1");
    let serial = || openssl(&place.scope("web-1"), &["x509", "-in", "svid.pem", "-noout", "-serial"]);
    let first = serial();
    trials::place::until("the machine has renewed", || serial() != first);
    succeeded(&place.freehold(&["refresh"]));
    place.joined("web-2");
    succeeded(&place.freehold(&["node", "revoke", "web-2", "--yes"]));
    assert_eq!(place.facts(&["audit", "--verify"])["ok"], true);
    assert_eq!(agent.stop(), Some(0));
    assert_eq!(gateway.stop(), Some(0));
    assert_eq!(place.serve().stop(), Some(0), "it starts again without them");
    // Also a new backup can be made, which says that they are not in it.
    let without = back_up(&place, "without");
    assert_eq!(trials::place::json(&super::verify(&place, &without, &["--json"]))["roots"], false);
    let look = place.path("look");
    succeeded(&restore(&place, &backup, &look, &["--only", "operator"]));
    for (name, bytes) in roots.iter().zip(kept) {
        std::fs::copy(look.join("harbor/operator").join(name), root(name)).unwrap();
        assert_eq!(std::fs::read(root(name)).unwrap(), bytes, "{name}");
    }
    assert_eq!(trials::place::json(&super::verify(&place, &back_up(&place, "with"), &["--json"]))["roots"], true);
}
