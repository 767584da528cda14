//! No gateway answers: what this home's own copy of the ledger says is looked at, and nothing is changed.

use identity::id::Digest;
use identity::text::Bytes;
use identity::time::Timestamp;
use ledger::views;
use org::refusal::Refusal;
use org::state::State;
use wire::control::{Answer, Call, Survey};

use crate::desk::{Desk, DeskError};
use crate::folder::{Memory, OperatorFolder};
use crate::replica::Replica;
use crate::session::OperateError;

const ROWS_PER_PAGE: u32 = 1_000;

/// Answers from the copy. What only a gateway knows (who was seen when, SVIDs, machines that wait) is not there.
#[derive(Debug)]
pub struct HomeDesk {
    replica: Replica,
    memory: Memory,
    as_of: Timestamp,
}

impl HomeDesk {
    /// Nothing if this home never saw a ledger.
    pub fn open(folder: &OperatorFolder) -> Result<Option<Self>, OperateError> {
        let memory = folder.memory()?;
        let Some(as_of) = memory.pulled_at else { return Ok(None) };
        let replica = Replica::open(folder, &folder.known()?)?.unlocked();
        let empty = replica.state.head().is_none();
        Ok((!empty).then_some(Self { replica, memory, as_of }))
    }

    /// When the copy was last brought up to date.
    pub const fn as_of(&self) -> Timestamp {
        self.as_of
    }

    fn survey(&self) -> Option<Survey> {
        let state = &self.replica.state;
        Some(Survey {
            frontier: state.frontier.clone(),
            head: state.head()?.envelope.clone(),
            signers: state.signer_chain(1),
            tip: None,
            gateway: self.memory.gateway.clone()?,
            addresses: self.memory.gateways.clone(),
            halt: None,
            recoveries: Vec::new(),
            mark: None,
            forks: state.fold.forks.keys().copied().collect(),
        })
    }

    fn admission(&self, node_key: Digest) -> Result<Answer, DeskError> {
        let given = self.replica.state.members.get(&node_key).map(|member| member.admission.digest);
        let entry = given.map(|admission| self.replica.ledger.entry(admission)).transpose().map_err(failed)?;
        Ok(Answer::Document(entry.flatten()))
    }

    fn entries(&self, after: u64) -> Result<Answer, DeskError> {
        let rows = self.replica.ledger.entries(after, ROWS_PER_PAGE).map_err(failed)?;
        let full = u32::try_from(rows.len()) == Ok(ROWS_PER_PAGE);
        let next = rows.last().filter(|_| full).map(|(id, _)| *id);
        Ok(Answer::Entries { entries: rows.into_iter().map(|(_, envelope)| envelope).collect(), next })
    }
}

fn failed(why: impl std::error::Error) -> DeskError {
    DeskError::Refused(Refusal::Failed { why: why.to_string() })
}

impl Desk for HomeDesk {
    async fn ask(&mut self, call: Call) -> Result<Answer, DeskError> {
        let state: &State = &self.replica.state;
        match call {
            Call::Survey { .. } => {
                self.survey().map(|survey| Answer::Survey(Box::new(survey))).ok_or(DeskError::NoGateway)
            }
            Call::Nodes { .. } => {
                let nodes = state.members.iter().map(|(key, member)| views::node(state, *key, member)).collect();
                Ok(Answer::Nodes { nodes, next: None })
            }
            Call::Invites { .. } => {
                let records = state.invite_ids.keys().filter_map(|id| state.invite(*id)).map(|(_, record)| record);
                let invites = records.map(|record| views::invite(state, record)).collect();
                Ok(Answer::Invites { invites, next: None })
            }
            Call::Admission { node_key } => self.admission(node_key),
            Call::Invite { id } => Ok(Answer::Document(state.invite(id).map(|(_, record)| record.envelope.clone()))),
            Call::Entries { after } => self.entries(after),
            Call::Waivers {} => Ok(Answer::Waivers { waivers: state.open_waivers().cloned().collect() }),
            Call::Bundles {} => {
                Ok(Answer::Bundles { bundles: state.bundles.values().map(|it| it.envelope.clone()).collect() })
            }
            Call::Issuers {} => Ok(Answer::Issuers { issuers: Vec::new() }),
            Call::Releases {} => {
                let releases = state.releases.values().map(|record| record.envelope.clone()).collect();
                Ok(Answer::Releases { releases, current: state.release().map(|record| record.envelope.digest()) })
            }
            Call::Map { root, from } => {
                let leaves =
                    if from == 0 { self.replica.ledger.map(root, 0, usize::MAX).map_err(failed)? } else { Vec::new() };
                Ok(Answer::Map { leaves, next: None })
            }
            Call::Blobs { digests } => {
                let blobs = digests.iter().filter_map(|digest| self.replica.ledger.blob(*digest).transpose());
                let blobs = blobs.collect::<Result<Vec<_>, _>>().map_err(failed)?;
                Ok(Answer::Blobs { blobs: blobs.into_iter().map(Bytes).collect() })
            }
            Call::MapChange { .. } => Ok(Answer::MapChange(None)),
            // It has what it has.
            Call::Beyond { .. } => Ok(Answer::Beyond { entries: Vec::new(), more: false }),
            Call::Take { .. }
            | Call::Hand { .. }
            | Call::Recover { .. }
            | Call::Missing { .. }
            | Call::Stage { .. }
            | Call::StagePart { .. }
            | Call::StageMap { .. }
            | Call::StageChange { .. }
            | Call::Spare { .. }
            | Call::FilesMissing { .. }
            | Call::FilePart { .. }
            | Call::FilesSweep { .. }
            | Call::Waiting { .. }
            | Call::Reports { .. }
            | Call::Peers {} => Err(DeskError::NoGateway),
        }
    }
}
