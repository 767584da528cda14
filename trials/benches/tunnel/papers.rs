//! Certificates for those that are compared: an authority, and one for each end, of the same kind as SVIDs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pki_types::pem::PemObject as _;
use pki_types::{CertificateDer, PrivateKeyDer};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// By which both ends are called.
pub const NAME: &str = "localhost";

/// A folder with `ca.pem`, and for each end `END.pem`, `END.key`, and both of them in `END.both`.
#[derive(Debug, Clone)]
pub struct Papers(pub PathBuf);

impl Papers {
    pub fn make(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let mut ca = CertificateParams::new(Vec::<String>::new()).unwrap();
        // OpenSSL takes two of one name for one that signed itself.
        ca.distinguished_name.push(DnType::CommonName, "bench");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let issuer = CertifiedIssuer::self_signed(ca, key).unwrap();
        std::fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
        for end in ["near", "far"] {
            let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
            let mut leaf = CertificateParams::new(vec![NAME.to_owned(), "127.0.0.1".to_owned()]).unwrap();
            leaf.distinguished_name.push(DnType::CommonName, end);
            leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            let leaf = leaf.signed_by(&key, &issuer).unwrap();
            let (certificate, key) = (leaf.pem(), key.serialize_pem());
            std::fs::write(folder.join(format!("{end}.both")), format!("{certificate}{key}")).unwrap();
            std::fs::write(folder.join(format!("{end}.pem")), certificate).unwrap();
            std::fs::write(folder.join(format!("{end}.key")), key).unwrap();
        }
        Self(folder.to_owned())
    }

    pub fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn own(&self, end: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let certificate = CertificateDer::from_pem_file(self.file(&format!("{end}.pem"))).unwrap();
        (vec![certificate], PrivateKeyDer::from_pem_file(self.file(&format!("{end}.key"))).unwrap())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.file("ca.pem")).unwrap()).unwrap();
        roots
    }

    /// As the tunnel's: TLS 1.3, mutual, no resumption, and its key exchange.
    pub fn server(&self) -> ServerConfig {
        let roots = Arc::new(self.roots());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build().unwrap();
        let (chain, key) = self.own("far");
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .unwrap();
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.alpn_protocols = vec![b"forward".to_vec()];
        config
    }

    pub fn client(&self) -> ClientConfig {
        let (chain, key) = self.own("near");
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(self.roots())
            .with_client_auth_cert(chain, key)
            .unwrap();
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![b"forward".to_vec()];
        config
    }
}

fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519MLKEM768];
    Arc::new(provider)
}
