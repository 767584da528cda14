//! A static tree on a plain web server, and an agent that lives by one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use trials::place::{Running, ended, until};
use trials::port::Nobody;

use super::trees::{OFFLINE, stick, write};
use super::{not_synced, synced};
use crate::publishing::Scene;

/// Any web server: files of a folder under `/tree`, a redirect under `/moved`, too much under `/large`.
fn serve(folder: PathBuf) -> u16 {
    serve_in(folder, &Arc::default())
}

/// It takes so many seconds for each answer.
fn serve_in(folder: PathBuf, seconds: &Arc<AtomicU64>) -> u16 {
    let seconds = Arc::clone(seconds);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::sleep(Duration::from_secs(seconds.load(Ordering::Relaxed)));
            let _ = answer(&stream, &folder);
        }
    });
    port
}

fn answer(mut stream: &TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    if path.starts_with("/moved/") {
        return stream.write_all(b"HTTP/1.1 302 Found\r\nlocation: file:///etc/passwd\r\ncontent-length: 0\r\n\r\n");
    }
    if path.starts_with("/large/") {
        return stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n{}");
    }
    let file = path.strip_prefix("/tree/").and_then(|path| std::fs::read(folder.join(path)).ok());
    let (status, body) = file.map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
    let length = body.len();
    stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n").as_bytes())?;
    stream.write_all(&body)
}

fn away() -> Scene {
    let scene = Scene::new();
    let _gateway: Running = scene.place.serve();
    scene.place.joined("web-1");
    scene.place.joined("web-2");
    write(&scene, &[OFFLINE, "labels: {site: attic}"]);
    scene
}

#[test]
fn a_plain_web_server_carries_a_tree_and_nothing_else_is_followed() {
    let scene = away();
    let at = format!("http://127.0.0.1:{}", serve(scene.place.path("stick")));
    let told = synced(&scene, "web-1", &["--from", &format!("{at}/tree/")]);
    assert_eq!(told["outcome"], "settled", "{told}");
    assert!(not_synced(&scene, "web-1", &["--from", &format!("{at}/moved")], 1).1.contains("is not followed"));
    assert!(not_synced(&scene, "web-1", &["--from", &format!("{at}/large")], 1).1.contains("too large"));
    assert!(not_synced(&scene, "web-1", &["--from", &format!("{at}/absent")], 1).1.contains("there is no tree"));
    let nowhere = Nobody::new();
    assert!(not_synced(&scene, "web-1", &["--from", &format!("http://{nowhere}/tree")], 1).1.contains("cannot reach"));
    ended(&scene.place.node("web-1", &["sync", "--from", "https://127.0.0.1/tree"], ""), 2, "https is not spoken here");
}

#[test]
fn an_agent_lives_by_a_tree_and_takes_another_when_it_is_shown_one() {
    let scene = away();
    let tree = stick(&scene);
    let mut command = scene.place.node_command("web-1", &["run", "--every", "1s", "--from", &tree]);
    let agent = Running(command.stderr(std::process::Stdio::piped()).spawn().unwrap());
    let confirmed = || scene.place.status("web-1")["applied"]["confirmed"].as_str().map(str::to_owned);
    until("the first is confirmed", || confirmed().is_some());
    let first = confirmed();
    write(&scene, &[OFFLINE, "labels: {site: shed}"]);
    until("the second is confirmed", || confirmed() != first);
    assert_eq!(scene.place.status("web-1")["problem"], serde_json::Value::Null);
    assert_eq!(agent.stop(), Some(0));

    // An agent that has a gateway is shown a stick.
    let other = scene.place.agent("web-2");
    until("it runs", || scene.place.status("web-2")["running"] == true);
    let (_, why) = not_synced(&scene, "web-2", &["--from", "/nowhere"], 1);
    assert!(why.contains("there is no tree"), "{why}");
    assert_eq!(other.stop(), Some(0));
}

#[test]
fn a_web_server_that_trickles_keeps_no_trial_beyond_its_end() {
    let scene = away();
    let seconds = Arc::default();
    let at = format!("http://127.0.0.1:{}/tree", serve_in(scene.place.path("stick"), &seconds));
    let mut command = scene.place.node_command("web-1", &["run", "--every", "1s", "--from", &at]);
    let _agent = Running(command.stderr(std::process::Stdio::null()).spawn().unwrap());
    let applied = |what: &str| scene.place.status("web-1")["applied"][what].clone();
    until("the first is confirmed", || applied("confirmed").is_string());
    let never = "checks: {never: {command: [/bin/false], timeout: 1s}}";
    write(&scene, &["apply: {confirm: offline, deadline: 15s}", never]);
    until("the second is on trial", || applied("trial").is_object());
    // Each file in time; all of them together would take longer than anybody waits.
    seconds.store(25, Ordering::Relaxed);
    until("it went back", || applied("rolled_back").is_object());
}
