//! What is kept open: PostgreSQL and its own client, while the access of somebody else is taken away.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use trials::place::{Running, output, stdout, succeeded, until};

use super::{Said, Wharf};

const BOTH: Said<'static> = Said {
    users: "  bob: {roles: guest, nodes: beta}",
    beta: "      forward:
        \"127.0.0.1:5432\": {service: db, user: ann}
        \"127.0.0.1:5433\": {service: db, user: bob}",
    listens: &["forward/127.0.0.1:5432", "forward/127.0.0.1:5433"],
    told: &[],
    by: "tls",
};
const ANN_ALONE: Said<'static> = Said {
    users: "  bob: {nodes: beta}",
    beta: "      forward:
        \"127.0.0.1:5432\": {service: db, user: ann}",
    listens: &["forward/127.0.0.1:5432"],
    told: &[],
    by: "tls",
};
const ROWS: usize = 100_000;

/// A server with a folder of its own, as the user that its package made: it refuses to be root. Ends in good order.
struct Postgres {
    server: Pid,
    _folder: TempDir,
}

impl Postgres {
    fn serve(wharf: &mut Wharf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let id = |flag: &str| {
            let mut command = Command::new("id");
            command.args([flag, "postgres"]);
            stdout(&output(command)).trim().parse().unwrap()
        };
        chown(folder.path(), Some(id("-u")), Some(id("-g"))).unwrap();
        let data = folder.path().join("data");
        let mut make = as_postgres("initdb");
        make.args(["--auth=trust", "--username=ann", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"]).arg(&data);
        succeeded(&output(make));
        let mut serve = as_postgres("postgres");
        serve.args(["-h", "127.0.0.1", "-p", "5432", "-F", "-k"]).arg(folder.path()).arg("-D").arg(&data);
        wharf.serve("db", &serve);
        let pid = std::fs::read_to_string(data.join("postmaster.pid")).unwrap();
        let pid = pid.lines().next().unwrap().parse().unwrap();
        Self { server: Pid::from_raw(pid).unwrap(), _folder: folder }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = kill_process(self.server, Signal::INT);
        until("the database ends", || {
            let state = std::fs::read_to_string(format!("/proc/{}/stat", self.server.as_raw_pid()));
            // Ended, whether or not somebody has asked for its exit code.
            state.map_or(true, |state| state.contains(") Z "))
        });
    }
}

fn as_postgres(program: &str) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        versions.map(|entry| entry.path().join("bin").join(program)).filter(|path| path.exists()).collect();
    found.sort();
    let newest = found.pop().unwrap_or_else(|| panic!("PostgreSQL is not installed: scripts/test does it"));
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(newest).current_dir("/");
    command
}

fn psql(port: u16) -> Command {
    let mut command = Command::new("psql");
    let port = port.to_string();
    command.args([
        "-X",
        "-q",
        "-A",
        "-t",
        "-v",
        "ON_ERROR_STOP=1",
        "-h",
        "127.0.0.1",
        "-p",
        &port,
        "-U",
        "ann",
        "postgres",
    ]);
    command
}

/// Somebody at the prompt of `psql`.
struct Session {
    psql: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Session {
    fn open(wharf: &Wharf, port: u16) -> Self {
        let mut command = wharf.typed(&psql(port));
        let mut psql = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (psql.stdin.take().unwrap(), BufReader::new(psql.stdout.take().unwrap()));
        Self { psql, stdin, stdout }
    }

    fn say(&mut self, words: &str) {
        self.stdin.write_all(format!("{words}\n").as_bytes()).unwrap();
    }

    fn ask(&mut self, words: &str) -> String {
        self.say(words);
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn end(self) -> (Option<i32>, String) {
        let Self { psql, stdin, .. } = self;
        drop(stdin);
        Running(psql).end()
    }
}

#[test]
fn a_transaction_outlives_a_publish_that_takes_the_database_away_from_somebody_else() {
    let mut wharf = Wharf::new(&[("db", 5432)], BOTH);
    let _postgres = Postgres::serve(&mut wharf);
    let once = |sql: &str| {
        let mut command = psql(5432);
        command.args(["-c", sql]);
        wharf.ran(&command).trim().to_owned()
    };
    let mut rows = (0..ROWS).map(|row| format!("{row},boat {row} of the fleet")).collect::<Vec<_>>().join("\n");
    rows.push('\n');
    let (cargo, back) = (wharf.place.path("cargo.csv"), wharf.place.path("back.csv"));
    std::fs::write(&cargo, &rows).unwrap();
    once("create table boats (id int primary key, name text)");
    once(&format!("\\copy boats from '{}' csv", cargo.display()));
    once(&format!("\\copy (select * from boats order by id) to '{}' csv", back.display()));
    assert!(std::fs::read_to_string(back).unwrap() == rows, "not the same rows");

    let (mut ann, mut bob) = (Session::open(&wharf, 5432), Session::open(&wharf, 5433));
    let mut listener = Session::open(&wharf, 5432);
    let [backend, other, heard] = [&mut ann, &mut bob, &mut listener].map(|one| one.ask("select pg_backend_pid();"));
    assert!(backend != other && other != heard && !heard.is_empty());
    assert_eq!(listener.ask("listen tide; select 'listening';"), "listening");
    assert_eq!(ann.ask("begin; delete from boats where id < 10; select count(*) from boats;"), (ROWS - 10).to_string());
    let tunnels = || ["alpha", "beta"].map(|node| wharf.tunnel(node)["pid"].clone());
    let before = tunnels();
    wharf.publish(ANN_ALONE);

    bob.say("select 'still here';");
    assert_eq!(bob.line(), "");
    let (code, said) = bob.end();
    assert!(code != Some(0) && said.contains("connection"), "{code:?} {said}");
    // She notices nothing: one connection, one transaction.
    assert_eq!(ann.ask("delete from boats where id < 20; select pg_backend_pid();"), backend);
    ann.say("notify tide, 'it turns'; commit;");
    assert_eq!(ann.ask("select count(*) from boats;"), (ROWS - 20).to_string());
    assert_eq!(once("select count(*) from boats"), (ROWS - 20).to_string());
    assert_eq!(listener.ask("select 'after';"), "after");
    let notice = listener.line();
    assert!(notice.contains("\"tide\"") && notice.contains("it turns"), "{notice}");
    assert_eq!(tunnels(), before, "a change of access restarts nothing");
    for session in [ann, listener] {
        assert_eq!(session.end().0, Some(0));
    }
    let all = rows.len() as u64;
    wharf.carried("db", "tls", 6, (all, all));
    wharf.nothing_is_open();
}
