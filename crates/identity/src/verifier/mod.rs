//! Whom to believe over TLS: chain, mandated issuer, kind and name, binding, revocations, time. One for all.

pub mod untrusted;

use pki_types::{CertificateDer, ServerName, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use crate::bundle::{Domain, Endpoint, Identity, InDomain, NamedRoot, Roots};
use crate::certificate::binding::Binding;
use crate::certificate::{self, MOST_BACKDATED, Reading, Validity};
use crate::head::{Head, Mandate, Revocations};
use crate::id::{Fingerprint, KeyId, OrgId, Serial};
use crate::key::PublicKey;
use crate::key::remembered::Remembering;
use crate::principal::{Host, NodeName, OrgName, Principal, PrincipalKind};
use crate::time::Timestamp;
use crate::verifier::untrusted::{Inactive, Named, Of, Unmandated, Unrooted};

pub use crate::verifier::untrusted::Untrusted;

/// Against what an SVID is judged.
#[derive(Debug, Clone, Copy)]
pub struct Standard<'a> {
    pub org: OrgId,
    pub name: &'a OrgName,
    pub roots: &'a Roots<Identity>,
    pub head: &'a Head,
}

/// An SVID that passed everything that TLS can see. Membership also needs the node key's admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BelievedSvid {
    pub principal: Principal,
    pub node: NodeName,
    pub node_key: PublicKey,
    pub serial: Serial,
    pub not_after: Timestamp,
    pub issued_by: NodeName,
}

/// Which side of the TLS connection the SVID's holder is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

/// What a chain says whatever the head says: it leads to a root, names one principal, and a node key bound it. Signatures
/// are dear and this holds for good, so whoever keeps it can judge by each new head without checking them again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenSvid {
    principal: Principal,
    binding: Binding,
    serial: Serial,
    issuer: KeyId,
    /// The roots that it leads to: while one of them is trusted, the chain holds.
    roots: Vec<Fingerprint>,
    /// The leaf's own time, and until when its issuer's certificate is good.
    validity: Validity,
    issuer_until: Timestamp,
}

pub fn check_svid(
    chain: &[CertificateDer<'_>],
    side: Side,
    standard: Standard<'_>,
    now: Timestamp,
) -> Result<BelievedSvid, Untrusted> {
    ProvenSvid::prove(chain, side, standard, now)?.believe(standard, now)
}

impl ProvenSvid {
    /// Checks every signature.
    pub fn prove(
        chain: &[CertificateDer<'_>],
        side: Side,
        standard: Standard<'_>,
        now: Timestamp,
    ) -> Result<Self, Untrusted> {
        let Chain { leaf, issuer, root } = check_chain(chain, standard.roots, side, now)?;
        let roots = roots_of(chain, standard.roots, root, side, now);
        let leaf = certificate::read(leaf).map_err(|_| Untrusted::Malformed)?;
        let principal = sole_principal(&leaf, standard.name)?;
        let serial = serial_of(&leaf)?;
        let binding = leaf.binding.ok_or_else(|| Untrusted::NoBinding(Box::new(principal.clone())))?;
        binding.check(standard.org, &principal, leaf.key).map_err(|_| Untrusted::BadBinding)?;
        let (validity, issuer_until) = (leaf.validity, issuer.validity.not_after);
        Ok(Self { principal, binding, serial, issuer: issuer.key, roots, validity, issuer_until })
    }

    /// Judges it by the head and the roots of now.
    pub fn believe(&self, standard: Standard<'_>, now: Timestamp) -> Result<BelievedSvid, Untrusted> {
        if !standard.roots.has_any(&self.roots) {
            return Err(self.unrooted(standard));
        }
        if now < self.validity.not_before {
            return Err(Untrusted::NotYetValid { of: Of::Svid, from: self.validity.not_before, now });
        }
        if now > self.validity.not_after {
            return Err(Untrusted::Expired { of: Of::Svid, until: self.validity.not_after, now });
        }
        if now > self.issuer_until {
            return Err(Untrusted::Expired { of: Of::Issuer, until: self.issuer_until, now });
        }
        let (principal, binding, issuer) = (&self.principal, &self.binding, self.issuer);
        let mandate = mandate_of(standard.head, Domain::Identity, issuer, now)?;
        if !mandate.covers(principal) {
            return Err(Untrusted::BeyondMandate(mandate.gateway.clone()));
        }
        // Leaf <= binding <= the mandate's maximum; backdating makes it a little longer.
        let life = binding.not_after.since(self.validity.not_before);
        if self.validity.not_after > binding.not_after || life.0 > mandate.svid_ttl.0.saturating_add(MOST_BACKDATED.0) {
            return Err(Untrusted::BeyondMandate(mandate.gateway.clone()));
        }
        if let Some(what) = self.revoked(&standard.head.revocations) {
            return Err(Untrusted::Revoked { what: Box::new(what), head: standard.head.version });
        }
        Ok(BelievedSvid {
            principal: principal.clone(),
            node: binding.node.clone(),
            node_key: binding.node_key,
            serial: self.serial,
            not_after: self.validity.not_after,
            issued_by: mandate.gateway.clone(),
        })
    }

    /// For a connection that is open already. What ended by its time, or by a planned turn of the roots, does not end it:
    /// it was believed when it began. What the operators took back does, also the issuing keys under a stolen root.
    pub fn endures(&self, head: &Head) -> Result<(), Untrusted> {
        if let Some(what) = self.revoked(&head.revocations) {
            return Err(Untrusted::Revoked { what: Box::new(what), head: head.version });
        }
        let mut naming = head.mandates.iter().filter(|mandate| mandate.identity_issuer == self.issuer).peekable();
        let Some(first) = naming.peek().map(|mandate| mandate.gateway.clone()) else {
            return Err(unmandated(head, Domain::Identity, self.issuer));
        };
        if naming.any(|mandate| mandate.covers(&self.principal)) {
            Ok(())
        } else {
            Err(Untrusted::BeyondMandate(first))
        }
    }

    fn revoked(&self, revoked: &Revocations) -> Option<Named> {
        let node_key = self.binding.node_key.digest();
        if revoked.node_keys.contains(&node_key) {
            return Some(Named::NodeKey(node_key));
        }
        if revoked.issuing_keys.contains(&self.issuer) {
            return Some(Named::IssuingKey(self.issuer));
        }
        if revoked.serials.contains(&self.serial) {
            return Some(Named::Serial(self.serial));
        }
        revoked.principals.contains(&self.principal).then(|| Named::Principal(self.principal.clone()))
    }

    fn unrooted(&self, standard: Standard<'_>) -> Untrusted {
        let shown = self.roots.iter().map(|root| NamedRoot { version: None, fingerprint: *root }).collect();
        let unrooted = Unrooted { shown, issuers: vec![self.issuer], trusted: standard.roots.named() };
        Untrusted::unknown_root(Domain::Identity, unrooted)
    }

    pub const fn node_key(&self) -> PublicKey {
        self.binding.node_key
    }

    /// The roots that it leads to, of those that were trusted when it was proven.
    pub fn roots(&self) -> &[Fingerprint] {
        &self.roots
    }
}

/// A gateway's certificate that leads to a known endpoint root and fits the name that was dialled. The gateway is
/// not believed yet: that takes a mandate in a verified head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvisionalEndpoint {
    issuer: KeyId,
    host: Host,
}

pub fn check_endpoint(
    chain: &[CertificateDer<'_>],
    roots: &Roots<Endpoint>,
    host: &Host,
    now: Timestamp,
) -> Result<ProvisionalEndpoint, Untrusted> {
    let Chain { leaf, issuer, .. } = check_chain(chain, roots, Side::Server, now)?;
    let wrong = || {
        let names = certificate::read(leaf).map(|read| read.hosts).unwrap_or_default();
        Untrusted::WrongName { dialed: host.to_string(), names }
    };
    let name = ServerName::try_from(host.to_string()).map_err(|_| wrong())?;
    let parsed = EndEntityCert::try_from(leaf).map_err(|_| Untrusted::Malformed)?;
    parsed.verify_is_valid_for_subject_name(&name).map_err(|_| wrong())?;
    Ok(ProvisionalEndpoint { issuer: issuer.key, host: host.clone() })
}

/// Picks the pinned root out of what a gateway presented: how a joiner, who knows only its fingerprint, begins.
pub fn pinned_root(chain: &[CertificateDer<'_>], pin: Fingerprint) -> Result<Roots<Endpoint>, Untrusted> {
    let root = chain.iter().find(|cert| Fingerprint::of_certificate(cert.as_ref()) == pin);
    let trusted = || vec![NamedRoot { version: None, fingerprint: pin }];
    let unknown = || Untrusted::unknown_root(Domain::Endpoint, unrooted(chain, trusted()));
    root.map(|cert| Roots::from_certificates(vec![cert.clone().into_owned()])).ok_or_else(unknown)
}

impl ProvisionalEndpoint {
    /// The second half: an active mandate in a verified head names the issuing key and this host.
    pub fn believe<'a>(&self, head: &'a Head, now: Timestamp) -> Result<&'a Mandate, Untrusted> {
        if head.revocations.issuing_keys.contains(&self.issuer) {
            return Err(Untrusted::Revoked { what: Box::new(Named::IssuingKey(self.issuer)), head: head.version });
        }
        let mandate = mandate_of(head, Domain::Endpoint, self.issuer, now)?;
        if !mandate.hosts.contains(&self.host) {
            return Err(Untrusted::BeyondMandate(mandate.gateway.clone()));
        }
        Ok(mandate)
    }
}

const fn issuer_of(mandate: &Mandate, domain: Domain) -> KeyId {
    match domain {
        Domain::Endpoint => mandate.endpoint_issuer,
        Domain::Identity => mandate.identity_issuer,
    }
}

fn unmandated(head: &Head, domain: Domain, issuer: KeyId) -> Untrusted {
    let mandated = head.mandates.iter().map(|mandate| (mandate.gateway.clone(), issuer_of(mandate, domain))).collect();
    Untrusted::UnmandatedIssuer(Box::new(Unmandated { issuer, domain, head: head.version, mandated }))
}

fn mandate_of(head: &Head, domain: Domain, issuer: KeyId, now: Timestamp) -> Result<&Mandate, Untrusted> {
    let mut naming = head.mandates.iter().filter(|mandate| issuer_of(mandate, domain) == issuer).peekable();
    let first = *naming.peek().ok_or_else(|| unmandated(head, domain, issuer))?;
    let inactive = || {
        let (gateway, from, until) = (first.gateway.clone(), first.not_before, first.not_after);
        Untrusted::MandateNotActive(Box::new(Inactive { gateway, from, until, now }))
    };
    naming.find(|mandate| mandate.is_active(now)).ok_or_else(inactive)
}

/// What was found to hang together.
struct Chain<'a> {
    leaf: &'a CertificateDer<'a>,
    issuer: Reading,
    root: Fingerprint,
}

/// Every trusted root that a chain leads to. Usually there is one; while roots change, a chain carries several
/// certificates of one issuing key.
fn roots_of<D: InDomain>(
    chain: &[CertificateDer<'_>],
    roots: &Roots<D>,
    found: Fingerprint,
    side: Side,
    now: Timestamp,
) -> Vec<Fingerprint> {
    let mut all = vec![found];
    if chain.len() > 2 {
        for root in roots.certificates() {
            let one = Roots::<D>::from_certificates(vec![root.clone()]);
            let fingerprint = Fingerprint::of_certificate(root.as_ref());
            if fingerprint != found && check_chain(chain, &one, side, now).is_ok() {
                all.push(fingerprint);
            }
        }
    }
    all
}

/// The roots among these that a chain leads to, in their order.
pub fn leads_to(chain: &[CertificateDer<'_>], roots: &Roots<Identity>, now: Timestamp) -> Vec<Fingerprint> {
    let leads = |root: &&CertificateDer<'static>| {
        let one = Roots::<Identity>::from_certificates(vec![(*root).clone()]);
        check_chain(chain, &one, Side::Client, now).is_ok()
    };
    let roots = roots.certificates().iter().filter(leads);
    roots.map(|root| Fingerprint::of_certificate(root.as_ref())).collect()
}

static P256: Remembering = Remembering(webpki::aws_lc_rs::ECDSA_P256_SHA256);

/// Leaf, one issuing certificate, root: exactly that. While roots change, the issuing key has a certificate under each,
/// and the one counts that leads to a root which is trusted here.
fn check_chain<'a, D: InDomain>(
    chain: &'a [CertificateDer<'a>],
    roots: &Roots<D>,
    side: Side,
    now: Timestamp,
) -> Result<Chain<'a>, Untrusted> {
    let [leaf, between @ ..] = chain else {
        return Err(Untrusted::NotByAnIssuer);
    };
    if between.is_empty() {
        return Err(Untrusted::NotByAnIssuer);
    }
    let unknown = || Untrusted::unknown_root(D::DOMAIN, unrooted(chain, roots.named()));
    let roots = roots.certificates().iter().filter_map(|root| Some((anchor_from_trusted_cert(root).ok()?, root)));
    let (anchors, roots): (Vec<_>, Vec<_>) = roots.unzip();
    let parsed = EndEntityCert::try_from(leaf).map_err(|_| Untrusted::Malformed)?;
    let usage = match side {
        Side::Client => KeyUsage::client_auth(),
        Side::Server => KeyUsage::server_auth(),
    };
    let moment = UnixTime::since_unix_epoch(std::time::Duration::from_secs(u64::try_from(now.unix()).unwrap_or(0)));
    let path = parsed
        .verify_for_usage(&[&P256], &anchors, between, moment, usage, None, None)
        .map_err(|why| untrusted(&why, chain, D::DOMAIN, now).unwrap_or_else(unknown))?;
    let mut through = path.intermediate_certificates();
    let (Some(issuer), None) = (through.next(), through.next()) else {
        return Err(Untrusted::NotByAnIssuer);
    };
    let issuer = certificate::read(&issuer.der()).map_err(|_| Untrusted::Malformed)?;
    let at = anchors.iter().position(|anchor| anchor == path.anchor());
    let root = at.and_then(|at| roots.get(at)).ok_or_else(unknown)?;
    Ok(Chain { leaf, issuer, root: Fingerprint::of_certificate(root.as_ref()) })
}

/// Nothing if the chain holds together but leads elsewhere.
fn untrusted(why: &webpki::Error, chain: &[CertificateDer<'_>], domain: Domain, now: Timestamp) -> Option<Untrusted> {
    let mut times = chain.iter().filter_map(|der| certificate::read(der).ok()).map(|read| read.validity);
    let (leaf, of) = (times.next(), Of::leaf(domain));
    // If it is not the leaf's own time, it is that of an issuing certificate.
    match (why, leaf) {
        (webpki::Error::CertExpired { .. }, Some(leaf)) => {
            let own = (of, leaf.not_after);
            let issuers = || times.map(|time| (Of::Issuer, time.not_after)).find(|(_, until)| *until < now);
            let (of, until) = if leaf.not_after < now { own } else { issuers().unwrap_or(own) };
            Some(Untrusted::Expired { of, until, now })
        }
        (webpki::Error::CertNotValidYet { .. }, Some(leaf)) => {
            let own = (of, leaf.not_before);
            let issuers = || times.map(|time| (Of::Issuer, time.not_before)).find(|(_, from)| *from > now);
            let (of, from) = if leaf.not_before > now { own } else { issuers().unwrap_or(own) };
            Some(Untrusted::NotYetValid { of, from, now })
        }
        (webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey, _) => None,
        (
            webpki::Error::RequiredEkuNotFoundContext(_)
            | webpki::Error::CaUsedAsEndEntity
            | webpki::Error::EndEntityUsedAsCa,
            _,
        ) => Some(Untrusted::WrongUsage),
        _ => Some(Untrusted::Malformed),
    }
}

/// What a chain has: the roots that it brings along, and its issuing keys.
fn unrooted(chain: &[CertificateDer<'_>], trusted: Vec<NamedRoot>) -> Unrooted {
    let (mut shown, mut issuers) = (Vec::new(), Vec::new());
    for der in chain.iter().skip(1) {
        let Some(read) = certificate::read(der).ok().filter(|read| read.is_ca) else { continue };
        if certificate::is_signed_by(der, der) {
            shown.push(NamedRoot { version: None, fingerprint: Fingerprint::of_certificate(der.as_ref()) });
        } else if !issuers.contains(&read.key) {
            issuers.push(read.key);
        }
    }
    Unrooted { shown, issuers, trusted }
}

/// A service or user may carry DNS names, for programs that go by those: here they say nothing.
fn sole_principal(reading: &Reading, org: &OrgName) -> Result<Principal, Untrusted> {
    let [uri] = reading.uris.as_slice() else {
        return Err(Untrusted::NotOnePrincipal);
    };
    let principal: Principal = uri.parse().map_err(|_| Untrusted::NotOnePrincipal)?;
    let misnamed = principal.kind() == PrincipalKind::Node && !reading.dns.is_empty();
    if misnamed || reading.other_names > 0 || reading.is_ca || principal.org() != org {
        return Err(Untrusted::NotOnePrincipal);
    }
    Ok(principal)
}

/// DER drops leading zeros and adds one before a high bit; serials are sixteen bytes whatever stands there.
pub(crate) fn serial_of(reading: &Reading) -> Result<Serial, Untrusted> {
    let significant: Vec<u8> = reading.serial.iter().copied().skip_while(|byte| *byte == 0).collect();
    let mut serial = [0; 16];
    let start = serial.len().checked_sub(significant.len()).ok_or(Untrusted::Malformed)?;
    serial.get_mut(start..).ok_or(Untrusted::Malformed)?.copy_from_slice(&significant);
    Ok(Serial(serial))
}

#[cfg(test)]
pub(crate) mod tests;
