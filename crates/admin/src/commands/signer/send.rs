//! `freehold send FILE`: delivers what enough operators have signed.

use std::path::PathBuf;

use clap::Args;
use identity::head::Cause;
use identity::principal::NodeName;
use identity::time::Seconds;
use operate::pending::Pending;
use operate::publish::watch::Receipts;
use operate::publish::watch::follow::Fates;
use operate::signer::describe;
use operate::signer::send::send;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::{Common, During, failure};
use crate::watching::{self, NodeTold, Wait};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold send harbor-invite-5f0c2a91.pending
  freehold send from-ann.pending from-ben.pending      copies that were signed apart are put together")]
pub struct Send {
    /// Copies of one thing that was signed
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// If it publishes a fleet: do not watch how it fares
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
    /// If it goes to all nodes: watch no longer than this
    #[arg(long, value_name = "SPAN")]
    wait: Option<Seconds>,
}

#[derive(Serialize)]
struct Told {
    sent: bool,
    waits_for_signatures: bool,
    does: Vec<String>,
    head: u64,
    /// What nodes make of a fleet that was published, if somebody watched.
    nodes: Vec<NodeTold>,
    /// Who has confirmed a revocation, and who has not.
    confirmed: Vec<NodeName>,
    waiting_for: Vec<NodeName>,
}

impl Send {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not deliver it";
        let mut pending: Option<Pending> = None;
        for file in &self.files {
            let copy = Pending::read(file).during(doing)?;
            match &mut pending {
                None => pending = Some(copy),
                Some(first) => first.merge(&copy).during(doing)?,
            }
        }
        let Some(pending) = pending else {
            return Err(Failure::usage(doing, "no file was named"));
        };
        let cause = pending.handed.cause(pending.org_id);
        let (mut session, _) = common.signing_session(doing).await?;
        let does = describe::in_words(&session.known, &pending.handed).during(doing)?;
        send(&mut session, &pending).await.map_err(|why| {
            failure(doing, &why)
                .hint("see what is missing: freehold sign --show FILE; if things moved on, make it anew")
        })?;
        let fates = if cause.as_ref().is_some_and(publishes) && !self.no_wait {
            let followed = watching::watch_in_force(&mut session, self.wait, common.json).await;
            followed.during("it is published, but could not be watched")?
        } else {
            Fates::new()
        };
        let version = session.known.head.head.version;
        let followed = cause.as_ref().is_some_and(revokes) && !self.no_wait;
        let wait = Wait::of(self.wait);
        let receipts = if followed { wait.receipts(&mut session, version).await } else { Ok(Receipts::default()) };
        let receipts = receipts.during("it is sent, but who knows it could not be read")?;
        let (confirmed, waiting_for) = (receipts.confirmed.clone(), receipts.waiting.clone());
        let told = Told {
            sent: true,
            waits_for_signatures: false,
            does,
            head: version,
            nodes: NodeTold::all(&fates),
            confirmed,
            waiting_for,
        };
        show(common.json, &told, || {
            let mut lines = vec!["delivered:".to_owned()];
            lines.extend(told.does.iter().map(|line| format!("  {line}")));
            if !fates.is_empty() {
                lines.push(watching::counts(&fates));
            }
            if followed {
                lines.push(receipts.in_words(version));
            }
            lines.join("\n")
        });
        watching::ended_well(doing, version, &fates)
    }
}

/// Does it say what nodes should be?
const fn publishes(cause: &Cause) -> bool {
    matches!(cause, Cause::FleetPublish | Cause::FleetRollback { .. })
}

const fn revokes(cause: &Cause) -> bool {
    matches!(cause, Cause::NodeRevoke { .. } | Cause::PrincipalRevoke { .. })
}
