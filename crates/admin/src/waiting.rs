//! What waits for other operators: left as a file, and told in words.

use std::path::PathBuf;

use identity::causes::describe;
use identity::time::Timestamp;
use operate::folder::OperatorFolder;
use operate::pending::Need;
use operate::replica::roll::Roll;
use operate::session::{Made, OperateError, Session, Undelivered};
use serde::Serialize;
use terminal::confirm::confirm;
use terminal::failure::Failure;
use wire::known::Known;

use crate::home::{Common, During, Explain};

/// What a command left behind for the others.
#[derive(Debug, Serialize)]
pub struct Waiting {
    /// What it is called by at the gateway, and its first digits.
    pub digest: String,
    pub file: String,
    /// The gateway in whose inbox it lies.
    pub inbox: Option<String>,
    /// Why it lies in none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_in_inbox: Option<String>,
    pub needs: Vec<NeedTold>,
}

#[derive(Debug, Serialize)]
pub struct NeedTold {
    pub what: String,
    pub threshold: usize,
    pub signed: Vec<String>,
    pub others: Vec<String>,
}

impl From<&Need> for NeedTold {
    fn from(need: &Need) -> Self {
        Self {
            what: need.what.clone(),
            threshold: need.quorum.threshold(),
            signed: need.signed.iter().map(ToString::to_string).collect(),
            others: need.others().into_iter().map(ToString::to_string).collect(),
        }
    }
}

impl NeedTold {
    pub fn in_words(&self) -> String {
        let signed = if self.signed.is_empty() { "nobody".to_owned() } else { self.signed.join(", ") };
        let missing = self.threshold.saturating_sub(self.signed.len());
        if missing == 0 {
            return format!("  {}: signed by {signed}", self.what);
        }
        format!("  {}: signed by {signed}; {missing} more of: {}", self.what, self.others.join(", "))
    }
}

/// What was signed: what its head does to machines, and what others must sign, too.
#[derive(Debug, Default, Serialize)]
pub struct Left {
    /// What every command says that others must sign after: it exits with 5, and nothing has changed yet.
    waits_for_signatures: bool,
    pending: Option<Waiting>,
    #[serde(flatten)]
    roll: Option<Roll>,
}

impl Left {
    const fn of(pending: Option<Waiting>, roll: Option<Roll>) -> Self {
        Self { waits_for_signatures: pending.is_some(), pending, roll }
    }

    pub const fn waiting(&self) -> Option<&Waiting> {
        self.pending.as_ref()
    }

    pub fn into_waiting(self) -> Option<Waiting> {
        self.pending
    }
}

/// Leaves what is pending as a file. Nothing waits if it is in the ledger.
pub fn leave<T>(common: &Common, doing: &str, known: &Known, made: &Made<T>) -> Result<Left, Failure> {
    let pending = leave_as(common, common.pending.clone(), doing, known, made.pending.as_ref())?;
    Ok(Left::of(pending, made.roll.clone()))
}

/// What is asked before something is signed: one way for all, so that nobody says yes to a head without having been told
/// what it does to machines.
#[derive(Debug, Clone, Copy)]
pub struct Consent<'a> {
    pub common: &'a Common,
    pub doing: &'a str,
    pub yes: bool,
    pub question: &'a str,
}

impl Consent<'_> {
    /// Tells what the very head that is about to be signed does, and asks.
    pub async fn ask(
        &self,
        session: &mut Session,
        draft: impl FnOnce(&Session, Timestamp) -> Result<Roll, OperateError>,
    ) -> Result<(), Failure> {
        if !self.yes {
            Box::pin(session.foretell(draft)).await;
        }
        confirm(self.yes, self.doing, &of_org(self.common, &session.known, self.question))
    }

    /// The same; then signs, and leaves for the others what they must sign, too.
    pub async fn sign<T, E: Explain>(
        &self,
        session: &mut Session,
        draft: impl FnOnce(&Session, Timestamp) -> Result<Roll, OperateError>,
        sign: impl AsyncFnOnce(&mut Session) -> Result<Made<T>, E>,
    ) -> Result<(T, Left), Failure> {
        self.ask(session, draft).await?;
        let made = Box::pin(sign(session)).await.during(self.doing)?;
        let left = leave(self.common, self.doing, &session.known, &made)?;
        Ok((made.what, left))
    }
}

/// Whoever has several orgs, or homes, sees which one is meant before saying yes.
pub fn of_org(common: &Common, known: &Known, question: &str) -> String {
    format!("`{}`, in `{}`: {question}", known.founding.record.name, common.home().display())
}

/// The same for a command that leaves a second one: its name is the given one with `.2` after it.
pub fn leave_beside<T>(common: &Common, doing: &str, known: &Known, made: Option<&Made<T>>) -> Result<Left, Failure> {
    let Some(made) = made else { return Ok(Left::default()) };
    let second = common.pending.clone().map(|mut file| {
        file.as_mut_os_string().push(".2");
        file
    });
    let pending = leave_as(common, second, doing, known, made.pending.as_ref())?;
    Ok(Left::of(pending, made.roll.clone()))
}

/// Several more, each under a name of its own.
pub fn leave_more(
    common: &Common,
    doing: &str,
    known: &Known,
    pending: &[Undelivered],
) -> Result<Vec<Waiting>, Failure> {
    let name = |nth: usize| {
        common.pending.clone().map(|mut file| {
            file.as_mut_os_string().push(format!(".{}", nth + 2));
            file
        })
    };
    let left =
        pending.iter().enumerate().map(|(nth, pending)| leave_as(common, name(nth), doing, known, Some(pending)));
    Ok(left.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn leave_as(
    common: &Common,
    file: Option<PathBuf>,
    doing: &str,
    known: &Known,
    undelivered: Option<&Undelivered>,
) -> Result<Option<Waiting>, Failure> {
    let Some(Undelivered { pending, inbox }) = undelivered else {
        return Ok(None);
    };
    let file = if let Some(file) = file {
        file
    } else {
        let folder = OperatorFolder::at(&common.home(), &known.founding.record.name).pending();
        ground::file::make_private_folder(&folder).during(doing)?;
        folder.join(pending.file_name())
    };
    if file.exists() {
        return Err(Failure::failed(doing, format!("`{}` is there already", file.display()))
            .hint("move it away, or choose another name: --pending FILE"));
    }
    pending.save(&file).during(doing)?;
    let needs = pending.needs(known).during(doing)?;
    common.unfinished.note();
    let (inbox, not_in_inbox) = match inbox {
        Ok(gateway) => (Some(gateway.to_string()), None),
        Err(why) => (None, Some(describe(why))),
    };
    Ok(Some(Waiting {
        digest: pending.digest().to_string(),
        file: file.display().to_string(),
        inbox,
        not_in_inbox,
        needs: needs.iter().map(NeedTold::from).collect(),
    }))
}

impl Waiting {
    /// What has to happen next.
    pub fn in_words(&self) -> String {
        let mut lines = vec!["Not done yet: other operators must sign it, too.".to_owned()];
        lines.extend(self.needs.iter().map(NeedTold::in_words));
        if let Some(gateway) = &self.inbox {
            let short: String = self.digest.chars().take(8).collect();
            lines.push(format!("It lies in the inbox of `{gateway}`; each runs: freehold sign {short}"));
            lines.push("Whoever is the last delivers it with that. Or by hand:".to_owned());
        }
        if let Some(why) = &self.not_in_inbox {
            lines.push(format!("It does not lie in the gateway's inbox: {why}"));
        }
        lines.push(format!("Give them `{0}`; each runs: freehold sign {0}", self.file));
        lines.push(format!("Whoever is the last delivers it: freehold send {}", self.file));
        lines.join("\n")
    }
}

/// Done, or what is left to do.
pub fn told(waiting: Option<&Waiting>, done: impl FnOnce() -> String) -> String {
    waiting.map_or_else(done, Waiting::in_words)
}
