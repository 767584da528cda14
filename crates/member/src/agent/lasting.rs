//! How long this machine goes on when no gateway answers any more, and what ends that, by what lies on its own disk.

use ground::clock;
use identity::bundle::{Identity, Roots};
use identity::certificate;
use identity::head::Mandate;
use identity::key::Sign as _;
use identity::time::{Seconds, Timestamp};
use org::audit::survival::{Ends, Limit, returns_until, survival};
use serde::Serialize;
use wire::known::Known;

use crate::apply::trust::Trusting;
use crate::store::scope::{Scope, ScopeError, Svid};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lasting {
    /// Until then others believe it.
    pub until: Timestamp,
    pub left: Seconds,
    pub limit: Limit,
    /// From then on it works on, but shouts, and takes in nobody whom it has not met.
    pub shouts_from: Timestamp,
    /// Until then it comes back by its node key, once a gateway answers; later an operator must say so.
    pub returns_until: Option<Timestamp>,
}

impl Lasting {
    /// Nothing of a machine that is no member, or was revoked.
    pub fn from_disk(scope: &Scope) -> Result<Option<Self>, ScopeError> {
        let (Some(node), Some(known)) = (scope.node()?, scope.known()?) else { return Ok(None) };
        if known.head.head.revocations.node_keys.contains(&scope.node_key()?.public().digest()) {
            return Ok(None);
        }
        let now = known.now(clock::now());
        let roots = Trusting::<Identity>::open(scope, &known, now)?.roots(&known.head.head);
        let svid = scope.seat(&node.principal()).svid()?;
        Ok(Some(Self::of(&known, svid.as_ref(), &roots, now)))
    }

    fn of(known: &Known, svid: Option<&Svid>, roots: &Roots<Identity>, now: Timestamp) -> Self {
        let mandate = svid.and_then(|svid| mandate_of(known, svid));
        let ends = Ends {
            svid: svid.map(|svid| svid.not_after),
            longest: mandate.map_or(Seconds::DAY, |mandate| mandate.svid_ttl),
            mandate: mandate.map(|mandate| mandate.not_after),
            issuer: svid.and_then(|svid| issuer_until(svid, roots)),
        };
        let (until, limit) = survival(ends, now);
        Self {
            until,
            left: until.since(now),
            limit,
            shouts_from: known.head.head.fresh_until,
            returns_until: ends.svid.map(returns_until),
        }
    }

    pub fn in_words(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "lasts     {} without any gateway, until {}: limited by {}",
            self.left.roughly(),
            self.until,
            self.limit.word()
        )];
        let returns = self.returns_until.map(|until| format!("; it comes back by its node key until {until}"));
        lines.push(format!(
            "shouts    from {} on, unless the head is renewed{}",
            self.shouts_from,
            returns.unwrap_or_default()
        ));
        lines
    }
}

/// Of the gateway that issued it, if the head still lets that key issue.
fn mandate_of<'a>(known: &'a Known, svid: &Svid) -> Option<&'a Mandate> {
    let head = &known.head.head;
    let issuer = certificate::read(svid.own.chain.get(1)?).ok()?.key;
    let revoked = head.revocations.issuing_keys.contains(&issuer);
    head.mandates.iter().find(|mandate| mandate.identity_issuer == issuer && !revoked)
}

/// One way to a trusted root is enough.
fn issuer_until(svid: &Svid, roots: &Roots<Identity>) -> Option<Timestamp> {
    let issuers = svid.own.chain.iter().skip(1);
    let leads = issuers.filter(|der| roots.certificates().iter().any(|root| certificate::is_signed_by(der, root)));
    leads.filter_map(|der| Some(certificate::read(der).ok()?.validity.not_after)).max()
}
