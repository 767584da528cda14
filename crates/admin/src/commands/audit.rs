//! `freehold audit`: everything that was ever changed, and whether it holds.

use clap::Args;
use node::report::{Failure, show};

use crate::home::{Common, failure};
use crate::words::{or_dash, table};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold audit                        every change, oldest first
  freehold audit --subject web-1        what concerns one node, invite or author
  freehold audit --verify               checks every hash, signature and admission, and folds it all afresh")]
pub struct Audit {
    /// Check everything instead of listing it
    #[arg(long)]
    verify: bool,
    /// Only what concerns this node, invite or author
    #[arg(long, value_name = "NAME", conflicts_with = "verify")]
    subject: Option<String>,
}

impl Audit {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "the audit failed";
        let mut session = common.session(doing).await?;
        if self.verify {
            let verdict = session.verify().await.map_err(|why| failure(doing, &why))?;
            if let (false, Some(bad)) = (common.json, &verdict.first_bad) {
                return Err(Failure::failed("the ledger does not hold", bad.clone())
                    .hint("keep the gateway's folder as it is for evidence, and compare it with another copy"));
            }
            show(common.json, &verdict, || {
                format!(
                    "{} entries hold: hashes, signatures, admissions; {} derived rows agree",
                    verdict.entries, verdict.derived_rows
                )
            });
            return if verdict.ok { Ok(()) } else { Err(Failure::failed("the ledger does not hold", "see above")) };
        }
        let lines = session.audit(self.subject.as_deref()).await.map_err(|why| failure(doing, &why))?;
        show(common.json, &lines, || {
            let row = |line: &org::audit::Line| {
                vec![
                    line.at.to_string(),
                    line.actor.to_string(),
                    line.action.clone(),
                    line.subject.clone(),
                    or_dash(line.version.as_ref()),
                    line.correlation.to_string(),
                    line.result.clone(),
                ]
            };
            let rows: Vec<_> = lines.iter().map(row).collect();
            table(&["AT", "ACTOR", "ACTION", "SUBJECT", "VERSION", "CORRELATION", "RESULT"], &rows)
        });
        Ok(())
    }
}
