//! `freehold gateway move`: a gateway comes before the others.

use std::io::IsTerminal as _;

use clap::Args;
use identity::principal::NodeName;
use identity::time::Seconds;
use operate::gateway;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::{Common, During};
use crate::waiting::{Left, leave, told};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold gateway move vps               and wait until every node knows of it
  freehold gateway move vps --no-wait

The gateway that came first until now stays one, until it is removed: freehold gateway remove NAME")]
pub struct Move {
    /// The gateway's node name
    node: NodeName,
    /// Do not wait until every node knows of it
    #[arg(long)]
    no_wait: bool,
    /// Wait this long at most
    #[arg(long, value_name = "SPAN", default_value = "5m")]
    wait: Seconds,
}

#[derive(Serialize)]
struct Moved {
    gateway: String,
    head: u64,
    /// Nodes that have not said yet that they know.
    not_yet: Vec<String>,
    #[serde(flatten)]
    pending: Left,
}

impl Move {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not move to `{}`", self.node);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let made = gateway::move_first(&mut session, &keys, &self.node).await.during(&doing)?;
        let pending = leave(common, &doing, &session.known, &made)?;
        let mut not_yet = Vec::new();
        if pending.waiting().is_none() {
            let wait = if self.no_wait { Seconds(0) } else { self.wait };
            let shown = !common.json && std::io::stderr().is_terminal();
            let mut fewest = usize::MAX;
            let tell = |left: &[NodeName]| {
                if shown && left.len() < fewest {
                    fewest = left.len();
                    eprintln!("waiting for {fewest} node(s): {}", first_names(left));
                }
            };
            not_yet = gateway::until_known(&mut session, made.what.version, wait, tell).await.during(&doing)?;
        }
        let not_yet = not_yet.iter().map(ToString::to_string).collect();
        let result = Moved { gateway: self.node.to_string(), head: made.what.version, not_yet, pending };
        show(common.json, &result, || {
            told(result.pending.waiting(), || {
                let known = if result.not_yet.is_empty() {
                    "every node knows".to_owned()
                } else {
                    format!(
                        "these have not said yet that they know, and find it when they next ask the old one: {}",
                        result.not_yet.join(" ")
                    )
                };
                format!("`{}` comes first (head {}); {known}", result.gateway, result.head)
            })
        });
        Ok(())
    }
}

fn first_names(names: &[NodeName]) -> String {
    let more = names.len().saturating_sub(5);
    let some: Vec<_> = names.iter().take(5).map(ToString::to_string).collect();
    if more > 0 { format!("{} and {more} more", some.join(" ")) } else { some.join(" ") }
}
