//! What stands beside the head in force, and what is missing: rivals, heads that were left, entries, and who has them.

use std::collections::{BTreeMap, BTreeSet};

use identity::head::{KeyMark, Revocations};
use identity::id::Digest;
use identity::principal::NodeName;
use identity::time::Timestamp;
use identity::trust;
use ledger::views::NodeView;
use org::audit::hindsight::signers_of;
use org::ledger::heads::HeadRecord;
use org::ledger::heads::KnownHead;
use org::state::State;
use serde::Serialize;

use crate::gateway::had_by_peers;
use crate::replica::roll;
use crate::session::fold::apart;
use crate::session::reports::Reports;
use crate::session::{Result, Session};

/// Of what another head revokes, so much is told by name.
const MOST_NAMED: usize = 8;

/// A head of the signers in force that the one in force does not reach. What it takes away counts, and nothing else of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RivalView {
    pub version: u64,
    pub digest: Digest,
    pub issued_at: Timestamp,
    pub signed_by: Vec<String>,
    /// In words.
    pub takes_away: Vec<String>,
}

/// A machine that followed a head which the one in force does not reach, and then a higher one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftHeadView {
    pub node: NodeName,
    pub version: u64,
    pub digest: Digest,
}

impl RivalView {
    pub(super) fn in_words(&self, own: u64) -> String {
        let what =
            if self.takes_away.is_empty() { "takes nothing away".to_owned() } else { self.takes_away.join(", ") };
        format!(
            "head {} ({}), signed by {}, stands beside head {own}, which does not know of it: it {what}. That counts already; \
             nothing else of it does. The next head takes it in: freehold refresh",
            self.version,
            self.digest,
            self.signed_by.join(", ")
        )
    }
}

impl LeftHeadView {
    pub(super) fn in_words(&self) -> String {
        let Self { node, version, digest } = self;
        format!("`{node}` followed head {version} ({digest}) before, which the head in force does not reach")
    }
}

/// Machines that wait for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitsView {
    pub why: String,
    pub nodes: Vec<NodeName>,
}

/// Whose admissions do not count, and why; and what of it a person must look at.
pub(super) fn waits(state: &State) -> (Vec<WaitsView>, Vec<String>) {
    let (mut reasons, mut alarms) = (BTreeMap::<String, BTreeSet<NodeName>>::new(), BTreeSet::new());
    for (name, waiting) in roll::waits(state) {
        let heir = waiting
            .claims
            .as_ref()
            .is_some_and(|(name, key)| state.judged.fold.handed.get(name).is_some_and(|heir| heir.key == *key));
        let why = if heir { "the next head hands the name on to it".to_owned() } else { waiting.why.to_string() };
        reasons.entry(why).or_default().insert(name.clone());
        // A gateway without a mandate says what it likes: what operators ended is no alarm.
        let in_office = state.judged.ground.mandate(waiting.voice).is_some();
        if waiting.why.is_alarm() && !heir && in_office {
            let gateway = state.judged.voices.get(&waiting.voice).map_or("a gateway", NodeName::as_str);
            alarms.insert(format!("`{name}`, let in by `{gateway}`: {}: freehold node show {name}", waiting.why));
        }
    }
    let view = |(why, nodes): (String, BTreeSet<NodeName>)| WaitsView { why, nodes: nodes.into_iter().collect() };
    (reasons.into_iter().map(view).collect(), alarms.into_iter().collect())
}

/// What other heads of the signers in force say.
pub(super) fn rivals(state: &State, nodes: &[NodeView]) -> Vec<RivalView> {
    let Some(own) = state.head() else { return Vec::new() };
    let view = |rival: &HeadRecord| RivalView {
        version: rival.head.version,
        digest: rival.digest,
        issued_at: rival.head.issued_at,
        signed_by: state.signers_of_object(&rival.envelope),
        takes_away: taken_away(&rival.head.revocations, &own.head.revocations, nodes),
    };
    state.judged.ground.rivals.iter().map(view).collect()
}

/// By the machines' own signed word; whether the head in force reaches what they left is for the fold to say.
pub(super) fn left(state: Option<&State>, nodes: &[&NodeView], reports: &Reports) -> Vec<LeftHeadView> {
    let reached = |digest: &Digest| state.is_some_and(|state| state.judged.ground.reached.contains(digest));
    let left = |node: &&NodeView| {
        let left = reports.get(&node.node_key.digest())?.report.left?;
        let view = LeftHeadView { node: node.name.clone(), version: left.version, digest: left.digest };
        (!reached(&left.digest)).then_some(view)
    };
    nodes.iter().filter_map(left).collect()
}

/// Entries that one of this home, the gateway and its peers has, and another lacks.
pub(super) async fn missing(session: &mut Session) -> Result<Vec<String>> {
    let Some(state) = session.fold.clone().filter(|_| !session.is_alone()) else { return Ok(Vec::new()) };
    let asked = session.survey.gateway.clone();
    let mut lines = apart(&state, &asked, &session.survey.frontier);
    // Those who exchange are a little apart at any time.
    if session.survey.halt.is_some() {
        let had = had_by_peers(session).await?.into_iter();
        lines.extend(had.map(|(peer, count, at)| format!("`{peer}` had {count} entries at {at} that `{asked}` lacks")));
    }
    Ok(lines)
}

/// What signers who were replaced took away, and no head of those in force does: perhaps two operators decided at once,
/// perhaps somebody has an old key. Only a person can tell, and decide anew: nobody signs them again.
pub(super) fn left_behind(session: &Session, nodes: &[NodeView]) -> Vec<String> {
    let (Ok(state), own) = (session.state(), session.head()) else { return Vec::new() };
    let counts = |head: &KnownHead<'_>| state.head_named(head.digest()).is_some();
    let says_more =
        |head: &KnownHead<'_>| !state.revoked().names_all_of(head.lines()) && signers_of(state, *head).is_some();
    let tell = |former: KnownHead<'_>| {
        let mut what = taken_away(former.lines(), &own.revocations, nodes);
        if let KnownHead::Whole(record) = former
            && trust::follows(&record.head.trust, &own.trust).is_err()
        {
            what.push("turns trust".to_owned());
        }
        format!(
            "head {} of signer set {}, which was replaced, {}: it counts for nothing, and no later head takes it over. If \
             it should be so, sign it anew",
            former.version(),
            former.signers().version,
            what.join(", ")
        )
    };
    state.replica.heads.all().filter(|head| !counts(head)).filter(says_more).map(tell).collect()
}

/// In words: what one head revokes, and the other does not.
fn taken_away(said: &Revocations, own: &Revocations, nodes: &[NodeView]) -> Vec<String> {
    let named = |key: &KeyMark| {
        let node = nodes.iter().find(|node| KeyMark::of(&node.node_key.digest()) == *key);
        node.map_or_else(|| format!("revokes the node key {key}"), |node| format!("revokes `{}`", node.name))
    };
    let node_keys = said.node_keys.beyond(&own.node_keys).map(named);
    let principals = said.principals.beyond(&own.principals).map(|who| format!("revokes `{who}`"));
    let invites = said.invites.beyond(&own.invites).map(|id| format!("revokes the invite {id}"));
    let keys = said.issuing_keys.beyond(&own.issuing_keys).map(|key| format!("revokes the issuing key {key}"));
    let serials = said.serials.beyond(&own.serials).map(|serial| format!("revokes the certificate {serial}"));
    let voices = said.voices.beyond(&own.voices).map(|voice| format!("closes the voice {voice}"));
    let all = node_keys.chain(principals).chain(invites).chain(keys).chain(serials).chain(voices);
    let mut words: Vec<String> = all.take(MOST_NAMED + 1).collect();
    if words.len() > MOST_NAMED {
        words.truncate(MOST_NAMED);
        words.push("and more".to_owned());
    }
    words
}
