//! PostgreSQL: a server that owns its SVID, and a user of the database who is who the certificate names.

use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use trials::place::{ended, mode, output, stdout, succeeded, until};
use trials::port::Claim;

use super::{Home, block, serial_shown, service, user};

fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        versions.map(|entry| entry.path().join("bin").join(name)).filter(|path| path.exists()).collect();
    found.sort();
    found.pop().unwrap_or_else(|| panic!("PostgreSQL is not installed: scripts/test does it"))
}

fn as_user(name: &str, program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={name}"), &format!("--regid={name}"), "--clear-groups"]);
    command.arg(program.as_ref()).current_dir("/").stdin(Stdio::null());
    command
}

/// A server with a folder of its own. Ends in good order.
struct Server {
    process: Child,
}

impl Server {
    fn make(folder: &Path, settings: &str) -> PathBuf {
        std::fs::create_dir(folder).unwrap();
        chown(folder, Some(user("postgres")), None).unwrap();
        let data = folder.join("data");
        let mut make = as_user("postgres", program("initdb"));
        make.args(["--auth=trust", "--username=ann", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"]).arg(&data);
        succeeded(&output(make));
        let config = data.join("postgresql.conf");
        let usual = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, format!("{usual}\n{settings}\n")).unwrap();
        std::fs::write(data.join("pg_hba.conf"), block("hba")).unwrap();
        data
    }

    fn start(data: &Path, port: u16) -> Self {
        let mut serve = as_user("postgres", program("postgres"));
        serve.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-F", "-k", "", "-D"]).arg(data);
        let server = Self { process: serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap() };
        until("the database listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::INT);
        let _ = self.process.wait();
    }
}

/// The guide's line, as somebody, with the folder of somebody.
fn psql(home: &Home, port: u16, change: impl Fn(String) -> String) -> Output {
    let shown = home.shown("psql");
    let words = shown.split_once('"').unwrap().1.rsplit_once('"').unwrap().0;
    let words = words
        .replace("5432", &port.to_string())
        .replace("host=db.example.org", "host=db.example.org hostaddr=127.0.0.1");
    let mut command = as_user("www-data", "/usr/bin/psql");
    command.args(["-X", "-A", "-t", "-c", "select current_user, ssl from pg_stat_ssl where pid = pg_backend_pid()"]);
    command.arg(change(words)).env("HOME", "/nonexistent");
    output(command)
}

#[test]
fn postgresql_knows_a_user_by_its_svid_and_takes_a_renewed_one() {
    let mut home = Home::of("30s");
    let port = Claim::new();
    let folder = home.place().path("postgres");
    let settings = home.shown("postgresql");
    let data = Server::make(&folder, &settings);
    let reload = format!(
        "[/usr/bin/setpriv, --reuid=postgres, --regid=postgres, --clear-groups, {}, reload, -D, {}]",
        program("pg_ctl").display(),
        data.display()
    );
    let db = service("db").replace("5432", &port.port.to_string());
    let db = db.replace("[/usr/bin/systemctl, reload, postgresql]", &reload);
    home.publish(&db, "    svid: {owner: www-data}");
    for whose in ["service-db", "user-ann"] {
        home.has(whose);
    }
    // Each key is for its program, and for nobody else.
    for (whose, owner) in [("service-db", "postgres"), ("user-ann", "www-data")] {
        let key = home.folder(whose).join("svid.key").canonicalize().unwrap();
        assert_eq!((std::fs::metadata(&key).unwrap().uid(), mode(&key)), (user(owner), 0o600), "{whose}");
    }
    let mut peek = as_user("www-data", "/bin/cat");
    peek.arg(home.folder("service-db").join("svid.key"));
    assert!(!output(peek).status.success(), "another's key");

    let _server = Server::start(&data, port.port);
    let told = psql(&home, port.port, |words| words);
    succeeded(&told);
    assert_eq!(stdout(&told), "ann|t\n");
    for (from, to, why) in [
        ("user=ann", "user=ben", "certificate authentication failed"),
        ("host=db.example.org", "host=wiki.example.org", "does not match host name"),
        ("sslmode=verify-full", "sslmode=disable", "no encryption"),
    ] {
        ended(&psql(&home, port.port, |words| words.replace(from, to)), 2, why);
    }

    let ann = home.folder("user-ann");
    let shown = || serial_shown(ann.to_str().unwrap(), port.port, &["-starttls", "postgres"]);
    let first = shown().unwrap();
    until("the server shows another certificate", || shown().is_some_and(|serial| serial != first));
    let told = psql(&home, port.port, |words| words);
    succeeded(&told);
}
