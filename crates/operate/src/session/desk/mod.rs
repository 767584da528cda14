//! Where an operator's tool hands things in: a gateway's folder opened here, or a gateway over the network.

pub mod remote;
pub mod home;

use std::fmt::Debug;
use std::future::{Future, ready};
use std::pin::Pin;

use identity::id::Digest;
use identity::key::BadKey;
use ledger::error::LedgerError;
use org::refusal::Refusal;
use wire::connect::CallError;
use wire::control::{Call, ControlAnswer};

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
    #[error("an observer only looks, and this takes an operator")]
    OnlyObserves,
    #[error("no gateway answers, and this home never read or made {0}")]
    NotHome(Digest),
    #[error("this home's own copy of the ledger cannot be read")]
    Ledger(#[from] LedgerError),
    #[error("the gateway answered something else than was asked")]
    OtherAnswer,
}

impl DeskError {
    /// What the gateway said, if it refused.
    pub(crate) const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) | Self::Call(CallError::Refused(refusal)) => Some(refusal),
            Self::Call(_)
            | Self::Key(_)
            | Self::NoGateway
            | Self::OnlyObserves
            | Self::NotHome(_)
            | Self::Ledger(_)
            | Self::OtherAnswer => None,
        }
    }
}

/// What a gateway will answer.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<ControlAnswer, DeskError>> + Send + 'a>>;

/// Law: the answer depends on the gateway's ledger alone, not on the way by which it was asked.
pub trait Desk: Debug + Send {
    /// No gateway answers, or it tells only what is signed: what it knows beside that is not known.
    fn is_alone(&self) -> bool {
        false
    }

    /// The ledger comes from there: this home's own copy is brought up to date by it.
    fn brings(&self) -> bool {
        !self.is_alone()
    }

    /// A gateway that serves machines, too.
    fn is_served(&self) -> bool {
        false
    }

    /// What does not hold in the gateway's own file, where it is opened here. One that serves has looked itself.
    fn damage(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<String>, DeskError>> + Send + '_>> {
        Box::pin(ready(Ok(None)))
    }

    fn ask(&mut self, call: Call) -> Answering<'_>;
}
