//! What one map has that another has not: so that a map of ten thousand leaves need not travel when one of them changes.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::Digest;

/// Digests of leaves. It proves nothing: whoever applies it computes the root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapChange {
    pub come: Vec<Digest>,
    pub go: Vec<Digest>,
}

impl MapChange {
    /// From the leaves of one map to those of another.
    pub fn between(old: &[Digest], new: &[Digest]) -> Self {
        let (before, after): (BTreeSet<_>, BTreeSet<_>) = (old.iter().collect(), new.iter().collect());
        Self {
            come: after.difference(&before).map(|leaf| **leaf).collect(),
            go: before.difference(&after).map(|leaf| **leaf).collect(),
        }
    }

    pub const fn len(&self) -> usize {
        self.come.len() + self.go.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nothing if it is no change of these leaves: one comes that is there, or one goes that is not.
    pub fn apply(&self, base: Vec<Digest>) -> Option<Vec<Digest>> {
        let come: BTreeSet<&Digest> = self.come.iter().collect();
        let mut go: BTreeSet<&Digest> = self.go.iter().collect();
        let distinct = come.len() == self.come.len() && go.len() == self.go.len();
        if !distinct || base.iter().any(|leaf| come.contains(leaf)) {
            return None;
        }
        let mut leaves = base;
        leaves.retain(|leaf| !go.remove(leaf));
        leaves.extend(&self.come);
        go.is_empty().then_some(leaves)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leaves() -> impl Strategy<Value = Vec<Digest>> {
        prop::collection::btree_set(0_u8..40, 0..20).prop_map(|set| set.into_iter().map(|n| Digest([n; 32])).collect())
    }

    proptest! {
        #[test]
        fn what_lies_between_two_maps_leads_from_one_to_the_other(old in leaves(), new in leaves()) {
            let change = MapChange::between(&old, &new);
            let mut led = change.apply(old.clone()).unwrap();
            led.sort_unstable();
            prop_assert_eq!(&led, &new);
            prop_assert_eq!(change.is_empty(), old == new);
            prop_assert!(change.is_empty() || change.apply(new).is_none(), "it is a change of other leaves");
        }
    }

    #[test]
    fn nothing_comes_or_goes_twice() {
        let leaf = Digest([1; 32]);
        assert_eq!(MapChange { come: vec![leaf, leaf], go: Vec::new() }.apply(Vec::new()), None);
        assert_eq!(MapChange { come: Vec::new(), go: vec![leaf, leaf] }.apply(vec![leaf]), None);
    }
}
