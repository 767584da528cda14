//! The signers are lost: the recovery keys name new ones, everybody is warned, and after the delay they take over.

use identity::envelope::Envelope;
use identity::head::Cause;
use identity::key::EdKey;
use identity::principal::NodeName;
use identity::signers::{BrokenChain, Quorum, Recovery};
use identity::time::Timestamp;
use org::ledger::draft::Wish;
use org::ledger::signers::Stance;
use wire::control::{Call, ControlAnswer};
use wire::known::Known;

use crate::key::{KeyError, SignerKeys};
use crate::pending::BadPending;
use crate::session::{Aim, Desk, DeskError, Made, NextHead, OperateError, Result, Session, Unsigned, Unwise};

/// The first head of the new signers, and the machines that it lists since the lost ones had let them in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    pub head: u64,
    pub taken_over: Vec<NodeName>,
}

/// A recovery, signed by as many recovery keys as are given. Where two sets claim one place, it settles that: it follows the
/// last set that nobody contests, and stands on the head that a replica stands on which follows neither.
pub fn draft(known: &Known, quorum: Quorum, keys: &[EdKey], at: Timestamp) -> Result<Envelope> {
    let (last, head, ahead) = match known.frozen(at) {
        Some(frozen) => {
            let own = (known.signers == frozen.last).then_some(known.head.digest);
            let head = frozen.named.or(own).or(frozen.stands_in);
            (frozen.last, head, 2)
        }
        None => (known.signers.clone(), Some(known.head.digest), 1),
    };
    let (version, settles) = (last.version + ahead, ahead == 2);
    let body = Recovery { version, previous: last.id, quorum, head, settles, at };
    let mut envelope = Envelope::seal(Some(known.org()), &body)?;
    for key in keys {
        envelope.sign(key).map_err(KeyError::from)?;
    }
    let by = last.version;
    let not_signed = |why| OperateError::Pending(BadPending::Signers(BrokenChain::NotSigned { version, by, why }));
    let _signed: Recovery = known.founding.record.recovery.open(known.org(), &envelope).map_err(not_signed)?;
    let Some(noticed) = known.notice(&envelope, at) else {
        return Err(Unwise::TooManyRecoveries.into());
    };
    match noticed.stance_of(envelope.digest(), at) {
        Stance::Waits { .. } | Stance::Taken => Ok(envelope),
        Stance::NotTaken => Err(Unwise::LeadsNowhere.into()),
    }
}

/// Tells the gateway, which tells everybody. From then on it counts.
pub async fn begin(desk: &mut dyn Desk, recovery: &Envelope) -> Result<Timestamp> {
    match desk.ask(Call::Recover { recovery: recovery.clone() }).await? {
        ControlAnswer::Recovering { due_at } => Ok(due_at),
        _ => Err(DeskError::OtherAnswer.into()),
    }
}

/// The first head of the new set. Machines whom the lost signers let in, and whom no head lists yet, would wait from now on:
/// it lists them.
pub fn draft_first(session: &Session, now: Timestamp) -> Result<(NextHead, Vec<NodeName>)> {
    let taken_over = session.state()?.replica.left_by_the_set_before(now);
    let wish = Wish { list: taken_over.values().copied().collect(), ..Wish::default() };
    Ok((session.next_head(now, Aim::new(Cause::SignersInstall, wish), |_| {})?, taken_over.into_keys().collect()))
}

/// After the delay the new set is in force by itself; its first head says so to everybody.
pub async fn finish(session: &mut Session, keys: &SignerKeys, recovery: &Envelope) -> Result<Made<Recovered>> {
    session
        .publish(keys, |session, now| {
            let (next, taken_over) = draft_first(session, now)?;
            let what = Recovered { head: next.head.version, taken_over };
            Ok(Unsigned { objects: vec![recovery.clone()], next: Some(next), what })
        })
        .await
}
