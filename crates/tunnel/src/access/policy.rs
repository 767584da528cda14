//! Both halves of what decides, who is believed and what the tables permit, as one value behind one pointer
//! (read-copy-update).

use std::sync::Arc;

use identity::principal::Name;
use identity::time::Timestamp;
use org::member::peer::Peer;

use crate::access::denied::Denied;
use crate::access::table::AccessTables;
use crate::access::trust::TrustSnapshot;

#[derive(Debug)]
pub struct AccessPolicy {
    pub trust: Arc<TrustSnapshot>,
    pub tables: Arc<AccessTables>,
}

impl AccessPolicy {
    /// May the peer open a stream to the service that listens here?
    pub fn may_open(&self, peer: &Peer, service: &Name, clock: Timestamp) -> Result<(), Denied> {
        self.trust.check(peer, clock)?;
        self.check_allowed(peer, service)?;
        let head = &self.trust.known.head.head;
        match self.tables.margin(peer.principal(), peer.node()) {
            Some(margin) if self.trust.known.now(clock) > head.fresh_until + margin => {
                Err(Denied::Stale { head: head.version, until: head.fresh_until })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// May what it opened before go on, as far as it is about who it is?
    pub(crate) fn endures(&self, peer: &Peer, clock: Timestamp) -> Result<(), Denied> {
        self.trust.endures(peer, clock).map_err(Denied::ended)
    }

    pub(crate) fn check_allowed(&self, peer: &Peer, service: &Name) -> Result<(), Denied> {
        let is_node = peer.principal().node_name().is_some();
        let meant = if is_node { peer.is_meant() } else { peer.may_carry() };
        let permits = self.tables.permits(service, peer.principal(), peer.node(), meant);
        if permits { Ok(()) } else { Err(Denied::NotAllowed) }
    }
}
