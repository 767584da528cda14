//! `freehold invite list`.

use clap::Args;
use ledger::views::InviteView;
use operate::invite;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::table;

use crate::commands::invite::seen::{MAKE_NEW, PINS_RETIRED, StrandedView, told, who};
use crate::home::{Common, During};

#[derive(Debug, Args)]
pub struct List {}

impl List {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not list the invites";
        let mut session = common.session(doing).await?;
        let invites = invite::all(&mut session).await.during(doing)?;
        let invites = StrandedView::all(&mut session, invites).await.during(doing)?;
        let told: Vec<_> = invites.iter().map(told).collect();
        show(common.json, &told, || {
            let row = |seen: &StrandedView| {
                let invite = &seen.view;
                vec![
                    invite.id.to_string(),
                    invite.kind.to_string(),
                    seen.state().to_owned(),
                    format!("{} of {}", invite.spent, invite.uses),
                    invite.expires_at.to_string(),
                    who(&invite.names, &invite.hosts),
                    remark(invite),
                ]
            };
            let rows: Vec<_> = invites.iter().map(row).collect();
            let all = table(&["INVITE", "KIND", "STATE", "SPENT", "EXPIRES", "NAMES", "LABEL"], &rows);
            match invites.iter().filter(|seen| seen.stranded.is_some()).count() {
                0 => all,
                many => format!("{all}\n\n{many} stranded: {PINS_RETIRED}; {MAKE_NEW}"),
            }
        });
        Ok(())
    }
}

/// What it is for, and what a person should not overlook.
fn remark(invite: &InviteView) -> String {
    let alarm = if invite.reused.is_empty() { "" } else { "ALARM: shown again by another machine " };
    format!("{alarm}{}", invite.label).trim_end().to_owned()
}
