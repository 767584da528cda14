//! The access log: one line per stream that was opened, refused, cut or closed. It never makes a stream wait.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use ground::clock;
use identity::principal::{Name, NodeName, Principal};
use identity::time::Timestamp;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::live::Way;

/// Lines that wait for a slow disk. A line has a few hundred bytes.
const WAITING: usize = 8_192;

#[derive(Debug)]
pub struct AccessLog {
    lines: mpsc::Sender<Line>,
    /// Until somebody writes them down.
    unread: Mutex<Option<mpsc::Receiver<Line>>>,
    dropped: AtomicU64,
}

#[derive(Debug, Clone, Serialize)]
pub struct Line {
    pub at: Timestamp,
    pub event: Event,
    /// `in`: a service here was called. `out`: somebody here called.
    pub way: &'static str,
    pub who: Principal,
    /// Where the caller is, or for `out` where the service is.
    pub node: NodeName,
    pub service: Name,
    pub transport: &'static str,
    pub head: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carried: Option<Carried>,
    /// Lines that found no room before this one.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    Opened,
    Refused,
    /// Ended by a new head or table.
    Cut,
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Carried {
    /// From the caller to the service, and back.
    pub sent: u64,
    pub received: u64,
    pub milliseconds: u64,
}

/// What all lines of one stream have in common.
#[derive(Debug, Clone)]
pub struct Subject {
    pub way: Way,
    pub who: Principal,
    pub node: NodeName,
    pub service: Name,
    pub transport: &'static str,
}

impl Default for AccessLog {
    fn default() -> Self {
        let (lines, unread) = mpsc::channel(WAITING);
        Self { lines, unread: Mutex::new(Some(unread)), dropped: AtomicU64::new(0) }
    }
}

impl AccessLog {
    /// Writes the lines from now on, in a thread of its own. Once: who comes second gets nothing.
    pub fn write_to(&self, mut out: impl Write + Send + 'static) -> std::io::Result<Option<JoinHandle<()>>> {
        let Some(mut lines) = self.unread.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(None);
        };
        let write = move || {
            while let Some(line) = lines.blocking_recv() {
                let Ok(mut text) = serde_json::to_vec(&line) else { continue };
                text.push(b'\n');
                if let Err(why) = out.write_all(&text).and_then(|()| out.flush()) {
                    tracing::warn!(%why, "a line of the access log was not written");
                }
            }
        };
        std::thread::Builder::new().name("access log".to_owned()).spawn(write).map(Some)
    }

    pub fn say(
        &self,
        (event, reason): (Event, Option<String>),
        subject: &Subject,
        head: u64,
        carried: Option<Carried>,
    ) {
        let lost = self.dropped.swap(0, Ordering::Relaxed);
        let line = Line {
            at: clock::now(),
            event,
            way: match subject.way {
                Way::In => "in",
                Way::Out => "out",
            },
            who: subject.who.clone(),
            node: subject.node.clone(),
            service: subject.service.clone(),
            transport: subject.transport,
            head,
            reason,
            carried,
            lost,
        };
        if self.lines.try_send(line).is_err() {
            self.dropped.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject {
            way: Way::In,
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
            log.say((Event::Opened, None), &subject(), 1, None);
        }
        let mut unread = log.unread.lock().unwrap().take().unwrap();
        assert_eq!(unread.try_recv().unwrap().lost, 0);
        log.say((Event::Closed, None), &subject(), 1, None);
        let mut last = unread.try_recv().unwrap();
        while let Ok(line) = unread.try_recv() {
            last = line;
        }
        assert_eq!((last.event, last.lost), (Event::Closed, 3));
    }
}
