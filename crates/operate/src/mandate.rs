//! What a gateway may do, made narrower or wider.

use identity::glob::NameGlob;
use identity::head::{Cause, Head, Mandate};
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};

use crate::desk::Desk;
use crate::handed::Handed;
use crate::keys::SignerKeys;
use crate::session::{Made, OperateError, Session};

/// What is to change; what is absent stays.
#[derive(Debug, Clone, Default)]
pub struct MandateWish {
    pub names: Option<Vec<NameGlob>>,
    pub svid_ttl: Option<Seconds>,
    /// From now.
    pub lasts: Option<Seconds>,
}

/// The shortest and the longest life of an SVID, and of a mandate.
pub(crate) const SVID_TTL: std::ops::RangeInclusive<Seconds> = Seconds(10)..=Seconds::DAY.times(90);
pub(crate) const LASTS: std::ops::RangeInclusive<Seconds> = Seconds::HOUR..=Seconds::DAY.times(3_650);

impl MandateWish {
    /// The mandate as it would be.
    pub fn apply(&self, mandate: &Mandate, now: Timestamp) -> Result<Mandate, OperateError> {
        let unwise = |why: String| Err(OperateError::Unwise(why));
        let mut next = mandate.clone();
        if let Some(names) = &self.names {
            if !names.iter().any(|glob| glob.matches(mandate.gateway.as_str())) {
                return unwise(format!(
                    "`{0}` could not renew its own certificate: allow the name `{0}`, too",
                    mandate.gateway
                ));
            }
            next.names.clone_from(names);
        }
        if let Some(ttl) = self.svid_ttl {
            if !SVID_TTL.contains(&ttl) {
                return unwise("an SVID lives between 10s and 90d".to_owned());
            }
            next.svid_ttl = ttl;
        }
        if let Some(lasts) = self.lasts {
            if !LASTS.contains(&lasts) {
                return unwise("a mandate lasts between 1h and 3650d".to_owned());
            }
            next.not_after = now + lasts;
        }
        // Whoever renews twice within a second has asked for something, and has it.
        if next == *mandate && self.lasts.is_none() { unwise("this changes nothing".to_owned()) } else { Ok(next) }
    }
}

impl<D: Desk> Session<D> {
    /// The mandates in force.
    pub fn mandates(&self) -> &[Mandate] {
        &self.known.head.head.mandates
    }

    pub async fn change_mandate(
        &mut self,
        keys: &SignerKeys,
        gateway: &NodeName,
        wish: &MandateWish,
    ) -> Result<Made<Mandate>, OperateError> {
        self.publish(keys, |session, now| {
            let (next, head) = session.draft_mandate((gateway, wish), now)?;
            Ok((Handed::of(session.seal(&head)?), next))
        })
        .await
    }

    /// The mandate as it would be, and the head that makes it so.
    pub fn draft_mandate(
        &self,
        (gateway, wish): (&NodeName, &MandateWish),
        now: Timestamp,
    ) -> Result<(Mandate, Head), OperateError> {
        let no_such = || OperateError::NoSuch { what: "mandate of", name: gateway.to_string() };
        let mandate = self.mandates().iter().find(|mandate| mandate.gateway == *gateway).ok_or_else(no_such)?;
        let next = wish.apply(mandate, now)?;
        let head = self.next_head(now, Cause::MandateChange { gateway: gateway.clone() }, |head| {
            for mandate in head.mandates.iter_mut().filter(|mandate| mandate.gateway == *gateway) {
                mandate.clone_from(&next);
            }
        })?;
        Ok((next, head))
    }
}
