//! A machine becomes a gateway: its request is checked, a person agrees, its keys are certified, and it gets a mandate.

use std::path::Path;

use ground::clock;
use ground::file::FileAccess;
use identity::envelope::Envelope;
use identity::head::Mandate;
use identity::time::Timestamp;
use ledger::views::NodeView;
use org::gateway::{CheckedRequest, GatewayGrant};

use super::papers::{self, Papers};
use super::{GatewayWish, check_request, draft_addition, mandate_for};
use crate::folder::{FolderError, write_json};
use crate::key::SignerKeys;
use crate::replica::roll::Roll;
use crate::session::{Made, Result, Session};

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
    /// What it takes home; none if it has no certificate under a root in use.
    pub grant: Option<GatewayGrant>,
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

    /// Its keys, and the roots under which they have no certificate yet.
    pub async fn papers(&self, session: &mut Session) -> Result<Papers> {
        papers::requested(session, &self.checked).await
    }

    /// Gives the mandate, which is worth nothing without the head.
    pub async fn sign(&self, session: &mut Session, keys: &SignerKeys, papers: &Papers) -> Result<Made<Added>> {
        let made =
            session.publish(keys, |session, now| draft_addition(session, &self.checked, &self.wish, now)).await?;
        let request = &self.checked.request;
        let grant = papers::grant(session, &request.node, request.voice, &request.addresses, papers);
        Ok(made.map(|mandate| Added { mandate, grant }))
    }
}

/// For the machine to take home; there is no secret in it.
pub fn write_grant(path: &Path, grant: &GatewayGrant) -> std::result::Result<(), FolderError> {
    write_json(path, grant, FileAccess::Readable)
}
