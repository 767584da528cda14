//! Whether a service can be reached from here: its name, who may call it, the tunnel, every way there, and the service.

use std::collections::BTreeMap;
use std::time::Duration;

use identity::principal::{HostPort, Name, NodeName, Principal};
use manifest::stored::{Manifest, Target, Transport};
use member::agent::socket::Remote;
use member::apply::stage::{FOLDER, Shelf};
use member::store::scope::{NodeFile, Scope};
use terminal::finding::Finding;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tunnel::control::question::{CallOutcome, ProbedWay};
use wire::peer::Declined;

use super::process;
use crate::program::Program;

const KNOCK_TIME: Duration = Duration::from_secs(3);
const ASK: &str = "an operator sees who may call what: freehold access --matrix";

/// One line for each thing that it takes, in the order in which it is needed.
pub(crate) async fn look(scope: &Scope, service: &Name, program: Program) -> Vec<Finding> {
    let shelf = Shelf { folder: scope.folder.join(FOLDER) };
    let manifest = shelf.pointed().and_then(|digest| shelf.get(digest).ok()).map(|kept| kept.manifest);
    let (Some(manifest), Ok(Some(node))) = (manifest, scope.node()) else {
        let cure = format!("an operator publishes: freehold publish; then here: {}", program.command("sync"));
        return vec![Finding::wrong("name", "no manifest says what this node may reach", cure)];
    };
    let mut findings = vec![name(&node, &manifest, service)];
    if let Some(target) = manifest.access.targets.get(service) {
        findings.push(table(&node, service, target));
    }
    if manifest.runs.services.contains_key(service) {
        findings.push(callers(&manifest, service));
    }
    let agent = Remote::find(scope).await;
    let status = match &agent {
        Some(agent) => agent.status().await,
        None => None,
    };
    findings.push(process::tunnel(status.map(|status| status.tunnel).as_ref(), program));
    if let Some(target) = manifest.access.targets.get(service) {
        let is_here = manifest.runs.services.contains_key(service);
        let (ways, called) = match (&agent, caller(&node, target)) {
            (Some(agent), Some(who)) => tried(agent, &node, who, program, service, is_here).await,
            (None, _) | (_, None) => (Vec::new(), None),
        };
        // Nobody could try it.
        if ways.is_empty() && called.is_none() {
            findings.extend(knock(target).await);
        }
        findings.extend(ways);
        findings.extend(relays(manifest.runs.relay, &manifest.access.relays, target));
        findings.extend(called);
    }
    if let Some(listener) = manifest.runs.services.get(service) {
        findings.push(listening(service, &listener.addr).await);
    }
    findings
}

/// Every way there, and what became of a call. What is on this node is looked at by itself.
async fn tried(
    agent: &Remote,
    node: &NodeFile,
    who: Principal,
    program: Program,
    service: &Name,
    is_here: bool,
) -> (Vec<Finding>, Option<Finding>) {
    let calling = async { if is_here { None } else { agent.call(service.clone(), who.clone()).await } };
    let (ways, called) = tokio::join!(agent.reach(service.clone(), Some(who.clone())), calling);
    let ways = match &called {
        // What keeps it from being tried is told once.
        Some(CallOutcome::Kept(_) | CallOutcome::WhichOne { .. }) => Vec::new(),
        _ => ways.unwrap_or_default(),
    };
    let one_works = matches!(called, Some(CallOutcome::Taken { .. } | CallOutcome::Declined { .. }))
        || ways.iter().any(|way| way.outcome.is_ok());
    let ways = ways.iter().map(|tried| way(tried, one_works)).collect();
    (ways, called.map(|called| call(&called, node, &who, program, service)))
}

fn name(node: &NodeFile, manifest: &Manifest, service: &Name) -> Finding {
    let full = format!("{service}.{}.internal", node.org);
    match (manifest.access.targets.get(service), manifest.runs.services.get(service)) {
        (_, Some(listener)) => Finding::ok("name", format!("`{full}` is a service of this node, at {}", listener.addr)),
        (Some(target), None) => {
            let at: Vec<_> = target.places.iter().map(|dial| place(&dial.at)).collect();
            Finding::ok("name", format!("`{full}` is a service at {}", at.join(", ")))
        }
        (None, None) => {
            let known: Vec<_> =
                manifest.access.targets.keys().chain(manifest.runs.services.keys()).map(Name::to_string).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let found = format!("nobody here may call a service `{service}`; what may be called: {known}");
            let cure = format!("is the name right? {ASK}; then publishes");
            Finding::wrong("name", found, cure)
        }
    }
}

fn place(at: &manifest::stored::Place) -> String {
    match at {
        manifest::stored::Place::Node(name) => format!("`{name}`"),
        manifest::stored::Place::Class { class, .. } => format!("the nodes of class `{class}`"),
    }
}

/// Whoever asks here: somebody who may.
fn caller(node: &NodeFile, target: &Target) -> Option<Principal> {
    if target.node { Some(node.principal()) } else { target.callers.first().cloned() }
}

fn table(node: &NodeFile, service: &Name, target: &Target) -> Finding {
    let own = target.node.then(|| node.principal());
    let who: Vec<_> = own.iter().chain(&target.callers).map(ToString::to_string).collect();
    if who.is_empty() {
        let cure = format!("an operator gives a role to somebody at home here; {ASK}");
        return Finding::wrong("table", format!("nobody at home here may call `{service}`"), cure);
    }
    Finding::ok("table", format!("{} may call it from here", who.join(", ")))
}

fn callers(manifest: &Manifest, service: &Name) -> Finding {
    match manifest.access.callers.get(service).map_or(0, Vec::len) {
        0 => Finding::wrong(
            "table",
            format!("nobody may call `{service}`"),
            format!("an operator says who, in the fleet; {ASK}"),
        ),
        rows => Finding::ok("table", format!("{rows} rows say who may call it here")),
    }
}

/// A way that the tunnel tried. One is enough.
fn way(tried: &ProbedWay, one_works: bool) -> Finding {
    let subject = if tried.through.is_some() { "relay" } else { "peer" };
    let node = &tried.node;
    let transport = format!("{:?}", tried.transport).to_lowercase();
    let through = tried.through.as_ref().map(|relay| format!(" by the relay `{relay}`")).unwrap_or_default();
    let at = format!("`{node}` over {transport}{through}");
    let why = match &tried.outcome {
        Ok(found) => return Finding::ok(subject, format!("{at}: {found}")),
        Err(why) => why,
    };
    let cure = match (&tried.through, tried.transport) {
        // The relay did its part.
        (Some(_), _) if *why == Declined::NotWaiting.to_string() => {
            format!("does the agent of `{node}` run? There: freehold-node doctor")
        }
        (Some(relay), _) => {
            format!("does the agent of `{node}` run, and that of `{relay}`? On each of them: freehold-node doctor")
        }
        // It did not come to a way.
        (None, Transport::Auto) => "see the other lines here".to_owned(),
        (None, Transport::Tls | Transport::Quic) => {
            format!("does the agent of `{node}` run? There: freehold-node doctor; and open its port on every way there")
        }
    };
    if one_works {
        Finding::soon(subject, format!("{at}: {why}"), cure)
    } else {
        Finding::wrong(subject, format!("{at}: {why}"), cure)
    }
}

/// What became of a call that was begun for somebody here.
fn call(called: &CallOutcome, own: &NodeFile, who: &Principal, program: Program, service: &Name) -> Finding {
    let subject = "service";
    let (node, why) = match called {
        CallOutcome::Taken { node, by } => {
            return Finding::ok(subject, format!("`{service}` on `{node}` took a call of {who} over {by}"));
        }
        CallOutcome::Declined { node, why } => (node, why),
        CallOutcome::NoWay => {
            let found = format!("a call of {who} was tried, and no way leads to `{service}`");
            return Finding::wrong(subject, found, "mend one of the ways above");
        }
        CallOutcome::Late => {
            let found = format!("a call of {who} was tried, and nothing came of it in time");
            return Finding::wrong(subject, found, format!("look where it is: freehold-node doctor {service}"));
        }
        CallOutcome::WhichOne { class } => {
            let found = format!("it is on each node of class `{class}`, and none of them was called");
            let cure = format!("name one where you call it: {service}.NODE.{}.internal", own.org);
            return Finding::soon(subject, found, cure);
        }
        CallOutcome::Kept(why) => {
            let cure =
                format!("what is missing comes with {}; see {}", program.command("sync"), program.command("status"));
            return Finding::wrong(subject, format!("no call was tried: {why}"), cure);
        }
    };
    let there = format!("on `{node}`: freehold-node doctor {service}");
    let cure = match why {
        Declined::ServiceDown | Declined::ServiceSilent => {
            format!(
                "on `{node}`, start the program that is `{service}` at the addr that the fleet gives it; then {there}"
            )
        }
        Declined::NotAllowed => {
            let who = if *who == own.principal() { who.to_string() } else { format!("{who}@{}", own.name) };
            format!(
                "an operator looks why: freehold access {who} {service}; if they may, `{node}` has no news yet: {there}"
            )
        }
        Declined::NotBelieved { .. } | Declined::TooOld => {
            format!("the two nodes know different things: freehold-node sync on both; then {there}")
        }
        Declined::Stale => format!("an operator renews the head: freehold refresh; if they did, {there}"),
        Declined::Suspended { by, .. } => format!("ask `{by}` why; it ends by itself"),
        Declined::TooMany => format!("end some that are open, see {}; or try later", program.command("top")),
        Declined::Stopping => "try again in a minute".to_owned(),
        Declined::NoRelay | Declined::NotWaiting => there,
    };
    Finding::wrong(subject, format!("a call of {who} was tried, and `{node}` declined it: {why}"), cure)
}

/// With the agent down: does anything answer where the service's nodes should be?
async fn knock(target: &Target) -> Vec<Finding> {
    let mut findings = Vec::new();
    for dial in &target.places {
        let Some(address) = &dial.address else { continue };
        let at = place(&dial.at);
        findings.push(match connect(address).await {
            Ok(()) => Finding::ok("peer", format!("something answers for {at} at {address} (TCP)")),
            Err(why) => Finding::wrong(
                "peer",
                format!("{at} at {address} (TCP): {why}"),
                "is that node up, and is the port open on the way there?",
            ),
        });
    }
    findings
}

fn relays(is_one: bool, others: &BTreeMap<NodeName, HostPort>, target: &Target) -> Option<Finding> {
    let needs_one = target.places.iter().any(|dial| dial.address.is_none());
    let others = others.iter().map(|(name, at)| format!("`{name}` at {at}"));
    let own = is_one.then(|| "this node itself".to_owned());
    let relays: Vec<_> = own.into_iter().chain(others).collect();
    match (needs_one, relays.is_empty()) {
        (false, _) => None,
        (true, false) => {
            Some(Finding::ok("relay", format!("a node without an address is reached by {}", relays.join(", "))))
        }
        (true, true) => Some(Finding::wrong(
            "relay",
            "a node of the service has no address, and there is no relay",
            "an operator gives that node an address, or says `relay: true` of a node that has one",
        )),
    }
}

async fn listening(service: &Name, at: &HostPort) -> Finding {
    match connect(at).await {
        Ok(()) => Finding::ok("service", format!("`{service}` accepts connections at {at}")),
        Err(why) => {
            let cure = format!("start the program that is `{service}`, or correct its addr in the fleet");
            Finding::wrong("service", format!("`{service}` at {at}: {why}"), cure)
        }
    }
}

async fn connect(at: &HostPort) -> Result<(), String> {
    match timeout(KNOCK_TIME, TcpStream::connect(at.to_string())).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(why)) => Err(why.to_string()),
        Err(_) => Err("no answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use manifest::stored::{Dial, Place};
    use terminal::finding::Mark;
    use trials::scene::founding;

    use super::*;

    fn tried(through: Option<&str>, transport: Transport, outcome: Result<&str, &str>) -> ProbedWay {
        let through = through.map(|relay| relay.parse().unwrap());
        let outcome = outcome.map(str::to_owned).map_err(str::to_owned);
        ProbedWay { node: "alpha".parse().unwrap(), transport, through, outcome }
    }

    fn cure(finding: &Finding) -> &str {
        finding.cure.as_deref().unwrap()
    }

    #[test]
    fn a_way_that_fails_is_wrong_unless_another_one_works() {
        let (tls, quic) = (tried(None, Transport::Tls, Err("refused")), tried(None, Transport::Quic, Ok("answered")));
        assert_eq!((way(&tls, true).mark, way(&quic, true).mark), (Mark::Soon, Mark::Ok));
        let alone = way(&tls, false);
        assert_eq!((alone.mark, alone.subject), (Mark::Wrong, "peer"));
        assert!(cure(&alone).contains("open its port"), "{alone:?}");
        for (why, blames_relay) in [("refused", true), (&Declined::NotWaiting.to_string(), false)] {
            let relayed = way(&tried(Some("quay"), Transport::Tls, Err(why)), false);
            assert_eq!((relayed.mark, relayed.subject), (Mark::Wrong, "relay"));
            assert!(!cure(&relayed).contains("port") && cure(&relayed).contains("the agent of `alpha`"), "{relayed:?}");
            assert_eq!(cure(&relayed).contains("quay"), blames_relay, "{relayed:?}");
        }
    }

    #[test]
    fn who_is_a_relay_itself_lacks_none() {
        let place = Dial { at: Place::Node("alpha".parse().unwrap()), address: None };
        let target = Target { places: vec![place], node: true, callers: Vec::new(), port: None };
        let mark = |is_one: bool, others: &[&str]| {
            let others = others.iter().map(|name| (name.parse().unwrap(), "192.0.2.1:7444".parse().unwrap())).collect();
            relays(is_one, &others, &target).unwrap().mark
        };
        assert_eq!((mark(true, &[]), mark(false, &["quay"]), mark(false, &[])), (Mark::Ok, Mark::Ok, Mark::Wrong));
    }

    #[test]
    fn what_became_of_a_call_is_told_with_a_cure_that_fits() {
        let own = NodeFile {
            schema: 1,
            org: "harbor".parse().unwrap(),
            org_id: founding().id,
            name: "beta".parse().unwrap(),
            invite: None,
            gateways: Vec::new(),
            joined: true,
            trust: None,
        };
        let (ann, service) = ("spiffe://harbor/user/ann".parse().unwrap(), "wiki".parse().unwrap());
        let told = |called, who| call(&called, &own, who, Program::Node, &service);
        let declined = |why| CallOutcome::Declined { node: "alpha".parse().unwrap(), why };
        let taken = CallOutcome::Taken { node: "alpha".parse().unwrap(), by: "tls".to_owned() };
        assert_eq!(told(taken, &ann).mark, Mark::Ok);
        for (called, found, cured) in [
            (declined(Declined::ServiceDown), "`alpha` declined it: the service does not accept", "start the program"),
            (declined(Declined::ServiceSilent), "did not answer in time", "on `alpha`: freehold-node doctor wiki"),
            (declined(Declined::NotAllowed), "does not allow", "freehold access spiffe://harbor/user/ann@beta wiki"),
            (CallOutcome::NoWay, "no way leads to `wiki`", "the ways above"),
            (CallOutcome::Late, "nothing came of it in time", "freehold-node doctor wiki"),
            (CallOutcome::Kept("she is not at home".to_owned()), "no call was tried", "freehold-node sync"),
        ] {
            let told = told(called, &ann);
            assert_eq!((told.mark, told.subject), (Mark::Wrong, "service"));
            assert!(told.found.contains(found) && cure(&told).contains(cured), "{told:?}");
        }
        let itself = own.principal();
        let node = told(declined(Declined::NotAllowed), &itself);
        assert!(cure(&node).contains("freehold access spiffe://harbor/node/beta wiki"), "{node:?}");
        let one_of_many = told(CallOutcome::WhichOne { class: "web".parse().unwrap() }, &ann);
        assert_eq!(one_of_many.mark, Mark::Soon);
        assert!(cure(&one_of_many).contains("wiki.NODE.harbor.internal"), "{one_of_many:?}");
    }
}
