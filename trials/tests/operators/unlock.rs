//! Keys that stay open for a while: the agent, its bounds, and its end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ground::passphrase::Passphrase;
use ground::sealed::{self, SealError};
use identity::envelope::{Envelope, Payload};
use identity::id::OrgId;
use identity::key::{EdKey, PublicKey, Sign as _};
use identity::text::{Bytes, base64, base64url, hex};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use trials::place::{Place, Running, ended, json, mode, output, stdout, succeeded, text, until};
use wire::control::SignedCall;

const PHRASE: &str = "correct horse";

/// An org with protected keys, and a runtime folder of its own. Its agent does not outlive it.
struct Scene {
    place: Place,
    phrase: String,
    runtime: PathBuf,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.run(&["lock"]);
    }
}

impl Scene {
    fn new() -> Self {
        let place = Place::new();
        let phrase = place.passphrase(PHRASE);
        let runtime = place.path("runtime");
        std::fs::create_dir(&runtime).unwrap();
        let scene = Self { place, phrase, runtime };
        let address = scene.place.address();
        let words = ["found", "harbor", "--advertise", &address, "--passphrase-file", &scene.phrase];
        succeeded(&scene.place.freehold(&words));
        scene
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.place.freehold_command(words);
        command.env("XDG_RUNTIME_DIR", &self.runtime);
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        output(self.command(words))
    }

    /// Unlocks; the agent's pid.
    fn unlock(&self, span: &str) -> u32 {
        let told = json(&self.run(&["unlock", "--for", span, "--json", "--passphrase-file", &self.phrase]));
        assert_eq!(told["unlocked"], true);
        u32::try_from(told["pid"].as_u64().unwrap()).unwrap()
    }

    fn is_unlocked(&self) -> bool {
        json(&self.run(&["unlock", "--status", "--json"]))["unlocked"].as_bool().unwrap()
    }

    fn socket(&self) -> PathBuf {
        self.runtime.join("freehold/agent.sock")
    }

    /// The founder's key, taken from its file.
    fn key(&self) -> EdKey {
        let file = std::fs::read(self.place.org().join("operator/signers/ann.key")).unwrap();
        let phrase = || Ok::<_, SealError>(Passphrase::new(PHRASE.to_owned()));
        let seed = sealed::open(&file, "freehold signer ann", phrase).unwrap();
        EdKey::from_seed(seed.as_slice().try_into().unwrap())
    }
}

fn is_running(pid: u32) -> bool {
    // What has ended and was not yet waited for has no command line.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn send(pid: u32, what: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), what).unwrap();
}

/// A question in the agent's own words, by hand.
fn ask(socket: &Path, question: &Value) -> std::io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    // Who is refused may not be listened to until the end.
    let _ = stream.write_all(format!("{question}\n").as_bytes());
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line).unwrap_or_else(|why| panic!("not an answer ({why}): {line}")))
}

#[test]
fn unlocked_keys_sign_without_a_passphrase_until_they_are_locked() {
    let scene = Scene::new();
    ended(&scene.run(&["refresh"]), 2, "a passphrase is needed");
    assert!(!scene.is_unlocked());
    let pid = scene.unlock("5m");
    succeeded(&scene.run(&["refresh"]));
    // Over the network each call is signed too.
    let gateway = scene.place.serve();
    succeeded(&scene.run(&["invite", "create"]));
    succeeded(&scene.run(&["node", "list"]));
    assert!(scene.is_unlocked());
    let told = stdout(&scene.run(&["unlock", "--status"]));
    assert!(told.contains("harbor") && told.contains("ann"), "{told}");
    assert_eq!(json(&scene.run(&["lock", "--json"]))["was_unlocked"], true);
    until("the agent has ended", || !is_running(pid));
    assert!(!scene.socket().exists());
    ended(&scene.run(&["node", "list"]), 2, "a passphrase is needed");
    assert_eq!(json(&scene.run(&["lock", "--json"]))["was_unlocked"], false);
    drop(gateway);
    succeeded(&scene.run(&["audit", "--verify"]));
}

#[test]
fn the_agent_ends_when_its_time_is_over() {
    let scene = Scene::new();
    let pid = scene.unlock("2s");
    assert!(is_running(pid));
    until("the agent has ended", || !is_running(pid));
    assert!(!scene.socket().exists());
    assert!(!scene.is_unlocked());
    ended(&scene.run(&["refresh"]), 2, "a passphrase is needed");
}

#[test]
fn a_second_unlock_sets_the_time_anew_in_the_same_agent() {
    let scene = Scene::new();
    let (first, second) = (scene.unlock("5m"), scene.unlock("10m"));
    assert_eq!(first, second);
    let keys = json(&scene.run(&["unlock", "--status", "--json"]))["keys"].clone();
    assert_eq!(keys.as_array().unwrap().len(), 1, "{keys}");
}

#[test]
fn unlocking_is_bounded_and_a_wrong_passphrase_starts_nothing() {
    let scene = Scene::new();
    for span in ["13h", "0s"] {
        let tried = scene.run(&["unlock", "--for", span, "--passphrase-file", &scene.phrase]);
        ended(&tried, 2, "keys stay open for 1s to 12h");
    }
    let wrong = scene.place.passphrase("battery staple");
    ended(&scene.run(&["unlock", "--passphrase-file", &wrong]), 1, "the passphrase is wrong");
    assert!(!scene.is_unlocked());
    assert!(!scene.socket().exists());
}

#[test]
fn the_agent_keeps_its_keys_to_itself() {
    let scene = Scene::new();
    let pid = scene.unlock("5m");
    assert_eq!(mode(&scene.runtime.join("freehold")), 0o700);
    assert_eq!(mode(&scene.socket()), 0o600);
    let proc = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap();
    let limits = String::from_utf8(proc("limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let bounds: Vec<&str> = core.split_whitespace().skip(4).take(2).collect();
    assert_eq!(bounds, ["0", "0"], "{core}");
    let seed = scene.key().seed();
    let written = [base64(&seed[..]), base64url(&seed[..]), hex(&seed[..]), PHRASE.to_owned()];
    for file in ["environ", "cmdline"] {
        let bytes = proc(file);
        assert!(!bytes.windows(32).any(|window| window == &seed[..]), "the key is in {file}");
        let told = String::from_utf8_lossy(&bytes).into_owned();
        assert!(!written.iter().any(|secret| told.contains(secret)), "a secret is in {file}: {told}");
        assert!(!told.contains("FREEHOLD_"), "{told}");
    }
    let status = String::from_utf8(proc("status")).unwrap();
    let locked = status.lines().find(|line| line.starts_with("VmLck:")).unwrap();
    assert_ne!(locked.split_whitespace().nth(1), Some("0"), "the key's page is not locked");
    let session = String::from_utf8(proc("stat")).unwrap();
    let session = session.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, pid.to_string(), "it has no session of its own");
}

#[test]
fn another_user_is_refused() {
    assert!(rustix::process::geteuid().is_root(), "THIS TEST MUST RUN AS ROOT: it becomes another user");
    let scene = Scene::new();
    scene.unlock("5m");
    let socket = scene.socket();
    let question = json!("status");
    assert_eq!(ask(&socket, &question).unwrap()["status"]["keys"].as_array().unwrap().len(), 1);
    // The folder and the socket keep strangers out.
    let why = as_nobody(|| ask(&socket, &question)).unwrap_err();
    assert_eq!(why.kind(), std::io::ErrorKind::PermissionDenied);
    // And if they did not, the agent would.
    let mut above = socket.as_path();
    while let Some(folder) = above.parent().filter(|folder| folder.starts_with(std::env::temp_dir())) {
        if folder != std::env::temp_dir() {
            std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        above = folder;
    }
    std::fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let answer = as_nobody(|| ask(&socket, &question)).unwrap();
    assert_eq!(text(&answer["refused"], "why"), "this agent serves another user");
    // A folder that others can enter is not believed by commands either.
    ended(&scene.run(&["unlock", "--status"]), 1, "others can enter the agent's folder");
    std::fs::set_permissions(scene.runtime.join("freehold"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .unwrap();
    assert!(scene.is_unlocked());
}

/// Does something in a thread that has become another user.
fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    let nobody = rustix::process::Uid::from_raw(65_534);
    std::thread::scope(|scope| {
        let become_and_act = || {
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            act()
        };
        scope.spawn(become_and_act).join().unwrap()
    })
}

#[test]
fn a_killed_agent_leaves_nothing_that_stays_in_the_way() {
    let scene = Scene::new();
    let pid = scene.unlock("5m");
    send(pid, Signal::KILL);
    until("the agent has ended", || !is_running(pid));
    assert!(scene.socket().exists(), "a killed process cannot tidy up");
    assert!(!scene.is_unlocked());
    ended(&scene.run(&["refresh"]), 2, "a passphrase is needed");
    let next = scene.unlock("5m");
    assert_ne!(next, pid);
    succeeded(&scene.run(&["refresh"]));
    send(next, Signal::KILL);
    until("the agent has ended", || !is_running(next));
    succeeded(&scene.run(&["lock"]));
    assert!(!scene.socket().exists());
}

#[test]
fn signals_and_the_end_of_the_session_lock() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let scene = Scene::new();
        let pid = scene.unlock("5m");
        send(pid, signal);
        until("the agent has ended", || !is_running(pid));
        assert!(!scene.socket().exists(), "{signal:?}");
    }
    let scene = Scene::new();
    let pid = scene.unlock("5m");
    std::fs::remove_dir_all(&scene.runtime).unwrap();
    until("the agent has ended", || !is_running(pid));
}

#[test]
fn without_a_runtime_folder_the_agent_lives_in_the_home() {
    let scene = Scene::new();
    let home = scene.place.path("user");
    let run = |words: &[&str]| {
        let mut command = scene.place.freehold_command(words);
        command.env_remove("XDG_RUNTIME_DIR").env("HOME", &home);
        output(command)
    };
    succeeded(&run(&["unlock", "--for", "5m", "--passphrase-file", &scene.phrase]));
    assert_eq!(mode(&home.join(".freehold/.agent")), 0o700);
    succeeded(&run(&["refresh"]));
    assert_eq!(json(&run(&["lock", "--json"]))["was_unlocked"], true);
}

#[test]
fn many_ask_at_once_and_all_are_answered() {
    let scene = Scene::new();
    scene.unlock("5m");
    let socket = scene.socket();
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                let answer = ask(&socket, &json!("status")).unwrap();
                assert_eq!(answer["status"]["keys"].as_array().unwrap().len(), 1);
            });
        }
        for _ in 0..4 {
            scope.spawn(|| succeeded(&scene.run(&["refresh"])));
        }
    });
}

#[test]
fn a_gateway_never_asks_the_agent() {
    let scene = Scene::new();
    let pid = scene.unlock("5m");
    let code = text(&json(&scene.run(&["invite", "create", "--json"])), "code");
    // Whoever asked it now would wait for an answer.
    send(pid, Signal::STOP);
    let listen = scene.place.address();
    let mut serve = scene.command(&["serve", "--json", "--listen", &listen]);
    let mut gateway = Running(serve.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(gateway.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("ready"), "{line}");
    succeeded(&scene.place.join("web-1", &code));
    assert_eq!(gateway.stop(), Some(0));
    assert!(is_stopped(pid), "the agent ran meanwhile");
    // Nor does a command hang for long: it then asks a person.
    ended(&scene.run(&["refresh"]), 2, "a passphrase is needed");
    send(pid, Signal::CONT);
    succeeded(&scene.run(&["refresh"]));
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('T')
}

/// Some object of ours.
#[derive(Serialize, Deserialize)]
struct Note {
    text: String,
}

impl Payload for Note {
    const KIND: &'static str = "note";
    const SCHEMA: u32 = 1;
}

/// What is signed of a note of an org, put together by hand.
fn note_of(org: Option<OrgId>) -> Vec<u8> {
    let note = serde_json::to_value(Envelope::seal(org, &Note { text: "hi".to_owned() }).unwrap()).unwrap();
    let payload: Bytes = note["payload"].as_str().unwrap().parse().unwrap();
    let kind = text(&note, "payloadType");
    let mut bytes = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.0.len()).into_bytes();
    bytes.extend(payload.0);
    bytes
}

#[test]
fn the_agent_signs_what_is_meant_and_is_no_oracle() {
    let scene = Scene::new();
    scene.unlock("5m");
    let key = scene.key().public();
    let org: OrgId = text(&scene.place.facts(&["org", "list"])[0], "org_id").parse().unwrap();
    let sign = |key: PublicKey, purpose: &str, message: &[u8]| {
        let message = Bytes(message.to_vec()).to_string();
        let question = json!({ "sign": { "key": key, "purpose": purpose, "message": message } });
        ask(&scene.socket(), &question).unwrap()
    };
    let (note, call) = (note_of(Some(org)), SignedCall::message(&[1; 32], b"{}"));
    for (purpose, message) in [("envelope", &note), ("call", &call)] {
        let signature: Bytes = text(&sign(key, purpose, message), "signature").parse().unwrap();
        assert_eq!(key.verify(message, &signature.0), Ok(()), "{purpose}");
    }
    let (other, orgless) = (note_of(Some(OrgId([9; 32]))), note_of(None));
    let refused: [(&str, &[u8]); 7] = [
        ("envelope", b"anything"),
        ("call", b"anything"),
        ("envelope", &call),
        ("call", &note),
        ("envelope", &other),
        ("envelope", &orgless),
        ("anything", &note),
    ];
    for (purpose, message) in refused {
        let answer = sign(key, purpose, message);
        assert!(answer["refused"]["why"].is_string(), "{purpose}: {answer}");
    }
    let stranger = EdKey::from_seed(&[1; 32]).public();
    assert_eq!(text(&sign(stranger, "envelope", &note)["refused"], "why"), "this key is not held any more");
    let huge = sign(key, "envelope", &vec![b'x'; 5 << 20]);
    assert!(huge["refused"]["why"].is_string(), "{huge}");
    for nonsense in [json!("seeds"), json!({ "hold": { "keys": [], "seconds": 99_999 } }), json!(1)] {
        assert!(ask(&scene.socket(), &nonsense).unwrap()["refused"]["why"].is_string(), "{nonsense}");
    }
    assert!(scene.is_unlocked());
}
