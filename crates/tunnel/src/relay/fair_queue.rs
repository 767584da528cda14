//! Fair queueing of callers that wait for one node: round robin by the node from which they call. Decides only.

use std::collections::VecDeque;

use identity::principal::NodeName;

/// Of one calling node: it makes a few connections at once, and needs no more.
pub(super) const OF_ONE: usize = 64;

/// However often a node stands here, each of the others has its turn before that one has its next.
#[derive(Debug)]
pub(super) struct FairQueue<T>(VecDeque<(NodeName, VecDeque<T>)>);

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> FairQueue<T> {
    /// Behind the others of its own node. False if they are as many as may be.
    pub(super) fn push(&mut self, from: &NodeName, caller: T) -> bool {
        match self.0.iter_mut().find(|(node, _)| node == from) {
            Some((_, own)) if own.len() >= OF_ONE => return false,
            Some((_, own)) => own.push_back(caller),
            None => self.0.push_back((from.clone(), VecDeque::from([caller]))),
        }
        true
    }

    /// The oldest of the node whose turn it is. Then it is the turn of all others first.
    pub(super) fn pop(&mut self) -> Option<T> {
        let (node, mut own) = self.0.pop_front()?;
        let caller = own.pop_front();
        if !own.is_empty() {
            self.0.push_back((node, own));
        }
        caller
    }

    /// Whoever is gone has no turn.
    pub(super) fn retain(&mut self, is_there: impl Fn(&T) -> bool) {
        self.0.retain_mut(|(_, own)| {
            own.retain(&is_there);
            !own.is_empty()
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parks this many of each.
    fn queue_of(nodes: &[(&'static str, usize)]) -> FairQueue<(&'static str, usize)> {
        let mut queue = FairQueue::default();
        for (name, count) in nodes {
            for nth in 0..*count {
                assert_eq!(queue.push(&name.parse().unwrap(), (*name, nth)), nth < OF_ONE, "{name} {nth}");
            }
        }
        queue
    }

    fn order(queue: &mut FairQueue<(&'static str, usize)>) -> Vec<(&'static str, usize)> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn whoever_stands_there_once_is_second_behind_one_that_stands_there_many_times() {
        let mut queue = queue_of(&[("mallory", 120), ("beta", 1)]);
        let order = order(&mut queue);
        assert_eq!(order[..3], [("mallory", 0), ("beta", 0), ("mallory", 1)]);
        assert_eq!(order.len(), OF_ONE + 1);
        assert!(queue.is_empty());
    }

    #[test]
    fn whoever_comes_again_and_again_has_every_second_turn() {
        let mut queue = queue_of(&[("mallory", 10)]);
        for nth in 0..5 {
            assert!(queue.push(&"beta".parse().unwrap(), ("beta", nth)));
            assert_eq!(queue.pop(), Some(("mallory", nth)));
            // One that is served comes back at once, and gains nothing by it.
            assert!(queue.push(&"mallory".parse().unwrap(), ("mallory", 10 + nth)));
            assert_eq!(queue.pop(), Some(("beta", nth)));
        }
    }

    #[test]
    fn nodes_take_turns_and_each_is_served_in_its_own_order() {
        let mut queue = queue_of(&[("a", 3), ("b", 2), ("c", 1)]);
        assert_eq!(order(&mut queue), [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("b", 1), ("a", 2)]);
    }

    #[test]
    fn whoever_is_gone_leaves_its_place_to_others() {
        let mut queue = queue_of(&[("a", OF_ONE), ("b", 1)]);
        queue.retain(|(name, nth)| *name == "a" && *nth > 0);
        assert!(queue.push(&"a".parse().unwrap(), ("a", OF_ONE)));
        assert!(!queue.push(&"a".parse().unwrap(), ("a", OF_ONE + 1)));
        queue.retain(|(_, nth)| *nth == OF_ONE);
        assert_eq!(order(&mut queue), [("a", OF_ONE)]);
    }
}
