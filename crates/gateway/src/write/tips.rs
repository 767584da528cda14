//! The gateway's word about how far its ledger is: what nodes keep, and hold against it if it ever falls back.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use identity::envelope::Envelope;
use identity::head::Recorded;
use identity::id::Digest;
use identity::key::{EdKey, PublicKey, Sign as _};
use identity::principal::NodeName;
use identity::time::Timestamp;
use member::store::scope::ScopeError;
use org::ledger::frontier::Tip;
use org::refusal::{Fault, Refusal};
use org::state::State;
use wire::written::Written;

use crate::fault::{OrFault as _, failed};
use crate::store::folder::GatewayFolder;

/// The gateway's name, and the key that signs its chain.
#[derive(Debug)]
pub struct OwnVoice {
    pub gateway: NodeName,
    pub key: EdKey,
}

impl OwnVoice {
    pub fn public(&self) -> PublicKey {
        self.key.public()
    }
}

/// Signs tips; the last one serves as long as it says the same.
#[derive(Debug)]
pub struct Tips {
    folder: GatewayFolder,
    /// Another one, once operators have it begin another chain.
    voice: ArcSwap<OwnVoice>,
    said: Mutex<Said>,
    /// Held while the voice's files are drawn or moved.
    drawing: Mutex<()>,
}

/// The last tip, and the names of those before it. Nodes show them again when they next ask; what was said here need
/// not be looked up on disk.
#[derive(Debug, Default)]
struct Said {
    last: Option<Word>,
    names: HashSet<Digest>,
    oldest_first: VecDeque<Digest>,
}

#[derive(Debug)]
struct Word {
    place: Recorded,
    at: Timestamp,
    envelope: Envelope,
    written: Written,
}

/// One is made each second at most, or with each commit.
const REMEMBERED: usize = 4_096;

impl Said {
    fn keep(&mut self, place: Recorded, at: Timestamp, envelope: Envelope) -> &Word {
        let name = envelope.digest();
        if self.names.insert(name) {
            self.oldest_first.push_back(name);
        }
        if self.oldest_first.len() > REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.names.remove(&oldest);
        }
        let written = Written::of(&envelope);
        self.last.insert(Word { place, at, envelope, written })
    }
}

impl Tips {
    pub fn new(folder: GatewayFolder, voice: OwnVoice) -> Self {
        Self { folder, voice: ArcSwap::from_pointee(voice), said: Mutex::default(), drawing: Mutex::default() }
    }

    /// The voice in which it would begin another chain, and the one of now.
    pub fn spare(&self) -> Result<(PublicKey, Arc<OwnVoice>), ScopeError> {
        let _drawing = self.drawing.lock().unwrap_or_else(PoisonError::into_inner);
        let voice = self.voice();
        self.folder.settle_voice(voice.public())?;
        Ok((self.folder.spare_voice()?.public(), voice))
    }

    /// The spare voice, if the head in force gives the mandate to it.
    pub fn next(&self, state: &State) -> Option<OwnVoice> {
        let voice = self.voice();
        let named = state.head()?.head.mandate_of(&voice.gateway)?.voice;
        if named == voice.public() || state.revoked().voices.contains(&named) {
            return None;
        }
        match self.folder.next_voice() {
            Ok(next) => {
                let key = next.filter(|next| next.public() == named)?;
                Some(OwnVoice { gateway: voice.gateway.clone(), key })
            }
            Err(why) => {
                tracing::error!(%why, "the voice that the mandate names cannot be read");
                None
            }
        }
    }

    /// From now on it speaks in this voice: what it said in it is on disk.
    pub fn go_over(&self, next: Arc<OwnVoice>) {
        let _drawing = self.drawing.lock().unwrap_or_else(PoisonError::into_inner);
        let voice = next.public();
        self.voice.store(next);
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Said::default();
        // If it dies here, or cannot, the next start finds the right one by the head.
        if let Err(why) = self.folder.settle_voice(voice) {
            tracing::error!(%why, "the voice in use could not be put in its place yet");
        }
    }

    /// Was this said here? Then it is on disk, whoever repeats it: its name covers every word of it.
    pub fn has_said(&self, word: &Envelope) -> bool {
        let name = word.digest();
        self.said.lock().unwrap_or_else(PoisonError::into_inner).names.contains(&name)
    }

    pub fn voice(&self) -> Arc<OwnVoice> {
        self.voice.load_full()
    }

    /// Whoever calls this holds a state that is on disk.
    pub fn tip(&self, state: &State, at: Timestamp) -> Result<Envelope, Refusal> {
        self.say(state, at, |word| word.envelope.clone())
    }

    /// The same, as it stands in an answer.
    pub fn written(&self, state: &State, at: Timestamp) -> Result<Written, Refusal> {
        self.say(state, at, |word| word.written.clone())
    }

    fn say<T>(&self, state: &State, at: Timestamp, told: impl FnOnce(&Word) -> T) -> Result<T, Refusal> {
        let voice = self.voice();
        let place = state.frontier.place_of(&voice.public());
        let place = place.ok_or_else(|| failed(Fault::Program, &NoChain))?;
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(word) = said.last.as_ref().filter(|last| (last.place, last.at) == (place, at)) {
            return Ok(told(word));
        }
        let body = Tip { voice: voice.public(), place, at };
        let envelope = Envelope::seal(Some(state.org), &body).or_fault(Fault::Keys)?;
        let envelope = envelope.signed(&voice.key).or_fault(Fault::Keys)?;
        Ok(told(said.keep(place, at, envelope)))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the gateway has no chain yet")]
struct NoChain;

#[cfg(test)]
mod tests {
    use identity::id::OrgId;

    use super::*;

    fn tip(seq: u64, at: i64) -> (Recorded, Timestamp, Envelope) {
        let place = Recorded { seq, digest: Digest([1; 32]) };
        let at = Timestamp::from_unix(at);
        let body = Tip { voice: EdKey::from_seed(&[1; 32]).public(), place, at };
        (place, at, Envelope::seal(Some(OrgId([7; 32])), &body).unwrap())
    }

    #[test]
    fn what_was_said_here_is_known_word_by_word_and_not_for_ever() {
        let folder = GatewayFolder { folder: std::path::PathBuf::new() };
        let tips = Tips::new(folder, OwnVoice { gateway: "gw-1".parse().unwrap(), key: EdKey::from_seed(&[1; 32]) });
        let say = |(place, at, envelope)| _ = tips.said.lock().unwrap().keep(place, at, envelope);
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
