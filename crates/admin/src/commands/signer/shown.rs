//! What a co-signer is shown before signing, and what keeps them from it: the same of a file and of the inbox.

use clap::Args;
use identity::id::OrgId;
use operate::pending::{BadPending, Need, Pending};
use operate::replica::roll::{Roll, names};
use operate::signer::cosign::{self, Despite, Looked, NotSigned, Objection};
use operate::signer::weigh::Weighed;
use serde::Serialize;
use terminal::failure::{Exit, Failure};

use crate::home::{Common, Explain, failure};
use crate::waiting::NeedTold;

#[derive(Debug, Args)]
pub struct SignOptions {
    /// Only show what it is
    #[arg(long)]
    pub show: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Sign although this home's copy of the ledger says otherwise, or cannot tell
    #[arg(long)]
    pub anyway: bool,
}

#[derive(Serialize)]
pub struct Told {
    digest: String,
    /// Nothing if it was found in the inbox.
    file: Option<String>,
    does: Vec<String>,
    #[serde(flatten)]
    roll: Roll,
    /// Who is meant to be something else than now.
    remade: Vec<String>,
    /// Where it says otherwise than this home's copy of the ledger.
    contradicts: Vec<String>,
    /// Why it was not held against that copy, if it was not.
    not_compared: Option<String>,
    /// Why it was not signed, of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_signed: Option<String>,
    pub sent: bool,
    signed_now: Vec<String>,
    needs: Vec<NeedTold>,
    pub complete: bool,
    pub waits_for_signatures: bool,
}

impl Told {
    /// What it is called by.
    pub fn short(&self) -> String {
        self.digest.chars().take(8).collect()
    }
}

/// What was read from the signed bytes, and what came of it.
#[derive(Debug)]
pub struct WeighedView {
    pub does: Vec<String>,
    pub weighed: Weighed,
    pub signed_now: Vec<String>,
    /// Nothing if it was found in the inbox.
    pub file: Option<String>,
    /// Why it was not signed, of several.
    pub not_signed: Option<String>,
    pub sent: bool,
}

impl WeighedView {
    pub fn new(Looked { does, weighed }: Looked) -> Self {
        Self { does, weighed, signed_now: Vec::new(), file: None, not_signed: None, sent: false }
    }

    pub fn told(self, pending: &Pending, needs: &[Need]) -> Told {
        let Self { does, weighed, signed_now, file, not_signed, sent } = self;
        let Weighed { roll, remade, contradictions, unseen: not_compared } = weighed;
        let complete = needs.iter().all(Need::is_met);
        Told {
            digest: pending.digest().to_string(),
            file,
            does,
            roll,
            remade: remade.iter().map(ToString::to_string).collect(),
            contradicts: contradictions.iter().map(ToString::to_string).collect(),
            not_compared,
            not_signed,
            sent,
            signed_now,
            needs: needs.iter().map(NeedTold::from).collect(),
            complete,
            waits_for_signatures: !complete,
        }
    }
}

/// It is nothing that could be signed now.
pub fn unfit(doing: &str, why: &BadPending) -> Failure {
    let hint = match why {
        BadPending::Head(_) | BadPending::Signers(_) => {
            "things moved on since it was made, or this home has not heard of them: freehold node list; then ask for a new one"
        }
        BadPending::OtherOrg(_) => "say which org: --org NAME, or where it is: --home DIR",
        BadPending::File(_) => {
            "is that the file's name? What lies in the inbox has 8 digits or more: freehold sign --show"
        }
        _ => "ask whoever made it for a new copy",
    };
    failure(doing, why).hint(hint)
}

impl Explain for Objection {
    fn explain(&self, doing: String) -> Failure {
        let refused = Failure::new(doing.clone(), self).exit(Exit::Refused);
        match self {
            Self::Contradicts { .. } => refused.hint(
                "this home may not have heard of it yet: freehold node list, then sign again; if it still says so, ask \
                 whoever made it; if you looked and it is right: --anyway",
            ),
            Self::Unseen(_) => refused.hint(
                "bring its copy of the ledger up to date: freehold node list, then sign again; if it still cannot tell, ask \
                 whoever made it; if you looked in another way and it is right: --anyway",
            ),
            Self::Clock(why) => why.explain(doing),
        }
    }
}

impl Explain for NotSigned {
    fn explain(&self, doing: String) -> Failure {
        match self {
            Self::Pending(why) => unfit(&doing, why),
            Self::Operate(why) => why.explain(doing),
            Self::NotLeft(_) => Failure::new(doing, self).hint("run it again; or sign the file: freehold sign FILE"),
        }
    }
}

pub fn tell(common: &Common, pending: &Pending, does: &[String], weighed: &Weighed) {
    if common.json {
        return;
    }
    eprintln!("`{}`, made at {}:", pending.org, pending.made_at);
    for line in does.iter().chain(&weighed.roll.in_words()) {
        eprintln!("  {line}");
    }
    if !weighed.remade.is_empty() {
        eprintln!("  means to be something else than now: {}", names(&weighed.remade));
    }
    for contradiction in &weighed.contradictions {
        eprintln!("  NOT AS THIS HOME KNOWS IT: {contradiction}");
    }
    if let Some(why) = &weighed.unseen {
        eprintln!("  NOT COMPARED with what this home knows: {why}");
    }
}

/// A home signs only what its own fold says, unless a person says otherwise.
pub fn check(
    common: &Common,
    how: &SignOptions,
    org: OrgId,
    pending: &Pending,
    weighed: &Weighed,
) -> Result<(), Objection> {
    cosign::check(org, pending, weighed, Despite { fold: how.anyway, clock: common.trust_clock })
}

pub fn in_words(told: &Told) -> String {
    let mut lines: Vec<String> = told.signed_now.iter().map(|name| format!("signed as `{name}`")).collect();
    lines.extend(told.needs.iter().map(NeedTold::in_words));
    lines.push(match (&told.file, &told.not_signed) {
        (_, Some(why)) => format!("NOT signed: {why}"),
        (Some(file), None) if told.complete => format!("complete; deliver it: freehold send {file}"),
        (None, None) if told.sent => "complete, and delivered".to_owned(),
        (None, None) if told.complete => format!("complete; deliver it: freehold sign {}", told.short()),
        _ => "others must sign it, too".to_owned(),
    });
    lines.join("\n")
}
