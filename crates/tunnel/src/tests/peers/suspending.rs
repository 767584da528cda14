//! A suspended node keeps no stream and opens no new one, on either side, until its suspension ends by itself; and those who
//! know of one tell the others.

use std::sync::{Arc, Mutex};

use ground::clock;
use identity::time::Seconds;
use manifest::stored::{Caller, Transport};
use org::member::peer::NotAPeer;
use org::suspend::suspended::Suspensions;
use wire::peer::Declined;

use crate::control::event::TunnelEvent;
use crate::dial::no_stream::NoStream;
use crate::tests::peers::handing::hands_over;
use crate::tests::scene::{Org, node};
use crate::tests::streams::cutting::{Shared, lines};
use crate::tests::town::{BOTH, House, alpha_and_beta, broke, echo, echoed, until};

#[tokio::test]
async fn a_suspended_caller_is_cut_at_once_and_refused_and_nobody_else_is() {
    for transport in BOTH {
        let mut org = Org::new(&["alpha", "beta", "gamma"]);
        let mut alpha = House::open(&org, "alpha", transport).await;
        alpha.offer("wiki", echo().await, ["beta", "gamma"].map(|name| Caller::Node(node(name))).to_vec());
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let writer = alpha.state.log.write_to(Shared(Arc::clone(&written))).unwrap().unwrap();
        let (mut houses, mut programs) = (Vec::new(), Vec::new());
        for at in ["beta", "gamma"] {
            let mut house = House::open(&org, at, transport).await;
            house.aim("wiki", "alpha", alpha.address);
            let mut program = house.call("wiki").await.unwrap();
            echoed(&mut program, b"ahoy").await;
            programs.push(program);
            houses.push(house);
        }
        org.suspend("beta", Seconds::HOUR);
        let cut = alpha.state.know(org.knowledge("alpha")).unwrap();
        assert_eq!(cut.iter().map(|one| one.node.as_str()).collect::<Vec<_>>(), ["beta"]);
        // They have heard of it, too: nobody waits for what there is to tell.
        houses[0].state.know(org.knowledge("beta")).unwrap();
        houses[1].state.know(org.knowledge("gamma")).unwrap();
        broke(&mut programs[0]).await;
        echoed(&mut programs[1], b"still here").await;
        let found = houses[0].call("wiki").await.map(drop).unwrap_err();
        let NoStream::Declined { why: Declined::Suspended { by, .. }, .. } = &found else { panic!("{found}") };
        assert_eq!(by.as_str(), "ann");
        houses[1].echoes("wiki").await.unwrap();
        let of_beta = || {
            let told = lines(&written).into_iter();
            let is_beta = |line: &serde_json::Value| line["who"] == "spiffe://harbor/node/beta";
            told.filter(is_beta).map(|line| (line["event"].clone(), line["reason"].to_string())).collect::<Vec<_>>()
        };
        until("it is written", || of_beta().iter().any(|(event, _)| event == "suspended")).await;
        let told = of_beta();
        let cut = told.iter().find(|(event, _)| event == "cut").unwrap();
        assert!(cut.1.contains("`ann` suspended the node until"), "{told:?}");
        drop(writer);
    }
}

#[tokio::test]
async fn nobody_calls_a_suspended_node_and_what_was_open_to_it_is_cut() {
    for transport in BOTH {
        let (mut org, _alpha, beta) = alpha_and_beta(transport).await;
        let mut program = beta.call("wiki").await.unwrap();
        echoed(&mut program, b"ahoy").await;
        org.suspend("alpha", Seconds::HOUR);
        beta.state.know(org.knowledge("beta")).unwrap();
        broke(&mut program).await;
        let found = beta.call("wiki").await.map(drop).unwrap_err().to_string();
        assert!(found.contains("`ann` suspended its machine until"), "{found}");
    }
}

/// The clock is an argument here, so nobody has to wait.
#[tokio::test]
async fn a_suspension_ends_by_itself() {
    let (mut org, alpha, beta) = alpha_and_beta(Transport::Tls).await;
    let begun = clock::now();
    org.suspend("beta", Seconds::HOUR);
    alpha.state.know(org.knowledge("alpha")).unwrap();
    let (trust, presented) = (Arc::clone(&alpha.state.policy.load().trust), org.presented(&node("beta")));
    let chain = beta.state.svids.chain_of(&beta.own).unwrap();
    let svid = trust.prove(&chain, identity::verifier::Side::Client, begun).unwrap();
    let judged = |after: Seconds| trust.recognize(&svid, &presented, begun + after);
    assert!(matches!(judged(Seconds(3_599)), Err(NotAPeer::Suspended { .. })));
    let peer = judged(Seconds(3_602)).unwrap();
    for (after, stands) in [(Seconds(0), false), (Seconds(3_599), false), (Seconds(3_602), true)] {
        assert_eq!(trust.check(&peer, begun + after).is_ok(), stands);
        assert_eq!(trust.endures(&peer, begun + after).is_ok(), stands);
    }
}

/// By dates that never end it, and a first sight a day ago.
#[tokio::test]
async fn a_day_after_its_first_sight_the_next_connection_works_with_nobody_doing_anything() {
    for transport in BOTH {
        let (mut org, alpha, beta) = alpha_and_beta(transport).await;
        let (now, set) = (clock::now(), alpha.state.policy.load().trust.known.signers.clone());
        let endless = org.suspension("beta", now + Seconds::DAY.times(365), Seconds::DAY);
        let seen = |since| {
            let mut all = Suspensions::default();
            all.take(std::slice::from_ref(&endless), &set, since);
            all
        };
        org.suspensions = seen(now);
        alpha.state.know(org.knowledge("alpha")).unwrap();
        beta.state.know(org.knowledge("beta")).unwrap();
        let found = beta.call("wiki").await.map(drop).unwrap_err();
        assert!(matches!(found, NoStream::Declined { why: Declined::Suspended { .. }, .. }), "{found}");
        org.suspensions = seen(now - Seconds::DAY);
        alpha.state.know(org.knowledge("alpha")).unwrap();
        beta.echoes("wiki").await.unwrap();
    }
}

#[tokio::test]
async fn whoever_knows_of_a_suspension_hands_it_over_also_to_those_who_keep_a_connection() {
    let org = || Org::new(&["alpha", "beta", "gamma"]);
    hands_over(org, |org| org.suspend("gamma", Seconds::HOUR), |news| news.suspensions.len()).await;
}

#[tokio::test]
async fn what_no_signer_signed_is_not_told_to_the_agent_and_stops_nobody() {
    let (org, mut alpha, beta) = alpha_and_beta(Transport::Tls).await;
    let other = Org::new(&["alpha", "beta"]);
    let mut lies = org.knowledge("beta");
    // A tunnel that was taken over shows what somebody else signed.
    let (set, now) = (alpha.state.policy.load().trust.known.signers.clone(), clock::now());
    let rows = serde_json::to_string(&{
        let mut all = Suspensions::default();
        all.take(&[org.suspension("alpha", now, Seconds::HOUR)], &set, now);
        all
    });
    let payload = |envelope: &identity::envelope::Envelope| {
        let value = serde_json::to_value(envelope).unwrap();
        value["signatures"][0]["sig"].as_str().unwrap().to_owned()
    };
    let (own, forged) = (org.suspension("alpha", now, Seconds::HOUR), other.suspension("alpha", now, Seconds::HOUR));
    lies.suspensions = serde_json::from_str(&rows.unwrap().replace(&payload(&own), &payload(&forged))).unwrap();
    beta.state.know(lies).unwrap();
    beta.echoes("wiki").await.unwrap();
    let mut words = alpha.words.take().unwrap();
    while let Ok(word) = words.try_recv() {
        assert!(!matches!(word, TunnelEvent::Heard(_)), "{word:?}");
    }
    let trust = Arc::clone(&alpha.state.policy.load().trust);
    assert_eq!(trust.suspensions, Suspensions::default());
}
