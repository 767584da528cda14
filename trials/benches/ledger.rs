//! A ledger of many machines and many heads: how long it takes to open, what it takes in memory, and what publishing over it
//! costs.
//!
//! `cargo build --release && cargo bench -p trials --bench ledger -- [--quick] [--json] [--sizes] [--nodes N] [--heads N]
//! [--keep FOLDER]`

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ground::clock;
use identity::envelope::Envelope;
use identity::head::{Cause, Head, MOST_RECENT};
use identity::id::{Digest, InviteId};
use identity::key::{EdKey, PublicKey, Sign as _};
use identity::members::{Leaf, Meant, MembersMap, NodeLeaf};
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use ledger::store::Ledger;
use org::invite::{Invite, Right, Uses};
use org::ledger::draft::{Intent, Wish, draft_on};
use org::ledger::entry::{Action, SignedEntry, Stamp};
use org::ledger::fold::Leaves;
use org::ledger::replica::Replica;
use serde::Serialize;
use trials::attack::intruder::Intruder;
use trials::attack::thief::Thief;
use trials::load::{machine, meter};
use trials::place::{Place, succeeded};

const NODES: usize = 10_000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = words.iter().position(|word| word == "--open") {
        return open(Path::new(words.get(at + 1).unwrap()));
    }
    let number = |word: &str| {
        let at = words.iter().position(|given| given == word)?;
        words.get(at + 1)?.parse::<usize>().ok()
    };
    let quick = words.iter().any(|word| word == "--quick");
    let nodes = number("--nodes").unwrap_or(if quick { 1_000 } else { NODES });
    let heads = number("--heads").unwrap_or(if quick { 200 } else { 2_000 });
    meter::raise_files();
    let mut report = Report { json: words.iter().any(|word| word == "--json"), nodes, rows: Vec::new() };
    report.say(&format!("{}, {} cores; {}", meter::processor(), meter::cores(), meter::load()));
    let place = Place::founded(&[]);
    tell_sizes(&mut report, &place);
    if words.iter().any(|word| word == "--sizes") {
        return report.end();
    }
    report.say(&format!("disk: {}", meter::disk(&place.org())));
    let gateway = place.serve();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let begun = Instant::now();
    let joined = runtime.block_on(machine::join_all(&place, nodes, name));
    report.say(&format!("{} machines joined in {:.1} s", joined.len(), begun.elapsed().as_secs_f64()));
    publish(&mut report, &place);
    gateway.stop();
    for heads in [heads / 10, heads] {
        add_heads(&place, heads);
        tell_opening(&mut report, &place.org().join("gateway/ledger.db"), heads);
    }
    if let Some(at) = words.iter().position(|word| word == "--keep") {
        place.copy(&place.path(""), Path::new(words.get(at + 1).unwrap()));
        report.say(&format!("kept; its gateway listens at port {}", place.port));
    }
    report.end();
}

/// What was measured: told at once, or in the end as JSON.
struct Report {
    json: bool,
    nodes: usize,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    what: String,
    value: f64,
    unit: &'static str,
    target: Option<Target>,
}

#[derive(Debug, Serialize)]
struct Target {
    words: String,
    /// Nothing if there was less than the target speaks of.
    met: Option<bool>,
}

impl Report {
    fn say(&self, text: &str) {
        if !self.json {
            println!("{text}");
        }
    }

    fn row(&mut self, what: String, value: f64, unit: &'static str) {
        self.say(&format!("{what}: {value:.2} {unit}"));
        self.rows.push(Row { what, value, unit, target: None });
    }

    /// Of the last row: at most so much. The target speaks of 10,000 machines.
    fn asking(&mut self, most: f64) {
        let full = self.nodes >= NODES;
        let Some(row) = self.rows.last_mut() else { return };
        let target = Target { words: format!("<= {most} {}", row.unit), met: full.then_some(row.value <= most) };
        let met =
            target.met.map_or("not judged: it speaks of 10,000 machines", |met| if met { "met" } else { "MISSED" });
        let told = format!("  target {}: {met}", target.words);
        row.target = Some(target);
        self.say(&told);
    }

    fn end(self) {
        if self.json {
            println!("{}", serde_json::json!({ "nodes": self.nodes, "rows": self.rows }));
        }
    }
}

fn name(number: usize) -> String {
    if number == 0 { "hub-0".to_owned() } else { format!("n-{number}") }
}

/// As an operator does it: first every machine is new to the tool, then none is.
fn publish(report: &mut Report, place: &Place) {
    let folder = place.path("fleet");
    std::fs::create_dir_all(&folder).unwrap();
    let org = Thief::of(place).known().org();
    let fleet = |wave: usize| {
        format!(
            "org:\n  name: harbor\n  id: \"{org}\"\nroles:\n  operator:\n    allow: []\nnodes:\n  hub-0:\n    address: hub.example:7444\n\
             classes:\n  all:\n    match: [\"n-*\"]\n    labels: {{wave: w-{wave}}}\n\
             users:\n  ann:\n    roles: [operator]\n    nodes: [hub-0]\n"
        )
    };
    for (wave, what) in ["all of them new to the tool", "nobody new", "nobody new", "nobody new"].iter().enumerate() {
        std::fs::write(folder.join("fleet.yaml"), fleet(wave)).unwrap();
        let begun = Instant::now();
        succeeded(&place.freehold(&["publish", "fleet", "--yes", "--dirty", "--no-wait", "--json"]));
        report.row(format!("`freehold publish`, {what}"), begun.elapsed().as_secs_f64(), "s");
        if wave > 0 {
            report.asking(2.0);
        }
    }
    let begun = Instant::now();
    succeeded(&place.freehold(&["refresh"]));
    report.row("`freehold refresh`".to_owned(), begun.elapsed().as_secs_f64(), "s");
}

/// What every machine is sent after ten years in which a fifth of the machines go each year and as many come, and a new
/// invite is made each month: the operators' own tool drafts every head.
fn tell_sizes(report: &mut Report, place: &Place) {
    for days in [1, 30, 90, 366] {
        let head = ten_years(&Thief::of(place), report.nodes, Seconds::DAY.times(days));
        let (lines, size) = (head.0.revocations.node_keys.len(), serde_json::to_vec(&head.1).unwrap().len());
        report.say(&format!("after ten years, invites of {days} days: {lines} lines"));
        let kilobytes = f64::from(u32::try_from(size).unwrap()) / 1024.0;
        report.row(format!("a head, as sent, after ten years with invites of {days} days"), kilobytes, "KiB");
    }
}

fn ten_years(thief: &Thief, nodes: usize, life: Seconds) -> (Head, Envelope) {
    let (known, signer) = (thief.known(), thief.signer());
    let mut replica = Replica::new(&known.founding, None);
    replica.take(&known.head_envelope, known.head.head.issued_at).unwrap();
    let mut next = 0;
    let mut leaves = Leaves::new();
    join(&mut leaves, &mut next, nodes);
    let (version, previous) = (known.head.head.version + 1, vec![known.head.digest]);
    let mut head = Head { version, previous, record: BTreeMap::new(), ..known.head.head.clone() };
    let mut envelope = place_head(thief, &mut replica, &mut head, &leaves);
    for month in 1..=120 {
        let now = known.head.head.issued_at + Seconds::DAY.times(month * 365 / 12);
        let invite =
            invite(month, known.signers.version, (now, now + life), known.head.head.mandates.first().unwrap().voice);
        replica.take(&thief.seal(&invite, &signer), now).unwrap();
        let going = nodes / 5 / 12;
        // Whoever came first goes first; names are numbered.
        let revoke_keys = leaves.values().take(going).map(|leaf| leaf.node_key).collect();
        let ground = replica.ground(now).unwrap();
        let intent = Intent { wish: &Wish { revoke_keys, ..Wish::default() }, meaning: None };
        let draft = draft_on(&replica, &ground, &replica.fold(&ground), now, intent, |_| {}).unwrap();
        (head, leaves) = (draft.head, draft.leaves);
        join(&mut leaves, &mut next, going);
        envelope = place_head(thief, &mut replica, &mut head, &leaves);
    }
    (head, envelope)
}

fn join(leaves: &mut Leaves, next: &mut usize, count: usize) {
    for _ in 0..count {
        let name: NodeName = format!("n-{next:06}").parse().unwrap();
        let (node_key, admission) = (Digest::of(name.as_str().as_bytes()), Digest::of(&next.to_be_bytes()));
        leaves.insert(name.clone(), NodeLeaf { name, node_key, admission, manifest: Meant::Nothing });
        *next += 1;
    }
}

fn place_head(thief: &Thief, replica: &mut Replica, head: &mut Head, leaves: &Leaves) -> Envelope {
    let all: Vec<Leaf> = leaves.values().cloned().map(Leaf::Node).collect();
    head.members = Some(MembersMap::of(&all).unwrap().root());
    let envelope = thief.seal(head, &thief.signer());
    replica.take(&envelope, head.issued_at).unwrap();
    // Older maps are not asked for any more.
    let recent = head.recent.iter().filter_map(|digest| replica.heads.get(digest)?.head.members).collect::<Vec<_>>();
    replica.maps.retain(|root, _| recent.contains(root));
    replica.take_map(leaves);
    envelope
}

fn invite(nth: u64, signers: u64, (created_at, expires_at): (Timestamp, Timestamp), voice: PublicKey) -> Invite {
    let invite = testorg::invite(InviteId(u128::from(nth).to_be_bytes()), EdKey::from_seed(&[7; 32]).public());
    let right = Right { gateway: "quay".parse().unwrap(), voice, uses: Uses::Unlimited };
    Invite { signers, rights: vec![right], created_at, expires_at, names: vec!["n-*".parse().unwrap()], ..invite }
}

/// Heads as operators would have signed them, one after the other, written by the gateway's own voice.
fn add_heads(place: &Place, heads: usize) {
    let (thief, intruder) = (Thief::of(place), Intruder::at(place.org().join("gateway")));
    let (signer, voice) = (thief.signer(), intruder.voice());
    let (ledger, founding) = Ledger::open(&place.org().join("gateway/ledger.db")).unwrap();
    let state = ledger.state(&founding, clock::now()).unwrap();
    let mut last = state.frontier.place_of(&voice.public());
    let record = state.head().unwrap();
    let (mut head, mut before): (Head, _) = (record.head.clone(), record.digest);
    let under = state.under();
    ledger.begin().unwrap();
    for _ in 0..heads {
        head.version += 1;
        head.previous = vec![before];
        head.recent.insert(0, before);
        head.recent.truncate(MOST_RECENT);
        head.cause = Cause::Refresh;
        head.issued_at = head.issued_at + Seconds(1);
        let envelope = thief.seal(&head, &signer);
        before = envelope.digest();
        let about = Stamp { at: clock::now(), correlation: ground::random::correlation().unwrap() };
        let entry = SignedEntry::write(founding.id, last, &voice, under, about, Action::Take { envelope }).unwrap();
        ledger.add_entry(&entry).unwrap();
        last = Some(entry.place());
    }
    ledger.commit().unwrap();
}

/// In a process of its own, so that its memory is its own; the best of three.
fn tell_opening(report: &mut Report, file: &Path, heads: usize) {
    let mut best: Option<(f64, f64)> = None;
    for _ in 0..3 {
        let own = std::env::current_exe().unwrap();
        let told = Command::new(own).arg("--open").arg(file).stderr(Stdio::inherit()).output().unwrap();
        let told = String::from_utf8(told.stdout).unwrap();
        let mut words = told.split_whitespace().map(|word| word.parse::<f64>().unwrap());
        let now = (words.next().unwrap(), words.next().unwrap());
        best = Some(best.map_or(now, |best| (best.0.min(now.0), best.1.min(now.1))));
    }
    let (seconds, peak) = best.unwrap();
    report.row(format!("opening, with {heads} heads more"), seconds, "s");
    report.asking(1.0);
    report.row(format!("opening, with {heads} heads more: memory at most"), peak, "MB");
    report.asking(200.0);
}

fn open(file: &Path) {
    let begun = Instant::now();
    let (ledger, founding) = Ledger::open(file).unwrap();
    let state = ledger.state(&founding, clock::now()).unwrap();
    let took: Duration = begun.elapsed();
    assert!(state.head().is_some());
    println!("{:.4} {:.1}", took.as_secs_f64(), meter::megabytes(meter::peak(std::process::id())));
}
