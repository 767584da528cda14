//! `freehold-node leave`: tells the gateway, then wipes the keys.

use clap::Args;
use ground::clock;
use identity::principal::NodeName;
use member::ask::error::AskError;
use member::ask::sync;
use member::store::scope::{NodeFile, Scope, ScopeError};
use org::refusal::Refusal;
use serde::Serialize;
use terminal::confirm::confirm;
use terminal::failure::{During, Failure};
use terminal::show::show;
use wire::connect::{CallError, GatewayAddress};

use crate::commands::roots::{ScopeOptions, name_of};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node leave               tells the gateway, then wipes this machine's keys
  freehold-node leave --local       only wipes: for a machine that was revoked, or whose gateways are gone")]
pub struct Leave {
    /// Do not tell the gateway
    #[arg(long)]
    local: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

const WITHOUT_TELLING: &str =
    "if the gateways are gone for good, or this machine was revoked: freehold-node leave --local";

#[derive(Serialize)]
struct Left {
    left: String,
    told_gateway: bool,
}

impl Leave {
    pub async fn run(self, common: &ScopeOptions) -> Result<(), Failure> {
        let doing = "could not leave";
        let finished = finish(common).during(doing)?;
        let scope = match (common.scope(doing), finished) {
            (Err(_), Some(org)) => {
                told(common, &org, false);
                return Ok(());
            }
            (scope, _) => scope?,
        };
        let node = scope.node().during(doing)?;
        let org = name_of(&scope);
        if !self.local
            && let Some(name) = mandated(&scope, node.as_ref()).during(doing)?
        {
            let why = format!("`{name}` is a gateway with a mandate: its ledger and its keys would go with it");
            return Err(Failure::refused(doing, why)
                .hint(format!("an operator takes the mandate first: freehold gateway remove {name}")));
        }
        let name = node.as_ref().map_or_else(String::new, |node| format!(" as `{}`", node.name));
        let folder = scope.folder.display();
        let question = format!("Leave `{org}`{name}, and wipe the keys in `{folder}`? It cannot be undone.");
        confirm(self.yes, doing, &question)?;
        let told_gateway = match (&node, self.local) {
            (Some(node), false) => {
                let addresses = scope.addresses(node, clock::now()).during(doing)?;
                let gateways: Vec<GatewayAddress> = addresses.into_iter().map(GatewayAddress::from).collect();
                match sync::leave(&scope, &gateways).await {
                    // Told in a run that was interrupted.
                    Ok(()) | Err(AskError::Call(CallError::Refused(Refusal::KeyLeft))) => true,
                    Err(why) => return Err(Failure::new(doing, &why).hint(WITHOUT_TELLING)),
                }
            }
            (_, true) | (None, false) => false,
        };
        scope.wipe().during(doing)?;
        told(common, &org, told_gateway);
        Ok(())
    }
}

/// This machine's name, if it is a gateway by the head that it knows.
fn mandated<'a>(scope: &Scope, node: Option<&'a NodeFile>) -> Result<Option<&'a NodeName>, ScopeError> {
    let (known, name) = (scope.known()?, node.map(|node| &node.name));
    let mandates = known.as_ref().map(|known| known.head.head.mandates.as_slice()).unwrap_or_default();
    Ok(name.filter(|name| mandates.iter().any(|mandate| mandate.gateway == **name)))
}

/// Wipes what an earlier run, which was cut off, had put aside; the last org of them.
fn finish(common: &ScopeOptions) -> Result<Option<String>, ScopeError> {
    let mut last = None;
    for scope in Scope::half_wiped(&common.root()) {
        let org = name_of(&scope);
        if common.wanted().is_none_or(|wanted| wanted.as_str() == org) {
            scope.finish_wiping()?;
            last = Some(org);
        }
    }
    Ok(last)
}

fn told(common: &ScopeOptions, org: &str, told_gateway: bool) {
    show(common.json, &Left { left: org.to_owned(), told_gateway }, || {
        let told = if told_gateway { "the gateway knows" } else { "the gateway was not told" };
        format!("left `{org}`: {told}; the keys are wiped")
    });
}
