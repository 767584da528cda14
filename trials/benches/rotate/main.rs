//! Both roots of an org with ten thousand nodes are rotated, while every twentieth node is off: how soon the others have
//! the new ones, what that takes, and that nobody is lost.
//!
//! `cargo build --release && cargo bench -p trials --bench rotate -- [--quick] [--json] [--nodes N] [--spread SECONDS]`

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

mod followers;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use identity::bundle::Domain;
use org::report::{DomainTold, TrustTold};
use serde_json::Value;
use trials::load::meter::{self, Spread};
use trials::place::{Place, Running, output, stderr, succeeded, text};

use crate::followers::{Followers, Goal, OFF, name};
use crate::report::{Began, Table};

const NODES: usize = 10_000;
/// An agent asks for an SVID that leads to a new root within its check-in interval.
const SPREAD: usize = 60;
const DOMAINS: [Domain; 2] = [Domain::Endpoint, Domain::Identity];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |word: &str| {
        let at = words.iter().position(|given| given == word)?;
        words.get(at + 1)?.parse::<usize>().ok()
    };
    let (many, long) = if words.iter().any(|word| word == "--quick") { (500, 10) } else { (NODES, SPREAD) };
    let nodes = number("--nodes").unwrap_or(many);
    let spread = Duration::from_secs(number("--spread").unwrap_or(long).try_into().unwrap());
    meter::raise_files();
    let place = Place::founded(&[]);
    let gateway = place.serve();
    let table = Table::new(&place.org(), (nodes, nodes / OFF), words.iter().any(|word| word == "--json"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let lost = runtime.block_on(async {
        let mut bench = Bench::begin(&place, &gateway, (nodes, spread), table).await;
        for domain in DOMAINS {
            bench.publish(domain).await;
        }
        for domain in DOMAINS {
            bench.activate(domain).await;
        }
        bench.come_back("in the grace: by the roots that they know", bench.followers.off.len() / 2).await;
        for domain in DOMAINS {
            bench.retire(domain).await;
        }
        bench.come_back("after both old roots were retired", bench.followers.off.len()).await;
        let lost = bench.lost().await;
        bench.tell_stumbles();
        bench.table.end();
        lost
    });
    assert!(lost.is_empty(), "{} nodes are lost: {:?}", lost.len(), lost.iter().take(10).collect::<Vec<_>>());
}

struct Bench<'a> {
    place: &'a Place,
    pid: u32,
    followers: Followers,
    table: Table,
    /// The version that each domain turns to, and the fingerprint of its root.
    turned: BTreeMap<Domain, (u64, String)>,
}

impl<'a> Bench<'a> {
    async fn begin(place: &'a Place, gateway: &Running, (nodes, spread): (usize, Duration), mut table: Table) -> Self {
        let begun = Instant::now();
        let followers = Followers::gather(place, nodes, spread).await;
        let took = begun.elapsed().as_secs_f64();
        table.note(format!("{nodes} nodes joined and said what they are in {took:.1} s"));
        // All are in their long poll before anything is measured.
        tokio::time::sleep(Duration::from_secs(3)).await;
        Self { place, pid: gateway.0.id(), followers, table, turned: BTreeMap::new() }
    }

    /// Runs `freehold` as an operator does; what it says, and how long it took.
    async fn freehold(&self, words: Vec<String>) -> (std::process::Output, Duration) {
        let words: Vec<&str> = words.iter().map(String::as_str).chain(["--json"]).collect();
        let command = self.place.freehold_command(&words);
        let begun = Instant::now();
        let output = tokio::task::spawn_blocking(move || output(command)).await.unwrap();
        (output, begun.elapsed())
    }

    /// From the moment at which the command is started until every node that is on has said, under its own key, that
    /// it goes by the new version; for `identity` also until its SVID leads to the new root.
    async fn publish(&mut self, domain: Domain) {
        self.followers.forget();
        let began = Began::now(self.pid);
        let (told, command) = self.freehold(words(&["trust", "publish", domain.word()])).await;
        succeeded(&told);
        let told: Value = serde_json::from_slice(&told.stdout).unwrap();
        let version = told.get("trust_bundle_version").and_then(Value::as_u64).unwrap();
        let root = text(&told, "sha256_fingerprint");
        let goals = goals(domain, version, &root);
        let nodes = self.followers.on.clone();
        let reached = self.followers.reach(&nodes, &goals).await;
        let cost = began.cost(format!("trust publish {}", domain.word()), command, nodes.len());
        self.table.note(format!("`freehold trust publish {}`, from its start until so many nodes", domain.word()));
        for (what, reached) in words_of(domain).iter().zip(reached) {
            let spread = Spread::since(began.at, reached.into_values().collect());
            self.table.row(what, nodes.len(), &spread);
        }
        self.table.cost(cost);
        self.turned.insert(domain, (version, root));
        self.adoption(domain).await;
    }

    /// What an operator reads of it; the names of those that do not go by the new version.
    async fn adoption(&mut self, domain: Domain) -> Vec<String> {
        let (listed, took) = self.freehold(words(&["trust", "list"])).await;
        succeeded(&listed);
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        let version = self.turned.get(&domain).unwrap().0;
        let is_it = |line: &&Value| {
            line.get("domain").is_some_and(|it| it == domain.word())
                && line.get("trust_bundle_version").is_some_and(|it| it == version)
        };
        let line = listed.as_array().unwrap().iter().find(is_it).unwrap();
        let adoption = line.get("adoption").unwrap();
        let count = |field: &str| adoption.get(field).and_then(Value::as_array).map_or(0, Vec::len);
        self.table.note(format!(
            "  `freehold trust list --json` ({:.2} s): version {version} of `{}` is {}; {} have it, {} try it, {} went \
             back, {} have not said so",
            took.as_secs_f64(),
            domain.word(),
            text(line, "state"),
            count("adopted"),
            count("trying"),
            count("went_back"),
            count("missing")
        ));
        let adopted = adoption.get("adopted").and_then(Value::as_array).unwrap();
        let adopted: BTreeSet<&str> = adopted.iter().filter_map(Value::as_str).collect();
        let all = self.followers.on.iter().chain(self.followers.off.keys()).map(|node| name(*node));
        all.filter(|name| !adopted.contains(name.as_str())).collect()
    }

    /// Those that are off are left behind by name.
    async fn activate(&mut self, domain: Domain) {
        self.followers.forget();
        let mut all = words(&["trust", "activate", domain.word()]);
        all.extend(self.followers.off.keys().flat_map(|node| ["--anyway".to_owned(), name(*node)]));
        self.turn(&format!("trust activate {}", domain.word()), all).await;
    }

    /// Whoever would break is waived by name, as the plan says: those that are still off, and the invite.
    async fn retire(&mut self, domain: Domain) {
        self.followers.forget();
        let old = (self.turned.get(&domain).unwrap().0 - 1).to_string();
        let (planned, _) = self.freehold(words(&["trust", "plan", "retire", domain.word(), &old])).await;
        let planned: Value = serde_json::from_slice(&planned.stdout).unwrap_or_else(|_| panic!("{}", stderr(&planned)));
        let breaks = planned.get("breaks").and_then(Value::as_array).unwrap();
        let names: BTreeSet<&str> = breaks.iter().filter_map(|it| it.get("name").and_then(Value::as_str)).collect();
        let on = self.followers.on.iter().filter(|node| names.contains(name(**node).as_str())).count();
        self.table.note(format!(
            "`freehold trust plan retire {} {old}`: {} would break, {on} of them are on",
            domain.word(),
            names.len()
        ));
        let mut all = words(&["trust", "retire", domain.word(), &old, "--early", "--yes"]);
        all.extend(names.iter().flat_map(|name| ["--waive".to_owned(), (*name).to_owned()]));
        self.turn(&format!("trust retire {}", domain.word()), all).await;
    }

    /// A turn that no node tries: until each that is on has said that it has the head.
    async fn turn(&mut self, what: &str, words: Vec<String>) {
        let began = Began::now(self.pid);
        let (told, command) = self.freehold(words).await;
        succeeded(&told);
        let nodes = self.followers.on.clone();
        let reached = self.followers.reach(&nodes, &[Box::new(|_: &TrustTold| true)]).await;
        let cost = began.cost(what.to_owned(), command, nodes.len());
        let spread = Spread::since(began.at, reached.into_iter().flat_map(BTreeMap::into_values).collect());
        self.table.note(format!("`freehold {what}`, from its start until so many nodes"));
        self.table.row("have the head, and the gateway their word", nodes.len(), &spread);
        self.table.cost(cost);
    }

    /// From the moment at which they are all started until each has said that it goes by both new versions and that its
    /// SVID leads to the new root.
    async fn come_back(&mut self, how: &str, count: usize) {
        self.followers.forget();
        let (homes, returns) = (self.followers.came_home.len(), self.followers.returned.len());
        let began = Began::now(self.pid);
        let back = self.followers.bring_back(count);
        let mut all = Vec::new();
        for domain in DOMAINS {
            let (version, root) = self.turned.get(&domain).unwrap();
            all.extend(goals(domain, *version, root));
        }
        let whole: Goal = Box::new(move |told| all.iter().all(|goal| goal(told)));
        let reached = self.followers.reach(&back, &[whole]).await;
        let cost = began.cost(format!("{} nodes come back {how}", back.len()), Duration::ZERO, back.len());
        self.table.note(format!("{} nodes that were off come back {how}; until so many", back.len()));
        let spread = Spread::since(began.at, reached.into_iter().flat_map(BTreeMap::into_values).collect());
        self.table.row("go by both new versions, with an SVID that leads to them", back.len(), &spread);
        self.table.cost(cost);
        self.table.note(format!(
            "  {} of them read the roots of now from whoever answered, {} got an SVID by their node key",
            self.followers.came_home.len() - homes,
            self.followers.returned.len() - returns
        ));
    }

    /// Everybody whose word is not there in the end, as the operators read it.
    async fn lost(&mut self) -> BTreeSet<String> {
        let mut lost = BTreeSet::new();
        for domain in DOMAINS {
            lost.extend(self.adoption(domain).await);
        }
        self.table.note(format!("{} nodes, {} lost", self.followers.on.len() + self.followers.off.len(), lost.len()));
        lost
    }

    fn tell_stumbles(&mut self) {
        self.followers.forget();
        self.table.note(format!("{} answers were `busy`", self.followers.busy));
        for (why, count) in std::mem::take(&mut self.followers.stumbles) {
            self.table.note(format!("{count} times, and tried again: {why}"));
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const fn words_of(domain: Domain) -> &'static [&'static str] {
    match domain {
        Domain::Endpoint => &["fetched, verified, met the gateway under it alone, and told"],
        Domain::Identity => {
            &["fetched, verified, met the gateway anew, and told", "and told of an SVID that leads to it"]
        }
    }
}

fn goals(domain: Domain, version: u64, root: &str) -> Vec<Goal> {
    let has = move |told: &DomainTold| told.has(version);
    match domain {
        Domain::Endpoint => vec![Box::new(move |told| has(&told.endpoint))],
        Domain::Identity => {
            let root = root.to_owned();
            let leads = move |told: &TrustTold| {
                told.svids.iter().all(|svid| svid.roots.iter().any(|fingerprint| fingerprint.to_string() == root))
            };
            vec![Box::new(move |told| has(&told.identity)), Box::new(leads)]
        }
    }
}
