//! What operators ask a gateway in order to turn trust: which keys it issues with, and which it would use next.

use std::sync::PoisonError;

use ground::clock;
use identity::bundle::Domain;
use identity::certificate;
use identity::envelope::Envelope;
use identity::text::Bytes;
use org::gateway::Issuers;
use org::refusal::Refusal;
use wire::control::Answer;

use crate::answer::gateway::Gateway;

pub fn issuers(gateway: &Gateway) -> Result<Answer, Refusal> {
    Ok(Answer::Issuers { issuers: vec![own(gateway)?] })
}

/// This gateway's own, in its own voice.
fn own(gateway: &Gateway) -> Result<Envelope, Refusal> {
    let failed = |why: &dyn std::fmt::Display| Refusal::Failed { why: why.to_string() };
    // One at a time: what is told of must be what lies there, and never the key in use.
    let _drawing = gateway.drawing.lock().unwrap_or_else(PoisonError::into_inner);
    let presence = gateway.presence.load_full();
    presence.settle(&gateway.folder).map_err(|why| failed(&why))?;
    let spare = |domain: Domain| {
        let key = gateway.folder.spare(domain).map_err(|why| failed(&why))?;
        certificate::make_request(&key).map(Bytes).map_err(|why| failed(&why))
    };
    let body = Issuers {
        gateway: gateway.about.node.clone(),
        identity: Bytes(presence.identity.authority.certificate().as_ref().to_vec()),
        endpoint: Bytes(presence.endpoint.authority.certificate().as_ref().to_vec()),
        spare_identity: spare(Domain::Identity)?,
        spare_endpoint: spare(Domain::Endpoint)?,
        at: clock::now(),
    };
    let sealed = Envelope::seal(Some(gateway.about.org_id), &body).map_err(|why| failed(&why))?;
    sealed.signed(&gateway.voice).map_err(|why| failed(&why))
}
