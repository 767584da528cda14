//! The crypto floor: what the signatures and handshakes of one operation cost by themselves.

use std::sync::Arc;
use std::time::Duration;

use ground::random;
use identity::key::Sign as _;
use pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConnection, ServerConfig, ServerConnection};
use serde::Serialize;
use trials::client::stranger::Dial;
use trials::load::meter;

/// Each operation is done so often.
const TIMES: u32 = 2_000;

/// Processor time of one operation, in microseconds, measured in this run.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Floor {
    pub ed25519_check: f64,
    pub ed25519_sign: f64,
    pub p256_check: f64,
    pub p256_sign: f64,
    /// The server's half of a TLS 1.3 handshake with X25519MLKEM768 and a P-256 certificate; no client certificate.
    pub handshake: f64,
}

/// What must be done, whatever the code around it is like.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// Claim and transcript by two keys each, request, binding; then certificate, admission, entry. The tip is signed
    /// once for all that share a commit.
    Join,
    /// The same after a handshake.
    JoinFresh,
    /// And back over mutual TLS: leaf, issuing certificate, handshake, binding; the tip that is shown; one more entry.
    Member,
    /// Request and binding, then the certificate.
    Renew,
}

impl Floor {
    pub fn measure() -> Self {
        let (ed, p256) = (random::ed25519().unwrap(), random::p256().unwrap());
        let message = [7; 200];
        Self {
            ed25519_check: check(&ed),
            ed25519_sign: each(|| drop(ed.sign(&message).unwrap())),
            p256_check: check(&p256),
            p256_sign: each(|| drop(p256.sign(&message).unwrap())),
            handshake: handshake(),
        }
    }

    /// Milliseconds of processor time.
    pub fn of(&self, work: Work) -> f64 {
        let join = 2.0 * self.ed25519_check + 4.0 * self.p256_check + self.p256_sign + 2.0 * self.ed25519_sign;
        let back = self.handshake + 4.0 * self.p256_check + self.ed25519_check + self.ed25519_sign;
        let us = match work {
            Work::Join => join,
            Work::JoinFresh => join + self.handshake,
            Work::Member => join + self.handshake + back,
            Work::Renew => 2.0 * self.p256_check + self.p256_sign,
        };
        us / 1_000.0
    }

    pub fn words(&self) -> String {
        format!(
            "Ed25519 check {:.0} us, sign {:.0} us; P-256 check {:.0} us, sign {:.0} us; server's half of a TLS handshake \
             {:.0} us\n  join: 2 Ed25519 checks, 4 P-256 checks, 1 P-256 and 2 Ed25519 signatures = {:.2} ms; with its \
             handshake {:.2} ms\n  to member: and 1 handshake, 4 P-256 checks, 1 Ed25519 check, 1 Ed25519 signature = \
             {:.2} ms\n  renewal: 2 P-256 checks, 1 P-256 signature = {:.2} ms",
            self.ed25519_check,
            self.ed25519_sign,
            self.p256_check,
            self.p256_sign,
            self.handshake,
            self.of(Work::Join),
            self.of(Work::JoinFresh),
            self.of(Work::Member),
            self.of(Work::Renew)
        )
    }
}

/// Microseconds, on average over enough of them.
fn each(mut work: impl FnMut()) -> f64 {
    let begun = meter::thread_cpu();
    (0..TIMES).for_each(|_| work());
    meter::thread_cpu().saturating_sub(begun).as_secs_f64() * 1e6 / f64::from(TIMES)
}

/// Each time another message: what held before is not worked out again.
fn check(key: &impl identity::key::Sign) -> f64 {
    let signed = (0..TIMES).map(|n| {
        let message = [[7; 196].as_slice(), &n.to_be_bytes()].concat();
        let signature = key.sign(&message).unwrap();
        (message, signature)
    });
    let mut signed = signed.collect::<Vec<_>>().into_iter();
    each(|| {
        let (message, signature) = signed.next().unwrap();
        key.public().verify(&message, &signature).unwrap();
    })
}

fn handshake() -> f64 {
    const TIMES: u32 = 300;
    let (client, server) = (Dial::to(0).config(), server());
    let mut spent = Duration::ZERO;
    for _ in 0..TIMES {
        let mut client =
            ClientConnection::new(Arc::clone(&client), ServerName::try_from("127.0.0.1").unwrap()).unwrap();
        let begun = meter::thread_cpu();
        let mut server = ServerConnection::new(Arc::clone(&server)).unwrap();
        spent += meter::thread_cpu().saturating_sub(begun);
        while client.is_handshaking() || server.is_handshaking() {
            let (mut up, mut down) = (Vec::new(), Vec::new());
            while client.wants_write() {
                client.write_tls(&mut up).unwrap();
            }
            let begun = meter::thread_cpu();
            let mut bytes = up.as_slice();
            while !bytes.is_empty() {
                server.read_tls(&mut bytes).unwrap();
                server.process_new_packets().unwrap();
            }
            while server.wants_write() {
                server.write_tls(&mut down).unwrap();
            }
            spent += meter::thread_cpu().saturating_sub(begun);
            let mut bytes = down.as_slice();
            while !bytes.is_empty() {
                client.read_tls(&mut bytes).unwrap();
                client.process_new_packets().unwrap();
            }
        }
    }
    spent.as_secs_f64() * 1e6 / f64::from(TIMES)
}

/// A server like the gateway, as far as the handshake goes.
fn server() -> Arc<ServerConfig> {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let leaf = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    let chain = vec![leaf.der().clone(), leaf.der().clone(), leaf.der().clone()];
    let groups = vec![aws_lc_rs::kx_group::X25519MLKEM768];
    let provider = CryptoProvider { kx_groups: groups, ..aws_lc_rs::default_provider() };
    let builder = ServerConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).unwrap().with_no_client_auth();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}
