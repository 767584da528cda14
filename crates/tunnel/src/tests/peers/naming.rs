//! Whoever came by an invite for any name, under one that the operators wrote down and that nobody has, is not the one that they
//! meant: neither calling nor called.

use manifest::stored::Caller;
use wire::peer::Declined;

use crate::dial::no_stream::NoStream;
use crate::tests::scene::{Org, node};
use crate::tests::town::{BOTH, House, echo};

#[tokio::test]
async fn a_row_for_a_name_is_for_whom_an_invite_lists_by_it_and_a_row_for_any_node_for_all() {
    for transport in BOTH {
        for (names, meant) in [("*", false), ("sh*", true), ("shed", true)] {
            let mut org = Org::new(&["alpha"]);
            org.join("shed", names);
            let mut alpha = House::open(&org, "alpha", transport).await;
            let mut shed = House::open(&org, "shed", transport).await;
            alpha.offer("wiki", echo().await, vec![Caller::Node(node("shed"))]);
            shed.aim("wiki", "alpha", alpha.address);
            match shed.call("wiki").await.map(drop) {
                Err(NoStream::Declined { why: Declined::NotAllowed, .. }) if !meant => {}
                Ok(()) if meant => {}
                other => panic!("{names}: {other:?}"),
            }
            alpha.allow("wiki", vec![Caller::AnyNode]);
            shed.echoes("wiki").await.unwrap();
        }
    }
}

#[tokio::test]
async fn nobody_calls_whoever_only_came_under_the_name_of_a_node_that_was_declared() {
    for transport in BOTH {
        for (names, meant) in [("*", false), ("shed", true)] {
            let mut org = Org::new(&["alpha"]);
            org.join("shed", names);
            let mut alpha = House::open(&org, "alpha", transport).await;
            let mut shed = House::open(&org, "shed", transport).await;
            shed.offer("wiki", echo().await, vec![Caller::Node(node("alpha"))]);
            alpha.aim("wiki", "shed", shed.address);
            match alpha.call("wiki").await.map(drop) {
                Err(why) if !meant => assert!(why.to_string().contains("it is not the one that is meant"), "{why}"),
                Ok(()) if meant => {}
                other => panic!("{names}: {other:?}"),
            }
        }
    }
}
