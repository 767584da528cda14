//! The one path by which an SVID is made.

use ground::random;
use identity::bundle::Domain;
use identity::certificate::{self, SvidSubject, Validity};
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::NodeName;
use identity::text::Bytes;
use identity::time::Timestamp;
use org::enroll::renew::Issuance;
use org::refusal::{Fault, Refusal};
use wire::enroll::SvidRequest;

use crate::fault::OrFault as _;
use crate::gateway::Gateway;

/// For whom and with which names, on which node, by which node key.
#[derive(Debug, Clone, Copy)]
pub struct Applicant<'a> {
    pub subject: SvidSubject<'a>,
    pub node: &'a NodeName,
    pub node_key: PublicKey,
}

/// An SVID that was made but not logged yet: it leaves the gateway only after its row is on disk.
#[derive(Debug, Clone)]
pub struct Made {
    pub svid: Vec<Bytes>,
    pub row: Issuance,
}

/// Makes an SVID. `offered` is what the challenge said the binding's end must be.
pub fn make_svid(
    gateway: &Gateway,
    applicant: Applicant<'_>,
    asked: &SvidRequest,
    offered: Timestamp,
    now: Timestamp,
) -> Result<Made, Refusal> {
    let principal = applicant.subject.principal;
    let mandate = gateway.may_issue(now)?;
    if !mandate.covers(principal) {
        return Err(Refusal::NoMandate);
    }
    let key = certificate::read_request(&asked.request.0).map_err(|_| Refusal::BadRequest)?;
    let binding = &asked.binding;
    let fits = binding.node_key == applicant.node_key
        && binding.node == *applicant.node
        // A node may want less than it is offered.
        && binding.not_after <= offered
        && offered <= now + mandate.svid_ttl
        && binding.not_after > now;
    if !fits || binding.check(gateway.about.org_id, principal, key.id).is_err() {
        return Err(Refusal::BadBinding);
    }
    let serial = random::serial().or_fault(Fault::Randomness)?;
    let validity = Validity::until(now, binding.not_after);
    let issuers = gateway.keys.issuers.load();
    if !issuers.is_mandated(Domain::Identity) {
        // It would be believed nowhere.
        return Err(Refusal::NoMandate);
    }
    let authority = &issuers.identity.authority;
    let leaf = authority.issue_svid(applicant.subject, &key, binding, serial, validity);
    let leaf = leaf.or_fault(Fault::Keys)?;
    let chain = issuers.svid_chain(leaf);
    Ok(Made {
        svid: chain.iter().map(|der| Bytes(der.as_ref().to_vec())).collect(),
        row: Issuance {
            counter: asked.counter,
            request: Digest(key.id.0),
            serial,
            issued_at: now,
            not_after: binding.not_after,
            source: None,
        },
    })
}
