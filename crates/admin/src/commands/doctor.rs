//! `freehold doctor`: everything that can be wrong with an org's folders and its gateway here, and the cure.

use clap::Args;
use node::doctor::examination;
use terminal::failure::Failure;
use terminal::finding::{Finding, tell};

use crate::doctor::examine;
use crate::home::Common;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold doctor                   each org of this home; --org NAME for one
  freehold doctor --json | jq '.orgs[].findings[] | select(.mark != \"ok\")'

It changes nothing and needs no passphrase. Exit code 0 if nothing is wrong, else 1; what is marked `soon` is not wrong
yet. It looks from this machine: run freehold-node doctor on a node to see the gateway from there.")]
pub struct OrgDoctor {}

impl OrgDoctor {
    pub async fn run(&self, common: &Common) -> Result<(), Failure> {
        let home = common.home();
        let mut patients = Vec::new();
        for org in common.chosen() {
            patients.push(examine(&home, &org).await);
        }
        if patients.is_empty() {
            let nothing = Finding::wrong(
                "org",
                format!("there is no org in `{}`", home.display()),
                "found one: freehold found NAME; or say where yours is: --home DIR",
            );
            let cure = "run this as the owner of that home, or name yours: --home DIR";
            patients.push(examination::empty(&home, std::fs::read_dir(&home).map(drop), cure, nothing));
        }
        tell(common.json, &patients)
    }
}
