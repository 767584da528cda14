//! What a head beside the one that counts takes away travels from node to node, as heads do.

use std::sync::Arc;

use manifest::stored::Caller;
use org::ledger::judge::NotMember;
use org::member::peer::NotAPeer;

use crate::tests::peers::handing::hands_over;
use crate::tests::scene::{Org, node};
use crate::tests::town::{BOTH, House, echo, echoed};

#[tokio::test]
async fn whoever_keeps_a_head_beside_hands_it_over_also_to_those_who_keep_a_connection() {
    let org = || {
        let mut org = Org::new(&["alpha", "beta", "gamma"]);
        org.publish(|_| {});
        org
    };
    hands_over(org, |org| org.revoke_beside("gamma"), |news| news.rivals.len()).await;
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
