//! The agent as a service, under a real systemd that is the first process of a container.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use trials::place::{Place, binary, ended, output, stderr, stdout, succeeded};

/// What runs inside, as a service of the container's systemd. Each `so` is a line of the test.
const WALK: &str = include_str!("walk.sh");

/// A container over a copy-on-write view of this machine's own files, without a network of others.
const CONTAINER: &str = r#"
set -eu
cd "$1"
mount -t tmpfs tmpfs over
mkdir over/upper over/work
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/over/upper,workdir=$1/over/work" root
# Whatever an agent left on this machine is gone in the container alone: nobody joined there yet.
rm -rf root/var/lib/freehold root/usr/local/bin/freehold-node
rm -f root/etc/systemd/system/freehold-node@*.service root/etc/systemd/system/*.wants/freehold-node@*.service
mkdir root/trial
cp walk.sh freehold-node root/trial
cp "$2" root/trial/freehold
rm -f root/etc/machine-id
: >root/etc/machine-id
cat >root/etc/systemd/system/trial.service <<END
[Unit]
Wants=network.target
[Service]
Type=oneshot
Environment=HOME=/root USER=ann
ExecStart=/bin/sh /trial/walk.sh
StandardOutput=file:/trial/log
StandardError=inherit
ExecStopPost=/bin/systemctl exit --force
END
printf '[Unit]\nRequires=trial.service\n' >root/etc/systemd/system/trial.target
timeout 300 systemd-nspawn --quiet --register=no --keep-unit --private-network --console=pipe --boot \
    --directory=root systemd.unit=trial.target </dev/null || :
cat root/trial/log
"#;

#[test]
fn systemd_keeps_the_agent_running_and_lets_it_go() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["over", "root"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    std::fs::write(folder.path().join("walk.sh"), WALK).unwrap();
    std::fs::write(folder.path().join("freehold-node"), super::real_agent()).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", CONTAINER, "sh"]).arg(folder.path());
    command.arg(binary("freehold")).stdin(Stdio::null());
    let told = output(command);
    let log = stdout(&told);
    assert!(log.trim_end().ends_with("ALL SO"), "{log}{}", stderr(&told));
}

fn verify(unit: &Path) -> Output {
    let mut command = Command::new("systemd-analyze");
    command.arg("verify").arg("--man=no").arg(unit);
    output(command)
}

#[test]
fn the_unit_is_clean() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let printed = place.node("web-1", &["service", "install", "--dry-run"], "");
    succeeded(&printed);
    let unit = place.path("freehold-node@harbor.service");
    std::fs::write(&unit, stdout(&printed)).unwrap();
    // It ends with 0 whatever it finds: what counts is that it has nothing to say.
    let told = verify(&unit);
    assert_eq!((stdout(&told), stderr(&told)), (String::new(), String::new()));
    std::fs::write(&unit, stdout(&printed).replace("PrivateTmp", "PrivatTmp")).unwrap();
    assert!(stderr(&verify(&unit)).contains("PrivatTmp"), "it would not have said anything");
}

#[test]
fn where_systemd_does_not_run_the_way_without_it_is_told() {
    assert!(!Path::new("/run/systemd/system").exists(), "this test is for a machine without systemd");
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    place.joined("web-1");
    let told = place.node("web-1", &["service", "install"], "");
    ended(&told, 1, "systemd does not run here");
    assert!(stderr(&told).contains("freehold-node run --as harbor"), "{}", stderr(&told));
    ended(&place.node("web-1", &["service", "remove"], ""), 1, "systemd does not run here");
    let told = trials::place::json(&place.node("web-1", &["service", "status", "--json"], ""));
    assert_eq!((&told["installed"], &told["running"]), (&false.into(), &false.into()), "{told}");
    ended(&place.node("nobody", &["service", "install"], ""), 1, "no org was joined");
}
