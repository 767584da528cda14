//! What the agent tells a gateway about this node, signed by the node key.

use identity::envelope::Envelope;
use identity::key::Sign as _;
use identity::principal::Address;
use identity::time::{Seconds, Timestamp};
use manifest::stored::SCHEMA;
use org::report::{Applied, Mark, ProgramTold, Refused, Report, TrustTold, plain};
use wire::known::Known;

use crate::apply::view::ApplyView;
use crate::ask::error::{AskError, BadAnswer};
use crate::store::scope::{NodeFile, Scope};

/// A report but for its time: said again only if it says something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    node: NodeFile,
    head: Mark,
    applied: Applied,
    refused: Option<Refused>,
    trust: Option<TrustTold>,
    left: Option<Mark>,
    beside: Option<Address>,
    programs: Vec<ProgramTold>,
}

/// What the rest of the agent knows.
#[derive(Debug)]
pub(crate) struct Knows<'a> {
    pub left: Option<Mark>,
    pub view: &'a ApplyView,
    pub trust: Option<TrustTold>,
    pub refused: Option<&'a Refused>,
    pub programs: Vec<ProgramTold>,
}

pub(crate) fn of(node: &NodeFile, known: &Known, Knows { left, view, trust, refused, programs }: Knows<'_>) -> Told {
    let applied = match (&view.trial, &view.rolled_back, view.confirmed) {
        (Some(trial), _, _) => Applied::OnTrial {
            manifest: trial.digest,
            previous: trial.previous,
            deadline: trial.deadline,
            waits: trial.waits_for.iter().map(|wait| plain(wait)).take(32).collect(),
        },
        (None, Some(back), _) => {
            Applied::RolledBack { manifest: back.digest, to: back.to, at: back.at, why: plain(&back.why) }
        }
        (None, None, Some(manifest)) => Applied::Settled { manifest },
        (None, None, None) => Applied::Nothing,
    };
    let head = Mark { version: known.head.head.version, digest: known.head.digest };
    Told { node: node.clone(), head, applied, refused: refused.cloned(), trust, left, beside: None, programs }
}

/// What gateways were told of this node, and when.
#[derive(Debug)]
pub(crate) struct Reports {
    last: Option<Told>,
    at: Timestamp,
}

impl Default for Reports {
    fn default() -> Self {
        Self { last: None, at: Timestamp::from_unix(0) }
    }
}

impl Reports {
    pub(crate) const fn last(&self) -> Option<&Told> {
        self.last.as_ref()
    }

    pub(crate) fn told(&mut self, told: Told) {
        self.last = Some(told);
    }

    /// Of two words within one second, told to two gateways, the second must be the later one to both.
    pub(crate) fn next_at(&mut self, now: Timestamp) -> Timestamp {
        let lately = self.at >= now && self.at.since(now) < Seconds::MINUTE;
        self.at = if lately { self.at + Seconds(1) } else { now };
        self.at
    }
}

/// So long the operators can read that a gateway lied, also after another one told the truth.
const REMEMBERED: Seconds = Seconds::DAY;

impl Told {
    /// The gateway that hears it was found where it is not by its mandate.
    pub(crate) fn found(self, beside: Option<Address>) -> Self {
        Self { beside, ..self }
    }

    /// What was refused before, if that is worth saying still.
    pub(crate) fn refused_lately(&self, now: Timestamp) -> Option<&Refused> {
        self.refused.as_ref().filter(|refused| now.since(refused.at) < REMEMBERED)
    }

    pub(crate) fn signed(&self, scope: &Scope, at: Timestamp) -> Result<Envelope, AskError> {
        let node_key = scope.node_key()?;
        let report = Report {
            node: self.node.name.clone(),
            node_key: node_key.public(),
            at,
            head: self.head,
            schema: SCHEMA,
            applied: self.applied.clone(),
            refused: self.refused.clone(),
            agent: env!("CARGO_PKG_VERSION").to_owned(),
            trust: self.trust.clone(),
            left: self.left,
            beside: self.beside.clone(),
            programs: self.programs.clone(),
        };
        let envelope = Envelope::seal(Some(self.node.org_id), &report).map_err(BadAnswer::from)?;
        Ok(envelope.signed(&node_key).map_err(BadAnswer::Key)?)
    }
}
