//! `freehold node revoke`: a node's key never returns.

use clap::Args;
use identity::principal::NodeName;
use operate::session::{Session, maps};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::or_dash;

use crate::commands::node::user::people_on;
use crate::home::{Common, During};
use crate::waiting::Consent;
use crate::watching::{Revoked, Wait};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold node revoke web-1
  freehold node revoke web-1 --yes --wait 1m        until every other node has confirmed it

The users who are at home there are not revoked: freehold user revoke NAME.")]
pub struct Revoke {
    /// The node's name
    name: NodeName,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    wait: Wait,
}

#[derive(Serialize)]
struct RevokedTold {
    name: String,
    #[serde(flatten)]
    revoked: Revoked,
}

impl Revoke {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not revoke `{}`", self.name);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let node = operate::node::find(&mut session, &self.name).await.during(&doing)?;
        operate::node::check_revocable(session.head(), &node)
            .map_err(|why| Failure::refused(&doing, why.to_string()))?;
        if !common.json {
            eprintln!(
                "{} ({}, last seen {})",
                node.spiffe_id,
                node.state.word(),
                or_dash(node.observed.last_seen.as_ref())
            );
            let when = if session.is_served() { "at once" } else { "as soon as a gateway serves" };
            eprintln!(
                "  cut {when}: its SVID (until {}), its open connections to the gateway",
                or_dash(node.observed.svid_expires_at.as_ref())
            );
            eprintln!("  it cannot be undone: this node key never returns. The machine can join again as a new one,");
            eprintln!("  and the name `{}` becomes free.", node.name);
            // What cannot be read here keeps nobody from revoking.
            let published = maps::published(&mut session).await.ok().flatten();
            for person in published.iter().flat_map(|published| people_on(published, &node.name)) {
                eprintln!("  {person}");
            }
        }
        let question = format!("Revoke the machine `{}`?", node.name);
        let consent = Consent { common, doing: &doing, yes: self.yes, question: &question };
        let draft = |session: &Session, now| Ok(operate::node::draft_revocation(session, &node, now)?.roll);
        let sign = async |session: &mut Session| operate::node::revoke(session, &keys, &node).await;
        let (head, pending) = consent.sign(&mut session, draft, sign).await?;
        let revoked = Revoked::look(&mut session, head.version, pending, &self.wait).await?;
        let result = RevokedTold { name: node.name.to_string(), revoked };
        show(common.json, &result, || result.revoked.in_words(&format!("`{}`", node.name)));
        Ok(())
    }
}
