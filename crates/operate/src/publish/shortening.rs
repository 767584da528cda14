//! What of a fleet makes machines last less long without a gateway: said before it is signed. Decides only.

use std::collections::BTreeMap;

use identity::head::Head;
use identity::id::Digest;
use identity::members::{ClassLeaves, NodeLeaf};
use identity::principal::NodeName;
use identity::time::Seconds;
use manifest::compile::Compiled;
use manifest::fleet::Fleet;
use manifest::stored::Manifest;
use serde::Serialize;

use crate::publish::watch::listed;
use crate::replica::published::{PublishedMap, nodes};
use crate::session::head::span;

/// One thing that gets shorter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    pub about: About,
    /// Empty if it is about all.
    pub machines: Vec<NodeName>,
    pub from: Seconds,
    pub to: Seconds,
    pub words: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    SvidLife,
    Freshness,
    SyncWait,
}

/// What a machine's manifest says of its time without a gateway.
struct Lasts {
    svid: Seconds,
    wait: Seconds,
}

fn lasts(classes: &ClassLeaves<'_>, bytes: &BTreeMap<Digest, Vec<u8>>, leaf: &NodeLeaf, ttl: Seconds) -> Option<Lasts> {
    let manifest = match classes.manifest_of(leaf) {
        Some(digest) => Manifest::read(bytes.get(&digest)?, digest).ok()?,
        None => Manifest::nothing(),
    };
    let svid = manifest.runs.svid_life.map_or(ttl, |life| life.min(ttl));
    Some(Lasts { svid, wait: manifest.runs.sync.wait })
}

pub(super) fn warnings(
    head: &Head,
    published: Option<&PublishedMap>,
    fleet: &Fleet,
    compiled: &Compiled,
) -> Vec<Warning> {
    let ttl = head.mandates.iter().map(|mandate| mandate.svid_ttl).max().unwrap_or(Seconds::DAY);
    let next = fleet.org.svid_life.unwrap_or(ttl);
    let before: BTreeMap<&NodeName, &NodeLeaf> =
        published.into_iter().flat_map(PublishedMap::nodes).map(|leaf| (&leaf.name, leaf)).collect();
    let old_classes = ClassLeaves::of(published.iter().flat_map(|it| &it.leaves));
    let classes = ClassLeaves::of(&compiled.leaves);
    let mut found: BTreeMap<(About, Seconds, Seconds), Vec<NodeName>> = BTreeMap::new();
    for node in nodes(&compiled.leaves) {
        let then = before.get(&node.name).zip(published);
        let then = then.and_then(|(old, published)| lasts(&old_classes, &published.manifests, old, ttl));
        let now = lasts(&classes, &compiled.manifests, node, next);
        let (Some(now), fresh) = (now, then.is_none()) else { continue };
        let then = then.unwrap_or(Lasts { svid: ttl, wait: now.wait });
        if now.svid < then.svid {
            found.entry((About::SvidLife, then.svid, now.svid)).or_default().push(node.name.clone());
        }
        if now.wait > then.wait && !fresh {
            found.entry((About::SyncWait, then.wait, now.wait)).or_default().push(node.name.clone());
        }
    }
    for machines in found.values_mut() {
        machines.sort();
    }
    let mut all: Vec<Warning> =
        found.into_iter().map(|((about, from, to), machines)| warn(about, machines, from, to)).collect();
    if next < ttl {
        // The verifier holds every SVID to what the mandate says now.
        for warning in all.iter_mut().filter(|warning| warning.about == About::SvidLife) {
            warning.words += "; those that were made for longer are refused at once, and renew by the node key";
        }
    }
    // Nothing was promised before the first fleet: a head was as long as the founding made it.
    let (from, to) = (span(head), fleet.org.freshness);
    if to < from {
        all.push(warn(About::Freshness, Vec::new(), from, to));
    }
    all
}

fn warn(about: About, machines: Vec<NodeName>, from: Seconds, to: Seconds) -> Warning {
    let who = listed(&machines);
    let words = match about {
        About::SvidLife => {
            format!("SVIDs of {who} live {to} instead of {from}: without a gateway they last no longer than that")
        }
        About::Freshness => format!(
            "a head is fresh for {to} instead of {from}: unless somebody publishes or refreshes within that, no machine \
             joins, and every machine shouts"
        ),
        About::SyncWait => {
            format!("{who} may wait {to} instead of {from} for news: a gateway that is gone is noticed later")
        }
    };
    Warning { about, machines, from, to, words }
}
