//! The gateway's word about how far its ledger is: what nodes keep, and hold against it if it ever falls back.

use std::sync::{Mutex, PoisonError};

use identity::envelope::Envelope;
use identity::key::EdKey;
use identity::principal::Author;
use identity::time::Timestamp;
use org::frontier::{Place, Tip};
use org::refusal::Refusal;
use org::state::State;

/// The gateway as an author: its name and its voice.
#[derive(Debug)]
pub struct OwnVoice {
    pub author: Author,
    pub key: EdKey,
}

/// Signs tips; the last one serves as long as it says the same.
#[derive(Debug)]
pub struct Tips {
    voice: OwnVoice,
    last: Mutex<Option<(Place, Timestamp, Envelope)>>,
}

impl Tips {
    pub const fn new(voice: OwnVoice) -> Self {
        Self { voice, last: Mutex::new(None) }
    }

    pub const fn voice(&self) -> &OwnVoice {
        &self.voice
    }

    /// Whoever calls this holds a state that is on disk.
    pub fn tip(&self, state: &State, at: Timestamp) -> Result<Envelope, Refusal> {
        let failed = |why: String| Refusal::Failed { why };
        let place = state.frontier.place_of(&self.voice.author).copied();
        let place = place.ok_or_else(|| failed("the gateway has no chain yet".to_owned()))?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, envelope)) = last.as_ref().filter(|(of, when, _)| (*of, *when) == (place, at)) {
            return Ok(envelope.clone());
        }
        let body = Tip { author: self.voice.author.clone(), place, at };
        let envelope = Envelope::seal(Some(state.org), &body).map_err(|why| failed(why.to_string()))?;
        let envelope = envelope.signed(&self.voice.key).map_err(|why| failed(why.to_string()))?;
        *last = Some((place, at, envelope.clone()));
        Ok(envelope)
    }
}
