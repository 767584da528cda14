//! Fleets for many nodes: each with a manifest of its own, or one for all.

use std::fmt::Write as _;

use identity::id::OrgId;
use manifest::fleet::Fleet;
use manifest::source::{SourceFile, read};

/// Whose manifests are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// They differ in one line, the node's own address.
    EachItsOwn,
    OneForAll,
}

/// Those with a service are declared by name, whatever the shape.
const HUBS: usize = 10;

/// What node of this number is called.
pub fn name(number: usize) -> String {
    if number < HUBS { format!("hub-{number}") } else { format!("n-{number}") }
}

/// Ten services that every node calls; the label `wave` changes every manifest.
pub fn yaml(org: OrgId, nodes: usize, shape: Shape, wave: usize) -> String {
    let mut text = format!("org:\n  name: harbor\n  id: \"{org}\"\ngroups: [beat]\n");
    text.push_str("roles:\n  operator:\n    allow: []\n  node:\n    allow: [beat]\n");
    let declared = match shape {
        Shape::EachItsOwn => nodes,
        Shape::OneForAll => nodes.min(HUBS),
    };
    text.push_str("nodes:\n");
    for node in 0..declared {
        let name = name(node);
        let _ = writeln!(text, "  {name}:\n    address: {name}.example:7444\n    labels: {{wave: w-{wave}}}");
    }
    if shape == Shape::OneForAll {
        let _ = writeln!(text, "classes:\n  all:\n    match: [\"n-*\"]\n    labels: {{wave: w-{wave}}}");
    }
    text.push_str("services:\n");
    for service in 0..nodes.min(HUBS) {
        let at = name(service);
        let _ = writeln!(text, "  s-{service}:\n    at: {at}\n    addr: 127.0.0.1:8080\n    groups: [beat]");
    }
    text.push_str("users:\n  ann:\n    roles: [operator]\n    nodes: [hub-0]\n");
    text
}

pub fn fleet(yaml: String) -> Fleet {
    let files = [SourceFile { path: "fleet.yaml".to_owned(), bytes: yaml.into_bytes() }];
    let told = read(&files, &|_| Err("none is delivered".to_owned()), &[]);
    told.unwrap_or_else(|complaints| panic!("the fleet does not hold: {complaints:?}")).0
}
