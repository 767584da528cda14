//! What programs are handed: as the manifest says, whole, told once for each change, and taken away again.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use trials::place::{as_fact, below, mode, output, stdout, succeeded, until};

use super::{Home, user};

const WIKI: &str = "spiffe://harbor/service/wiki";

const PLAIN: &str = "services:\n  wiki: {at: web-1, addr: '127.0.0.1:1', groups: pages}";

fn wiki(svid: &str) -> String {
    format!("services:\n  wiki: {{at: web-1, addr: '127.0.0.1:1', groups: pages, svid: {{{svid}}}}}")
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

#[test]
fn a_program_is_told_once_for_each_change_and_after_the_files_are_there() {
    let mut home = Home::of("24h");
    let log = home.place().path("log");
    // What it finds when it is told, in one line each time.
    let found = format!("cat {}/service-wiki/svid.key | sha256sum >> {}", home.programs().display(), log.display());
    let hook = |what: &str| format!("reload: [/bin/sh, -c, \"{what}\"]");
    home.publish(&wiki(&hook(&found)), "");
    until("it was told", || lines(&log) == 1);
    let sum = || {
        let mut command = std::process::Command::new("sha256sum");
        command.arg(home.folder("service-wiki").join("svid.key"));
        let told = output(command);
        succeeded(&told);
        stdout(&told).split(' ').next().unwrap().to_owned()
    };
    assert!(std::fs::read_to_string(&log).unwrap().starts_with(&sum()));
    until("that is written down", || home.told(WIKI)["told_at"].is_string());
    // Nothing changes with more exchanges, nor with another start.
    home.agent.take().unwrap().stop();
    let at = home.told(WIKI)["told_at"].clone();
    home.agent = Some(home.place().agent("web-1"));
    until("it has checked in", || home.place().status("web-1")["last_check_in"].is_string());
    succeeded(&home.place().node("web-1", &["sync", "--now"], ""));
    assert_eq!((lines(&log), &home.told(WIKI)["told_at"]), (1, &at));

    // Another group: other files, and it is told. Who owns them before it is told is who the manifest says.
    let group = format!("{}, group: www-data, mode: '0640'", hook(&found));
    home.publish(&wiki(&group), "");
    until("it was told again", || lines(&log) == 2);
    let key = home.folder("service-wiki").join("svid.key").canonicalize().unwrap();
    assert_eq!((mode(&key), std::fs::metadata(&key).unwrap().gid()), (0o640, user("www-data")));
    // It fails, and does not end: both are told, and the files stay.
    home.publish(&wiki(&hook("echo no such light >&2; exit 3")), "");
    until("the failure is told", || home.told(WIKI)["untold"] == true);
    let why = home.told(WIKI)["problem"]["why"].to_string();
    assert!(why.contains("/bin/sh ended with exit status: 3: no such light"), "{why}");
    assert!(home.folder("service-wiki").join("svid.pem").exists());
    // Mended by hand, it is run again when somebody asks.
    let mended = home.place().path("mended");
    home.publish(&wiki(&hook(&format!("test -e {} || exit 4", mended.display()))), "");
    until("it fails otherwise", || home.told(WIKI)["problem"]["why"].to_string().contains("status: 4"));
    std::fs::write(&mended, "").unwrap();
    succeeded(&home.place().node("web-1", &["sync", "--now"], ""));
    until("it is well", || home.told(WIKI)["problem"].is_null());

    // Without a word in the fleet its program has nothing, and no key lies anywhere but where the agent has it.
    home.publish(PLAIN, "");
    until("it is taken away", || !home.folder("service-wiki").exists());
    let left = below(&home.programs());
    assert!(left.is_empty(), "{left:?}");
    assert!(home.place().scope("web-1").join("principals/service-wiki/svid.key").exists());
}

#[test]
fn who_is_kept_out_by_a_folder_above_is_told_which() {
    let mut home = Home::of("24h");
    let above = home.place().path("");
    std::fs::set_permissions(&above, std::fs::Permissions::from_mode(0o700)).unwrap();
    home.publish(&wiki("owner: www-data"), "");
    let problem = |home: &Home| home.told(WIKI)["problem"]["why"].as_str().unwrap_or_default().to_owned();
    until("the problem is told", || !problem(&home).is_empty());
    let above = above.canonicalize().unwrap();
    let told = format!("others cannot pass `{0}`: chmod o+x '{0}'", above.display());
    assert_eq!(problem(&home), as_fact(&told));
    let doctor = stdout(&home.place().node("web-1", &["doctor"], ""));
    assert!(doctor.contains("others cannot pass"), "{doctor}");
    std::fs::set_permissions(&above, std::fs::Permissions::from_mode(0o711)).unwrap();
    until("it is well", || problem(&home).is_empty());
    // An account that is not there is told, too, and the rest goes on.
    home.publish(&wiki("owner: no-such-one"), "");
    until("the account is missed", || problem(&home).contains("there is no user no-such-one in /etc/passwd"));
    // What is open to others is so on purpose.
    let doctor = stdout(&home.place().node("web-1", &["doctor"], ""));
    assert!(doctor.contains("all for their owner alone"), "{doctor}");
}

#[test]
fn what_goes_back_takes_nothing_from_a_program() {
    let mut home = Home::of("24h");
    home.publish(&wiki("dns: wiki.example.org"), "");
    home.has("service-wiki");
    until("it is settled", || home.place().status("web-1")["applied"]["confirmed"].is_string());
    let before = home.serial("service-wiki");
    // The next state never holds: a check that fails. On trial, and back again, its program keeps its files, and its name.
    let id = "  web-1:\n    apply: {deadline: 3s}\n    checks:\n      never: {command: [/bin/false], timeout: 1s}\n";
    home.declare(PLAIN, "");
    let path = home.place().path("fleet/fleet.yaml");
    let text = std::fs::read_to_string(&path).unwrap().replace("  web-1:\n", id);
    std::fs::write(&path, text).unwrap();
    home.scene.publish();
    until("it went back", || home.place().status("web-1")["applied"]["rolled_back"].is_object());
    assert!(home.folder("service-wiki").join("svid.key").exists());
    assert_eq!(home.serial("service-wiki"), before);
    assert_eq!(home.reading("service-wiki").dns, ["wiki.example.org"]);
}
