//! What a gateway may do, made narrower or wider.

use identity::head::{Cause, Mandate};
use identity::principal::NodeName;
use identity::principal::glob::NameGlob;
use identity::time::{Seconds, Timestamp};

use crate::key::SignerKeys;
use crate::session::{Made, OperateError, Result, Session, Unsigned, Unwise};

/// What is to change; what is absent stays.
#[derive(Debug, Clone, Default)]
pub struct MandateWish {
    pub names: Option<Vec<NameGlob>>,
    pub svid_ttl: Option<Seconds>,
    /// From now.
    pub lasts: Option<Seconds>,
}

/// The shortest and the longest life of an SVID, and of a mandate.
pub(super) const SVID_TTL: std::ops::RangeInclusive<Seconds> = Seconds(10)..=Seconds::DAY.times(90);
pub(super) const LASTS: std::ops::RangeInclusive<Seconds> = Seconds::HOUR..=Seconds::DAY.times(3_650);

impl MandateWish {
    /// The mandate as it would be.
    pub fn apply(&self, mandate: &Mandate, now: Timestamp) -> Result<Mandate, Unwise> {
        let mut next = mandate.clone();
        if let Some(names) = &self.names {
            next.names.clone_from(names);
            check_own_name(&next)?;
        }
        next.svid_ttl = self.svid_ttl.unwrap_or(next.svid_ttl);
        if let Some(lasts) = self.lasts {
            next.not_after = now + lasts;
        }
        if self.svid_ttl.is_some_and(|ttl| !SVID_TTL.contains(&ttl)) {
            return Err(Unwise::SvidSpan);
        }
        if self.lasts.is_some_and(|lasts| !LASTS.contains(&lasts)) {
            return Err(Unwise::MandateSpan);
        }
        // Whoever renews twice within a second has asked for something, and has it.
        if next == *mandate && self.lasts.is_none() { Err(Unwise::ChangesNothing) } else { Ok(next) }
    }
}

/// A gateway that may not issue for its own name could not renew.
pub(super) fn check_own_name(mandate: &Mandate) -> Result<(), Unwise> {
    let named = mandate.names.iter().any(|glob| glob.matches(mandate.gateway.as_str()));
    if named { Ok(()) } else { Err(Unwise::NotItsOwnName(mandate.gateway.clone())) }
}

pub async fn change(
    session: &mut Session,
    keys: &SignerKeys,
    gateway: &NodeName,
    wish: &MandateWish,
) -> Result<Made<Mandate>> {
    session.publish(keys, |session, now| draft(session, gateway, wish, now)).await
}

/// The mandate as it would be, with the head that makes it so.
pub fn draft(session: &Session, gateway: &NodeName, wish: &MandateWish, now: Timestamp) -> Result<Unsigned<Mandate>> {
    let mandate = session.head().mandate_of(gateway).ok_or_else(|| OperateError::no_such("mandate of", gateway))?;
    let changed = wish.apply(mandate, now)?;
    let next = session.next_head(now, Cause::MandateChange { gateway: gateway.clone() }, |head| {
        for mandate in head.mandates.iter_mut().filter(|mandate| mandate.gateway == *gateway) {
            mandate.clone_from(&changed);
        }
    })?;
    Ok(Unsigned { objects: Vec::new(), next: Some(next), what: changed })
}
