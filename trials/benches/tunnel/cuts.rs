//! Access is taken back while streams are open: when the last of them has ended, and that nothing else was touched.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use trials::place::{json, stderr, until};

use crate::load::{Done, Kind, Load};
use crate::report::{Row, Table, Target, Values};
use crate::rest::Holder;
use crate::town::{NEAR, Town};
use crate::way::Way;

const MOST: f64 = 100.0;

/// What an allowed stream does meanwhile. At full speed it takes both cores for itself, with its program and its service.
const BESIDE: [(&str, Kind); 2] = [("100 Mbit/s", Kind::Paced), ("full speed", Kind::Bulk)];

/// `ann` has so many streams, `bob` one. Operators take hers back.
pub fn cuts(table: &mut Table, service: SocketAddr, streams: usize) {
    table.note(
        "cuts: a head that takes a role back is published while its streams are open. From the moment at which the \
         receiving tunnel has swapped its table (the first line of its log that says so, or the first end, if that is earlier) until the last caller has seen its \
         end. Beside them an allowed stream carries all the while; every byte of it must arrive"
            .to_owned(),
    );
    let rows = NEAR.iter().flat_map(|near| BESIDE.map(|beside| (near, beside)));
    for ((node, transport), (speed, kind)) in rows {
        let town = Town::new(service);
        let way = |user: &str| Way::new(user, town.forward(node, user).unwrap(), Vec::new());
        let mut hers = Holder::open(&way("ann"), streams);
        let load = Load { kind, at: way("bob").at, streams: 1, seconds: 10.0 };
        let bobs = way("bob").caller("load", &load).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = now();
        town.take_back();
        let published = now();
        let ended = hers.ask(&format!("ended {streams}")).ended;
        until("the far end has written down that it cut each of them", || town.cut() == streams);
        let told = bobs.wait_with_output().unwrap();
        assert!(told.status.success(), "an allowed stream broke: {}", stderr(&told));
        let done: Done = serde_json::from_value(json(&told)).unwrap();
        let (first, last) = (ended.first().copied().unwrap_or(f64::NAN), ended.last().copied().unwrap_or(f64::NAN));
        // It says so when it has told all streams: the first of them may be faster.
        let swapped = town.swapped().unwrap().min(first);
        let values = Values(vec![
            ("ms from swap to last end", (last - swapped) * 1e3),
            ("ms from first to last end", (last - first) * 1e3),
            ("ms before `publish` said so", (published - last) * 1e3),
            ("s of `publish`", published - begun),
            ("MiB of the allowed", done.bytes as f64 / f64::from(1 << 20)),
        ]);
        let met = (last - swapped) * 1e3 <= MOST;
        let target = Some(Target { words: format!("<= {MOST} ms after the table is swapped"), met });
        let row = Row::new("cuts", &format!("{transport}, beside {speed}"), streams, values);
        table.row(Row { target, ..row }, None);
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
