//! What a gateway's refusal says about whether it took something.

use org::refusal::Refusal;
use wire::connect::CallError;

use crate::pending::handed::Handed;
use crate::session::desk::DeskError;

pub fn refusal(why: &DeskError) -> Option<&Refusal> {
    match why {
        DeskError::Refused(refusal) | DeskError::Call(CallError::Refused(refusal)) => Some(refusal),
        DeskError::Call(_)
        | DeskError::Key(_)
        | DeskError::NoGateway
        | DeskError::NotHome(_)
        | DeskError::OtherAnswer => None,
    }
}

/// Whoever signed their own successors is a signer no longer.
pub fn is_farewell(handed: &Handed, why: &DeskError) -> bool {
    handed.step().is_some() && matches!(refusal(why), Some(Refusal::NotAnOperator))
}

pub fn is_about_turn(why: &DeskError) -> bool {
    matches!(refusal(why), Some(Refusal::LedgerRefuses { .. }))
}
