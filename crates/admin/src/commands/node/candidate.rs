//! Whoever waits, as the person sees it who decides; and what is said where nobody is meant, or several are.

use ground::clock;
use ground::plain::plain;
use operate::node::candidate::Candidate;
use operate::node::waiting::{CutOff, Unclear, WaitingClaim};
use serde::Serialize;
use terminal::failure::{Exit, Failure};

pub fn warn(odd: &[String]) {
    for line in odd {
        eprintln!("warning: {}", plain(line));
    }
}

#[derive(Serialize)]
pub struct Decided {
    pub name: String,
    /// Digest of the claim, or of the admission.
    pub about: String,
    pub words: Option<String>,
    pub verdict: &'static str,
    pub approved_by: Vec<String>,
    pub approvers: usize,
    pub done: bool,
    pub waits_for_signatures: bool,
}

fn nobody(doing: &str) -> Failure {
    Failure::failed(doing, "no such machine waits").exit(Exit::Refused).hint("see who does: freehold node waiting")
}

pub fn unclear(doing: &str, why: &Unclear) -> Failure {
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
pub fn rivals(doing: &str, several: &[CutOff]) -> Failure {
    if several.is_empty() {
        return nobody(doing);
    }
    let each: Vec<String> = several.iter().flat_map(|cut| ["\n".to_owned(), cut_in_words(cut)]).collect();
    let why =
        format!("{} machines were let in under this name:{}", several.len(), each.concat().replace('\n', "\n    "));
    Failure::refused(doing, why).hint("say which: --key and the first 8 digits of its node key")
}

pub fn candidate_in_words(candidate: &Candidate) -> String {
    match candidate {
        Candidate::Waits { claim, .. } => in_words(claim),
        Candidate::Cut(cut) => cut_in_words(cut),
    }
}

/// What a person looks at. Whose word each thing is stands beside it.
pub fn in_words(one: &WaitingClaim) -> String {
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
