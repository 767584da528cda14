//! Asking for an SVID and checking the answer: the part that joining, renewing and returning share.

use std::collections::BTreeSet;

use ground::clock;
use identity::bundle::{Identity, Roots};
use identity::certificate;
use identity::certificate::binding::BindingTerms;
use identity::head::Mandate;
use identity::key::{P256Key, Sign as _};
use identity::principal::host::HostName;
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
    /// What the certificate is to carry beside the principal: what this node's manifest says.
    pub dns: &'a BTreeSet<HostName>,
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
            || leaf.as_ref().map(|leaf| leaf.key) != own_key
        {
            return Err(BadAnswer::OthersCertificate.into());
        }
        self.check_names(leaf.map(|leaf| leaf.dns).unwrap_or_default())?;
        Ok(certificate::to_pem(&chain))
    }

    /// Programs may go by them: not one more, and not one less.
    fn check_names(&self, carried: Vec<String>) -> Result<(), BadAnswer> {
        if is_named(&carried, self.dns) {
            Ok(())
        } else {
            Err(BadAnswer::OtherNames { carried, wanted: self.dns.clone() })
        }
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

/// In whichever order.
pub(crate) fn is_named(carried: &[String], wanted: &BTreeSet<HostName>) -> bool {
    let carried_by: BTreeSet<&str> = carried.iter().map(String::as_str).collect();
    carried.len() == wanted.len() && wanted.iter().all(|name| carried_by.contains(name.as_str()))
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
    fn a_certificate_carries_the_names_of_the_manifest_and_no_others() {
        let founding = scene::founding();
        let known = scene::known(&founding, &scene::head(&founding));
        let node_key = ground::random::p256().unwrap();
        let (principal, node) = ("spiffe://harbor/service/wiki".parse().unwrap(), "web-1".parse().unwrap());
        let check = |carried: &str, wanted: &str| {
            let dns = wanted.split_whitespace().map(|name| name.parse().unwrap()).collect();
            let asking = Asking { known: &known, principal: &principal, node: &node, node_key: &node_key, dns: &dns };
            asking.check_names(carried.split_whitespace().map(str::to_owned).collect()).map_err(|why| why.to_string())
        };
        for (carried, wanted) in [("", ""), ("a.b", "a.b"), ("c.d a.b", "a.b c.d")] {
            assert_eq!(check(carried, wanted), Ok(()), "{carried} and {wanted}");
        }
        for (carried, wanted, told) in [
            ("a.b", "", "the certificate of an SVID carries `a.b`, and the manifest says no DNS name"),
            ("", "a.b", "the certificate of an SVID carries no DNS name, and the manifest says `a.b`"),
            ("a.b c.d", "a.b", "carries `a.b`, `c.d`, and the manifest says `a.b`"),
            ("a.b a.b", "a.b c.d", "carries `a.b`, `a.b`, and the manifest says `a.b`, `c.d`"),
            ("*.b", "a.b", "carries `*.b`, and the manifest says `a.b`"),
            ("A.b", "a.b", "carries `A.b`, and"),
        ] {
            let why = check(carried, wanted).unwrap_err();
            assert!(why.contains(told), "{why}");
        }
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
