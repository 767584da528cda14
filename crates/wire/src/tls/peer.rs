//! TLS between nodes: both sides show an SVID, both judge the other's by the same verifier, and no one is a stranger.

use std::sync::Arc;

use arc_swap::ArcSwap;
use identity::verifier::{ProvenSvid, Side};
use pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ResolvesServerCert};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, OtherError, ServerConfig,
    SignatureScheme,
};

use super::{Judgment, SCHEMES, TLS12, TlsSetup, Vouched, check_signature, provider, timestamp, told_to_caller, whole};
use crate::peer::ALPN;

/// By what both sides judge, and where the handshake leaves what it proved.
#[derive(Debug, Clone)]
pub struct Bench {
    pub judgment: Arc<ArcSwap<Judgment>>,
    pub vouched: Arc<Vouched>,
}

pub fn server(bench: Bench, own: Arc<dyn ResolvesServerCert>) -> Result<ServerConfig, TlsSetup> {
    let verifier = PeerVerifier::new(bench);
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&verifier.provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(own);
    // A resumed session would bypass revocation.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

pub fn client(bench: Bench, own: Arc<dyn ResolvesClientCert>) -> Result<ClientConfig, TlsSetup> {
    let verifier = PeerVerifier::new(bench);
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&verifier.provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(own);
    config.resumption = Resumption::disabled();
    // Who is asked is said inside.
    config.enable_sni = false;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

/// A client must name somebody; the verifier looks at the SVID instead.
pub fn nobody() -> ServerName<'static> {
    ServerName::IpAddress(pki_types::IpAddr::V4(pki_types::Ipv4Addr::from([127, 0, 0, 1])))
}

#[derive(Debug)]
struct PeerVerifier {
    bench: Bench,
    provider: Arc<CryptoProvider>,
}

impl PeerVerifier {
    fn new(bench: Bench) -> Self {
        Self { bench, provider: provider(false) }
    }

    fn prove(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        side: Side,
        now: UnixTime,
    ) -> Result<(), identity::verifier::Untrusted> {
        let chain = whole(leaf, rest);
        let judgment = self.bench.judgment.load();
        let now = judgment.now(timestamp(now));
        let proven = ProvenSvid::prove(&chain, side, judgment.standard(), now);
        match proven.and_then(|proven| proven.believe(judgment.standard(), now).map(|_| proven)) {
            Ok(proven) => {
                self.bench.vouched.keep(&chain, proven);
                Ok(())
            }
            Err(why) if why.is_unknown_root() => Err(judgment.explain(why, &chain, now)),
            Err(why) => Err(why),
        }
    }
}

impl ClientCertVerifier for PeerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.prove(leaf, rest, Side::Client, now) {
            Ok(()) => Ok(ClientCertVerified::assertion()),
            Err(why) => {
                tracing::info!(%why, "refused a peer's certificate");
                Err(told_to_caller(&why))
            }
        }
    }

    judges_signatures!();
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.prove(leaf, rest, Side::Server, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(why) => Err(Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(why))))),
        }
    }

    judges_signatures!();
}
