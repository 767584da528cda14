//! Spare keys for a root that was stolen: each gateway that can be asked draws a new one, and the others are named.

use std::collections::BTreeSet;

use gateway::gateway::Gateway;
use gateway::store::folder::GatewayFolder;
use ground::clock;
use identity::bundle::Domain;
use identity::head::Mandate;
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use operate::session::OperateError;
use operate::session::desk::Desk as _;
use operate::trust::issuers;
use operate::trust::issuers::{Issuing, Told};
use operate::trust::stolen::take_spare;
use terminal::failure::Failure;
use wire::connect::GatewayAddress;
use wire::control::Call;

use super::Run;
use crate::home::{During, failure};
use crate::local::AnyDesk;

/// Drawn longer ago than this, it was drawn by an earlier run.
const JUST_NOW: Seconds = Seconds::HOUR;

/// What is known of spare keys, and whom a new one can be asked of.
pub struct Known {
    pub told: Told,
    pub without: BTreeSet<NodeName>,
    /// Those beside the one that this session talks to.
    reached: Vec<(NodeName, AnyDesk)>,
    away: Vec<NodeName>,
}

impl Known {
    pub const fn issuing(&self) -> Issuing<'_> {
        Issuing { told: &self.told, without: &self.without }
    }

    pub async fn gather(run: &mut Run<'_>) -> Result<Self, Failure> {
        let told = issuers::told(&mut run.session).await.during(&run.doing)?;
        let without: BTreeSet<NodeName> = run.wish.without.iter().cloned().collect();
        let (head, now) = (&run.session.known.head.head, clock::now());
        let stranger = without.iter().find(|name| head.active_mandate(name, now).is_none());
        if let Some(name) = stranger {
            return Err(Failure::refused(&run.doing, format!("no gateway with a mandate is called `{name}`"))
                .hint("see which there are: freehold gateway list"));
        }
        let own = &run.session.survey.gateway;
        let asked = |mandate: &&Mandate| {
            mandate.is_active(now) && mandate.gateway != *own && !without.contains(&mandate.gateway)
        };
        let (mut reached, mut away) = (Vec::new(), Vec::new());
        for mandate in head.mandates.iter().filter(asked) {
            match desk_of(run, mandate).await {
                Some(desk) => reached.push((mandate.gateway.clone(), desk)),
                None => away.push(mandate.gateway.clone()),
            }
        }
        Ok(Self { told, without, reached, away })
    }

    /// Whose key may have been copied long ago.
    pub fn old_in_words(&self) -> Vec<String> {
        let told = self.away.iter().filter_map(|name| self.told.get(name));
        told.map(|issuers| old(&issuers.gateway, "cannot be asked for a new one now", issuers.at)).collect()
    }

    /// Every gateway that can be asked draws a new spare key.
    pub async fn draw(&mut self, run: &mut Run<'_>, domain: Domain) -> Result<(), Failure> {
        let own = run.session.survey.gateway.clone();
        let mut drawn = Vec::new();
        if !self.without.contains(&own) {
            let answer = run.session.ask(Call::Spare { domain }).await;
            let at = answer.and_then(|answer| take_spare(&run.session.known, &own, answer, &mut self.told));
            drawn.push((own.clone(), at.map_err(|why| not_drawn(run, &own, &why))?));
        }
        for (name, desk) in &mut self.reached {
            let answer = desk.ask(Call::Spare { domain }).await.map_err(OperateError::from);
            let at = answer.and_then(|answer| take_spare(&run.session.known, name, answer, &mut self.told));
            drawn.push((name.clone(), at.map_err(|why| not_drawn(run, name, &why))?));
        }
        let now = clock::now();
        for (name, at) in drawn.into_iter().filter(|(_, at)| *at + JUST_NOW < now) {
            run.say(&old(&name, "has drawn it for this head already, and something that waits may name it", at));
        }
        Ok(())
    }
}

fn old(gateway: &NodeName, why: &str, since: Timestamp) -> String {
    format!(
        "`{gateway}` {why}: its spare key lies there since {since} or longer. Whoever has had that machine, its disk or its \
         backup since then has it; leave it out: --without {gateway}"
    )
}

fn not_drawn(run: &Run<'_>, gateway: &NodeName, why: &OperateError) -> Failure {
    let failure = failure(&run.doing, why);
    failure.hint(format!("`{gateway}` drew no new spare key: run this again; or leave it out: --without {gateway}"))
}

/// Over the network, or in this home if it sleeps here.
async fn desk_of(run: &Run<'_>, mandate: &Mandate) -> Option<AnyDesk> {
    let org = &run.session.known.founding.record.name;
    let doors: Vec<GatewayAddress> = mandate.addresses.iter().cloned().map(GatewayAddress::from).collect();
    if !doors.is_empty()
        && let Ok(desk) = run.common.remote(org, Some(&run.keys), doors, &run.doing).await
    {
        return Some(desk);
    }
    let folder = GatewayFolder::at(&run.common.home(), org);
    let here = folder.folder.exists() && folder.about().is_ok_and(|about| about.node == mandate.gateway);
    let open = if here { Gateway::open(&folder).ok() } else { None };
    open.map(|gateway| AnyDesk::Local(Box::new(gateway)))
}
