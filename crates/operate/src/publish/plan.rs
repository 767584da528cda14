//! What publishing a fleet would do (plan and apply): compiled for the members that are, held against what is
//! published.

use std::collections::{BTreeMap, BTreeSet};

use identity::head::Placement;
use identity::id::{Digest, OrgId};
use identity::members::ClassLeaves;
use identity::principal::{NodeName, OrgName};
use identity::time::Timestamp;
use manifest::compile::{Compiled, HeldBack, MemberKnown, compile};
use manifest::diff::{BadPublished, Plan, compare};
use manifest::fleet::Fleet;
use manifest::stored::{Manifest, SCHEMA};
use serde::Serialize;

use super::low::{self, TooLow};
use super::members::{self, Member};
use super::rollback::for_members;
use super::schema::CommonSchema;
use super::shortening::{Warning, warnings};
use crate::invite::patterns::{self, Patterns};
use crate::replica::published::{PublishedMap, nodes};
use crate::session::error::{lines, quoted};
use crate::session::reports::reports;
use crate::session::{OperateError, Result, Session, maps};

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Operate(#[from] OperateError),
    #[error("the fleet is of the org `{name}` ({id}), not of `{own}` ({own_id})")]
    OtherOrg { name: OrgName, id: OrgId, own: OrgName, own_id: OrgId },
    #[error("the fleet cannot be compiled:{}{}", lines(.why), named(.by))]
    HeldBack { why: Vec<HeldBack>, by: Vec<NodeName> },
    #[error(transparent)]
    Published(#[from] BadPublished),
    #[error("some machines were let in on a claimed name alone, and the fleet trusts them with more:{}", lines(.0))]
    Low(Vec<TooLow>),
}

/// Those who read no higher schema.
fn named(nodes: &[NodeName]) -> String {
    if nodes.is_empty() { String::new() } else { format!("\n    held back by {}", quoted(nodes)) }
}

/// A member that was published, and has no leaf any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gone {
    pub name: NodeName,
    /// By a signed head. If not, it said so itself.
    pub revoked: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}

/// Everything that a person should see before it is signed.
#[derive(Debug)]
pub struct Prepared {
    pub published: Option<PublishedMap>,
    pub members: Vec<Member>,
    /// Nothing in a rollback, and where no gateway tells.
    pub schema: Option<CommonSchema>,
    pub compiled: Compiled,
    pub plan: Plan,
    /// Users and services whom the head places on a node, and the fleet does not.
    pub displaced: Vec<Placement>,
    pub gone: Vec<Gone>,
    /// What becomes of standing patterns; nothing in a rollback.
    pub patterns: Patterns,
    /// What makes machines last less long on their own; nothing in a rollback.
    pub warnings: Vec<Warning>,
}

impl Prepared {
    pub fn root_before(&self) -> Option<Digest> {
        self.published.as_ref().map(|published| published.map.root())
    }

    /// When the gateway saw each member last.
    pub fn last_seen(&self) -> BTreeMap<NodeName, Timestamp> {
        self.members.iter().filter_map(|member| Some((member.known.name.clone(), member.last_seen?))).collect()
    }
}

pub async fn fleet(session: &mut Session, fleet: &Fleet) -> Result<Prepared, PlanError> {
    let (own, own_id) = (session.known.founding.record.name.clone(), session.known.org());
    if fleet.org.id != own_id || fleet.org.name != own {
        return Err(PlanError::OtherOrg { name: fleet.org.name.clone(), id: fleet.org.id, own, own_id });
    }
    let published = maps::published(session).await?;
    let members = members::all(session).await?;
    let schema = common_schema(session, &members).await?;
    let written = schema.as_ref().map(|common| common.schema);
    let written = written.or_else(|| published.as_ref()?.schema()).unwrap_or(SCHEMA);
    let held_back_by = schema.as_ref().map(|common| common.held_back_by.clone()).unwrap_or_default();
    let compiled = compile(fleet, &known(&members), written);
    let compiled = compiled.map_err(|why| PlanError::HeldBack { why, by: held_back_by })?;
    let too_low = low::find(&members, &compiled, &low::operators(fleet));
    let mut prepared = prepare(session, published, members, compiled, too_low).await?;
    prepared.schema = schema;
    prepared.patterns = patterns::plan(session, &fleet.invites).await?;
    let head = session.head();
    prepared.warnings = warnings(head, prepared.published.as_ref(), fleet, &prepared.compiled);
    Ok(prepared)
}

/// Which schema the machines read is what they say of themselves; nothing where no gateway tells.
async fn common_schema(session: &mut Session, members: &[Member]) -> Result<Option<CommonSchema>> {
    if session.is_alone() {
        return Ok(None);
    }
    Ok(Some(CommonSchema::of(members, &reports(session, 0).await?.0)))
}

/// What going back to an earlier map would do.
pub(super) async fn rollback(session: &mut Session, root: Digest) -> Result<Prepared, PlanError> {
    let published = maps::published(session).await?;
    let then = maps::published_as(session, root).await?;
    let members = members::all(session).await?;
    let compiled = for_members(&then, &known(&members)).map_err(OperateError::from)?;
    let too_low = low::find(&members, &compiled, &BTreeSet::new());
    prepare(session, published, members, compiled, too_low).await
}

async fn prepare(
    session: &mut Session,
    published: Option<PublishedMap>,
    members: Vec<Member>,
    compiled: Compiled,
    too_low: Vec<TooLow>,
) -> Result<Prepared, PlanError> {
    if !too_low.is_empty() {
        return Err(PlanError::Low(too_low));
    }
    let plan = compare(&PublishedMap::as_compared(published.as_ref()), &compiled)?;
    let state = session.folded().await?;
    let head = session.head();
    let displaced = head.placements.iter().filter(|place| !places(&compiled, place)).cloned().collect();
    let there: BTreeSet<&NodeName> = members.iter().map(|member| &member.known.name).collect();
    let before = published.iter().flat_map(PublishedMap::nodes).filter(|leaf| !there.contains(&leaf.name));
    let gone = before.map(|leaf| {
        // The fold keeps whoever is listed, but for the two.
        let left = state.judged.fold.left.contains(&leaf.node_key);
        Gone { name: leaf.name.clone(), revoked: !left, left }
    });
    let (gone, patterns, warnings) = (gone.collect(), Patterns::default(), Vec::new());
    Ok(Prepared { published, members, schema: None, compiled, plan, displaced, gone, patterns, warnings })
}

fn known(members: &[Member]) -> Vec<MemberKnown> {
    members.iter().map(|member| member.known.clone()).collect()
}

/// Does what is compiled place this user or service there, too?
fn places(compiled: &Compiled, placement: &Placement) -> bool {
    let leaf = nodes(&compiled.leaves).find(|leaf| leaf.name == placement.node);
    let digest = leaf.and_then(|leaf| ClassLeaves::of(&compiled.leaves).manifest_of(leaf));
    let read = digest.and_then(|digest| Manifest::read(compiled.manifests.get(&digest)?, digest).ok());
    read.is_some_and(|manifest| manifest.places(&placement.principal))
}
