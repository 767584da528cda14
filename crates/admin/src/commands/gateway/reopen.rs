//! `freehold gateway reopen`: a gateway whose chain forks, or lacks what nobody can bring, begins another.

use clap::Args;
use identity::principal::NodeName;
use operate::gateway::reopen;
use operate::gateway::reopen::reopen;
use operate::gateway::reopen::{Branch, Fork, Reopening};
use operate::session::Session;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::{Common, During};
use crate::waiting::{Consent, Left, told};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold gateway reopen quay

This is for a gateway that was restored from a backup or an old copy of its folder, and that nobody can bring what it lacks;
or whose folder was served from two copies, so that its chain has two branches. If there is a newer copy of its folder, put
that in its place instead: then nothing is lost.

One head ends its chain where it holds, and has it begin another. Members stay. Machines that only a lost part or a branch let
in wait: freehold node approve NAME lists them. Whoever was revoked in what is lost, and stands in no head, must be revoked again.")]
pub struct Reopen {
    /// The gateway's node name
    node: NodeName,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Reopened {
    gateway: String,
    head: u64,
    voice: String,
    former_voice: String,
    restored: bool,
    /// Places of its chain that nobody can bring: the first and the last.
    lacking: Option<(u64, u64)>,
    /// Other gateways that had entries which it lacks.
    had_by: Vec<String>,
    fork: Option<ForkTold>,
    /// Machines that wait for an operator.
    waiting: Vec<WaitsTold>,
    invites: Vec<InviteTold>,
    #[serde(flatten)]
    pending: Left,
}

#[derive(Serialize)]
pub(super) struct ForkTold {
    at: u64,
    branches: Vec<BranchTold>,
}

impl ForkTold {
    pub(super) fn of(fork: Fork) -> Self {
        let branch = |it: Branch| BranchTold {
            entry: it.entry.to_string(),
            at: it.at.to_string(),
            entries: it.entries,
            admitted: it.admitted.iter().map(ToString::to_string).collect(),
        };
        Self { at: fork.at, branches: fork.branches.into_iter().map(branch).collect() }
    }

    pub(super) fn in_words(&self, gateway: &str) -> String {
        let entries: Vec<_> = self.branches.iter().map(|it| it.entry.as_str()).collect();
        let (at, entries) = (self.at, entries.join(" and "));
        format!("its chain forks at entry {at}: {entries}; see: freehold gateway reopen {gateway}")
    }
}

#[derive(Serialize)]
struct BranchTold {
    entry: String,
    at: String,
    entries: usize,
    admitted: Vec<String>,
}

#[derive(Serialize)]
struct WaitsTold {
    name: String,
    why: String,
}

#[derive(Serialize)]
struct InviteTold {
    id: String,
    label: String,
    uses: String,
}

impl Reopen {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not reopen `{}`", self.node);
        let (mut session, keys) = common.signing_session_on(&doing, true).await?;
        let reopening = reopen::look(&mut session, &self.node).await.during(&doing)?;
        if !common.json {
            eprintln!("{}", in_words(&reopening));
        }
        let question = format!("End the chain of `{}`, and have it begin another?", self.node);
        let consent = Consent { common, doing: &doing, yes: self.yes, question: &question };
        let draft = |session: &Session, now| Ok(reopen::draft(session, &reopening, now)?.roll);
        let sign = async |session: &mut Session| reopen(session, &keys, &reopening).await;
        let (head, pending) = consent.sign(&mut session, draft, sign).await?;
        let result = Reopened::of(reopening, head.version, pending);
        show(common.json, &result, || {
            told(result.pending.waiting(), || {
                let (gateway, head) = (&result.gateway, result.head);
                let waits: Vec<_> =
                    result.waiting.iter().map(|it| format!("\n  freehold node approve {}", it.name)).collect();
                let then = if waits.is_empty() {
                    String::new()
                } else {
                    format!("; these wait, and are listed by:{}", waits.concat())
                };
                format!("`{gateway}` begins another chain (head {head}){then}")
            })
        });
        Ok(())
    }
}

impl Reopened {
    fn of(it: Reopening, head: u64, pending: Left) -> Self {
        let fork = it.fork.map(ForkTold::of);
        let invite =
            |(id, label, uses): (_, String, _)| InviteTold { id: format!("{id}"), label, uses: format!("{uses}") };
        Self {
            gateway: it.gateway.to_string(),
            head,
            voice: it.next.to_string(),
            former_voice: it.voice.to_string(),
            restored: it.restored,
            lacking: it.lacking,
            had_by: it.had_by.iter().map(|(peer, ..)| peer.to_string()).collect(),
            fork,
            waiting: it.waiting.into_iter().map(|(name, why)| WaitsTold { name: name.to_string(), why }).collect(),
            invites: it.invites.into_iter().map(invite).collect(),
            pending,
        }
    }
}

/// What is known of it, for the person who decides.
fn in_words(it: &Reopening) -> String {
    let gateway = &it.gateway;
    let mut lines = Vec::new();
    if it.restored {
        lines.push(format!("`{gateway}` was restored from a backup: what it wrote afterwards is not known here."));
    } else if let Some((first, last)) = it.lacking {
        lines
            .push(format!("`{gateway}` lacks entries {first} to {last} of its own chain, which it told this home of."));
    } else if it.behind && it.fork.is_none() {
        lines.push(format!("`{gateway}` told others of entries of its own that it lacks; this home has none of them."));
    }
    for (peer, count, at) in &it.had_by {
        lines.push(format!(
            "`{peer}` had {count} entries at {at} that `{gateway}` lacks: start it, so that it hands them over."
        ));
    }
    if let Some(fork) = &it.fork {
        lines.push(format!(
            "The chain of `{gateway}` forks at entry {}: its folder was served from two copies.",
            fork.at
        ));
        for branch in &fork.branches {
            let names: Vec<_> = branch.admitted.iter().map(ToString::to_string).collect();
            let who = if names.is_empty() { "nobody".to_owned() } else { names.join(" ") };
            lines.push(format!(
                "  {} of {}, {} entry(s) from there on, let in: {who}",
                branch.entry, branch.at, branch.entries
            ));
        }
    }
    lines.push("Its chain ends where it holds, and it begins another. All who are members now are listed.".to_owned());
    if !it.waiting.is_empty() {
        lines.push("These wait afterwards; freehold node approve NAME lists them:".to_owned());
        lines.extend(it.waiting.iter().map(|(name, why)| format!("  {name}: {why}")));
    }
    if !it.invites.is_empty() {
        lines.push("These invites are signed anew, with what is left of them as far as this home knows:".to_owned());
        lines.extend(it.invites.iter().map(|(id, label, uses)| format!("  {id} {label:?}: {uses} use(s)")));
        lines.push("One that may be in wrong hands: freehold invite revoke ID".to_owned());
    }
    lines.join("\n")
}
