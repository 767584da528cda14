//! Whose turn it is among callers that wait for one node: in turn by the node from which they call. Decides only.

use std::collections::VecDeque;

use identity::principal::NodeName;

/// Of one calling node: it makes a few connections at once, and needs no more.
pub const OF_ONE: usize = 64;

/// However often a node stands here, each of the others has its turn before that one has its next.
#[derive(Debug)]
pub struct Parked<T>(VecDeque<(NodeName, VecDeque<T>)>);

impl<T> Default for Parked<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Parked<T> {
    /// Behind the others of its own node. False if they are as many as may be.
    pub fn park(&mut self, from: &NodeName, caller: T) -> bool {
        match self.0.iter_mut().find(|(node, _)| node == from) {
            Some((_, own)) if own.len() >= OF_ONE => return false,
            Some((_, own)) => own.push_back(caller),
            None => self.0.push_back((from.clone(), VecDeque::from([caller]))),
        }
        true
    }

    /// The oldest of the node whose turn it is. Then it is the turn of all others first.
    pub fn turn(&mut self) -> Option<T> {
        let (node, mut own) = self.0.pop_front()?;
        let caller = own.pop_front();
        if !own.is_empty() {
            self.0.push_back((node, own));
        }
        caller
    }

    /// Whoever is gone has no turn.
    pub fn retain(&mut self, is_there: impl Fn(&T) -> bool) {
        self.0.retain_mut(|(_, own)| {
            own.retain(&is_there);
            !own.is_empty()
        });
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parks this many of each.
    fn parked(nodes: &[(&'static str, usize)]) -> Parked<(&'static str, usize)> {
        let mut parked = Parked::default();
        for (name, count) in nodes {
            for nth in 0..*count {
                assert_eq!(parked.park(&name.parse().unwrap(), (*name, nth)), nth < OF_ONE, "{name} {nth}");
            }
        }
        parked
    }

    fn order(parked: &mut Parked<(&'static str, usize)>) -> Vec<(&'static str, usize)> {
        std::iter::from_fn(|| parked.turn()).collect()
    }

    #[test]
    fn whoever_stands_there_once_is_second_behind_one_that_stands_there_many_times() {
        let mut parked = parked(&[("mallory", 120), ("beta", 1)]);
        let order = order(&mut parked);
        assert_eq!(order[..3], [("mallory", 0), ("beta", 0), ("mallory", 1)]);
        assert_eq!(order.len(), OF_ONE + 1);
        assert!(parked.is_empty());
    }

    #[test]
    fn whoever_comes_again_and_again_has_every_second_turn() {
        let mut parked = parked(&[("mallory", 10)]);
        for nth in 0..5 {
            assert!(parked.park(&"beta".parse().unwrap(), ("beta", nth)));
            assert_eq!(parked.turn(), Some(("mallory", nth)));
            // One that is served comes back at once, and gains nothing by it.
            assert!(parked.park(&"mallory".parse().unwrap(), ("mallory", 10 + nth)));
            assert_eq!(parked.turn(), Some(("beta", nth)));
        }
    }

    #[test]
    fn nodes_take_turns_and_each_is_served_in_its_own_order() {
        let mut parked = parked(&[("a", 3), ("b", 2), ("c", 1)]);
        assert_eq!(order(&mut parked), [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("b", 1), ("a", 2)]);
    }

    #[test]
    fn whoever_is_gone_leaves_its_place_to_others() {
        let mut parked = parked(&[("a", OF_ONE), ("b", 1)]);
        parked.retain(|(name, nth)| *name == "a" && *nth > 0);
        assert!(parked.park(&"a".parse().unwrap(), ("a", OF_ONE)));
        assert!(!parked.park(&"a".parse().unwrap(), ("a", OF_ONE + 1)));
        parked.retain(|(_, nth)| *nth == OF_ONE);
        assert_eq!(order(&mut parked), [("a", OF_ONE)]);
    }
}
