//! Certificates (X.509-SVIDs) and requests as bytes: what we draft, and what we read back. Drafting and reading share
//! no code.

pub mod binding;

use std::collections::BTreeSet;

use pki_types::CertificateDer;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyUsagePurpose, SanType, SerialNumber,
};
use x509_parser::prelude::{FromDer as _, GeneralName, ParsedExtension, X509Certificate, X509CertificationRequest};

use crate::certificate::binding::Binding;
use crate::id::{KeyId, Serial};
use crate::key::{P256Key, PublicKey};
use crate::principal::host::HostName;
use crate::principal::{Host, Principal};
use crate::time::{Seconds, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCertificate {
    #[error("the certificate cannot be read: {0}")]
    Unreadable(&'static str),
    #[error("the certificate could not be made: {0}")]
    NotMade(String),
    #[error("the certificate request cannot be read or is not signed by its own key")]
    BadRequest,
    #[error("the certificate request's key is not P-256")]
    NotP256,
}

/// Clocks differ a little: a certificate is valid from slightly before it was made.
pub(crate) const MOST_BACKDATED: Seconds = Seconds(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl Validity {
    pub fn from_now(now: Timestamp, life: Seconds) -> Self {
        Self::until(now, now + life)
    }

    pub fn until(now: Timestamp, not_after: Timestamp) -> Self {
        // A short-lived one is backdated less, so that its half life means what it says.
        let backdate = MOST_BACKDATED.min(Seconds(not_after.since(now).0 / 10));
        Self { not_before: now - backdate, not_after }
    }
}

// ---- drafts ----

/// Whom an SVID names, and the DNS names beside that. Who is who, only the principal says.
#[derive(Debug, Clone, Copy)]
pub struct SvidSubject<'a> {
    pub principal: &'a Principal,
    pub dns: &'a BTreeSet<HostName>,
}

impl<'a> From<&'a Principal> for SvidSubject<'a> {
    fn from(principal: &'a Principal) -> Self {
        const NONE: &BTreeSet<HostName> = &BTreeSet::new();
        Self { principal, dns: NONE }
    }
}

/// An SVID: one URI, no CA, the binding inside.
pub fn draft_svid<'a>(
    subject: impl Into<SvidSubject<'a>>,
    binding: &Binding,
    serial: Serial,
    validity: Validity,
) -> Result<CertificateParams, BadCertificate> {
    let SvidSubject { principal, dns } = subject.into();
    let mut params = draft_leaf(principal.name(), serial, validity)?;
    params.subject_alt_names = vec![SanType::URI(ia5(&principal.to_string())?)];
    for name in dns {
        params.subject_alt_names.push(SanType::DnsName(ia5(name.as_str())?));
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    params.custom_extensions = vec![CustomExtension::from_oid_content(binding::OID, binding.to_der())];
    Ok(params)
}

/// A gateway's HTTPS certificate: its own names only.
pub(crate) fn draft_endpoint(
    hosts: &[Host],
    serial: Serial,
    validity: Validity,
) -> Result<CertificateParams, BadCertificate> {
    let common = hosts.first().map_or_else(|| "gateway".to_owned(), ToString::to_string);
    let mut params = draft_leaf(&common, serial, validity)?;
    params.subject_alt_names = hosts
        .iter()
        .map(|host| match host {
            Host::Dns(name) => ia5(name).map(SanType::DnsName),
            Host::Ip(ip) => Ok(SanType::IpAddress(*ip)),
        })
        .collect::<Result<_, _>>()?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

/// A certificate authority: a root, or the issuing key below it.
pub(crate) fn draft_authority(
    common_name: &str,
    below: u8,
    uri: Option<&str>,
    serial: Serial,
    validity: Validity,
) -> Result<CertificateParams, BadCertificate> {
    let mut params = draft_leaf(common_name, serial, validity)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(below));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.subject_alt_names = uri.map(|uri| ia5(uri).map(SanType::URI)).transpose()?.into_iter().collect();
    Ok(params)
}

fn draft_leaf(common_name: &str, serial: Serial, validity: Validity) -> Result<CertificateParams, BadCertificate> {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    params.distinguished_name = name;
    params.serial_number = Some(SerialNumber::from_slice(&serial.0));
    params.not_before = moment(validity.not_before)?;
    params.not_after = moment(validity.not_after)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn moment(at: Timestamp) -> Result<time::OffsetDateTime, BadCertificate> {
    time::OffsetDateTime::from_unix_timestamp(at.unix()).map_err(|_| BadCertificate::Unreadable("time out of range"))
}

fn ia5(text: &str) -> Result<rcgen::string::Ia5String, BadCertificate> {
    text.try_into().map_err(|_| BadCertificate::Unreadable("a name is not ASCII"))
}

pub(crate) fn rcgen_key(key: &P256Key) -> Result<rcgen::KeyPair, BadCertificate> {
    let der = pki_types::PrivatePkcs8KeyDer::from(key.pkcs8());
    rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&der, &rcgen::PKCS_ECDSA_P256_SHA256)
        .map_err(|why| BadCertificate::NotMade(why.to_string()))
}

// ---- requests ----

/// A certificate request for `key`. It asks for nothing: names and usages are the gateway's to decide.
pub fn make_request(key: &P256Key) -> Result<Vec<u8>, BadCertificate> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&rcgen_key(key)?).map_err(|why| BadCertificate::NotMade(why.to_string()))?;
    Ok(request.der().to_vec())
}

/// The one thing that is used of a certificate request: its public key, which signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedKey {
    pub spki: Vec<u8>,
    pub id: KeyId,
}

/// Requests are tiny; anything long is an attack on the parser.
const MAX_REQUEST: usize = 8 << 10;

pub fn read_request(der: &[u8]) -> Result<RequestedKey, BadCertificate> {
    if der.len() > MAX_REQUEST {
        return Err(BadCertificate::BadRequest);
    }
    let (rest, request) = X509CertificationRequest::from_der(der).map_err(|_| BadCertificate::BadRequest)?;
    if !rest.is_empty() {
        return Err(BadCertificate::BadRequest);
    }
    let info = &request.certification_request_info;
    let spki = info.subject_pki.raw;
    let key = p256_of_spki(spki)?;
    key.verify(info.raw, request.signature_value.as_ref()).map_err(|_| BadCertificate::BadRequest)?;
    Ok(RequestedKey { spki: spki.to_vec(), id: KeyId::of_spki(spki) })
}

/// DER of every P-256 public key: a fixed head, then the uncompressed point.
const P256_SPKI_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

fn p256_of_spki(spki: &[u8]) -> Result<PublicKey, BadCertificate> {
    let point = spki.strip_prefix(&P256_SPKI_HEAD).ok_or(BadCertificate::NotP256)?;
    match <[u8; 65]>::try_from(point) {
        Ok(point) if point.first() == Some(&4) => Ok(PublicKey::P256(point)),
        _ => Err(BadCertificate::NotP256),
    }
}

/// The key id of a private key's public half, as it will stand in a certificate.
pub fn key_id(key: PublicKey) -> Result<KeyId, BadCertificate> {
    match key {
        PublicKey::P256(point) => Ok(KeyId::of_spki(&[&P256_SPKI_HEAD[..], &point].concat())),
        PublicKey::Ed25519(_) => Err(BadCertificate::NotP256),
    }
}

// ---- reading back ----

/// What a certificate says, read afresh from its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub key: KeyId,
    pub serial: Vec<u8>,
    pub validity: Validity,
    pub is_ca: bool,
    pub uris: Vec<String>,
    pub dns: Vec<String>,
    /// Subject alternative names that are neither; and the hosts among all of them.
    pub other_names: usize,
    pub hosts: Vec<String>,
    pub binding: Option<Binding>,
}

pub fn read(der: &CertificateDer<'_>) -> Result<Reading, BadCertificate> {
    let (rest, cert) = X509Certificate::from_der(der.as_ref()).map_err(|_| BadCertificate::Unreadable("not X.509"))?;
    if !rest.is_empty() {
        return Err(BadCertificate::Unreadable("bytes after its end"));
    }
    let (mut uris, mut other_names, mut bindings, mut is_ca) = (Vec::new(), 0, Vec::new(), false);
    let (mut hosts, mut dns) = (Vec::new(), Vec::new());
    for extension in cert.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(names) => {
                for name in &names.general_names {
                    match name {
                        GeneralName::URI(uri) => uris.push((*uri).to_owned()),
                        GeneralName::DNSName(name) => dns.push((*name).to_owned()),
                        _ => other_names += 1,
                    }
                    hosts.extend(host_of(name));
                }
            }
            ParsedExtension::BasicConstraints(constraints) => is_ca |= constraints.ca,
            _ if extension.oid.iter().is_some_and(|arcs| arcs.eq(binding::OID.iter().copied())) => {
                bindings.push(Binding::from_der(extension.value).ok_or(BadCertificate::Unreadable("its binding"))?);
            }
            _ => {}
        }
    }
    let binding = bindings.pop();
    if !bindings.is_empty() {
        return Err(BadCertificate::Unreadable("it has two bindings"));
    }
    Ok(Reading {
        key: KeyId::of_spki(cert.public_key().raw),
        serial: cert.raw_serial().to_vec(),
        validity: Validity {
            not_before: Timestamp::from_unix(cert.validity().not_before.timestamp()),
            not_after: Timestamp::from_unix(cert.validity().not_after.timestamp()),
        },
        is_ca,
        uris,
        dns,
        other_names,
        hosts,
        binding,
    })
}

fn host_of(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let four = <[u8; 4]>::try_from(*bytes).map(std::net::IpAddr::from);
            let ip = four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(std::net::IpAddr::from));
            ip.ok().map(|ip| ip.to_string())
        }
        _ => None,
    }
}

/// The public key that a certificate is for, to certify it anew under another root.
pub fn key_in(der: &CertificateDer<'_>) -> Result<RequestedKey, BadCertificate> {
    let (rest, cert) = X509Certificate::from_der(der.as_ref()).map_err(|_| BadCertificate::Unreadable("not X.509"))?;
    let spki = cert.public_key().raw;
    p256_of_spki(spki)?;
    if !rest.is_empty() {
        return Err(BadCertificate::Unreadable("bytes after its end"));
    }
    Ok(RequestedKey { spki: spki.to_vec(), id: KeyId::of_spki(spki) })
}

/// Was it made by the key in another certificate, under that one's name?
pub fn is_signed_by(der: &CertificateDer<'_>, by: &CertificateDer<'_>) -> bool {
    let (Ok((_, cert)), Ok((_, by))) =
        (X509Certificate::from_der(der.as_ref()), X509Certificate::from_der(by.as_ref()))
    else {
        return false;
    };
    let named = cert.issuer().as_raw() == by.subject().as_raw();
    let key = p256_of_spki(by.public_key().raw);
    named && key.is_ok_and(|key| key.verify(cert.tbs_certificate.as_ref(), cert.signature_value.as_ref()).is_ok())
}

/// Whose it is, in the words of whoever made it. It decides nothing.
pub fn subject(der: &CertificateDer<'_>) -> Result<String, BadCertificate> {
    let (_, cert) = X509Certificate::from_der(der.as_ref()).map_err(|_| BadCertificate::Unreadable("not X.509"))?;
    Ok(cert.subject().to_string())
}

/// PEM of a chain, leaf first.
pub fn to_pem(chain: &[CertificateDer<'_>]) -> String {
    let mut out = String::new();
    for der in chain {
        out.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in crate::text::base64(der.as_ref()).as_bytes().chunks(64) {
            out.push_str(&String::from_utf8_lossy(line));
            out.push('\n');
        }
        out.push_str("-----END CERTIFICATE-----\n");
    }
    out
}

pub fn from_pem(text: &str) -> Result<Vec<CertificateDer<'static>>, BadCertificate> {
    use pki_types::pem::PemObject as _;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => Err(BadCertificate::Unreadable("no PEM certificate")),
    }
}
