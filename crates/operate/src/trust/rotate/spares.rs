//! Spare keys for a root that was stolen: each gateway that can be asked draws a new one, and the others are named.

use std::collections::BTreeSet;

use ground::clock;
use identity::bundle::Domain;
use identity::head::Mandate;
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use wire::control::Call;

use crate::session::{Desk, OperateError, Result, Session, TrustError};
use crate::trust::issuers::{self, Issuing, Told};
use crate::trust::stolen::take_spare;

/// Drawn longer ago than this, it was drawn by an earlier run.
const JUST_NOW: Seconds = Seconds::HOUR;

/// A spare key that lies there for longer than anybody likes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldSpare {
    pub gateway: NodeName,
    pub since: Timestamp,
}

/// A gateway that was asked for a new spare key and drew none.
#[derive(Debug, thiserror::Error)]
#[error("`{gateway}` drew no new spare key")]
pub struct NotDrawn {
    pub gateway: NodeName,
    #[source]
    pub why: Box<OperateError>,
}

/// What is known of spare keys, and whom a new one can be asked of.
pub(super) struct SpareKeys {
    told: Told,
    without: BTreeSet<NodeName>,
    /// Those beside the one that this session talks to.
    reached: Vec<(NodeName, Box<dyn Desk>)>,
    away: Vec<NodeName>,
}

impl SpareKeys {
    pub(super) const fn issuing(&self) -> Issuing<'_> {
        Issuing { told: &self.told, without: &self.without }
    }

    pub(super) async fn gather(
        session: &mut Session,
        without: &BTreeSet<NodeName>,
        mut desk_of: impl AsyncFnMut(&Session, &Mandate) -> Option<Box<dyn Desk>>,
    ) -> Result<Self> {
        let told = issuers::told(session).await?;
        let (head, now) = (session.head(), clock::now());
        if let Some(name) = without.iter().find(|name| head.active_mandate(name, now).is_none()) {
            return Err(TrustError::NoGateway(name.clone()).into());
        }
        let own = &session.survey.gateway;
        let asked = |mandate: &&Mandate| {
            mandate.is_active(now) && mandate.gateway != *own && !without.contains(&mandate.gateway)
        };
        let (mut reached, mut away) = (Vec::new(), Vec::new());
        for mandate in head.mandates.iter().filter(asked) {
            match desk_of(session, mandate).await {
                Some(desk) => reached.push((mandate.gateway.clone(), desk)),
                None => away.push(mandate.gateway.clone()),
            }
        }
        Ok(Self { told, without: without.clone(), reached, away })
    }

    /// Whose key may have been copied long ago.
    pub(super) fn old(&self) -> Vec<OldSpare> {
        let told = self.away.iter().filter_map(|name| self.told.get(name));
        told.map(|issuers| OldSpare { gateway: issuers.gateway.clone(), since: issuers.at }).collect()
    }

    /// Every gateway that can be asked draws a new spare key. Those that have drawn it for this head already.
    pub(super) async fn draw(&mut self, session: &mut Session, domain: Domain) -> Result<Vec<OldSpare>, NotDrawn> {
        let own = session.survey.gateway.clone();
        let mut drawn = Vec::new();
        if !self.without.contains(&own) {
            let answer = session.ask(Call::Spare { domain }).await;
            let since = answer.and_then(|answer| take_spare(session, &own, answer, &mut self.told));
            drawn.push(spare(own, since)?);
        }
        for (name, desk) in &mut self.reached {
            let answer = desk.ask(Call::Spare { domain }).await.map_err(OperateError::from);
            let since = answer.and_then(|answer| take_spare(session, name, answer, &mut self.told));
            drawn.push(spare(name.clone(), since)?);
        }
        let now = clock::now();
        drawn.retain(|spare| spare.since + JUST_NOW < now);
        Ok(drawn)
    }
}

fn spare(gateway: NodeName, since: Result<Timestamp>) -> Result<OldSpare, NotDrawn> {
    match since {
        Ok(since) => Ok(OldSpare { gateway, since }),
        Err(why) => Err(NotDrawn { gateway, why: Box::new(why) }),
    }
}
