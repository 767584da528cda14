//! Trust on first use: the first key met under a name counts here at once, and for good once the agent wrote it down.

use std::collections::{BTreeMap, HashMap};
use std::sync::{PoisonError, RwLock};

use identity::id::Digest;
use identity::principal::NodeName;

/// Names whose first key is remembered.
pub const MOST: usize = 20_000;

#[derive(Debug, Default)]
pub struct Pins(RwLock<HashMap<NodeName, Pin>>);

#[derive(Debug, Clone, Copy)]
struct Pin {
    node_key: Digest,
    /// The agent said so.
    is_kept: bool,
}

/// What became of a key that was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entered {
    /// It is written down, or there is no room to remember it.
    Known,
    /// It counts from now on; whoever writes such things down has not said so yet.
    New,
    /// Somebody else came first.
    Another,
}

impl Pins {
    /// What is written down, beside what is known already.
    pub(crate) fn keep(&self, kept: impl IntoIterator<Item = (NodeName, Digest)>) {
        let mut pins = self.0.write().unwrap_or_else(PoisonError::into_inner);
        pins.extend(kept.into_iter().map(|(name, node_key)| (name, Pin { node_key, is_kept: true })));
    }

    pub(crate) fn of(&self, name: &NodeName) -> Option<Digest> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).map(|pin| pin.node_key)
    }

    /// A key that was verified under a name. It stays behind another one, unless it may take that one's place.
    pub(crate) fn enter(&self, name: &NodeName, node_key: Digest, replaces: impl FnOnce(Digest) -> bool) -> Entered {
        let mut pins = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match pins.get(name) {
            Some(pin) if pin.node_key == node_key && pin.is_kept => return Entered::Known,
            Some(pin) if pin.node_key == node_key => return Entered::New,
            Some(pin) if !replaces(pin.node_key) => return Entered::Another,
            None if pins.len() >= MOST => return Entered::Known,
            Some(_) | None => {}
        }
        pins.insert(name.clone(), Pin { node_key, is_kept: false });
        Entered::New
    }
}

impl From<BTreeMap<NodeName, Digest>> for Pins {
    fn from(kept: BTreeMap<NodeName, Digest>) -> Self {
        let pins = Self::default();
        pins.keep(kept);
        pins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Digest = Digest([1; 32]);
    const OTHER: Digest = Digest([2; 32]);

    #[test]
    fn the_first_key_stays_until_another_may_take_its_place() {
        let (pins, name) = (Pins::default(), "web-1".parse().unwrap());
        assert_eq!(pins.enter(&name, ONE, |_| false), Entered::New);
        assert_eq!(pins.enter(&name, ONE, |_| false), Entered::New, "until it is written down");
        assert_eq!(pins.enter(&name, OTHER, |_| false), Entered::Another);
        pins.keep([(name.clone(), ONE)]);
        assert_eq!(pins.enter(&name, ONE, |_| false), Entered::Known);
        assert_eq!(pins.enter(&name, OTHER, |old| old == ONE), Entered::New);
        assert_eq!(pins.of(&name), Some(OTHER));
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let pins = Pins::default();
        pins.keep((0..MOST).map(|n| (format!("web-{n}").parse().unwrap(), ONE)));
        assert_eq!(pins.enter(&"late".parse().unwrap(), ONE, |_| false), Entered::Known);
        assert_eq!(pins.of(&"late".parse().unwrap()), None);
        assert_eq!(pins.enter(&"web-7".parse().unwrap(), OTHER, |_| true), Entered::New, "who is there can change");
    }
}
