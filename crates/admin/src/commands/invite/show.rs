//! `freehold invite show`: one invite, and who joined with it.

use clap::Args;
use identity::principal::label::Label;
use operate::invite;
use terminal::failure::Failure;
use terminal::show::show;
use wire::control::Reuse;

use crate::commands::invite::seen::{MAKE_NEW, StrandedView, told};
use crate::home::{Common, During};

#[derive(Debug, Args)]
pub struct Show {
    /// Its id, the beginning of its id, or its label
    invite: String,
}

impl Show {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not show the invite `{}`", self.invite);
        let mut session = common.session(&doing).await?;
        let invite = invite::find(&mut session, &self.invite).await.during(&doing)?;
        let seen = StrandedView::all(&mut session, vec![invite]).await.during(&doing)?;
        for seen in &seen {
            show(common.json, &told(seen), || in_words(seen));
        }
        Ok(())
    }
}

fn in_words(seen: &StrandedView) -> String {
    let invite = &seen.view;
    let list = |items: Vec<String>, none: &str| if items.is_empty() { none.to_owned() } else { items.join(" ") };
    let strings = |items: &[Label]| items.iter().map(ToString::to_string).collect();
    let mut lines = vec![
        format!("invite    {}", invite.id),
        format!("kind      {}", invite.kind),
        format!("state     {}", seen.state()),
        format!("label     {}", invite.label),
        format!("uses      {} of {} spent", invite.spent, invite.uses),
        format!("created   {} by {}", invite.created_at, invite.created_by),
        format!("expires   {}", invite.expires_at),
        format!("names     {}", list(invite.names.iter().map(ToString::to_string).collect(), "none")),
        format!("approval  {}", invite.approvers.map_or("none".to_owned(), |n| format!("by {n} operator(s)"))),
        format!("networks  {}", list(invite.networks.clone(), "any")),
        format!("labels    {}", list(strings(&invite.labels), "none")),
        format!("roles     {}", list(invite.roles.iter().map(ToString::to_string).collect(), "none")),
    ];
    if !invite.hosts.is_empty() {
        lines.push(format!("hosts     {}", list(invite.hosts.iter().map(ToString::to_string).collect(), "any")));
    }
    lines.extend(seen.why().map(|why| format!("STRANDED  {why}; {MAKE_NEW}")));
    lines.extend(invite.reused.iter().map(reused));
    if invite.joined.is_empty() {
        lines.push("joined    nobody yet".to_owned());
    }
    for joined in &invite.joined {
        lines.push(format!("joined    {} at {}, now {}", joined.name, joined.at, joined.state.word()));
    }
    lines.join("\n")
}

/// Whoever showed a bundle that another machine had joined with.
pub fn reused(reuse: &Reuse) -> String {
    format!(
        "ALARM     shown again by another machine, from {} at {} ({} time(s)), as `{}` with the key {}; it was refused",
        reuse.source, reuse.at, reuse.times, reuse.name, reuse.node_key
    )
}
