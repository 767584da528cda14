//! `freehold send FILE`: delivers what enough operators have signed.

use std::path::PathBuf;

use clap::Args;
use node::report::{Failure, show};
use operate::describe;
use operate::pending::{BadPending, Pending};
use org::entry::{Action, Cause};
use serde::Serialize;

use crate::home::{Common, failure};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold send harbor-invite-5f0c2a91.pending
  freehold send from-ann.pending from-ben.pending      copies that were signed apart are put together")]
pub struct Send {
    /// Copies of one thing that was signed
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Told {
    sent: bool,
    does: Vec<String>,
    head: u64,
}

impl Send {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not deliver it";
        let failed = |why: BadPending| failure(doing, &why.into());
        let mut pending: Option<Pending> = None;
        for file in &self.files {
            let copy = Pending::read(file).map_err(failed)?;
            match &mut pending {
                None => pending = Some(copy),
                Some(first) => first.merge(&copy).map_err(failed)?,
            }
        }
        let Some(pending) = pending else {
            return Err(Failure::usage(doing, "no file was named"));
        };
        let restores = matches!(&pending.action, Action::HeadPublish { cause: Cause::Restore, .. });
        let (mut session, keys) = common.signing_session_on(doing, restores).await?;
        let does = describe::in_words(&session.known, &pending.action).map_err(|why| failed(why.into()))?;
        session.send(&keys, &pending).await.map_err(|why| {
            failure(doing, &why)
                .hint("see what is missing: freehold sign --show FILE; if things moved on, make it anew")
        })?;
        let told = Told { sent: true, does, head: session.known.head.head.version };
        show(common.json, &told, || {
            let mut lines = vec!["delivered:".to_owned()];
            lines.extend(told.does.iter().map(|line| format!("  {line}")));
            lines.join("\n")
        });
        Ok(())
    }
}
