//! Standing patterns of the fleet: signed invites that are made, renewed and closed when the fleet is published.

use std::collections::{BTreeMap, BTreeSet};

use ground::clock;
use identity::id::InviteId;
use identity::principal::Name;
use identity::principal::glob::NameGlob;
use identity::time::{Seconds, Timestamp};
use manifest::fleet::InviteSpec;
use org::invite::{Approval, Invite, PATTERN, Uses};
use org::state::State;
use serde::Serialize;

use crate::gateway::mandate_of;
use crate::invite::kinds::{InviteChoice, InviteTerms};
use crate::invite::{InviteWish, create};
use crate::key::SignerKeys;
use crate::session::{Result, Session, Undelivered};

/// A pattern is good for so long; published with less than this left, it is made anew.
const LIFE: Seconds = Seconds::DAY.times(90);
const RENEWED: Seconds = Seconds::DAY.times(60);

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

/// Holds the fleet's patterns against the invites that are open.
pub(crate) async fn plan(session: &mut Session, wanted: &BTreeMap<Name, InviteSpec>) -> Result<Patterns> {
    let now = clock::now();
    let mut patterns = Patterns { opens: wanted.clone(), closes: BTreeMap::new() };
    let state = session.folded().await?;
    let records = state.invites.ids().filter_map(|id| state.invite(*id)).map(|(_, record)| record);
    for (name, record) in records.filter_map(|record| Some((standing(&state, &record.invite, now)?, record))) {
        let fits = patterns.opens.get(&name).is_some_and(|spec| still_fits(session, spec, &record.invite, now));
        // Two that fit would be one too many.
        if fits && !state.is_outdated(record) {
            patterns.opens.remove(&name);
        } else {
            patterns.closes.insert(record.invite.id, name);
        }
    }
    Ok(patterns)
}

fn still_fits(session: &Session, spec: &InviteSpec, invite: &Invite, now: Timestamp) -> bool {
    let approvers = (invite.approval == Approval::Human).then_some(invite.approvers);
    let here = mandate_of(session.head(), &session.survey.gateway);
    here.is_ok_and(|mandate| invite.right_of(mandate.voice).is_some())
        && now + RENEWED < invite.expires_at
        && (&invite.names, &invite.hosts, &invite.networks) == (&names(spec), &spec.hosts, &spec.networks)
        && (&invite.labels, &invite.roles, approvers) == (&spec.labels, &spec.roles, spec.approvers)
}

/// Makes what opens. What waits for other operators is left with the caller.
pub(crate) async fn open(session: &mut Session, keys: &SignerKeys, patterns: &Patterns) -> Result<Vec<Undelivered>> {
    let mut waiting = Vec::new();
    for (name, spec) in &patterns.opens {
        let wish = InviteWish {
            label: format!("{PATTERN}{name}"),
            uses: Uses::Unlimited,
            ttl: LIFE,
            names: names(spec),
            networks: spec.networks.clone(),
            labels: spec.labels.clone(),
            roles: spec.roles.clone(),
            terms: InviteTerms { kind: InviteChoice::Pattern, hosts: spec.hosts.clone() },
            kit: None,
            after: 0,
            // A pattern is for machines that nobody handed a code: whichever gateway they find.
            at: session.head().mandates.iter().map(|mandate| mandate.gateway.clone()).collect(),
            approval: if spec.approvers.is_some() { Approval::Human } else { Approval::None },
            approvers: spec.approvers.unwrap_or(1),
        };
        waiting.extend(create(session, keys, &wish).await?.pending);
    }
    Ok(waiting)
}

fn names(spec: &InviteSpec) -> Vec<NameGlob> {
    let any = || "*".parse().map(|any| vec![any]).unwrap_or_default();
    if spec.names.is_empty() { any() } else { spec.names.clone() }
}

/// The name of the standing pattern that this open invite was made for.
fn standing(state: &State, invite: &Invite, now: Timestamp) -> Option<Name> {
    let open = !state.revoked().invite_is_revoked(invite.id) && now < invite.expires_at;
    invite.pattern().filter(|_| open)
}
