//! How long a new access table takes: 100,000 rules, 10,000 open streams, half of which it ends.
//!
//! `cargo bench -p tunnel --bench swap -- [--json]`
//!
//! Three things are apart: the table is built while the old one decides; then one pointer is swapped, and from then on the new
//! one decides; then the registry is looked through, and what is no longer allowed is ended. Meanwhile another thread asks for
//! leave to open streams, as fast as it can: nobody who asks waits for any of it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, reason = "a bench fails by panicking")]

#[path = "../src/tests/scene.rs"]
#[expect(dead_code, reason = "the tests need more of the scene")]
mod scene;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ground::clock;
use identity::principal::{Name, Principal};
use identity::verifier::{ProvenSvid, Side};
use manifest::stored::{Access, Caller, Place};
use org::member::peer::Peer;
use pki_types::CertificateDer;
use tunnel::access::policy::AccessPolicy;
use tunnel::access::table::AccessTables;
use tunnel::control;
use tunnel::state::shared::TunnelState;
use tunnel::state::streams::{Direction, OpenStream};

use crate::scene::{Org, node};

const RULES: usize = 100_000;
const STREAMS: usize = 10_000;
/// Who has them; each as many.
const CALLERS: usize = 100;
const ROUNDS: usize = 21;

fn main() {
    let json = std::env::args().any(|word| word == "--json");
    let org = Org::new(&["alpha", "beta"]);
    let (state, _words) = TunnelState::new(org.name.clone(), node("alpha"), org.knowledge("alpha")).unwrap();
    let state = Arc::new(state);
    let wiki: Name = "wiki".parse().unwrap();
    let (all, half) = (access(&org, &wiki, 0), access(&org, &wiki, CALLERS / 2));
    state.allow(std::slice::from_ref(&all));
    let peers: Vec<Arc<Peer>> = (0..CALLERS).map(|number| Arc::new(peer(&org, &state, number))).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let questioner = ask(&state, &peers[CALLERS - 1], &wiki, &stop);
    let mut took: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let streams = enter(&state, &peers, &wiki);
        let begun = Instant::now();
        let tables = Arc::new(AccessTables::new(std::slice::from_ref(&half)));
        let built = Instant::now();
        let trust = Arc::clone(&state.policy.load().trust);
        let policy = Arc::new(AccessPolicy { trust, tables });
        let ready = Instant::now();
        let old = state.policy.swap(policy);
        let swapped = Instant::now();
        let cut = state.streams.sweep(&state.policy.load());
        let swept = Instant::now();
        // The last stream knows.
        let ended = streams.iter().filter(|stream| stream.is_cut().is_some()).count();
        let seen = Instant::now();
        assert_eq!((cut.len(), ended), (STREAMS / 2, STREAMS / 2), "half of them are no longer allowed");
        drop(old);
        drop(streams);
        for (what, from, to) in [
            ("build", begun, built),
            ("swap", ready, swapped),
            ("sweep", swapped, swept),
            ("swap until the last stream is told", ready, seen),
        ] {
            took.entry(what).or_default().push(to - from);
        }
        state.allow(std::slice::from_ref(&all));
    }
    stop.store(true, Ordering::Relaxed);
    let (asked, worst) = questioner.join().expect("the one who asks");
    tell(json, &mut took, asked, worst);
}

/// So many rules; the first callers are not in it.
fn access(org: &Org, wiki: &Name, without: usize) -> Access {
    let rows = (0..RULES)
        .skip(without)
        .map(|number| Caller::Placed { principal: user(org, number), at: vec![Place::Node(node("beta"))] });
    // As many rules, whoever is left out.
    let more = (RULES..RULES + without)
        .map(|number| Caller::Placed { principal: user(org, number), at: vec![Place::Node(node("beta"))] });
    Access { callers: BTreeMap::from([(wiki.clone(), rows.chain(more).collect())]), ..Access::default() }
}

fn user(org: &Org, number: usize) -> Principal {
    org.principal("user", &format!("u-{number}"))
}

/// As a handshake leaves it.
fn peer(org: &Org, state: &TunnelState, number: usize) -> Peer {
    let svid = org.svid(&user(org, number), "beta");
    let chain: Vec<CertificateDer<'static>> = svid.chain.iter().map(|der| der.0.clone().into()).collect();
    let trust = Arc::clone(&state.policy.load().trust);
    let proven = ProvenSvid::prove(&chain, Side::Client, trust.judgment.standard(), clock::now()).unwrap();
    trust.recognize(&proven, &org.presented(&node("beta")), clock::now()).unwrap()
}

fn enter(state: &TunnelState, peers: &[Arc<Peer>], wiki: &Name) -> Vec<OpenStream> {
    let all = (0..STREAMS).map(|number| &peers[number % peers.len()]);
    all.map(|peer| state.streams.register(Arc::clone(peer), wiki.clone(), Direction::In)).collect()
}

/// Asks for leave, again and again: how often, and what it waited at most.
fn ask(
    state: &Arc<TunnelState>,
    peer: &Arc<Peer>,
    wiki: &Name,
    stop: &Arc<AtomicBool>,
) -> std::thread::JoinHandle<(Vec<Duration>, Duration)> {
    let (state, peer, wiki, stop) = (Arc::clone(state), Arc::clone(peer), wiki.clone(), Arc::clone(stop));
    std::thread::spawn(move || {
        let (mut took, mut worst) = (Vec::new(), Duration::ZERO);
        while !stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            state.policy.load().may_open(&peer, &wiki, clock::now()).expect("it is allowed by either table");
            let this = begun.elapsed();
            worst = worst.max(this);
            took.push(this);
        }
        (took, worst)
    })
}

fn tell(json: bool, took: &mut BTreeMap<&str, Vec<Duration>>, mut asked: Vec<Duration>, worst: Duration) {
    let micros = |took: Duration| took.as_secs_f64() * 1e6;
    let mut rows = Vec::new();
    for (what, all) in took {
        all.sort_unstable();
        rows.push((*what, micros(all[all.len() / 2]), micros(all[all.len() - 1])));
    }
    asked.sort_unstable();
    let half = micros(asked[asked.len() / 2]);
    if json {
        let rows =
            rows.iter().map(|(what, half, most)| serde_json::json!({ "what": what, "us_p50": half, "us_worst": most }));
        let told = serde_json::json!({ "rules": RULES, "streams": STREAMS, "rows": rows.collect::<Vec<_>>(),
            "decisions": asked.len(), "decision_us_p50": half, "decision_us_worst": micros(worst) });
        println!("{told}");
        return;
    }
    println!("{RULES} rules, {STREAMS} open streams, of which the new table ends half; {ROUNDS} times");
    for (what, half, most) in rows {
        println!("  {what:<40} {half:>12.1} us  worst {most:>12.1} us");
    }
    println!(
        "  {:<40} {half:>12.1} us  worst {:>12.1} us  ({} of them)",
        "a decision meanwhile",
        micros(worst),
        asked.len()
    );
    println!("  target: swap < 1 ms");
}
