//! A gateway that was taken over, keys, mandate, ledger and all, and answers real agents as it likes.
//!
//! Its TLS and its mandate are genuine: it holds what the real one held. What it cannot do is sign for the operators.

#![expect(clippy::unwrap_used, reason = "a trial fails by panicking")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ground::clock;
use identity::certificate;
use identity::envelope::{Envelope, Payload as _};
use identity::head::{Head, Recorded};
use identity::id::Digest;
use identity::members::{self, ClassLeaf, ClassLeaves, InClass, Leaf, Listing, Meant, MembersMap, NodeLeaf};
use identity::principal::{NodeName, Principal};
use identity::text::Bytes;
use ledger::store::Ledger;
use org::ledger::entry::Entry;
use org::ledger::frontier::Tip;
use org::ledger::replica::carried;
use org::refusal::Refusal;
use pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rusqlite::{Connection, OpenFlags};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::aws_lc_rs;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, ServerConnection, SignatureScheme, StreamOwned};
use wire::permit::Ask;
use wire::sync::{Documents, SyncAnswer, SyncRequest};

use crate::attack::thief::Thief;
use crate::client::stranger::Own;
use crate::place::Place;

/// What was taken from the real gateway's folder.
#[derive(Debug)]
pub struct Loot {
    pub thief: Thief,
    pub founding: Envelope,
    /// Every head that was ever published, by version.
    pub heads: BTreeMap<u64, Envelope>,
    blobs: BTreeMap<Digest, Vec<u8>>,
    maps: BTreeMap<Digest, Vec<Digest>>,
    tip: Envelope,
}

impl Loot {
    pub fn of(place: &Place) -> Self {
        let thief = Thief::of(place);
        let known = thief.known();
        let org = Some(known.org());
        let db = Connection::open_with_flags(ledger_of(place), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let texts = |query: &str| -> Vec<String> {
            let mut query = db.prepare(query).unwrap();
            query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let entries = texts("SELECT envelope FROM entries ORDER BY id");
        let entries: Vec<Envelope> = entries.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        let mut heads = BTreeMap::new();
        let mut own = None;
        for envelope in &entries {
            let entry: Entry = envelope.peek(org).unwrap();
            own = Some((entry.voice, Recorded { seq: entry.seq, digest: envelope.digest() }));
            for head in carried(&entry.action).filter(|carried| carried.kind() == Head::KIND) {
                heads.insert(head.peek::<Head>(org).unwrap().version, head.clone());
            }
        }
        let mut query = db.prepare("SELECT bytes FROM blobs").unwrap();
        let blobs = query.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap().map(Result::unwrap);
        let blobs = blobs.map(|bytes| (Digest::of(&bytes), bytes)).collect();
        drop(query);
        let (store, _) = Ledger::open(&ledger_of(place)).unwrap();
        let roots = heads.values().filter_map(|head| head.peek::<Head>(org).unwrap().members);
        let maps = roots.map(|root| (root, store.map(root, 0, usize::MAX).unwrap())).collect();
        let (voice, place) = own.unwrap();
        let tip = thief.seal(&Tip { voice, place, at: clock::now() }, &thief.voice());
        Self { founding: known.founding.envelope, thief, heads, blobs, maps, tip }
    }

    pub fn newest(&self) -> u64 {
        *self.heads.keys().next_back().unwrap()
    }

    pub fn head(&self, version: u64) -> &Envelope {
        self.heads.get(&version).unwrap()
    }

    fn root(&self, version: u64) -> Digest {
        let head: Head = self.head(version).peek(Some(self.thief.known().org())).unwrap();
        head.members.unwrap()
    }

    fn leaves(&self, version: u64) -> Vec<Leaf> {
        let values = self.maps.get(&self.root(version)).unwrap();
        values.iter().map(|value| serde_json::from_slice(self.blobs.get(value).unwrap()).unwrap()).collect()
    }

    /// How a head's map lists a node: the truth.
    pub fn listing(&self, version: u64, name: &NodeName) -> Listing {
        let leaves = self.leaves(version);
        let map = MembersMap::of(&leaves).unwrap();
        let own = leaves.iter().find_map(|leaf| match leaf {
            Leaf::Node(leaf) if leaf.name == *name => Some(leaf.clone()),
            _ => None,
        });
        match own {
            Some(leaf) => {
                let class = match &leaf.manifest {
                    Meant::Class(class) => Some(InClass {
                        leaf: ClassLeaves::of(&leaves).get(class).unwrap().clone(),
                        path: map.prove(members::class_key(class)).unwrap(),
                    }),
                    Meant::Own(_) | Meant::Nothing => None,
                };
                Listing::Own { leaf, path: map.prove(members::node_key(name)).unwrap(), class }
            }
            None => Listing::Unlisted { absence: map.prove_absence(members::node_key(name)).unwrap() },
        }
    }

    /// A class's leaf, as if the node had none of its own.
    pub fn as_class(&self, version: u64, name: &NodeName) -> Listing {
        let leaves = self.leaves(version);
        let map = MembersMap::of(&leaves).unwrap();
        let leaf: ClassLeaf = leaves
            .iter()
            .find_map(|leaf| if let Leaf::Class(leaf) = leaf { Some(leaf.clone()) } else { None })
            .unwrap();
        let path = map.prove(members::class_key(&leaf.class)).unwrap();
        Listing::Class { leaf, path, absence: self.absence_of_another(version, name) }
    }

    /// A true proof that somebody else is not there.
    pub fn absence_of_another(&self, version: u64, name: &NodeName) -> members::Absence {
        let map = MembersMap::of(&self.leaves(version)).unwrap();
        let other: NodeName = format!("no-{name}").parse().unwrap();
        map.prove_absence(members::node_key(&other)).unwrap()
    }

    pub fn leaf(&self, version: u64, name: &str) -> NodeLeaf {
        match self.listing(version, &name.parse().unwrap()) {
            Listing::Own { leaf, .. } => leaf,
            other => panic!("`{name}` has no leaf: {other:?}"),
        }
    }

    pub fn manifest_of(&self, listing: &Listing) -> Option<Bytes> {
        let digest = match listing {
            Listing::Own { class: Some(class), .. } => class.leaf.manifest,
            Listing::Own { leaf, class: None, .. } => match leaf.manifest {
                Meant::Own(digest) => digest,
                Meant::Class(_) | Meant::Nothing => return None,
            },
            Listing::Class { leaf, .. } => leaf.manifest,
            Listing::Unlisted { .. } => return None,
        };
        Some(Bytes(self.blobs.get(&digest).unwrap().clone()))
    }

    /// Nothing new.
    pub fn nothing(&self) -> SyncAnswer {
        SyncAnswer {
            signers: Vec::new(),
            head: None,
            rivals: None,
            listing: None,
            manifest: None,
            consent: None,
            tip: self.tip.clone(),
            recoveries: Vec::new(),
            suspensions: None,
        }
    }

    /// What the real gateway would answer, were this the newest head.
    pub fn truth(&self, version: u64, name: &NodeName, request: &SyncRequest) -> SyncAnswer {
        let listing = (request.listed < version).then(|| self.listing(version, name));
        let manifest = listing.as_ref().and_then(|listing| self.manifest_of(listing));
        let head = (request.head != version).then(|| self.head(version).clone());
        SyncAnswer { head, listing, manifest, ..self.nothing() }
    }
}

fn ledger_of(place: &Place) -> std::path::PathBuf {
    place.org().join("gateway/ledger.db")
}

/// What becomes of a question.
#[derive(Debug)]
pub enum Told {
    Answer(Box<SyncAnswer>),
    Refuse(Refusal),
    /// These bytes, as the body of an answer.
    Raw(Vec<u8>),
    /// The connection stays open, and nothing comes.
    Silence,
    HangUp,
}

impl From<SyncAnswer> for Told {
    fn from(answer: SyncAnswer) -> Self {
        Self::Answer(Box::new(answer))
    }
}

/// Decides what becomes of a question of a node.
pub trait Lie: FnMut(&Loot, &NodeName, &SyncRequest) -> Told + Send + 'static {}
impl<T: FnMut(&Loot, &NodeName, &SyncRequest) -> Told + Send + 'static> Lie for T {}

/// Stops when dropped.
#[derive(Debug)]
pub struct Liar {
    port: u16,
    scene: Arc<Scene>,
    thread: Option<JoinHandle<()>>,
}

struct Scene {
    loot: Loot,
    stop: AtomicBool,
    /// The head that whoever connects is shown.
    shown: Mutex<Envelope>,
    lie: Mutex<Box<dyn Lie>>,
    asked: AtomicUsize,
    connections: AtomicUsize,
    /// Hangs up before anything is said.
    shut: AtomicBool,
}

impl std::fmt::Debug for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scene").field("loot", &self.loot).finish_non_exhaustive()
    }
}

impl Liar {
    /// Takes the place of a gateway that does not run at present.
    pub fn serve(port: u16, loot: Loot, lie: impl Lie) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let config = config(&loot.thief.endpoint("127.0.0.1"));
        let shown = Mutex::new(loot.head(loot.newest()).clone());
        let scene = Arc::new(Scene {
            loot,
            stop: AtomicBool::new(false),
            shown,
            lie: Mutex::new(Box::new(lie)),
            asked: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            shut: AtomicBool::new(false),
        });
        let at = Arc::clone(&scene);
        let thread = std::thread::spawn(move || {
            let mut guests = Vec::new();
            for stream in listener.incoming() {
                if at.stop.load(Ordering::Relaxed) {
                    break;
                }
                at.connections.fetch_add(1, Ordering::Relaxed);
                let (at, config) = (Arc::clone(&at), Arc::clone(&config));
                // A caller that hangs up in the middle is what most of these trials are about.
                guests.push(std::thread::spawn(move || drop(at.entertain(stream.unwrap(), &config))));
            }
            for guest in guests {
                let _ = guest.join();
            }
        });
        Self { port, scene, thread: Some(thread) }
    }

    /// From now on another lie; those who wait for an answer hear nothing of it.
    pub fn now(&self, lie: impl Lie) {
        *self.scene.lie.lock().unwrap() = Box::new(lie);
    }

    /// Shows this head to whoever connects.
    pub fn show(&self, head: Envelope) {
        *self.scene.shown.lock().unwrap() = head;
    }

    /// Accepts connections and says nothing, or answers again.
    pub fn shut(&self, yes: bool) {
        self.scene.shut.store(yes, Ordering::Relaxed);
    }

    pub fn loot(&self) -> &Loot {
        &self.scene.loot
    }

    /// How often news were asked for.
    pub fn asked(&self) -> usize {
        self.scene.asked.load(Ordering::Relaxed)
    }

    /// How often somebody connected.
    pub fn connections(&self) -> usize {
        self.scene.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.scene.stop.store(true, Ordering::Relaxed);
        // Wakes the listener.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Scene {
    fn entertain(&self, stream: TcpStream, config: &Arc<ServerConfig>) -> std::io::Result<()> {
        if self.shut.load(Ordering::Relaxed) {
            return Ok(());
        }
        stream.set_read_timeout(Some(Duration::from_millis(200)))?;
        stream.set_nodelay(true)?;
        let mut line = StreamOwned::new(ServerConnection::new(Arc::clone(config)).unwrap(), stream);
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                self.read(&mut line, &mut byte)?;
                head.extend_from_slice(&byte);
            }
            let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            let mut body = vec![0; length.parse().unwrap()];
            self.read(&mut line, &mut body)?;
            let caller = line.conn.peer_certificates().and_then(|chain| name_of(chain));
            let path = head.split(' ').nth(1).unwrap_or_default();
            let (status, body) = match self.hear(path, &body, caller) {
                Told::Answer(answer) => ("200 OK", serde_json::to_vec(&answer).unwrap()),
                Told::Refuse(refusal) => ("403 Forbidden", serde_json::to_vec(&refusal).unwrap()),
                Told::Raw(bytes) => ("200 OK", bytes),
                Told::Silence => {
                    let mut byte = [0];
                    return self.read(&mut line, &mut byte);
                }
                Told::HangUp => return Ok(()),
            };
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
            line.write_all(head.as_bytes())?;
            line.write_all(&body)?;
            line.flush()?;
        }
    }

    /// Whole, however long it takes, while this gateway lasts.
    fn read(&self, line: &mut StreamOwned<ServerConnection, TcpStream>, mut into: &mut [u8]) -> std::io::Result<()> {
        use std::io::ErrorKind;
        while !into.is_empty() {
            match line.read(into) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => into = std::mem::take(&mut into).split_at_mut(count).1,
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if self.stop.load(Ordering::Relaxed) || self.shut.load(Ordering::Relaxed) {
                        return Err(why);
                    }
                }
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    fn hear(&self, path: &str, body: &[u8], caller: Option<NodeName>) -> Told {
        let documents = |documents: Vec<Envelope>| Told::Raw(serde_json::to_vec(&Documents { documents }).unwrap());
        if path == Ask::Founding.path() {
            documents(vec![self.loot.founding.clone()])
        } else if path == Ask::Signers.path() {
            documents(Vec::new())
        } else if path == Ask::Head.path() {
            documents(vec![self.shown.lock().unwrap().clone()])
        } else if path == Ask::Show.path() {
            Told::Raw(b"{}".to_vec())
        } else if let (true, Some(name)) = (path == Ask::Sync.path(), caller) {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let request = serde_json::from_slice(body).unwrap();
            let mut lie = self.lie.lock().unwrap_or_else(PoisonError::into_inner);
            lie(&self.loot, &name, &request)
        } else {
            Told::HangUp
        }
    }
}

fn name_of(chain: &[CertificateDer<'_>]) -> Option<NodeName> {
    let reading = certificate::read(chain.first()?).ok()?;
    reading.uris.first()?.parse::<Principal>().ok()?.node_name()
}

fn config(own: &Own) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.key.pkcs8().to_vec()));
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(Arc::new(Welcoming))
        .with_single_cert(own.chain.clone(), key)
        .unwrap();
    Arc::new(config)
}

/// Asks for a certificate as the real gateway does, and takes any.
#[derive(Debug)]
struct Welcoming;

impl ClientCertVerifier for Welcoming {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
