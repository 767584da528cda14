//! Known attacks through a gateway that was restored from a backup which knows nothing of the signers of now.

use identity::key::Sign as _;
use trials::attack::intruder::Intruder;
use trials::attack::thief::Thief;
use trials::place::{Place, binary, output, refused, succeeded, text, until};

use super::Two;
use super::smuggled::{Loot, replace};
use super::varied::heard;

/// From the specification of age.
const IDENTITY: &str = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
const RECIPIENT: &str = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";

/// The first gateway's half of a backup takes the place of what is there.
pub fn put_back(place: &Place, backup: &str) {
    let folder = place.org().join("gateway");
    std::fs::remove_dir_all(&folder).unwrap();
    let identity = place.passphrase("identity");
    std::fs::write(&identity, IDENTITY).unwrap();
    let mut command = std::process::Command::new(binary("freehold"));
    let words = ["backup", "restore", backup, "--only", "gateway", "--identity", &identity, "--home"];
    command.args(words).arg(place.path("again")).current_dir(place.path(""));
    succeeded(&output(command));
    std::fs::rename(place.path("again/harbor/gateway"), folder).unwrap();
}

pub fn back_up(place: &Place, name: &str) {
    succeeded(&place.freehold(&["backup", "create", "--out", name, "--to", RECIPIENT]));
}

#[test]
fn through_a_restored_gateway_that_takes_replaced_signers_for_those_of_now_nothing_comes() {
    let (two, laptop, vps) = Two::founded(&["--signers", "2-of-3", "--recovery-delay", "1s"]).both_serve();
    let (place, b) = (&two.place, two.address());
    let loot = Loot::before(&two, "laptop");
    two.settle();
    back_up(place, "backup");
    replace(&two);
    two.settle();
    assert_eq!(laptop.stop(), Some(0));
    put_back(place, "backup");
    // Whose disk it is goes by signers who were replaced since, and they sign with the thief.
    let restored = Intruder::at(place.org().join("gateway"));
    assert_eq!(restored.state().signer_set().version, 1);
    let voice = restored.voice().public();
    let last = loot.smuggle(&restored);
    let laptop = place.serve();
    let second = Intruder::at(place.scope("vps").join("gateway"));
    heard(&second, last);
    refused(&place.join("web-5", &loot.outdated), "");
    loot.check(&two, &b, &second);
    // It goes on with them and hears of nobody else: it may refuse service. Its chain ends where it held, at the survivor.
    until("it is removed", || {
        place.freehold(&["gateway", "remove", "laptop", "--yes", "--gateway", &b]).status.success()
    });
    assert!(
        Thief::of(place).known().head.head.revocations.voices.contains(&voice),
        "the voice that wrote it is closed"
    );
    loot.check(&two, &b, &second);
    assert_eq!(two.at(&b, &["audit", "--verify"])["ok"], true);
    let code = text(&two.at(&b, &["invite", "create", "--at", "vps", "--name", "web-2"]), "code");
    succeeded(&place.join("web-2", &code));
    drop((laptop, vps));
}
