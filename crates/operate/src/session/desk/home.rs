//! No gateway answers: what this home's own copy of the ledger says is looked at, and nothing is changed.

use std::future::ready;

use identity::id::Digest;
use identity::text::Bytes;
use identity::time::Timestamp;
use wire::control::{Call, ControlAnswer, Survey};

use crate::folder::{Memory, OperatorFolder};
use crate::replica::Replica;
use crate::session::desk::{Answering, Desk, DeskError};

/// Answers from the copy. What only a gateway knows (who was seen when, SVIDs, machines that wait) is not there.
#[derive(Debug)]
pub struct HomeDesk {
    replica: Replica,
    memory: Memory,
    as_of: Timestamp,
}

impl HomeDesk {
    /// Nothing if this home never saw a ledger, or its copy cannot be read.
    pub fn open(folder: &OperatorFolder) -> Option<Self> {
        let memory = folder.memory().ok()?;
        let as_of = memory.pulled_at?;
        let replica = Replica::open(folder, &folder.known().ok()?).ok()?.unlocked();
        replica.state.head()?;
        Some(Self { replica, memory, as_of })
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
            signers: state.told_steps(1),
            tip: None,
            gateway: self.memory.gateway.clone()?,
            addresses: self.memory.gateways.clone(),
            halt: None,
            recoveries: Vec::new(),
            mark: None,
            forks: state.judged.fold.forks.keys().copied().collect(),
        })
    }
}

impl HomeDesk {
    fn answer(&self, call: Call) -> Result<ControlAnswer, DeskError> {
        match call {
            Call::Survey { .. } => {
                self.survey().map(|survey| ControlAnswer::Survey(Box::new(survey))).ok_or(DeskError::NoGateway)
            }
            Call::Issuers {} => Ok(ControlAnswer::Issuers { issuers: Vec::new() }),
            Call::Map { root, from } => {
                let leaves = if from == 0 { self.replica.ledger.map(root, 0, usize::MAX)? } else { Vec::new() };
                if leaves.is_empty() {
                    Err(DeskError::NotHome(root))
                } else {
                    Ok(ControlAnswer::Map { leaves, next: None })
                }
            }
            Call::Blobs { digests } => {
                let read = |digest: &Digest| match self.replica.ledger.blob(*digest)? {
                    Some(bytes) => Ok(Bytes(bytes)),
                    None => Err(DeskError::NotHome(*digest)),
                };
                Ok(ControlAnswer::Blobs { blobs: digests.iter().map(read).collect::<Result<_, _>>()? })
            }
            Call::MapChange { .. } => Ok(ControlAnswer::MapChange(None)),
            // It has what it has.
            Call::Beyond { .. } => Ok(ControlAnswer::Beyond { entries: Vec::new(), more: false }),
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
            | Call::Leave { .. }
            | Call::Inbox { .. }
            | Call::Withdraw { .. }
            | Call::Reports { .. }
            | Call::Observed { .. }
            | Call::Peers {} => Err(DeskError::NoGateway),
        }
    }
}

impl Desk for HomeDesk {
    fn is_alone(&self) -> bool {
        true
    }

    fn ask(&mut self, call: Call) -> Answering<'_> {
        Box::pin(ready(self.answer(call)))
    }
}
