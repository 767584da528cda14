//! The line and the other forms of an invite: each is read by what it was made for.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use identity::id::Digest;
use serde_json::Value;
use trials::network::shelf::{Credential, Shelf, Way};
use trials::place::{Place, Running, ended, mode, output, stderr, stdout, succeeded, text};

use super::{agent, mach_o, made_up};

fn released() -> (Place, Running) {
    let place = Place::founded(&[]);
    let gateway = place.serve();
    succeeded(&place.freehold(&["release", "add", &made_up(&place, "mac", &mach_o(), "0.1.0")]));
    (place, gateway)
}

/// Stands in the place of the script: tells what it was given. As that one, it ends without a newline.
const TELLS: &str = "#!/bin/sh\necho \"told: $*\"\ncat";

/// A gateway whose script is another one, under the hash of that one: only what runs the line is of interest.
fn line_for(place: &Place, script: &str) -> String {
    let line = text(&place.invite(&[]), "line");
    let own = line.split("h=").nth(1).unwrap()[..64].to_owned();
    let digest = Digest::of(script.as_bytes()).to_string();
    std::fs::write(place.org().join("gateway/files").join(&digest), script).unwrap();
    line.replace(&own, &digest)
}

/// What a line fetches first, as it lies at the gateway.
fn first_script(place: &Place, line: &str) -> String {
    let digest = &line.split("h=").nth(1).unwrap()[..64];
    std::fs::read_to_string(place.org().join("gateway/files").join(digest)).unwrap()
}

/// A folder with nothing but these programs.
fn only(place: &Place, name: &str, programs: &[&str]) -> String {
    let folder = place.path(name);
    std::fs::create_dir_all(&folder).unwrap();
    for program in programs {
        let found = output({
            let mut which = Command::new("which");
            which.arg(program);
            which
        });
        succeeded(&found);
        let _ = std::os::unix::fs::symlink(stdout(&found).trim(), folder.join(program));
    }
    folder.to_string_lossy().into_owned()
}

const BASE: [&str; 8] = ["sh", "mktemp", "rm", "grep", "cat", "env", "dd", "printf"];

/// Into which a line is pasted.
const SHELLS: [&[&str]; 8] =
    [&["dash"], &["bash"], &["zsh", "-f"], &["ksh"], &["busybox", "ash"], &["mksh"], &["posh"], &["yash"]];

/// What a line says that got nothing, and one that got something else.
const SILENCE: &str = "freehold: no script\n";
const FAKE: &str = "freehold: no script but a fake, not run\n";

#[test]
fn the_line_runs_in_every_shell_with_either_download_and_each_hash_tool() {
    let (place, _gateway) = released();
    let line = line_for(&place, TELLS);
    let temporary = place.path("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    for shell in SHELLS {
        for (n, tools) in [["curl", "sha256sum"], ["wget", "sha256sum"], ["wget", "openssl"]].iter().enumerate() {
            let path = only(&place, &format!("bin-{}-{n}", shell[0]), &[&BASE[..], &tools[..], &shell[..1]].concat());
            let mut command = Command::new(shell[0]);
            command.args(&shell[1..]).args(["-c", &line]).env_clear().env("PATH", &path).env("TMPDIR", &temporary);
            let told = output(command);
            succeeded(&told);
            let said = stdout(&told);
            assert_eq!(said.lines().next(), Some("told: "), "{shell:?} {tools:?}");
            assert!((48..=51).contains(&said.lines().nth(1).unwrap().len()), "{shell:?} {tools:?}: {said}");
            assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "{shell:?}: the folder stays behind");
        }
    }
}

#[test]
fn another_script_than_the_line_names_is_not_run() {
    let (place, _gateway) = released();
    let line = line_for(&place, TELLS);
    let digest = Digest::of(TELLS.as_bytes()).to_string();
    std::fs::write(place.org().join("gateway/files").join(&digest), "#!/bin/sh\ntouch ran; echo harm\n").unwrap();
    let temporary = place.path("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    for shell in SHELLS {
        let mut command = Command::new(shell[0]);
        // What the machine's own environment calls alike changes nothing.
        command.args(&shell[1..]).args(["-c", &line]).env("s", "of the machine").env("TMPDIR", &temporary);
        let told = output(command);
        ended(&told, 3, FAKE);
        assert_eq!(stdout(&told), "", "{shell:?}");
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "{shell:?}: something stays behind");
    }
}

#[test]
fn a_line_that_nobody_answers_accuses_nobody() {
    let (place, gateway) = released();
    let line = line_for(&place, TELLS);
    assert_eq!(gateway.stop(), Some(0));
    for shell in SHELLS {
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).args(["-c", &line]).env("s", "of the machine");
        ended(&output(command), 1, SILENCE);
    }
}

/// A line, or the script that it fetches first, with these servers in the place of the gateway and one fetcher. It may
/// write 200 KB into a file.
fn ask(place: &Place, script: &str, shelves: &[&Shelf], fetcher: &str) -> Output {
    ask_in(place, script, shelves, fetcher, &["dash"])
}

fn ask_in(place: &Place, script: &str, shelves: &[&Shelf], fetcher: &str, shell: &[&str]) -> Output {
    let hosts = shelves.iter().map(|shelf| shelf.url().trim_start_matches("https://").to_owned()).collect::<Vec<_>>();
    let (line, first) = (format!("_f {}", place.address()), format!("for u in 'https://{}'", place.address()));
    assert!(script.contains(&line) || script.contains(&first), "{script}");
    let script = script.replace(&line, &format!("_f {}", hosts.join("||_f ")));
    let script = script.replace(&first, &format!("for u in 'https://{}'", hosts.join("' 'https://")));
    let programs = [&BASE[..], &[fetcher, "sha256sum", shell[0]]].concat();
    let path = only(place, &format!("asks-by-{fetcher}-{}", shell[0]), &programs);
    let mut command = Command::new(shell[0]);
    // posh has no such word.
    let bounded = if shell[0] == "posh" { script } else { format!("ulimit -f 400; {script}") };
    command.args(&shell[1..]).args(["-c", &bounded]).env("PATH", path).env("s", "of the machine").stdin(Stdio::null());
    output(command)
}

#[test]
fn a_script_without_an_end_is_ended_and_the_next_gateway_is_asked() {
    let (place, _gateway) = released();
    let line = line_for(&place, TELLS);
    for fetcher in ["curl", "wget"] {
        let [bad, good] = [(); 2].map(|()| Shelf::serve(&Credential::make()));
        // wget goes on by itself where it was cut.
        let cut = (fetcher == "curl").then_some((Way::CutAfter(9), 1, SILENCE));
        let ways = [(Way::Endless, 3, FAKE), (Way::Instead(b"exit 0\n".into()), 3, FAKE), (Way::Nowhere, 1, SILENCE)];
        for (way, exit, why) in ways.into_iter().chain(cut) {
            bad.put(TELLS.as_bytes(), way.clone());
            good.put(TELLS.as_bytes(), Way::Nowhere);
            ended(&ask(&place, &line, &[&bad], fetcher), exit, why);
            good.put(TELLS.as_bytes(), Way::AsItIs);
            let told = ask(&place, &several(&line), &[&bad, &good], fetcher);
            assert!(stdout(&told).starts_with("told:"), "{fetcher} {way:?}: {}", stderr(&told));
        }
    }
}

/// A line for one gateway is a little shorter than one for several.
fn several(line: &str) -> String {
    let several = line.replacen("(h=", "(s= h=", 1).replacen("||echo @)", "||echo \"@$s\")", 1);
    assert_eq!(several.len(), line.len() + 7, "{line}");
    several
}

#[test]
fn in_every_shell_a_later_silence_hides_no_fake_and_a_later_gateway_that_gives_the_script_wins() {
    let (place, _gateway) = released();
    let line = several(&line_for(&place, TELLS));
    let [bad, good] = [(); 2].map(|()| Shelf::serve(&Credential::make()));
    for shell in SHELLS {
        // A fake may end with the very mark of a download that failed: then it is as good as none, and not run either.
        let fakes: [(&[u8], _, _); 3] =
            [(b"echo harm @ here\n", 3, FAKE), (b"echo harm\\c\0\n", 3, FAKE), (b"echo harm @\n", 1, SILENCE)];
        for (fake, exit, why) in fakes {
            bad.put(TELLS.as_bytes(), Way::Instead(fake.to_vec()));
            for silence in [Way::Nowhere, Way::CutAfter(9)] {
                good.put(TELLS.as_bytes(), silence);
                for shelves in [[&bad, &good], [&good, &bad]] {
                    let told = ask_in(&place, &line, &shelves, "curl", shell);
                    ended(&told, exit, why);
                    assert_eq!(stdout(&told), "", "{shell:?}");
                }
            }
            good.put(TELLS.as_bytes(), Way::AsItIs);
            let told = ask_in(&place, &line, &[&bad, &good], "curl", shell);
            assert!(stdout(&told).starts_with("told:"), "{shell:?}: {}", stderr(&told));
        }
    }
}

#[test]
fn the_second_script_is_bounded_too_and_whoever_gave_another_is_told_from_who_gave_none() {
    let (place, _gateway) = released();
    let first = first_script(&place, &text(&place.invite(&[]), "line"));
    // What it fetches is another script here, which only tells.
    let own = first.split("\nh=").nth(1).unwrap()[..64].to_owned();
    let first = first.replace(&own, &Digest::of(TELLS.as_bytes()).to_string());
    for fetcher in ["curl", "wget"] {
        let [bad, good] = [(); 2].map(|()| Shelf::serve(&Credential::make()));
        let cut = (fetcher == "curl").then_some((Way::CutAfter(9), 1, "nobody gave the script"));
        let ways = [
            (Way::Endless, 3, "somebody is in the middle"),
            (Way::Instead(b"exit 0\n".into()), 3, "the script is not the one"),
            (Way::Nowhere, 1, "nobody gave the script"),
        ];
        for (way, exit, why) in ways.into_iter().chain(cut) {
            bad.put(TELLS.as_bytes(), way.clone());
            good.put(TELLS.as_bytes(), Way::Nowhere);
            ended(&ask(&place, &first, &[&bad, &good], fetcher), exit, why);
            good.put(TELLS.as_bytes(), Way::AsItIs);
            let told = ask(&place, &first, &[&bad, &good], fetcher);
            assert!(stdout(&told).starts_with("told: --gateway "), "{fetcher} {way:?}: {}", stderr(&told));
            assert!(stdout(&told).contains("\nfh1_"), "the code is whole again: {}", stdout(&told));
        }
    }
}

#[test]
fn no_list_of_processes_shows_the_code() {
    let (place, _gateway) = released();
    let waits = "#!/bin/sh\necho ready\nread code\nread more";
    let (line, shown) = (line_for(&place, waits), place.path("shown"));
    // Pasted, not an argument: the shell reads it.
    for shell in ["dash", "bash", "zsh", "ksh"] {
        let script = place.path("pasted");
        std::fs::write(&script, format!("{line}\n")).unwrap();
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-e", "trace=execve", "-s", "4096", "-v", "-o"]).arg(&shown);
        command.arg(shell).stdin(Stdio::from(std::fs::File::open(&script).unwrap()));
        let _ = output(command);
        let traced = std::fs::read_to_string(&shown).unwrap();
        assert!(traced.contains("\"sh\", \"-c\", "), "{shell}: {traced}");
        let secret = line.split(";echo ").nth(1).unwrap().split('|').next().unwrap();
        assert!(secret.len() >= 48 && !traced.contains(secret), "{shell} shows the code: {traced}");
    }
}

#[test]
fn without_a_release_the_line_needs_the_agent_and_says_so() {
    let place = Place::founded(&[]);
    let told = place.freehold(&["invite", "create"]);
    succeeded(&told);
    assert!(stdout(&told).contains("| freehold-node join"), "{}", stdout(&told));
    assert!(stdout(&told).contains("freehold release add"), "{}", stdout(&told));
    ended(&place.freehold(&["invite", "create", "--format", "powershell"]), 1, "the org has no release");
    assert_eq!(place.facts(&["invite", "list"]).as_array().unwrap().len(), 1, "what was refused made no invite");
    let _gateway = place.serve();
    let line = text(&place.invite(&[]), "line");
    let mut command = Command::new("/bin/dash");
    let path = Path::new(&agent()).parent().unwrap().to_string_lossy().into_owned();
    command.args(["-c", &format!("{line} --name web-1 --root {}", place.root("web-1").display())]).env("PATH", path);
    succeeded(&output(command));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
}

#[test]
fn cloud_init_takes_its_form_and_keeps_the_code_private() {
    let (place, _gateway) = released();
    for with_release in [true, false] {
        let bare = Place::founded(&[]);
        let at = if with_release { &place } else { &bare };
        let out = at.path("user-data.yaml");
        let told = at.invite(&["--format", "cloud-init", "--out", &out.to_string_lossy()]);
        assert_eq!((mode(&out), &told["text"]), (0o600, &Value::Null));
        let mut check = Command::new("cloud-init");
        check.args(["schema", "-c"]).arg(&out);
        let checked = output(check);
        succeeded(&checked);
        assert!(stdout(&checked).contains("Valid"), "{}{}", stdout(&checked), stderr(&checked));
        let text_of = std::fs::read_to_string(&out).unwrap();
        assert_eq!(text_of.matches(&text(&told, "code")).count(), 1);
        let code = text_of.split("- path: ").find(|part| part.starts_with("/run/freehold/code")).unwrap();
        assert!(code.contains("permissions: '0600'"), "{code}");
        // What runs is a shell script that a shell can read.
        let body = text_of.split("/run/freehold/join\n").nth(1).unwrap().split("content: |\n").nth(1).unwrap();
        let body: Vec<_> = body.split("runcmd:").next().unwrap().lines().map(str::trim).collect();
        let script = at.path("body");
        std::fs::write(&script, body.join("\n")).unwrap();
        let mut shell = Command::new("dash");
        shell.arg("-n").arg(&script);
        succeeded(&output(shell));
    }
}

#[test]
fn a_container_joins_by_its_environment() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let out = place.path("invite.env");
    let told = place.invite(&["--format", "env", "--out", &out.to_string_lossy()]);
    assert_eq!(mode(&out), 0o600);
    let mut command = place.node_command("web-1", &["join", "--name", "web-1"]);
    for line in std::fs::read_to_string(&out).unwrap().lines() {
        let (name, value) = line.split_once('=').unwrap();
        assert!(name.starts_with("FREEHOLD_"), "{name}");
        command.env(name, value);
    }
    succeeded(&output(command));
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));
    assert_eq!(place.spent(&text(&told, "id")), 1);
}

#[test]
fn a_file_is_private_new_and_holds_the_code_alone() {
    let place = Place::founded(&[]);
    ended(&place.freehold(&["invite", "create", "--format", "file"]), 2, "needs a file");
    let out = place.path("code").to_string_lossy().into_owned();
    let told = place.invite(&["--format", "file", "--out", &out]);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), format!("{}\n", text(&told, "code")));
    assert_eq!(mode(Path::new(&out)), 0o600);
    ended(&place.freehold(&["invite", "create", "--format", "file", "--out", &out]), 2, "is there already");
    assert_eq!(place.facts(&["invite", "list"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_camera_reads_the_picture() {
    let place = Place::founded(&[]);
    let told = place.invite(&["--format", "qr"]);
    let drawn = text(&told, "text");
    // Two rows in each line; what is drawn is light.
    let mut rows: Vec<Vec<bool>> = Vec::new();
    for line in drawn.lines() {
        let light = |upper: bool| line.chars().map(|c| c == '█' || c == if upper { '▀' } else { '▄' }).collect();
        rows.extend([light(true), light(false)]);
    }
    let (width, height) = (rows[0].len(), rows.len());
    let at = |x: usize, y: usize| if rows[y / 4].get(x / 4) == Some(&true) { 255 } else { 0 };
    let mut seen = rqrr::PreparedImage::prepare_from_greyscale(width * 4, height * 4, at);
    let grids = seen.detect_grids();
    assert_eq!(grids.len(), 1, "{drawn}");
    assert_eq!(grids[0].decode().unwrap().1, text(&told, "code"));
}

#[test]
fn a_node_that_is_replaced_gets_the_same_kind_of_line() {
    let (place, _gateway) = released();
    place.joined("web-1");
    let told = place.facts(&["node", "replace", "web-1", "--yes"]);
    let line = text(&told, "line");
    assert!(line.starts_with('(') && line.ends_with("|sh -c \"$s\" - --name web-1)"), "{line}");
    assert!(first_script(&place, &line).contains("\nsh join.sh --gateway "), "{line}");
}
