//! What was learned of the org goes to the disk before it is used: authority first, then the roots that follow from it.

use ground::clock;
use identity::bundle::{Endpoint, Identity, Roots};
use identity::causes::describe;
use identity::envelope::Envelope;
use identity::time::Timestamp;
use identity::verifier::leads_to;
use org::report::{SvidTold, TOLD, TrustTold};
use wire::known::{BadKnowledge, Known};
use wire::tls::Expect;

use crate::apply::trust::Trusting;
use crate::ask::error::AskError;
use crate::store::scope::{NodeFile, Scope, ScopeError};

/// The ratchet, and with it what is trusted no more.
pub(crate) fn save_authority(scope: &Scope, known: &Known) -> Result<(), AskError> {
    scope.save_known(known)?;
    if let Err(why) = follow(scope, known) {
        tracing::error!(why = describe(&why), "the roots that other programs read could not be written");
    }
    Ok(())
}

/// A recovery counts from its first sight on, and that is on disk before anything else happens.
pub(crate) fn notice(scope: &Scope, known: &Known, recovery: &Envelope) -> Result<Option<Known>, AskError> {
    keep_in_sight(scope, known.notice(recovery, known.now(clock::now())))
}

/// What was offered does not hold. What the signers took away is gone all the same; and a recovery may have taken effect where
/// it comes from before this machine heard of it. True if something was kept.
pub(crate) fn keep_the_rest(
    scope: &Scope,
    known: &Known,
    why: &BadKnowledge,
    beside: &[Envelope],
    now: Timestamp,
) -> Result<bool, AskError> {
    let heard = known.hear(beside, now);
    if let Some(newer) = &heard {
        save_authority(scope, newer)?;
    }
    let noticed = keep_in_sight(scope, heard.as_ref().unwrap_or(known).heed(why, now))?;
    Ok(heard.is_some() || noticed.is_some())
}

pub(crate) fn keep_in_sight(scope: &Scope, noticed: Option<Known>) -> Result<Option<Known>, AskError> {
    let Some(newer) = noticed else {
        return Ok(None);
    };
    // Another gateway may have told of another one a moment ago.
    let newer = match scope.known()? {
        Some(before) => newer.with_sightings_of(&before),
        None => newer,
    };
    scope.save_known(&newer)?;
    for (set, due_at) in newer.alarms() {
        tracing::error!(
            %due_at,
            signers = set.quorum.signers().len(),
            "RECOVERY: somebody with the recovery keys wants to replace the signers of this org. If the signers are not \
             lost, they can stop it until then: freehold recover --cancel"
        );
    }
    Ok(Some(newer))
}

/// Both domains, apart as everywhere.
#[derive(Debug)]
pub struct Both {
    pub endpoint: Trusting<Endpoint>,
    pub identity: Trusting<Identity>,
}

impl Both {
    pub fn open(scope: &Scope, known: &Known, now: Timestamp) -> Result<Self, ScopeError> {
        Ok(Self { endpoint: Trusting::open(scope, known, now)?, identity: Trusting::open(scope, known, now)? })
    }

    pub fn is_on_trial(&self) -> bool {
        self.endpoint.trial().is_some() || self.identity.trial().is_some()
    }
}

/// What a head retired counts no more, for other programs neither. Right after the head is on the disk.
pub fn follow(scope: &Scope, known: &Known) -> Result<(), ScopeError> {
    let mut both = Both::open(scope, known, known.now(clock::now()))?;
    both.endpoint.settle(scope, &known.head.head)?;
    both.identity.settle(scope, &known.head.head)
}

/// The roots of members, as this node goes by them.
pub fn identity_roots(scope: &Scope, known: &Known) -> Result<Roots<Identity>, ScopeError> {
    Ok(Trusting::<Identity>::open(scope, known, known.now(clock::now()))?.roots(&known.head.head))
}

/// What to expect of a gateway, by the roots that this node goes by.
pub fn expect(scope: &Scope, known: &Known) -> Result<Expect, ScopeError> {
    let now = known.now(clock::now());
    let roots = Trusting::<Endpoint>::open(scope, known, now)?.roots(&known.head.head);
    Ok(Expect::RootsSince(roots, known.head.head.issued_at))
}

/// For a report, and for people.
pub fn trust_told(scope: &Scope, node: &NodeFile, known: &Known) -> Result<Option<TrustTold>, ScopeError> {
    let now = known.now(clock::now());
    let both = Both::open(scope, known, now)?;
    let head = &known.head.head;
    let (Some(endpoint), Some(identity)) = (both.endpoint.told(head), both.identity.told(head)) else {
        return Ok(None);
    };
    let roots = both.identity.roots(head);
    let mut svids = Vec::new();
    for principal in scope.seated(node).into_iter().take(TOLD) {
        // One that cannot be read is told by whoever needs it.
        if let Ok(Some(svid)) = scope.seat(&principal).svid() {
            let roots = leads_to(&svid.own.chain, &roots, now);
            svids.push(SvidTold { principal, roots, not_after: svid.not_after });
        }
    }
    Ok(Some(TrustTold { endpoint, identity, svids }))
}

#[cfg(test)]
mod tests {
    use identity::signers::Recovery;

    use super::*;
    use crate::scene::{self, NOW, quorum, sealed};

    #[test]
    fn a_second_recovery_that_is_seen_in_one_round_does_not_put_out_of_sight_the_first() {
        let root = tempfile::tempdir().unwrap();
        let scope = Scope::at(root.path(), &"harbor".parse().unwrap());
        scope.create().unwrap();
        let founding = scene::founding();
        let known = scene::known(&founding, &scene::head(&founding));
        scope.save_known(&known).unwrap();
        let recovery = |next: &str| {
            let set = &known.signers;
            let body = Recovery {
                version: set.version + 1,
                previous: set.id,
                quorum: quorum(next),
                head: None,
                settles: false,
                at: NOW,
            };
            sealed(&founding, &body, "safe")
        };
        // Each gateway is asked with the same knowledge.
        for next in ["zoe", "yan"] {
            assert!(notice(&scope, &known, &recovery(next)).unwrap().is_some());
        }
        assert_eq!(scope.known().unwrap().unwrap().alarms().len(), 2);
    }
}
