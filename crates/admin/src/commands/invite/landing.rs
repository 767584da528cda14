//! `freehold landing`: a page for newcomers, to be put on any web server, or mailed.

use std::path::PathBuf;

use clap::Args;
use ground::clock;
use ground::file::{self, FileAccess};
use operate::invite::landing::Landing;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::Common;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold landing --out public --contact 'Ask Ann: ann@harbor.example, or room 12'

Writes one file, index.html, without scripts and without anything from elsewhere. It holds nothing secret.")]
pub struct LandingCommand {
    /// The folder to write into; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// How to ask for an invite, in your words
    #[arg(long, value_name = "TEXT")]
    contact: Option<String>,
}

#[derive(Serialize)]
struct Told {
    file: String,
    org: String,
    org_id: String,
}

impl LandingCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not write the page";
        let session = common.session(doing).await?;
        let page = Landing::of(&session.known, &session.survey.addresses, self.contact, clock::now());
        let path = self.out.join("index.html");
        let write = |why: &(dyn std::error::Error + 'static)| Failure::new(doing, why);
        std::fs::create_dir_all(&self.out).map_err(|why| write(&why))?;
        file::write(&path, page.html().as_bytes(), FileAccess::Readable).map_err(|why| write(&why))?;
        let told = Told { file: path.display().to_string(), org: page.org, org_id: page.id };
        show(common.json, &told, || format!("wrote `{}` for `{}` ({})", told.file, told.org, told.org_id));
        Ok(())
    }
}
