//! Watching: asks for reports again and again until all has settled, or until whoever waits has waited long enough.

use std::collections::BTreeMap;
use std::time::Duration;

use ground::clock;
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};

use super::{NodeFate, Receipts, Watch};
use crate::node;
use crate::session::reports::{Reports, reports};
use crate::session::{OperateError, Result, Session, maps};

/// So often in a row the gateway may be out of reach while something is watched.
const FAILURES: u32 = 30;
/// How often receipts are asked for.
const SOON: Duration = Duration::from_millis(250);

pub type Fates = BTreeMap<NodeName, NodeFate>;

/// Until everything has settled, or the bound is over. `shown` hears how all fare, and whether that is the end.
pub async fn until_settled(
    session: &mut Session,
    watch: &mut Watch,
    bound: Option<Seconds>,
    mut shown: impl FnMut(&Fates, Timestamp, bool),
) -> Result<Fates> {
    let begun = clock::now();
    let until = bound.map(|bound| begun + bound);
    let (mut after, mut failures) = (0, 0);
    loop {
        match reports(session, after).await {
            Ok((reports, last)) => {
                watch.hear(reports);
                (after, failures) = (last, 0);
            }
            // What is published stays so, whether this connection holds or not.
            Err(OperateError::Desk(_)) if failures < FAILURES => failures += 1,
            Err(why) => return Err(why),
        }
        let now = clock::now();
        let fates: Fates = watch.fates(now).into_iter().map(|(name, fate)| (name.clone(), fate)).collect();
        let over = watch.is_over(now) || until.is_some_and(|until| now >= until);
        shown(&fates, now, over);
        if over {
            return Ok(fates);
        }
        tokio::time::sleep(pause(now.since(begun))).await;
    }
}

/// At first most happens.
const fn pause(since: Seconds) -> Duration {
    if since.0 < 3 { SOON } else { Duration::from_secs(1) }
}

/// The head in force, which somebody published just now.
pub async fn in_force(
    session: &mut Session,
    bound: Option<Seconds>,
    shown: impl FnMut(&Fates, Timestamp, bool),
) -> Result<Fates> {
    if !session.is_served() {
        return Ok(Fates::new());
    }
    let nodes = node::all(session).await?.into_iter();
    let seen = nodes.filter_map(|node| Some((node.name, node.observed.last_seen?))).collect();
    let Some(published) = maps::published(session).await? else {
        return Ok(Fates::new());
    };
    let head = session.head().version;
    let mut news = Watch::new(head, clock::now(), &published.leaves, &published.manifests, seen);
    until_settled(session, &mut news, bound, shown).await
}

/// Which members have a head on their disk; waits for the others as long as was asked for.
pub async fn receipts(session: &mut Session, head: u64, wait: Option<Seconds>) -> Result<Receipts> {
    let members = node::members(session).await?.into_iter();
    let members: Vec<_> = members.map(|node| (node.name, node.node_key.digest())).collect();
    // Nodes learn of it only from a gateway that serves.
    let served = session.is_served();
    let until = clock::now() + wait.filter(|_| served).unwrap_or(Seconds(0));
    let (mut all, mut after) = (Reports::new(), 0);
    loop {
        let (reports, last) = reports(session, after).await?;
        all.extend(reports);
        after = last;
        let receipts = Receipts::of(head, members.clone(), &all);
        if receipts.waiting.is_empty() || clock::now() >= until {
            return Ok(receipts);
        }
        tokio::time::sleep(SOON).await;
    }
}
