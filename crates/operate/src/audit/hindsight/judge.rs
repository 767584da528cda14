//! Could she, by one state of the ledger and one published map? Decides only.

use identity::principal::{NodeName, Principal, PrincipalKind};
use identity::time::Timestamp;
use manifest::stored::Caller;
use manifest::table::Table;
use org::audit::hindsight::believed;
use org::state::State;
use serde::Serialize;

use super::question::Question;

/// So many ways are told: one is enough to be let in.
const TOLD: usize = 20;
/// So many reasons.
const REASONS: usize = 10;

/// One way by which somebody is let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WayIn {
    pub from: NodeName,
    pub to: NodeName,
    pub row: Caller,
    pub words: String,
}

/// Every way that leads there, or what stands against it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub ways: Vec<WayIn>,
    pub against: Vec<String>,
}

impl Judgement {
    pub(crate) fn allows(&self) -> bool {
        !self.ways.is_empty()
    }

    fn against(why: impl Into<String>) -> Self {
        Self { ways: Vec::new(), against: vec![why.into()] }
    }
}

pub(crate) fn words(principal: &Principal) -> String {
    format!("{} `{}`", principal.kind().word(), principal.name())
}

pub(crate) fn judge(state: &State, table: Option<&Table>, question: &Question, at: Timestamp) -> Judgement {
    let (Some(record), Some(table)) = (state.head(), table) else {
        return Judgement::against("no fleet was published by then: nobody could reach anything");
    };
    let serving = Principal::service(&state.name, &question.what);
    for principal in [&question.who, &serving] {
        if state.revoked().principals.contains(principal) {
            return Judgement::against(format!("{} was revoked", words(principal)));
        }
        // Without one, no SVID of theirs is believed, however long it would last.
        if !record.head.mandates.iter().any(|mandate| mandate.is_active(at) && mandate.covers(principal)) {
            return Judgement::against(format!("no gateway had a mandate for {}", words(principal)));
        }
    }
    let mut then = Then { state, table, at, against: Vec::new() };
    let (callers, servers) = (then.homes(question), then.servers(question));
    let (mut ways, mut against) = (Vec::new(), then.against);
    for to in &servers {
        for from in &callers {
            let rows = table.rows(to, &question.what, &question.who, from);
            ways.extend(rows.into_iter().map(|row| WayIn {
                words: format!("from `{from}` to `{}` on `{to}`, by the row \"{row}\"", question.what),
                from: from.clone(),
                to: to.clone(),
                row,
            }));
            if ways.len() >= TOLD {
                return Judgement { ways, against: Vec::new() };
            }
        }
        if ways.is_empty() && !callers.is_empty() {
            against.push(format!("no row of `{}` on `{to}` let {} in", question.what, words(&question.who)));
        }
    }
    against.truncate(if ways.is_empty() { REASONS } else { 0 });
    Judgement { ways, against }
}

/// What was so at that moment, and what of it stands against the question.
struct Then<'a> {
    state: &'a State,
    table: &'a Table,
    at: Timestamp,
    against: Vec<String>,
}

impl Then<'_> {
    /// The machines that could speak for her and were believed.
    fn homes(&mut self, question: &Question) -> Vec<NodeName> {
        let who = &question.who;
        let all: Vec<NodeName> = match who.node_name() {
            Some(own) => vec![own],
            None => self.state.members.names().filter(|node| self.table.is_home(node, who)).cloned().collect(),
        };
        let here: Vec<&NodeName> =
            all.iter().filter(|node| question.from.as_ref().is_none_or(|from| from == *node)).collect();
        match (&question.from, here.is_empty(), all.is_empty()) {
            (Some(from), true, false) => self.against.push(format!("{} was not at home on `{from}`", words(who))),
            (_, true, _) => self.against.push(format!("{} was at home on no node", words(who))),
            (_, false, _) => {}
        }
        self.believed(&here)
    }

    fn servers(&mut self, question: &Question) -> Vec<NodeName> {
        let (state, table) = (self.state, self.table);
        let serving: Vec<&NodeName> = state.members.names().filter(|node| table.serves(node, &question.what)).collect();
        if serving.is_empty() {
            self.against.push(format!("`{}` listened nowhere", question.what));
        }
        self.believed(&serving)
    }

    fn believed(&mut self, nodes: &[&NodeName]) -> Vec<NodeName> {
        let mut good = Vec::new();
        for node in nodes {
            match believed(self.state, node, self.at) {
                Ok(()) => good.push((*node).clone()),
                Err(why) => self.against.push(why.to_string()),
            }
        }
        good
    }
}

/// Whether a machine can matter to the answer, in any of these maps.
pub(crate) fn concerns(tables: &[&Table], question: &Question, node: &NodeName) -> bool {
    let own = question.who.kind() == PrincipalKind::Node && question.who.name() == node.as_str();
    own || tables.iter().any(|table| table.is_home(node, &question.who) || table.serves(node, &question.what))
}
