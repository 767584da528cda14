//! Which schema of manifests (API version) every node can read, and who holds it back.

use identity::principal::NodeName;
use manifest::stored::SCHEMA;

use super::members::Member;
use crate::session::reports::Reports;

/// The highest schema that all nodes read that were ever heard. One that was not heard yet holds nobody back: a manifest
/// that it cannot read it refuses, says so, and stays what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommonSchema {
    pub schema: u32,
    /// Nodes that read no higher one, if this program could write one.
    pub held_back_by: Vec<NodeName>,
    pub not_heard: Vec<NodeName>,
}

impl CommonSchema {
    pub fn of(members: &[Member], reports: &Reports) -> Self {
        let said = |member: &Member| reports.get(&member.known.node_key).map(|heard| heard.report.schema);
        let read = |schema: u32| schema.clamp(1, SCHEMA);
        let schema = members.iter().filter_map(said).map(read).min().unwrap_or(SCHEMA);
        let named = |fits: &dyn Fn(Option<u32>) -> bool| {
            let fit = members.iter().filter(|member| fits(said(member)));
            fit.map(|member| member.known.name.clone()).collect()
        };
        let held_back_by =
            if schema < SCHEMA { named(&|said| said.is_some_and(|said| read(said) == schema)) } else { Vec::new() };
        Self { schema, held_back_by, not_heard: named(&|said| said.is_none()) }
    }
}
