//! Files by their digest over HTTPS, from a server in the test: as they are, or however the network between would
//! rather have them. It writes down what it was asked.

#![expect(clippy::unwrap_used, reason = "a trial fails by panicking")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use identity::text::hex;
use pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::crypto::aws_lc_rs;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// How a file is given out.
#[derive(Debug, Clone)]
pub enum Way {
    AsItIs,
    /// Other bytes.
    Instead(Vec<u8>),
    /// All is promised, and the connection ends after this many bytes of each answer.
    CutAfter(usize),
    /// These bytes are said to be all.
    ShortenedTo(usize),
    /// It has no end.
    Endless,
    /// To be fetched over there.
    Elsewhere(String),
    /// A question for the rest is answered with everything.
    Whole,
    /// Not now; as it is when asked once more.
    BusyOnce,
    /// Not here.
    Nowhere,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub digest: String,
    /// From which byte on.
    pub from: Option<usize>,
}

type Files = Arc<Mutex<BTreeMap<String, (Vec<u8>, Way)>>>;
type Journal = Arc<Mutex<Vec<Asked>>>;

/// A root of its own, and a certificate under it for 127.0.0.1.
pub struct Credential {
    pub root_pem: String,
    config: Arc<ServerConfig>,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential")
    }
}

/// Stops when dropped.
#[derive(Debug)]
pub struct Shelf {
    port: u16,
    files: Files,
    journal: Journal,
    stop: Arc<AtomicBool>,
}

impl Credential {
    pub fn make() -> Self {
        let (root_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut root = CertificateParams::new(Vec::new()).unwrap();
        // Of one name with its leaf it would pass for self-signed.
        root.distinguished_name.push(DnType::CommonName, "a root");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        root.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let root_pem = root.self_signed(&root_key).unwrap().pem();
        let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &Issuer::new(root, root_key)).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .unwrap();
        Self { root_pem, config: Arc::new(config) }
    }
}

impl Shelf {
    pub fn serve(credential: &Credential) -> Self {
        Self::serve_at(credential, 0)
    }

    /// On a port of one's choice: in the place of somebody who is gone.
    pub fn serve_at(credential: &Credential, port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (files, journal, stop) = (Files::default(), Journal::default(), Arc::new(AtomicBool::new(false)));
        let (given, noted, stopped) = (Arc::clone(&files), Arc::clone(&journal), Arc::clone(&stop));
        let config = Arc::clone(&credential.config);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (files, journal, config) = (Arc::clone(&given), Arc::clone(&noted), Arc::clone(&config));
                // A caller that has had enough hangs up: that is what these trials are about.
                std::thread::spawn(move || answer(stream.unwrap(), config, &files, &journal));
            }
        });
        Self { port, files, journal, stop }
    }

    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Keeps a file; its digest.
    pub fn put(&self, bytes: &[u8], way: Way) -> String {
        let digest = sha256(bytes);
        self.files.lock().unwrap().insert(digest.clone(), (bytes.to_vec(), way));
        digest
    }

    /// From now on a file is given out another way.
    pub fn give(&self, digest: &str, way: Way) {
        if let Some(entry) = self.files.lock().unwrap().get_mut(digest) {
            entry.1 = way;
        }
    }

    /// What it was asked for by this digest, and forgets it.
    pub fn asked(&self, digest: &str) -> Vec<Option<usize>> {
        let (those, rest) = std::mem::take(&mut *self.journal.lock().unwrap())
            .into_iter()
            .partition::<Vec<_>, _>(|asked| asked.digest == digest);
        *self.journal.lock().unwrap() = rest;
        those.into_iter().map(|asked| asked.from).collect()
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the listener.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    hex(&identity::id::sha256(bytes))
}

fn answer(stream: TcpStream, config: Arc<ServerConfig>, files: &Files, journal: &Journal) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.set_nodelay(true)?;
    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend_from_slice(&byte);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let digest = head.split(' ').nth(1).and_then(|path| path.strip_prefix("/v1/file/")).unwrap_or_default().to_owned();
    let from = head.lines().find_map(|line| line.strip_prefix("range: bytes=")?.strip_suffix('-')?.parse().ok());
    journal.lock().unwrap().push(Asked { digest: digest.clone(), from });
    let kept = files.lock().unwrap().get(&digest).cloned();
    if let Some((_, way @ Way::BusyOnce)) = files.lock().unwrap().get_mut(&digest) {
        *way = Way::AsItIs;
    }
    give(&mut stream, kept, from)?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn give(stream: &mut impl std::io::Write, kept: Option<(Vec<u8>, Way)>, from: Option<usize>) -> std::io::Result<()> {
    let (bytes, way) = kept.unwrap_or((Vec::new(), Way::Nowhere));
    let mut say = |status: &str, more: &str| write!(stream, "HTTP/1.1 {status}\r\n{more}connection: close\r\n\r\n");
    let (bytes, from, cut) = match way {
        Way::AsItIs => (bytes, from, usize::MAX),
        Way::Instead(other) => (other, from, usize::MAX),
        Way::ShortenedTo(length) => (bytes.get(..length).unwrap().to_vec(), from, usize::MAX),
        Way::CutAfter(length) => (bytes, from, length),
        Way::Whole => (bytes, None, usize::MAX),
        Way::BusyOnce => return say("503 Service Unavailable", "content-length: 0\r\n"),
        Way::Nowhere => return say("404 Not Found", "content-length: 0\r\n"),
        Way::Elsewhere(url) => return say("302 Found", &format!("location: {url}\r\ncontent-length: 0\r\n")),
        Way::Endless => {
            say("200 OK", "")?;
            loop {
                stream.write_all(&[b'x'; 4096])?;
            }
        }
    };
    let whole = bytes.len();
    match from {
        Some(from) if from >= whole => say("416 Range Not Satisfiable", "content-length: 0\r\n"),
        from => {
            let rest = bytes.get(from.unwrap_or(0)..).unwrap();
            let status = if from.is_some() { "206 Partial Content" } else { "200 OK" };
            let range = from.map(|from| format!("content-range: bytes {from}-{}/{whole}\r\n", whole - 1));
            say(status, &format!("{}content-length: {}\r\n", range.unwrap_or_default(), rest.len()))?;
            stream.write_all(rest.get(..cut).unwrap_or(rest))
        }
    }
}
