//! Where an operator's tool hands things in: a gateway's folder opened here, or a gateway over the network.

pub mod refused;
pub mod remote;
pub mod home;

use std::future::Future;

use identity::id::Digest;
use identity::key::BadKey;
use org::refusal::Refusal;
use wire::connect::CallError;
use wire::control::{Answer, Call};

#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("the call could not be signed")]
    Key(#[from] BadKey),
    #[error("no gateway answers, and this takes one")]
    NoGateway,
    #[error("no gateway answers, and this home never read or made {0}")]
    NotHome(Digest),
    #[error("the gateway answered something else than was asked")]
    OtherAnswer,
}

/// Law: the answer depends on the gateway's ledger alone, not on the way by which it was asked.
pub trait Desk {
    /// The gateway's folder itself, on this machine: its ledger is as near as a copy of it would be.
    fn is_here(&self) -> bool {
        false
    }

    /// This home's own copy, since no gateway answers: what only a gateway knows is not known.
    fn is_alone(&self) -> bool {
        false
    }

    fn ask(&mut self, call: Call) -> impl Future<Output = Result<Answer, DeskError>>;
}
