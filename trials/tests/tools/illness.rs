//! What a doctor told, and ways to make a machine ill: another user, another clock, a small disk.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use trials::faults::Clock;
use trials::place::{Place, below, binary, mode, output, stderr, stdout};

/// The findings of a doctor, and its exit code.
#[derive(Debug)]
pub struct Told {
    exit: Option<i32>,
    findings: Vec<Value>,
}

impl Told {
    pub fn by(command: Command) -> Self {
        let output = output(command);
        let told: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|why| panic!("not JSON ({why}): {}{}", stdout(&output), stderr(&output)));
        let orgs = told["orgs"].as_array().unwrap();
        let findings: Vec<Value> = orgs.iter().flat_map(|org| org["findings"].as_array().unwrap().clone()).collect();
        let exit = output.status.code();
        let is_wrong = findings.iter().any(|finding| finding["mark"] == "wrong");
        assert_eq!((told["fine"].as_bool(), exit), (Some(!is_wrong), Some(i32::from(is_wrong))), "{told}");
        for finding in &findings {
            assert_eq!(finding["mark"] != "ok", finding["cure"].is_string(), "a cure where it is needed: {finding}");
        }
        Self { exit, findings }
    }

    pub fn is_well(&self) {
        assert_eq!(self.exit, Some(0), "{self:?}");
    }

    /// The worst mark of a subject.
    pub fn mark(&self, subject: &str) -> String {
        let marks = self.findings.iter().filter(|finding| finding["subject"] == subject);
        let marks: Vec<_> = marks.filter_map(|finding| finding["mark"].as_str()).collect();
        let worst = ["wrong", "soon", "ok"].into_iter().find(|mark| marks.contains(mark));
        worst.unwrap_or_else(|| panic!("no `{subject}` in {self:?}")).to_owned()
    }

    /// How many have this mark.
    pub fn count(&self, mark: &str) -> usize {
        self.findings.iter().filter(|finding| finding["mark"] == mark).count()
    }

    pub fn has(&self, mark: &str, subject: &str, found: &str, cure: &str) {
        let fits = |finding: &&Value| {
            let text = |field: &str| finding[field].as_str().unwrap_or_default();
            text("mark") == mark.to_lowercase()
                && text("subject") == subject
                && text("found").contains(found)
                && text("cure").contains(cure)
        };
        let fitting = self.findings.iter().find(fits);
        assert!(fitting.is_some(), "no {mark} {subject} `{found}` with the cure `{cure}` in {:#?}", self.findings);
    }
}

/// Everything below a folder: modes, contents, links.
pub fn snapshot(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let content = |path: &Path| match std::fs::read_link(path) {
        Ok(target) => target.into_os_string().into_encoded_bytes(),
        Err(_) => std::fs::read(path).unwrap_or_default(),
    };
    below(folder).into_iter().map(|path| (path.clone(), (mode(&path), content(&path)))).collect()
}

/// The same command while the clock says something else.
pub fn on_a_clock(offset: &str, command: &Command) -> Told {
    let folder = tempfile::tempdir().unwrap();
    let mut shifted = Command::new(command.get_program());
    shifted.args(command.get_args());
    Told::by(Clock::off(folder.path().join("clock"), offset).under(shifted))
}

/// A program run by somebody who owns nothing here, with `folder` as its last word.
pub fn elsewhere(place: &Place, folder: &Path, program: &str, words: &[&str]) -> Told {
    if !rustix::process::geteuid().is_root() {
        std::fs::set_permissions(folder, Permissions::from_mode(0o000)).unwrap();
        let mut command = Command::new(binary(program));
        command.args(words).arg(folder);
        let told = Told::by(command);
        std::fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
        return told;
    }
    // Where the programs were built may be closed to others.
    let copy = place.path("program");
    std::fs::copy(binary(program), &copy).unwrap();
    std::fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy).args(words).arg(folder);
    Told::by(command)
}

/// A program run with a copy of `folder` on a disk of eight mebibytes, as its last word.
pub fn in_a_small_disk(place: &Place, folder: &Path, program: &str, words: &[&str]) -> Told {
    const RUN: &str = r#"mount -t tmpfs -o size=8m,mode=700 small "$1" && cp -a "$2" "$1/copy" || exit 9
        mounted=$1; shift 2; exec "$@" "$mounted/copy""#;
    let small = place.path("small");
    std::fs::create_dir(&small).unwrap();
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--mount", "sh", "-c", RUN, "sh"]).args([&small, folder]).arg(binary(program)).args(words);
    Told::by(command)
}
