//! `freehold node waiting`: who waits for an operator's yes.

use clap::Args;
use identity::principal::NodeName;
use operate::node::waiting::{CutOff, WaitingClaim, cut_off};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::table;

use crate::commands::node::candidate::warn;
use crate::home::{Common, During};

#[derive(Debug, Args)]
pub struct Waiting {}

/// Whoever waits for an operator, for programs.
#[derive(Serialize)]
#[serde(untagged)]
enum Waits<'a> {
    Claim(Box<Told<'a>>),
    CutOff {
        name: &'a NodeName,
        node_key: String,
        admission: String,
        admitted_by: &'a NodeName,
        admitted_at: String,
        invite: Option<String>,
        /// Why its admission does not count.
        cut_off: &'a str,
    },
}

impl<'a> Waits<'a> {
    fn cut(it: &'a CutOff) -> Self {
        Self::CutOff {
            name: &it.name,
            node_key: it.node_key.to_string(),
            admission: it.admission.to_string(),
            admitted_by: &it.gateway,
            admitted_at: it.at.to_string(),
            invite: it.invite.map(|id| id.to_string()),
            cut_off: &it.why,
        }
    }
}

/// A machine that waits to be let in.
#[derive(Serialize)]
struct Told<'a> {
    name: &'a NodeName,
    words: String,
    claim: String,
    node_key: String,
    invite: String,
    invite_label: &'a str,
    hostname: Option<&'a str>,
    os: Option<&'a str>,
    arch: Option<&'a str>,
    agent: Option<&'a str>,
    facts: serde_json::Value,
    /// By the gateway's word.
    address: String,
    since: String,
    last_seen: String,
    until: String,
    approved_by: Vec<String>,
    /// So long what they said waits for the machine.
    approved_until: Option<String>,
    approvers: u8,
}

impl<'a> Told<'a> {
    fn of(one: &'a WaitingClaim) -> Self {
        let facts = one.facts.as_ref();
        Self {
            name: &one.claim.name,
            words: one.words.to_string(),
            claim: one.digest.to_string(),
            node_key: one.claim.node_key.to_string(),
            invite: one.invite.id.to_string(),
            invite_label: &one.invite.label,
            hostname: facts.map(|facts| facts.hostname.as_str()),
            os: facts.map(|facts| facts.os.as_str()),
            arch: facts.map(|facts| facts.arch.as_str()),
            agent: facts.map(|facts| facts.agent.as_str()),
            facts: facts.map(|facts| serde_json::json!(facts.more)).unwrap_or_default(),
            address: one.source.to_string(),
            since: one.first_seen.to_string(),
            last_seen: one.last_seen.to_string(),
            until: one.invite.expires_at.to_string(),
            approved_by: one.yes.iter().map(ToString::to_string).collect(),
            approved_until: one.yes_until.map(|until| until.to_string()),
            approvers: one.invite.approvers,
        }
    }
}

impl Waiting {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not list who waits";
        let mut session = common.session(doing).await?;
        let (waiting, odd) = operate::node::waiting::all(&mut session).await.during(doing)?;
        warn(&odd);
        let cut = cut_off(&mut session).await.during(doing)?;
        let claims = waiting.iter().map(|one| Waits::Claim(Box::new(Told::of(one))));
        let told: Vec<_> = claims.chain(cut.iter().map(Waits::cut)).collect();
        show(common.json, &told, || {
            let rows: Vec<_> = waiting.iter().map(row).collect();
            let mut parts = Vec::new();
            if !rows.is_empty() {
                parts.push(table(&["NAME", "WORDS", "HOST NAME", "ADDRESS", "INVITE", "SINCE", "UNTIL", ""], &rows));
            }
            if !cut.is_empty() {
                let line = |it: &CutOff| format!("  {}: {}", it.name, it.why);
                let lines: Vec<_> = cut.iter().map(line).collect();
                parts.push(format!(
                    "admitted, and not counted; freehold node approve NAME lists one:\n{}",
                    lines.join("\n")
                ));
            }
            if parts.is_empty() { "nobody waits for an operator".to_owned() } else { parts.join("\n\n") }
        });
        Ok(())
    }
}

fn row(one: &WaitingClaim) -> Vec<String> {
    let label = if one.invite.label.is_empty() { one.invite.id.to_string() } else { one.invite.label.clone() };
    let until = one.yes_until.map(|until| format!(", until {until}")).unwrap_or_default();
    vec![
        one.claim.name.to_string(),
        one.words.to_string(),
        one.facts.as_ref().map_or("-", |facts| &facts.hostname).to_owned(),
        one.source.to_string(),
        label,
        one.first_seen.to_string(),
        one.invite.expires_at.to_string(),
        match (one.yes.len(), usize::from(one.invite.approvers)) {
            (0, _) => String::new(),
            (yes, needs) if yes >= needs => format!("approved; it has not come back yet{until}"),
            (yes, needs) => format!("{yes} of {needs} approve{until}"),
        },
    ]
}
