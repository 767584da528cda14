//! The org on one page: what is in force, who is there, what is wrong, and how long each machine lasts on its own.

use std::collections::BTreeMap;

use identity::bundle::{Domain, Endpoint, Identity, InDomain as _};
use identity::causes::describe;
use identity::head::{Head, Mandate, TrustLine};
use identity::id::OrgId;
use identity::principal::{Address, NodeName, OrgName, SignerName};
use identity::time::{Seconds, Timestamp};
use ledger::views::NodeView;
use org::audit::survival::{Ends, Limit, returns_until, survival};
use org::gateway::ENDS_SOON;
use org::state::Standing;
use org::state::head::AHEAD;
use serde::Serialize;
use wire::known::freeze::Freeze;

use crate::audit::beside::{self, LeftHeadView, RivalView, WaitsView};
use crate::gateway::answering;
use crate::node::{self, waiting};
use crate::session::reports::{Reports, reports_known};
use crate::session::{OperateError, Result, Session};
use crate::trust::issuers::{self, issuing_until};
use crate::trust::versions::{roots_until, turned_elsewhere};

#[derive(Debug, Clone, Serialize)]
pub struct OrgStatus {
    pub org: OrgName,
    pub org_id: OrgId,
    pub at: Timestamp,
    /// Where no gateway answers: until when this home was told.
    pub as_of: Option<Timestamp>,
    /// The gateway whose word it is when somebody was last seen, and until when SVIDs last.
    pub according_to: Option<NodeName>,
    pub head: HeadView,
    pub gateways: Vec<GatewayView>,
    /// How many nodes are in each state.
    pub nodes: BTreeMap<&'static str, usize>,
    /// How many of those that were not revoked are connected now, by the word of the gateway that was asked.
    pub online: Option<usize>,
    /// Versions that are trusted, and those that somebody went by when last heard of although they are retired.
    pub trust: Vec<TrustView>,
    /// Machines that wait for a person.
    pub waiting: usize,
    /// Admissions that do not count, by the reason.
    pub waits: Vec<WaitsView>,
    /// Heads beside the one in force, and what they take away.
    pub rivals: Vec<RivalView>,
    /// Heads that machines followed, and the one in force does not reach.
    pub heads_left: Vec<LeftHeadView>,
    pub alarms: Vec<String>,
    /// The one that ends first comes first.
    pub survival: Vec<Lasting>,
}

#[derive(Debug, Clone, Serialize)]
pub struct HeadView {
    pub version: u64,
    pub issued_at: Timestamp,
    pub fresh_until: Timestamp,
    pub fresh: bool,
    pub signer_set: u64,
    pub threshold: usize,
    pub signers: Vec<SignerName>,
}

#[derive(Debug, Clone, Serialize)]
pub struct GatewayView {
    pub name: NodeName,
    pub active: bool,
    pub mandate_until: Timestamp,
    /// Until when its keys have certificates under the roots in use: the one of SVIDs, and the one of its own
    /// certificates. Unknown if no gateway says.
    pub issuer_until: Option<Timestamp>,
    pub endpoint_issuer_until: Option<Timestamp>,
    pub svid_ttl: Seconds,
    pub addresses: Vec<Address>,
    /// Seen from here, now.
    pub answers: bool,
    /// Why not.
    pub silent: Option<String>,
    /// By whichever gateway answers.
    pub last_seen: Option<Timestamp>,
}

#[derive(Debug, Clone, Serialize)]
pub struct TrustView {
    pub domain: &'static str,
    pub version: u64,
    pub state: &'static str,
    /// How many members say that they go by it; unknown where no gateway answers.
    pub used_by: Option<usize>,
}

/// One machine without any gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lasting {
    pub node: NodeName,
    /// Until then others believe it.
    pub until: Timestamp,
    pub left: Seconds,
    pub limit: Limit,
    pub svid_until: Option<Timestamp>,
    /// From then on it works on, but shouts, and takes in nobody whom it has not met.
    pub shouts_from: Timestamp,
    /// Until then it comes back by its node key, once a gateway answers; later an operator must say so.
    pub returns_until: Option<Timestamp>,
}

impl Lasting {
    /// A machine whose issuer is not known is as good as the gateway whose papers end first.
    fn of(node: &NodeView, head: &Head, gateways: &[GatewayView], now: Timestamp) -> Self {
        let active = gateways.iter().filter(|gateway| gateway.active);
        let mandate = active.clone().map(|gateway| gateway.mandate_until).min();
        let longest = active.clone().map(|gateway| gateway.svid_ttl).min().unwrap_or(Seconds::DAY);
        let issuer = active.filter_map(|gateway| gateway.issuer_until).min();
        let svid = node.observed.svid_expires_at;
        let (until, limit) = survival(Ends { svid, longest, mandate, issuer }, now);
        Self {
            node: node.name.clone(),
            until,
            left: until.since(now),
            limit,
            svid_until: svid,
            shouts_from: head.fresh_until,
            returns_until: svid.map(returns_until),
        }
    }
}

/// How many machines stand how.
fn by_state(nodes: &[NodeView], now: Timestamp) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for node in nodes {
        let suspended = node.suspensions.iter().any(|it| now < it.until) && node.state != Standing::Revoked;
        *counts.entry(if suspended { "suspended" } else { node.state.word() }).or_default() += 1;
    }
    counts
}

/// All, or one machine's survival with the same page around it.
pub async fn status(session: &mut Session, only: Option<&NodeName>, now: Timestamp) -> Result<OrgStatus> {
    let nodes = node::all(session).await?;
    if let Some(name) = only.filter(|name| !nodes.iter().any(|node| node.name == **name)) {
        return Err(OperateError::no_such("node", name));
    }
    let reports = reports_known(session).await?;
    let gateways = gateway_views(session, &nodes, now).await?;
    // Without a gateway nobody knows who waits, nor who has which SVID.
    let alone = session.is_alone();
    let waiting = if alone { 0 } else { waiting::all(session).await?.0.len() };
    let head = session.head().clone();
    let live: Vec<&NodeView> = nodes.iter().filter(|node| node.state != Standing::Revoked).collect();
    let shown = live.iter().filter(|node| !alone && only.is_none_or(|name| node.name == *name));
    let mut survival: Vec<Lasting> = shown.map(|node| Lasting::of(node, &head, &gateways, now)).collect();
    survival.sort_by(|a, b| (a.until, &a.node).cmp(&(b.until, &b.node)));
    // What was said beside the head in force is in the ledger alone.
    let unfolded = session.folded().await.err().map(|why| describe(&why));
    let trust = trust_views(&head.trust, &live, Some(&reports).filter(|_| !alone));
    let state = session.fold.as_deref();
    let rivals = state.map(|state| beside::rivals(state, &nodes)).unwrap_or_default();
    let (waits, odd) = state.map(beside::waits).unwrap_or_default();
    let heads_left = beside::left(state, &live, &reports);
    let alarms = [
        troubles(session, &live, &gateways, now),
        ending_roots(session, now).await?,
        odd,
        beside::missing(session).await?,
        rivals.iter().map(|rival| rival.in_words(head.version)).collect(),
        heads_left.iter().map(LeftHeadView::in_words).collect(),
        beside::left_behind(session, &nodes),
    ];
    let signers = session.signers();
    let quorum = &signers.quorum;
    Ok(OrgStatus {
        org: session.known.founding.record.name.clone(),
        org_id: session.known.org(),
        at: now,
        as_of: session.as_of(),
        according_to: session.according_to().cloned(),
        head: HeadView {
            version: head.version,
            issued_at: head.issued_at,
            fresh_until: head.fresh_until,
            fresh: head.is_fresh(now),
            signer_set: signers.version,
            threshold: quorum.threshold(),
            signers: quorum.signers().iter().map(|signer| signer.name.clone()).collect(),
        },
        nodes: by_state(&nodes, now),
        online: (!alone).then(|| live.iter().filter(|node| node.observed.online_since.is_some()).count()),
        trust,
        waiting,
        waits,
        alarms: alarms.into_iter().flatten().chain(unfolded).collect(),
        rivals,
        heads_left,
        gateways,
        survival,
    })
}

async fn gateway_views(session: &mut Session, nodes: &[NodeView], now: Timestamp) -> Result<Vec<GatewayView>> {
    let looked = answering::look(session, now).await;
    let told = issuers::told(session).await?;
    let identity = issuing_until::<Identity>(session, &told).await?;
    let endpoint = issuing_until::<Endpoint>(session, &told).await?;
    let view = |mandate: &Mandate| GatewayView {
        answers: matches!(looked.get(&mandate.gateway), Some(None)),
        silent: looked.get(&mandate.gateway).cloned().flatten(),
        last_seen: answering::last_there(session, nodes, &mandate.gateway),
        name: mandate.gateway.clone(),
        active: mandate.is_active(now),
        mandate_until: mandate.not_after,
        issuer_until: identity.get(&mandate.gateway).copied(),
        endpoint_issuer_until: endpoint.get(&mandate.gateway).copied(),
        svid_ttl: mandate.svid_ttl,
        addresses: mandate.addresses.clone(),
    };
    Ok(session.head().mandates.iter().map(view).collect())
}

/// What a person should look at.
fn troubles(session: &Session, live: &[&NodeView], gateways: &[GatewayView], now: Timestamp) -> Vec<String> {
    let head = session.head();
    let mut alarms = Vec::new();
    if !head.is_fresh(now) {
        alarms.push(format!("head {} is no longer fresh since {}: freehold refresh", head.version, head.fresh_until));
    }
    if head.issued_at > now + AHEAD {
        let ahead = head.issued_at.since(now).roughly();
        alarms.push(format!(
            "head {} is dated {}, {ahead} ahead of this clock: compare it with NTP; if this clock is right: freehold \
             refresh --reset-clock",
            head.version, head.issued_at
        ));
    }
    let over = gateways.iter().filter(|gateway| !gateway.active);
    alarms.extend(over.map(|gateway| format!("the mandate of `{}` is not in force: freehold refresh", gateway.name)));
    alarms.extend(gateways.iter().filter_map(|gateway| {
        let says = session.according_to().map_or_else(String::new, |asked| format!(", says `{asked}`"));
        let since = gateway.last_seen.map_or_else(String::new, |at| format!(", and was last seen at {at}{says}"));
        Some(format!("the gateway `{}` is DOWN{since}: {}", gateway.name, gateway.silent.as_ref()?))
    }));
    for gateway in gateways.iter().filter(|gateway| gateway.active) {
        let ends = [(Identity::DOMAIN, gateway.issuer_until), (Endpoint::DOMAIN, gateway.endpoint_issuer_until)];
        alarms.extend(ends.into_iter().filter_map(|(domain, until)| ending(gateway, domain, until?, now)));
    }
    if session.survey.halt.is_some() {
        let name = &session.survey.gateway;
        alarms.push(format!("`{name}` is held back, and issues nothing; why, and what ends it: freehold gateway list"));
    }
    let frozen = Freeze::of(&session.known, now);
    alarms.extend(frozen.as_ref().map(|freeze| format!("FROZEN: {freeze}")));
    let recoveries = if frozen.is_some() { Vec::new() } else { session.known.alarms() };
    alarms.extend(recoveries.iter().map(|(set, due)| {
        format!("a RECOVERY replaces the signers by set {} at {due}: freehold recover --cancel", set.version)
    }));
    for node in live {
        let name = &node.name;
        alarms.extend(node.observed.alarm.iter().map(|why| format!("`{name}`: {why}: freehold node show {name}")));
    }
    alarms.extend(session.odd_marks.iter().cloned());
    alarms.extend(turned_elsewhere(session));
    alarms
}

/// What is retired and nobody's any more is history: `freehold trust list` has it.
fn trust_views(lines: &[TrustLine], nodes: &[&NodeView], reports: Option<&Reports>) -> Vec<TrustView> {
    let uses = |reports: &Reports, line: &TrustLine, node: &NodeView| {
        let told = reports.get(&node.node_key.digest()).and_then(|heard| heard.report.trust.as_ref());
        told.is_some_and(|trust| trust.of(line.domain).versions.contains(&line.version))
    };
    let views = lines.iter().filter_map(|line| {
        let used_by = reports.map(|reports| nodes.iter().filter(|node| uses(reports, line, node)).count());
        let (domain, version, state) = (line.domain.word(), line.version, line.state.word());
        let is_told = line.state.is_trusted() || used_by.unwrap_or(0) > 0;
        is_told.then_some(TrustView { domain, version, state, used_by })
    });
    views.collect()
}

/// Roots that nobody turned away from in time.
async fn ending_roots(session: &mut Session, now: Timestamp) -> Result<Vec<String>> {
    let identity = roots_until::<Identity>(session).await?;
    let endpoint = roots_until::<Endpoint>(session).await?;
    let ends = [(Identity::DOMAIN, identity), (Endpoint::DOMAIN, endpoint)];
    let told = |(domain, until): (Domain, Option<Timestamp>)| {
        let (word, until) = (domain.word(), until?);
        let what = match until {
            over if over <= now => format!("ended at {over}: nothing under it is believed"),
            soon if soon <= now + ENDS_SOON => format!("ends at {soon}"),
            _ => return None,
        };
        Some(format!("the `{word}` root {what}: freehold rotate {word}"))
    };
    Ok(ends.into_iter().filter_map(told).collect())
}

/// Said in time: a rotation takes as long as its grace.
fn ending(gateway: &GatewayView, domain: Domain, until: Timestamp, now: Timestamp) -> Option<String> {
    let (name, word) = (&gateway.name, domain.word());
    let what = match until {
        over if over <= now => format!("ended at {over}: what it issues is not believed"),
        soon if soon <= now + ENDS_SOON => format!("ends at {soon}"),
        _ => return None,
    };
    Some(format!("the certificate of the `{word}` issuing key of `{name}` {what}: freehold rotate {word}"))
}
