//! Users and services: revoked wherever they are.

use identity::head::{Cause, Head};
use identity::principal::{Kind, Principal};
use identity::time::Timestamp;

use crate::desk::Desk;
use crate::handed::Handed;
use crate::keys::SignerKeys;
use crate::session::{Made, OperateError, Session};

impl<D: Desk> Session<D> {
    /// From the new head on nobody believes this principal, and no gateway issues for it. The machines that it was on
    /// stay what they are.
    pub async fn revoke_principal(
        &mut self,
        keys: &SignerKeys,
        principal: &Principal,
    ) -> Result<Made<u64>, OperateError> {
        if principal.kind() == Kind::Node {
            return Err(OperateError::Unwise("a node is revoked by its key: freehold node revoke".to_owned()));
        }
        if self.known.head.head.revocations.principals.contains(principal) {
            return Err(OperateError::Unwise(format!("`{principal}` is already revoked")));
        }
        self.publish(keys, |session, now| {
            let head = session.draft_principal_revocation(principal, now)?;
            let version = head.version;
            Ok((Handed::of(session.seal(&head)?), version))
        })
        .await
    }

    pub fn draft_principal_revocation(&self, principal: &Principal, now: Timestamp) -> Result<Head, OperateError> {
        self.next_head(now, Cause::PrincipalRevoke { principal: principal.clone() }, |head| {
            head.revocations.principals.insert(principal.clone());
        })
    }
}
