//! Which connection a call takes: a free one, a new one, the other transport, another place, or none at all.

use std::sync::{Arc, Mutex};

use manifest::stored::{Access, Caller, Dial, Place, Target, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use wire::peer::Declined;

use crate::control::question::CallOutcome;
use crate::dial::no_stream::NoStream;
use crate::tests::scene::{Org, node};
use crate::tests::town::{
    BOTH, House, Middle, Serves, alpha_and_beta, echo, echoed, name, pair, udp_middle, until, wanted, within,
};
use crate::transport::timeouts::SILENCE;

/// One call from its beginning to its very end.
pub async fn whole_call(from: &House) {
    let stream = from.dialer.open(&from.own, &wanted("wiki")).await.unwrap();
    let (mut program, inner) = pair().await;
    let carried = tokio::spawn(stream.carry(inner));
    echoed(&mut program, b"ahoy").await;
    program.shutdown().await.unwrap();
    let mut rest = Vec::new();
    within(program.read_to_end(&mut rest)).await.unwrap();
    within(carried).await.unwrap();
}

#[tokio::test]
async fn a_connection_is_used_again_and_many_streams_share_one_over_quic() {
    for transport in BOTH {
        let (_org, alpha, beta) = alpha_and_beta(transport).await;
        for _ in 0..5 {
            whole_call(&beta).await;
        }
        assert_eq!(alpha.state.meter.handshakes().done, 1);
    }
    let (_org, alpha, beta) = alpha_and_beta(Transport::Quic).await;
    let calls = (0..50).map(|_| {
        let (dialer, own) = (beta.dialer.clone(), beta.own.clone());
        tokio::spawn(async move { dialer.open(&own, &wanted("wiki")).await.unwrap() })
    });
    let mut streams = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        streams.push(within(call).await.unwrap());
    }
    assert_eq!((alpha.state.meter.handshakes().done, alpha.state.streams.open()), (1, 50));
}

#[tokio::test]
async fn a_connection_that_died_while_it_was_free_is_not_noticed_by_the_caller() {
    let (_org, alpha, mut beta) = alpha_and_beta(Transport::Tls).await;
    let middle = Middle::to(alpha.address).await;
    beta.aim("wiki", "alpha", middle.address);
    whole_call(&beta).await;
    middle.drop_all();
    whole_call(&beta).await;
    assert_eq!(alpha.state.meter.handshakes().done, 2);
}

#[tokio::test]
async fn a_connection_that_leads_nowhere_by_now_is_left_for_a_new_one() {
    let (_org, alpha, mut beta) = alpha_and_beta(Transport::Tls).await;
    let middle = Middle::to(alpha.address).await;
    beta.aim("wiki", "alpha", middle.address);
    whole_call(&beta).await;
    middle.fall_silent();
    whole_call(&beta).await;
    assert_eq!(alpha.state.meter.handshakes().done, 2);
}

#[tokio::test]
async fn a_service_that_takes_its_time_is_waited_for_on_the_same_connection() {
    for transport in BOTH {
        let (_org, mut alpha, mut beta) = alpha_and_beta(transport).await;
        // One who waits to be accepted is as many as there may be: the next is not even heard.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = socket.listen(0).unwrap();
        let at = listener.local_addr().unwrap();
        alpha.offer("slow", at, vec![Caller::AnyNode]);
        beta.aim("slow", "alpha", alpha.address);
        whole_call(&beta).await;
        let _first = TcpStream::connect(at).await.unwrap();
        let accepts = async {
            tokio::time::sleep(SILENCE * 2).await;
            listener.accept().await.unwrap();
            listener.accept().await.unwrap()
        };
        let (program, _accepted) = within(async { tokio::join!(beta.call("slow"), accepts) }).await;
        program.unwrap();
        assert_eq!(alpha.state.meter.handshakes().done, 1, "{transport:?}");
    }
}

#[tokio::test]
async fn a_peer_whose_process_is_another_one_by_now_is_called_anew() {
    let (org, alpha, mut beta) = alpha_and_beta(Transport::Quic).await;
    let (middle, there) = udp_middle(alpha.address).await;
    beta.aim("wiki", "alpha", middle);
    whole_call(&beta).await;
    let mut again = House::open(&org, "alpha", Transport::Quic).await;
    again.offer("wiki", echo().await, vec![Caller::AnyNode]);
    there.send_replace(again.address);
    whole_call(&beta).await;
    assert_eq!((alpha.state.meter.handshakes().done, again.state.meter.handshakes().done), (1, 1));
}

#[tokio::test]
async fn each_transport_falls_back_to_the_other() {
    for (wished, serves, used) in [
        (Transport::Quic, Serves::TlsOnly, Transport::Tls),
        (Transport::Tls, Serves::QuicOnly, Transport::Quic),
        (Transport::Auto, Serves::QuicOnly, Transport::Quic),
    ] {
        let org = Org::new(&["alpha", "beta"]);
        let mut alpha = House::open_with(&org, "alpha", wished, serves).await;
        let mut beta = House::open(&org, "beta", wished).await;
        alpha.offer("wiki", echo().await, vec![Caller::Node(node("beta"))]);
        beta.aim("wiki", "alpha", alpha.address);
        whole_call(&beta).await;
        whole_call(&beta).await;
        let view = beta.dialer.views().remove(0);
        assert_eq!(view.transport, used);
        assert!(view.problem.is_some(), "what failed is told");
        assert_eq!(alpha.state.meter.handshakes().done, 1, "what works is used again");
    }
}

#[tokio::test]
async fn whatever_keeps_a_call_from_beginning_is_named() {
    let (org, mut alpha, mut beta) = alpha_and_beta(Transport::Tls).await;
    let ann = org.principal("user", "ann");
    let found = beta.call_as(&ann, "wiki").await.unwrap_err();
    assert!(matches!(found, NoStream::NotAtHome(_)), "{found}");
    beta.state.svids.replace(&[org.svid(&beta.own, "beta"), org.svid(&ann, "beta")]).unwrap();
    let found = beta.call_as(&ann, "wiki").await.unwrap_err();
    assert!(matches!(found, NoStream::NotAllowed { .. }), "{found}");
    let found = beta.call("none").await.unwrap_err();
    assert!(matches!(found, NoStream::NotATarget(_)), "{found}");

    // Its own side thinks that she may; the other one does not.
    beta.aim_for("wiki", "alpha", alpha.address, std::slice::from_ref(&ann));
    let found = beta.call_as(&ann, "wiki").await.unwrap_err();
    assert!(matches!(found, NoStream::Declined { why: Declined::NotAllowed, .. }), "{found}");
    let at = vec![Place::Node(node("beta"))];
    alpha.allow("wiki", vec![Caller::Placed { principal: ann.clone(), at }]);
    echoed(&mut beta.call_as(&ann, "wiki").await.unwrap(), b"ann").await;

    let closed = pair().await.0.local_addr().unwrap();
    alpha.offer("down", closed, vec![Caller::AnyNode]);
    beta.aim("down", "alpha", alpha.address);
    let found = beta.call("down").await.unwrap_err();
    assert!(matches!(found, NoStream::Declined { why: Declined::ServiceDown, .. }), "{found}");
    let refused = alpha.state.meter.counts().into_iter().find(|count| count.service == name("down")).unwrap();
    assert_eq!(refused.refused["service_down"], 1);
}

#[tokio::test]
async fn a_place_that_is_a_class_has_to_be_named_and_another_place_is_tried() {
    let org = Org::new(&["alpha", "beta", "gamma"]);
    let mut alpha = House::open(&org, "alpha", Transport::Tls).await;
    let beta = House::open(&org, "beta", Transport::Tls).await;
    alpha.offer("wiki", echo().await, vec![Caller::AnyNode]);
    let class = Place::Class { class: name("web"), names: vec!["web-*".parse().unwrap()] };
    let target = |places| Target { places, node: true, callers: Vec::new(), port: None };
    let allow = |places| {
        let targets = [(name("wiki"), target(places))].into();
        beta.state.allow(&[Access { targets, ..Access::default() }]);
    };
    allow(vec![Dial { at: class, address: None }]);
    let found = beta.call("wiki").await.unwrap_err();
    assert!(matches!(found, NoStream::WhichOne { .. }), "{found}");
    let called = beta.dialer.try_call(&beta.own, &wanted("wiki")).await;
    assert_eq!(called, CallOutcome::WhichOne { class: name("web") });
    let one = crate::dial::destination::Destination { node: Some(node("web-1")), ..wanted("wiki") };
    let found = beta.dialer.open(&beta.own, &one).await.unwrap_err();
    assert!(matches!(found, NoStream::NoWay { .. }), "{found}");
    let one = crate::dial::destination::Destination { node: Some(node("gamma")), ..wanted("wiki") };
    let found = beta.dialer.open(&beta.own, &one).await.unwrap_err();
    assert!(matches!(found, NoStream::NotThere { .. }), "{found}");

    let closed = pair().await.0.local_addr().unwrap();
    let at = |name, address: std::net::SocketAddr| Dial {
        at: Place::Node(node(name)),
        address: Some(address.to_string().parse().unwrap()),
    };
    allow(vec![at("gamma", closed), at("alpha", alpha.address)]);
    beta.echoes("wiki").await.unwrap();
}

#[tokio::test]
async fn a_service_of_the_same_node_is_reached_by_the_same_rule() {
    let org = Org::new(&["alpha"]);
    let mut alpha = House::open(&org, "alpha", Transport::Auto).await;
    alpha.offer("wiki", echo().await, vec![Caller::Node(node("beta"))]);
    alpha.aim("wiki", "alpha", alpha.address);
    let found = alpha.call("wiki").await.unwrap_err();
    assert!(matches!(found, NoStream::Declined { why: Declined::NotAllowed, .. }), "{found}");
    alpha.allow("wiki", vec![Caller::Node(node("alpha"))]);
    whole_call(&alpha).await;
    assert_eq!(alpha.state.meter.handshakes().done, 0);
    let mut program = alpha.call("wiki").await.unwrap();
    echoed(&mut program, b"ahoy").await;
    alpha.allow("wiki", Vec::new());
    crate::tests::town::broke(&mut program).await;
}

#[tokio::test]
async fn every_way_to_a_service_is_tried() {
    let org = Org::new(&["alpha", "beta"]);
    let mut alpha = House::open_with(&org, "alpha", Transport::Auto, Serves::TlsOnly).await;
    let mut beta = House::open(&org, "beta", Transport::Auto).await;
    alpha.offer("wiki", echo().await, Vec::new());
    beta.aim("wiki", "alpha", alpha.address);
    let ways = beta.dialer.reach(&beta.own, &wanted("wiki")).await.unwrap();
    let found: Vec<_> = ways.iter().map(|way| (way.transport, way.outcome.is_ok())).collect();
    assert_eq!(found, [(Transport::Tls, true), (Transport::Quic, false)]);
}

#[tokio::test]
async fn a_call_that_is_only_tried_tells_what_the_other_side_did_with_it() {
    for (transport, by) in [(Transport::Tls, "tls"), (Transport::Quic, "quic")] {
        let (org, mut alpha, mut beta) = alpha_and_beta(transport).await;
        let tried = async |beta: &House, service| within(beta.dialer.try_call(&beta.own, &wanted(service))).await;
        let taken = CallOutcome::Taken { node: node("alpha"), by: by.to_owned() };
        for _ in 0..2 {
            assert_eq!(tried(&beta, "wiki").await, taken);
            until("nothing stays open", || alpha.state.streams.open() + beta.state.streams.open() == 0).await;
        }
        let count = beta.state.meter.counts().remove(0);
        assert_eq!((count.streams, count.sent, count.received), (2, 0, 0));
        assert_eq!(alpha.state.meter.handshakes().done, 1, "the connection is as good as before");

        let closed = pair().await.0.local_addr().unwrap();
        let declined = |why| CallOutcome::Declined { node: node("alpha"), why };
        alpha.offer("down", closed, vec![Caller::AnyNode]);
        beta.aim("down", "alpha", alpha.address);
        assert_eq!(tried(&beta, "down").await, declined(Declined::ServiceDown));
        alpha.allow("wiki", Vec::new());
        assert_eq!(tried(&beta, "wiki").await, declined(Declined::NotAllowed));
        beta.aim("lost", "gamma", closed);
        assert_eq!(tried(&beta, "lost").await, CallOutcome::NoWay);
        let ann = org.principal("user", "ann");
        let kept = within(beta.dialer.try_call(&ann, &wanted("wiki"))).await;
        assert!(matches!(&kept, CallOutcome::Kept(why) if why.contains("not at home")), "{kept:?}");
    }
}

/// It neither reads nor hangs up.
#[tokio::test]
async fn a_service_that_does_not_hang_up_holds_no_call_that_is_only_tried() {
    for transport in BOTH {
        let (_org, mut alpha, mut beta) = alpha_and_beta(transport).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        alpha.offer("mute", listener.local_addr().unwrap(), vec![Caller::AnyNode]);
        beta.aim("mute", "alpha", alpha.address);
        let called = within(beta.dialer.try_call(&beta.own, &wanted("mute"))).await;
        assert!(matches!(called, CallOutcome::Taken { .. }), "{called:?}");
        until("nothing stays open", || alpha.state.streams.open() + beta.state.streams.open() == 0).await;
    }
}

/// It takes connections, and never says a word.
#[tokio::test]
async fn a_node_that_does_not_answer_keeps_nobody_from_the_others() {
    let (_org, alpha, mut beta) = alpha_and_beta(Transport::Tls).await;
    let hole = TcpListener::bind("127.0.0.1:0").await.unwrap();
    beta.aim("lost", "gamma", hole.local_addr().unwrap());
    let silent = Arc::<Mutex<Vec<TcpStream>>>::default();
    let taken = Arc::clone(&silent);
    let hole = tokio::spawn(async move {
        while let Ok((socket, _)) = hole.accept().await {
            taken.lock().unwrap().push(socket);
        }
    });
    let beta = Arc::new(beta);
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let beta = Arc::clone(&beta);
            tokio::spawn(async move { beta.call("lost").await.map(drop) })
        })
        .collect();
    until("it is called", || silent.lock().unwrap().len() >= 8).await;
    whole_call(&beta).await;
    assert!(calls.iter().all(|call| !call.is_finished()), "nobody has waited for them");
    // Now nobody is there at all: whoever waited is told with the first.
    hole.abort();
    let tried = std::mem::take(&mut *silent.lock().unwrap()).len();
    for call in calls {
        let found = within(call).await.unwrap().unwrap_err();
        assert!(matches!(found, NoStream::NoWay { .. }), "{found}");
    }
    assert_eq!((tried, alpha.state.meter.handshakes().done), (8, 1));
    let failed = beta.state.meter.handshakes().failed["calling"];
    assert!((8..=16).contains(&failed), "{failed} tries by either transport");
}

#[tokio::test]
async fn strangers_that_say_nothing_or_nonsense_keep_nobody_out() {
    let (org, alpha, beta) = alpha_and_beta(Transport::Tls).await;
    let mut strangers = Vec::new();
    for _ in 0..200 {
        strangers.push(TcpStream::connect(alpha.address).await.unwrap());
    }
    until("they are there", || alpha.state.limits.strangers() == 200).await;
    beta.echoes("wiki").await.unwrap();
    for stranger in &mut strangers {
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    }
    until("they are gone", || alpha.state.limits.strangers() == 0).await;
    assert!(alpha.state.meter.handshakes().failed["handshake"] >= 200);
    // From their address one at a time, from now on; but that one gets in.
    let mut other = House::open(&org, "beta", Transport::Tls).await;
    other.aim("wiki", "alpha", alpha.address);
    other.echoes("wiki").await.unwrap();
}

#[tokio::test]
async fn a_listener_that_stops_leaves_alone_what_it_let_in() {
    for transport in BOTH {
        let (org, alpha, beta) = alpha_and_beta(transport).await;
        let mut program = beta.call("wiki").await.unwrap();
        echoed(&mut program, b"ahoy").await;
        alpha.stop.send_replace(true);
        until("nobody listens", || std::net::TcpStream::connect(alpha.address).is_err()).await;
        let mut other = House::open(&org, "beta", transport).await;
        other.aim("wiki", "alpha", alpha.address);
        assert!(other.call("wiki").await.is_err());
        echoed(&mut program, b"still here").await;
    }
}
