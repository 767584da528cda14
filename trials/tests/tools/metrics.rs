//! The numbers of gateway and agent: promtool takes them, and they move when something happens.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use trials::place::{Place, Running, refused, stderr, stdout, succeeded, until};
use trials::port::Claim;

use super::{http, serve};

/// Every sample of a page, by name and labels, in whole numbers.
fn scrape(address: &str) -> BTreeMap<String, i64> {
    let page = page(address);
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.split('.').next().unwrap().parse().unwrap())
        })
        .collect()
}

fn page(address: &str) -> String {
    let reply = http(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    body.to_owned()
}

/// Whatever promtool has to say.
fn promtool(page: &str) -> String {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = format!("{}{}", stdout(&output), stderr(&output));
    if output.status.success() { said } else { format!("failed: {said}") }
}

fn agent(place: &Place, node: &str, metrics: &str) -> Running {
    let mut command = place.node_command(node, &["run", "--every", "1s", "--metrics", metrics]);
    let agent = Running(command.stderr(Stdio::null()).spawn().unwrap());
    until("the agent shows metrics", || std::net::TcpStream::connect(metrics).is_ok());
    agent
}

#[test]
fn promtool_takes_both_pages() {
    assert!(promtool("# TYPE x counter\nx 1\n").contains("no help text"), "promtool says nothing of a bad page");
    let place = Place::founded(&[]);
    let claims = [Claim::new(), Claim::new()];
    let [gateway, node] = [0, 1].map(|at: usize| claims[at].to_string());
    let _gateway = serve(&place, &["--metrics", &gateway]);
    assert_eq!(promtool(&page(&gateway)), "", "before anything has happened");
    place.joined("web-1");
    refused(&place.join("web-2", &place.code(&["--name", "db-*"])), "does not allow the name");
    let _agent = agent(&place, "web-1", &node);
    until("it has checked in", || scrape(&node)["freehold_agent_check_ins_total"] > 0);
    for page in [page(&gateway), page(&node)] {
        assert_eq!(promtool(&page), "", "{page}");
    }
}

#[test]
fn a_join_and_a_refusal_move_the_gateways_numbers() {
    let place = Place::founded(&[]);
    let claim = Claim::new();
    let address = claim.to_string();
    let _gateway = serve(&place, &["--metrics", &address]);
    let before = scrape(&address);
    let joins = "freehold_gateway_svids_issued_total{by=\"join\"}";
    let no_name = "freehold_gateway_refusals_total{code=\"name_not_allowed\"}";
    assert_eq!((before[joins], before.get(no_name)), (0, None));
    assert_eq!(before["freehold_gateway_nodes"], 1);
    let code = place.code(&["--uses", "2", "--name", "web-*"]);
    succeeded(&place.join("web-1", &code));
    refused(&place.join("db-1", &code), "does not allow the name");
    succeeded(&place.freehold(&["refresh"]));
    let after = scrape(&address);
    assert_eq!((after[joins], after[no_name]), (1, 1));
    assert_eq!(after["freehold_gateway_requests_total{path=\"/v1/enroll\"}"], 2);
    assert_eq!(after["freehold_gateway_nodes"], 2);
    succeeded(&place.freehold(&["node", "revoke", "web-1", "--yes"]));
    assert_eq!(scrape(&address)["freehold_gateway_nodes"], 1, "revoked machines are no members");
    // The invite, the admission, the first check-in, the new head.
    let entries = "freehold_gateway_ledger_entries";
    assert_eq!(after[entries] - before[entries], 4);
    assert!(after["freehold_gateway_ledger_commit_seconds_count"] >= 4);
    assert_eq!(after["freehold_gateway_ledger_commit_failures_total"], 0);
    assert_eq!(after["freehold_gateway_head_version"] - before["freehold_gateway_head_version"], 1);
    let fresh = "freehold_gateway_head_fresh_until_timestamp_seconds";
    assert!(after[fresh] >= before[fresh]);
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let now = i64::try_from(now).unwrap();
    assert!((after[fresh] - now - 30 * 86_400).abs() < 3_600, "{}", after[fresh]);
    let certificate = "freehold_gateway_endpoint_certificate_not_after_timestamp_seconds";
    assert!((after[certificate] - now - 7 * 86_400).abs() < 3_600, "{}", after[certificate]);
    assert!(after["freehold_gateway_mandate_not_after_timestamp_seconds"] > now + 300 * 86_400);
    assert_eq!((after["freehold_gateway_ledger_behind"], after["freehold_gateway_alarms"]), (0, 0));
    until("its own agent holds a connection", || {
        scrape(&address)["freehold_gateway_connections{caller=\"member\"}"] > 0
    });
}

#[test]
fn the_agents_numbers_tell_of_its_svid_and_of_a_gateway_that_is_gone() {
    let place = Place::founded(&["--svid-ttl", "10s"]);
    let gateway = place.serve();
    place.joined("web-1");
    let claim = Claim::new();
    let address = claim.to_string();
    let _agent = agent(&place, "web-1", &address);
    until("it has renewed", || scrape(&address)["freehold_agent_renewals_total"] > 0);
    let numbers = scrape(&address);
    let (until_when, due) = (
        numbers["freehold_agent_svid_not_after_timestamp_seconds"],
        numbers["freehold_agent_next_renewal_timestamp_seconds"],
    );
    assert!(due < until_when, "{due} {until_when}");
    assert!(numbers["freehold_agent_last_check_in_timestamp_seconds"] > until_when - 60);
    assert!(numbers["freehold_agent_head_version"] >= 1);
    let gone = "freehold_agent_failures_total{reason=\"unreachable\"}";
    assert_eq!(numbers[gone], 0);
    gateway.kill();
    until("it has noticed", || scrape(&address)[gone] > 0);
}

#[test]
fn the_port_answers_nothing_else_and_cannot_be_held() {
    let place = Place::founded(&[]);
    let claim = Claim::new();
    let address = claim.to_string();
    let _gateway = serve(&place, &["--metrics", &address]);
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
        ("GET /metrics/ HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
        ("GET /v1/head HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "405"),
        ("DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "405"),
    ] {
        let reply = http(&address, request);
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {reply}");
        assert!(!reply.contains("freehold_"), "{reply}");
    }
    let ask = |request: &str| {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        let mut reply = String::new();
        // It may be cut off in the middle of the request.
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read_to_string(&mut reply);
        reply
    };
    let long = ask(&format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(64 << 10)));
    assert!(!long.contains("200 OK"), "{long}");
    // Idlers fill the places, are thrown out, and the page is there again.
    let idle: Vec<_> = (0..64).map(|_| std::net::TcpStream::connect(&address).unwrap()).collect();
    let page = || ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    until("idlers are thrown out", || page().contains("200 OK"));
    drop(idle);
}
