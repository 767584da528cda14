//! What is believed of what the tunnel's process says, and what it costs. The other end of its socket is here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream as StdUnixStream;

use ground::{clock, random};
use identity::authority::Authority;
use identity::bundle::Identity;
use identity::certificate::binding::BindingTerms;
use identity::certificate::{self, RequestedKey, Validity};
use identity::head::{Head, Mandate};
use identity::id::Digest;
use identity::key::{P256Key, Sign as _};
use identity::members::{Leaf, Listing, Meant, MembersMap, NodeLeaf, node_key};
use identity::principal::{NodeName, Principal, PrincipalKind};
use identity::text::Bytes;
use identity::time::Seconds;
use manifest::stored::Socks;
use org::founding::Founding;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tunnel::control::event::{Meeting, TunnelEvent};
use tunnel::control::listener::ListenerId;
use tunnel::control::order::{Knowledge, Numbered, Order};

use super::super::account::MET;
use super::super::feed::Orders;
use super::super::feed::tests::orders;
use super::*;
use crate::scene;

/// An org whose map lists these names for one key.
struct Town {
    founding: Founding,
    root: Authority<Identity>,
    issuer: Authority<Identity>,
    listed: P256Key,
    names: Vec<NodeName>,
    map: MembersMap,
    head: Head,
    /// One for all: whose name it is decides the node key.
    svid_key: RequestedKey,
}

impl Town {
    fn new(names: &[String]) -> Self {
        let (org, now) = ("harbor".parse().unwrap(), clock::now());
        let year = Validity::from_now(now, Seconds::DAY.times(365));
        let root = Authority::root(&org, &random::p256().unwrap(), random::serial().unwrap(), year).unwrap();
        let quay = "quay".parse().unwrap();
        let issuer =
            root.certify_issuer(&org, &quay, &random::p256().unwrap(), random::serial().unwrap(), year).unwrap();
        let founding = scene::founding();
        let mandate = Mandate {
            identity_issuer: issuer.key_id(),
            kinds: BTreeSet::from([PrincipalKind::Node]),
            names: vec!["*".parse().unwrap()],
            not_before: now - Seconds::DAY,
            not_after: now + Seconds::DAY,
            ..scene::mandate("quay")
        };
        let issued_at = now - Seconds::MINUTE;
        let (fresh_until, mandates) = (now + Seconds::DAY, vec![mandate]);
        let head = Head { issued_at, fresh_until, mandates, ..scene::head(&founding) };
        let names: Vec<NodeName> = names.iter().map(|name| name.parse().unwrap()).collect();
        let listed = random::p256().unwrap();
        let request = certificate::make_request(&random::p256().unwrap()).unwrap();
        let svid_key = certificate::read_request(&request).unwrap();
        let map = MembersMap::of(&[]).unwrap();
        let mut town = Self { founding, root, issuer, listed, names, map, head, svid_key };
        town.publish();
        town
    }

    fn publish(&mut self) {
        let leaves: Vec<Leaf> = self.names.iter().map(|name| Leaf::Node(self.leaf(name))).collect();
        self.map = MembersMap::of(&leaves).unwrap();
        self.head.version += 1;
        self.head.members = Some(self.map.root());
    }

    fn leaf(&self, name: &NodeName) -> NodeLeaf {
        let (node_key, admission) = (self.listed.public().digest(), Digest([9; 32]));
        NodeLeaf { name: name.clone(), node_key, admission, manifest: Meant::Nothing }
    }

    fn orders(&self) -> Orders {
        let known = scene::known(&self.founding, &self.head).to_file();
        let roots = vec![Bytes(self.root.certificate().to_vec())];
        let know = Knowledge {
            known,
            ahead: 0,
            roots,
            former: Vec::new(),
            suspensions: org::suspend::suspended::Suspensions::default(),
            presented: None,
        };
        Orders { id: self.founding.id, know, ..orders() }
    }

    /// What a machine shows that has this key.
    fn meeting(&self, name: &NodeName, key: &P256Key) -> Meeting {
        let who = Principal::node(&"harbor".parse().unwrap(), name);
        let day = Validity::from_now(clock::now(), Seconds::HOUR);
        let (org, svid_key) = (self.founding.id, self.svid_key.id);
        let terms = BindingTerms { org, principal: &who, node: name, svid_key, not_after: day.not_after };
        let binding = terms.sign(key).unwrap();
        let svid = self.issuer.issue_svid(&who, &self.svid_key, &binding, random::serial().unwrap(), day).unwrap();
        let chain = [&svid, self.issuer.certificate()].map(|der| Bytes(der.to_vec())).to_vec();
        let path = self.map.prove(node_key(name)).unwrap();
        let listing = Some(Listing::Own { leaf: self.leaf(name), path, class: None });
        Meeting { chain, is_caller: true, by: None, listing, admission: None }
    }
}

/// The other end of the socket: what a tunnel would say is said here.
struct Puppet {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    /// Kinds of orders that were heard, and how many names the pins had.
    orders: Vec<(&'static str, usize)>,
}

impl Puppet {
    async fn say(&mut self, word: &TunnelEvent) {
        let json = serde_json::to_vec(word).unwrap();
        self.to.write_all(&u32::try_from(json.len()).unwrap().to_be_bytes()).await.unwrap();
        self.to.write_all(&json).await.unwrap();
    }

    /// Obeys the next one.
    async fn obey(&mut self) {
        let Numbered { number, order } = child::next(&mut self.from).await.unwrap();
        self.orders.push(match &order {
            Order::Know(_) => ("know", 0),
            Order::Pin(pins) => ("pin", pins.len()),
            _ => ("other", 0),
        });
        self.say(&TunnelEvent::Done(number)).await;
    }

    fn pins(&self) -> usize {
        self.orders.iter().map(|(_, pins)| pins).sum()
    }
}

struct Scene {
    _root: tempfile::TempDir,
    scope: Scope,
    view: Arc<Mutex<TunnelView>>,
    met: Arc<Mutex<Met>>,
    wishes: mpsc::Sender<TunnelWish>,
    puppet: Puppet,
    task: JoinHandle<End>,
}

impl Scene {
    async fn open(orders: Orders) -> Self {
        let (root, scope) = scene::scope();
        Self::open_at(root, scope, orders).await
    }

    async fn open_at(root: tempfile::TempDir, scope: Scope, orders: Orders) -> Self {
        let (wishes, to_do) = mpsc::channel(16);
        let (heard, _news) = mpsc::channel(4);
        let (view, met) = (Arc::<Mutex<TunnelView>>::default(), Arc::new(Mutex::new(Met::load(&scope))));
        let mut supervisor = Supervisor::new(scope.clone(), to_do, heard, Arc::clone(&view), Arc::clone(&met));
        supervisor.account.follow(Some(Box::new(orders)));
        let (ours, theirs) = StdUnixStream::pair().unwrap();
        for end in [&ours, &theirs] {
            end.set_nonblocking(true).unwrap();
        }
        let child = Command::new("sleep").arg("1000").process_group(0).kill_on_drop(true).spawn().unwrap();
        let socket = UnixStream::from_std(ours).unwrap();
        let task = tokio::spawn(async move { supervisor.attend(Run::new(child), socket).await });
        let (from, to) = UnixStream::from_std(theirs).unwrap().into_split();
        let mut scene =
            Self { _root: root, scope, view, met, wishes, puppet: Puppet { from, to, orders: Vec::new() }, task };
        // Be, know, allow, speak, run.
        for _ in 0..5 {
            scene.puppet.obey().await;
        }
        scene
    }

    fn pin(&self, name: &NodeName) -> Option<Digest> {
        self.met.lock().unwrap().pins.get(name).copied()
    }

    /// Everything that was said before is taken when what is said after it is shown.
    async fn settle(&mut self) {
        let listens = |port| TunnelEvent::Listens {
            at: [(ListenerId::PeersTls, SocketAddr::from(([127, 0, 0, 1], port)))].into(),
            failed: BTreeMap::new(),
        };
        let port = 1 + u16::try_from(self.puppet.orders.len()).unwrap();
        self.puppet.say(&listens(port)).await;
        let seen = || {
            let view = self.view.lock().unwrap();
            view.listens.get(&ListenerId::PeersTls).is_some_and(|at| at.port() == port)
        };
        while !seen() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn end(self) -> End {
        let (done, is_done) = oneshot::channel();
        self.wishes.send(TunnelWish::Follow(None, done)).await.unwrap();
        is_done.await.unwrap();
        self.task.await.unwrap()
    }
}

#[tokio::test]
async fn a_thousand_first_meetings_cost_a_few_writes_and_no_authority_is_sent_again() {
    let names: Vec<String> = (0..1_000).map(|n| format!("web-{n}")).collect();
    let town = Town::new(&names);
    let mut scene = Scene::open(town.orders()).await;
    let meetings: Vec<TunnelEvent> =
        town.names.iter().map(|name| TunnelEvent::Met(Box::new(town.meeting(name, &town.listed)))).collect();
    let begun = Instant::now();
    // A tunnel says it again until it hears that it is written down.
    for word in meetings.iter().chain(&meetings) {
        scene.puppet.say(word).await;
    }
    while scene.puppet.pins() < names.len() {
        scene.puppet.obey().await;
    }
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
    let count = |kind| scene.puppet.orders.iter().filter(|(heard, _)| *heard == kind).count();
    assert_eq!((count("know"), scene.puppet.pins()), (1, names.len()), "each name once, and nothing else");
    // With each goes one write of the file.
    assert!(count("pin") <= seconds + 2, "{} orders in {seconds} s", count("pin"));
    assert_eq!(Met::load(&scene.scope).pins.len(), names.len());
    assert!(matches!(scene.end().await, End::Dismissed));
}

#[tokio::test]
async fn a_tunnel_that_was_taken_over_names_no_key() {
    let mut town = Town::new(&["web-1".to_owned(), "web-2".to_owned()]);
    let stolen = random::p256().unwrap();
    let [one, two] = [town.names[0].clone(), town.names[1].clone()];
    let mut scene = Scene::open(town.orders()).await;
    let thief = town.meeting(&one, &stolen);
    let unshown = Meeting { listing: None, ..town.meeting(&one, &town.listed) };
    let others = Meeting { listing: town.meeting(&two, &town.listed).listing, ..town.meeting(&one, &town.listed) };
    let junk = Meeting { chain: vec![Bytes(vec![1, 2, 3])], ..town.meeting(&one, &town.listed) };
    for lie in [thief, unshown, others, junk] {
        scene.puppet.say(&TunnelEvent::Met(Box::new(lie))).await;
    }
    scene.settle().await;
    assert_eq!(scene.met.lock().unwrap().pins, BTreeMap::new());
    let old = town.meeting(&one, &town.listed);
    scene.puppet.say(&TunnelEvent::Met(Box::new(old.clone()))).await;
    scene.puppet.obey().await;
    let first = Some(town.listed.public().digest());
    assert_eq!((scene.pin(&one), scene.pin(&two)), (first, None));
    // The operators publish the name for another key: who shows the newest map takes the place, and no earlier one does.
    town.listed = random::p256().unwrap();
    town.publish();
    let (done, is_done) = oneshot::channel();
    scene.wishes.send(TunnelWish::Follow(Some(Box::new(town.orders())), done)).await.unwrap();
    scene.puppet.obey().await;
    is_done.await.unwrap();
    scene.puppet.say(&TunnelEvent::Met(Box::new(town.meeting(&one, &town.listed)))).await;
    scene.puppet.obey().await;
    let second = Some(town.listed.public().digest());
    assert_eq!(scene.pin(&one), second);
    scene.puppet.say(&TunnelEvent::Met(Box::new(old))).await;
    scene.settle().await;
    assert_eq!(scene.pin(&one), second);
    assert!(matches!(scene.end().await, End::Dismissed));
}

#[tokio::test]
async fn nobody_is_sent_where_the_tunnel_should_not_listen() {
    let mut orders = Town::new(&[]).orders();
    orders.run.policy.socks = Socks::At { addr: "127.0.0.1:1080".parse().unwrap(), password: false };
    orders.run.policy.resolver = Some("127.0.0.1:5300".parse().unwrap());
    let mut scene = Scene::open(orders).await;
    let at = |socks: &str, resolver: &str| {
        let all = [(ListenerId::Socks, socks), (ListenerId::Resolver, resolver), (ListenerId::PeersTls, "[::]:7444")];
        all.map(|(place, at)| (place, at.parse().unwrap())).into()
    };
    let lie = TunnelEvent::Listens { at: at("192.0.2.1:1080", "192.0.2.1:53"), failed: BTreeMap::new() };
    scene.puppet.say(&lie).await;
    // What is true of it is told.
    while !scene.view.lock().unwrap().listens.contains_key(&ListenerId::PeersTls) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let folder = scene.scope.path("tunnel");
    assert!(!folder.join("proxy.pac").exists() && !folder.join("resolved.conf").exists());
    assert!(!scene.met.lock().unwrap().ports.contains_key(&ListenerId::Socks));
    let truth = TunnelEvent::Listens { at: at("127.0.0.1:1080", "127.0.0.1:5300"), failed: BTreeMap::new() };
    scene.puppet.say(&truth).await;
    while !scene.view.lock().unwrap().listens.contains_key(&ListenerId::Resolver) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(std::fs::read_to_string(folder.join("proxy.pac")).unwrap().contains("SOCKS5 127.0.0.1:1080"));
    assert!(matches!(scene.end().await, End::Dismissed));
}

/// Else an ordinary publish would look like an intrusion in the log.
#[tokio::test]
async fn what_was_said_before_the_last_orders_were_obeyed_is_no_lie() {
    let (_root, scope) = scene::scope();
    let (heard, _news) = mpsc::channel(1);
    let mut account = Account::new(scope, heard, Arc::default(), Arc::default());
    let is_behind = |account: &Account| account.said.as_ref().map(|said| said.is_behind);
    account.follow(Some(Box::new(orders())));
    account.listens(BTreeMap::new(), BTreeMap::new(), true);
    assert_eq!(is_behind(&account), Some(true), "it was not through with them");
    account.listens(BTreeMap::new(), BTreeMap::new(), false);
    assert_eq!(is_behind(&account), Some(false));
    account.follow(Some(Box::new(orders())));
    assert_eq!(is_behind(&account), Some(true), "it had not heard them");
}

#[tokio::test]
async fn what_cannot_be_written_down_is_told_and_ends_nothing() {
    let (root, scope) = scene::scope();
    // Nothing can take its place.
    std::fs::create_dir_all(scope.path("tunnel.json/x")).unwrap();
    let town = Town::new(&["web-1".to_owned()]);
    let mut orders = town.orders();
    orders.gaps.insert("password of ann".to_owned(), "the disk is full".to_owned());
    let mut scene = Scene::open_at(root, scope, orders.clone()).await;
    scene.puppet.say(&TunnelEvent::Met(Box::new(town.meeting(&town.names[0], &town.listed)))).await;
    // It is told what was met all the same.
    scene.puppet.obey().await;
    assert_eq!(scene.puppet.pins(), 1);
    let troubles = |scene: &Scene| scene.view.lock().unwrap().troubles.keys().cloned().collect::<Vec<_>>();
    assert_eq!(troubles(&scene), [MET, "password of ann"]);
    orders.gaps.clear();
    let (done, is_done) = oneshot::channel();
    scene.wishes.send(TunnelWish::Follow(Some(Box::new(orders)), done)).await.unwrap();
    is_done.await.unwrap();
    assert_eq!(troubles(&scene), [MET], "what was repaired is not told any more");
    assert!(matches!(scene.end().await, End::Dismissed));
}
