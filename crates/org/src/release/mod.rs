//! The agent release (TUF's targets): which program each platform runs, by its hash. Its schema is frozen, so that an
//! old agent can always learn how to update itself.

pub mod executable;

use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use identity::envelope::Payload;
use identity::id::Digest;
use identity::text::BadText;
use identity::text_form;
use identity::time::Timestamp;
use serde::{Deserialize, Serialize};

/// No agent is larger, nor anything else that a gateway hands to strangers.
pub const MAX_FILE: u64 = 256 << 20;
const MAX_AGENTS: usize = 64;
const FIRST_LINE: &str = "freehold-agents 1";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Rises by one.
    pub number: u64,
    pub created_at: Timestamp,
    /// One for each platform, in the order of `os` and `arch`.
    pub agents: Vec<Agent>,
    /// SHA-256 of the list that the join script reads: `list_text`.
    pub list: Digest,
}

impl Payload for Release {
    const KIND: &'static str = "release";
    const SCHEMA: u32 = 1;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    pub os: PlatformWord,
    pub arch: PlatformWord,
    pub version: AgentVersion,
    pub size: u64,
    pub sha256: Digest,
}

/// A system or an architecture, in one word. Which words there are may grow; the schema does not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlatformWord(String);

/// A version of the agent, as `0.1.0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentVersion(String);

impl fmt::Display for PlatformWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for PlatformWord {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        let plain = text.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_');
        let good = plain && (1..=16).contains(&text.len());
        if good { Ok(Self(text.to_owned())) } else { Err(BadText { form: "word for a platform" }) }
    }
}

text_form!(PlatformWord);

impl fmt::Display for AgentVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for AgentVersion {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        let plain = text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'+'));
        let good = plain && (1..=40).contains(&text.len()) && text.starts_with(|c: char| c.is_ascii_digit());
        if good { Ok(Self(text.to_owned())) } else { Err(BadText { form: "version of the agent, as 0.1.0" }) }
    }
}

text_form!(AgentVersion);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadRelease {
    #[error("a release has between 1 and {MAX_AGENTS} agents")]
    Count,
    #[error("the agents of a release are sorted by platform, one for each")]
    Order,
    #[error("an agent of the release is empty, or larger than any agent")]
    Size,
    #[error("the release's list is not the list of its agents")]
    OtherList,
}

impl Release {
    /// These agents in place of those for the same platforms; the others stay.
    pub fn next(before: Option<&Self>, agents: Vec<Agent>, created_at: Timestamp) -> Self {
        let replaced: BTreeSet<_> = agents.iter().map(|agent| (&agent.os, &agent.arch)).collect();
        let kept = before.into_iter().flat_map(|before| &before.agents);
        let mut all: Vec<Agent> = kept.filter(|old| !replaced.contains(&(&old.os, &old.arch))).cloned().collect();
        all.extend(agents);
        all.sort_by(|a, b| a.platform().cmp(&b.platform()));
        let number = before.map_or(1, |before| before.number.saturating_add(1));
        let list = Digest::of(list_text(&all).as_bytes());
        Self { number, created_at, agents: all, list }
    }

    pub fn check(&self) -> Result<(), BadRelease> {
        if !(1..=MAX_AGENTS).contains(&self.agents.len()) {
            return Err(BadRelease::Count);
        }
        let mut pairs = self.agents.iter().zip(self.agents.iter().skip(1));
        if !pairs.all(|(a, b)| a.platform() < b.platform()) {
            return Err(BadRelease::Order);
        }
        if self.agents.iter().any(|agent| !(1..=MAX_FILE).contains(&agent.size)) {
            return Err(BadRelease::Size);
        }
        let list = Digest::of(list_text(&self.agents).as_bytes());
        if list == self.list { Ok(()) } else { Err(BadRelease::OtherList) }
    }

    /// What the join script reads.
    pub fn list_text(&self) -> String {
        list_text(&self.agents)
    }

    /// Every file that it names.
    pub fn files(&self) -> impl Iterator<Item = Digest> {
        self.agents.iter().map(|agent| agent.sha256).chain([self.list])
    }
}

impl Agent {
    pub const fn platform(&self) -> (&PlatformWord, &PlatformWord) {
        (&self.os, &self.arch)
    }
}

/// One line for each agent, after a first line that names the format.
fn list_text(agents: &[Agent]) -> String {
    let mut text = format!("{FIRST_LINE}\n");
    for Agent { os, arch, version, size, sha256 } in agents {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{os} {arch} {sha256} {size} {version}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(os: &str, arch: &str, version: &str) -> Agent {
        let sha256 = Digest::of(format!("{os} {arch} {version}").as_bytes());
        Agent {
            os: os.parse().unwrap(),
            arch: arch.parse().unwrap(),
            version: version.parse().unwrap(),
            size: 7,
            sha256,
        }
    }

    fn now() -> Timestamp {
        "2026-11-15T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_release_replaces_the_same_platform_and_keeps_the_others() {
        let first =
            Release::next(None, vec![agent("macos", "aarch64", "0.1.0"), agent("linux", "x86_64", "0.1.0")], now());
        let second = Release::next(Some(&first), vec![agent("linux", "x86_64", "0.2.0")], now());
        assert_eq!((first.number, second.number), (1, 2));
        let told: Vec<_> = second.agents.iter().map(|agent| format!("{} {}", agent.os, agent.version)).collect();
        assert_eq!(told, ["linux 0.2.0", "macos 0.1.0"]);
        assert_eq!((first.check(), second.check()), (Ok(()), Ok(())));
    }

    #[test]
    fn the_list_is_made_from_the_agents_alone() {
        let linux = agent("linux", "x86_64", "0.1.0");
        let release = Release::next(None, vec![linux.clone()], now());
        let text = format!("freehold-agents 1\nlinux x86_64 {} 7 0.1.0\n", linux.sha256);
        assert_eq!(release.list_text(), text);
        assert_eq!(release.list, Digest::of(text.as_bytes()));
        assert_eq!(release.files().collect::<Vec<_>>(), [linux.sha256, release.list]);
    }

    #[test]
    fn a_release_that_does_not_hold_together_is_refused() {
        let good = Release::next(None, vec![agent("linux", "x86_64", "1"), agent("macos", "x86_64", "1")], now());
        let with = |change: &dyn Fn(&mut Release)| {
            let mut release = good.clone();
            change(&mut release);
            release.check().unwrap_err()
        };
        assert_eq!(with(&|release| release.agents.clear()), BadRelease::Count);
        assert_eq!(with(&|release| release.agents.reverse()), BadRelease::Order);
        assert_eq!(with(&|release| release.agents[1] = release.agents[0].clone()), BadRelease::Order);
        assert_eq!(with(&|release| release.agents[0].size = 0), BadRelease::Size);
        assert_eq!(with(&|release| release.agents[0].size = MAX_FILE + 1), BadRelease::Size);
        assert_eq!(with(&|release| release.agents[0].size = 8), BadRelease::OtherList);
    }

    #[test]
    fn words_cannot_break_out_of_their_line() {
        for word in ["", "a b", "a\nb", "Linux", "l/x", &"a".repeat(17)] {
            assert!(word.parse::<PlatformWord>().is_err(), "{word:?}");
        }
        for version in ["", "v1", "1 2", "1\n2", "1;2", "1/2", &"1".repeat(41)] {
            assert!(version.parse::<AgentVersion>().is_err(), "{version:?}");
        }
    }
}
