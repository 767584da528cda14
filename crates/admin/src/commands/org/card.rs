//! `freehold org card`: everything public that a new operator starts from.

use std::path::PathBuf;

use clap::Args;
use operate::folder::OperatorFolder;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold org card --out harbor.card

No secret is in it. Whoever gets it should hear the org's id from you in another way, too.")]
pub struct CardTo {
    /// Where to write it
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Serialize)]
struct CardTold {
    file: String,
    org: String,
    org_id: String,
}

impl CardTo {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not write the org's card";
        let org = common.org(doing)?;
        let folder = OperatorFolder::at(&common.home(), &org);
        let known = folder.known().during(doing)?;
        let memory = folder.memory().during(doing)?;
        let card = operate::folder::card::Card::of(&known, memory.gateways);
        card.save(&self.out).during(doing)?;
        let (file, org_id) = (self.out.display().to_string(), known.org().to_string());
        let told = CardTold { file, org: org.to_string(), org_id };
        show(common.json, &told, || format!("wrote `{}`; the org's id is {}", told.file, told.org_id));
        Ok(())
    }
}
