//! `freehold doctor`: each thing that it looks at is broken for real, and it says so and how to cure it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use trials::place::{Place, binary, output, stderr, stdout, succeeded, until};

use super::illness::{Told, elsewhere, in_a_small_disk, on_a_clock, snapshot};
use super::serving;

fn doctor(place: &Place) -> Told {
    Told::by(place.freehold_command(&["doctor", "--json"]))
}

#[test]
fn a_gateway_that_is_well_passes_without_a_passphrase() {
    let place = Place::new();
    let words = place.passphrase("correct horse");
    let address = place.address();
    succeeded(&place.freehold(&["found", "harbor", "--passphrase-file", &words, "--advertise", &address]));
    let _gateway = place.serve();
    let told = doctor(&place);
    told.is_well();
    for subject in [
        "version", "clock", "files", "disk", "operator", "ledger", "keys", "issuer", "mandate", "svid", "port", "head",
        "gateway", "endpoint",
    ] {
        assert_eq!(told.mark(subject), "ok", "{told:?}");
    }
    let plain = place.freehold(&["doctor"]);
    succeeded(&plain);
    assert!(stdout(&plain).lines().skip(1).all(|line| line.starts_with("ok ")), "{}", stdout(&plain));
}

#[test]
fn a_doctor_changes_nothing() {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    place.joined("web-1");
    assert_eq!(gateway.stop(), Some(0));
    let before = (snapshot(&place.home()), snapshot(&place.root("web-1")));
    doctor(&place).has("WRONG", "port", "no gateway serves", "freehold serve");
    Told::by(place.node_command("web-1", &["doctor", "--json"])).has(
        "WRONG",
        "agent",
        "does not run",
        "freehold-node run",
    );
    assert_eq!((snapshot(&place.home()), snapshot(&place.root("web-1"))), before);
}

#[test]
fn what_others_can_read_is_named_with_the_command_that_closes_it() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let set = |name: &str, mode: u32| {
        std::fs::set_permissions(place.org().join(name), Permissions::from_mode(mode)).unwrap();
    };
    for (name, mode, right) in [
        ("gateway/voice.key", 0o640, 0o600),
        ("operator/known.json", 0o604, 0o600),
        ("operator/signers", 0o755, 0o700),
        ("gateway/ledger.db", 0o644, 0o600),
        ("gateway/endpoint-root.pem", 0o666, 0o644),
    ] {
        set(name, mode);
        let cure = format!("chmod {right:o} ");
        doctor(&place).has("WRONG", "files", &format!("{name} is open to others (mode {mode:o})"), &cure);
        set(name, right);
        // SQLite gives files that it makes beside the ledger the ledger's own mode.
        for side in ["gateway/ledger.db-wal", "gateway/ledger.db-shm"] {
            if place.org().join(side).exists() {
                set(side, 0o600);
            }
        }
        doctor(&place).is_well();
    }
    let (first, second) = ("gateway/voice.key", "gateway/ledger.db");
    set(first, 0o644);
    set(second, 0o644);
    doctor(&place).has("WRONG", "files", "and 1 more like this", "run this again");
    doctor(&place).has("WRONG", "keys", "can be read by others", "chmod 600");
}

#[test]
fn a_file_of_another_user_is_named() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("NOT TESTED: only root can give a file away");
        return;
    }
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    std::os::unix::fs::chown(place.org().join("gateway/gateway.json"), Some(65_534), None).unwrap();
    doctor(&place).has("WRONG", "files", "gateway.json belongs to user 65534, its folder to user 0", "chown 0 ");
}

#[test]
fn as_another_user_it_says_who_should_run_it() {
    let place = Place::founded(&[]);
    let told = elsewhere(&place, &place.home(), "freehold", &["doctor", "--json", "--home"]);
    told.has("WRONG", "files", "Permission denied", "run this as the owner");
}

#[test]
fn a_port_that_another_holds_and_a_gateway_that_is_down_are_told_apart() {
    let place = Place::founded(&[]);
    let told = doctor(&place);
    told.has("WRONG", "port", "is free", "start it, and let your service manager keep it running: freehold serve");
    told.has("WRONG", "gateway", "Connection refused", "start the gateway there: freehold serve");
    // Killed, it leaves a file behind that says otherwise.
    place.serve().kill();
    doctor(&place).has("WRONG", "port", "no gateway serves", "freehold serve");
    // Another org's gateway sits there.
    let other = Place::founded(&[]);
    let listen = place.address();
    let _other = serving(other.freehold_command(&["serve", "--json", "--listen", &listen]));
    let told = doctor(&place);
    told.has("WRONG", "port", &format!("something else holds {listen}"), "ss -ltnp");
    told.has("WRONG", "gateway", "is not one of this org's", "somebody is in the middle");
}

#[test]
fn a_name_that_leads_nowhere_is_told_from_a_gateway_that_is_down() {
    let place = Place::new();
    let advertised = format!("gateway.invalid:{}", place.port);
    succeeded(&place.freehold(&["found", "harbor", "--unprotected", "--advertise", &advertised]));
    let _gateway = place.serve();
    let told = doctor(&place);
    told.has("WRONG", "gateway", "cannot reach the gateway at gateway.invalid", "mend DNS");
    assert_eq!(told.mark("port"), "ok", "{told:?}");
}

#[test]
fn a_mistake_in_the_configuration_is_found_before_it_matters() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    std::fs::write(place.org().join("gateway/serve.toml"), "lisen = \"127.0.0.1:1\"\n").unwrap();
    doctor(&place).has("WRONG", "config", "did you mean listen?", "freehold serve --help");
}

#[test]
fn a_program_that_was_replaced_under_a_running_gateway_is_noticed() {
    let place = Place::founded(&[]);
    let copy = place.path("freehold-copy");
    std::fs::copy(binary("freehold"), &copy).unwrap();
    let mut command = Command::new(&copy);
    command.args(["serve", "--json", "--listen", &place.address(), "--home"]).arg(place.home());
    let _gateway = serving(command);
    doctor(&place).is_well();
    std::fs::remove_file(&copy).unwrap();
    doctor(&place).has("soon", "version", "a program that was replaced", "restart the gateway");
}

#[test]
fn damage_to_each_file_is_told_with_its_cure() {
    let place = Place::founded(&[]);
    let break_it = |name: &str, subject: &str, found: &str, cure: &str| {
        let path = place.org().join(name);
        let whole = std::fs::read(&path).unwrap();
        for broken in [&b""[..], &whole[..whole.len() / 2], b"\0\xff garbage"] {
            std::fs::write(&path, broken).unwrap();
            doctor(&place).has("WRONG", subject, found, cure);
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(doctor(&place).mark(subject), "wrong");
        // A folder in its place: it cannot even be read.
        std::fs::create_dir(&path).unwrap();
        assert_eq!(doctor(&place).mark(subject), "wrong");
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, whole).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_ne!(doctor(&place).mark(subject), "wrong");
    };
    break_it("gateway/ledger.db", "ledger", "ledger", "put back the newest copy");
    break_it("gateway/voice.key", "keys", "voice.key", "put back the newest copy");
    break_it("gateway/identity-issuer.pem", "keys", "identity-issuer.pem", "put back the newest copy");
    break_it("operator/known.json", "operator", "known.json", "put back a copy");
    break_it("gateway/node/node.json", "svid", "node.json", "let the agent fetch another");
}

#[test]
fn a_ledger_that_is_newer_behind_or_alarmed_is_told() {
    let place = Place::founded(&[]);
    let ledger = || rusqlite::Connection::open(place.org().join("gateway/ledger.db")).unwrap();
    let old = std::fs::read(place.org().join("gateway/ledger.db")).unwrap();
    let gateway = place.serve();
    place.joined("web-1");
    assert_eq!(gateway.stop(), Some(0));
    assert_eq!(doctor(&place).mark("ledger"), "ok");
    ledger().execute("INSERT INTO alarms (node_key, at, why) VALUES ('k', 1, 'w')", []).unwrap();
    doctor(&place).has("WRONG", "ledger", "1 alarms", "freehold node list");
    // Restored from an old copy, and shown its future by a node.
    std::fs::write(place.org().join("gateway/ledger.db"), old).unwrap();
    let gateway = place.serve();
    let _agent = place.agent("web-1");
    until("the gateway was shown its future", || doctor(&place).mark("ledger") == "wrong");
    drop(gateway);
    doctor(&place).has("WRONG", "ledger", "restored from an old copy", "newest copy");
    ledger().execute("INSERT INTO marks (name, at, detail) VALUES ('restored', 1, '{}')", []).unwrap();
    doctor(&place).has("WRONG", "ledger", "restored from a backup", "freehold gateway reopen");
    // As it was before the first release.
    ledger().pragma_update(None, "user_version", 1).unwrap();
    doctor(&place).has("WRONG", "ledger", "before the first release", "found the org anew");
    ledger().pragma_update(None, "user_version", 99).unwrap();
    doctor(&place).has("WRONG", "ledger", "newer freehold: its tables are of version 99", "install the newer freehold");
}

#[test]
fn a_clock_that_is_off_and_what_ends_by_it() {
    let place = Place::founded(&[]);
    let told = on_a_clock("-2d", &place.freehold_command(&["doctor", "--json"]));
    told.has("WRONG", "clock", "slow", "timedatectl set-ntp true");
    told.has("WRONG", "svid", "good only from", "this clock is slow");
    let told = on_a_clock("+25d", &place.freehold_command(&["doctor", "--json"]));
    told.has("soon", "head", "is fresh only until", "freehold refresh");
    told.has("WRONG", "svid", "it ended at", "freehold serve");
    assert_eq!(told.mark("mandate"), "ok");
    let told = on_a_clock("+350d", &place.freehold_command(&["doctor", "--json"]));
    told.has("WRONG", "head", "nobody new is let in", "freehold refresh");
    told.has("soon", "mandate", "ends at", "freehold refresh");
    let told = on_a_clock("+1050d", &place.freehold_command(&["doctor", "--json"]));
    told.has("WRONG", "mandate", "it can issue nothing", "freehold refresh");
    told.has("soon", "issuer", "issuing key ends at", "freehold rotate");
    let told = on_a_clock("+1200d", &place.freehold_command(&["doctor", "--json"]));
    told.has("WRONG", "issuer", "issuing key ended at", "freehold rotate");
    // A gateway whose clock is another one: found by asking it.
    let _gateway = place.serve();
    let told = on_a_clock("+2h", &place.freehold_command(&["doctor", "--json"]));
    told.has("WRONG", "clock", "ahead of the gateway's clock", "find out which is wrong");
    let told = on_a_clock("+156h", &place.freehold_command(&["doctor", "--json"]));
    told.has("soon", "endpoint", "the gateway's certificate ends at", "the gateway's log");
}

#[test]
fn a_disk_that_is_almost_full_is_wrong() {
    let place = Place::founded(&[]);
    let told = in_a_small_disk(&place, &place.home(), "freehold", &["doctor", "--json", "--home"]);
    told.has("WRONG", "disk", "MiB free", "make room");
}

#[test]
fn where_there_is_nothing_it_says_how_to_begin() {
    let place = Place::new();
    doctor(&place).has("WRONG", "org", "there is no org", "freehold found NAME");
    let place = Place::founded(&[]);
    let told = Told::by(place.freehold_command(&["doctor", "--json", "--org", "nowhere"]));
    told.has("WRONG", "files", "nowhere: No such file", "--home DIR");
    let plain = output(place.freehold_command(&["doctor"]));
    assert_eq!(plain.status.code(), Some(1));
    let text = stdout(&plain);
    let line = text.lines().position(|line| line.starts_with("WRONG  port")).unwrap();
    assert!(text.lines().nth(line + 1).unwrap().trim_start().starts_with("cure: start it"), "{text}");
    assert!(stderr(&plain).contains("things looked at are wrong"), "{}", stderr(&plain));
}

#[test]
fn an_operators_machine_looks_at_the_gateway_from_afar() {
    let place = Place::founded(&[]);
    // The gateway's address is learned by the first command.
    succeeded(&place.freehold(&["node", "list"]));
    let elsewhere = place.path("elsewhere/harbor");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::set_permissions(&elsewhere, Permissions::from_mode(0o700)).unwrap();
    std::fs::rename(place.org().join("operator"), elsewhere.join("operator")).unwrap();
    let afar = || {
        let mut command = Command::new(binary("freehold"));
        command.args(["doctor", "--json", "--home"]).arg(place.path("elsewhere"));
        Told::by(command)
    };
    afar().has("WRONG", "gateway", "Connection refused", "freehold serve");
    let _gateway = place.serve();
    afar().is_well();
    assert_eq!(afar().mark("gateway"), "ok");
    // And the gateway's machine without the operator's folder.
    doctor(&place).is_well();
    assert_eq!(doctor(&place).mark("port"), "ok");
}
