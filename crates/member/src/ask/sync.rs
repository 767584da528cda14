//! Checking in, waiting for news (long poll), and leaving.

use ground::clock;
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::Sign as _;
use identity::members::{BadListing, Listing, Said};
use identity::principal::NodeName;
use identity::text::Bytes;
use identity::time::{Seconds, Timestamp};
use manifest::stored::Manifest;
use org::invite::admission::Leave;
use org::ledger::frontier::Tip;
use org::state::consent::Consent;
use org::suspend::suspended::mark;
use wire::connect::clocks::Clocks;
use wire::connect::{AlertKind, Believed, CallError, GatewayAddress};
use wire::known::{BadKnowledge, Known};
use wire::permit::Ask;
use wire::sync::{CheckIn, CheckedIn, Done, LeaveRequest, ShowRequest, SyncAnswer, SyncRequest};

use crate::ask::call::call_known;
use crate::ask::error::{AskError, BadAnswer};
use crate::ask::keep::{keep_the_rest, notice, save_authority};
use crate::ask::renew;
use crate::store::scope::Scope;
use crate::store::{suspensions, tunnel};

/// Opens an mTLS connection with the node's SVID.
pub async fn connect(scope: &Scope, gateways: &[GatewayAddress]) -> Result<(Believed, Known), AskError> {
    let node = scope.node()?.ok_or(AskError::NotJoined)?;
    let seat = scope.seat(&node.principal());
    let known = scope.known()?.ok_or(AskError::NotJoined)?;
    let svid = match seat.svid()? {
        Some(svid) if svid.is_good(known.now(clock::now())) => svid,
        // Expired, lost, or made by a clock that was ahead: the node key brings it back.
        Some(_) | None => {
            renew::come_back(scope, &node, gateways).await?;
            seat.svid()?.ok_or(AskError::NotJoined)?
        }
    };
    let called = call_known(scope, gateways, Some(&svid.own)).await;
    // Its root may be retired, or its issuer out of office, since it was issued: the node key gets another.
    if let Err(AskError::Call(CallError::NotAccepted { alert: AlertKind::Other, .. })) = &called
        && renew::is_outdated(scope, &node, gateways).await.unwrap_or(false)
    {
        renew::come_back(scope, &node, gateways).await?;
        let svid = seat.svid()?.ok_or(AskError::NotJoined)?;
        return call_known(scope, gateways, Some(&svid.own)).await;
    }
    called
}

/// The gateway's signed word about its ledger has its time in it. Whose clock is to be set is not the gateway's to say.
fn clocks_apart(tip: &Envelope, known: &Known, here: Timestamp) -> Option<String> {
    let mut mandates = known.head.head.mandates.iter();
    let said = mandates.find_map(|mandate| {
        let tip = tip.open_signed_by::<Tip>(Some(known.org()), &[mandate.voice]).ok()?;
        Some((tip.at, &mandate.gateway))
    });
    let (there, gateway) = said?;
    let clocks = Clocks::new(here, there, gateway, known).apart()?;
    Some(format!("{clocks}: {}", clocks.cure()))
}

/// One check-in: says what the node has, takes what is new. If the clocks are apart, it says so.
pub(crate) async fn check_in(
    scope: &Scope,
    gateway: &mut Believed,
    known: &Known,
) -> Result<(Known, Option<String>), AskError> {
    let tip = scope.tip_of(&gateway.mandate.gateway)?;
    let question = CheckIn { signers: known.signers.version, head: known.head.head.version, tip };
    let CheckedIn { signers, head, tip, recoveries } = gateway.ask(Ask::CheckIn, &question).await?;
    let head = head.as_ref();
    take_authority(
        scope,
        known,
        ToldAuthority { signers: &signers, head, rivals: &[], tip: &tip, recoveries: &recoveries },
    )
}

/// What a node wants to hear of beside the org itself.
#[derive(Debug)]
pub(crate) struct Wants {
    /// The head for which it knows how it is listed.
    pub listed: u64,
    /// Manifests on its disk.
    pub have: Vec<Digest>,
    /// A manifest for which it waits for an operator's word.
    pub waits_for: Option<Digest>,
    /// The marks of the heads beside the one that is followed, and of the suspensions, that this gateway told of, or that are
    /// known here.
    pub rivals: Option<Digest>,
    pub suspended: Option<Digest>,
    /// How long the gateway may wait for news.
    pub wait: Seconds,
    pub report: Option<Envelope>,
}

/// What came, checked.
#[derive(Debug)]
pub(crate) struct Heard {
    pub known: Known,
    /// The clocks, if they are apart.
    pub apart: Option<String>,
    /// How the map of the head in force lists this node, if it was told or cannot be told.
    pub listed: Option<Result<Listed, AskError>>,
    /// An operator said that this manifest stays, and when.
    pub consent: Option<(Digest, Timestamp)>,
    /// The marks of the heads beside the one that is followed, and of the suspensions, that this gateway has told of.
    pub rivals: Option<Digest>,
    pub suspended: Option<Digest>,
}

/// What the head in force says that this node should be.
#[derive(Debug)]
pub(crate) enum Listed {
    /// Nothing: it keeps what it has.
    Nothing,
    Manifest {
        digest: Digest,
        /// Absent if it is on disk already.
        bytes: Option<Vec<u8>>,
    },
}

/// Waits for news. Authority is on disk before anything else is looked at, and stays also if the rest does not hold.
pub(crate) async fn sync(
    scope: &Scope,
    gateway: &mut Believed,
    known: &Known,
    name: &NodeName,
    wants: Wants,
) -> Result<Heard, AskError> {
    let question = SyncRequest {
        signers: known.signers.version,
        head: known.head.head.version,
        digest: Some(known.head.digest),
        rivals: wants.rivals,
        listed: wants.listed,
        have: wants.have,
        waits_for: wants.waits_for,
        sighted: known.sights().keys().copied().collect(),
        suspended: wants.suspended,
        tip: scope.tip_of(&gateway.mandate.gateway)?,
        wait: wants.wait,
        report: wants.report,
    };
    let mut answer: SyncAnswer = gateway.ask_patiently(Ask::Sync, &question, question.wait).await?;
    let beside = answer.rivals.as_deref();
    let told = ToldAuthority {
        signers: &answer.signers,
        head: answer.head.as_ref(),
        rivals: beside.unwrap_or_default(),
        tip: &answer.tip,
        recoveries: &answer.recoveries,
    };
    let (known, apart) = take_authority(scope, known, told)?;
    let rivals = match beside {
        Some(told) => {
            show_rivals(gateway, &known, told).await;
            mark(told.iter().map(Envelope::digest))
        }
        None => wants.rivals,
    };
    let suspended = match &answer.suspensions {
        Some(handed) => {
            suspensions::take(scope, &known, handed)?;
            mark(handed.iter().map(Envelope::digest))
        }
        None => wants.suspended,
    };
    gateway.check(&known)?;
    let own = Own { name, key: scope.node_key()?.public().digest() };
    let listed = listed(scope, &known, own, &question, &mut answer);
    // Whoever stands still may be told how a head lists it that it does not take: that is no lie.
    let stands_still = known.frozen(known.now(clock::now())).is_some();
    let listed = listed.filter(|listed| listed.is_ok() || !stands_still);
    let consent = answer.consent.and_then(|consent| open_consent(&known, &consent, own.key));
    Ok(Heard { known, apart, listed, consent, rivals, suspended })
}

/// This node, as a map has it.
#[derive(Debug, Clone, Copy)]
struct Own<'a> {
    name: &'a NodeName,
    /// Digest of its node key.
    key: Digest,
}

fn listed(
    scope: &Scope,
    known: &Known,
    own: Own<'_>,
    question: &SyncRequest,
    answer: &mut SyncAnswer,
) -> Option<Result<Listed, AskError>> {
    let now = known.head.head.version;
    match (&answer.listing, known.head.head.members) {
        (Some(listing), Some(root)) => {
            if listing.check(root, own.name, own.key).is_ok() {
                tunnel::keep_place(scope, known, Some(listing));
            }
            Some(check_listing(listing, root, own, &question.have, answer.manifest.take()))
        }
        (Some(_), None) => Some(Err(BadListing::NoMap.into())),
        // Nothing is published for anybody.
        (None, None) => {
            tunnel::keep_place(scope, known, None);
            Some(Ok(Listed::Nothing))
        }
        // One that was not to wait may be between two heads.
        (None, Some(_)) if question.listed < now && question.wait > Seconds(0) => {
            Some(Err(AskError::Withheld { head: now }))
        }
        (None, Some(_)) => None,
    }
}

/// What was taken away, and the gateway does not know of: from there it reaches everybody.
async fn show_rivals(gateway: &mut Believed, known: &Known, told: &[Envelope]) {
    for rival in known.beside().filter(|rival| told.iter().all(|it| it.digest() != rival.digest)) {
        let request = ShowRequest { head: rival.envelope.clone(), tip: None };
        let shown: Result<Done, CallError> = gateway.ask(Ask::Show, &request).await;
        if let Err(why) = shown {
            tracing::debug!(%why, "the gateway does not take a head that is kept here");
        }
    }
}

fn check_listing(
    listing: &Listing,
    root: Digest,
    own: Own<'_>,
    have: &[Digest],
    sent: Option<Bytes>,
) -> Result<Listed, AskError> {
    let digest = match listing.check(root, own.name, own.key)? {
        Said::Manifest(digest) => digest,
        // It is to have nothing, and has nothing.
        Said::Nothing if have.is_empty() => return Ok(Listed::Nothing),
        // Nobody need send it: it says the same everywhere.
        Said::Nothing => {
            let nothing = Manifest::nothing();
            return Ok(Listed::Manifest { digest: nothing.digest(), bytes: Some(nothing.bytes()) });
        }
        Said::NoWord => return Ok(Listed::Nothing),
    };
    match sent {
        Some(bytes) => {
            Manifest::read(&bytes.0, digest)?;
            Ok(Listed::Manifest { digest, bytes: Some(bytes.0) })
        }
        None if have.contains(&digest) => Ok(Listed::Manifest { digest, bytes: None }),
        None => Err(BadAnswer::NoManifest.into()),
    }
}

/// The word of any one signer of the set in force, for this very machine.
fn open_consent(known: &Known, envelope: &Envelope, own_key: Digest) -> Option<(Digest, Timestamp)> {
    let signers = known.signers.quorum.keys();
    let mut signers = signers.iter();
    let consent: Consent = signers.find_map(|key| envelope.open_signed_by(Some(known.org()), &[*key]).ok())?;
    (consent.node_key == own_key).then_some((consent.manifest, consent.at))
}

/// More at once is not somebody who lost keys.
const MAX_RECOVERIES: usize = 8;

/// What a gateway told of who decides.
#[derive(Debug, Clone, Copy)]
struct ToldAuthority<'a> {
    signers: &'a [Envelope],
    head: Option<&'a Envelope>,
    /// Heads beside that one.
    rivals: &'a [Envelope],
    tip: &'a Envelope,
    recoveries: &'a [Envelope],
}

/// Signer sets, the head, and heads beside it: the ratchet, on disk before it is believed.
fn take_authority(scope: &Scope, known: &Known, told: ToldAuthority<'_>) -> Result<(Known, Option<String>), AskError> {
    let ToldAuthority { signers, head, rivals, tip, recoveries } = told;
    let (now, known) = (known.now(clock::now()), &scope.timed(known.clone()));
    let newer = match known.told(signers, head, rivals, now) {
        Ok(newer) => newer,
        Err(why) => {
            let beside: Vec<Envelope> = rivals.iter().chain(head).cloned().collect();
            keep_the_rest(scope, known, &why, &beside, now)?;
            match why {
                // Whoever stands still goes on asking by what it has, and hears of the way out.
                BadKnowledge::Frozen { .. } => scope.known()?.ok_or(AskError::NotJoined)?,
                why => return Err(AskError::Knowledge(why)),
            }
        }
    };
    if newer.says_more_than(known) {
        save_authority(scope, &newer)?;
    }
    let mut newer = newer;
    for recovery in recoveries.iter().take(MAX_RECOVERIES) {
        newer = notice(scope, &newer, recovery)?.unwrap_or(newer);
    }
    scope.save_tip(tip, &newer)?;
    let apart = clocks_apart(tip, &newer, clock::now());
    Ok((newer, apart))
}

pub(crate) async fn check_in_once(scope: &Scope, gateways: &[GatewayAddress]) -> Result<Known, AskError> {
    let (mut gateway, known) = connect(scope, gateways).await?;
    Ok(check_in(scope, &mut gateway, &known).await?.0)
}

/// Tells the gateway that this machine leaves.
pub async fn leave(scope: &Scope, gateways: &[GatewayAddress]) -> Result<(), AskError> {
    let (mut gateway, known) = connect(scope, gateways).await?;
    let node_key = scope.node_key()?;
    let body = Leave { node_key: node_key.public(), at: clock::now() };
    let leave = Envelope::seal(Some(known.org()), &body).map_err(BadAnswer::from)?;
    let leave = leave.signed(&node_key).map_err(BadAnswer::Key)?;
    let Done {} = gateway.ask(Ask::Leave, &LeaveRequest { leave }).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use identity::head::{Head, Recorded};
    use identity::key::Sign as _;
    use identity::signers::{SignerSet, Succession};

    use super::*;
    use crate::scene::{self, NOW};

    /// What is told if the gateway `quay` says this time, and it is that time here. The head was signed at `NOW`.
    fn told(there: Timestamp, here: Timestamp) -> Option<String> {
        let founding = scene::founding();
        let mut head = scene::head(&founding);
        head.mandates.push(scene::mandate("quay"));
        let known = scene::known(&founding, &head);
        let place = Recorded { seq: 1, digest: Digest([0; 32]) };
        let tip = Tip { voice: scene::key("quay").public(), place, at: there };
        clocks_apart(&scene::sealed(&founding, &tip, "quay"), &known, here)
    }

    #[test]
    fn a_node_that_stands_still_follows_no_head_and_goes_on_by_what_it_has() {
        let (_root, scope) = scene::scope();
        let founding = scene::founding();
        let (first, known) = (founding.first_signers(), scene::known(&founding, &scene::head(&founding)));
        scope.save_known(&known).unwrap();
        let step = |next: &str| {
            let quorum = scene::quorum(next);
            let body = Succession { version: 2, previous: first.id, also: Vec::new(), quorum, head: None };
            let step = scene::sealed(&founding, &body, "ann");
            let set = SignerSet::later(founding.id, 2, body.quorum);
            (step, Head { version: 2, signers: set.as_ref(), ..known.head.head.clone() })
        };
        let tip =
            Tip { voice: scene::key("quay").public(), place: Recorded { seq: 1, digest: Digest([0; 32]) }, at: NOW };
        let tip = scene::sealed(&founding, &tip, "quay");
        let told = |known: &Known, (step, head): (Envelope, Head), by: &str| {
            let head = scene::sealed(&founding, &head, by);
            let (signers, head) = (&[step][..], Some(&head));
            let told = ToldAuthority { signers, head, rivals: &[], tip: &tip, recoveries: &[] };
            take_authority(&scope, known, told).map(|(known, _)| known)
        };
        let known = told(&known, step("ben"), "ben").unwrap();
        // First when it hears of the other, then by all that any of them signs.
        let frozen = told(&known, step("eve"), "eve").unwrap();
        let (there, head) = step("ben");
        let again = told(&frozen, (there, Head { version: 3, ..head }), "ben").unwrap();
        for stays in [&frozen, &again, &scope.known().unwrap().unwrap()] {
            assert_eq!((stays.head.digest, stays.rivals(NOW).len()), (known.head.digest, 2));
        }
        // Any other lie is one.
        let (there, head) = step("ben");
        assert!(told(&known, (there, Head { version: 1, ..head }), "ben").is_err());
    }

    #[test]
    fn a_gateway_whose_clock_is_slow_has_no_node_set_its_own() {
        let told = told(NOW - Seconds::DAY.times(2), NOW + Seconds::HOUR).unwrap();
        assert!(told.contains("the clock of the gateway `quay`") && told.contains("leave this machine's"), "{told}");
    }

    #[test]
    fn a_gateway_whose_clock_is_fast_has_no_node_set_its_own() {
        let told = told(NOW + Seconds::DAY.times(2), NOW + Seconds::HOUR).unwrap();
        assert!(told.contains("nothing that was signed tells which") && told.contains("compare `date -u`"), "{told}");
    }

    #[test]
    fn a_node_whose_clock_is_before_what_was_signed_sets_it() {
        let told = told(NOW, NOW - Seconds::DAY).unwrap();
        assert!(told.contains("this machine's clock") && told.ends_with("set this machine's clock"), "{told}");
    }
}
