//! Access is taken back while streams are open: when the last of them has ended, and that nothing else was touched.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use trials::place::{json, stderr, until};

use crate::load::{Done, Kind, Load};
use crate::report::{Row, Table, Target, Values};
use crate::rest::Holder;
use crate::service::BROKEN;
use crate::town::{NEAR, Town};
use crate::way::Way;

const MOST: f64 = 50.0;

/// What an allowed stream does meanwhile. At full speed it takes both cores for itself, with its program and its service.
const BESIDE: [(&str, Kind); 2] = [("100 Mbit/s", Kind::Paced), ("full speed", Kind::Bulk)];

/// `ann` has so many streams, `bob` one. Operators take hers back.
pub fn cuts(table: &mut Table, service: SocketAddr, streams: usize) {
    table.note(
        "cuts: a head that takes a role back is published while its streams are open. From the moment at which the \
         receiving tunnel has swapped its table (the first line of its log that says so, or the first end, if that is earlier) until the service has seen the \
         last end, which is the cut, and until the last caller has. Beside them an allowed stream carries all the while; every byte of it must arrive"
            .to_owned(),
    );
    let rows = NEAR.iter().flat_map(|near| BESIDE.map(|beside| (near, beside)));
    for ((node, transport), (speed, kind)) in rows {
        let town = Town::new(service);
        let way = |user: &str| Way::new(user, town.forward(node, user).unwrap(), Vec::new());
        let mut hers = Holder::open(&way("ann"), streams);
        broken(service);
        let load = Load { kind, at: way("bob").at, streams: 1, seconds: 10.0 };
        let bobs = way("bob").caller("load", &load).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = now();
        town.take_back();
        let published = now();
        let ended = hers.ask(&format!("ended {streams}")).ended;
        until("the far end has written down that it cut each of them", || town.cut() == streams);
        let there = broken(service);
        assert_eq!(there.len(), streams, "the service has not seen each end");
        let told = bobs.wait_with_output().unwrap();
        assert!(told.status.success(), "an allowed stream broke: {}", stderr(&told));
        let done: Done = serde_json::from_value(json(&told)).unwrap();
        let (first, last) = (ended.first().copied().unwrap_or(f64::NAN), ended.last().copied().unwrap_or(f64::NAN));
        // It says so when it has told all streams: the first of them may be faster.
        let swapped = there.iter().copied().fold(town.swapped().unwrap().min(first), f64::min);
        let cut = there.into_iter().fold(f64::NAN, f64::max);
        let values = Values(vec![
            ("ms from swap to last end at the service", (cut - swapped) * 1e3),
            ("ms to last end at the callers", (last - swapped) * 1e3),
            ("ms from first to last end", (last - first) * 1e3),
            ("ms before `publish` said so", (published - last) * 1e3),
            ("s of `publish`", published - begun),
            ("MiB of the allowed", done.bytes as f64 / f64::from(1 << 20)),
        ]);
        let met = (cut - swapped) * 1e3 <= MOST;
        let target = Some(Target { words: format!("<= {MOST} ms after the table is swapped"), met });
        let row = Row::new("cuts", &format!("{transport}, beside {speed}"), streams, values);
        table.row(Row { target, ..row }, None);
    }
}

/// When connections at the service were broken off since it was asked last.
fn broken(service: SocketAddr) -> Vec<f64> {
    let mut socket = TcpStream::connect(service).unwrap();
    socket.write_all(&[BROKEN]).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
