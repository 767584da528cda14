//! What a machine that proved nothing must not be: a provider, a relay, an operator's.

use std::collections::BTreeSet;
use std::fmt;

use identity::members::ClassLeaves;
use identity::principal::{Name, NodeName};
use manifest::compile::Compiled;
use manifest::fleet::{Fleet, ROLE_OPERATOR};
use manifest::stored::Manifest;

use super::members::Member;
use crate::replica::published::nodes;

/// A machine of low assurance, and what the fleet would have it be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooLow {
    pub name: NodeName,
    pub what: String,
}

impl fmt::Display for TooLow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` would {}", self.name, self.what)
    }
}

/// Users who run the org.
pub(crate) fn operators(fleet: &Fleet) -> BTreeSet<Name> {
    let runs = |roles: &BTreeSet<Name>| roles.iter().any(|role| role.as_str() == ROLE_OPERATOR);
    fleet.users.iter().filter(|(_, user)| runs(&user.roles)).map(|(name, _)| name.clone()).collect()
}

/// Every place that is too good for its machine.
pub(crate) fn find(members: &[Member], compiled: &Compiled, operators: &BTreeSet<Name>) -> Vec<TooLow> {
    let low: BTreeSet<&NodeName> = members.iter().filter(|member| member.low).map(|it| &it.known.name).collect();
    let (mut found, classes) = (Vec::new(), ClassLeaves::of(&compiled.leaves));
    for leaf in nodes(&compiled.leaves).filter(|leaf| low.contains(&leaf.name)) {
        let digest = classes.manifest_of(leaf);
        let read = digest.and_then(|digest| Manifest::read(compiled.manifests.get(&digest)?, digest).ok());
        let Some(runs) = read.map(|manifest| manifest.runs) else {
            continue;
        };
        let services = runs.services.keys().map(|service| format!("provide the service `{service}`"));
        let relay = runs.relay.then(|| "relay the traffic of others".to_owned());
        let users = runs.users.intersection(operators).map(|user| format!("be a machine of the operator `{user}`"));
        let all = services.chain(relay).chain(users);
        found.extend(all.map(|what| TooLow { name: leaf.name.clone(), what }));
    }
    found
}
