//! `freehold invite revoke`: nobody joins with it any more.

use clap::Args;
use operate::invite;
use operate::session::Session;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::{Common, During};
use crate::waiting::{self, Consent, Left};

#[derive(Debug, Args)]
pub struct Revoke {
    /// Its id, the beginning of its id, or its label
    invite: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct RevokedTold {
    id: String,
    revoked: bool,
    head: u64,
    #[serde(flatten)]
    pending: Left,
}

impl Revoke {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not revoke the invite `{}`", self.invite);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let invite = invite::find(&mut session, &self.invite).await.during(&doing)?;
        if invite.revoked {
            return Err(Failure::refused(&doing, "it is already revoked"));
        }
        if !common.json {
            eprintln!(
                "Nobody can join with {} any more. The {} machine(s) that did stay members. It cannot be undone; a new \
                 invite can be made.",
                invite.id,
                invite.joined.len()
            );
        }
        let question = format!("Revoke the invite `{}`?", invite.id);
        let consent = Consent { common, doing: &doing, yes: self.yes, question: &question };
        let draft = |session: &Session, now| Ok(invite::draft_revocation(session, invite.id, now)?.roll);
        let sign = async |session: &mut Session| invite::revoke(session, &keys, invite.id).await;
        let (head, pending) = consent.sign(&mut session, draft, sign).await?;
        let head = head.version;
        let result = RevokedTold { id: invite.id.to_string(), revoked: pending.waiting().is_none(), head, pending };
        show(common.json, &result, || {
            waiting::told(result.pending.waiting(), || format!("revoked invite {} (head {head})", invite.id))
        });
        Ok(())
    }
}
