//! What stands beside the head in force, and what is missing: rivals, heads that were left, entries, and who has them.

use identity::head::{KeyMark, Revocations};
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::NodeName;
use identity::time::Timestamp;
use identity::trust;
use ledger::views::NodeView;
use org::ledger::frontier::Frontier;
use org::ledger::heads::HeadRecord;
use org::ledger::heads::Held;
use org::state::State;
use serde::Serialize;

use crate::session::desk::Desk;
use crate::session::reports::Reports;
use crate::session::{OperateError, Session};

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
pub struct LeftView {
    pub node: NodeName,
    pub version: u64,
    pub digest: Digest,
}

impl RivalView {
    pub(crate) fn in_words(&self, own: u64) -> String {
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

impl LeftView {
    pub(crate) fn in_words(&self) -> String {
        let Self { node, version, digest } = self;
        format!("`{node}` followed head {version} ({digest}) before, which the head in force does not reach")
    }
}

impl<D: Desk> Session<D> {
    /// What other heads of the signers in force say.
    pub(crate) fn rival_heads(&self, nodes: &[NodeView]) -> Vec<RivalView> {
        let Some((state, own)) = self.fold.as_deref().and_then(|state| Some((state, state.head()?))) else {
            return Vec::new();
        };
        let view = |rival: &HeadRecord| RivalView {
            version: rival.head.version,
            digest: rival.digest,
            issued_at: rival.head.issued_at,
            signed_by: state.signers_of_object(&rival.envelope),
            takes_away: taken_away(&rival.head.revocations, &own.head.revocations, nodes),
        };
        state.ground.rivals.iter().map(view).collect()
    }

    /// By the machines' own signed word; whether the head in force reaches what they left is for the fold to say.
    pub fn heads_left(&self, nodes: &[&NodeView], reports: &Reports) -> Vec<LeftView> {
        let reached = |digest: &Digest| self.fold.as_deref().is_some_and(|state| state.ground.reached.contains(digest));
        let left = |node: &&NodeView| {
            let left = reports.get(&node.node_key.digest())?.report.left?;
            let view = LeftView { node: node.name.clone(), version: left.version, digest: left.digest };
            (!reached(&left.digest)).then_some(view)
        };
        nodes.iter().filter_map(left).collect()
    }

    /// Entries that one of this home, the gateway and its peers has, and another lacks.
    pub(crate) async fn missing(&mut self) -> Result<Vec<String>, OperateError> {
        let Some(state) = self.fold.clone().filter(|_| !self.desk().is_alone()) else { return Ok(Vec::new()) };
        let (asked, there) = (self.survey.gateway.clone(), &self.survey.frontier);
        let mut lines = counted_elsewhere(&state, &asked, there);
        lines.extend(beyond(&state.frontier, there).map(|(voice, first, last)| {
            let name = name_of(&state, &voice);
            format!("`{asked}` lacks entries {first} to {last} of the chain of {name}: this home has them, and hands them over")
        }));
        // Those who exchange are a little apart at any time.
        if self.survey.halt.is_some() {
            lines.extend(
                self.had_by_peers()
                    .await?
                    .into_iter()
                    .map(|(peer, count, at)| format!("`{peer}` had {count} entries at {at} that `{asked}` lacks")),
            );
        }
        Ok(lines)
    }

    /// Gateways that had more than the one that is asked: how many entries, and when that was.
    pub(crate) async fn had_by_peers(&mut self) -> Result<Vec<(NodeName, u64, Timestamp)>, OperateError> {
        let peers = self.peers().await?.into_iter().filter(|peer| peer.behind > 0);
        Ok(peers.filter_map(|peer| Some((peer.gateway, peer.behind, peer.last_exchange?))).collect())
    }

    /// What signers who were replaced took away, and no head of those in force does: perhaps two operators decided at once,
    /// perhaps somebody has an old key. Only a person can tell.
    pub(crate) fn left_behind(&self, nodes: &[NodeView]) -> Vec<String> {
        let own = &self.known.head.head;
        let tell = |former: Held<'_>| {
            let mut what = taken_away(former.lines(), &own.revocations, nodes);
            if let Held::Whole(record) = former
                && trust::follows(&record.head.trust, &own.trust).is_err()
            {
                what.push("turns trust".to_owned());
            }
            format!(
                "head {} of signer set {}, which was replaced, {}: it counts for nothing, and no later head takes it over. \
                 If it should be so, sign it anew",
                former.version(),
                former.signers().version,
                what.join(", ")
            )
        };
        self.of_former_signers().into_iter().map(tell).collect()
    }
}

pub(crate) fn name_of(state: &State, voice: &PublicKey) -> String {
    state.voices.get(voice).map_or_else(|| voice.to_string(), |gateway| format!("`{gateway}`"))
}

/// What a gateway counts, and this home's copy lacks.
pub(crate) fn counted_elsewhere(state: &State, asked: &NodeName, there: &Frontier) -> Vec<String> {
    let line = |(voice, first, last): (PublicKey, u64, u64)| {
        let name = name_of(state, &voice);
        format!("`{asked}` counts entries {first} to {last} of the chain of {name}, and does not bring them")
    };
    beyond(there, &state.frontier).map(line).collect()
}

/// What one has of each chain and the other lacks: the first and the last place.
fn beyond<'a>(one: &'a Frontier, other: &'a Frontier) -> impl Iterator<Item = (PublicKey, u64, u64)> + 'a {
    let places = one.0.iter().map(|(voice, place)| (*voice, other.seq_of(voice).saturating_add(1), place.seq));
    places.filter(|(_, first, last)| first <= last)
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

#[cfg(test)]
mod tests {
    use identity::head::Recorded;
    use identity::key::{EdKey, Sign as _};

    use super::*;

    #[test]
    fn what_one_has_and_the_other_lacks_is_told_by_first_and_last_place() {
        let [a, b] = [1, 2].map(|seed| EdKey::from_seed(&[seed; 32]).public());
        let of = |places: &[(PublicKey, u64)]| {
            let at = |(voice, seq): &(PublicKey, u64)| (*voice, Recorded { seq: *seq, digest: Digest([0; 32]) });
            Frontier(places.iter().map(at).collect())
        };
        let (one, other) = (of(&[(a, 7), (b, 2)]), of(&[(a, 4), (b, 2)]));
        assert_eq!(beyond(&one, &other).collect::<Vec<_>>(), [(a, 5, 7)]);
        assert_eq!(beyond(&other, &one).count(), 0);
        assert_eq!(beyond(&one, &Frontier::default()).count(), 2, "a chain that is not there at all, too");
    }
}
