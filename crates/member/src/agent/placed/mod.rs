//! The users and services that are at home on this node: their SVIDs are kept fresh, and forgotten when they move away.

pub(crate) mod programs;

use std::collections::BTreeSet;

use ground::clock;
use identity::causes::describe;
use identity::head::Placement;
use identity::principal::Principal;
use identity::principal::host::HostName;
use identity::verifier::Untrusted;
use wire::known::Known;

use crate::agent::schedule::life;
use crate::agent::trust::{self, Seen};
use crate::agent::{Agent, Line};
use crate::ask::error::{AskError, BadAnswer};
use crate::ask::renew::{self, Wanted};
use crate::ask::svid::is_named;
use crate::store::damage;
use crate::store::scope::Svid;

impl Agent {
    pub(super) async fn renew_placed(&mut self, line: &mut Line, seen: &Seen) -> Result<(), AskError> {
        let placed = self.placed(&line.known);
        let mut failed = None;
        for principal in placed.iter().filter(|principal| self.is_wanted(&line.known, principal)).collect::<Vec<_>>() {
            // One that is refused, or whose files are of no use, keeps no other from its own.
            match self.renew_one(principal, line, seen).await {
                Ok(()) => {}
                Err(why) if is_its_own(&why) => failed = Some(why),
                Err(why) => return Err(why),
            }
        }
        // What is on trial may go back, and wants its SVIDs then.
        if !self.engine.is_on_trial() {
            self.scope.keep_seats(&placed)?;
        }
        failed.map_or(Ok(()), Err)
    }

    async fn renew_one(&mut self, principal: &Principal, line: &mut Line, seen: &Seen) -> Result<(), AskError> {
        if !self.is_due(principal, line, seen)? {
            return Ok(());
        }
        self.tell_damage(principal);
        let dns = self.names_of(principal);
        let wanted = Wanted { principal, dns: &dns, life: self.svid_life() };
        renew::renew(&self.scope, &self.node, wanted, &mut line.gateway, &line.known).await
    }

    /// Other names are asked for at once. But what is on trial takes none away, and neither does what went back: its program
    /// has them until the SVID is due.
    fn is_renamed(&self, principal: &Principal, svid: &Svid) -> bool {
        let names = self.names_of(principal);
        if self.engine.standing().guard().is_some() {
            return false;
        }
        let lacks = |name: &HostName| !svid.dns.iter().any(|carried| carried == name.as_str());
        if self.engine.is_on_trial() { names.iter().any(lacks) } else { !is_named(&svid.dns, &names) }
    }

    /// The DNS names that go with it, by the newest manifest that operators signed for this node: gateways issue by that one,
    /// also while the node is back at what it was before.
    fn names_of(&self, principal: &Principal) -> BTreeSet<HostName> {
        let guard = self.engine.standing().guard().and_then(|item| self.engine.kept(item.digest));
        let newest = guard.as_deref().or_else(|| self.engine.current());
        newest.map(|manifest| manifest.dns_names(principal)).unwrap_or_default()
    }

    /// Once, until there is another one.
    pub(super) fn tell_damage(&mut self, principal: &Principal) {
        match self.scope.seat(principal).look() {
            Err(why) if self.damaged.insert(principal.clone()) => {
                tracing::error!(%principal, why = describe(&why), "its SVID is damaged: another one is asked for");
            }
            Err(_) => {}
            Ok(_) => drop(self.damaged.remove(principal)),
        }
    }

    /// Whoever is called next says what was forgotten.
    pub(super) fn heal(&mut self) {
        if damage::forget(&self.scope) {
            self.line = None;
        }
    }

    /// Without it nobody comes back once the SVID is over: it is not waited for until the SVID is due.
    pub(super) fn wants_proof(&self) -> bool {
        !self.asked_for_proof && renew::lacks_proof(&self.scope)
    }

    /// By the head on the disk, which may have come by another way: is the SVID over, or worth nothing any more?
    pub(super) fn needs_to_come_back(&self, svid: Option<&Svid>) -> Result<bool, AskError> {
        let Some(known) = self.scope.known()? else {
            return Ok(svid.is_none_or(|svid| !svid.is_good(clock::now())));
        };
        let now = known.now(clock::now());
        match svid.filter(|svid| svid.is_good(now)) {
            Some(svid) => trust::is_outdated(&self.scope, &known, svid, now),
            None => Ok(true),
        }
    }

    fn is_due(&mut self, principal: &Principal, line: &Line, seen: &Seen) -> Result<bool, AskError> {
        let now = line.known.now(clock::now());
        let Some(svid) = self.scope.seat(principal).svid()?.filter(|svid| svid.is_good(now)) else {
            return Ok(true);
        };
        let half = self.schedule.renews(&life(&svid), now);
        let (head, judged) = (&line.known.head.head, seen.judge(&line.known, &svid, now));
        // Operators may want SVIDs to live shorter. If nobody may issue it any more, a new one is not asked for.
        let lives_too_long = matches!(judged, Err(Untrusted::BeyondMandate(_)))
            && head.mandates.iter().any(|mandate| mandate.covers(principal));
        let outdated = lives_too_long || trust::makes_outdated(&judged);
        Ok(half
            || outdated
            || self.is_renamed(principal, &svid)
            || self.wants_more_roots(principal, &svid, line, seen, now))
    }

    /// The head gives an SVID only for what the newest manifest places here. One that went back is not obeyed, but what it
    /// took away is not asked for.
    fn is_wanted(&self, known: &Known, principal: &Principal) -> bool {
        let by_head = |place: &Placement| place.principal == *principal && place.node == self.node.name;
        let guard = self.engine.standing().guard().and_then(|item| self.engine.kept(item.digest));
        guard.is_none_or(|guard| guard.places(principal)) || known.head.head.placements.iter().any(by_head)
    }

    /// By the head itself, and by what this node is.
    pub(super) fn placed(&self, known: &Known) -> BTreeSet<Principal> {
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

/// A fault that says nothing about the next one: a no, files of no use, or names that are not those of the manifest.
const fn is_its_own(why: &AskError) -> bool {
    let renamed = matches!(why, AskError::BadAnswer(BadAnswer::OtherNames { .. }));
    renamed || why.refusal().is_some() || matches!(why, AskError::Scope(_))
}
