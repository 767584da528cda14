//! `freehold node waiting | approve | deny`: a person looks at a machine before it is let in.

use std::io::IsTerminal as _;

use clap::Args;
use ground::clock;
use ground::plain::plain;
use identity::principal::NodeName;
use operate::key::SignerKeys;
use operate::node::candidate::{Candidate, NoCandidate, Search, find};
use operate::node::waiting::{
    CutOff, Unclear, WaitingClaim, approve, cut_off, deny, draft_listing, list, pick, speaker,
};
use operate::session::Session;
use serde::Serialize;
use terminal::confirm::confirm;
use terminal::failure::{Exit, Failure};
use terminal::show::show;
use terminal::table::table;

use crate::home::{Common, During};
use crate::waiting::{self, Consent, of_org};

#[derive(Debug, Args)]
pub struct List {}

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

impl List {
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

fn warn(odd: &[String]) {
    for line in odd {
        eprintln!("warning: {}", plain(line));
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold node approve caribou ground phone camel leopard tennis pillow    the words that the machine shows
  freehold node approve web-1                   if one machine of that name waits; then compare its words
  freehold node approve web-1                   also: a member whose invite or gateway was taken back stays
  freehold node approve web-1 --key 5f0c2a91    of two machines that were let in under one name, the one with this key

All seven words are the comparison. By anything less the machine is shown, and you compare before you say yes.")]
pub struct Approve {
    /// The claim's words, a machine's name, or the beginning of the claim's digest
    #[arg(required = true, value_name = "CLAIM")]
    claim: Vec<String>,
    /// If several machines were let in under that name: the beginning of the right one's node key, 8 digits or more
    #[arg(long, value_name = "PREFIX", value_parser = key_prefix)]
    key: Option<String>,
    /// Do not ask; with all seven words, or the whole digest
    #[arg(long)]
    yes: bool,
}

fn key_prefix(said: &str) -> Result<String, String> {
    let fits = (8..=64).contains(&said.len()) && said.bytes().all(|byte| byte.is_ascii_hexdigit());
    if fits { Ok(said.to_owned()) } else { Err("that is no beginning of a node key: 8 to 64 hex digits".to_owned()) }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold node deny web-1
  freehold node deny caribou ground phone camel leopard tennis pillow --yes

One signer's no stands: this claim is never let in. The machine can ask again with new keys.")]
pub struct Deny {
    /// The claim's words, a machine's name, or the beginning of the claim's digest
    #[arg(required = true, value_name = "CLAIM")]
    claim: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Decided {
    name: String,
    /// Digest of the claim, or of the admission.
    about: String,
    words: Option<String>,
    verdict: &'static str,
    approved_by: Vec<String>,
    approvers: usize,
    done: bool,
    waits_for_signatures: bool,
}

#[derive(Serialize)]
struct Listed {
    name: String,
    head: u64,
    #[serde(flatten)]
    pending: waiting::Left,
}

impl Approve {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let said = self.claim.join(" ");
        let doing = format!("could not approve `{said}`");
        let (mut session, keys) = common.signing_session(&doing).await?;
        let own = speaker(&session, &keys).during(&doing)?;
        let Search { found, odd } = find(&mut session, &said, self.key.as_deref()).await.during(&doing)?;
        warn(&odd);
        let candidate = found.map_err(|why| match why {
            NoCandidate::Unclear(why) => unclear(&doing, &why),
            NoCandidate::Rivals(several) => rivals(&doing, &several),
        })?;
        self.show(common, &doing, &candidate)?;
        if candidate.yes().contains(&own) {
            return Err(Failure::refused(&doing, format!("`{own}` has approved it already")));
        }
        let claim = match &candidate {
            Candidate::Waits { claim, .. } => claim,
            Candidate::Cut(cut) => return self.list(common, session, &keys, cut, &doing).await,
        };
        let question = "Are these the words that the machine shows? Then it is let in.";
        confirm(self.yes, &doing, &of_org(common, &session.known, question))?;
        approve(&mut session, &keys, claim).await.during(&doing)?;
        let (yes, needs) = (candidate.yes().iter().chain([&own]), usize::from(claim.invite.approvers));
        let approved_by: Vec<String> = yes.map(ToString::to_string).collect();
        let told = Decided {
            name: candidate.name().to_string(),
            about: candidate.about().to_string(),
            words: Some(claim.words.to_string()),
            verdict: "approve",
            done: approved_by.len() >= needs,
            waits_for_signatures: approved_by.len() < needs,
            approved_by,
            approvers: needs,
        };
        if !told.done {
            common.unfinished.note();
        }
        show(common.json, &told, || {
            if told.done {
                return format!("approved `{}`", told.name);
            }
            let (said, by) = (told.approved_by.len(), told.approved_by.join(", "));
            format!("`{}`: {said} of {needs} approve ({by}); another operator runs the same", told.name)
        });
        Ok(())
    }

    /// A member that was cut off is in the next head.
    async fn list(
        &self,
        common: &Common,
        mut session: Session,
        keys: &SignerKeys,
        cut: &CutOff,
        doing: &str,
    ) -> Result<(), Failure> {
        let consent = Consent { common, doing, yes: self.yes, question: "List it?" };
        let draft = |session: &Session, now| Ok(draft_listing(session, cut, now)?.roll);
        let sign = async |session: &mut Session| list(session, keys, cut).await;
        let (head, pending) = consent.sign(&mut session, draft, sign).await?;
        let listed = Listed { name: cut.name.to_string(), head: head.version, pending };
        show(common.json, &listed, || {
            waiting::told(listed.pending.waiting(), || format!("head {} lists `{}`", listed.head, listed.name))
        });
        Ok(())
    }

    /// To the person who decides, who must be there if it was not compared already.
    fn show(&self, common: &Common, doing: &str, candidate: &Candidate) -> Result<(), Failure> {
        let certain = match candidate {
            Candidate::Waits { certain, .. } => *certain,
            Candidate::Cut(_) => true,
        };
        if self.yes && !certain {
            let why = "this takes all seven words, as the machine shows them, or your own look at them";
            return Err(Failure::usage(doing, why).hint("leave --yes away, or give the words"));
        }
        if !common.json {
            eprintln!("{}", candidate_in_words(candidate));
        }
        if matches!(candidate, Candidate::Waits { .. }) && !self.yes && !std::io::stdin().is_terminal() {
            let why = "somebody must compare the words, and there is no terminal to ask at";
            return Err(Failure::usage(doing, why).hint("give all seven words, as the machine shows them, and --yes"));
        }
        Ok(())
    }
}

impl Deny {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let said = self.claim.join(" ");
        let doing = format!("could not deny `{said}`");
        let (mut session, keys) = common.signing_session(&doing).await?;
        let (waiting, odd) = operate::node::waiting::all(&mut session).await.during(&doing)?;
        warn(&odd);
        let (one, _) = pick(&waiting, &said).map_err(|why| unclear(&doing, &why))?;
        if !common.json {
            eprintln!("{}", in_words(&one));
        }
        let question = format!("Turn `{}` away?", one.claim.name);
        confirm(self.yes, &doing, &of_org(common, &session.known, &question))?;
        let decided = deny(&mut session, &keys, one.digest, one.invite.expires_at).await;
        decided.during(&doing)?;
        let told = Decided {
            name: one.claim.name.to_string(),
            about: one.digest.to_string(),
            words: Some(one.words.to_string()),
            verdict: "deny",
            approved_by: one.yes.iter().map(ToString::to_string).collect(),
            approvers: usize::from(one.invite.approvers),
            done: true,
            waits_for_signatures: false,
        };
        show(common.json, &told, || format!("turned `{}` away: this claim is never let in", told.name));
        Ok(())
    }
}

fn nobody(doing: &str) -> Failure {
    Failure::failed(doing, "no such machine waits").exit(Exit::Refused).hint("see who does: freehold node waiting")
}

fn unclear(doing: &str, why: &Unclear) -> Failure {
    let several = match why {
        Unclear::Nobody => return nobody(doing),
        Unclear::Several(several) => several,
    };
    let each: Vec<_> = several
        .iter()
        .map(|one| {
            let host = one.facts.as_ref().map_or("-", |facts| &facts.hostname);
            format!("\n    {}  `{}`, host name {host}, from {}", one.words, one.claim.name, one.source)
        })
        .collect();
    let why = format!("{} machines fit:{}", several.len(), each.concat());
    Failure::refused(doing, why).hint("give the words of the right one, as that machine shows them")
}

/// Nobody guesses which of them is the right one.
fn rivals(doing: &str, several: &[CutOff]) -> Failure {
    if several.is_empty() {
        return nobody(doing);
    }
    let each: Vec<String> = several.iter().flat_map(|cut| ["\n".to_owned(), cut_in_words(cut)]).collect();
    let why =
        format!("{} machines were let in under this name:{}", several.len(), each.concat().replace('\n', "\n    "));
    Failure::refused(doing, why).hint("say which: --key and the first 8 digits of its node key")
}

fn candidate_in_words(candidate: &Candidate) -> String {
    match candidate {
        Candidate::Waits { claim, .. } => in_words(claim),
        Candidate::Cut(cut) => cut_in_words(cut),
    }
}

/// What a person looks at. Whose word each thing is stands beside it.
fn in_words(one: &WaitingClaim) -> String {
    let list = |items: Vec<String>| if items.is_empty() { "none".to_owned() } else { items.join(" ") };
    let key = one.claim.node_key.digest().to_string();
    let mut lines = vec![
        format!(
            "machine    {}{}",
            one.claim.name,
            if one.claim.is_low() { "   LOW ASSURANCE: it proved nothing" } else { "" }
        ),
        format!("address    {} (the gateway says so)", one.source),
        format!("since      {} (the gateway says so), last seen {}", one.first_seen, one.last_seen),
    ];
    if let Some(host) = &one.claim.host {
        lines.push(format!("claims     {host} (by which the pattern let it knock; it can be forged)"));
    }
    match &one.facts {
        None => lines.push("facts      it tells nothing of itself".to_owned()),
        Some(facts) => {
            let hostname = &facts.hostname;
            lines.push(format!("host name  {hostname} (it says so itself; so do the next lines)"));
            lines.push(format!("system     {} on {}, {}", facts.os, facts.arch, facts.agent));
            // Its words are its own to choose: none of them begins a line as ours do.
            lines.extend(facts.more.iter().map(|(what, value)| format!("it says    {what}: {value}")));
        }
    }
    lines.extend([
        format!("labels     {}", list(one.claim.labels.iter().map(ToString::to_string).collect())),
        format!("roles      {}", list(one.claim.roles.iter().map(ToString::to_string).collect())),
        format!("invite     {} {:?}, until {}", one.invite.id, one.invite.label, one.invite.expires_at),
        format!("node key   {key}"),
        format!("claim      {}", one.digest),
    ]);
    if one.invite.expires_at.since(clock::now()).0 < 60 {
        lines.push("           its invite ends within a minute".to_owned());
    }
    if let (Some(first), needs) = (one.yes.first(), one.invite.approvers) {
        let until = one.yes_until.map(|until| format!(", until {until}")).unwrap_or_default();
        lines.push(format!("approved   by {first} and {} more, of {needs}{until}", one.yes.len() - 1));
    }
    lines.push(format!("words      {}", one.words));
    plain(&lines.join("\n"))
}

fn cut_in_words(cut: &CutOff) -> String {
    let invite = cut.invite.map_or("none".to_owned(), |id| id.to_string());
    let lines = [
        format!("member     {} since {}, admitted by `{}` under invite {invite}", cut.name, cut.at, cut.gateway),
        format!("node key   {}", cut.node_key.digest()),
        format!("it waits   {}", cut.why),
    ];
    plain(&lines.join("\n"))
}
