//! `freehold invite waivers`: what was approved beforehand.

use clap::Args;
use ground::clock;
use identity::principal::glob::NameGlob;
use operate::node::waive::{self, Waived};
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::table;

use crate::home::{Common, During};

#[derive(Debug, Args)]
pub struct Waivers {}

impl Waivers {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not list the waivers";
        let mut session = common.session(doing).await?;
        let waivers = waive::all(&mut session).await.during(doing)?;
        show(common.json, &waivers, || {
            let now = clock::now();
            let row = |waived: &Waived| {
                let state = if now < waived.until { "holds" } else { "over" };
                let id = waived.id.to_string();
                vec![id, state.to_owned(), waived.until.to_string(), listed(&waived.names), signers(waived)]
            };
            table(&["WAIVER", "STATE", "UNTIL", "NAMES", "SIGNED BY"], &waivers.iter().map(row).collect::<Vec<_>>())
        });
        Ok(())
    }
}

pub fn signers(waived: &Waived) -> String {
    match waived.signed.as_slice() {
        [] => "nobody who signs today".to_owned(),
        names => names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

pub fn listed(names: &[NameGlob]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
