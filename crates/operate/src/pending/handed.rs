//! What operators sign and hand in together: all of it, or none. A head comes last.

use identity::bundle::BundleBody;
use identity::envelope::{Envelope, Payload as _};
use identity::head::{Cause, Head};
use identity::id::OrgId;
use identity::signers::{Recovery, Succession};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handed(pub Vec<Envelope>);

impl Handed {
    pub fn of(object: Envelope) -> Self {
        Self(vec![object])
    }

    /// A head, and what it names.
    pub fn with(mut named: Vec<Envelope>, head: Envelope) -> Self {
        named.push(head);
        Self(named)
    }

    fn of_kind(&self, kind: &'static str) -> impl Iterator<Item = &Envelope> {
        self.0.iter().filter(move |object| object.kind() == kind)
    }

    pub fn head_envelope(&self) -> Option<&Envelope> {
        self.of_kind(Head::KIND).last()
    }

    pub fn head(&self, org: OrgId) -> Option<Head> {
        self.head_envelope()?.peek(Some(org)).ok()
    }

    /// Why its head is made.
    pub fn cause(&self, org: OrgId) -> Option<Cause> {
        self.head(org).map(|head| head.cause)
    }

    /// The step to other signers.
    pub fn step(&self) -> Option<&Envelope> {
        self.of_kind(Succession::KIND).chain(self.of_kind(Recovery::KIND)).next()
    }

    pub fn bundles(&self) -> impl Iterator<Item = &Envelope> {
        self.of_kind(BundleBody::KIND)
    }

    /// May a gateway that is held back take it? Only what leads out of that.
    pub(crate) fn leads_out(&self, org: OrgId) -> bool {
        let reopens = matches!(
            self.cause(org),
            Some(Cause::GatewayReopen { .. } | Cause::GatewayRemove { .. } | Cause::SignersInstall)
        );
        reopens || self.step().is_some()
    }
}
