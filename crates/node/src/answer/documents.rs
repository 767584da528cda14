//! What anybody may read: founding record, signer chain, head, trust. It is all signed.

use identity::bundle::Domain;
use org::refusal::Refusal;
use wire::sync::Documents;

use crate::answer::gateway::Gateway;

pub fn founding(gateway: &Gateway) -> Documents {
    Documents { documents: vec![gateway.state().founding.clone()] }
}

pub fn signers(gateway: &Gateway) -> Documents {
    Documents { documents: gateway.state().signer_chain(1) }
}

pub fn head(gateway: &Gateway) -> Result<Documents, Refusal> {
    let state = gateway.state();
    let head = state.head().ok_or_else(|| Refusal::NotFound { what: "head".to_owned() })?;
    Ok(Documents { documents: vec![head.envelope.clone()] })
}

pub fn trust(gateway: &Gateway, domain: Domain) -> Documents {
    let state = gateway.state();
    Documents { documents: state.trusted_bundles(domain).map(|record| record.envelope.clone()).collect() }
}
