//! What anybody may read: founding record, signer chain, head, trust. It is all signed.

use identity::bundle::Domain;
use org::refusal::Refusal;
use wire::sync::Documents;

use crate::gateway::Gateway;

pub(crate) async fn founding(gateway: &Gateway) -> Documents {
    Documents { documents: vec![gateway.state().await.founding.clone()] }
}

pub(crate) async fn signers(gateway: &Gateway) -> Documents {
    Documents { documents: gateway.state().await.told_steps(1) }
}

pub(crate) async fn head(gateway: &Gateway) -> Result<Documents, Refusal> {
    let state = gateway.state().await;
    let head = state.head().ok_or_else(|| Refusal::NotFound { what: "head".to_owned() })?;
    Ok(Documents { documents: vec![head.envelope.clone()] })
}

pub(crate) async fn trust(gateway: &Gateway, domain: Domain) -> Documents {
    let state = gateway.state().await;
    Documents { documents: state.named_bundles(domain).map(|record| record.envelope.clone()).collect() }
}
