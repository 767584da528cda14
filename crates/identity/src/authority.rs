//! Certificate authorities: the two roots, and below them the issuing keys (intermediates).

use pki_types::CertificateDer;

use crate::bundle::{Domain, Endpoint, Identity, InDomain};
use crate::certificate::binding::Binding;
use crate::certificate::{self, BadCertificate, RequestedKey, SvidSubject, Validity};
use crate::id::{KeyId, Serial};
use crate::key::{P256Key, Sign as _};
use crate::principal::{Host, NodeName, OrgName};

/// A certificate with its private key, in one domain. `Authority<Endpoint>` cannot issue an SVID.
pub struct Authority<D: InDomain> {
    certificate: CertificateDer<'static>,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    key: KeyId,
    domain: std::marker::PhantomData<D>,
}

impl<D: InDomain> std::fmt::Debug for Authority<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Authority({} {})", D::DOMAIN.word(), self.key)
    }
}

impl<D: InDomain> Authority<D> {
    /// A new root for an org.
    pub fn root(org: &OrgName, key: &P256Key, serial: Serial, validity: Validity) -> Result<Self, BadCertificate> {
        Self::root_named(&format!("{org} {} root", D::DOMAIN.word()), org, key, serial, validity)
    }

    /// A later root of an org. The number keeps its name apart from those before it.
    pub fn later_root(
        org: &OrgName,
        number: u64,
        key: &P256Key,
        serial: Serial,
        validity: Validity,
    ) -> Result<Self, BadCertificate> {
        Self::root_named(&format!("{org} {} root {number}", D::DOMAIN.word()), org, key, serial, validity)
    }

    fn root_named(
        name: &str,
        org: &OrgName,
        key: &P256Key,
        serial: Serial,
        validity: Validity,
    ) -> Result<Self, BadCertificate> {
        let uri = (D::DOMAIN == Domain::Identity).then(|| format!("spiffe://{org}"));
        let params = certificate::draft_authority(name, 1, uri.as_deref(), serial, validity)?;
        let made = params.self_signed(&certificate::rcgen_key(key)?).map_err(not_made)?;
        Self::load(made.der().clone(), key)
    }

    pub fn load(certificate: CertificateDer<'static>, key: &P256Key) -> Result<Self, BadCertificate> {
        let id = certificate::key_id(key.public())?;
        if certificate::read(&certificate)?.key != id {
            return Err(BadCertificate::Unreadable("its private key is another's"));
        }
        let issuer = rcgen::Issuer::from_ca_cert_der(&certificate, certificate::rcgen_key(key)?).map_err(not_made)?;
        Ok(Self { certificate, issuer, key: id, domain: std::marker::PhantomData })
    }

    /// Certifies a gateway's issuing key. Worth nothing until a mandate names that key.
    pub fn certify_issuer(
        &self,
        org: &OrgName,
        gateway: &NodeName,
        key: &P256Key,
        serial: Serial,
        validity: Validity,
    ) -> Result<Self, BadCertificate> {
        let name = format!("{org} {} issued by {gateway}", D::DOMAIN.word());
        let params = certificate::draft_authority(&name, 0, None, serial, validity)?;
        let made = params.signed_by(&certificate::rcgen_key(key)?, &self.issuer).map_err(not_made)?;
        Self::load(made.der().clone(), key)
    }

    /// Certifies an issuing key that was made elsewhere: of the request, only its public key is used.
    pub fn certify_request(
        &self,
        org: &OrgName,
        gateway: &NodeName,
        key: &RequestedKey,
        serial: Serial,
        validity: Validity,
    ) -> Result<CertificateDer<'static>, BadCertificate> {
        let name = format!("{org} {} issued by {gateway}", D::DOMAIN.word());
        self.sign(&certificate::draft_authority(&name, 0, None, serial, validity)?, &key.spki)
    }

    pub const fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    pub const fn key_id(&self) -> KeyId {
        self.key
    }

    pub fn pem(&self) -> String {
        certificate::to_pem(std::slice::from_ref(&self.certificate))
    }

    fn sign(&self, params: &rcgen::CertificateParams, spki: &[u8]) -> Result<CertificateDer<'static>, BadCertificate> {
        let subject = rcgen::SubjectPublicKeyInfo::from_der(spki).map_err(not_made)?;
        Ok(params.signed_by(&subject, &self.issuer).map_err(not_made)?.der().clone())
    }
}

impl Authority<Identity> {
    /// The one place where an SVID is made.
    pub fn issue_svid<'a>(
        &self,
        subject: impl Into<SvidSubject<'a>>,
        key: &RequestedKey,
        binding: &Binding,
        serial: Serial,
        validity: Validity,
    ) -> Result<CertificateDer<'static>, BadCertificate> {
        self.sign(&certificate::draft_svid(subject, binding, serial, validity)?, &key.spki)
    }
}

impl Authority<Endpoint> {
    pub fn issue_endpoint(
        &self,
        hosts: &[Host],
        key: &RequestedKey,
        serial: Serial,
        validity: Validity,
    ) -> Result<CertificateDer<'static>, BadCertificate> {
        self.sign(&certificate::draft_endpoint(hosts, serial, validity)?, &key.spki)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "shape of map_err")]
fn not_made(why: rcgen::Error) -> BadCertificate {
    BadCertificate::NotMade(why.to_string())
}
