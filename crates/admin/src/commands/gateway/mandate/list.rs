//! `freehold mandate list`: what each gateway may do.

use clap::Args;
use identity::head::Mandate;
use identity::time::Seconds;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::table;

use crate::home::Common;

#[derive(Debug, Args)]
pub struct List {}

#[derive(Serialize)]
pub struct MandateTold {
    pub gateway: String,
    pub names: Vec<String>,
    pub kinds: Vec<String>,
    pub hosts: Vec<String>,
    pub svid_ttl: Seconds,
    pub not_after: String,
}

impl From<&Mandate> for MandateTold {
    fn from(mandate: &Mandate) -> Self {
        Self {
            gateway: mandate.gateway.to_string(),
            names: mandate.names.iter().map(ToString::to_string).collect(),
            kinds: mandate.kinds.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect(),
            hosts: mandate.hosts.iter().map(ToString::to_string).collect(),
            svid_ttl: mandate.svid_ttl,
            not_after: mandate.not_after.to_string(),
        }
    }
}

impl List {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let session = common.session("could not list the mandates").await?;
        let mandates: Vec<MandateTold> = session.head().mandates.iter().map(MandateTold::from).collect();
        show(common.json, &mandates, || {
            let row = |told: &MandateTold| {
                let (names, hosts) = (told.names.join(" "), told.hosts.join(" "));
                vec![
                    told.gateway.clone(),
                    names,
                    told.kinds.join(" "),
                    told.svid_ttl.to_string(),
                    hosts,
                    told.not_after.clone(),
                ]
            };
            let rows: Vec<_> = mandates.iter().map(row).collect();
            table(&["GATEWAY", "NAMES", "KINDS", "SVID LIFE", "AS", "UNTIL"], &rows)
        });
        Ok(())
    }
}
