//! The access table (a compiled ACL) as it is asked at each stream's opening: immutable, hashed by name, swapped whole.

use std::collections::{HashMap, HashSet};

use identity::principal::glob::NameGlob;
use identity::principal::{Name, NodeName, Principal};
use identity::time::Seconds;
use manifest::stored::{Access, Caller, Place};

/// Tables that all must permit. None at all: nobody is permitted anything.
#[derive(Debug, Default)]
pub struct AccessTables(Vec<Table>);

#[derive(Debug, Default)]
struct Table {
    services: HashMap<Name, Rules>,
    stale: Option<(Seconds, Rules)>,
}

/// Rows, by what finds them.
#[derive(Debug, Default)]
struct Rules {
    placed: HashMap<Principal, Vec<Place>>,
    nodes: HashSet<NodeName>,
    classes: Vec<NameGlob>,
    any_node: bool,
}

impl AccessTables {
    pub fn new(all: &[Access]) -> Self {
        Self(all.iter().map(Table::new).collect())
    }

    /// May this principal, on that node, call the service that listens here? Rows for a name or a class are for nodes that are
    /// meant by it; whoever only came under such a name has what any node has.
    pub(crate) fn permits(&self, service: &Name, principal: &Principal, node: &NodeName, meant: bool) -> bool {
        let rules =
            |table: &Table| table.services.get(service).is_some_and(|rules| rules.match_one(principal, node, meant));
        !self.0.is_empty() && self.0.iter().all(rules)
    }

    /// How long after its end a head still lets this caller open something; nothing if there is no such bound.
    pub(crate) fn margin(&self, principal: &Principal, node: &NodeName) -> Option<Seconds> {
        let stale = self.0.iter().filter_map(|table| table.stale.as_ref());
        // A bound is for whoever could be meant.
        stale.filter(|(_, rules)| rules.match_one(principal, node, true)).map(|(margin, _)| *margin).min()
    }

    pub(crate) fn rules(&self) -> usize {
        let count =
            |rules: &Rules| rules.placed.len() + rules.nodes.len() + rules.classes.len() + usize::from(rules.any_node);
        self.0.iter().flat_map(|table| table.services.values()).map(count).sum()
    }
}

impl Table {
    fn new(access: &Access) -> Self {
        let services = access.callers.iter().map(|(service, rows)| (service.clone(), Rules::new(rows)));
        let stale = access.stale.as_ref().map(|stale| (stale.margin, Rules::new(&stale.callers)));
        Self { services: services.collect(), stale }
    }
}

impl Rules {
    fn new(rows: &[Caller]) -> Self {
        let mut rules = Self::default();
        for row in rows {
            match row {
                Caller::Placed { principal, at } => {
                    rules.placed.entry(principal.clone()).or_default().extend(at.iter().cloned());
                }
                Caller::Node(name) => {
                    rules.nodes.insert(name.clone());
                }
                Caller::Class { names, .. } => rules.classes.extend(names.iter().cloned()),
                Caller::AnyNode => rules.any_node = true,
            }
        }
        rules
    }

    fn match_one(&self, principal: &Principal, node: &NodeName, meant: bool) -> bool {
        if let Some(own) = principal.node_name() {
            let by_name = || self.nodes.contains(node) || self.classes.iter().any(|glob| glob.matches(node.as_str()));
            return own == *node && (self.any_node || meant && by_name());
        }
        let here = |place: &Place| place.covers(node);
        meant && self.placed.get(principal).is_some_and(|at| at.iter().any(here))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node() -> impl Strategy<Value = NodeName> {
        prop::sample::select(vec!["web-1", "web-2", "db-1", "laptop"]).prop_map(|name| name.parse().unwrap())
    }

    fn service() -> impl Strategy<Value = Name> {
        prop::sample::select(vec!["wiki", "db", "git"]).prop_map(|name| name.parse().unwrap())
    }

    fn globs() -> impl Strategy<Value = Vec<NameGlob>> {
        let glob = prop::sample::select(vec!["web-*", "db-*", "lap*"]).prop_map(|glob| glob.parse().unwrap());
        prop::collection::vec(glob, 0..3)
    }

    fn place() -> impl Strategy<Value = Place> {
        prop_oneof![
            node().prop_map(Place::Node),
            globs().prop_map(|names| Place::Class { class: "some".parse().unwrap(), names }),
        ]
    }

    fn principal() -> impl Strategy<Value = Principal> {
        let text = prop::sample::select(vec![
            "spiffe://harbor/user/alice",
            "spiffe://harbor/user/web-1",
            "spiffe://harbor/service/wiki",
            "spiffe://harbor/node/web-1",
            "spiffe://harbor/node/laptop",
            "spiffe://other/node/web-1",
            "spiffe://other/user/alice",
        ]);
        text.prop_map(|text| text.parse().unwrap())
    }

    fn row() -> impl Strategy<Value = Caller> {
        let placed = (principal(), prop::collection::vec(place(), 0..3));
        prop_oneof![
            placed.prop_map(|(principal, at)| Caller::Placed { principal, at }),
            node().prop_map(Caller::Node),
            globs().prop_map(|names| Caller::Class { class: "some".parse().unwrap(), names }),
            Just(Caller::AnyNode),
        ]
    }

    fn access() -> impl Strategy<Value = Access> {
        let callers = prop::collection::btree_map(service(), prop::collection::vec(row(), 0..4), 0..3);
        callers.prop_map(|callers| Access { callers, ..Access::default() })
    }

    proptest! {
        /// The naive answer reads the rows one by one.
        #[test]
        fn the_table_says_what_the_rows_say(
            all in prop::collection::vec(access(), 0..3), service in service(), who in principal(), node in node(),
        ) {
            let naive = !all.is_empty() && all.iter().all(|access| access.permits(&service, &who, &node));
            prop_assert_eq!(AccessTables::new(&all).permits(&service, &who, &node, true), naive);
        }

        /// Whoever is not meant to be of a class has what it would have if there were none.
        #[test]
        fn rows_for_a_name_or_a_class_are_not_for_whoever_only_has_such_a_name(
            all in prop::collection::vec(access(), 0..3), service in service(), who in principal(), node in node(),
        ) {
            let mut nameless = all.clone();
            for rows in nameless.iter_mut().flat_map(|access| access.callers.values_mut()) {
                rows.retain(|row| matches!(row, Caller::AnyNode));
            }
            let naive = !all.is_empty() && nameless.iter().all(|access| access.permits(&service, &who, &node));
            prop_assert_eq!(AccessTables::new(&all).permits(&service, &who, &node, false), naive);
        }
    }

    #[test]
    fn no_table_permits_nothing() {
        let (wiki, who) = ("wiki".parse().unwrap(), "spiffe://harbor/node/beta".parse().unwrap());
        assert!(!AccessTables::new(&[]).permits(&wiki, &who, &"beta".parse().unwrap(), true));
    }
}
