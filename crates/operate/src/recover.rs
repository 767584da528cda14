//! The signers are lost: the recovery keys name new ones, everybody is warned, and after the delay they take over.

use identity::envelope::Envelope;
use identity::head::{Cause, Head};
use identity::key::EdKey;
use identity::signers::{Quorum, Recovery, Word};
use identity::time::Timestamp;
use wire::control::{Answer, Call};
use wire::known::Known;

use crate::desk::{Desk, DeskError};
use crate::handed::Handed;
use crate::keys::SignerKeys;
use crate::pending::BadPending;
use crate::session::{Made, OperateError, Session};

/// A recovery, signed by as many recovery keys as are given.
pub fn draft(known: &Known, quorum: Quorum, keys: &[EdKey], at: Timestamp) -> Result<Envelope, OperateError> {
    let set = &known.signers;
    let body = Recovery {
        version: set.version + 1,
        previous: set.id,
        quorum,
        head: Some(known.head.digest),
        settles: false,
        at,
    };
    let mut envelope = Envelope::seal(Some(known.org()), &body)?;
    for key in keys {
        envelope.sign(key).map_err(crate::keys::KeyError::from)?;
    }
    match set.succeed(&envelope, &known.founding.record.recovery) {
        Ok((_, Word::Recovery)) => Ok(envelope),
        Ok((_, Word::Signers)) => Err(OperateError::Unwise("this is no recovery".to_owned())),
        Err(why) => Err(OperateError::Pending(BadPending::Signers(why))),
    }
}

/// Tells the gateway, which tells everybody. From then on it counts.
pub async fn begin<D: Desk>(desk: &mut D, recovery: &Envelope) -> Result<Timestamp, OperateError> {
    match desk.ask(Call::Recover { recovery: recovery.clone() }).await? {
        Answer::Recovering { due_at } => Ok(due_at),
        _ => Err(DeskError::OtherAnswer.into()),
    }
}

impl<D: Desk> Session<D> {
    /// After the delay the new set is in force by itself; its first head says so to everybody.
    pub async fn finish_recovery(
        &mut self,
        keys: &SignerKeys,
        recovery: &Envelope,
    ) -> Result<Made<Head>, OperateError> {
        self.publish(keys, |session, now| {
            let head = session.next_head(now, Cause::SignersInstall, |_| {})?;
            Ok((Handed::with(vec![recovery.clone()], session.seal(&head)?), head))
        })
        .await
    }
}
