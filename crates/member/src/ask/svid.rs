//! Asking for an SVID and checking the answer: the part that joining, renewing and returning share.

use ground::clock;
use identity::bundle::{Identity, Roots};
use identity::certificate;
use identity::certificate::binding::BindingTerms;
use identity::head::Mandate;
use identity::key::{P256Key, Sign as _};
use identity::principal::{NodeName, Principal};
use identity::time::{Seconds, Timestamp};
use identity::verifier::{self, Side, Standard};
use org::ledger::entry::SignedEntry;
use org::ledger::evidence::Evidence;
use pki_types::CertificateDer;
use wire::connect::Believed;
use wire::connect::clocks::Clocks;
use wire::enroll::{Challenge, Issued, SvidRequest};
use wire::known::Known;

use crate::ask::error::{AskError, BadAnswer};
use crate::store::scope::Pending;

/// For whom an SVID is asked, and by which node key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub known: &'a Known,
    pub principal: &'a Principal,
    pub node: &'a NodeName,
    pub node_key: &'a P256Key,
}

impl Asking<'_> {
    pub(crate) fn request(&self, pending: &Pending, not_after: Timestamp) -> Result<SvidRequest, AskError> {
        let request = certificate::make_request(&pending.key).map_err(BadAnswer::Request)?;
        let svid_key = certificate::key_id(pending.key.public()).map_err(BadAnswer::Request)?;
        let terms =
            BindingTerms { org: self.known.org(), principal: self.principal, node: self.node, svid_key, not_after };
        let binding = terms.sign(self.node_key).map_err(BadAnswer::Key)?;
        Ok(SvidRequest { request: identity::text::Bytes(request), binding, counter: pending.counter })
    }

    /// Checks what came back as if a stranger had sent it, and returns the chain as PEM.
    pub(crate) fn check(
        &self,
        issued: &Issued,
        pending: &Pending,
        roots: &Roots<Identity>,
    ) -> Result<String, AskError> {
        let chain: Vec<CertificateDer<'static>> =
            issued.svid.iter().map(|der| CertificateDer::from(der.0.clone())).collect();
        let standard = Standard {
            org: self.known.org(),
            name: &self.known.founding.record.name,
            roots,
            head: &self.known.head.head,
        };
        let here = self.known.now(clock::now());
        let believed = verifier::check_svid(&chain, Side::Client, standard, here);
        let believed = believed.map_err(|why| BadAnswer::Certificate { why: Box::new(why) })?;
        let leaf = chain.first().and_then(|leaf| certificate::read(leaf).ok());
        let own_key = certificate::key_id(pending.key.public()).ok();
        if believed.principal != *self.principal
            || believed.node_key != self.node_key.public()
            || leaf.map(|leaf| leaf.key) != own_key
        {
            return Err(BadAnswer::OthersCertificate.into());
        }
        Ok(certificate::to_pem(&chain))
    }

    /// The admission must be this machine's own, by a gateway with a mandate.
    pub(crate) fn check_admission(&self, issued: &Issued) -> Result<Evidence, AskError> {
        let admitted = self.check_own_admission(issued)?;
        match self.known.head.head.mandate_for_voice(admitted.voice) {
            Some(_) => Ok(admitted),
            None => Err(BadAnswer::UnmandatedAdmission.into()),
        }
    }

    /// One that lay here before outlives the gateway that gave it.
    pub(crate) fn check_own_admission(&self, issued: &Issued) -> Result<Evidence, AskError> {
        let known = self.known;
        let signed = SignedEntry::open(known.org(), issued.admission.clone());
        let signed = signed.map_err(|why| BadAnswer::AdmissionEnvelope(Box::new(why)))?;
        let admitted = Evidence::of(known.org(), &signed).map_err(|why| BadAnswer::Admission(Box::new(why)))?;
        if admitted.claim.node_key != self.node_key.public() || admitted.claim.name != *self.node {
            return Err(BadAnswer::OthersAdmission.into());
        }
        Ok(admitted)
    }
}

/// A node vouches for no SVID beyond what the operators allow the gateway to issue, and asks for none that would be of no
/// use by its own clock: nothing is spent on it.
pub(crate) fn check_offer(gateway: &Believed, challenge: &Challenge, known: &Known) -> Result<(), AskError> {
    weigh_offer(&gateway.mandate, challenge.not_after, known, clock::now())
}

fn weigh_offer(mandate: &Mandate, until: Timestamp, known: &Known, clock: Timestamp) -> Result<(), AskError> {
    let here = known.now(clock);
    // Clocks may be a little apart.
    let most = here + mandate.svid_ttl + Seconds::MINUTE.times(5);
    let over = until <= here;
    if !over && until <= most {
        return Ok(());
    }
    // A gateway offers what its mandate allows, from now on.
    let there = until - mandate.svid_ttl;
    let clocks = Clocks::new(clock, there, &mandate.gateway, known);
    Err(AskError::Untimely { until, over, clocks: Box::new(clocks) })
}

#[cfg(test)]
mod tests {
    use wire::connect::clocks::Wrong;

    use super::*;
    use crate::scene::{self, NOW};

    /// What comes of the offer of a gateway with this clock, on a machine with that one. The head was signed at `NOW`.
    fn offered(there: Timestamp, here: Timestamp) -> Result<(), Clocks> {
        let founding = scene::founding();
        let (known, mandate) = (scene::known(&founding, &scene::head(&founding)), scene::mandate("quay"));
        weigh_offer(&mandate, there + mandate.svid_ttl, &known, here).map_err(|why| match why {
            AskError::Untimely { clocks, .. } => *clocks,
            other => panic!("{other}"),
        })
    }

    #[test]
    fn an_offer_by_a_clock_before_what_was_signed_is_the_gateways_mistake() {
        let clocks = offered(NOW - Seconds::DAY.times(400), NOW + Seconds::HOUR).unwrap_err();
        assert_eq!(clocks.wrong(), Wrong::There);
        // Also where this clock was never set: it is not the only one that is slow.
        let clocks = offered(NOW - Seconds::DAY.times(400), Timestamp::from_unix(0)).unwrap_err();
        assert_eq!(clocks.wrong(), Wrong::Both);
    }

    #[test]
    fn an_offer_that_does_not_fit_a_clock_which_contradicts_nothing_signed_accuses_neither() {
        for (there, here) in [(2, 400), (400, 2)] {
            let [there, here] = [there, here].map(|days| NOW + Seconds::DAY.times(days));
            let clocks = offered(there, here).unwrap_err();
            assert_eq!((clocks.wrong(), clocks.here, clocks.there), (Wrong::Unknown, here, there));
        }
        assert_eq!(offered(NOW + Seconds::HOUR, NOW + Seconds::HOUR - Seconds::MINUTE), Ok(()));
    }

    #[test]
    fn a_machine_without_a_clock_hears_that_its_own_is_slow() {
        let clocks = offered(NOW + Seconds::DAY.times(3), Timestamp::from_unix(0)).unwrap_err();
        assert_eq!(clocks.wrong(), Wrong::Here);
    }
}
