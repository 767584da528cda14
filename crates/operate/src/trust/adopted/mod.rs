//! Who goes by which version of the trusted roots: from what each node says of itself, under its own key.

use std::collections::BTreeSet;

use ground::clock;
use identity::bundle::Domain;
use identity::id::{Digest, Fingerprint};
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use ledger::views::NodeView;
use org::report::{DomainTold, Refused, TrustTold};
use serde::Serialize;
use wire::control::Observed;

use crate::node;
use crate::replica::roll::first_of;
use crate::session::reports::{Reports, reports};
use crate::session::{Result, Session, TrustError};

/// So long after it was last heard of, a node counts as off.
pub(crate) const ABSENT: Seconds = Seconds(180);
/// So often the list of members is read anew while somebody waits; reports are read each time.
const MEMBERS_ANEW: Seconds = Seconds(15);
/// So many names are told to people; all are in the JSON.
const SHOWN: usize = 10;
const BAR: usize = 12;

/// A member, and what it said last of the roots that it goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustStance {
    pub name: NodeName,
    pub last_seen: Option<Timestamp>,
    pub svid_expires_at: Option<Timestamp>,
    /// Version of its agent, if it ever spoke.
    pub agent: Option<String>,
    /// Absent if it never spoke, or if its agent is too old to say.
    pub trust: Option<TrustTold>,
}

impl TrustStance {
    pub fn told(&self, domain: Domain) -> Option<&DomainTold> {
        self.trust.as_ref().map(|trust| trust.of(domain))
    }

    /// Since when nothing was heard of it, if it is off.
    pub(crate) fn off_since(&self, now: Timestamp) -> Option<Timestamp> {
        self.last_seen.filter(|seen| now.since(*seen) > ABSENT)
    }
}

/// The members, and the reports that were heard so far: read once, then only what is new.
#[derive(Debug, Clone)]
pub struct Stances {
    members: Vec<(TrustStance, Digest)>,
    reports: Reports,
    after: u64,
    read_at: Timestamp,
}

/// How far a version has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Adoption {
    pub domain: Domain,
    pub version: u64,
    pub adopted: Vec<NodeName>,
    /// They have it on trial.
    pub trying: Vec<NodeName>,
    /// They could not reach a gateway under it, and are what they were.
    pub went_back: Vec<WentBack>,
    /// They have not said that they have it.
    pub missing: Vec<Missing>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WentBack {
    pub name: NodeName,
    pub why: String,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    pub name: NodeName,
    pub last_seen: Option<Timestamp>,
    pub state: Silence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Silence {
    /// It is there, and will say.
    NotYet,
    Offline,
    /// It joined, and its agent never ran.
    NeverSpoke,
    /// Its agent knows nothing of versions.
    AgentTooOld,
}

impl Silence {
    fn of(stance: &TrustStance, now: Timestamp) -> Self {
        match (&stance.agent, &stance.trust) {
            (None, _) => Self::NeverSpoke,
            (Some(_), None) => Self::AgentTooOld,
            (Some(_), Some(_)) if stance.off_since(now).is_some() => Self::Offline,
            (Some(_), Some(_)) => Self::NotYet,
        }
    }
}

impl Missing {
    pub fn in_words(&self) -> String {
        let seen = |words: &str| self.last_seen.map_or_else(String::new, |seen| format!("{words} {seen}"));
        match self.state {
            Silence::NotYet => format!("not yet{}", seen("; last seen at")),
            Silence::Offline => format!("offline{}", seen(" since")),
            Silence::NeverSpoke => "its agent never ran".to_owned(),
            Silence::AgentTooOld => "its agent is too old to say".to_owned(),
        }
    }
}

/// A member with an SVID from before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Before {
    pub name: NodeName,
    pub why: String,
}

impl Stances {
    /// Each of these is a member: a name that was mistyped is not passed over.
    pub fn check_names(&self, names: &BTreeSet<NodeName>) -> Result<(), TrustError> {
        let members: BTreeSet<&NodeName> = self.members.iter().map(|(member, _)| &member.name).collect();
        let strangers: Vec<_> = names.iter().filter(|name| !members.contains(name)).cloned().collect();
        if strangers.is_empty() { Ok(()) } else { Err(TrustError::NoNodes(strangers)) }
    }

    /// Each member with its last word.
    pub fn all(&self) -> Vec<TrustStance> {
        self.members.iter().map(|(member, key)| self.stance(member, *key)).collect()
    }

    fn stance(&self, member: &TrustStance, key: Digest) -> TrustStance {
        let heard = self.reports.get(&key).filter(|heard| heard.report.node == member.name);
        TrustStance {
            last_seen: member.last_seen.max(heard.map(|heard| heard.received_at)),
            agent: heard.map(|heard| heard.report.agent.clone()),
            trust: heard.and_then(|heard| heard.report.trust.clone()),
            ..member.clone()
        }
    }

    /// How far a version has come that was published at this moment.
    pub fn adoption(&self, domain: Domain, version: u64, published_at: Timestamp, now: Timestamp) -> Adoption {
        let mut adoption = Adoption {
            domain,
            version,
            adopted: Vec::new(),
            trying: Vec::new(),
            went_back: Vec::new(),
            missing: Vec::new(),
        };
        for (member, key) in &self.members {
            adoption.count(self.stance(member, *key), published_at, now);
        }
        adoption
    }

    /// How many members there are, and those that hold an SVID which does not lead to each of these roots. One that has
    /// ended cuts nobody off: its node comes back by its node key.
    pub fn before(&self, roots: &BTreeSet<Fingerprint>, now: Timestamp) -> (usize, Vec<Before>) {
        let all = self.all();
        let before = |member: &TrustStance| {
            let svids = member.trust.iter().flat_map(|trust| &trust.svids);
            let mut old = svids.filter(|svid| now < svid.not_after && !roots.iter().all(|it| svid.roots.contains(it)));
            let old = old.next()?;
            Some(Before {
                name: member.name.clone(),
                why: format!("`{}` does not lead to the new root yet; it lasts until {}", old.principal, old.not_after),
            })
        };
        (all.len(), all.iter().filter_map(before).collect())
    }
}

impl Adoption {
    fn count(&mut self, stance: TrustStance, published_at: Timestamp, now: Timestamp) {
        let told = stance.told(self.domain);
        // An older refusal is about another version.
        let refused = told.and_then(|told| told.refused.clone()).filter(|refused| refused.at >= published_at);
        match (told, refused) {
            (Some(told), _) if told.has(self.version) => self.adopted.push(stance.name),
            (Some(told), _) if told.trial == Some(self.version) => self.trying.push(stance.name),
            (_, Some(Refused { at, why })) => self.went_back.push(WentBack { name: stance.name, why, at }),
            (_, None) => {
                let (state, last_seen) = (Silence::of(&stance, now), stance.last_seen);
                self.missing.push(Missing { name: stance.name, last_seen, state });
            }
        }
    }

    pub const fn all(&self) -> usize {
        self.adopted.len() + self.trying.len() + self.went_back.len() + self.missing.len()
    }

    /// Every member has it.
    pub const fn is_whole(&self) -> bool {
        self.adopted.len() == self.all()
    }

    /// Everybody who has it not.
    pub fn lacking(&self) -> impl Iterator<Item = &NodeName> {
        let back = self.went_back.iter().map(|it| &it.name);
        back.chain(self.missing.iter().map(|it| &it.name)).chain(&self.trying)
    }

    /// The same, but for those who may be left behind.
    #[must_use]
    pub fn without(mut self, left: &BTreeSet<NodeName>) -> Self {
        self.went_back.retain(|it| !left.contains(&it.name));
        self.missing.retain(|it| !left.contains(&it.name));
        self.trying.retain(|name| !left.contains(name));
        self
    }

    /// `[##########--] 37 of 40`; full only if nobody is left.
    pub fn bar(&self) -> String {
        let (done, all) = (self.adopted.len(), self.all());
        let full = (done * BAR).checked_div(all).unwrap_or(0);
        format!("[{}{}] {done} of {all}", "#".repeat(full), "-".repeat(BAR - full))
    }

    /// Who has it not, and why, one line each: those first who need somebody to look.
    pub fn rest(&self) -> Vec<String> {
        let back = self.went_back.iter().map(|it| format!("`{}` went back at {}: {}", it.name, it.at, it.why));
        let missing = self.missing.iter().map(|it| format!("`{}`: {}", it.name, it.in_words()));
        let trying = self.trying.iter().map(|name| format!("`{name}` tries it"));
        back.chain(missing).chain(trying).collect()
    }
}

/// So many of them as people are shown.
pub fn bounded(lines: &[String]) -> Vec<String> {
    first_of(lines, SHOWN)
}

/// Reads who is a member and what each said last. Who must be among them, with which key, is the ledger's word.
pub(crate) async fn stances(session: &mut Session) -> Result<Stances> {
    session.folded().await?;
    let (members, read_at) = (members_seen(session).await?, clock::now());
    let (reports, after) = if session.is_alone() { Default::default() } else { reports(session, 0).await? };
    Ok(Stances { members, reports, after, read_at })
}

/// The same for who only looks; nothing where no gateway answers.
pub async fn stances_known(session: &mut Session) -> Result<Option<Stances>> {
    if session.is_alone() { Ok(None) } else { Ok(Some(stances(session).await?)) }
}

/// Reads what was said since.
pub(crate) async fn hear(session: &mut Session, stances: &mut Stances) -> Result<()> {
    let now = clock::now();
    if now.since(stances.read_at) >= MEMBERS_ANEW || now < stances.read_at {
        session.look_again().await?;
        stances.members = members_seen(session).await?;
        stances.read_at = now;
    }
    let (reports, after) = reports(session, stances.after).await?;
    stances.reports.extend(reports);
    stances.after = after;
    Ok(())
}

async fn members_seen(session: &mut Session) -> Result<Vec<(TrustStance, Digest)>> {
    let seen = |node: NodeView| {
        let key = node.node_key.digest();
        let (name, Observed { last_seen, svid_expires_at, .. }) = (node.name, node.observed);
        (TrustStance { name, last_seen, svid_expires_at, agent: None, trust: None }, key)
    };
    Ok(node::members(session).await?.into_iter().map(seen).collect())
}

#[cfg(test)]
mod tests;
