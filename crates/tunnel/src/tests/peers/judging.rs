//! Who is not believed gets nothing, on either side of a connection, over either transport.

use std::sync::Arc;

use ground::{clock, random};
use identity::certificate::binding::BindingTerms;
use identity::certificate::{Validity, key_id};
use identity::key::Sign as _;
use identity::time::Seconds;
use manifest::stored::{Caller, Transport};
use rcgen::{CertificateParams, SanType};
use wire::peer::Declined;

use crate::control::event::{Meeting, TunnelEvent};
use crate::control::order::KeyedSvid;
use crate::dial::no_stream::NoStream;
use crate::tests::calls::calling::whole_call;
use crate::tests::scene::{Org, node};
use crate::tests::town::{BOTH, House, alpha_and_beta, broke, echo, echoed, until, wanted, within};

fn day() -> Validity {
    Validity::from_now(clock::now(), Seconds::DAY)
}

fn over() -> Validity {
    Validity { not_before: clock::now() - Seconds::HOUR, not_after: clock::now() - Seconds(60) }
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

/// What somebody shows who should be `node/NAME` and is not, and a word of why.
fn odd_svids(org: &Org, name: &str) -> Vec<(&'static str, KeyedSvid)> {
    let own = org.principal("node", name);
    let key = &org.keys[&node(name)];
    let twisted = |twist: &dyn Fn(&mut CertificateParams)| org.twisted(&own, name, key, day(), twist);
    let two = |draft: &mut CertificateParams| draft.subject_alt_names.push(uri("spiffe://harbor/node/gamma"));
    let unbound = |draft: &mut CertificateParams| draft.custom_extensions.clear();
    let as_named = |mut svid: KeyedSvid| {
        svid.principal = own.clone();
        svid
    };
    vec![
        ("expired", org.twisted(&own, name, key, over(), |_| {})),
        ("two principals", twisted(&two)),
        ("without a binding", twisted(&unbound)),
        ("of another org of the same name", Org::new(&[name]).svid(&own, name)),
        // Whoever stole the issuing key has not the node's key.
        ("by a stolen issuing key", org.twisted(&own, name, &random::p256().unwrap(), day(), |_| {})),
        ("of another node", as_named(org.svid(&org.principal("node", "gamma"), "gamma"))),
        ("of a user", as_named(org.svid(&org.principal("user", "ann"), name))),
    ]
}

#[tokio::test]
async fn a_caller_that_is_not_believed_or_not_allowed_gets_nothing() {
    for transport in BOTH {
        let org = Org::new(&["alpha", "beta", "gamma"]);
        let mut alpha = House::open(&org, "alpha", transport).await;
        alpha.offer("wiki", echo().await, vec![Caller::Node(node("beta"))]);
        let mut beta = House::open(&org, "beta", transport).await;
        beta.aim("wiki", "alpha", alpha.address);
        for (case, svid) in odd_svids(&org, "beta") {
            let mut beta = House::open(&org, "beta", transport).await;
            beta.aim("wiki", "alpha", alpha.address);
            beta.state.svids.replace(&[svid]).unwrap();
            let found = beta.call("wiki").await.map(drop).unwrap_err();
            // Refused in the handshake, or by what it shows; a user and another node are whom they say, and may not.
            let fits = match &found {
                NoStream::NoWay { .. } => !matches!(case, "of a user" | "of another node" | "by a stolen issuing key"),
                NoStream::Declined { why: Declined::NotBelieved { .. }, .. } => {
                    matches!(case, "by a stolen issuing key" | "of another node")
                }
                NoStream::Declined { why: Declined::NotAllowed, .. } => case == "of a user",
                _ => false,
            };
            assert!(fits, "{case}: {found}");
        }
        assert_eq!(alpha.state.streams.open(), 0);
        beta.echoes("wiki").await.unwrap();
    }
}

#[tokio::test]
async fn a_node_that_is_not_the_one_that_was_called_is_told_nothing() {
    for transport in BOTH {
        let org = Org::new(&["alpha", "beta", "gamma"]);
        let mut beta = House::open(&org, "beta", transport).await;
        for (case, svid) in odd_svids(&org, "alpha") {
            let mut alpha = House::open(&org, "alpha", transport).await;
            alpha.offer("wiki", echo().await, vec![Caller::AnyNode]);
            alpha.state.svids.replace(&[svid]).unwrap();
            beta.aim("wiki", "alpha", alpha.address);
            let found = beta.call("wiki").await.map(drop).unwrap_err();
            assert!(matches!(found, NoStream::NoWay { .. }), "{case}: {found}");
            assert!(alpha.state.meter.counts().is_empty(), "{case}: it was asked for the service");
        }
    }
}

#[tokio::test]
async fn a_revoked_node_gets_nothing_and_is_called_by_nobody() {
    for transport in BOTH {
        let (mut org, mut alpha, mut beta) = alpha_and_beta(transport).await;
        beta.offer("mail", echo().await, vec![Caller::AnyNode]);
        alpha.aim("mail", "beta", beta.address);
        let mut before = beta.call("wiki").await.unwrap();
        echoed(&mut before, b"ahoy").await;
        alpha.echoes("mail").await.unwrap();
        org.revoke("beta");
        alpha.state.know(org.knowledge("alpha")).unwrap();
        broke(&mut before).await;
        assert!(alpha.call("mail").await.is_err(), "it is not called");
        assert!(beta.call("wiki").await.is_err(), "it may not call");
        // As if it never heard: a new connection does not help.
        let mut again = House::open(&org, "beta", transport).await;
        again.aim("wiki", "alpha", alpha.address);
        assert!(again.call("wiki").await.is_err());
    }
}

#[tokio::test]
async fn whoever_knows_the_newer_head_hands_it_over() {
    for transport in BOTH {
        for knows_more in ["alpha", "beta"] {
            let (org, alpha, beta) = alpha_and_beta(transport).await;
            hands_over(org, alpha, beta, knows_more).await;
        }
    }
}

/// Else a busy pair would go on for as long as their SVIDs hold.
#[tokio::test]
async fn whoever_hears_of_a_newer_head_hands_it_over_also_to_those_who_keep_a_connection() {
    for transport in BOTH {
        for knows_more in ["alpha", "beta"] {
            let (org, alpha, beta) = alpha_and_beta(transport).await;
            let open = beta.dialer.open(&beta.own, &wanted("wiki")).await.unwrap();
            whole_call(&beta).await;
            hands_over(org, alpha, beta, knows_more).await;
            drop(open);
        }
    }
}

async fn hands_over(mut org: Org, mut alpha: House, mut beta: House, knows_more: &str) {
    org.publish(|_| {});
    let other = if knows_more == "alpha" { "beta" } else { "alpha" };
    let (newer, state) = if knows_more == "alpha" { (&alpha, &beta) } else { (&beta, &alpha) };
    newer.state.know(org.knowledge(knows_more)).unwrap();
    let state = Arc::clone(&state.state);
    let mut words = if knows_more == "alpha" { beta.words.take() } else { alpha.words.take() }.unwrap();
    let (agent, knowledge) = (Arc::clone(&state), org.knowledge(other));
    // As the agent does: what was heard is known from then on.
    let heard = tokio::spawn(async move {
        while let Some(word) = words.recv().await {
            if let TunnelEvent::Heard(news) = word {
                assert_eq!(news.head.as_ref(), Some(&knowledge.known.head));
                agent.know(knowledge).unwrap();
                return true;
            }
        }
        false
    });
    let before = alpha.state.meter.handshakes().done;
    whole_call(&beta).await;
    assert!(within(heard).await.unwrap());
    assert_eq!(state.policy.load().trust.head(), 2);
    // It is told once.
    whole_call(&beta).await;
    assert_eq!(alpha.state.meter.handshakes().done, before + 1);
}

#[tokio::test]
async fn who_was_shown_by_an_older_head_shows_itself_anew() {
    for transport in BOTH {
        let (mut org, alpha, beta) = alpha_and_beta(transport).await;
        beta.echoes("wiki").await.unwrap();
        until("it is over", || beta.state.streams.open() == 0).await;
        // From this head on, older proofs do not count.
        org.publish(|head| head.recent.clear());
        alpha.state.know(org.knowledge("alpha")).unwrap();
        beta.state.know(org.knowledge("beta")).unwrap();
        beta.echoes("wiki").await.unwrap();
        assert_eq!(alpha.state.meter.handshakes().done, 2);
    }
}

#[tokio::test]
async fn a_key_that_is_met_first_is_told_to_the_agent() {
    let (org, mut alpha, beta) = alpha_and_beta(BOTH[0]).await;
    beta.echoes("wiki").await.unwrap();
    let key = org.keys[&node("beta")].public().digest();
    let TunnelEvent::Met(meeting) = alpha.words.as_mut().unwrap().recv().await.unwrap() else { panic!() };
    assert!(meeting.by.is_none() && meeting.is_caller);
    let trust = Arc::clone(&alpha.state.policy.load().trust);
    let peer = trust.recall((*meeting).clone(), clock::now()).unwrap();
    assert_eq!((peer.node(), peer.node_key().digest()), (&node("beta"), key));
    // What was shown is believed, and not who says it.
    for twist in [|meeting: &mut Meeting| drop(meeting.chain.pop()), |meeting: &mut Meeting| meeting.listing = None] {
        let mut twisted = (*meeting).clone();
        twist(&mut twisted);
        trust.recall(twisted, clock::now()).unwrap_err();
    }
}

#[tokio::test]
async fn whoever_is_met_first_has_the_name_before_the_agent_has_written_it_down() {
    let (mut org, alpha, beta) = alpha_and_beta(BOTH[0]).await;
    beta.echoes("wiki").await.unwrap();
    let first = org.keys[&node("beta")].public().digest();
    assert_eq!(alpha.state.pins.of(&node("beta")), Some(first));
    // The operators publish the name for another key: their newest word counts.
    org.keys.insert(node("beta"), random::p256().unwrap());
    org.publish(|_| {});
    alpha.state.know(org.knowledge("alpha")).unwrap();
    let mut other = House::open(&org, "beta", BOTH[0]).await;
    other.aim("wiki", "alpha", alpha.address);
    other.echoes("wiki").await.unwrap();
    assert_ne!(alpha.state.pins.of(&node("beta")), Some(first));
}

/// The binding is what a thief of the issuing key cannot make.
#[tokio::test]
async fn a_thief_of_the_issuing_key_cannot_use_a_binding_twice() {
    for transport in BOTH {
        cannot_use_a_binding_twice(transport).await;
    }
}

async fn cannot_use_a_binding_twice(transport: Transport) {
    let (org, alpha, beta) = alpha_and_beta(transport).await;
    let own = beta.own.clone();
    let key = random::p256().unwrap();
    let until = day().not_after;
    let bound = key_id(random::p256().unwrap().public()).unwrap();
    let terms = BindingTerms {
        org: org.founding_id(),
        principal: &own,
        node: &node("beta"),
        svid_key: bound,
        not_after: until,
    };
    let old = terms.sign(&org.keys[&node("beta")]).unwrap();
    let svid = org.twisted(&own, "beta", &key, day(), |draft| {
        draft.custom_extensions =
            vec![rcgen::CustomExtension::from_oid_content(identity::certificate::binding::OID, old.to_der())];
    });
    beta.state.svids.replace(&[svid]).unwrap();
    let found = beta.call("wiki").await.map(drop).unwrap_err();
    assert!(matches!(found, NoStream::NoWay { .. }), "{found}");
    assert_eq!(alpha.state.streams.open(), 0);
}

/// Its time is over after a few seconds: what is open stays, and what is new needs a new one.
#[tokio::test]
async fn no_stream_ends_with_an_svid() {
    for transport in BOTH {
        let (org, alpha, beta) = alpha_and_beta(transport).await;
        let short = |name: &str| {
            let (own, life) = (org.principal("node", name), Seconds(6));
            org.twisted(&own, name, &org.keys[&node(name)], Validity::from_now(clock::now(), life), |_| {})
        };
        alpha.state.svids.replace(&[short("alpha")]).unwrap();
        beta.state.svids.replace(&[short("beta")]).unwrap();
        let mut before = beta.call("wiki").await.unwrap();
        echoed(&mut before, b"ahoy").await;
        let end = clock::now() + Seconds(7);
        until("it is over", || clock::now() > end).await;
        echoed(&mut before, b"what is open stays").await;
        assert!(beta.call("wiki").await.is_err(), "what is new needs a new one");
        alpha.state.svids.replace(&[org.svid(&alpha.own, "alpha")]).unwrap();
        beta.state.svids.replace(&[org.svid(&beta.own, "beta")]).unwrap();
        beta.echoes("wiki").await.unwrap();
        echoed(&mut before, b"and still does").await;
        assert_eq!(alpha.state.meter.handshakes().done, 2);
    }
}

#[tokio::test]
async fn whoever_names_no_protocol_is_not_heard() {
    let (_org, alpha, beta) = alpha_and_beta(BOTH[0]).await;
    let mut config = (*beta.state.svids.client(&beta.own).unwrap()).clone();
    config.alpn_protocols.clear();
    let socket = tokio::net::TcpStream::connect(alpha.address).await.unwrap();
    let called = crate::transport::tls::call(&beta.state, Arc::new(config), crate::transport::tls::over(socket)).await;
    assert!(called.is_err());
    until("the other side refused it, too", || alpha.state.meter.handshakes().failed.get("other_protocol") == Some(&1))
        .await;
}

#[tokio::test]
async fn whoever_names_no_protocol_is_not_heard_over_quic_either() {
    let (_org, alpha, beta) = alpha_and_beta(Transport::Quic).await;
    let mut config = (*beta.state.svids.client(&beta.own).unwrap()).clone();
    config.alpn_protocols.clear();
    let config = crate::transport::quic::client(&Arc::new(config)).unwrap();
    let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    assert!(crate::transport::quic::call(&beta.state, &endpoint, config, alpha.address).await.is_err());
    until("the other side refused it, too", || alpha.state.meter.handshakes().failed.get("handshake") == Some(&1))
        .await;
    assert_eq!(alpha.state.meter.handshakes().done, 0);
    beta.echoes("wiki").await.unwrap();
}
