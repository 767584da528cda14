//! Why a head was made. It says so itself: whoever has the head alone can tell.

use serde::{Deserialize, Serialize};

use super::Grace;
use crate::bundle::Domain;
use crate::id::{Digest, InviteId};
use crate::principal::{NodeName, Principal};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Cause {
    Founding,
    Refresh,
    NodeRevoke {
        name: NodeName,
        node_key: Digest,
    },
    /// A machine that waited is listed.
    NodeList {
        name: NodeName,
        node_key: Digest,
    },
    InviteRevoke {
        invite: InviteId,
    },
    MandateChange {
        gateway: NodeName,
    },
    /// A machine becomes a gateway.
    GatewayAdd {
        gateway: NodeName,
    },
    /// A gateway comes before the others.
    GatewayMove {
        gateway: NodeName,
    },
    /// A gateway is one no longer; its chain ended at its last record.
    GatewayRemove {
        gateway: NodeName,
    },
    /// A gateway's chain was closed where operators chose, and it begins another.
    GatewayReopen {
        gateway: NodeName,
    },
    /// The fleet was compiled anew.
    FleetPublish,
    /// What an earlier head said of the members is said again.
    FleetRollback {
        to: u64,
    },
    /// A user or service is to be believed no more, wherever it is.
    PrincipalRevoke {
        principal: Principal,
    },
    /// The first head under the next signer set: without one, nobody could follow.
    SignersInstall,
    /// A new version of the roots of one domain is staged.
    TrustPublish(Turn),
    /// The staged version is the one to use; the former is in grace.
    TrustActivate(Turn),
    /// A new version with the former roots takes back the last step.
    TrustRollback(Turn),
    /// A version is trusted no more. If its keys were stolen, the bundle that replaces it comes along.
    TrustRetire(Turn),
    /// Agents for the platforms of the org, by the number of their release.
    ReleasePublish {
        number: u64,
    },
}

impl Cause {
    /// What becomes of the trusted roots, if it is about them.
    pub const fn turn(&self) -> Option<&Turn> {
        match self {
            Self::TrustPublish(turn)
            | Self::TrustActivate(turn)
            | Self::TrustRollback(turn)
            | Self::TrustRetire(turn) => Some(turn),
            Self::Founding
            | Self::Refresh
            | Self::NodeRevoke { .. }
            | Self::NodeList { .. }
            | Self::InviteRevoke { .. }
            | Self::MandateChange { .. }
            | Self::GatewayAdd { .. }
            | Self::GatewayMove { .. }
            | Self::GatewayRemove { .. }
            | Self::GatewayReopen { .. }
            | Self::FleetPublish
            | Self::FleetRollback { .. }
            | Self::PrincipalRevoke { .. }
            | Self::SignersInstall
            | Self::ReleasePublish { .. } => None,
        }
    }
}

/// What happens to a version of the trusted roots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    pub domain: Domain,
    pub version: u64,
    /// The version whose place it takes, or takes again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<u64>,
    /// From when until when the former is trusted beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Grace>,
    /// What would break by this, and was let break, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waived: Vec<String>,
}
