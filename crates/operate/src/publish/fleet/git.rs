//! Which state of the fleet's folder is published, as git names it.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use identity::head::{FleetRef, GitHash};
use manifest::source::{SourceFile, is_source};

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git could not be asked about `{folder}`: {why}")]
    Failed { folder: String, why: String },
}

/// What git says of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitState {
    pub fleet: FleetRef,
    /// The folder is under git.
    pub versioned: bool,
    /// Files that are not as they were committed.
    pub changed: Vec<String>,
}

/// Commit and tree of the folder. Without git, or outside of a repository: none, and that is no error.
pub fn look(folder: &Path) -> Result<GitState, GitError> {
    let failed = |why: String| GitError::Failed { folder: folder.display().to_string(), why };
    let none =
        GitState { fleet: FleetRef { commit: None, tree: None, dirty: false }, versioned: false, changed: Vec::new() };
    let inside = match git(folder, &["rev-parse", "--is-inside-work-tree"]) {
        Ok(inside) => inside,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(none),
        Err(why) => return Err(failed(why.to_string())),
    };
    if !inside.status.success() {
        let why = words(&inside.stderr);
        return if why.contains("not a git repository") { Ok(none) } else { Err(failed(why)) };
    }
    if words(&inside.stdout) != "true" {
        return Ok(none);
    }
    let ask = |question: &[&str]| git(folder, question).map_err(|why| failed(why.to_string()));
    let hash = |revision: &str| {
        let found = ask(&["rev-parse", "--verify", "--quiet", "--end-of-options", revision])?;
        Ok(words(&found.stdout).parse().ok())
    };
    let (commit, tree) = (hash("HEAD^{commit}")?, hash("HEAD:./")?);
    let status =
        ask(&["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignored", "--", "."])?;
    if !status.status.success() {
        return Err(failed(words(&status.stderr)));
    }
    let changed = changed(&status.stdout);
    // Without a first commit, or in a folder that no commit has, everything is a change.
    let dirty = commit.is_none() || tree.is_none() || !changed.is_empty();
    Ok(GitState { fleet: FleetRef { commit, tree, dirty }, versioned: true, changed })
}

/// More files than any fleet has.
const MOST_FILES: usize = 2_000;

/// The fleet as it was in a tree that git still has; nothing if it does not.
pub fn sources_at(folder: &Path, tree: &GitHash) -> Option<Vec<SourceFile>> {
    let ask = |words: &[&str]| git(folder, words).ok().filter(|told| told.status.success()).map(|told| told.stdout);
    let listed = ask(&["ls-tree", "-r", "-z", "--name-only", "--full-tree", &tree.to_string()])?;
    let names = listed.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    let names: Vec<&str> = names.filter(|name| is_source(name)).take(MOST_FILES).collect();
    let read = |name: &&str| {
        let bytes = ask(&["cat-file", "blob", &format!("{tree}:{name}")])?;
        Some(SourceFile { path: (*name).to_owned(), bytes })
    };
    names.iter().map(read).collect()
}

/// What git ignores changes the fleet only if it is read as a part of it.
fn changed(status: &[u8]) -> Vec<String> {
    let is_read = |path: &str| {
        let ending = Path::new(path).extension().and_then(|ending| ending.to_str());
        matches!(ending, Some("yaml" | "yml" | "json")) || path.split('/').any(|part| part == "files")
    };
    let lines = status.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    let lines = lines.map(|line| String::from_utf8_lossy(line).into_owned());
    let told = lines.filter(|line| line.strip_prefix("!! ").is_none_or(is_read));
    told.map(|line| line.get(3..).unwrap_or(&line).to_owned()).collect()
}

/// In an environment of its own, so that no variable of the caller's changes what is seen, and so that neither hooks nor
/// a monitor are started on the repository's word.
fn git(folder: &Path, words: &[&str]) -> std::io::Result<Output> {
    let mut command = Command::new("git");
    command.env_clear();
    for kept in ["PATH", "HOME"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    command.env("LC_ALL", "C").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_OPTIONAL_LOCKS", "0");
    command.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
    command.arg("-C").arg(folder).args(words).stdin(Stdio::null()).output()
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[cfg(test)]
mod tests;
