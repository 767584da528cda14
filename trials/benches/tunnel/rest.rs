//! Connections at rest: what each takes at either end, and that all of them live.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use trials::load::meter;
use trials::place::Running;

use crate::hold::StreamCount;
use crate::load::{Kind, Load};
use crate::papers::Papers;
use crate::report::{Row, Table, Target, Values};
use crate::town::Town;
use crate::way::{Way, bare};

/// How long memory and processor time settle, and are looked at.
const REST: Duration = Duration::from_secs(8);
const MOST: f64 = 24.0;

/// Some, and with more of them as many as there should be. Both ends of a way are new: nothing was given back to them before.
pub fn idle(table: &mut Table, service: SocketAddr, quick: bool) {
    let all = most().min(if quick { 2_000 } else { 10_000 });
    table.note(format!(
        "at rest: so many streams are open and say nothing. Private memory of either end's process over what it had before, \
         per stream, without what the kernel keeps for sockets. Over TLS each that is opened is a connection and a full \
         handshake. At most {all}: a process has {} files here, and over TLS a \
         stream takes two at either end",
        files()
    ));
    for transport in ["tls", "quic"] {
        let town = Town::new(service);
        let papers = Papers::make(&town.place.path("papers"));
        let bare_name = if transport == "tls" { "bare rustls" } else { "bare quinn" };
        let mut ways = bare(service, &papers);
        ways.retain(|way| way.name == bare_name);
        ways.extend(town.ways().into_iter().filter(|way| way.name == format!("tunnel, {transport}")));
        for way in &ways {
            rest(table, way, &[1_000, all]);
        }
    }
}

fn rest(table: &mut Table, way: &Way, counts: &[usize]) {
    let before: Vec<u64> = way.processes.iter().map(|pid| meter::private(*pid)).collect();
    let mut open: Vec<Holder> = Vec::new();
    for count in counts {
        let more = count.saturating_sub(open.iter().map(|holder| holder.streams).sum());
        let begun = Instant::now();
        open.push(Holder::open(way, more));
        let took = begun.elapsed().as_secs_f64();
        let mut values = at_rest(way, &before, *count);
        values.push("opened per s", more as f64 / took);
        let alive: usize = open.iter_mut().map(|holder| holder.ask("check").alive).sum();
        assert_eq!(alive, *count, "{}: not every stream lives", way.name);
        values.push("alive", alive as f64);
        let worst = ["KiB near", "KiB far"].iter().filter_map(|name| values.get(name)).fold(0.0, f64::max);
        let words = format!("<= {MOST} KiB per connection and end");
        let target = way.against.is_some().then_some(Target { words, met: worst <= MOST });
        let row = Row::new("at rest", &way.name, *count, values);
        table.row(Row { target, ..row }, way.against);
    }
}

/// After a while: memory per stream, and what keeping them alive costs.
fn at_rest(way: &Way, before: &[u64], count: usize) -> Values {
    std::thread::sleep(REST);
    let (begun, spent) = (Instant::now(), way.spent());
    std::thread::sleep(REST);
    let busy = way.spent().saturating_sub(spent).as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
    let each = |end: usize| {
        let (Some(pid), Some(before)) = (way.processes.get(end), before.get(end)) else { return f64::NAN };
        meter::private(*pid).saturating_sub(*before) as f64 / 1024.0 / count as f64
    };
    Values(vec![("KiB near", each(0)), ("KiB far", each(1)), ("% of a core, both", busy)])
}

/// A process that holds streams.
pub struct Holder {
    pub streams: usize,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    _alive: Running,
}

impl Holder {
    /// Returns when all are open.
    pub fn open(way: &Way, streams: usize) -> Self {
        let load = Load { kind: Kind::Hold, at: way.at, streams, seconds: 0.0 };
        let mut command = way.caller("load", &load);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut holder = Self { streams, to, from, _alive: Running(child) };
        let opened = holder.hear();
        assert_eq!(opened.alive, streams, "{}: some ended at once", way.name);
        holder
    }

    pub fn ask(&mut self, word: &str) -> StreamCount {
        writeln!(self.to, "{word}").unwrap();
        self.hear()
    }

    fn hear(&mut self) -> StreamCount {
        let mut line = String::new();
        let _ = self.from.read_line(&mut line);
        serde_json::from_str(&line).unwrap_or_else(|why| panic!("the streams broke: {why}: {line}"))
    }
}

fn files() -> usize {
    usize::try_from(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)).unwrap_or(usize::MAX)
}

/// Each takes two files, and a process needs some for itself.
fn most() -> usize {
    files().saturating_sub(200) / 2
}
