//! `freehold user list`: who may be at home where.

use std::collections::BTreeSet;

use clap::Args;
use identity::principal::{Name, NodeName};
use operate::invite::user::{self, KnownUser};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::{or_dash, table};

use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold user list
  freehold user list --json | jq -r '.[] | select(.state == \"revoked\") | .name'

What a user may reach: freehold access NAME; which machines there are: freehold node list.")]
pub struct List {}

#[derive(Serialize)]
struct UserTold {
    name: Name,
    state: &'static str,
    nodes: BTreeSet<NodeName>,
    classes: BTreeSet<Name>,
}

impl From<KnownUser> for UserTold {
    fn from(KnownUser { name, nodes, classes, revoked }: KnownUser) -> Self {
        Self { name, state: if revoked { "revoked" } else { "user" }, nodes, classes }
    }
}

impl List {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not list the users";
        let mut session = common.session(doing).await?;
        let users = user::all(&mut session).await.during(doing)?;
        let users: Vec<UserTold> = users.into_iter().map(UserTold::from).collect();
        show(common.json, &users, || {
            if users.is_empty() {
                return "no user is published: freehold user add NAME --node NODE".to_owned();
            }
            let row = |user: &UserTold| {
                let nodes = user.nodes.iter().map(ToString::to_string);
                let classes = user.classes.iter().map(|class| format!("class {class}"));
                let homes: Vec<String> = nodes.chain(classes).collect();
                vec![
                    user.name.to_string(),
                    user.state.to_owned(),
                    or_dash(homes.first().map(|_| homes.join(", ")).as_ref()),
                ]
            };
            table(&["USER", "STATE", "AT HOME ON"], &users.iter().map(row).collect::<Vec<_>>())
        });
        Ok(())
    }
}
