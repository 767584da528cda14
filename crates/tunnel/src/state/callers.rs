//! Who is connected here by its own call: from which node, by which transport, and with how many streams.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ground::clock;
use identity::principal::NodeName;
use identity::time::Timestamp;

use crate::control::view::CallerView;

#[derive(Debug, Default)]
pub(crate) struct Callers(Mutex<BTreeMap<Key, Counts>>);

/// A node, and `tls`, `quic` or `relay`.
type Key = (NodeName, &'static str);

#[derive(Debug)]
struct Counts {
    since: Timestamp,
    head: u64,
    connections: usize,
    streams: usize,
}

/// Counted as long as it is held.
#[derive(Debug)]
pub(crate) struct CountedCaller {
    callers: Arc<Callers>,
    key: Key,
    what: What,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Connection,
    Stream,
}

impl Callers {
    /// A connection, and the head that the node goes by.
    pub(crate) fn connected(self: &Arc<Self>, node: &NodeName, transport: &'static str, head: u64) -> CountedCaller {
        let present = self.enter((node.clone(), transport), What::Connection);
        if let Some(counts) = self.inside().get_mut(&present.key) {
            counts.head = head;
        }
        present
    }

    pub(crate) fn opened(self: &Arc<Self>, node: &NodeName, transport: &'static str) -> CountedCaller {
        self.enter((node.clone(), transport), What::Stream)
    }

    fn enter(self: &Arc<Self>, key: Key, what: What) -> CountedCaller {
        let new = || Counts { since: clock::now(), head: 0, connections: 0, streams: 0 };
        *self.inside().entry(key.clone()).or_insert_with(new).of(what) += 1;
        CountedCaller { callers: Arc::clone(self), key, what }
    }

    pub(crate) fn views(&self) -> Vec<CallerView> {
        let view = |((node, transport), counts): (&Key, &Counts)| CallerView {
            node: node.clone(),
            transport: (*transport).to_owned(),
            since: counts.since,
            connections: counts.connections,
            streams: counts.streams,
            head: counts.head,
        };
        self.inside().iter().map(view).collect()
    }

    fn inside(&self) -> MutexGuard<'_, BTreeMap<Key, Counts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    const fn of(&mut self, what: What) -> &mut usize {
        match what {
            What::Connection => &mut self.connections,
            What::Stream => &mut self.streams,
        }
    }
}

impl Drop for CountedCaller {
    fn drop(&mut self) {
        let mut inside = self.callers.inside();
        if let Some(counts) = inside.get_mut(&self.key) {
            let count = counts.of(self.what);
            *count = count.saturating_sub(1);
            if counts.connections == 0 && counts.streams == 0 {
                inside.remove(&self.key);
            }
        }
    }
}
