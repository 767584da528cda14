//! One publication: planned, shown, agreed to, handed in and signed; and the way back, by the same steps.

use std::future::Future;

use identity::head::{FleetRef, Head};
use identity::time::Timestamp;
use manifest::fleet::Fleet;

use super::heads::{self, FleetDraft};
use super::plan::{self, PlanError, Prepared};
use super::rollback;
use crate::invite::patterns;
use crate::key::SignerKeys;
use crate::replica::roll::Roll;
use crate::session::{Made, OperateError, Result, Session, Undelivered, Unwise};

/// The person for whom it is done.
pub trait Publisher {
    type Stop: From<PlanError>;

    /// What it would do; `back_to` is the head that is said again.
    fn planned(&mut self, session: &Session, prepared: &Prepared, back_to: Option<&Head>);

    /// Told what the very head does to machines, says yes or no.
    fn agree(
        &mut self,
        session: &mut Session,
        draft: impl FnOnce(&Session, Timestamp) -> Result<Roll>,
    ) -> impl Future<Output = Result<(), Self::Stop>>;

    /// How much is handed in, of how much.
    fn handed_in(&mut self, done: usize, all: usize);
}

/// What is to be published.
#[derive(Debug)]
pub struct FleetWish<'a> {
    pub fleet: &'a Fleet,
    pub from: FleetRef,
    /// Nothing is signed if it is published already.
    pub only_if_changed: bool,
}

/// A head that was published, or waits for others.
#[derive(Debug)]
pub struct Publication {
    pub head: Made<Head>,
    pub prepared: Prepared,
}

impl Publication {
    /// Makes the patterns that open with it. Those that wait for other operators are left with the caller.
    pub async fn open_patterns(&self, session: &mut Session, keys: &SignerKeys) -> Result<Vec<Undelivered>> {
        patterns::open(session, keys, &self.prepared.patterns).await
    }
}

/// Publishes a fleet; nothing if it is published already, and that is enough.
pub async fn publish<P: Publisher + Send>(
    session: &mut Session,
    keys: &SignerKeys,
    wish: FleetWish<'_>,
    publisher: &mut P,
) -> Result<Option<Publication>, P::Stop> {
    let prepared = plan::fleet(session, wish.fleet).await?;
    publisher.planned(session, &prepared, None);
    let before = prepared.root_before();
    if wish.only_if_changed && before == Some(prepared.compiled.root) {
        return Ok(None);
    }
    let draft = FleetDraft {
        planned_on: before,
        fleet: wish.from,
        freshness: wish.fleet.org.freshness,
        svid_life: wish.fleet.org.svid_life,
        closes: prepared.patterns.closes.keys().copied().collect(),
    };
    let head = |session: &Session, now| Ok(heads::fleet_head(session, &prepared.compiled, &draft, now)?.roll);
    publisher.agree(session, head).await?;
    let told = |done, all| publisher.handed_in(done, all);
    let head = heads::publish(session, keys, &prepared.compiled, &draft, told).await.map_err(PlanError::from)?;
    Ok(Some(Publication { head, prepared }))
}

/// What going back would do, to the head with this version, or to the last that published another fleet.
pub async fn look_back(session: &mut Session, wanted: Option<u64>) -> Result<(Head, Prepared), PlanError> {
    let to = rollback::head_before(session, wanted).await?;
    let root = to.members.ok_or_else(|| OperateError::from(Unwise::BeforeFleets(to.version)))?;
    let prepared = plan::rollback(session, root).await?;
    Ok((to, prepared))
}

/// Goes back to it.
pub async fn go_back<P: Publisher + Send>(
    session: &mut Session,
    keys: &SignerKeys,
    wanted: Option<u64>,
    publisher: &mut P,
) -> Result<Publication, P::Stop> {
    let (to, prepared) = look_back(session, wanted).await?;
    publisher.planned(session, &prepared, Some(&to));
    let (named, before) = (&prepared.compiled, prepared.root_before());
    let draft = |session: &Session, now| Ok(rollback::head_back(session, named, &to, before, now)?.roll);
    publisher.agree(session, draft).await?;
    let told = |done, all| publisher.handed_in(done, all);
    let head = rollback::roll_back(session, keys, named, &to, before, told).await.map_err(PlanError::from)?;
    Ok(Publication { head, prepared })
}
