//! Who has taken a version of the roots over, by each node's own signed word.

use std::collections::BTreeSet;

use identity::bundle::Domain;
use identity::id::Fingerprint;
use org::report::{DomainTold, Report, TrustTold};

use crate::desk::Desk;
use crate::publish::reports::{Heard, Reports};
use crate::session::{OperateError, Session};
use crate::unturned::Missing;

/// How far a version has come among the members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopting {
    pub members: usize,
    pub missing: Vec<Missing>,
}

impl Adopting {
    pub const fn done(&self) -> usize {
        self.members.saturating_sub(self.missing.len())
    }
}

impl<D: Desk> Session<D> {
    /// The members that do not go by this version yet.
    pub async fn adopting(&mut self, domain: Domain, version: u64) -> Result<Adopting, OperateError> {
        self.weigh(|report| lacks_version(report, domain, version)).await
    }

    /// The members whose SVIDs do not lead to every one of these identity roots yet.
    pub async fn reissuing(&mut self, roots: &BTreeSet<Fingerprint>) -> Result<Adopting, OperateError> {
        self.weigh(|report| lacks_path(report, roots)).await
    }

    async fn weigh(&mut self, lacks: impl Fn(&Report) -> Option<String>) -> Result<Adopting, OperateError> {
        let members = self.members_told().await?;
        let (reports, _): (Reports, u64) = self.reports(0).await?;
        let lacking = |(node, key): &(identity::principal::NodeName, identity::id::Digest)| {
            let why = match reports.get(key) {
                None => Some("it has never reported".to_owned()),
                Some(Heard { report, received_at }) => {
                    lacks(report).map(|why| format!("{why} (last heard of at {received_at})"))
                }
            };
            why.map(|why| Missing { node: node.clone(), why })
        };
        Ok(Adopting { members: members.len(), missing: members.iter().filter_map(lacking).collect() })
    }
}

fn told(report: &Report, domain: Domain) -> Option<&DomainTold> {
    let TrustTold { endpoint, identity, .. } = report.trust.as_ref()?;
    Some(match domain {
        Domain::Endpoint => endpoint,
        Domain::Identity => identity,
    })
}

fn lacks_version(report: &Report, domain: Domain, version: u64) -> Option<String> {
    let Some(told) = told(report, domain) else {
        return Some("its agent does not say which roots it goes by: update it".to_owned());
    };
    if told.versions.contains(&version) {
        return None;
    }
    if told.trial == Some(version) {
        return Some("it is trying it".to_owned());
    }
    Some(match &told.refused {
        Some(refused) => format!("it went back at {}: {}", refused.at, refused.why),
        None => format!("it goes by version {}", told.version),
    })
}

fn lacks_path(report: &Report, roots: &BTreeSet<Fingerprint>) -> Option<String> {
    let Some(trust) = &report.trust else {
        return Some("its agent does not say where its SVIDs lead: update it".to_owned());
    };
    let old = trust.svids.iter().find(|svid| !roots.iter().all(|root| svid.roots.contains(root)))?;
    Some(format!("its SVID `{}` does not lead to the new root yet", old.principal))
}
