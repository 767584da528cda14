//! What a head beside the one that counts takes away travels from node to node, as heads do.

use std::sync::Arc;

use manifest::stored::Caller;
use org::ledger::judge::NotMember;
use org::member::peer::NotAPeer;

use crate::control::event::TunnelEvent;
use crate::control::order::Knowledge;
use crate::tests::calls::calling::whole_call;
use crate::tests::scene::{Org, node};
use crate::tests::town::{BOTH, House, echo, echoed, wanted, within};

#[tokio::test]
async fn whoever_keeps_a_head_beside_hands_it_over_also_to_those_who_keep_a_connection() {
    for transport in BOTH {
        for knows_more in ["alpha", "beta"] {
            let mut org = Org::new(&["alpha", "beta", "gamma"]);
            org.publish(|_| {});
            let mut alpha = House::open(&org, "alpha", transport).await;
            let mut beta = House::open(&org, "beta", transport).await;
            alpha.offer("wiki", echo().await, vec![Caller::Node(node("beta"))]);
            beta.aim("wiki", "alpha", alpha.address);
            let open = beta.dialer.open(&beta.own, &wanted("wiki")).await.unwrap();
            whole_call(&beta).await;
            org.revoke_beside("gamma");
            let newer = if knows_more == "alpha" { &alpha } else { &beta };
            newer.state.know(org.knowledge(knows_more)).unwrap();
            let (other, told) = if knows_more == "alpha" { (&mut beta, "beta") } else { (&mut alpha, "alpha") };
            let heard = tokio::spawn(agent_of(other, org.knowledge(told)));
            whole_call(&beta).await;
            assert!(within(heard).await.unwrap());
            let known = |house: &House| house.state.policy.load().trust.knows();
            assert_eq!(known(&alpha), known(&beta));
            // It is told once.
            let before = alpha.state.meter.handshakes().done;
            whole_call(&beta).await;
            assert_eq!(alpha.state.meter.handshakes().done, before);
            drop(open);
        }
    }
}

/// As the agent does: what was heard is known from then on. The head is not told anew.
fn agent_of(house: &mut House, knowledge: Knowledge) -> impl Future<Output = bool> + use<> {
    let (state, mut words) = (Arc::clone(&house.state), house.words.take().unwrap());
    async move {
        while let Some(word) = words.recv().await {
            if let TunnelEvent::Heard(news) = word {
                assert_eq!((news.head, news.rivals.len()), (None, 1));
                state.know(knowledge).unwrap();
                return true;
            }
        }
        false
    }
}

#[tokio::test]
async fn whom_a_head_beside_revokes_is_cut_and_believed_no_more_under_the_same_head() {
    for transport in BOTH {
        let mut org = Org::new(&["alpha", "beta"]);
        org.publish(|_| {});
        let mut alpha = House::open(&org, "alpha", transport).await;
        let mut beta = House::open(&org, "beta", transport).await;
        alpha.offer("wiki", echo().await, vec![Caller::Node(node("beta"))]);
        beta.aim("wiki", "alpha", alpha.address);
        let mut program = beta.call("wiki").await.unwrap();
        echoed(&mut program, b"ahoy").await;
        let head = alpha.state.policy.load().trust.head();
        let svid = beta.state.svids.chain_of(&beta.own).unwrap();
        org.revoke_beside("beta");
        let cut = alpha.state.know(org.knowledge("alpha")).unwrap();
        assert_eq!(cut.iter().map(|one| one.node.as_str()).collect::<Vec<_>>(), ["beta"]);
        let trust = Arc::clone(&alpha.state.policy.load().trust);
        assert_eq!(trust.head(), head);
        let now = ground::clock::now();
        let judged = trust.prove(&svid, identity::verifier::Side::Client, now).map_err(NotAPeer::from);
        let judged = judged.and_then(|svid| trust.recognize(&svid, &org.presented(&node("beta")), now));
        let is_revoked = |why: &NotAPeer| matches!(why, NotAPeer::Svid(_) | NotAPeer::NotMember(NotMember::Revoked));
        assert!(is_revoked(&judged.unwrap_err()));
    }
}
