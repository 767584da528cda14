//! What one of two nodes hears while both keep a connection reaches the other by the next call, and once.

use std::sync::Arc;

use manifest::stored::Caller;
use wire::peer::News;

use crate::control::event::TunnelEvent;
use crate::control::order::Knowledge;
use crate::tests::calls::calling::whole_call;
use crate::tests::scene::{Org, node};
use crate::tests::town::{BOTH, House, echo, wanted, within};

/// Of `alpha`, `beta` and `gamma`, the first two keep a connection, and one of them learns something. What is told is one
/// thing, and no head.
pub async fn hands_over(org: impl Fn() -> Org, learn: impl Fn(&mut Org), told: fn(&News) -> usize) {
    for transport in BOTH {
        for knows_more in ["alpha", "beta"] {
            let mut org = org();
            let mut alpha = House::open(&org, "alpha", transport).await;
            let mut beta = House::open(&org, "beta", transport).await;
            alpha.offer("wiki", echo().await, vec![Caller::Node(node("beta"))]);
            beta.aim("wiki", "alpha", alpha.address);
            let open = beta.dialer.open(&beta.own, &wanted("wiki")).await.unwrap();
            whole_call(&beta).await;
            learn(&mut org);
            let newer = if knows_more == "alpha" { &alpha } else { &beta };
            newer.state.know(org.knowledge(knows_more)).unwrap();
            let (other, name) = if knows_more == "alpha" { (&mut beta, "beta") } else { (&mut alpha, "alpha") };
            let heard = tokio::spawn(agent_of(other, org.knowledge(name), told));
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
fn agent_of(house: &mut House, knowledge: Knowledge, told: fn(&News) -> usize) -> impl Future<Output = bool> + use<> {
    let (state, mut words) = (Arc::clone(&house.state), house.words.take().unwrap());
    async move {
        while let Some(word) = words.recv().await {
            if let TunnelEvent::Heard(news) = word {
                assert_eq!((&news.head, told(&news)), (&None, 1));
                state.know(knowledge).unwrap();
                return true;
            }
        }
        false
    }
}
