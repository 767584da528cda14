//! What peers tell of other signers: the agent hears of it, and nobody is judged by them before the agent goes by them.

use ground::clock;
use identity::envelope::Envelope;
use identity::time::{Seconds, Timestamp};
use wire::known::Known;
use wire::peer::{Declined, News};

use crate::control::event::TunnelEvent;
use crate::control::order::Knowledge;
use crate::dial::no_stream::NoStream;
use crate::tests::scene::{Org, node};
use crate::tests::town::{BOTH, House, alpha_and_beta};

/// What `alpha` was handed whose agent knows this much.
fn knowing(org: &Org, known: &Known) -> Knowledge {
    Knowledge { known: known.to_file(), ahead: known.ahead(), ..org.knowledge("alpha") }
}

/// What the founders' first head says to a machine that no floor binds.
fn known_of(org: &Org) -> Known {
    Known::from_file(org.knowledge("alpha").known).unwrap()
}

/// What the agent is told next: whoever tells it may be gone before this side has looked at it.
async fn next_heard(house: &mut House) -> News {
    let words = house.words.as_mut().unwrap();
    loop {
        if let TunnelEvent::Heard(news) = words.recv().await.unwrap() {
            return *news;
        }
    }
}

/// Everything that the agent was told until now.
fn heard(house: &mut House) -> Vec<News> {
    let words = house.words.as_mut().unwrap();
    let told = |word| if let TunnelEvent::Heard(news) = word { Some(*news) } else { None };
    std::iter::from_fn(|| words.try_recv().ok()).filter_map(told).collect()
}

#[tokio::test]
async fn nobody_is_judged_by_signers_whose_delay_runs_also_where_the_clock_has_jumped() {
    for transport in BOTH {
        // How far the clock is ahead, as the agent said last: the second one jumped since then.
        let jump = i64::try_from(Seconds::DAY.times(2).0).unwrap();
        for (said, is_told) in [(jump, false), (0, true)] {
            let (mut org, mut alpha, beta) = alpha_and_beta(transport).await;
            let thief = org.recovery("zoe");
            let known = known_of(&org).ahead_by(jump).notice(&thief, clock::now()).unwrap();
            let knowledge = Knowledge { ahead: said, ..knowing(&org, &known) };
            alpha.state.know(knowledge).unwrap();
            org.hand_over(thief, "zoe");
            beta.state.know(org.knowledge("beta")).unwrap();
            // An agent that stands still.
            alpha.state.note_in_vain(beta.state.policy.load().trust.knows());
            let found = beta.echoes("wiki").await.unwrap_err();
            assert!(matches!(&found, NoStream::Declined { why: Declined::TooOld, .. }), "{found}");
            // Nor has any name become somebody's by what they say.
            assert_eq!(alpha.state.pins.of(&node("beta")), None);
            assert_eq!(!heard(&mut alpha).is_empty(), is_told);
            assert_eq!(alpha.state.policy.load().trust.knows().place.signers, 1);
        }
    }
}

#[tokio::test]
async fn a_recovery_that_waits_keeps_no_revocation_from_a_node_whose_clock_has_jumped() {
    let mut org = Org::new(&["alpha", "beta"]);
    org.publish(|_| {});
    let known = known_of(&org).ahead_by(-864_000);
    let known = known.notice(&org.recovery("zoe"), clock::now()).unwrap();
    let alpha = House::open(&org, "alpha", BOTH[0]).await;
    alpha.state.know(knowing(&org, &known)).unwrap();
    org.revoke_beside("beta");
    let trust = std::sync::Arc::clone(&alpha.state.policy.load().trust);
    let (later, _) = trust.with(&news(None, &[], &org.beside), clock::now()).unwrap().unwrap();
    let key = identity::key::Sign::public(&org.keys[&node("beta")]).digest();
    assert!(later.head.head.revocations.node_keys.contains(&key));
}

fn news(head: Option<&Envelope>, steps: &[Envelope], rivals: &[Envelope]) -> News {
    News { signers: steps.to_vec(), head: head.cloned(), rivals: rivals.to_vec(), suspensions: Vec::new() }
}

/// A machine that followed one set a moment ago.
fn follows(org: &mut Org, to: &'static str, now: Timestamp) -> Known {
    let known = known_of(org);
    let step = org.succession(to);
    org.hand_over(step.clone(), to);
    known.advance(&[step], Some(&org.knowledge("alpha").known.head), now).unwrap()
}

#[tokio::test]
async fn a_second_successor_that_a_peer_tells_of_is_told_to_the_agent_until_that_has_seen_it() {
    for transport in BOTH {
        let (mut org, mut alpha, beta) = alpha_and_beta(transport).await;
        let now = clock::now();
        let known = follows(&mut org, "ben", now);
        alpha.state.know(knowing(&org, &known)).unwrap();
        let rival = org.succession("eve");
        org.hand_over(rival.clone(), "eve");
        beta.state.know(org.knowledge("beta")).unwrap();
        let _declined = beta.echoes("wiki").await;
        let told = next_heard(&mut alpha).await;
        assert_eq!(told.signers, [rival]);
        // As the agent does.
        let why = known.told(&told.signers, told.head.as_ref(), &[], now).unwrap_err();
        let frozen = known.heed(&why, now).unwrap();
        assert_eq!(frozen.rivals(now).len(), 2);
        alpha.state.know(Knowledge { presented: org.knowledge("alpha").presented, ..knowing(&org, &frozen) }).unwrap();
        let _declined = beta.echoes("wiki").await;
        assert_eq!(heard(&mut alpha), []);
    }
}

#[tokio::test]
async fn what_is_revoked_is_told_to_the_agent_also_if_the_head_that_comes_with_it_does_not_hold() {
    let mut org = Org::new(&["alpha", "beta"]);
    org.publish(|_| {});
    let alpha = House::open(&org, "alpha", BOTH[0]).await;
    org.revoke_beside("beta");
    let trust = std::sync::Arc::clone(&alpha.state.policy.load().trust);
    let other = Org::new(&["alpha"]).knowledge("alpha").known.head;
    let (later, _) = trust.with(&news(Some(&other), &[], &org.beside), clock::now()).unwrap().unwrap();
    assert_eq!((later.head.digest, later.beside().count()), (trust.known.head.digest, 1));
    assert!(trust.with(&news(Some(&other), &[], &[]), clock::now()).is_err());
}
