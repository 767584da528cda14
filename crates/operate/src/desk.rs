//! Where an operator's tool hands things in: a gateway's folder opened here, or a gateway over the network.

use std::future::Future;

use org::refusal::Refusal;
use wire::connect::CallError;
use wire::control::{Answer, Call};

#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    // Not transparent: whoever reports it looks for the refusal among the causes.
    #[error("the gateway did not do it")]
    Refused(#[from] Refusal),
    #[error("the gateway did not do it")]
    Call(#[from] CallError),
    #[error("the gateway answered something else than was asked")]
    OtherAnswer,
}

/// Law: the answer depends on the gateway's ledger alone, not on the way by which it was asked.
pub trait Desk {
    fn ask(&mut self, call: Call) -> impl Future<Output = Result<Answer, DeskError>>;
}
