//! `freehold refresh`: the head and the mandates last longer; nothing else changes.

use clap::Args;
use node::report::{Failure, show};
use operate::timely::Reliance;
use serde::Serialize;

use crate::home::{Common, failure};
use crate::waiting::{Left, leave, told};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold refresh                  once a month at least: joiners refuse a head that is no longer fresh
  freehold refresh --reset-clock    the newest head was signed by a clock that was ahead: says what time it really is")]
pub struct Refresh {
    /// The newest head is dated in the future, by a wrong clock: overrule it with the time of this machine
    #[arg(long)]
    reset_clock: bool,
}

#[derive(Serialize)]
struct Refreshed {
    head: u64,
    fresh_until: String,
    mandates_until: Vec<String>,
    #[serde(flatten)]
    pending: Left,
}

impl Refresh {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not refresh the head";
        let (mut session, keys) = common.signing_session(doing).await?;
        if self.reset_clock {
            session.reliance = Reliance::Resets;
        }
        let made = session.refresh(&keys).await.map_err(|why| failure(doing, &why))?;
        let pending = leave(common, doing, &session.known, &made)?;
        let head = made.what;
        let refreshed = Refreshed {
            head: head.version,
            fresh_until: head.fresh_until.to_string(),
            mandates_until: head.mandates.iter().map(|mandate| mandate.not_after.to_string()).collect(),
            pending,
        };
        show(common.json, &refreshed, || {
            told(refreshed.pending.waiting(), || {
                format!("head {} is fresh until {}", refreshed.head, refreshed.fresh_until)
            })
        });
        Ok(())
    }
}
