//! `freehold epoch begin`: goes on from an older copy of the ledger, on purpose.

use clap::{Args, Subcommand};
use identity::head::Head;
use node::report::{Failure, show};
use operate::keys::SignerKeys;
use operate::session::Session;
use serde::Serialize;
use wire::control::InviteView;

use crate::home::{Common, failure};
use crate::local::AnyDesk;
use crate::waiting::{Waiting, leave, told};
use crate::words::confirm;

#[derive(Debug, Subcommand)]
pub enum EpochCommand {
    /// Go on from an older copy of the ledger; what was written later is given up
    Begin(Begin),
}

impl EpochCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::Begin(begin) => begin.run(common).await,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold epoch begin                after `freehold backup restore`, or when the gateway says that it is behind

If a newer copy of the gateway's folder exists anywhere, use that instead. What this gives up never comes back:
machines that joined later must join again, what was revoked later must be revoked again (unless this home or a
machine still knows it), and open invites wait until they are confirmed. If it is cut off, run it again.

If the gateway only lacks trust bundles that its head names, and this home has them, they are handed in, and no epoch begins.")]
pub struct Begin {
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Begun {
    epoch: u32,
    /// False if the ledger only lacked bundles, and got them.
    new_epoch: bool,
    head: u64,
    frozen_invites: Vec<String>,
    /// Trust bundles that the copy lacked, and that go in again from this home.
    handed_in: Vec<String>,
    pending: Option<Waiting>,
}

impl Begin {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not begin a new epoch";
        let (mut session, keys) = common.signing_session_on(doing, true).await?;
        let before = session.known.head.head.epoch.number;
        let (head, handed_in, pending) = match session.finish_epoch().await.map_err(|why| failure(doing, &why))? {
            Some(head) => (head, Vec::new(), None),
            None => self.begin(common, (&mut session, &keys), doing).await?,
        };
        let frozen = if pending.is_some() {
            Vec::new()
        } else {
            session.unconfirmed().await.map_err(|why| failure(doing, &why))?
        };
        let frozen_invites = frozen.iter().map(|invite| invite.id.to_string()).collect();
        let (epoch, head) = (head.epoch.number, head.version);
        let new_epoch = handed_in.is_empty() || epoch > before;
        let begun = Begun { epoch, new_epoch, head, frozen_invites, handed_in, pending };
        show(common.json, &begun, || told(begun.pending.as_ref(), || in_words(&begun, &frozen)));
        Ok(())
    }

    /// The head that begins it, and what other operators must sign first.
    async fn begin(
        &self,
        common: &Common,
        (session, keys): (&mut Session<AnyDesk>, &SignerKeys),
        doing: &str,
    ) -> Result<(Head, Vec<String>, Option<Waiting>), Failure> {
        let failed = |why| failure(doing, &why);
        if !session.is_behind() {
            // An epoch that was begun by somebody who did not have all that its head names.
            let handed_in = session.mend_trust(keys).await.map_err(failed)?;
            if !handed_in.is_empty() {
                return Ok((session.known.head.head.clone(), handed_in, None));
            }
            let why = "the gateway's ledger is not behind anything that is known: there is nothing to give up";
            return Err(Failure::refused(doing, why).hint("see how the gateway stands: freehold doctor"));
        }
        let handed_in = session.lacking_names().await.map_err(failed)?;
        if !common.json {
            for line in missing(session, &handed_in) {
                eprintln!("{line}");
            }
        }
        confirm(self.yes, doing, "Begin a new epoch from this copy?")?;
        let made = session.begin_epoch(keys).await.map_err(failed)?;
        let pending = leave(common, doing, &session.known, made.pending.as_ref())?;
        Ok((made.what, handed_in, pending))
    }
}

/// What may be missing, and what follows from it.
fn missing<D: operate::desk::Desk>(session: &Session<D>, bundles: &[String]) -> Vec<String> {
    let mut lines = headed(lacks(session, bundles));
    lines
        .push("Machines that joined meanwhile must join again. Open invites wait until they are confirmed.".to_owned());
    lines.push("If a newer copy of the gateway's folder exists anywhere, use that instead.".to_owned());
    lines
}

/// A gateway that was restored, or was shown its future by others, may be behind in nothing that this home saw.
fn headed(mut lacks: Vec<String>) -> Vec<String> {
    let head = if lacks.is_empty() {
        "This copy of the ledger may be older than what others saw. This home knows of nothing that it lacks: what \
         happened where this home did not look is not known here."
    } else {
        "This copy of the ledger is older than what was seen. It may lack:"
    };
    lacks.insert(0, head.to_owned());
    lacks
}

/// As far as this home can tell.
fn lacks<D: operate::desk::Desk>(session: &Session<D>, bundles: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for (author, seen, here) in session.lost() {
        lines.push(format!("  {author}: entries {} to {seen}, and perhaps more", here + 1));
    }
    let (own, ledger) = (session.known.head.head.version, session.survey_head());
    if ledger.is_some_and(|version| version < own) {
        lines.push(format!(
            "  heads {} to {own}; this home still has what {own} says, and keeps it",
            ledger.unwrap_or(0) + 1
        ));
    }
    if !bundles.is_empty() {
        lines.push(format!(
            "  trust bundles: {}; this home still has them, and hands them in again",
            bundles.join(", ")
        ));
    }
    if let Some(earlier) = session.earlier_fleet() {
        let then = earlier.members.map_or_else(
            || "nothing is published until then".to_owned(),
            |_| format!("nodes go back to what head {} said until then", earlier.version),
        );
        lines.push(format!("  the fleet that was published since: publish it again; {then}"));
    }
    lines
}

fn in_words(begun: &Begun, frozen: &[InviteView]) -> String {
    let mut lines = vec![if begun.new_epoch {
        format!("epoch {} begins with head {}", begun.epoch, begun.head)
    } else {
        format!("nothing is given up, and epoch {} goes on", begun.epoch)
    }];
    if !begun.handed_in.is_empty() {
        lines
            .push(format!("trust bundles that the ledger lacked were handed in again: {}", begun.handed_in.join(", ")));
    }
    if frozen.is_empty() {
        lines.push("no open invite waits for a word".to_owned());
    } else {
        lines.push("these invites may have been used in what was lost, and wait for your word:".to_owned());
        for invite in frozen {
            lines.push(format!("  {}  {} of {} spent here  {}", invite.id, invite.spent, invite.uses, invite.label));
        }
        lines.push("confirm them: freehold invite confirm ID...; or revoke them: freehold invite revoke ID".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_copy_may_lack_is_never_a_list_of_nothing() {
        let nothing = headed(Vec::new());
        assert!(nothing.iter().all(|line| !line.ends_with(':')), "{nothing:?}");
        assert!(nothing[0].contains("knows of nothing that it lacks"), "{nothing:?}");
        let something = headed(vec!["  heads 3 to 4".to_owned()]);
        assert_eq!(something.len(), 2);
        assert!(something[0].ends_with("It may lack:") && something[1].starts_with("  heads"), "{something:?}");
    }
}
