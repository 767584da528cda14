//! A hand-driven caller: dials from any address, speaks any TLS, sends any bytes. It believes nobody.

#![expect(clippy::unwrap_used, reason = "a trial fails by panicking")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use identity::key::P256Key;
use pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind, SignatureScheme,
    StreamOwned,
};
use serde::Serialize;
use serde_json::Value;
use wire::permit::{Ask, Method};
use wire::tls::EXPORTER_LABEL;

/// Attackers call from here, so that their failures are not counted against the operator's own tool.
pub const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// Nothing that a trial waits for takes this long.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client certificate chain and its key.
#[derive(Debug)]
pub struct Own {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: P256Key,
}

/// How to call.
#[derive(Debug, Clone, Copy)]
pub struct Dial<'a> {
    pub port: u16,
    pub source: Ipv4Addr,
    pub group: &'static dyn SupportedKxGroup,
    pub own: Option<&'a Own>,
}

impl<'a> Dial<'a> {
    pub fn to(port: u16) -> Self {
        Self { port, source: ELSEWHERE, group: aws_lc_rs::kx_group::X25519MLKEM768, own: None }
    }

    #[must_use]
    pub const fn from(self, source: Ipv4Addr) -> Self {
        Self { source, ..self }
    }

    #[must_use]
    pub const fn with(self, own: &'a Own) -> Self {
        Self { own: Some(own), ..self }
    }

    #[must_use]
    pub fn classical(self) -> Self {
        Self { group: aws_lc_rs::kx_group::X25519, ..self }
    }

    /// Only TCP.
    pub fn plain(self) -> TcpStream {
        connect(self.source, self.port)
    }

    pub fn config(self) -> Arc<ClientConfig> {
        let provider = Arc::new(CryptoProvider { kx_groups: vec![self.group], ..aws_lc_rs::default_provider() });
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Credulous(provider)));
        let mut config = match self.own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.key.pkcs8().to_vec()));
                builder.with_client_auth_cert(own.chain.clone(), key).unwrap()
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }

    pub fn line(self) -> Line {
        self.line_with(self.config()).unwrap_or_else(|why| panic!("no handshake: {why}"))
    }

    pub fn line_with(self, config: Arc<ClientConfig>) -> std::io::Result<Line> {
        Line::over(self.plain(), config)
    }

    /// Over a connection on which something was said already.
    pub fn line_over(self, stream: TcpStream) -> std::io::Result<Line> {
        Line::over(stream, self.config())
    }
}

impl Line {
    fn over(mut stream: TcpStream, config: Arc<ClientConfig>) -> std::io::Result<Self> {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut session = ClientConnection::new(config, name).unwrap();
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        let exporter = session.export_keying_material([0; 32], EXPORTER_LABEL, None).unwrap();
        Ok(Self { stream: StreamOwned::new(session, stream), exporter })
    }
}

/// The standard library cannot choose a source address; tokio can.
fn connect(source: Ipv4Addr, port: u16) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((source, 0).into()).unwrap();
        socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// An open TLS connection.
#[derive(Debug)]
pub struct Line {
    stream: StreamOwned<ClientConnection, TcpStream>,
    pub exporter: [u8; 32],
}

/// What came back over HTTP.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub status: u16,
    pub body: Value,
}

/// The connection ended instead; with an alert, if one was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut(pub Option<AlertDescription>);

impl Reply {
    /// `ok`, or the code of the refusal.
    pub fn code(&self) -> String {
        match (self.status, self.body.get("code").and_then(Value::as_str)) {
            (200, None) => "ok".to_owned(),
            (200, Some(code)) => panic!("a refusal `{code}` with status 200"),
            (_, Some(code)) => code.to_owned(),
            (status, None) => panic!("status {status} without a code: {}", self.body),
        }
    }
}

impl Line {
    pub fn handshake_kind(&self) -> Option<HandshakeKind> {
        self.stream.conn.handshake_kind()
    }

    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    pub fn ask<Q: Serialize>(&mut self, ask: Ask, question: &Q) -> Result<Reply, Cut> {
        match ask.method() {
            Method::Get => self.request("GET", ask.path(), b""),
            Method::Post => self.request("POST", ask.path(), &serde_json::to_vec(question).unwrap()),
        }
    }

    /// The code of the answer.
    pub fn code<Q: Serialize>(&mut self, ask: Ask, question: &Q) -> String {
        self.ask(ask, question).unwrap_or_else(|cut| panic!("{ask:?}: {cut:?}")).code()
    }

    pub fn request(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Reply, Cut> {
        self.request_with(method, path, "", body)
    }

    /// With more headers, each ended by a line break.
    pub fn request_with(&mut self, method: &str, path: &str, more: &str, body: &[u8]) -> Result<Reply, Cut> {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: gateway\r\ncontent-length: {length}\r\n{more}\r\n");
        self.send(&[head.as_bytes(), body].concat()).map_err(|why| cut(&why))?;
        self.reply()
    }

    /// Goes away without waiting for an answer; returns when the gateway has noticed.
    pub fn hang_up(mut self) {
        self.stream.sock.shutdown(Shutdown::Write).unwrap();
        assert!(self.reply().is_err(), "answered one who was gone");
    }

    /// Reads one answer.
    pub fn reply(&mut self) -> Result<Reply, Cut> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).map_err(|why| cut(&why))?;
            head.extend_from_slice(&byte);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        let mut body = vec![0; length.parse().unwrap()];
        self.stream.read_exact(&mut body).map_err(|why| cut(&why))?;
        let json = head.contains("content-type: application/json");
        Ok(Reply { status, body: if json { serde_json::from_slice(&body).unwrap() } else { Value::Null } })
    }
}

fn cut(why: &std::io::Error) -> Cut {
    let patient = !matches!(why.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
    assert!(patient, "the gateway neither answered nor hung up");
    match why.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::AlertReceived(alert)) => Cut(Some(*alert)),
        _ => Cut(None),
    }
}

/// Takes any server for good: an attacker has nothing to lose.
#[derive(Debug)]
struct Credulous(Arc<CryptoProvider>);

impl ServerCertVerifier for Credulous {
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

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
