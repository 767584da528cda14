//! `freehold backup verify`: reads a backup, and checks all of it.

use std::path::PathBuf;

use clap::Args;
use operate::backup::BackupError;
use terminal::failure::Failure;
use terminal::show::show;

use super::keys::Opening;
use super::report::{backup_failure, describe};
use crate::backup::check;
use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold backup verify harbor.tar.age         changes nothing; exits with 1 and names what is damaged")]
pub struct Verify {
    /// The backup
    file: PathBuf,
    #[command(flatten)]
    opening: Opening,
}

impl Verify {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("the backup `{}` does not hold", self.file.display());
        let unopened = |why: &BackupError| backup_failure(&doing, why);
        let mut backup = self.opening.open(&doing, &self.file, unopened)?;
        let name = ground::random::bytes::<16>().during(&doing)?;
        let scratch = std::env::temp_dir().join(format!("freehold-verify-{}", identity::text::hex(&name)));
        let report = check::check(&mut backup, &self.file, scratch).during(&doing)?;
        show(common.json, &report, || format!("{}\nall of it holds", describe(&report)));
        Ok(())
    }
}
