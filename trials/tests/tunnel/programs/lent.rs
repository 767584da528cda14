//! What is lent and given back: git by name, by proxy and over ssh; ssh and scp by a SOCKS proxy and by name.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use trials::place::{output, stderr, stdout, succeeded};

use super::{Said, Wharf, noise};

const SAID: Said<'static> = Said {
    users: "",
    beta: "      socks: \"127.0.0.1:1080\"
      resolver: \"127.0.0.1:53\"",
    listens: &["socks", "resolver", "service/repo", "service/shell", "service/web"],
    told: &[],
    by: "tls",
};
const MIB: usize = 1 << 20;

fn git(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.current_dir(folder).args(["-c", "user.name=ann", "-c", "user.email=ann@harbor.example"]).args(words);
    command.env("HOME", folder).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0");
    command
}

fn did(folder: &Path, words: &[&str]) -> String {
    let ended = output(git(folder, words));
    succeeded(&ended);
    stdout(&ended).trim().to_owned()
}

/// A repository of a few MiB below the folder that is lent.
fn repository(wharf: &Wharf) -> PathBuf {
    let (draft, lent) = (wharf.place.path("draft"), wharf.place.path("lent"));
    for folder in [&draft, &lent] {
        std::fs::create_dir(folder).unwrap();
    }
    did(&draft, &["init", "-q", "-b", "main"]);
    for turn in 0..3 {
        std::fs::write(draft.join("chart.bin"), noise(MIB)).unwrap();
        std::fs::write(draft.join(format!("note-{turn}")), "low tide\n").unwrap();
        did(&draft, &["add", "."]);
        did(&draft, &["commit", "-q", "-m", "Draw the chart again"]);
    }
    did(&lent, &["clone", "-q", "--bare", &draft.to_string_lossy(), "charts.git"]);
    lent
}

/// Keys, a server that takes them, and what its callers say.
struct Shell {
    folder: PathBuf,
    user: String,
}

impl Shell {
    fn serve(wharf: &mut Wharf) -> Self {
        let folder = wharf.place.path("ssh");
        std::fs::create_dir(&folder).unwrap();
        for key in ["host", "own"] {
            let mut command = Command::new("ssh-keygen");
            command.current_dir(&folder).args(["-q", "-t", "ed25519", "-N", "", "-f", key]);
            succeeded(&output(command));
        }
        let at = folder.display();
        let config = format!(
            "ListenAddress 127.0.0.1:2222\nHostKey {at}/host\nAuthorizedKeysFile {at}/own.pub\nPidFile none\nUsePAM no
StrictModes no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n"
        );
        std::fs::write(folder.join("sshd_config"), config).unwrap();
        let host = std::fs::read_to_string(folder.join("host.pub")).unwrap();
        let known = format!("shell.harbor.internal,[shell.harbor.internal]:2222 {host}");
        std::fs::write(folder.join("known_hosts"), known).unwrap();
        // What the package makes only when the machine boots.
        std::fs::create_dir_all("/run/sshd").unwrap();
        std::fs::set_permissions("/run/sshd", Permissions::from_mode(0o755)).unwrap();
        let mut sshd = Command::new("/usr/sbin/sshd");
        sshd.args(["-D", "-e", "-f"]).arg(folder.join("sshd_config"));
        wharf.serve("shell", &sshd);
        let mut who = Command::new("id");
        who.arg("-un");
        let user = stdout(&output(who)).trim().to_owned();
        let shell = Self { folder, user };
        shell.configure();
        shell
    }

    /// What `ann` wrote into her own, as the guide says, and which keys she means.
    fn configure(&self) {
        let at = self.folder.display();
        let config = format!(
            "Host *.harbor.internal
    ProxyCommand nc -X 5 -x 127.0.0.1:1080 %h %p
    UserKnownHostsFile {at}/known_hosts\n    IdentityFile {at}/own\n    IdentitiesOnly yes
    StrictHostKeyChecking yes\n    BatchMode yes\n"
        );
        std::fs::write(self.folder.join("config"), config).unwrap();
    }

    /// `ssh` or `scp` with her configuration.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-F").arg(self.folder.join("config"));
        command
    }

    fn there(&self) -> String {
        format!("{}@shell.harbor.internal", self.user)
    }
}

#[test]
fn git_clones_by_name_and_by_proxy_and_pushes_over_ssh() {
    let mut wharf = Wharf::new(&[("repo", 9418), ("web", 8080), ("shell", 2222)], SAID);
    let lent = repository(&wharf);
    let original = lent.join("charts.git");
    // Itself, not by way of `git`, which would only wait for it.
    let mut daemon = Command::new(Path::new(&did(&lent, &["--exec-path"])).join("git-daemon"));
    daemon.args(["--reuseaddr", "--export-all", "--listen=127.0.0.1", "--base-path=.", "."]).current_dir(&lent);
    wharf.serve("repo", &daemon);
    let shell = Shell::serve(&mut wharf);
    serve_web(&mut wharf, &lent);
    let home = wharf.place.path("ann");
    std::fs::create_dir(&home).unwrap();
    let head = did(&original, &["rev-parse", "main"]);

    // A program that knows no proxy goes by the name.
    wharf.ran(&git(&home, &["clone", "-q", "git://repo.harbor.internal/charts.git", "by-name"]));
    // One that does lets the proxy look the name up.
    let url = "http://web.harbor.internal/cgi-bin/git/charts.git";
    wharf.ran(&git(&home, &["-c", "http.proxy=socks5h://127.0.0.1:1080", "clone", "-q", url, "by-proxy"]));
    for clone in ["by-name", "by-proxy"] {
        did(&home.join(clone), &["fsck", "--strict"]);
        assert_eq!(did(&home.join(clone), &["rev-parse", "HEAD"]), head, "{clone}");
    }

    // What she changed is given back.
    let clone = home.join("by-name");
    std::fs::write(clone.join("harbor.bin"), noise(2 * MIB)).unwrap();
    did(&clone, &["add", "."]);
    did(&clone, &["commit", "-q", "-m", "Draw the harbor, too"]);
    let url = format!("ssh://{}{}", shell.there(), original.display());
    let mut push = git(&clone, &["push", "-q", &url, "main"]);
    push.env("GIT_SSH_COMMAND", format!("ssh -F '{}/config'", shell.folder.display()));
    wharf.ran(&push);
    did(&original, &["fsck", "--strict"]);
    assert_eq!(did(&original, &["rev-parse", "main"]), did(&clone, &["rev-parse", "HEAD"]));

    let mib = MIB as u64;
    wharf.carried("repo", "tls", 1, (0, 3 * mib));
    wharf.carried("web", "tls", 1, (0, 3 * mib));
    wharf.carried("shell", "tls", 1, (2 * mib, 0));
    wharf.nothing_is_open();
}

/// Git's own server for the web, behind a small server of pages.
fn serve_web(wharf: &mut Wharf, lent: &Path) {
    let folder = wharf.place.path("pages/cgi-bin");
    std::fs::create_dir_all(&folder).unwrap();
    let script =
        format!("#!/bin/sh\nGIT_PROJECT_ROOT='{}' GIT_HTTP_EXPORT_ALL=1 exec git http-backend\n", lent.display());
    std::fs::write(folder.join("git"), script).unwrap();
    std::fs::set_permissions(folder.join("git"), Permissions::from_mode(0o755)).unwrap();
    let mut httpd = Command::new("busybox");
    httpd.args(["httpd", "-f", "-p", "127.0.0.1:8080", "-h"]).arg(wharf.place.path("pages"));
    wharf.serve("web", &httpd);
}

#[test]
fn by_a_relay_ssh_runs_commands_and_scp_carries_files_there_and_back() {
    let mut wharf =
        Wharf::new(&[("shell", 2222)], Said { listens: &["socks", "resolver", "service/shell"], by: "relay", ..SAID });
    let shell = Shell::serve(&mut wharf);
    // By the proxy, at the port that ssh has if nothing is said; by its name, at the port that it has there.
    for more in [&[][..], &["-o", "ProxyCommand=none", "-p", "2222"]] {
        let typed = |words: &str| {
            let mut command = shell.command("ssh");
            command.args(more).arg(shell.there()).arg(words);
            output(wharf.typed(&command))
        };
        // It is `alpha` that answers: its address is nowhere else.
        let told = typed("ip -4 -o addr show dev eth0");
        assert!(stdout(&told).contains(&wharf.lan.address("alpha")), "{}{}", stdout(&told), stderr(&told));
        let ended = typed("echo not quite >&2; exit 7");
        assert_eq!((ended.status.code(), stderr(&ended).contains("not quite")), (Some(7), true), "{}", stderr(&ended));
    }
    let (original, there, back) =
        (wharf.noise("cargo", 8 * MIB), wharf.place.path("cargo.there"), wharf.place.path("cargo.back"));
    let remote = format!("{}:{}", shell.there(), there.display());
    let scp = |from: &str, to: &str| {
        let mut command = shell.command("scp");
        command.args(["-q", from, to]);
        wharf.ran(&command);
    };
    scp(&original.to_string_lossy(), &remote);
    scp(&remote, &back.to_string_lossy());
    let bytes = std::fs::read(original).unwrap();
    assert!(std::fs::read(there).unwrap() == bytes && std::fs::read(back).unwrap() == bytes, "not the same bytes");
    let all = bytes.len() as u64;
    wharf.carried("shell", "relay", 6, (all, all));
    wharf.nothing_is_open();
}
