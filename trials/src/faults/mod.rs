//! Bad weather for the real programs: wrong clocks, small disks, system calls that fail or never return.
//!
//! Nothing of it is in the programs: the clock comes from libfaketime, the disk from tmpfs, the rest from strace.

pub mod forgetful;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::place::{output, stderr};

/// A clock that can be set while a program runs.
#[derive(Debug)]
pub struct Clock {
    file: PathBuf,
}

impl Clock {
    /// Right at first.
    pub fn new(file: PathBuf) -> Self {
        let clock = Self { file };
        clock.set("+0");
        clock
    }

    /// Off by this much, as in `+365d`.
    pub fn off(file: PathBuf, by: &str) -> Self {
        let clock = Self::new(file);
        clock.set(by);
        clock
    }

    pub fn set(&self, by: &str) {
        // In one step: a program that looks meanwhile must not find an empty file.
        let draft = self.file.with_extension("draft");
        let written = std::fs::write(&draft, by).and_then(|()| std::fs::rename(&draft, &self.file));
        written.unwrap_or_else(|why| panic!("no clock: {why}"));
    }

    /// Puts this clock under a command. Waiting still takes as long as it takes.
    pub fn under(&self, mut command: Command) -> Command {
        command
            .env("LD_PRELOAD", libfaketime())
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command
    }
}

fn libfaketime() -> PathBuf {
    let here = format!("{}-linux-gnu", std::env::consts::ARCH);
    let folders = [format!("/usr/lib/{here}/faketime"), "/usr/lib/faketime".into(), "/usr/lib64/faketime".into()];
    let found = folders.iter().map(|folder| Path::new(folder).join("libfaketime.so.1")).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("libfaketime is missing: install the package `faketime`"))
}

/// A disk of its own, and small; gone when dropped.
#[derive(Debug)]
pub struct SmallDisk {
    pub folder: PathBuf,
}

const BALLAST: &str = ".ballast";

impl SmallDisk {
    /// Mounts one over a folder, which is made if need be.
    pub fn at(folder: PathBuf, size: &str) -> Self {
        std::fs::create_dir_all(&folder).unwrap_or_else(|why| panic!("no folder: {why}"));
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs"]).arg(&folder);
        let mounted = output(command);
        let how = "run the tests as root, or under `unshare --user --map-root-user --mount`";
        assert!(mounted.status.success(), "cannot mount a small disk; {how}: {}", stderr(&mounted));
        Self { folder }
    }

    /// Leaves this many bytes free, rounded down to pages.
    pub fn leave(&self, free: u64) {
        self.make_room();
        let left = self.free().saturating_sub(free);
        let zeros = vec![0; usize::try_from(left).unwrap_or(0)];
        // The last page may not fit; whatever fits is the ballast.
        let _ = std::fs::write(self.folder.join(BALLAST), zeros);
    }

    pub fn make_room(&self) {
        let _ = std::fs::remove_file(self.folder.join(BALLAST));
    }

    fn free(&self) -> u64 {
        let stat = rustix::fs::statvfs(&self.folder).unwrap_or_else(|why| panic!("no disk: {why}"));
        stat.f_bavail * stat.f_frsize
    }

    pub fn read_only(&self, yes: bool) {
        let mut command = Command::new("mount");
        command.args(["-o", if yes { "remount,ro" } else { "remount,rw" }]).arg(&self.folder);
        let done = output(command);
        assert!(done.status.success(), "cannot remount: {}", stderr(&done));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.folder).stderr(Stdio::null()).status();
    }
}

/// What becomes of a system call.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// SIGKILL before it happens.
    Kill,
    /// It fails with this error, as in `ENOSPC`.
    Fail(&'static str),
}

/// A command under strace: the call of this name fails at each thread's `when`th time, or from then on (`3+`).
pub fn inject(command: &Command, call: &str, fault: Fault, when: &str) -> Command {
    let what = match fault {
        Fault::Kill => "signal=KILL".to_owned(),
        Fault::Fail(error) => format!("error={error}"),
    };
    let mut strace = Command::new("strace");
    // As its grandchild: who is started, waited for and killed here is the command itself.
    strace.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e"]).arg(format!("trace={call}"));
    strace.arg("-e").arg(format!("inject={call}:{what}:when={when}"));
    strace.arg("--").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        strace.env(name, value.unwrap_or(OsStr::new("")));
    }
    strace.stdin(Stdio::null());
    strace
}

/// Runs a command again and again, killed before its first call of this name, then `step` calls later, and so on, until
/// it lives to its end. How often it was killed. `after` looks at what each kill left.
pub fn kill_at_each(
    (call, step): (&str, usize),
    mut command: impl FnMut(usize) -> Command,
    mut after: impl FnMut(usize),
) -> usize {
    const MANY: usize = 400;
    for when in (1..=MANY).step_by(step) {
        let ended: Output = output(inject(&command(when), call, Fault::Kill, &when.to_string()));
        if !was_killed(&ended) {
            assert!(ended.status.success(), "not killed at {call} {when}, and yet failed: {}", stderr(&ended));
            return (when - 1) / step;
        }
        after(when);
    }
    panic!("`{call}` was called over {MANY} times");
}

fn was_killed(ended: &Output) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    ended.status.signal() == Some(9)
}
