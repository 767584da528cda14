//! What a gateway's refusal says about whether it took something.

use identity::id::OrgId;
use org::entry::Action;
use org::refusal::Refusal;
use wire::connect::CallError;

use crate::desk::DeskError;

pub fn refusal(why: &DeskError) -> Option<&Refusal> {
    match why {
        DeskError::Refused(refusal) | DeskError::Call(CallError::Refused(refusal)) => Some(refusal),
        DeskError::Call(_) | DeskError::Key(_) | DeskError::NoGateway | DeskError::OtherAnswer => None,
    }
}

/// A clear no: the gateway did not take it.
pub fn is_a_refusal(why: &DeskError) -> bool {
    refusal(why).is_some_and(|refusal| !matches!(refusal, Refusal::Failed { .. } | Refusal::Busy { .. }))
}

pub fn is_farewell(org: OrgId, action: &Action, why: &DeskError) -> bool {
    action.installs(org).is_some() && matches!(refusal(why), Some(Refusal::NotAnOperator))
}

pub fn is_about_turn(why: &DeskError) -> bool {
    matches!(refusal(why), Some(Refusal::LedgerRefuses { .. }))
}
