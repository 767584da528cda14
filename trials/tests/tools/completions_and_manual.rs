//! Completions that real shells take, and manual pages that real formatters set without complaint.

use std::path::Path;
use std::process::Command;

use trials::place::{Place, binary, ended, output, stderr, stdout, succeeded};

use super::run;

const PROGRAMS: [&str; 2] = ["freehold", "freehold-node"];

fn made(program: &str, words: &[&str]) -> String {
    let mut command = Command::new(binary(program));
    command.args(words);
    let output = output(command);
    succeeded(&output);
    stdout(&output)
}

/// What bash offers after these words, with the script sourced as a user would.
fn offered(script: &Path, words: &[&str]) -> Vec<String> {
    const ASK: &str = r#"
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        complete -p "$1" >/dev/null || exit 1
        asked=$(complete -p "$1"); asked=${asked##* -F }; asked=${asked%% *}
        "$asked" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let told = run("bash", &[&["--norc", "-c", ASK, "bash", script.to_str().unwrap()], words].concat());
    assert!(told.status.success(), "{}", stderr(&told));
    stdout(&told).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let place = Place::new();
    let script = |program: &str| {
        let path = place.path(program);
        std::fs::write(&path, made(program, &["completions", "bash"])).unwrap();
        path
    };
    let (freehold, node) = (script("freehold"), script("freehold-node"));
    assert_eq!(offered(&freehold, &["freehold", "inv"]), ["invite"]);
    assert_eq!(offered(&freehold, &["freehold", "invite", "cr"]), ["create"]);
    assert_eq!(offered(&freehold, &["freehold", "serve", "--lis"]), ["--listen"]);
    assert_eq!(offered(&freehold, &["freehold", "completions", "fi"]), ["fish"]);
    assert_eq!(offered(&node, &["freehold-node", "st"]), ["status"]);
    assert_eq!(offered(&node, &["freehold-node", "run", "--ev"]), ["--every"]);
}

#[test]
fn each_shell_can_read_its_script() {
    let place = Place::new();
    for program in PROGRAMS {
        for (shell, look) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
            let path = place.path(&format!("{program}.{shell}"));
            std::fs::write(&path, made(program, &["completions", shell])).unwrap();
            let read = run(shell, &[look, path.to_str().unwrap()]);
            assert!(read.status.success() && stderr(&read).is_empty(), "{program}, {shell}: {}", stderr(&read));
            std::fs::write(&path, "if then ( \n").unwrap();
            assert!(!run(shell, &[look, path.to_str().unwrap()]).status.success(), "{shell} takes anything");
        }
        let mut unknown = Command::new(binary(program));
        unknown.args(["completions", "tcl"]);
        ended(&output(unknown), 2, "invalid value 'tcl'");
    }
}

#[test]
fn manual_pages_are_clean_and_none_hides_another() {
    let place = Place::new();
    let mut titles = Vec::new();
    for program in PROGRAMS {
        let folder = place.path(program);
        std::fs::create_dir(&folder).unwrap();
        made(program, &["man", "--out", folder.to_str().unwrap()]);
        for page in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            check_page(&page);
            titles.push(page.file_name().unwrap().to_str().unwrap().to_owned());
        }
        let first = std::fs::read_to_string(folder.join(format!("{program}.1"))).unwrap();
        assert_eq!(made(program, &["man"]), first);
        for reference in first.lines().filter_map(|line| line.strip_suffix("(1)")) {
            let page = folder.join(format!("{}.1", reference.replace('\\', "")));
            assert!(page.exists(), "{program}(1) refers to `{}`", page.display());
        }
    }
    for title in ["freehold.1", "freehold-invite-create.1", "freehold-nodes-list.1", "freehold-node.1"] {
        assert!(titles.iter().any(|there| there == title), "no {title} among {titles:?}");
    }
    let count = titles.len();
    titles.sort();
    titles.dedup();
    assert_eq!(titles.len(), count, "both programs write a page of one name: {titles:?}");
}

fn check_page(page: &Path) {
    let path = page.to_str().unwrap();
    let lint = run("mandoc", &["-Tlint", "-W", "warning", path]);
    // A date would make the page another one each day.
    let complaints: Vec<_> =
        stdout(&lint).lines().filter(|line| !line.contains("missing date")).map(str::to_owned).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    let set = run("groff", &["-man", "-Tutf8", "-ww", "-z", path]);
    assert!(set.status.success() && stderr(&set).is_empty(), "{path}: {}", stderr(&set));
    let read = stdout(&run("mandoc", &["-Thtml", path]));
    for part in ["NAME", "SYNOPSIS", "DESCRIPTION"] {
        assert!(read.contains(&format!("id=\"{part}\"")), "{path} has no {part}");
    }
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let mut command = Command::new(binary("freehold"));
    command.args(["man", "--out", "/nowhere/at/all"]);
    let told = output(command);
    ended(&told, 1, "No such file or directory");
    assert!(stderr(&told).contains("does the folder exist"), "{}", stderr(&told));
}
