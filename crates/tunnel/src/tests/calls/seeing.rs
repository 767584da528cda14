//! Who is here, and who was not let in, can be seen.

use std::sync::{Arc, Mutex};

use ground::random;
use identity::certificate::Validity;
use identity::time::Seconds;
use manifest::stored::Caller;
use serde_json::Value;

use crate::tests::scene::{Org, node};
use crate::tests::town::{BOTH, House, alpha_and_beta, echo, echoed, until};
use crate::transport::protocol::Protocol;

/// What the access log has said by now.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn of(house: &House) -> Self {
        let paper = Self::default();
        house.state.log.write_to(paper.clone()).unwrap().unwrap();
        paper
    }

    fn lines(&self, event: &str) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["event"] == event).collect()
    }
}

#[tokio::test]
async fn whoever_calls_is_seen_as_long_as_it_is_connected() {
    for (transport, word) in BOTH.into_iter().zip([Protocol::Tls.word(), Protocol::Quic.word()]) {
        let (_org, alpha, beta) = alpha_and_beta(transport).await;
        assert_eq!(alpha.state.callers.views(), []);
        let mut program = beta.call("wiki").await.unwrap();
        echoed(&mut program, b"ahoy").await;
        let views = alpha.state.callers.views();
        let seen: Vec<_> = views
            .iter()
            .map(|view| (&view.node, &*view.transport, view.connections, view.streams, view.head))
            .collect();
        assert_eq!(seen, [(&node("beta"), word, 1, 1, 1)]);
        assert_eq!((beta.state.meter.handshakes().called, alpha.state.meter.handshakes().called), (1, 0));
        drop(program);
        until("the stream is over", || alpha.state.callers.views().iter().all(|view| view.streams == 0)).await;
        drop(beta);
        until("it is gone", || alpha.state.callers.views().is_empty()).await;
    }
}

#[tokio::test]
async fn who_is_not_believed_stands_in_the_log() {
    for transport in BOTH {
        let org = Org::new(&["alpha", "beta"]);
        let mut alpha = House::open(&org, "alpha", transport).await;
        alpha.offer("wiki", echo().await, vec![Caller::AnyNode]);
        let paper = Paper::of(&alpha);
        let mut beta = House::open(&org, "beta", transport).await;
        beta.aim("wiki", "alpha", alpha.address);
        let day = Validity::from_now(ground::clock::now(), Seconds::DAY);
        // A thief of the issuing key comes through TLS, and says whom it is.
        let stolen = org.twisted(&beta.own, "beta", &random::p256().unwrap(), day, |_| {});
        beta.state.svids.replace(&[stolen]).unwrap();
        beta.call("wiki").await.unwrap_err();
        until("it is written down", || !paper.lines("not_believed").is_empty()).await;
        let line = paper.lines("not_believed").remove(0);
        assert_eq!(line["who"], beta.own.to_string());
        assert!(line["from"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
        assert!(
            line["reason"].as_str().unwrap().contains("the operators published the name `beta` for the key"),
            "{line}"
        );
        // Another org does not come so far.
        beta.state.svids.replace(&[Org::new(&["beta"]).svid(&beta.own, "beta")]).unwrap();
        beta.call("wiki").await.unwrap_err();
        let nobody = || paper.lines("not_believed").into_iter().find(|line| line.get("who").is_none());
        until("that, too", || nobody().is_some()).await;
        assert!(nobody().unwrap()["reason"].as_str().unwrap().contains("handshake"), "{:?}", nobody());
        assert_eq!(alpha.state.callers.views(), []);
    }
}
