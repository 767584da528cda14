//! What a bundle brings along of an org: enough to believe a gateway by, whatever that gateway says of itself.

use identity::bundle::{Endpoint, Identity, Roots};
use identity::envelope::Envelope;
use identity::id::OrgId;
use identity::signers::SignersRef;
use identity::time::Timestamp;
use org::founding::Founding;
use serde::{Deserialize, Serialize};

use super::{BadKnowledge, Known};

const SCHEMA: u32 = 1;

/// Signed things only. Whoever opens it believes none of it before each was checked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CarriedOrg {
    schema: u32,
    founding: Envelope,
    signers: Vec<Envelope>,
    head: Envelope,
    endpoint: Vec<Envelope>,
    identity: Vec<Envelope>,
}

/// The same, checked.
#[derive(Debug, Clone)]
pub struct KnownOrg {
    pub known: Known,
    pub endpoint: Roots<Endpoint>,
}

#[derive(Debug, thiserror::Error)]
pub enum BadCarried {
    #[error("what the bundle brings along of the org is of a newer kind: upgrade freehold-node on this machine")]
    Newer,
    #[error("what the bundle brings along of the org cannot be read")]
    Unread,
    #[error("what the bundle brings along of the org does not hold")]
    Knowledge(#[from] BadKnowledge),
    #[error("what the bundle brings along of the org does not hold: {0}")]
    Bundles(&'static str),
}

impl CarriedOrg {
    /// `endpoint` and `identity` are the trusted bundles of the head.
    pub fn new(known: &Known, endpoint: Vec<Envelope>, identity: Vec<Envelope>) -> Self {
        let (founding, signers) = (known.founding.envelope.clone(), known.chain.clone());
        Self { schema: SCHEMA, founding, signers, head: known.head_envelope.clone(), endpoint, identity }
    }

    pub fn read(json: &str) -> Result<Self, BadCarried> {
        let read: Self = serde_json::from_str(json).map_err(|_| BadCarried::Unread)?;
        if read.schema == SCHEMA { Ok(read) } else { Err(BadCarried::Newer) }
    }

    /// By the org and the floor of the code beside it, as if a gateway had said all this.
    pub fn check(self, org: OrgId, floor: SignersRef, now: Timestamp) -> Result<KnownOrg, BadCarried> {
        let founding = Founding::open_expecting(self.founding, org).map_err(BadKnowledge::from)?;
        let known = Known::begin(founding, floor, &self.signers, &self.head, now)?;
        known.bundles_among::<Identity>(&self.identity).map_err(BadCarried::Bundles)?;
        let endpoint = known.bundles_among::<Endpoint>(&self.endpoint).map_err(BadCarried::Bundles)?;
        Ok(KnownOrg { known, endpoint: Roots::of_all(&endpoint) })
    }
}
