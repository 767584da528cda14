//! Asking for an SVID and checking the answer: the part that joining, renewing and returning share.

use ground::clock;
use identity::binding::Terms;
use identity::bundle::{Identity, Roots};
use identity::certificate;
use identity::key::{P256Key, Sign as _};
use identity::principal::{NodeName, Principal};
use identity::time::{Seconds, Timestamp};
use identity::verifier::{self, Side, Standard};
use org::admission::{Admission, Admitted};
use pki_types::CertificateDer;
use wire::connect::Believed;
use wire::enroll::{Challenge, Issued, SvidRequest};
use wire::known::Known;

use crate::ask::call::AskError;
use crate::store::scope::Pending;

/// For whom an SVID is asked, and by which node key.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    pub known: &'a Known,
    pub principal: &'a Principal,
    pub node: &'a NodeName,
    pub node_key: &'a P256Key,
}

impl Asking<'_> {
    pub fn request(&self, pending: &Pending, not_after: Timestamp) -> Result<SvidRequest, AskError> {
        let bad = |why: &dyn std::fmt::Display| AskError::BadAnswer(why.to_string());
        let request = certificate::make_request(&pending.key).map_err(|why| bad(&why))?;
        let svid_key = certificate::key_id(pending.key.public()).map_err(|why| bad(&why))?;
        let terms = Terms { org: self.known.org(), principal: self.principal, node: self.node, svid_key, not_after };
        let binding = terms.sign(self.node_key).map_err(|why| bad(&why))?;
        Ok(SvidRequest { request: identity::text::Bytes(request), binding, counter: pending.counter })
    }

    /// Checks what came back as if a stranger had sent it, and returns the chain as PEM.
    pub fn check(&self, issued: &Issued, pending: &Pending, roots: &Roots<Identity>) -> Result<String, AskError> {
        let chain: Vec<CertificateDer<'static>> =
            issued.svid.iter().map(|der| CertificateDer::from(der.0.clone())).collect();
        let standard = Standard {
            org: self.known.org(),
            name: &self.known.founding.record.name,
            roots,
            head: &self.known.head.head,
        };
        let here = self.known.now(clock::now());
        let believed = verifier::check_svid(&chain, Side::Client, standard, here).map_err(|why| {
            let clock = if why.moment().is_some() { ": is this machine's clock right?" } else { "" };
            AskError::BadAnswer(format!("the certificate: {why}{clock}"))
        })?;
        let leaf = chain.first().and_then(|leaf| certificate::read(leaf).ok());
        let own_key = certificate::key_id(pending.key.public()).ok();
        if believed.principal != *self.principal
            || believed.node_key != self.node_key.public()
            || leaf.map(|leaf| leaf.key) != own_key
        {
            return Err(AskError::BadAnswer("the certificate is for somebody else".to_owned()));
        }
        Ok(certificate::to_pem(&chain))
    }

    /// The admission must be this machine's own, by a gateway with a mandate.
    pub fn check_admission(&self, issued: &Issued) -> Result<Admitted, AskError> {
        let known = self.known;
        let sets = known.signer_sets();
        let mut voices = known.head.head.mandates.iter().map(|mandate| mandate.voice);
        let admitted = voices.find_map(|voice| Admission::check(&issued.admission, known.org(), voice, &sets).ok());
        let admitted =
            admitted.ok_or_else(|| AskError::BadAnswer("the admission is not by a mandated gateway".to_owned()))?;
        if admitted.claim.node_key != self.node_key.public() || admitted.claim.name != *self.node {
            return Err(AskError::BadAnswer("the admission is another machine's".to_owned()));
        }
        Ok(admitted)
    }
}

/// A node vouches for no SVID beyond what the operators allow the gateway to issue, and asks for none that would be of no
/// use by its own clock: nothing is spent on it.
pub fn check_offer(gateway: &Believed, challenge: &Challenge, known: &Known) -> Result<(), AskError> {
    let (here, until) = (known.now(clock::now()), challenge.not_after);
    // Clocks may be a little apart.
    let most = here + gateway.mandate.svid_ttl + Seconds::MINUTE.times(5);
    let why = if until > most {
        "longer than its mandate allows: this machine's clock is slow, or the gateway's is fast"
    } else if until <= here {
        "which is over by this machine's clock: it is fast, or the gateway's is slow"
    } else {
        return Ok(());
    };
    Err(AskError::BadAnswer(format!("it offers an SVID until {until}, {why}; here it is {here}")))
}
