//! A machine becomes a gateway: its request is checked, a person agrees, its keys are certified, and it gets a mandate.

use std::path::Path;

use ground::clock;
use ground::file::FileAccess;
use identity::envelope::Envelope;
use identity::head::{Mandate, TrustLine};
use identity::time::Timestamp;
use ledger::views::NodeView;
use org::gateway::{CheckedRequest, GatewayGrant};

use super::papers::{self, NotCertified};
use super::{GatewayWish, check_request, draft_addition, mandate_for};
use crate::folder::{FolderError, write_json};
use crate::key::SignerKeys;
use crate::replica::roll::Roll;
use crate::session::{Made, Result, Session};
use crate::trust::roots::RootKeyring;

/// A gateway that is to be.
#[derive(Debug)]
pub struct Addition {
    pub checked: CheckedRequest,
    /// The member that asks.
    pub node: NodeView,
    /// As it would be, signed now.
    pub mandate: Mandate,
    wish: GatewayWish,
}

/// What came of it.
#[derive(Debug)]
pub struct Added {
    pub mandate: Mandate,
    /// What it takes home.
    pub grant: GatewayGrant,
    /// Trusted versions of the roots under which its keys have no certificate, since the root's key is not here.
    pub uncertified: Vec<TrustLine>,
}

impl Addition {
    pub async fn begin(session: &mut Session, request: &Envelope, wish: GatewayWish) -> Result<Self> {
        let (checked, node) = check_request(session, request).await?;
        let mandate = mandate_for(session.head(), &checked, &wish, clock::now())?;
        Ok(Self { checked, node, mandate, wish })
    }

    /// What the head that gives the mandate does to machines.
    pub fn roll(&self, session: &Session, now: Timestamp) -> Result<Roll> {
        Ok(draft_addition(session, &self.checked, &self.wish, now)?.roll())
    }

    /// Certifies its keys, and gives the mandate, which is worth nothing without the head. Before that, `warn` hears of each
    /// version of the roots under which they have no certificate.
    pub async fn make(
        &self,
        session: &mut Session,
        keys: &SignerKeys,
        roots: &impl RootKeyring,
        warn: impl FnMut(&TrustLine),
    ) -> Result<Made<Added>, NotCertified> {
        let mut papers = papers::requested(session, &self.checked).await?;
        let uncertified = papers.certify_first(session, &self.mandate.gateway, roots, clock::now())?;
        uncertified.iter().for_each(warn);
        let request = &self.checked.request;
        let grant = papers::grant(session, &request.node, request.voice, &request.addresses, &papers);
        let grant = grant.ok_or(NotCertified::NoCertificate)?;
        let made =
            session.publish(keys, |session, now| draft_addition(session, &self.checked, &self.wish, now)).await?;
        Ok(made.map(|mandate| Added { mandate, grant, uncertified }))
    }
}

/// For the machine to take home; there is no secret in it.
pub fn write_grant(path: &Path, grant: &GatewayGrant) -> std::result::Result<(), FolderError> {
    write_json(path, grant, FileAccess::Readable)
}
