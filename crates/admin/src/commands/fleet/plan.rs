//! `freehold plan [DIR]`: what publishing the fleet would do. Nothing is signed, nothing is sent.

use std::path::PathBuf;

use clap::Args;
use ground::file::FileAccess;
use operate::publish::plan;
use terminal::failure::Failure;
use terminal::show::show;

use crate::commands::fleet::check::read_fleet;
use crate::home::{Common, During};
use crate::planning;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold plan
  freehold plan ~/harbor/fleet --json
  freehold plan --save-members members.json && freehold compile --members members.json --out compiled

Per node what it gains and loses against what is published, then the same in a few words for all. Whoever is to sign what another
operator made compares the members' map: the same commit and the same members give the same one. If there are several orgs here, it
is about the one that the fleet names.")]
pub struct Plan {
    /// The fleet's folder [default: ./fleet if it is there, else here]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write the members that were found, for `freehold compile --members`
    #[arg(long, value_name = "FILE")]
    save_members: Option<PathBuf>,
}

impl Plan {
    /// The plan alone.
    pub const fn of(dir: Option<PathBuf>) -> Self {
        Self { dir, save_members: None }
    }

    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not plan";
        let (folder, fleet) = read_fleet(common, self.dir.as_deref(), doing)?;
        let common = &common.about(&fleet.org.name);
        let mut session = common.session(doing).await?;
        let prepared = plan::fleet(&mut session, &fleet).await;
        let prepared = prepared.during(doing)?;
        if let Some(file) = &self.save_members {
            let members: Vec<_> = prepared.members.iter().map(|member| &member.known).collect();
            let json = serde_json::to_vec_pretty(&members).during(doing)?;
            ground::file::write(file, &json, FileAccess::Readable).during(doing)?;
        }
        let git = planning::git_state(folder.root(), true, doing)?;
        show(common.json, &planning::as_facts(&session, &prepared), || {
            let (words, root) = (planning::in_words(&session, &prepared), prepared.compiled.root);
            format!("{words}\nthe members' map would be {root}\n{}", planning::git_words(&git))
        });
        Ok(())
    }
}
