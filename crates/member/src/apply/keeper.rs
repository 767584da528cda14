//! Keeps the program of one check: a process of its own that runs it, says how it ended, and ends with all that it began.
//!
//! What a program leaves behind, in whatever session, is handed to its keeper, and to nobody above it (a subreaper). So the
//! keeper finds all of it, and goes on until nothing is left: when the program has ended, or when the agent lets go of it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

/// The program as it runs: also if its file was replaced since.
#[cfg(not(test))]
const OURSELVES: &str = "/proc/self/exe";
/// The command of the programs that runs this.
pub const COMMAND: &str = "keep";
/// A longer line is none of the agent's.
const LONGEST_LINE: u64 = 1 << 20;

/// What the agent is told: in one line, before the keeper ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kept {
    /// As the system says it.
    Ended(i32),
    NotStarted(String),
}

/// This very program, as a keeper.
#[cfg(not(test))]
pub(crate) fn command() -> Command {
    let mut command = Command::new(OURSELVES);
    command.arg(COMMAND);
    command
}

/// In tests that is the test's own program.
#[cfg(test)]
pub(crate) fn command() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test is a program"));
    command.args(["--exact", "apply::keeper::tests::a_process_of_its_own", "--ignored", "--nocapture"]);
    command
}

/// Standard input is a socket to the agent, which says what is to be run. What the program says goes to standard error.
pub fn run() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    let agent = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut line = String::new();
    BufReader::new(agent.try_clone()?.take(LONGEST_LINE)).read_line(&mut line)?;
    let words: Vec<String> = serde_json::from_str(&line)?;
    let kept = match start(&words) {
        Ok(program) => {
            let lets_go = agent.try_clone()?;
            std::thread::spawn(move || {
                // It says nothing more: this ends when it is gone, or wants the program no longer.
                let _end = (&lets_go).read(&mut [0]);
                end_all();
                std::process::exit(0);
            });
            let ended = ended(program);
            end_all();
            Kept::Ended(ended?.as_raw())
        }
        Err(why) => Kept::NotStarted(why.to_string()),
    };
    let mut told = serde_json::to_vec(&kept)?;
    told.push(b'\n');
    (&agent).write_all(&told)
}

/// It leads a group of its own: what it says to its group does not end its keeper.
fn start(words: &[String]) -> io::Result<Pid> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let says = || io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
    let mut command = std::process::Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(says()?).stderr(says()?).process_group(0);
    let child = command.spawn()?;
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Of all that end before it, nothing has to be known.
fn ended(program: Pid) -> rustix::io::Result<WaitStatus> {
    loop {
        match retry_on_intr(|| wait(WaitOptions::empty()))? {
            Some((ended, status)) if ended == program => return Ok(status),
            Some(_) | None => {}
        }
    }
}

/// Until there is nothing below this process, or only what it may not end.
fn end_all() {
    loop {
        let killed = below(getpid()).into_iter().filter(|pid| kill_process(*pid, Signal::KILL).is_ok()).count();
        // Whoever was orphaned by it is ours by then.
        if killed == 0 || matches!(retry_on_intr(|| wait(WaitOptions::empty())), Err(Errno::CHILD)) {
            return;
        }
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    }
}

/// All processes that descend from this one, by what the system says of each one's parent.
fn below(root: Pid) -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some((id, parent)) = id.and_then(|id| Some((id, parent_of(id)?))) {
            children.entry(parent).or_default().push(id);
        }
    }
    let (mut found, mut next) = (Vec::new(), vec![root.as_raw_nonzero().get()]);
    while let Some(parent) = next.pop() {
        let here = children.remove(&parent).unwrap_or_default();
        found.extend(here.iter().filter_map(|id| Pid::from_raw(*id)));
        next.extend(here);
    }
    found
}

fn parent_of(id: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // A program's name, in parentheses, may have parentheses and spaces in it.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// The agent's end of a socket, and the keeper's.
pub(crate) fn line() -> io::Result<(tokio::net::UnixStream, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((tokio::net::UnixStream::from_std(ours)?, OwnedFd::from(theirs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "the tests of checks start it"]
    fn a_process_of_its_own() {
        std::process::exit(i32::from(run().is_err()));
    }

    #[test]
    fn what_descends_from_a_process_is_found_and_nothing_else() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 600 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let (shell, sleeps) = (i32::try_from(child.id()).unwrap(), said.trim().parse::<i32>().unwrap());
        let found: Vec<i32> =
            below(Pid::from_raw(shell).unwrap()).iter().map(|pid| pid.as_raw_nonzero().get()).collect();
        assert_eq!(found, [sleeps]);
        assert_eq!((parent_of(sleeps), parent_of(shell)), (Some(shell), Some(getpid().as_raw_nonzero().get())));
        for pid in below(getpid()).iter().filter(|pid| [shell, sleeps].contains(&pid.as_raw_nonzero().get())) {
            kill_process(*pid, Signal::KILL).unwrap();
        }
        child.wait().unwrap();
    }
}
