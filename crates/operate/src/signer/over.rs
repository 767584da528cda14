//! What a change of signers ends: shown when the change is made, and carried over by new signatures (re-signing) on the
//! same bytes.

use std::collections::BTreeSet;

use ground::clock;
use identity::envelope::{Envelope, Payload as _};
use identity::head::Head;
use identity::id::Digest;
use identity::signers::Quorum;
use identity::time::Timestamp;
use org::invite::Invite;
use org::invite::approve::Waiver;
use org::ledger::chain::Chain;
use org::ledger::replica::carried;
use org::state::{InviteRecord, Standing, State};
use serde::Serialize;

use crate::key::SignerKeys;
use crate::session::fold::{entries, whole_head};
use crate::session::{Made, Result, Session, Unsigned};

/// An invite or a waiver that is not over, and that too few of some signers have signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ending {
    pub what: &'static str,
    pub id: String,
    /// As its maker called it, or the names that it is for.
    pub label: String,
    pub until: Timestamp,
    pub signed_by: Vec<String>,
    #[serde(skip)]
    envelope: Envelope,
}

impl Ending {
    pub fn in_words(&self) -> String {
        let short: String = self.id.chars().take(8).collect();
        let label = if self.label.is_empty() { String::new() } else { format!(" \"{}\"", self.label) };
        let by = self.signed_by.join(", ");
        format!("{} {short}{label}, signed by {by}, until {}", self.what, self.until)
    }
}

/// What counts now, and will not when these sign for the org.
pub async fn ends_with(session: &mut Session, next: &Quorum) -> Result<Vec<Ending>> {
    let state = Box::pin(session.folded()).await?;
    let (open, now) = (open(&state, clock::now()).into_iter(), &session.signers().quorum);
    Ok(open.filter(|it| is_met(&it.envelope, now) && !is_met(&it.envelope, next)).collect())
}

/// What counted until other signers came. Only what was settled before that: whoever holds a replaced key, and a gateway,
/// can still write invites.
pub async fn ended(session: &mut Session) -> Result<Vec<Ending>> {
    let state = Box::pin(session.folded()).await?;
    let settled = settled_before(session, &state).await?;
    let (open, now) = (open(&state, clock::now()).into_iter(), &session.signers().quorum);
    Ok(open.filter(|it| !is_met(&it.envelope, now) && settled.contains(&it.envelope.digest())).collect())
}

/// Digests of what the first head of the signers in force found in the chains.
async fn settled_before(session: &mut Session, state: &State) -> Result<BTreeSet<Digest>> {
    let own = state.heads().filter(|head| head.signers() == session.signers().as_ref());
    let Some(first) = own.min_by_key(|head| head.version()) else { return Ok(BTreeSet::new()) };
    let recorded = recorded(state, &whole_head(session, first).await?.head);
    let entries = entries(session).await?;
    let settled = entries.iter().filter(|signed| recorded.contains(&signed.digest));
    Ok(settled.flat_map(|signed| carried(&signed.entry.action)).map(Envelope::digest).collect())
}

/// Signs these again, and hands them in together.
pub async fn sign(session: &mut Session, keys: &SignerKeys, shown: &[Ending]) -> Result<Made<()>> {
    let objects = || shown.iter().map(|it| it.envelope.clone()).collect();
    session.publish(keys, |_, _| Ok(Unsigned { objects: objects(), next: None, what: () })).await
}

fn recorded(state: &State, head: &Head) -> BTreeSet<Digest> {
    let places = head.record.iter().filter_map(|(voice, at)| Some((state.replica.chains.get(voice)?, *at)));
    places.flat_map(|(entries, at)| Chain::of(entries, Some(at)).recorded).map(|written| written.digest).collect()
}

fn is_met(object: &Envelope, quorum: &Quorum) -> bool {
    object.signers_among(&quorum.keys()).len() >= quorum.threshold()
}

/// Whatever enough of some signers have signed, and is neither over, nor used up by whoever is in, nor taken back.
fn open(state: &State, now: Timestamp) -> Vec<Ending> {
    let still = |record: &&InviteRecord| state.is_open(record, now) || is_waited_on(state, record, now);
    let invites = state.invites.values().filter(still).map(|record| {
        let Invite { id, label, expires_at, .. } = &record.invite;
        let (envelope, signed_by) = (record.envelope.clone(), state.signers_of_object(&record.envelope));
        Ending { what: Invite::KIND, id: id.to_string(), label: label.clone(), until: *expires_at, signed_by, envelope }
    });
    let waivers = state.open_waivers().cloned().filter_map(|envelope| {
        let Waiver { names, until, .. } = envelope.peek(Some(state.org)).ok().filter(|it: &Waiver| now < it.until)?;
        let label = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let (id, signed_by) = (envelope.digest().to_string(), state.signers_of_object(&envelope));
        Some(Ending { what: Waiver::KIND, id, label, until, signed_by, envelope })
    });
    invites.chain(waivers).collect()
}

/// Whoever came by it and is listed by no head waits without it.
fn is_waited_on(state: &State, record: &InviteRecord, now: Timestamp) -> bool {
    let waits = |key: &Digest| state.members.get(key).is_some_and(|it| it.standing == Standing::Waiting);
    let lives = now < record.invite.expires_at && !state.revoked().invite_is_revoked(record.invite.id);
    lives && record.spent.keys().any(waits)
}
