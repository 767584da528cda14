//! `freehold unlock` and `freehold lock`: signer keys that stay open for a while, in an agent of the user's own.

pub mod lock;
pub mod agent;

use clap::Args;
use identity::time::Seconds;
use operate::key::agent::client::{self, AgentError};
use operate::key::agent::place::AgentPlace;
use operate::key::agent::words::{Given, HeldIn, KeyAgentStatus, LONGEST};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::table;

use crate::home::Common;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold unlock                   for 15 minutes no command of yours asks for the passphrase
  freehold unlock --for 2h
  freehold unlock --status          what is open, and until when
  freehold lock                     forget the keys now

The keys are held by a process of your own, which ends when the time is over, when the machine
sleeps, and when it gets SIGTERM. It signs objects of your org and operators' calls, and nothing else.
Root keys are never held.")]
pub struct Unlock {
    /// For how long: at most 12h
    #[arg(long = "for", value_name = "SPAN", default_value = "15m")]
    span: Seconds,
    /// Only say what is unlocked
    #[arg(long, conflicts_with = "span")]
    status: bool,
}

#[derive(Serialize)]
struct Told {
    unlocked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    keys: Vec<KeyTold>,
}

#[derive(Serialize)]
struct KeyTold {
    org: String,
    signer: String,
    key: String,
    until: String,
    held_in: HeldIn,
}

impl Unlock {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        if self.status {
            return tell_status(common);
        }
        let doing = "could not unlock";
        if self.span.0 == 0 || self.span > LONGEST {
            return Err(Failure::usage(doing, format!("keys stay open for 1s to {LONGEST}, not for {}", self.span)));
        }
        let org = common.org(doing)?;
        let place = AgentPlace::of_user().map_err(|why| Failure::new(doing, &why).hint(WHERE))?;
        let (id, opened) = common.keys_for_agent(&org, doing)?;
        let give = |(signer, material)| Given { org: id, org_name: org.clone(), signer, material };
        let program = std::env::current_exe().map_err(|why| Failure::failed(doing, why.to_string()))?;
        let keys = opened.into_iter().map(give).collect();
        let status = client::hold(&place, &program, keys, self.span).map_err(|why| failure(doing, &why))?;
        tell(common, Some(status));
        Ok(())
    }
}

const WHERE: &str = "set XDG_RUNTIME_DIR or HOME to a folder of yours";

fn failure(doing: &str, why: &AgentError) -> Failure {
    let failure = Failure::new(doing, why);
    match why {
        AgentError::Place(_) => failure.hint(WHERE),
        AgentError::Ended(_) | AgentError::NotStarted(_) => failure.hint("nothing is unlocked; try again"),
        _ => failure,
    }
}

fn tell_status(common: &Common) -> Result<(), Failure> {
    let doing = "could not ask the agent";
    let place = AgentPlace::of_user().map_err(|why| Failure::new(doing, &why).hint(WHERE))?;
    let status = client::status(&place).map_err(|why| failure(doing, &why))?;
    tell(common, status);
    Ok(())
}

fn tell(common: &Common, status: Option<KeyAgentStatus>) {
    let pid = status.as_ref().map(|status| status.pid);
    let keys: Vec<KeyTold> = status
        .into_iter()
        .flat_map(|status| status.keys)
        .map(|held| KeyTold {
            org: held.org_name.to_string(),
            signer: held.signer.to_string(),
            key: held.key.to_string(),
            until: held.until.to_string(),
            held_in: held.held_in,
        })
        .collect();
    let told = Told { unlocked: !keys.is_empty(), pid, keys };
    show(common.json, &told, || {
        if told.keys.is_empty() {
            return "locked: no key is held".to_owned();
        }
        let held_in = |key: &KeyTold| match key.held_in {
            HeldIn::LockedMemory => "",
            HeldIn::Memory => "may be swapped to disk",
            HeldIn::Token => "on its token",
        };
        let row = |key: &KeyTold| vec![key.org.clone(), key.signer.clone(), key.until.clone(), held_in(key).to_owned()];
        table(&["ORG", "SIGNER", "UNLOCKED UNTIL", ""], &told.keys.iter().map(row).collect::<Vec<_>>())
    });
}
