//! A caller that belongs: an SVID that the verifier believes, and an admission of the same node key and name.
//!
//! Neither is enough. A stolen issuing key can make an SVID for any name, bound by any node key; only the admission
//! says which name that node key has.

pub mod peer;

use identity::principal::{NodeName, Principal, PrincipalKind};
use identity::verifier::BelievedSvid;

use crate::enroll::renew;
use crate::refusal::Refusal;
use crate::state::State;

/// Whose admission gives it this may fetch what replicas exchange, and nothing else (RBAC: read only).
pub const ROLE_OBSERVER: &str = "observer";

/// Built only by `recognize`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    svid: BelievedSvid,
}

impl Member {
    /// The two halves must speak of one node, and the operators must still want it.
    pub fn recognize(state: &State, svid: BelievedSvid) -> Result<Self, Refusal> {
        let record = renew::member_behind(state, &svid.node_key, &svid.node)?;
        renew::check_standing(state, record)?;
        Ok(Self { svid })
    }

    pub const fn principal(&self) -> &Principal {
        &self.svid.principal
    }

    pub const fn node(&self) -> &NodeName {
        &self.svid.node
    }

    pub const fn node_key(&self) -> identity::key::PublicKey {
        self.svid.node_key
    }

    /// Speaks for the node itself, not for a user or service on it.
    pub fn is_the_node(&self) -> bool {
        self.svid.principal.kind() == PrincipalKind::Node
    }
}
