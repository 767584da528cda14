//! `freehold gateway remove`: a gateway loses its mandate.

use clap::Args;
use identity::principal::NodeName;
use operate::gateway;
use operate::session::Session;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::or_dash;

use crate::home::{Common, During};
use crate::waiting::{Consent, Left, told};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold gateway remove laptop

Everything that it issued is worth nothing at once; the nodes come back by their node keys at another gateway.
What it wrote into the ledger until now stands. Invites that only it has a right to are of no use any more.")]
pub struct Remove {
    /// The gateway's node name
    node: NodeName,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Removed {
    gateway: String,
    head: u64,
    #[serde(flatten)]
    pending: Left,
}

impl Remove {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not remove the gateway `{}`", self.node);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let peers = gateway::peers(&mut session).await.during(&doing)?;
        if !common.json {
            let peer = peers.iter().find(|peer| peer.gateway == self.node);
            let apart = peer.filter(|peer| peer.problem.is_some() || peer.last_exchange.is_none() || peer.behind > 0);
            if let Some(peer) = apart {
                eprintln!(
                    "`{}` last exchanged at {}: machines that it let in since then would have to join again.",
                    self.node,
                    or_dash(peer.last_exchange.as_ref())
                );
            }
            eprintln!(
                "Everything that `{}` issued is worth nothing at once; the nodes come back at another gateway. It cannot \
                 become a gateway under this name again.",
                self.node
            );
        }
        let question = format!("Remove the gateway `{}`?", self.node);
        let consent = Consent { common, doing: &doing, yes: self.yes, question: &question };
        let draft = |session: &Session, now| Ok(gateway::draft_removal(session, &self.node, now)?.roll);
        let sign = async |session: &mut Session| gateway::remove(session, &keys, &self.node).await;
        let (head, pending) = consent.sign(&mut session, draft, sign).await?;
        let result = Removed { gateway: self.node.to_string(), head: head.version, pending };
        show(common.json, &result, || {
            told(result.pending.waiting(), || {
                format!("`{}` is no gateway any more (head {})", result.gateway, result.head)
            })
        });
        Ok(())
    }
}
