//! Each kind of check against real ports, pages and programs.

use rustix::fs::{FileType, Mode};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::net::{TcpListener, TcpSocket};

use super::*;

async fn probed(probe: Probe) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    // Programs take their time to begin.
    let timeout = if matches!(probe, Probe::Command(_)) { Seconds(60) } else { Seconds(1) };
    one(&Check { probe, timeout }, folder.path()).await.map_err(|why| why.to_string())
}

fn sh(script: &str) -> Probe {
    Probe::Command(["sh", "-c", script].map(str::to_owned).to_vec())
}

/// Answers each connection with these bytes, and keeps it open.
async fn answering(reply: &'static [u8]) -> HostPort {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap().to_string().parse().unwrap();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1024];
            if !reply.is_empty() {
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(reply).await;
            }
            open.push(stream);
        }
    });
    at
}

/// Bound, and not listening: nobody answers at it, and nobody takes it while it is held.
fn closed() -> (TcpSocket, HostPort) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let at = socket.local_addr().unwrap().to_string().parse().unwrap();
    (socket, at)
}

#[tokio::test]
async fn a_port_accepts_or_does_not() {
    assert_eq!(probed(Probe::Tcp(answering(b"").await)).await, Ok(()));
    let (_held, at) = closed();
    let why = probed(Probe::Tcp(at.clone())).await.unwrap_err();
    assert!(why.starts_with(&format!("cannot connect to {at}: ")), "{why}");
}

#[tokio::test]
async fn a_page_answers_with_its_status_in_time() {
    let good = answering(b"HTTP/1.1 204 No Content\r\n\r\n").await;
    let page = |at: &HostPort, status| Probe::Http { at: at.clone(), path: "/health".to_owned(), status };
    assert_eq!(probed(page(&good, 204)).await, Ok(()));
    let why = probed(page(&good, 200)).await.unwrap_err();
    assert_eq!(why, format!("http://{good}/health: answered 204 instead of 200"));
    // A body without an end is not read.
    let long = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nabc").await;
    assert_eq!(probed(page(&long, 200)).await, Ok(()));
    for (reply, told) in [
        (&b"SSH-2.0-OpenSSH_9.9\r\n"[..], "invalid HTTP version"),
        (b"", "no answer within 1s"),
        (b"HTTP/1.1 200 OK\r\nX: ", "no answer within 1s"),
    ] {
        let why = probed(page(&answering(reply).await, 200)).await.unwrap_err();
        assert!(why.contains(told), "{why}");
    }
    let why = probed(Probe::Http { at: good, path: "no slash".to_owned(), status: 200 }).await.unwrap_err();
    assert!(why.contains("invalid"), "{why}");
}

#[tokio::test]
async fn a_program_ends_well_or_says_why_not() {
    assert_eq!(probed(sh("exit 0")).await, Ok(()));
    for (script, told) in [
        ("exit 3", "`sh` ended with exit status: 3"),
        ("echo one; echo two; echo; exit 1", "`sh` ended with exit status: 1: two"),
        ("echo out; echo err >&2; exit 1", "`sh` ended with exit status: 1: err"),
        ("printf 'a\\033[2Jb'; exit 1", "`sh` ended with exit status: 1: a?[2Jb"),
        ("yes | head -c 9999998; echo last; exit 1", "`sh` ended with exit status: 1: last"),
        ("kill -9 $$", "`sh` ended with signal: 9 (SIGKILL)"),
    ] {
        assert_eq!(probed(sh(script)).await, Err(told.to_owned()), "{script}");
    }
    let long = probed(sh("head -c 5000 /dev/zero | tr '\\0' x; exit 1")).await.unwrap_err();
    assert!(long.len() < 300, "{}", long.len());
    let none = probed(Probe::Command(Vec::new())).await.unwrap_err();
    assert_eq!(none, "no program is named");
    let missing = probed(Probe::Command(vec!["no-such-program".to_owned()])).await.unwrap_err();
    assert!(missing.starts_with("`no-such-program` cannot be started: "), "{missing}");
}

#[tokio::test]
async fn a_program_has_no_shell_no_input_and_little_environment() {
    let words = ["test", "$HOME", "=", "$HOME"].map(str::to_owned).to_vec();
    assert_eq!(probed(Probe::Command(words)).await, Ok(()));
    assert_eq!(
        probed(sh("read line && exit 1; test \"$(env | grep -Ev '^(PWD|SHLVL|_)=' | wc -l)\" = 2")).await,
        Ok(())
    );
}

#[tokio::test]
async fn a_delivered_program_is_found_by_its_path() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::fs::write(folder.path().join("bin/check"), "#!/bin/sh\ntest -f motd\n").unwrap();
    std::fs::set_permissions(folder.path().join("bin/check"), std::fs::Permissions::from_mode(0o700)).unwrap();
    let check = Check { probe: Probe::Command(vec!["bin/check".to_owned()]), timeout: Seconds(60) };
    assert!(one(&check, folder.path()).await.is_err());
    std::fs::write(folder.path().join("motd"), "").unwrap();
    assert_eq!(one(&check, folder.path()).await, Ok(()));
}

/// Nothing here takes so long.
const LONG: Duration = Duration::from_secs(20);

/// A pipe that all hold open who descend from a check: it says when the first is there, and when the last is gone.
struct Life(pipe::Receiver);

impl Life {
    fn of(folder: &Path) -> Self {
        let path = folder.join("life");
        let _former = std::fs::remove_file(&path);
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        Self(pipe::OpenOptions::new().open_receiver(path).unwrap())
    }

    async fn begins(&mut self) {
        // Nobody has it yet: that is no end.
        tokio::time::timeout(LONG, self.0.readable()).await.expect("it begins").unwrap();
        assert_eq!(self.0.read_u8().await.unwrap(), b'\n');
    }

    async fn ends(mut self) {
        let read = tokio::time::timeout(LONG, self.0.read_u8()).await.expect("it does not live on");
        assert!(read.is_err(), "it says something more");
    }
}

/// Begins something long, and does this.
fn begin_and(then: &str) -> Probe {
    sh(&format!("exec 3> life; sleep 600 & echo >&3; {then}"))
}

#[tokio::test]
async fn a_program_that_takes_too_long_ends_with_all_it_began() {
    let folder = tempfile::tempdir().unwrap();
    let mut life = Life::of(folder.path());
    let check = Check { probe: begin_and("wait"), timeout: Seconds(1) };
    assert_eq!(one(&check, folder.path()).await, Err(BadProbe::Late(Seconds(1))));
    life.begins().await;
    life.ends().await;
    // What stays behind after a good end holds nothing up, and ends too.
    let mut life = Life::of(folder.path());
    let check = Check { probe: begin_and("exit 0"), timeout: Seconds(30) };
    assert_eq!(one(&check, folder.path()).await, Ok(()));
    life.begins().await;
    life.ends().await;
}

/// Out of its group and its session, and twice away from its parent.
fn escape_and(then: &str) -> Probe {
    let escapes = "setsid sh -c '(setsid sh -c \"echo >&3; touch away; exec sleep 600\" &)'";
    sh(&format!("exec 3> life; rm -f away; {escapes}; until test -e away; do sleep 0.01; done; {then}"))
}

#[tokio::test]
async fn what_a_program_moves_out_of_its_session_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    for (then, timeout, told) in [
        ("exit 0", Seconds(60), Ok(())),
        ("kill -9 0", Seconds(60), Err("`sh` ended with signal: 9 (SIGKILL)")),
        ("sleep 600", Seconds(4), Err("no answer within 4s")),
    ] {
        let mut life = Life::of(folder.path());
        let ended = one(&Check { probe: escape_and(then), timeout }, folder.path()).await;
        assert_eq!(ended.map_err(|why| why.to_string()), told.map_err(str::to_owned));
        life.begins().await;
        life.ends().await;
    }
}

#[tokio::test]
async fn checks_that_are_no_longer_wanted_end_with_all_they_began() {
    let folder = tempfile::tempdir().unwrap();
    let mut life = Life::of(folder.path());
    let check = Check { probe: escape_and("sleep 600"), timeout: Seconds(500) };
    let checks = BTreeMap::from([("long".parse().unwrap(), check)]);
    let running = tokio::spawn(run(checks, folder.path().to_owned()));
    life.begins().await;
    running.abort();
    life.ends().await;
}

#[tokio::test]
async fn all_are_run_at_once_and_each_that_failed_is_named() {
    let folder = tempfile::tempdir().unwrap();
    // Each waits for the other: one after the other they would never end.
    let meets = |own: &str, other: &str| {
        sh(&format!("touch {own}; until test -e {other}; do sleep 0.01; done; test {own} = a || exit 1"))
    };
    let check = |probe| Check { probe, timeout: Seconds(60) };
    let (_held, at) = closed();
    let checks = BTreeMap::from([
        ("first".parse().unwrap(), check(meets("a", "b"))),
        ("second".parse().unwrap(), check(meets("b", "a"))),
        ("third".parse().unwrap(), check(Probe::Tcp(at))),
    ]);
    let why = run(checks, folder.path().to_owned()).await.unwrap_err().to_string();
    assert!(why.starts_with("`second`: `sh` ended with exit status: 1; `third`: cannot connect"), "{why}");
    assert_eq!(run(BTreeMap::new(), folder.path().to_owned()).await, Ok(()));
}
