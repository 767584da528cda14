//! `freehold user revoke`: nobody believes a user any more, wherever she is.

use clap::Args;
use identity::principal::{Name, Principal};
use operate::invite::user;
use operate::node::principal;
use operate::session::Session;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::{Common, During};
use crate::waiting::Consent;
use crate::watching::{Revoked, Wait};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold user revoke alice
  freehold user revoke alice --yes --wait 1m        until every node has confirmed it

Alice is believed nowhere any more. Her laptop stays a member: freehold node revoke alice-laptop revokes that.")]
pub struct Revoke {
    /// The user's name
    name: Name,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    wait: Wait,
}

#[derive(Serialize)]
struct RevokedTold {
    principal: String,
    #[serde(flatten)]
    revoked: Revoked,
}

impl Revoke {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not revoke `{}`", self.name);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let principal = Principal::user(&session.known.founding.record.name, &self.name);
        let homes = user::homes(&mut session, &self.name).await.during(&doing)?;
        if homes.is_empty() {
            return Err(Failure::refused(&doing, format!("no node may speak for `{principal}`"))
                .hint("what is published knows no such user: freehold access --matrix shows who is there"));
        }
        if !common.json {
            eprintln!("{principal}, at home on {}", homes.join(", "));
            eprintln!("  from now on no node believes her certificates, and no gateway makes new ones.");
            eprintln!("  It cannot be undone: the name `{}` never returns as a user.", self.name);
            eprintln!("  NOT revoked: the machines that she uses. They stay members: freehold node revoke NAME");
            eprintln!("  NOT changed: the fleet. Take her out of it, and publish.");
        }
        let question = format!("Revoke the user `{}`?", self.name);
        let consent = Consent { common, doing: &doing, yes: self.yes, question: &question };
        let draft = |session: &Session, now| Ok(principal::draft_revocation(session, &principal, now)?.roll);
        let sign = async |session: &mut Session| principal::revoke(session, &keys, &principal).await;
        let (head, pending) = consent.sign(&mut session, draft, sign).await?;
        let revoked = Revoked::look(&mut session, head.version, pending, &self.wait).await?;
        let result = RevokedTold { principal: principal.to_string(), revoked };
        show(common.json, &result, || result.revoked.in_words(&format!("`{principal}`")));
        Ok(())
    }
}
