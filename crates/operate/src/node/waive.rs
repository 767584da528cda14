//! A signer's yes to names, beforehand: given, joined by others, listed.

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::principal::SignerName;
use identity::principal::glob::NameGlob;
use identity::time::{Seconds, Timestamp};
use org::invite::approve::Waiver;
use serde::Serialize;

use crate::key::SignerKeys;
use crate::pending::signed_by;
use crate::session::{Made, OperateError, Result, Session, Unsigned, Unwise};

/// A waiver, and those of today's signers who gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waived {
    pub id: Digest,
    pub names: Vec<NameGlob>,
    pub from: Timestamp,
    pub until: Timestamp,
    pub signed: Vec<SignerName>,
    #[serde(skip)]
    envelope: Envelope,
}

/// Says yes beforehand, by the signers whose keys are at hand.
pub async fn waive(session: &mut Session, keys: &SignerKeys, names: &[NameGlob], ttl: Seconds) -> Result<Made<Waived>> {
    if ttl.0 == 0 || ttl > Waiver::LONGEST {
        return Err(Unwise::WaiverSpan.into());
    }
    let waiver = |from: Timestamp| Waiver { names: names.to_vec(), from, until: from + ttl };
    if session.signers().quorum.threshold() < 2 {
        let said = session.say(keys, |session, now| session.seal(&waiver(now))).await?;
        return Ok(Made { what: read(session, said)?, pending: None, roll: None });
    }
    // The ledger takes none that too few have signed: it waits for the others, as an invite does.
    let draft = |session: &Session, now| {
        let waiver = session.seal(&waiver(now))?;
        Ok(Unsigned { objects: vec![waiver.clone()], next: None, what: waiver })
    };
    let Made { what, pending, roll } = session.publish(keys, draft).await?;
    let signed = match &pending {
        Some(it) => it.pending.handed.0.first().cloned(),
        None => session.folded().await?.open_waivers().find(|waiver| waiver.digest() == what.digest()).cloned(),
    };
    Ok(Made { what: read(session, signed.unwrap_or(what))?, pending, roll })
}

/// Says yes to what another signer said: the same bytes, so that the two add up. They are the ones that were shown:
/// a gateway that is asked again could hand over others.
pub async fn join(session: &mut Session, keys: &SignerKeys, shown: Waived) -> Result<Waived> {
    if shown.signed.is_empty() {
        return Err(Unwise::WaiverUnsigned(shown.id).into());
    }
    let waiver = session.say(keys, |_, _| Ok(shown.envelope)).await?;
    read(session, waiver)
}

/// By the beginning of its id.
pub async fn find(session: &mut Session, wanted: &str) -> Result<Waived> {
    let mut fits = all(session).await?.into_iter().filter(|waived| waived.id.to_string().starts_with(wanted));
    let first = fits.next().filter(|_| !wanted.is_empty());
    let first = first.ok_or_else(|| OperateError::no_such("waiver", wanted))?;
    match fits.next() {
        Some(_) => Err(Unwise::SeveralFit { what: "waivers", wanted: wanted.to_owned() }.into()),
        None => Ok(first),
    }
}

/// All that the ledger has; what is in them is read from their bytes here.
pub async fn all(session: &mut Session) -> Result<Vec<Waived>> {
    let state = session.folded().await?;
    let waivers = state.open_waivers().cloned();
    let mut read = waivers.map(|waiver| read(session, waiver)).collect::<Result<Vec<_>, _>>()?;
    read.sort_by_key(|waived| (waived.from, waived.id));
    Ok(read)
}

fn read(session: &Session, envelope: Envelope) -> Result<Waived> {
    let Waiver { names, from, until } = envelope.peek(Some(session.known.org()))?;
    let signed = signed_by(&session.signers().quorum, &envelope);
    Ok(Waived { id: envelope.digest(), names, from, until, signed, envelope })
}
