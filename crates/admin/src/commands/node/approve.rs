//! `freehold node approve`: a person looks at a machine, and lets it in or stay.

use std::io::IsTerminal as _;

use clap::Args;
use operate::key::SignerKeys;
use operate::node::candidate::{Candidate, NoCandidate, Search, find};
use operate::node::waiting::{CutOff, approve, draft_listing, list, speaker};
use operate::session::Session;
use serde::Serialize;
use terminal::confirm::confirm;
use terminal::failure::Failure;
use terminal::show::show;

use crate::commands::node::candidate::{Decided, candidate_in_words, rivals, unclear, warn};
use crate::home::{Common, During};
use crate::waiting::{self, Consent, of_org};

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
