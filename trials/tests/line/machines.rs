//! Machines of every kind, and machines that lack something: each is told plainly what, and what to do.

use std::process::Stdio;

use trials::faults::SmallDisk;
use trials::network::shelf::Way;
use trials::place::{ended, stderr, stdout, succeeded};

use super::{Host, Mirror, marking, write_program};

fn mirror(host: &Host) -> Mirror {
    Mirror::of(&marking(&host.path("mark")))
}

/// It failed for this reason, with a hint, and nothing ran.
fn told(host: &Host, mirror: &Mirror, exit: i32, why: &str) -> String {
    let told = mirror.run(host, &[], "code");
    ended(&told, exit, why);
    assert!(stderr(&told).contains("\nhint: "), "{}", stderr(&told));
    assert!(!host.path("mark").exists() && !host.agent().exists(), "{}", stderr(&told));
    stderr(&told)
}

#[test]
fn each_platform_gets_its_own_agent() {
    let platforms = [
        ("Linux", "x86_64", "linux x86_64"),
        ("Linux", "aarch64", "linux aarch64"),
        ("Linux", "armv7l", "linux armv7"),
        ("Linux", "armv6l", "linux armv7"),
        ("Linux", "i586", "linux i686"),
        ("Linux", "riscv64", "linux riscv64"),
        ("Darwin", "arm64", "macos aarch64"),
        ("Darwin", "x86_64", "macos x86_64"),
        ("FreeBSD", "amd64", "freebsd x86_64"),
        ("OpenBSD", "arm64", "openbsd aarch64"),
        ("NetBSD", "evbarm", "netbsd aarch64"),
        ("SunOS", "i86pc", "illumos x86_64"),
    ];
    for (system, machine, wanted) in platforms {
        let mut host = Host::new();
        let uname = format!("#!/bin/sh\ncase $1 in -s) echo {system};; -m) echo {machine};; -p) echo aarch64;; esac\n");
        host.tool("uname", &uname);
        let agent = marking(&host.path("mark"));
        let mirror = Mirror::listed(&agent, wanted);
        let told = mirror.run(&host, &[], "code");
        assert!(told.status.success(), "{wanted}: {}", stderr(&told));
        assert!(stdout(&told).contains(&format!("for {wanted}, ")), "{wanted}: {}", stdout(&told));
    }
}

#[test]
fn a_platform_without_an_agent_is_told_what_there_is_and_whom_to_ask() {
    for (system, machine, said) in [("Plan9", "mips", "Plan9 mips"), ("FreeBSD", "amd64", "freebsd x86_64")] {
        let mut host = Host::new();
        host.tool("uname", &format!("#!/bin/sh\ncase $1 in -s) echo {system};; *) echo {machine};; esac\n"));
        let mirror = Mirror::listed(&marking(&host.path("mark")), "linux x86_64");
        let why = format!("there is no agent for this machine, {said}; the invite has: linux x86_64");
        let told = told(&host, &mirror, 1, &why);
        assert!(told.contains("freehold release add"), "{told}");
    }
    let mut host = Host::new();
    host.tool("uname", "#!/bin/sh\necho MINGW64_NT-10.0\n");
    let mirror = mirror(&host);
    assert!(told(&host, &mirror, 1, "this is Windows").contains("PowerShell"));
}

#[test]
fn a_list_of_a_kind_that_is_not_known_is_not_guessed_at() {
    for list in ["freehold-agents 2\n", "", "<html>\n", "freehold-agents 1\nlinux x86_64 zz 5 1\n"] {
        let host = Host::new();
        let mut mirror = mirror(&host);
        if list.is_empty() {
            continue;
        }
        mirror.list = mirror.shelf.put(list.as_bytes(), Way::AsItIs);
        told(&host, &mirror, 3, "the list of agents is ");
    }
}

#[test]
fn any_fetcher_and_any_hasher_will_do() {
    for fetcher in ["curl", "wget"] {
        for hasher in ["sha256sum", "shasum", "openssl"] {
            let perl: &[&str] = if hasher == "shasum" { &["perl"] } else { &[] };
            let host = Host::with_only(&[&[fetcher, hasher], perl].concat());
            let mirror = mirror(&host);
            let told = mirror.run(&host, &[], "code");
            assert!(told.status.success(), "{fetcher}, {hasher}: {}", stderr(&told));
            assert!(host.agent().exists());
        }
    }
}

#[test]
fn the_hasher_of_illumos_will_do() {
    let mut host = Host::with_only(&["curl"]);
    let digest = "#!/bin/sh\n[ \"$1 $2\" = '-a sha256' ] || exit 2\nset -- $(/usr/bin/sha256sum \"$3\")\necho \"$1\"\n";
    host.tool("digest", digest);
    let mirror = mirror(&host);
    succeeded(&mirror.run(&host, &[], "code"));
    // A tool of the same name that does something else is passed over.
    let mut host = Host::with_only(&["curl", "openssl"]);
    host.tool("digest", "#!/bin/sh\necho 'SHA256 (-a) = 00'\n");
    host.tool("sha256sum", "#!/bin/sh\necho e3b0\n");
    succeeded(&mirror.run(&host, &[], "code"));
}

#[test]
fn a_machine_without_a_fetcher_or_a_hasher_is_told_which() {
    let host = Host::with_only(&["curl"]);
    told(&host, &mirror(&host), 1, "nothing here can compute a SHA-256");
    let host = Host::with_only(&["sha256sum"]);
    told(&host, &mirror(&host), 1, "there is neither curl nor wget here");
    // As in the smallest of systems.
    let mut host = Host::with_only(&["sha256sum"]);
    host.tool("wget", "#!/bin/sh\nexec /usr/bin/busybox wget \"$@\"\n");
    told(&host, &mirror(&host), 1, "this wget cannot check whom it talks to");
}

#[test]
fn whoever_is_not_root_is_told_so() {
    let host = Host::new();
    let mirror = mirror(&host);
    let url = mirror.shelf.url();
    let command = host.command(&mirror.words(&url, &[]));
    let mut setpriv = std::process::Command::new("setpriv");
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(command.get_program());
    setpriv.args(command.get_args()).env("TMPDIR", "/tmp").env_remove("FREEHOLD_BIN").stdin(Stdio::null());
    let told = setpriv.output().unwrap();
    ended(&told, 1, "you are not root, and only root may write to /usr/local/bin");
    assert!(stderr(&told).contains("FREEHOLD_BIN"), "{}", stderr(&told));
}

#[test]
fn whoever_is_not_root_can_have_it_for_themselves() {
    let host = Host::new();
    let mirror = mirror(&host);
    std::os::unix::fs::chown(host.folder.path(), Some(65534), Some(65534)).unwrap();
    std::os::unix::fs::chown(host.path("tmp"), Some(65534), Some(65534)).unwrap();
    let url = mirror.shelf.url();
    let command = host.command(&mirror.words(&url, &[]));
    let mut setpriv = std::process::Command::new("setpriv");
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(command.get_program());
    setpriv.args(command.get_args()).envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let told = setpriv.stdin(Stdio::null()).output().unwrap();
    succeeded(&told);
    assert!(stdout(&told).contains("No service was installed"), "{}", stdout(&told));
    assert_eq!(std::fs::read_to_string(host.path("mark")).unwrap(), "--version\njoin\n");
}

#[test]
fn a_full_disk_is_named_and_the_next_run_goes_on() {
    let host = Host::new();
    let agent = marking(&host.path("mark"));
    let mirror = Mirror::of(&agent);
    let disk = SmallDisk::at(host.path("bin"), "1m");
    disk.leave(40 << 10);
    assert!(told(&host, &mirror, 1, "is full").contains("KiB are free"));
    assert_eq!(mirror.shelf.asked(&mirror.agent), [], "what has no room is not fetched");
    disk.make_room();
    succeeded(&mirror.run(&host, &[], "code"));
    assert_eq!(std::fs::read(host.agent()).unwrap(), agent);
}

#[test]
fn a_disk_that_fills_up_meanwhile_is_named() {
    // `df` of a machine that says too much at first: the writing fails, not the question.
    let mut host = Host::new();
    let mirror = mirror(&host);
    let disk = SmallDisk::at(host.path("bin"), "1m");
    disk.leave(40 << 10);
    let df = "#!/bin/sh\nif [ -e \"$HOME/asked\" ]; then exec /usr/bin/df \"$@\"; fi\n: >\"$HOME/asked\"\nexec /usr/bin/df -Pk /\n";
    host.tool("df", df);
    told(&host, &mirror, 1, "is full");
    assert_eq!(mirror.shelf.asked(&mirror.agent), [None]);
}

#[test]
fn a_full_or_missing_temporary_folder_is_named() {
    // The first has no mktemp, the others do.
    let (without, host) = (Host::with_only(&["curl", "sha256sum"]), Host::new());
    let mirror = mirror(&host);
    let url = mirror.shelf.url();
    let mut command = without.command(&mirror.words(&url, &[]));
    command.env("TMPDIR", host.path("nowhere")).stdin(Stdio::null());
    ended(&command.output().unwrap(), 1, "no folder of one's own can be made in");
    let mut command = host.command(&mirror.words(&url, &[]));
    command.env("TMPDIR", host.path("nowhere")).stdin(Stdio::null());
    ended(&command.output().unwrap(), 1, "no folder of one's own can be made in");
    let disk = SmallDisk::at(host.path("small"), "64k");
    disk.leave(0);
    let mut command = host.command(&mirror.words(&url, &[]));
    command.env("TMPDIR", host.path("small")).stdin(Stdio::null());
    ended(&command.output().unwrap(), 1, "hint: make room");
}

#[test]
fn an_agent_that_does_not_run_here_is_not_put_in() {
    let host = Host::new();
    let mirror = Mirror::of(b"\x7fELF of another world");
    told(&host, &mirror, 1, "the agent for linux x86_64 does not run here");
    assert_eq!(std::fs::read_dir(host.path("bin")).unwrap().count(), 0);
    // The old one stays.
    write_program(&host.agent(), b"#!/bin/sh\nexit 0\n");
    ended(&mirror.run(&host, &["--reinstall"], ""), 1, "does not run here");
    assert_eq!(std::fs::read(host.agent()).unwrap(), b"#!/bin/sh\nexit 0\n");
}

#[test]
fn wrong_words_are_named() {
    let host = Host::new();
    let mirror = mirror(&host);
    let (url, short) = (mirror.shelf.url(), "12".to_owned());
    let rows: [(&[&str], &str); 8] = [
        (&[], "no --gateway was given"),
        (&["--gateway", &url], "no --root was given"),
        (&["--gateway", &url, "--root", &mirror.root], "no --agents was given"),
        (&["--gateway", "http://127.0.0.1:1"], "not the address of a gateway"),
        (&["--gateway", "https://127.0.0.1:1/x"], "not the address of a gateway"),
        (&["--root", &short], "is not a SHA-256"),
        (&["--as", "../x"], "the name of a scope"),
        (&["--insecure"], "`--insecure` is not an option"),
    ];
    for (words, why) in rows {
        ended(&host.run(words, ""), 2, why);
    }
    ended(&host.run(&["--name"], ""), 2, "`--name` needs a value");
    succeeded(&host.run(&["--help"], ""));
}
