//! A stranger joins, or a member whose SVID expired returns. The rule is `org::enroll`; here are proof and effect.

use std::net::IpAddr;
use std::sync::Arc;

use ground::{clock, random};
use identity::envelope::Envelope;
use identity::id::{Digest, OrgId};
use identity::key::PublicKey;
use identity::members::ClassLeaf;
use identity::principal::{NodeName, Principal};
use identity::time::{Seconds, Timestamp};
use ledger::store::Alarm;
use org::enroll::renew::{self, Conflict, Issuance};
use org::enroll::{self, Attempt, EnrollOutcome};
use org::invite::Approval;
use org::invite::admission::{Claim, Purpose, Transcript};
use org::ledger::judge::is_meant;
use org::refusal::{Fault, Refusal};
use org::state::grant::{Granted, KnownInvite, ProvenClaim};
use wire::enroll::{Challenge, EnrollRequest, Issued, ReturnRequest};

use crate::answer::issue::{Applicant, Made, make_svid};
use crate::answer::{approve, vouch};
use crate::fault::{OrFault as _, failed};
use crate::gateway::Gateway;
use crate::write::published::Shelf;
use crate::write::transaction::Transaction;

/// A challenge is good this long, once.
const CHALLENGE_LIFE: Seconds = Seconds::MINUTE;

/// An open challenge: belongs to one connection, dies with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenChallenge {
    pub bytes: [u8; 32],
    pub not_after: Timestamp,
    pub expires_at: Timestamp,
}

impl OpenChallenge {
    pub(crate) fn new(gateway: &Gateway) -> Result<(Self, Challenge), Refusal> {
        let now = clock::now();
        let mandate = gateway.may_issue(now)?;
        let bytes = random::bytes().or_fault(Fault::Randomness)?;
        let open = Self { bytes, not_after: now + mandate.svid_ttl, expires_at: now + CHALLENGE_LIFE };
        let challenge = identity::text::Bytes(bytes.to_vec());
        Ok((open, Challenge { challenge, not_after: open.not_after }))
    }

    fn still_good(self, now: Timestamp) -> Result<Self, Refusal> {
        if now < self.expires_at { Ok(self) } else { Err(Refusal::NoChallenge) }
    }
}

/// The connection on which a proof was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub challenge: OpenChallenge,
    pub exporter: [u8; 32],
    pub source: IpAddr,
}

/// A claim as it was handed in.
struct Asked {
    claim: Claim,
    digest: Digest,
    source: IpAddr,
    gateway: NodeName,
    now: Timestamp,
}

impl Asked {
    fn attempt(&self) -> Attempt<'_> {
        let Self { claim, digest, source, gateway, now } = self;
        Attempt { claim, claimed: *digest, source: *source, gateway, now: *now }
    }
}

/// What can be said without a proof.
struct FirstLook {
    invite: KnownInvite,
    is_new: bool,
    waits: bool,
    /// The invite under which a person looked at the machine.
    looked_at: Option<Digest>,
}

pub(crate) async fn enroll(gateway: &Gateway, request: EnrollRequest, setting: Setting) -> Result<Issued, Refusal> {
    let now = clock::now();
    let org = gateway.about.org_id;
    let challenge = setting.challenge.still_good(now)?;
    let claim: Claim = request.claim.peek(Some(org)).map_err(|why| Refusal::Malformed { why: why.to_string() })?;
    let (digest, source) = (request.claim.digest(), setting.source);
    let asked = Asked { claim, digest, source, gateway: gateway.about.node.clone(), now };
    let FirstLook { invite, is_new, waits, looked_at } = look(gateway, &asked).await?;
    let proven = check_proof(org, &request, &asked.claim, &invite, setting)?;
    if waits {
        return Err(approve::keep(gateway, &request, asked.claim, source).await);
    }

    // Made before it is known to be free: it leaves only if the ledger takes it.
    let (name, node_key) = (&asked.claim.name, asked.claim.node_key);
    let principal = Principal::node(&gateway.about.org, name);
    let applicant = Applicant { subject: (&principal).into(), node: name, node_key };
    let mut made = make_svid(gateway, applicant, &request.svid, challenge.not_after, now)?;
    made.row.source = Some(source);
    let granted = if is_new { Some(grant(proven, invite)?) } else { None };
    let correlation = random::correlation().or_fault(Fault::Randomness)?;

    let shelf = Arc::clone(&gateway.shelf);
    let written = gateway.writer.run_for_tip(move |tx| {
        let again = former_admission(tx, &asked, &shelf)?;
        let key = node_key.digest();
        let last = tx.last_issuance(key, &principal)?;
        check_turn(tx, key, &principal, last.as_ref(), &made.row, now)?;
        let admission = match (again, granted) {
            (Some(admission), _) => stored_admission(tx, admission)?,
            (None, Some(granted)) => {
                let admission = tx.append_granted(granted, now, correlation)?;
                if let Some(invite) = looked_at {
                    wait_no_longer(tx, key, invite, &asked.gateway)?;
                }
                admission
            }
            // What was known of this machine a moment ago is not known any more: let it ask again.
            (None, None) => return Err(Refusal::Busy { retry_after: Seconds(1) }),
        };
        tx.log_issuance(key, &principal, &made.row)?;
        Ok((admission, made.svid))
    });
    let ((admission, svid), tip) = written.await?;
    Ok(Issued { admission, svid, tip })
}

async fn look(gateway: &Gateway, asked: &Asked) -> Result<FirstLook, Refusal> {
    let state = gateway.state().await;
    let outcome = enroll::consider(&state, asked.attempt())?;
    let is_new = !matches!(outcome, EnrollOutcome::Again { .. });
    if is_new {
        gateway.may_admit(asked.now)?;
    }
    // Neither by asking once more, nor by another key in its place.
    for key in [Some(asked.claim.node_key), asked.claim.replaces].into_iter().flatten() {
        gateway.suspended.check(key.digest(), asked.now)?;
    }
    let record = outcome.invite();
    let looked_at = (record.invite.approval == Approval::Human).then(|| record.envelope.digest());
    let waits = matches!(outcome, EnrollOutcome::Wait { .. });
    Ok(FirstLook { invite: KnownInvite::from(&outcome), is_new, waits, looked_at })
}

/// Both keys over the claim, both over the transcript of this connection.
fn check_proof(
    org: OrgId,
    request: &EnrollRequest,
    claim: &Claim,
    invite: &KnownInvite,
    setting: Setting,
) -> Result<ProvenClaim, Refusal> {
    let proven = ProvenClaim::check(request.claim.clone(), org, invite).map_err(|_| Refusal::BadProof)?;
    let nonce = request.nonce.0.as_slice().try_into().map_err(|_| Refusal::BadProof)?;
    let transcript = Transcript::new(
        setting.challenge.bytes,
        nonce,
        request.claim.digest(),
        &request.svid.request.0,
        &request.svid.binding,
        setting.exporter,
    );
    let by_invite = match (invite.key(), &request.by_invite) {
        (Some(key), Some(signature)) => transcript.is_signed(Purpose::Enroll, key, signature),
        (Some(_), None) => false,
        (None, _) => true,
    };
    let by_node = transcript.is_signed(Purpose::Enroll, claim.node_key, &request.by_node);
    if by_invite && by_node { Ok(proven) } else { Err(Refusal::BadProof) }
}

/// The admission of whoever asks again; nothing if it may come in now.
fn former_admission(tx: &mut Transaction<'_>, asked: &Asked, shelf: &Shelf) -> Result<Option<Digest>, Refusal> {
    let claim = &asked.claim;
    let (invite, approval) = match enroll::consider(tx.state, asked.attempt())? {
        EnrollOutcome::Again { member, .. } => return Ok(Some(member.admission.digest)),
        EnrollOutcome::Wait { .. } => return Err(Refusal::AwaitingApproval { claim: asked.digest }),
        EnrollOutcome::Admit { invite, .. } if tx.is_closing(invite.invite.id) => return Err(Refusal::InviteRevoked),
        EnrollOutcome::Admit { invite, approval } => (invite, approval),
    };
    let published = shelf.now();
    let class = published.as_ref().and_then(|published| published.class_of(&claim.name));
    let meant = is_meant(&invite.invite, &claim.name, approval);
    // Whoever proved nothing serves nobody and speaks for nobody, whoever says yes.
    let closed = |leaf: &ClassLeaf| claim.is_low() && published.as_ref().is_some_and(|it| it.carries(leaf));
    if let Some(leaf) = class.filter(|leaf| !meant || closed(leaf)) {
        // A class carries services, users and files: whoever is let in as one of it was meant to be.
        return Err(Refusal::NameUnlisted { name: claim.name.clone(), class: leaf.class.clone() });
    }
    let key = published.as_ref().and_then(|published| published.key_of(&claim.name));
    enroll::check_name_is_free(tx.state, claim, key)?;
    if let Some(old) = claim.replaces {
        // A key that two machines use speaks for neither.
        check_alarm(tx, old.digest(), Some(asked.source), asked.now)?;
    }
    Ok(None)
}

/// Who came in waits no longer, nor does anybody else once the last use is spent.
fn wait_no_longer(tx: &mut Transaction<'_>, key: Digest, invite: Digest, node: &NodeName) -> Result<(), Refusal> {
    tx.keep(|tx| tx.ledger.forget_claim(key))?;
    let left = tx.state.invites.get(&invite).and_then(|record| record.uses_left(node));
    if left == Some(0) { tx.keep(|tx| tx.ledger.forget_claims_under(invite)) } else { Ok(()) }
}

fn grant(claim: ProvenClaim, invite: KnownInvite) -> Result<Granted, Refusal> {
    Granted::new(claim, invite).or_fault(Fault::Program)
}

/// A conflict of counters means a clone or a restored disk: refused, and an alarm that an operator must look at.
pub(crate) fn check_turn(
    tx: &mut Transaction<'_>,
    key: Digest,
    principal: &Principal,
    last: Option<&Issuance>,
    asked: &Issuance,
    now: Timestamp,
) -> Result<(), Refusal> {
    check_alarm(tx, key, asked.source, now)?;
    if renew::is_ahead(last, asked.counter) && tx.may_be_from_elsewhere(key, principal, asked.counter)? {
        // Another gateway made what lies between. If not, its notes will say so.
        return Ok(());
    }
    let restored_at = tx.set_back_at()?;
    renew::check_counter(last, asked.counter, asked.request, restored_at).inspect_err(|refusal| {
        let own = Alarm::own(refusal.to_string(), Some(Conflict::new(last, asked)));
        let known_by = last.and_then(|last| tx.teller_of(key, principal, last).ok()?);
        let alarm = Alarm { known_by, ..own };
        tracing::error!(
            node_key = %key,
            source = asked.source.map(tracing::field::display),
            "{refusal}; this node key gets nothing more. Look: freehold node list; end it: freehold node replace NAME"
        );
        let _ = tx.raise_alarm(key, now, &alarm);
        let _ = tx.note_asked(key, principal, asked, false);
    })
}

/// A node key with an alarm is suspended, whoever shows it, until operators end it.
pub(crate) fn check_alarm(
    tx: &mut Transaction<'_>,
    key: Digest,
    source: Option<IpAddr>,
    now: Timestamp,
) -> Result<(), Refusal> {
    let alarm = tx.keep(|tx| tx.ledger.alarm(key))?;
    let Some(mut alarm) = alarm.filter(|alarm| tx.heeds(alarm)) else {
        return Ok(());
    };
    // Evidence: one address means a disk that was put back, two mean a clone.
    if let (Some(conflict), Some(source)) = (&mut alarm.conflict, source) {
        conflict.note(source, now);
        tx.raise_alarm(key, now, &alarm)?;
    }
    let unknown = Refusal::CounterConflict { presented: 0, known: 0 };
    Err(alarm.conflict.map_or(unknown, |conflict| conflict.refusal()))
}

#[derive(Debug, thiserror::Error)]
#[error("the admission {0} is missing from the ledger")]
struct NoAdmission(Digest);

/// The admission that was given the first time.
pub(crate) fn stored_admission(tx: &mut Transaction<'_>, admission: Digest) -> Result<Envelope, Refusal> {
    let entry = tx.keep(|tx| tx.ledger.entry(admission))?;
    entry.ok_or_else(|| failed(Fault::Ledger, &NoAdmission(admission)))
}

/// A node whose SVID expired: its admission and its node key bring it back.
pub(crate) async fn come_back(gateway: &Gateway, request: ReturnRequest, setting: Setting) -> Result<Issued, Refusal> {
    gateway.await_map().await?;
    gateway.confront(request.tip.as_ref()).await?;
    let now = clock::now();
    let challenge = setting.challenge.still_good(now)?;
    let node_key = request.svid.binding.node_key;
    let (name, alarm) = {
        let state = gateway.state().await;
        if state.revoked().node_keys.contains(&node_key.digest()) {
            return Err(Refusal::KeyRevoked);
        }
        let member = state.member(&node_key).filter(|member| member.was_given(request.admission));
        let member = member.ok_or(Refusal::NotAdmitted)?;
        // It is told why once it has proven its key.
        let alarm = state.alarm(member).cloned();
        match renew::check_standing(&state, member) {
            Err(Refusal::Waiting) if alarm.is_some() => {}
            standing => standing?,
        }
        gateway.suspended.check(node_key.digest(), now)?;
        (member.claim().name.clone(), alarm)
    };
    let nonce = request.nonce.0.as_slice().try_into().map_err(|_| Refusal::BadProof)?;
    let transcript = Transcript::new(
        challenge.bytes,
        nonce,
        request.admission,
        &request.svid.request.0,
        &request.svid.binding,
        setting.exporter,
    );
    if !transcript.is_signed(Purpose::Return, node_key, &request.by_node) {
        return Err(Refusal::BadProof);
    }
    if let Some(why) = alarm {
        return Err(vouch::shout(gateway, node_key, &name, &why, now));
    }
    let principal = Principal::node(&gateway.about.org, &name);
    let applicant = Applicant { subject: (&principal).into(), node: &name, node_key };
    let mut made = make_svid(gateway, applicant, &request.svid, challenge.not_after, now)?;
    made.row.source = Some(setting.source);
    log_and_issue(gateway, node_key, principal, made, now, true).await
}

/// The common end of renewing and returning.
pub(crate) async fn log_and_issue(
    gateway: &Gateway,
    node_key: PublicKey,
    principal: Principal,
    made: Made,
    now: Timestamp,
    returning: bool,
) -> Result<Issued, Refusal> {
    let suspended = Arc::clone(&gateway.suspended);
    let written = gateway.writer.run_for_tip(move |tx| {
        let member = tx.state.member(&node_key).ok_or(Refusal::NotAdmitted)?;
        renew::check_standing(tx.state, member)?;
        suspended.check(node_key.digest(), now)?;
        let admission = member.admission.digest;
        let key = node_key.digest();
        let last = tx.last_issuance(key, &principal)?;
        if returning {
            renew::check_absence(last.as_ref(), now)?;
        }
        check_turn(tx, key, &principal, last.as_ref(), &made.row, now)?;
        let admission = stored_admission(tx, admission)?;
        tx.log_issuance(key, &principal, &made.row)?;
        Ok((admission, made.svid))
    });
    let ((admission, svid), tip) = written.await?;
    Ok(Issued { admission, svid, tip })
}
