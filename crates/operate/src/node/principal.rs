//! Users and services: revoked wherever they are.

use identity::head::{Cause, Head};
use identity::principal::{Principal, PrincipalKind};
use identity::time::Timestamp;

use crate::key::SignerKeys;
use crate::session::{Made, NextHead, Result, Session, Unwise};

/// From the new head on nobody believes this principal, and no gateway issues for it. The machines that it was on
/// stay what they are.
pub async fn revoke(session: &mut Session, keys: &SignerKeys, principal: &Principal) -> Result<Made<Head>> {
    if principal.kind() == PrincipalKind::Node {
        return Err(Unwise::NodeByKey.into());
    }
    if session.head().revocations.principals.contains(principal) {
        return Err(Unwise::PrincipalRevoked(principal.clone()).into());
    }
    session.publish_head(keys, |session, now| draft_revocation(session, principal, now)).await
}

/// The head that revokes it.
pub fn draft_revocation(session: &Session, principal: &Principal, now: Timestamp) -> Result<NextHead> {
    session.next_head(now, Cause::PrincipalRevoke { principal: principal.clone() }, |head| {
        head.revocations.principals.insert(principal.clone());
    })
}
