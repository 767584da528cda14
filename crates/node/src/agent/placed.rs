//! The users and services that are at home on this node: their SVIDs are kept fresh, and forgotten when they move away.

use std::collections::BTreeSet;

use ground::clock;
use identity::principal::Principal;
use wire::connect::Believed;
use wire::known::Known;

use crate::agent::Agent;
use crate::ask::call::AskError;
use crate::ask::renew;
use crate::store::scope::Svid;

impl Agent {
    pub(super) async fn renew_placed(&self, (gateway, known): (&mut Believed, &Known)) -> Result<(), AskError> {
        let placed = self.placed(known);
        for principal in &placed {
            let svid = self.scope.seat(principal).svid()?;
            let now = clock::now();
            let due = |svid: Svid| {
                let held_off = svid.is_good(now) && self.held_off.contains(&now);
                !svid.is_good(now) || (now >= renew::due_at(&svid, self.jitter) && !held_off)
            };
            if svid.is_none_or(due) {
                let wish = (principal, self.svid_life());
                renew::renew(&self.scope, &self.node, wish, (&mut *gateway, known)).await?;
            }
        }
        // What is on trial may go back, and wants its SVIDs then.
        if !self.engine.is_on_trial() {
            self.scope.keep_seats(&placed)?;
        }
        Ok(())
    }

    /// By the head itself, and by what this node is.
    fn placed(&self, known: &Known) -> BTreeSet<Principal> {
        let head = &known.head.head;
        let by_head = head.placements.iter().filter(|place| place.node == self.node.name);
        let by_head = by_head.map(|place| place.principal.clone());
        let runs = self.engine.current().map(|manifest| &manifest.runs);
        let users = runs.iter().flat_map(|runs| &runs.users).map(|name| Principal::user(&self.node.org, name));
        let services = runs.iter().flat_map(|runs| runs.services.keys());
        let services = services.map(|name| Principal::service(&self.node.org, name));
        by_head
            .chain(users)
            .chain(services)
            .filter(|principal| !head.revocations.principals.contains(principal))
            .collect()
    }
}
