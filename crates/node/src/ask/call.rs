//! Reaching a gateway: each in turn, by the one way that `wire::connect` knows.

use ground::clock;
use identity::causes::describe;
use identity::envelope::Envelope;
use identity::key::Sign as _;
use identity::members::BadListing;
use identity::time::Timestamp;
use manifest::stored::BadManifest;
use org::refusal::Refusal;
use wire::clocks::Clocks;
use wire::connect::{Anchor, Believed, CallError, Gateway, Provisional};
use wire::known::{BadKnowledge, Known};
use wire::tls::{Expect, OwnSvid};

use crate::ask::source::NotTaken;
use crate::ask::trust;
use crate::store::scope::{Scope, ScopeError};

#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error("this machine is not a member yet: join first")]
    NotJoined,
    #[error("a join as `{begun}` was begun here and is not finished")]
    OtherWish { begun: identity::principal::NodeName },
    #[error("an operator must approve this machine first")]
    Waits { claim: identity::id::Digest },
    #[error("nobody approved this machine in time")]
    WaitedInVain(#[source] Refusal),
    #[error("no gateway is known")]
    NoGateway,
    #[error("what the gateway sent does not hold: {0}")]
    BadAnswer(String),
    #[error("the gateway offers an SVID until {until}, {}: {clocks}", if *over { "which is over here" } else { "longer than its mandate allows" })]
    Untimely { until: Timestamp, over: bool, clocks: Box<Clocks> },
    #[error("the gateway says no by another time than it is here: {clocks}")]
    OtherTime {
        #[source]
        refusal: Refusal,
        clocks: Box<Clocks>,
    },
    #[error("what the gateway says of the org does not hold: {0}")]
    Knowledge(BadKnowledge),
    #[error("what the gateway says of this node's place does not hold: {0}")]
    Listing(#[from] BadListing),
    #[error("what the gateway offers this node to be does not hold: {0}")]
    Manifest(#[from] BadManifest),
    #[error("the gateway does not say what head {head} wants this node to be: it holds it back, or has lost it")]
    Withheld { head: u64 },
    #[error("nobody answered before the trial was over")]
    OutOfTime,
    #[error(transparent)]
    Tree(#[from] NotTaken),
    #[error("this machine's key was revoked by the operators")]
    Revoked,
    #[error(transparent)]
    NoRandomness(#[from] ground::random::NoRandomness),
}

impl AskError {
    /// The gateway's no, if it said one.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Call(CallError::Refused(refusal)) | Self::OtherTime { refusal, .. } | Self::WaitedInVain(refusal) => {
                Some(refusal)
            }
            _ => None,
        }
    }

    /// The two clocks, if they may be what is wrong.
    pub fn clocks(&self) -> Option<&Clocks> {
        match self {
            Self::Untimely { clocks, .. } | Self::OtherTime { clocks, .. } => Some(clocks),
            Self::Call(CallError::NotInForce { clocks, .. }) => clocks.as_deref(),
            _ => None,
        }
    }
}

/// A no that another clock would not have said is told with both clocks, if they are apart: a person must not go by the
/// gateway's alone.
pub fn with_clocks(why: AskError, gateway: &Believed, known: &Known) -> AskError {
    match why {
        AskError::Call(CallError::Refused(refusal)) if refusal.is_about_time() => match gateway.clocks(known) {
            Some(clocks) => AskError::OtherTime { refusal, clocks: Box::new(clocks) },
            None => AskError::Call(CallError::Refused(refusal)),
        },
        why => why,
    }
}

/// Believes the first gateway that can be believed. The last failure is told if none can.
pub async fn believe_one_of(
    gateways: &[Gateway],
    expect: &Expect,
    own: Option<&OwnSvid>,
    anchor: Anchor<'_>,
) -> Result<(Believed, Known), AskError> {
    try_each(gateways, expect, own, (anchor, &mut false)).await
}

/// `moved` says whether one of them may only have another root than is known here.
async fn try_each(
    gateways: &[Gateway],
    expect: &Expect,
    own: Option<&OwnSvid>,
    (anchor, moved): (Anchor<'_>, &mut bool),
) -> Result<(Believed, Known), AskError> {
    let mut last = None;
    for gateway in gateways {
        let attempt = async { Provisional::dial(gateway, expect, own).await?.believe(anchor).await };
        match attempt.await {
            Ok(believed) => return Ok(believed),
            Err(why) => {
                tracing::debug!(gateway = %gateway.address, %why, "not this one");
                *moved |= trust::is_lost(&why);
                // What somebody answered says more than that another could not be reached.
                if last.as_ref().is_none_or(|last: &CallError| says(last) <= says(&why)) {
                    last = Some(why);
                }
            }
        }
    }
    Err(last.map_or(AskError::NoGateway, AskError::Call))
}

/// How much an error tells about this machine, rather than about the way to a gateway.
const fn says(why: &CallError) -> u8 {
    match why {
        CallError::NotAccepted { .. } => 3,
        CallError::Refused(_) => 2,
        _ if why.is_worth_retrying() => 0,
        _ => 1,
    }
}

/// Did the operators revoke this machine's key? The signed head, which any stranger may read, says so.
pub async fn is_revoked(scope: &Scope, gateways: &[Gateway]) -> Result<bool, AskError> {
    let (_, known) = call_known(scope, gateways, None).await?;
    Ok(known.head.head.revocations.node_keys.contains(&scope.node_key()?.public().digest()))
}

/// As a node that knows its org; what was learned is kept before it is used.
pub async fn call_known(
    scope: &Scope,
    gateways: &[Gateway],
    own: Option<&OwnSvid>,
) -> Result<(Believed, Known), AskError> {
    let mut known = scope.known()?.ok_or(AskError::NotJoined)?;
    let tip = scope.tip()?;
    let expect = trust::expect(scope, &known)?;
    let mut moved = false;
    let mut believed =
        Box::pin(try_each(gateways, &expect, own, (Anchor::Known(&known, tip.as_ref()), &mut moved))).await;
    if believed.is_err()
        && moved
        && let Some(newer) = Box::pin(trust::come_home(scope, gateways, &known)).await?
    {
        known = newer;
        let expect = trust::expect(scope, &known)?;
        believed = Box::pin(try_each(gateways, &expect, own, (Anchor::Known(&known, tip.as_ref()), &mut moved))).await;
    }
    if let Err(AskError::Call(CallError::Knowledge { source, .. })) = &believed {
        keep_in_sight(scope, known.heed(source, known.now(clock::now())))?;
    }
    if let Err(AskError::Call(refused @ CallError::NotAccepted { .. })) = believed {
        return Err(explain(scope, (gateways, &known), own, refused).await.into());
    }
    let (mut believed, newer) = believed?;
    if newer.says_more_than(&known) {
        save_authority(scope, &newer)?;
    }
    Box::pin(trust::fill(scope, &mut believed, &newer)).await;
    Ok((believed, newer))
}

/// The gateway tells no more than an alert: this side adds what it knows of its own certificate.
async fn explain(
    scope: &Scope,
    (gateways, known): (&[Gateway], &Known),
    own: Option<&OwnSvid>,
    refused: CallError,
) -> CallError {
    let at =
        |gateway: &&Gateway| matches!(&refused, CallError::NotAccepted { address, .. } if gateway.address == *address);
    let (Some(own), Some(gateway)) = (own, gateways.iter().find(at)) else {
        return refused;
    };
    match trust::identity_roots(scope, known) {
        Ok(roots) => Box::pin(wire::trust::explain(refused, (gateway, known), &own.chain, &roots)).await,
        Err(_) => refused,
    }
}

/// The ratchet, and with it what is trusted no more.
pub fn save_authority(scope: &Scope, known: &Known) -> Result<(), AskError> {
    scope.save_known(known)?;
    if let Err(why) = trust::follow(scope, known) {
        tracing::error!(why = describe(&why), "the roots that other programs read could not be written");
    }
    Ok(())
}

/// A recovery counts from its first sight on, and that is on disk before anything else happens.
pub fn notice(scope: &Scope, known: &Known, recovery: &Envelope) -> Result<Option<Known>, AskError> {
    keep_in_sight(scope, known.notice(recovery, known.now(clock::now())))
}

/// What was offered does not hold. What the signers took away is gone all the same; and a recovery may have taken effect where
/// it comes from before this machine heard of it. True if something was kept.
pub fn keep_the_rest(
    scope: &Scope,
    known: &Known,
    (why, beside): (&BadKnowledge, &[Envelope]),
    now: Timestamp,
) -> Result<bool, AskError> {
    let heard = known.hear(beside, now);
    if let Some(newer) = &heard {
        save_authority(scope, newer)?;
    }
    let noticed = keep_in_sight(scope, heard.as_ref().unwrap_or(known).heed(why, now))?;
    Ok(heard.is_some() || noticed.is_some())
}

pub fn keep_in_sight(scope: &Scope, noticed: Option<Known>) -> Result<Option<Known>, AskError> {
    let Some(newer) = noticed else {
        return Ok(None);
    };
    // Another gateway may have told of another one a moment ago.
    let newer = match scope.known()? {
        Some(before) => newer.with_sightings_of(&before),
        None => newer,
    };
    scope.save_known(&newer)?;
    for (set, due_at) in newer.alarms() {
        tracing::error!(
            %due_at,
            signers = set.quorum.signers().len(),
            "RECOVERY: somebody with the recovery keys wants to replace the signers of this org. If the signers are not \
             lost, they can stop it until then: freehold recover --cancel"
        );
    }
    Ok(Some(newer))
}

#[cfg(test)]
mod tests {
    use identity::signers::Recovery;

    use super::*;
    use crate::scene::{self, NOW, quorum, sealed};

    #[test]
    fn a_second_recovery_that_is_seen_in_one_round_does_not_put_out_of_sight_the_first() {
        let root = tempfile::tempdir().unwrap();
        let scope = Scope::at(root.path(), &"harbor".parse().unwrap());
        scope.create().unwrap();
        let founding = scene::founding();
        let known = scene::known(&founding, &scene::head(&founding));
        scope.save_known(&known).unwrap();
        let recovery = |next: &str| {
            let set = &known.signers;
            let body = Recovery {
                version: set.version + 1,
                previous: set.id,
                quorum: quorum(next),
                head: None,
                settles: false,
                at: NOW,
            };
            sealed(&founding, &body, "safe")
        };
        // Each gateway is asked with the same knowledge.
        for next in ["zoe", "yan"] {
            assert!(notice(&scope, &known, &recovery(next)).unwrap().is_some());
        }
        assert_eq!(scope.known().unwrap().unwrap().alarms().len(), 2);
    }
}
