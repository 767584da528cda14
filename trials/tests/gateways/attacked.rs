//! A gateway that is stolen, removed, or set back.

use trials::place::{succeeded, text, until};

use super::Two;

#[test]
fn a_removed_gateway_is_told_nothing_more() {
    let (two, _laptop, _vps) = Two::serving();
    let (place, a, b) = (&two.place, two.place.address(), two.address());
    two.settle();
    succeeded(&place.freehold(&["gateway", "remove", "vps", "--yes", "--gateway", &a]));
    let invite = two.at(&a, &["invite", "create", "--name", "late"]);
    succeeded(&place.join("late", &text(&invite, "code")));
    // It is believed by nobody, and what happens now it does not hear.
    let told = place.freehold(&["node", "list", "--gateway", &b]);
    assert!(!told.status.success(), "nobody believes it");
    let ledger = place.scope("vps").join("gateway/ledger.db");
    let knows_late = || {
        let db = rusqlite::Connection::open(&ledger).unwrap();
        let count: i64 =
            db.query_row("SELECT count(*) FROM derived WHERE value LIKE '%\"late\"%'", [], |row| row.get(0)).unwrap();
        count > 0
    };
    place.joined("later");
    assert!(!knows_late());
}

#[test]
fn a_gateway_that_was_set_back_halts_although_the_other_could_fill_it_up() {
    let (two, _laptop, vps) = Two::serving();
    let (place, b) = (&two.place, two.address());
    vps.stop();
    let (folder, copy) = (place.scope("vps").join("gateway"), place.path("copy"));
    place.copy(&folder, &copy);
    let vps = two.serve_vps();
    let code = text(&two.at(&b, &["invite", "create", "--name", "lost"]), "code");
    succeeded(&place.join("lost", &code));
    two.settle();
    vps.stop();
    std::fs::remove_dir_all(&folder).unwrap();
    place.copy(&copy, &folder);
    // The laptop has entries in this gateway's own voice that it does not have itself.
    let _vps = two.serve_vps();
    until("it says that it was set back", || {
        let told = place.freehold(&["invite", "create", "--gateway", &b]);
        trials::place::stderr(&told).contains("ledger_behind") || trials::place::stderr(&told).contains("older")
    });
}
