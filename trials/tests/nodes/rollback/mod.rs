//! Three real agents get a head that would break them. They go back by themselves, and the operator is told who did.

mod revoke;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Output;

use trials::place::{Running, as_fact, ended, stderr, succeeded, until};
use trials::port::Nobody;

use crate::nodes::lying_gateway::Scene;

const NODES: [&str; 3] = ["web-1", "web-2", "web-3"];

struct Three {
    scene: Scene,
    _gateway: Running,
    _agents: [Running; 3],
}

impl Three {
    fn new() -> Self {
        let (scene, gateway) = Scene::new(&NODES);
        let agents = NODES.map(|node| scene.place.agent(node));
        let three = Self { scene, _gateway: gateway, _agents: agents };
        succeeded(&three.publish("sync: {wait: 20s}"));
        three
    }

    /// Publishes this for the three, and watches.
    fn publish(&self, web: &str) -> Output {
        self.scene.declare("", web);
        self.scene.place.freehold(&["publish", "--yes", "--wait", "3m"])
    }

    /// The publish ends with 4, and names all three and why.
    fn goes_back(&self, web: &str, why: &str) {
        let head = self.scene.place.status("web-1")["head"].as_u64().unwrap();
        let before = NODES.map(|node| self.scene.place.status(node)["applied"]["confirmed"].clone());
        let told = self.publish(web);
        ended(&told, 4, "did not stay on");
        for (node, before) in NODES.iter().zip(before) {
            assert!(stderr(&told).contains(node), "`{node}` is not named: {}", stderr(&told));
            let status = self.scene.place.status(node);
            let back = &status["applied"]["rolled_back"];
            assert!(back["why"].as_str().is_some_and(|told| told.contains(&as_fact(why))), "`{why}` in {status}");
            assert_eq!((&status["applied"]["confirmed"], &back["to"]), (&before, &before), "{status}");
            assert_eq!(status["head"], head + 1, "the head stays");
        }
    }

    /// The next good one is taken by all.
    fn goes_on(&self, web: &str) {
        let told = self.publish(web);
        succeeded(&told);
        for node in NODES {
            let status = self.scene.place.status(node);
            assert!(status["applied"]["rolled_back"].is_null(), "{status}");
            until("nothing is wrong", || self.scene.problem(node).is_none());
        }
    }
}

#[test]
fn three_agents_go_back_when_no_gateway_is_where_the_head_says() {
    let three = Three::new();
    let nobody = Nobody::new();
    three.goes_back(&format!("gateways: [\"{nobody}\"], apply: {{deadline: 7s}}"), "gateway");
    three.goes_on("sync: {wait: 25s}, apply: {deadline: 30s}");
}

#[test]
fn three_agents_go_back_when_a_check_fails_whatever_its_kind() {
    let three = Three::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut guest in listener.incoming().flatten() {
            let _ = guest.read(&mut [0; 512]);
            let _ = guest.write_all(b"HTTP/1.1 503 Not Now\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    let with = |check: &str| format!("apply: {{deadline: 7s}}, checks: {{door: {{{check}, timeout: 2s}}}}");
    let nobody = Nobody::new();
    three.goes_back(&with(&format!("tcp: \"{nobody}\"")), "`door`");
    three.goes_back(&with(&format!("http: \"http://{at}/health\"")), "503");
    three.goes_back(&with("command: [/bin/false]"), "`door`");
    three.goes_on(&with(&format!("http: \"http://{at}/health\", status: 503")));
}
