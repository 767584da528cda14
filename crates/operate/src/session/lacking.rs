//! What the gateway lacks and this home has is handed over: entries, of its own chain, too, and the map of the head in force.

use wire::control::Call;

use crate::replica::{Replica, ReplicaError};
use crate::session::stage::{self, Staging};
use crate::session::{Result, Session};

/// A gateway that lacks more than this many pages is not mended by a home.
const MOST_PAGES: usize = 1_000;

pub(super) async fn hand_lacking(session: &mut Session) -> Result<()> {
    let has_all = session.survey.frontier.covers_all(&session.memory.pulled);
    if has_all && session.survey.halt.is_none() {
        return Ok(());
    }
    let replica = Replica::open(&session.folder, &session.known)?.unlocked();
    let pages = if has_all { 0 } else { MOST_PAGES };
    for _ in 0..pages {
        let before = session.survey.frontier.clone();
        let (page, _) = replica.ledger.beyond(&replica.state, &before).map_err(ReplicaError::from)?;
        if page.is_empty() || before.covers_all(&replica.state.frontier) {
            break;
        }
        session.ask(Call::Hand { entries: page }).await?;
        session.survey_again().await?;
        if session.survey.frontier == before {
            break;
        }
    }
    // Last: until the map is here it writes nothing, and then it has what it lacked.
    hand_rest(session, &replica).await
}

/// A gateway that is held back and has as much as this home may lack the map, or not know that its chain forks.
async fn hand_rest(session: &mut Session, replica: &Replica) -> Result<()> {
    let (mut page, _) = replica.ledger.beyond(&replica.state, &session.survey.frontier).map_err(ReplicaError::from)?;
    page.extend(replica.ledger.branches(&replica.state).map_err(ReplicaError::from)?);
    if !page.is_empty() {
        session.ask(Call::Hand { entries: page }).await?;
    }
    // Of the head in force, and of those that are not while several sets claim one place.
    let own = replica.state.head().and_then(|record| record.head.members);
    for root in own.into_iter().chain(replica.state.claimed_maps()) {
        let Some(leaves) = session.kept().leaves(root) else { continue };
        let manifests = session.kept().manifests(&leaves);
        let map = Staging { root, leaves: &leaves, manifests: &manifests };
        stage::hand_in(session, map, None, &mut |_, _| {}).await?;
    }
    session.survey_again().await
}
