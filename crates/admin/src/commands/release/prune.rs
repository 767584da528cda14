//! `freehold release prune`: files that neither the release nor an invite names go.

use clap::Args;
use identity::time::Seconds;
use operate::release::files;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold release prune                        what the gateway would remove by itself, now
  freehold release prune --unused-for 0s        also what was handed in just now

The gateway does it every hour. What waits for other operators' signatures names its files only when it was sent: with a
short time they may be gone by then.")]
pub struct Prune {
    /// Only what nobody handed in or asked about for so long
    #[arg(long, value_name = "SPAN", default_value = "7d")]
    unused_for: Seconds,
}

#[derive(Serialize)]
struct Pruned {
    files: u64,
    bytes: u64,
}

impl Prune {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not remove unused files";
        let mut session = common.session(doing).await?;
        let (files, bytes) = files::sweep(&mut session, self.unused_for).await.during(doing)?;
        let told = Pruned { files, bytes };
        show(common.json, &told, || format!("removed {files} file(s), {bytes} bytes"));
        Ok(())
    }
}
