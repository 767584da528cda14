//! All TLS configuration: 1.3 only, no resumption, our one verifier on both sides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use ground::clock;
use identity::bundle::{Endpoint, Identity, Roots};
use identity::head::Head;
use identity::id::{Digest, Fingerprint, OrgId};
use identity::key::P256Key;
use identity::principal::{Host, OrgName};
use identity::time::Timestamp;
use identity::verifier::{self, ProvenSvid, ProvisionalEndpoint, Side, Standard, Untrusted};
use pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, OtherError, ServerConfig,
    SignatureScheme,
};

/// What each verifier of ours says of signatures: none of an older TLS, and of TLS 1.3 what stands here, or else one
/// scheme that its provider checks.
macro_rules! judges_signatures {
    () => {
        judges_signatures!(own, message, cert, signature =>
            check_signature(&own.provider, message, cert, signature), SCHEMES.to_vec());
    };
    ($own:ident, $message:ident, $cert:ident, $signature:ident => $check:expr, $schemes:expr) => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(TLS12)
        }

        fn verify_tls13_signature(
            &self,
            $message: &[u8],
            $cert: &CertificateDer<'_>,
            $signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let $own = self;
            $check
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            $schemes
        }
    };
}

pub mod peer;

/// Binds proofs and operators' calls to one connection.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-freehold-v1";
const ALPN: &[u8] = b"http/1.1";

/// What members and gateways speak; strangers' programs may fall back to X25519.
fn provider(allow_classical: bool) -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519MLKEM768];
    if allow_classical {
        provider.kx_groups.push(aws_lc_rs::kx_group::X25519);
    }
    Arc::new(provider)
}

/// True if the connection used the key exchange that members need.
pub fn is_post_quantum(connection: &rustls::CommonState) -> bool {
    connection.negotiated_key_exchange_group().is_some_and(|group| group.name() == rustls::NamedGroup::X25519MLKEM768)
}

#[derive(Debug, thiserror::Error)]
#[error("TLS could not be set up")]
pub struct TlsSetup(#[from] Error);

// ---- the gateway's side ----

/// Against what the gateway judges its callers right now; swapped whole when the head changes.
#[derive(Debug, Clone)]
pub struct Judgment {
    pub org: OrgId,
    pub name: OrgName,
    pub roots: Roots<Identity>,
    pub head: Head,
    /// Roots that were trusted once: only for words.
    pub former: Roots<Identity>,
}

impl Judgment {
    /// The time that it is at least: whatever this clock says, it is not before the head was signed.
    pub fn now(&self, clock: Timestamp) -> Timestamp {
        clock.max(self.head.issued_at)
    }

    pub fn standard(&self) -> Standard<'_> {
        Standard { org: self.org, name: &self.name, roots: &self.roots, head: &self.head }
    }

    /// To which root it does lead, if that one was trusted once.
    fn explain(&self, why: Untrusted, chain: &[CertificateDer<'_>], now: Timestamp) -> Untrusted {
        let led = verifier::leads_to(chain, &self.former, now);
        let roots = self.former.named().into_iter().filter(|root| led.contains(&root.fingerprint));
        why.leading_to(roots.collect())
    }
}

/// What handshakes have just proven, so that the same bytes need not be checked again a moment later. It says nothing
/// of who holds the key: the end of the handshake does.
#[derive(Debug, Default)]
pub struct Vouched(Mutex<HashMap<Digest, ProvenSvid>>);

impl Vouched {
    /// Handshakes that broke off leave something behind: it is thrown away when there is much of it.
    const MOST: usize = 4_096;

    fn keep(&self, chain: &[CertificateDer<'_>], svid: ProvenSvid) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= Self::MOST {
            kept.clear();
        }
        kept.insert(digest(chain), svid);
    }

    /// What was proven of exactly this chain; once.
    pub fn take(&self, chain: &[CertificateDer<'_>]) -> Option<ProvenSvid> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if chain.is_empty() { None } else { kept.remove(&digest(chain)) }
    }
}

fn digest(chain: &[CertificateDer<'_>]) -> Digest {
    let prints: Vec<u8> = chain.iter().flat_map(|cert| Digest::of(cert.as_ref()).0).collect();
    Digest::of(&prints)
}

pub fn server(
    judgment: Arc<ArcSwap<Judgment>>,
    vouched: Arc<Vouched>,
    certificate: Arc<dyn ResolvesServerCert>,
) -> Result<Arc<ServerConfig>, TlsSetup> {
    let provider = provider(true);
    let verifier = Arc::new(CallerVerifier { judgment, vouched, provider: Arc::clone(&provider) });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(certificate);
    // A resumed session would bypass revocation.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

/// A certificate with its key, ready for TLS.
pub fn certified(chain: Vec<CertificateDer<'static>>, key: &P256Key) -> Result<CertifiedKey, TlsSetup> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.pkcs8().to_vec()));
    Ok(CertifiedKey::new(chain, aws_lc_rs::sign::any_supported_type(&key)?))
}

#[derive(Debug)]
struct CallerVerifier {
    judgment: Arc<ArcSwap<Judgment>>,
    vouched: Arc<Vouched>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for CallerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    /// Strangers are heard too; what they may ask is the permission table's to say.
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let chain = whole(leaf, rest);
        let judgment = self.judgment.load();
        let now = judgment.now(timestamp(now));
        let proven = ProvenSvid::prove(&chain, Side::Client, judgment.standard(), now);
        match proven.and_then(|proven| proven.believe(judgment.standard(), now).map(|_| proven)) {
            Ok(proven) => {
                self.vouched.keep(&chain, proven);
                Ok(ClientCertVerified::assertion())
            }
            Err(why) => {
                let why = if why.is_unknown_root() { judgment.explain(why, &chain, now) } else { why };
                tracing::info!(%why, head = judgment.head.version, "refused a caller's certificate");
                Err(told_to_caller(&why))
            }
        }
    }

    judges_signatures!();
}

/// The alert that fits: the caller's program turns it back into words.
fn told_to_caller(why: &Untrusted) -> Error {
    Error::InvalidCertificate(match why {
        Untrusted::Expired { .. } => CertificateError::Expired,
        Untrusted::Revoked { .. } => CertificateError::Revoked,
        Untrusted::UnknownEndpointRoot(_) | Untrusted::UnknownIdentityRoot(_) => CertificateError::UnknownIssuer,
        // `NotValidYet` would travel as "expired", and a wrong clock would look like an old certificate.
        Untrusted::NotYetValid { .. } | Untrusted::Malformed => CertificateError::BadEncoding,
        Untrusted::NotByAnIssuer
        | Untrusted::WrongName { .. }
        | Untrusted::NotOnePrincipal
        | Untrusted::UnmandatedIssuer(_)
        | Untrusted::BeyondMandate(_)
        | Untrusted::MandateNotActive(_)
        | Untrusted::NoBinding(_)
        | Untrusted::BadBinding
        | Untrusted::WrongUsage => CertificateError::ApplicationVerificationFailure,
    })
}

// ---- the caller's side ----

/// What the caller knows of the gateway's certificate before it connects.
#[derive(Debug, Clone)]
pub enum Expect {
    /// A joiner: only the root's fingerprint, from the code.
    Pin(Fingerprint),
    Roots(Roots<Endpoint>),
    /// The same, by somebody who knows that it is not earlier than this, whatever the clock says.
    RootsSince(Roots<Endpoint>, Timestamp),
}

impl Expect {
    pub fn check(
        &self,
        chain: &[CertificateDer<'_>],
        host: &Host,
        now: Timestamp,
    ) -> Result<ProvisionalEndpoint, Untrusted> {
        match self {
            Self::Pin(pin) => verifier::check_endpoint(chain, &verifier::pinned_root(chain, *pin)?, host, now),
            Self::Roots(roots) => verifier::check_endpoint(chain, roots, host, now),
            Self::RootsSince(roots, floor) => verifier::check_endpoint(chain, roots, host, now.max(*floor)),
        }
    }
}

/// A caller's own SVID and its key.
#[derive(Debug)]
pub struct OwnSvid {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: P256Key,
}

pub fn client(expect: Expect, host: Host, own: Option<&OwnSvid>) -> Result<Arc<ClientConfig>, TlsSetup> {
    let provider = provider(false);
    let verifier = Arc::new(GatewayVerifier { expect, host, provider: Arc::clone(&provider) });
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.key.pkcs8().to_vec()));
            builder.with_client_auth_cert(own.chain.clone(), key)?
        }
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct GatewayVerifier {
    expect: Expect,
    host: Host,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for GatewayVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.expect.check(&whole(leaf, rest), &self.host, timestamp(now)) {
            Ok(_) => Ok(ServerCertVerified::assertion()),
            Err(why) => Err(Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(why))))),
        }
    }

    judges_signatures!();
}

/// For the TLS around a WebSocket. Whoever ends it carries bytes and is trusted with nothing, so any certificate will do:
/// the TLS inside decides.
pub fn carrier() -> Result<Arc<ClientConfig>, TlsSetup> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCarrier))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct AnyCarrier;

impl ServerCertVerifier for AnyCarrier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    judges_signatures!(_own, _message, _cert, _signature => Ok(HandshakeSignatureValid::assertion()),
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes());
}

/// The only scheme on either side, and the answer to an older TLS.
const SCHEMES: [SignatureScheme; 1] = [SignatureScheme::ECDSA_NISTP256_SHA256];
const TLS12: Error = Error::PeerIncompatible(rustls::PeerIncompatible::Tls12NotOffered);

fn check_signature(
    provider: &CryptoProvider,
    message: &[u8],
    cert: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let algorithms = &provider.signature_verification_algorithms;
    rustls::crypto::verify_tls13_signature(message, cert, signature, algorithms)
}

/// A leaf, and an issuing certificate with its root for each of a few roots. More is not looked at.
const MOST_CERTIFICATES: usize = 12;

fn whole<'a>(leaf: &CertificateDer<'a>, rest: &[CertificateDer<'a>]) -> Vec<CertificateDer<'a>> {
    std::iter::once(leaf).chain(rest).take(MOST_CERTIFICATES).cloned().collect()
}

fn timestamp(now: UnixTime) -> Timestamp {
    i64::try_from(now.as_secs()).map_or_else(|_| clock::now(), Timestamp::from_unix)
}
