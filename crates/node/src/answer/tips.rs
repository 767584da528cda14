//! The gateway's word about how far its ledger is: what nodes keep, and hold against it if it ever falls back.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use identity::envelope::Envelope;
use identity::head::Recorded;
use identity::id::Digest;
use identity::key::{EdKey, Sign as _};
use identity::principal::NodeName;
use identity::time::Timestamp;
use org::frontier::Tip;
use org::refusal::Refusal;
use org::state::State;

/// The gateway's name, and the key that signs its chain.
#[derive(Debug)]
pub struct OwnVoice {
    pub gateway: NodeName,
    pub key: EdKey,
}

/// Signs tips; the last one serves as long as it says the same.
#[derive(Debug)]
pub struct Tips {
    voice: OwnVoice,
    said: Mutex<Said>,
}

/// The last tip, and the names of those before it. Nodes show them again when they next ask; what was said here need
/// not be looked up on disk.
#[derive(Debug, Default)]
struct Said {
    last: Option<(Recorded, Timestamp, Envelope)>,
    names: HashSet<Digest>,
    oldest_first: VecDeque<Digest>,
}

/// One is made each second at most, or with each commit.
const REMEMBERED: usize = 4_096;

impl Said {
    fn keep(&mut self, place: Recorded, at: Timestamp, envelope: Envelope) {
        let name = envelope.digest();
        if self.names.insert(name) {
            self.oldest_first.push_back(name);
        }
        if self.oldest_first.len() > REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.names.remove(&oldest);
        }
        self.last = Some((place, at, envelope));
    }
}

impl Tips {
    pub fn new(voice: OwnVoice) -> Self {
        Self { voice, said: Mutex::default() }
    }

    /// Was this said here? Then it is on disk, whoever repeats it: its name covers every word of it.
    pub fn has_said(&self, word: &Envelope) -> bool {
        let name = word.digest();
        self.said.lock().unwrap_or_else(PoisonError::into_inner).names.contains(&name)
    }

    pub const fn voice(&self) -> &OwnVoice {
        &self.voice
    }

    /// Whoever calls this holds a state that is on disk.
    pub fn tip(&self, state: &State, at: Timestamp) -> Result<Envelope, Refusal> {
        let failed = |why: String| Refusal::Failed { why };
        let place = state.frontier.place_of(&self.voice.key.public());
        let place = place.ok_or_else(|| failed("the gateway has no chain yet".to_owned()))?;
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, envelope)) = said.last.as_ref().filter(|(of, when, _)| (*of, *when) == (place, at)) {
            return Ok(envelope.clone());
        }
        let body = Tip { voice: self.voice.key.public(), place, at };
        let envelope = Envelope::seal(Some(state.org), &body).map_err(|why| failed(why.to_string()))?;
        let envelope = envelope.signed(&self.voice.key).map_err(|why| failed(why.to_string()))?;
        said.keep(place, at, envelope.clone());
        Ok(envelope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::id::OrgId;

    fn tip(seq: u64, at: i64) -> (Recorded, Timestamp, Envelope) {
        let place = Recorded { seq, digest: Digest([1; 32]) };
        let at = Timestamp::from_unix(at);
        let body = Tip { voice: EdKey::from_seed(&[1; 32]).public(), place, at };
        (place, at, Envelope::seal(Some(OrgId([7; 32])), &body).unwrap())
    }

    #[test]
    fn what_was_said_here_is_known_word_by_word_and_not_for_ever() {
        let tips = Tips::new(OwnVoice { gateway: "gw-1".parse().unwrap(), key: EdKey::from_seed(&[1; 32]) });
        let say = |(place, at, envelope)| tips.said.lock().unwrap().keep(place, at, envelope);
        assert!(!tips.has_said(&tip(1, 10).2));
        say(tip(1, 10));
        say(tip(1, 10));
        assert!(tips.has_said(&tip(1, 10).2));
        assert!(!tips.has_said(&tip(2, 10).2) && !tips.has_said(&tip(1, 11).2), "another place, another time");
        for at in 0..i64::try_from(REMEMBERED).unwrap() {
            say(tip(2, at));
        }
        assert!(!tips.has_said(&tip(1, 10).2) && tips.has_said(&tip(2, 0).2), "the oldest one is looked up again");
        let said = tips.said.lock().unwrap();
        assert_eq!((said.names.len(), said.oldest_first.len()), (REMEMBERED, REMEMBERED));
    }
}
