//! The signers are lost: the recovery keys name new ones, everybody is warned, and after the delay they take over.

use ground::clock;
use identity::envelope::Envelope;
use identity::head::Cause;
use identity::key::EdKey;
use identity::principal::{NodeName, SignerName};
use identity::signers::{BadQuorum, BrokenChain, Quorum, Recovery, Signer, SignerSet};
use identity::time::Timestamp;
use org::ledger::draft::Wish;
use org::ledger::signers::Stance;
use org::ledger::step::SignerStep;
use wire::control::{Call, ControlAnswer};
use wire::known::freeze::names;
use wire::known::{BadKnowledge, Known};

use crate::folder::OperatorFolder;
use crate::key::{KeyError, SignerKeys};
use crate::pending::BadPending;
use crate::session::{Aim, Desk, DeskError, Made, NextHead, OperateError, Result, Session, Unsigned, Unwise};
use crate::signer::home::{KeyOwner, find_or_make_key};

/// The first head of the new signers, and the machines that it lists since the lost ones had let them in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    pub head: u64,
    pub taken_over: Vec<NodeName>,
}

/// A recovery, and the signers that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    pub recovery: Envelope,
    pub set: SignerSet,
}

/// Who is to sign from then on.
#[derive(Debug, Clone)]
pub struct RecoveryWish {
    /// Whose key is made here.
    pub signer: Option<SignerName>,
    /// With the keys that they made.
    pub others: Vec<Signer>,
    pub threshold: usize,
}

/// Why no recovery begins.
#[derive(Debug, thiserror::Error)]
pub enum NotBegun {
    #[error("a recovery for {} was begun from this home already", names(.0))]
    Another(Quorum),
    #[error("the new signer needs a name")]
    NoName,
    #[error("`{0}` was a signer before: a name stands for one key for ever")]
    NameTaken(SignerName),
    #[error(transparent)]
    Quorum(#[from] BadQuorum),
    #[error(transparent)]
    Operate(#[from] OperateError),
}

/// Whoever recovers: has the phrases, and says yes.
pub trait Recoverer: KeyOwner<Stop: From<NotBegun>> {
    /// As many recovery keys as it takes.
    fn phrases(&self, known: &Known) -> std::result::Result<Vec<EdKey>, Self::Stop>;

    fn agree(&self, known: &Known, signers: &[&SignerName]) -> std::result::Result<(), Self::Stop>;
}

/// The recovery that this home began; else a new one, signed by the phrases.
pub fn take_up<R: Recoverer>(
    folder: &OperatorFolder,
    known: &Known,
    wish: RecoveryWish,
    person: &R,
) -> std::result::Result<Begun, R::Stop> {
    if let Some(begun) = begun_here(folder, known) {
        let quorum = &begun.set.quorum;
        let is_other = wish.signer.is_some_and(|name| quorum.key_of(&name).is_none());
        return if is_other { Err(NotBegun::Another(quorum.clone()).into()) } else { Ok(begun) };
    }
    let name = wish.signer.ok_or(NotBegun::NoName)?;
    if is_taken(known, &name) {
        return Err(NotBegun::NameTaken(name).into());
    }
    let phrases = person.phrases(known)?;
    let signers: Vec<&SignerName> = [&name].into_iter().chain(wish.others.iter().map(|signer| &signer.name)).collect();
    person.agree(known, &signers)?;
    let key = find_or_make_key(folder, known, &name, person)?;
    let mut signers = vec![Signer { name, key }];
    signers.extend(wish.others);
    let quorum = Quorum::new(wish.threshold, signers).map_err(NotBegun::from)?;
    Ok(sign(folder, known, quorum, &phrases).map_err(NotBegun::from)?)
}

/// A card may be old: a recovery names the newest head and follows the newest signers that the gateway shows.
pub fn learn(folder: &OperatorFolder, known: Known, newest: Result<Known, BadKnowledge>) -> Result<Known> {
    let newest = match newest {
        // What waits here is what is being finished.
        Err(BadKnowledge::RecoveryWaits { .. }) => return Ok(known),
        // This is what it is for.
        Err(why @ BadKnowledge::Frozen { .. }) => known.heed(&why, clock::now()).unwrap_or_else(|| known.clone()),
        newest => newest?,
    };
    if newest.says_more_than(&known) { keep(folder, newest) } else { Ok(newest) }
}

fn keep(folder: &OperatorFolder, known: Known) -> Result<Known> {
    let locked = folder.lock_files()?;
    Ok(folder.keep_known(known, &locked)?)
}

/// A recovery that this home began, and whose new signer's key is here.
fn begun_here(folder: &OperatorFolder, known: &Known) -> Option<Begun> {
    let here = folder.signers_here();
    known.recoveries().find_map(|seen| {
        let set = match known.stance_of(seen.step.digest(), clock::now()) {
            Stance::Taken | Stance::Waits { .. } => known.step(seen.step.digest())?.to.clone(),
            Stance::NotTaken => return None,
        };
        let own = set.quorum.signers().iter().any(|signer| here.contains(&signer.name));
        own.then_some(Begun { recovery: seen.step, set })
    })
}

/// Whether this name ever stood for a signer's key: it stands for one for ever.
fn is_taken(known: &Known, name: &SignerName) -> bool {
    let sets = known.signer_sets().into_iter().chain(known.rivals(clock::now()));
    sets.into_iter().any(|set| set.quorum.key_of(name).is_some())
}

/// Signs one, and remembers it: from here on this home counts.
fn sign(folder: &OperatorFolder, known: &Known, quorum: Quorum, phrases: &[EdKey]) -> Result<Begun> {
    let recovery = draft(known, quorum, phrases, clock::now())?;
    if let Some(noticed) = known.notice(&recovery, clock::now()) {
        keep(folder, noticed)?;
    }
    let step = SignerStep::read(known.org(), &recovery).map_err(BadPending::from)?;
    Ok(Begun { recovery, set: step.to })
}

/// A recovery, signed by as many recovery keys as are given. Where two sets claim one place, it settles that: it follows the
/// last set that nobody contests, and stands on the head that a replica stands on which follows neither.
fn draft(known: &Known, quorum: Quorum, keys: &[EdKey], at: Timestamp) -> Result<Envelope> {
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
