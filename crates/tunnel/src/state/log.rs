//! The access log: a line for each stream that was opened, refused, cut or closed, and for those who were not believed. It
//! never makes a stream wait.
//!
//! To be refused costs nothing: so only some refusals are told one by one, and the rest as a number. Nobody turns the log
//! over by knocking.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ground::clock;
use identity::principal::{Name, NodeName, Principal};
use identity::time::Timestamp;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::state::log_limit::{LogLimit, Most};
use crate::state::streams::Direction;

/// Lines that wait for a slow disk. A line has a few hundred bytes.
const WAITING: usize = 8_192;
/// Where one comes, others follow, and to be woken for each and to write each costs more than the line: so long they are
/// gathered.
const GATHER: Duration = Duration::from_millis(20);
/// Refusals within a minute: of one principal, and of all.
const REFUSED: Most = Most { of_one: 10, of_all: 300 };
/// Of those who were not believed: from one address, and in all.
const STRANGERS: Most = Most { of_one: 5, of_all: 20 };
/// Of those among them who showed what one of our issuing keys signed: they may be thieves, and strangers take no line of theirs.
const IMPOSTORS: Most = Most { of_one: 10, of_all: 100 };
/// What is told of an error, at most.
const REASON: usize = 300;

#[derive(Debug)]
pub(crate) struct AccessLog {
    lines: mpsc::Sender<LogLine>,
    /// Until somebody writes them down.
    unread: Mutex<Option<mpsc::Receiver<LogLine>>>,
    dropped: AtomicU64,
    refused: Mutex<LogLimit<Principal>>,
    strangers: Mutex<LogLimit<Option<IpAddr>>>,
    impostors: Mutex<LogLimit<(Principal, Option<IpAddr>)>>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct LogLine {
    pub at: Timestamp,
    pub event: LogEvent,
    /// `in`: a service here was called. `out`: somebody here called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way: Option<&'static str>,
    /// For those who were not believed: who they say they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<Principal>,
    /// Where the caller is, or for `out` where the service is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<&'static str>,
    /// Where somebody came from who was not believed; absent if a relay brought it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<SocketAddr>,
    pub head: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carried: Option<CarriedBytes>,
    /// So many of the same were not told one by one.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: u64,
    /// Lines that found no room before this one.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogEvent {
    Opened,
    Refused,
    /// Somebody wanted in, and was not believed.
    NotBelieved,
    /// The same, since a signer has suspended its machine.
    Suspended,
    /// Ended by a new head or table.
    Cut,
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct CarriedBytes {
    /// From the caller to the service, and back.
    pub sent: u64,
    pub received: u64,
    pub milliseconds: u64,
}

/// What all lines of one stream have in common.
#[derive(Debug, Clone)]
pub(crate) struct LogSubject {
    pub direction: Direction,
    pub who: Principal,
    pub node: NodeName,
    pub service: Name,
    pub transport: &'static str,
}

/// What happened to a stream.
#[derive(Debug)]
pub(crate) struct LogEntry {
    pub event: LogEvent,
    pub reason: Option<String>,
    pub carried: Option<CarriedBytes>,
}

impl LogEntry {
    pub(crate) const fn opened() -> Self {
        Self { event: LogEvent::Opened, reason: None, carried: None }
    }

    pub(crate) const fn refused(why: String) -> Self {
        Self { event: LogEvent::Refused, reason: Some(why), carried: None }
    }
}

/// Somebody who was not believed.
#[derive(Debug)]
pub(crate) struct Stranger {
    pub event: LogEvent,
    pub claims: Option<Principal>,
    pub from: Option<SocketAddr>,
    pub transport: &'static str,
    pub why: String,
}

impl Default for AccessLog {
    fn default() -> Self {
        let (lines, unread) = mpsc::channel(WAITING);
        Self {
            lines,
            unread: Mutex::new(Some(unread)),
            dropped: AtomicU64::new(0),
            refused: Mutex::new(LogLimit::new(REFUSED)),
            strangers: Mutex::new(LogLimit::new(STRANGERS)),
            impostors: Mutex::new(LogLimit::new(IMPOSTORS)),
        }
    }
}

impl AccessLog {
    /// Writes the lines from now on, in a thread of its own. Once: who comes second gets nothing.
    pub(crate) fn write_to(&self, mut out: impl Write + Send + 'static) -> std::io::Result<Option<JoinHandle<()>>> {
        let Some(mut lines) = locked(&self.unread).take() else {
            return Ok(None);
        };
        let write = move || {
            let mut text = Vec::new();
            while let Some(first) = lines.blocking_recv() {
                std::thread::sleep(GATHER);
                for line in std::iter::once(first).chain(std::iter::from_fn(|| lines.try_recv().ok())) {
                    let Ok(line) = serde_json::to_vec(&line) else { continue };
                    text.extend_from_slice(&line);
                    text.push(b'\n');
                }
                if let Err(why) = out.write_all(&text).and_then(|()| out.flush()) {
                    tracing::warn!(%why, "lines of the access log were not written");
                }
                text.clear();
            }
        };
        std::thread::Builder::new().name("access log".to_owned()).spawn(write).map(Some)
    }

    pub(crate) fn say(&self, subject: &LogSubject, entry: LogEntry, head: u64) {
        let LogEntry { event, reason, carried } = entry;
        let now = Instant::now();
        if event == LogEvent::Refused && !self.may_refuse(&subject.who, head, now) {
            return;
        }
        let line = LogLine {
            way: Some(match subject.direction {
                Direction::In => "in",
                Direction::Out => "out",
            }),
            who: Some(subject.who.clone()),
            node: Some(subject.node.clone()),
            service: Some(subject.service.clone()),
            transport: Some(subject.transport),
            reason: reason.map(|why| cut(&why)),
            carried,
            ..LogLine::new(event, head)
        };
        self.write_down(line);
    }

    /// Who was not believed, and why.
    pub(crate) fn turned_away(&self, stranger: Stranger, head: u64) {
        let now = Instant::now();
        self.tell_rest(head, now);
        let Stranger { event, claims, from, transport, why } = stranger;
        let address = from.map(|from| from.ip().to_canonical());
        let passes = match &claims {
            Some(who) => locked(&self.impostors).passes(&(who.clone(), address), now),
            None => locked(&self.strangers).passes(&address, now),
        };
        if passes {
            let (who, transport, reason) = (claims, Some(transport), Some(cut(&why)));
            self.write_down(LogLine { who, transport, from, reason, ..LogLine::new(event, head) });
        }
    }

    /// How many were not told one by one, when their minute is over. To be called now and then.
    pub(crate) fn tell_rest(&self, head: u64, now: Instant) {
        for (who, more) in locked(&self.refused).roll_over(now) {
            let (who, reason) = (who, Some(format!("and {more} more within a minute")));
            self.write_down(LogLine { who, reason, more, ..LogLine::new(LogEvent::Refused, head) });
        }
        let strangers =
            locked(&self.strangers).roll_over(now).into_iter().map(|(from, more)| (None, from.flatten(), more));
        let impostors = locked(&self.impostors).roll_over(now).into_iter();
        let impostors = impostors.map(|(known, more)| match known {
            Some((who, from)) => (Some(who), from, more),
            None => (None, None, more),
        });
        for (who, from, more) in strangers.chain(impostors) {
            let from = from.map(|ip| SocketAddr::new(ip, 0));
            let reason = Some(format!("and {more} more within a minute"));
            self.write_down(LogLine { who, from, reason, more, ..LogLine::new(LogEvent::NotBelieved, head) });
        }
    }

    fn may_refuse(&self, who: &Principal, head: u64, now: Instant) -> bool {
        self.tell_rest(head, now);
        locked(&self.refused).passes(who, now)
    }

    fn write_down(&self, line: LogLine) {
        let lost = self.dropped.swap(0, Ordering::Relaxed);
        if self.lines.try_send(LogLine { lost, ..line }).is_err() {
            self.dropped.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }
}

impl LogLine {
    fn new(event: LogEvent, head: u64) -> Self {
        Self {
            at: clock::now(),
            event,
            way: None,
            who: None,
            node: None,
            service: None,
            transport: None,
            from: None,
            head,
            reason: None,
            carried: None,
            more: 0,
            lost: 0,
        }
    }
}

fn locked<T>(one: &Mutex<T>) -> MutexGuard<'_, T> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A reason may hold what a stranger said.
fn cut(why: &str) -> String {
    why.chars().take(REASON).collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> LogSubject {
        LogSubject {
            direction: Direction::In,
            who: "spiffe://harbor/node/beta".parse().unwrap(),
            node: "beta".parse().unwrap(),
            service: "wiki".parse().unwrap(),
            transport: "tls",
        }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_told_later() {
        let log = AccessLog::default();
        for _ in 0..WAITING + 3 {
            log.say(&subject(), LogEntry::opened(), 1);
        }
        let mut unread = log.unread.lock().unwrap().take().unwrap();
        assert_eq!(unread.try_recv().unwrap().lost, 0);
        let closed = LogEntry { event: LogEvent::Closed, reason: None, carried: None };
        log.say(&subject(), closed, 1);
        let mut last = unread.try_recv().unwrap();
        while let Ok(line) = unread.try_recv() {
            last = line;
        }
        assert_eq!((last.event, last.lost), (LogEvent::Closed, 3));
    }

    fn read(log: &AccessLog) -> Vec<LogLine> {
        let mut unread = log.unread.lock().unwrap();
        std::iter::from_fn(|| unread.as_mut().unwrap().try_recv().ok()).collect()
    }

    #[test]
    fn refusals_of_one_do_not_turn_the_log_over() {
        let (log, begun) = (AccessLog::default(), Instant::now());
        for _ in 0..5_000 {
            log.say(&subject(), LogEntry::refused("no".to_owned()), 1);
        }
        log.say(&subject(), LogEntry::opened(), 1);
        assert_eq!(read(&log).len(), 11, "ten refusals, and what was opened");
        // Nobody else has to come for the rest to be told.
        log.tell_rest(2, begun + crate::state::log_limit::WINDOW * 2);
        let rest = read(&log);
        let told: Vec<_> = rest.iter().map(|line| (line.event, line.more, line.who.clone())).collect();
        assert_eq!(told, [(LogEvent::Refused, 4_990, Some(subject().who))]);
        log.say(&subject(), LogEntry { event: LogEvent::Refused, reason: None, carried: None }, 2);
        assert_eq!(read(&log).len(), 1);
    }

    #[test]
    fn strangers_keep_no_impostor_out_of_the_log() {
        let log = AccessLog::default();
        let stranger = |claims: Option<Principal>, last: u8| Stranger {
            event: LogEvent::NotBelieved,
            claims,
            from: Some(SocketAddr::from(([10, 0, 0, last], 4_000))),
            transport: "tls",
            why: "no".to_owned(),
        };
        (0..200).for_each(|n| log.turned_away(stranger(None, n), 1));
        assert_eq!(read(&log).len(), 20);
        log.turned_away(stranger(Some(subject().who), 1), 1);
        assert_eq!(read(&log).iter().map(|line| line.who.clone()).collect::<Vec<_>>(), [Some(subject().who)]);
    }

    #[test]
    fn who_was_not_believed_is_told_and_bounded() {
        let log = AccessLog::default();
        let stranger = |last: u8| Stranger {
            event: LogEvent::NotBelieved,
            claims: Some(subject().who),
            from: Some(SocketAddr::from(([10, 0, 0, last], 4_000))),
            transport: "tls",
            why: "x".repeat(5_000),
        };
        for n in 0..200 {
            log.turned_away(stranger(n % 2), 1);
        }
        let lines = read(&log);
        assert_eq!(lines.len(), 20);
        let text = serde_json::to_value(&lines[0]).unwrap();
        assert_eq!((&text["event"], &text["from"]), (&"not_believed".into(), &"10.0.0.0:4000".into()));
        assert_eq!((&text["who"], text["reason"].as_str().unwrap().len()), (&"spiffe://harbor/node/beta".into(), 300));
        for n in 0..200 {
            log.turned_away(stranger(n), 1);
        }
        assert_eq!(read(&log).len(), 80, "in all, not more than are told of all");
    }
}
