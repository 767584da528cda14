//! Whether a signer has suspended this very machine: said aloud, and nothing is asked for meanwhile that it would not get.

use ground::clock;
use identity::causes::describe;
use identity::id::Digest;
use identity::key::Sign as _;
use identity::time::Timestamp;
use org::suspend::suspended::{Stopped, Suspended};

use crate::agent::Agent;
use crate::agent::schedule::Event;
use crate::store::scope::{Scope, ScopeError};
use crate::store::suspensions;

/// What is known of it, without the disk.
#[derive(Debug)]
pub(crate) struct Stop {
    own_key: Digest,
    stopped: Stopped,
    /// What enough operators signed is in the past, whatever a clock says.
    floor: Timestamp,
    /// What was said last.
    said: Option<Suspended>,
}

impl Stop {
    pub(crate) fn read(scope: &Scope) -> Result<Self, ScopeError> {
        let own_key = scope.node_key()?.public().digest();
        let (stopped, floor) = match scope.known()? {
            Some(known) => (suspensions::load(&scope.folder).stopped(&known.signers), known.head.head.issued_at),
            None => (Stopped::default(), Timestamp::from_unix(0)),
        };
        Ok(Self { own_key, stopped, floor, said: None })
    }

    pub(crate) fn now(&self) -> Option<&Suspended> {
        self.stopped.of(self.own_key, clock::now().max(self.floor))
    }
}

impl Agent {
    /// Something was exchanged: a suspension may have come with it.
    pub(super) fn read_suspensions(&mut self) {
        match Stop::read(&self.scope) {
            Ok(stop) => self.stop = Stop { said: self.stop.said.take(), ..stop },
            Err(why) => tracing::error!(why = describe(&why), "whether this machine is suspended cannot be read"),
        }
        self.show_suspended();
    }

    /// Says it when it begins, and when it is over.
    pub(super) fn show_suspended(&mut self) {
        let now = self.stop.now().cloned();
        self.tell(|status| status.suspended.clone_from(&now));
        if now == self.stop.said {
            return;
        }
        if let Some(stop) = &now {
            tracing::error!("{stop}; other nodes refuse it and it gets no SVID until then; it ends by itself");
            self.schedule.note(Event::Suspended { until: stop.until }, clock::now());
        } else {
            tracing::info!("this machine is no longer suspended");
            self.schedule.note(Event::Roused, clock::now());
        }
        self.stop.said = now;
    }
}
