//! Standing patterns of the fleet: signed invites that are made, renewed and closed when the fleet is published.

use std::collections::{BTreeMap, BTreeSet};

use ground::clock;
use identity::id::InviteId;
use identity::principal::Name;
use identity::time::{Seconds, Timestamp};
use manifest::fleet::InviteSpec;
use org::invite::{Approval, Invite, InviteKind, Uses};
use org::state::State;
use serde::Serialize;

use crate::invite::InviteWish;
use crate::invite::kinds::{Kind, Terms};
use crate::key::SignerKeys;
use crate::pending::Pending;
use crate::session::desk::Desk;
use crate::session::{Made, OperateError, Session};

/// A pattern is good for so long; published with less than this left, it is made anew.
const LIFE: Seconds = Seconds::DAY.times(90);
const RENEWED: Seconds = Seconds::DAY.times(60);
/// How its invite is labeled.
const LABEL: &str = "fleet pattern ";

/// What publishing makes of them.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    /// New, changed or to be renewed.
    pub opens: BTreeMap<Name, InviteSpec>,
    /// Removed, changed or renewed.
    pub closes: BTreeMap<InviteId, Name>,
}

/// One line of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PatternChange {
    pub pattern: Name,
    pub change: &'static str,
}

impl Patterns {
    pub fn changes(&self) -> Vec<PatternChange> {
        let before: BTreeSet<&Name> = self.closes.values().collect();
        let opens = self.opens.keys().map(|pattern| PatternChange {
            pattern: pattern.clone(),
            change: if before.contains(pattern) { "renews" } else { "opens" },
        });
        let gone = before.iter().filter(|pattern| !self.opens.contains_key(**pattern));
        let closes = gone.map(|pattern| PatternChange { pattern: (**pattern).clone(), change: "closes" });
        opens.chain(closes).collect()
    }
}

impl<D: Desk> Session<D> {
    /// Holds the fleet's patterns against the invites that are open.
    pub async fn plan_patterns(&mut self, wanted: &BTreeMap<Name, InviteSpec>) -> Result<Patterns, OperateError> {
        let now = clock::now();
        let mut patterns = Patterns { opens: wanted.clone(), closes: BTreeMap::new() };
        let state = self.folded().await?;
        let records = state.invite_ids.keys().filter_map(|id| state.invite(*id)).map(|(_, record)| record);
        for (name, record) in records.filter_map(|record| Some((standing(&state, &record.invite, now)?, record))) {
            let fits = patterns.opens.get(&name).is_some_and(|spec| self.still_fits(spec, &record.invite, now));
            // Two that fit would be one too many.
            if fits && !state.is_outdated(record) {
                patterns.opens.remove(&name);
            } else {
                patterns.closes.insert(record.invite.id, name);
            }
        }
        Ok(patterns)
    }

    fn still_fits(&self, spec: &InviteSpec, invite: &Invite, now: Timestamp) -> bool {
        let approvers = (invite.approval == Approval::Human).then_some(invite.approvers);
        let names = if spec.names.is_empty() { any() } else { spec.names.clone() };
        self.mandate_of(&self.survey.gateway).is_ok_and(|mandate| invite.right_of(mandate.voice).is_some())
            && now + RENEWED < invite.expires_at
            && (&invite.names, &invite.hosts, &invite.networks) == (&names, &spec.hosts, &spec.networks)
            && (&invite.labels, &invite.roles, approvers) == (&spec.labels, &spec.roles, spec.approvers)
    }

    /// Makes what opens. What waits for other operators is left with the caller.
    pub async fn open_patterns(
        &mut self,
        keys: &SignerKeys,
        patterns: &Patterns,
    ) -> Result<Vec<Pending>, OperateError> {
        let mut waiting = Vec::new();
        for (name, spec) in &patterns.opens {
            let wish = InviteWish {
                label: format!("{LABEL}{name}"),
                uses: Uses::Unlimited,
                ttl: LIFE,
                names: if spec.names.is_empty() { any() } else { spec.names.clone() },
                networks: spec.networks.clone(),
                labels: spec.labels.clone(),
                roles: spec.roles.clone(),
                terms: Terms { kind: Kind::Pattern, hosts: spec.hosts.clone() },
                files: BTreeSet::new(),
                // A pattern is for machines that nobody handed a code: whichever gateway they find.
                at: self.mandates().iter().map(|mandate| mandate.gateway.clone()).collect(),
                approval: if spec.approvers.is_some() { Approval::Human } else { Approval::None },
                approvers: spec.approvers.unwrap_or(1),
            };
            let Made { pending, .. } = self.create_invite(keys, &wish).await?;
            waiting.extend(pending);
        }
        Ok(waiting)
    }
}

fn any() -> Vec<identity::principal::glob::NameGlob> {
    "*".parse().map(|any| vec![any]).unwrap_or_default()
}

/// The name of the standing pattern that this open invite was made for.
fn standing(state: &State, invite: &Invite, now: Timestamp) -> Option<Name> {
    let open = !state.revocations.invite_is_revoked(invite.id) && now < invite.expires_at;
    named(invite.kind, &invite.label).filter(|_| open)
}

/// The name of the standing pattern that an invite was made for. Nobody was ever handed its code.
pub(crate) fn named(kind: InviteKind, label: &str) -> Option<Name> {
    label.strip_prefix(LABEL).filter(|_| kind == InviteKind::Pattern)?.parse().ok()
}
