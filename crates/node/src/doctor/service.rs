//! Whether a service can be reached from here: its name, who may call it, the tunnel, every way there, and the service.

use std::time::Duration;

use identity::principal::{HostPort, Name, Principal};
use manifest::stored::{Manifest, Target};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tunnel::orders::Way;

use crate::agent::socket::Remote;
use crate::agent::tunnel::view::{State, TunnelView};
use crate::apply::stage::{FOLDER, Shelf};
use crate::doctor::Finding;
use crate::program::Program;
use crate::store::scope::{NodeFile, Scope};

const KNOCK_TIME: Duration = Duration::from_secs(3);

/// One line for each thing that it takes, in the order in which it is needed.
pub async fn look(scope: &Scope, service: &Name, program: Program) -> Vec<Finding> {
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
    findings.push(process(status.map(|status| status.tunnel).as_ref(), program));
    if let Some(target) = manifest.access.targets.get(service) {
        let who = caller(&node, target);
        let ways = match &agent {
            Some(agent) => agent.reach(service.clone(), who).await,
            None => None,
        };
        match ways {
            Some(ways) if !ways.is_empty() => findings.extend(ways.iter().map(way)),
            _ => findings.extend(knock(target).await),
        }
        findings.extend(relays(&manifest, target));
    }
    if let Some(listener) = manifest.runs.services.get(service) {
        findings.push(listening(service, &listener.addr).await);
    }
    findings
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
            Finding::wrong("name", found, format!("an operator looks why: freehold access {service}; then publishes"))
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
        let cure = format!("an operator gives a role to somebody at home here: freehold access {service}");
        return Finding::wrong("table", format!("nobody at home here may call `{service}`"), cure);
    }
    Finding::ok("table", format!("{} may call it from here", who.join(", ")))
}

fn callers(manifest: &Manifest, service: &Name) -> Finding {
    match manifest.access.callers.get(service).map_or(0, Vec::len) {
        0 => Finding::wrong(
            "table",
            format!("nobody may call `{service}`"),
            format!("an operator says who, in the fleet: freehold access {service}"),
        ),
        rows => Finding::ok("table", format!("{rows} rows say who may call it here")),
    }
}

fn process(tunnel: Option<&TunnelView>, program: Program) -> Finding {
    let subject = "tunnel";
    let Some(tunnel) = tunnel else {
        let cure = format!("start it: {}", program.agent());
        return Finding::wrong(subject, "the agent does not run, and with it no tunnel", cure);
    };
    match (tunnel.state, &tunnel.problem) {
        (State::Running, _) if !tunnel.failed.is_empty() => {
            let failed = tunnel.failed.iter().map(|(place, why)| format!("{}: {why}", String::from(place.clone())));
            let cure = format!("free the port, or declare another in the fleet; see {}", program.command("status"));
            Finding::wrong(subject, failed.collect::<Vec<_>>().join("; "), cure)
        }
        (State::Running, _) if !tunnel.troubles.is_empty() => {
            let troubles = tunnel.troubles.iter().map(|(about, why)| format!("{about}: {why}"));
            Finding::soon(
                subject,
                troubles.collect::<Vec<_>>().join("; "),
                format!("each says what helps; see {}", program.command("status")),
            )
        }
        (State::Running, _) => {
            let at = tunnel.listens.iter().map(|(place, at)| format!("{} {at}", String::from(place.clone())));
            Finding::ok(subject, format!("it runs: {}", at.collect::<Vec<_>>().join(", ")))
        }
        (State::Waiting, why) => {
            let why = why.clone().unwrap_or_else(|| "it ended".to_owned());
            Finding::wrong(subject, why, "it is started again by itself; the agent's log says more")
        }
        (State::Off, _) => {
            Finding::wrong(subject, "it does not run: nothing is to be carried", program.command("sync"))
        }
    }
}

/// A way that the tunnel tried.
fn way(tried: &Way) -> Finding {
    let subject = if tried.through.is_some() { "relay" } else { "peer" };
    let transport = format!("{:?}", tried.transport).to_lowercase();
    let through = tried.through.as_ref().map(|relay| format!(" by the relay `{relay}`")).unwrap_or_default();
    match &tried.outcome {
        Ok(found) => Finding::ok(subject, format!("`{}` over {transport}{through}: {found}", tried.node)),
        Err(why) => {
            let found = format!("`{}` over {transport}{through}: {why}", tried.node);
            // One way is enough.
            Finding::soon(
                subject,
                found,
                "open the port on every way there, or look at the other node: freehold-node doctor",
            )
        }
    }
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

fn relays(manifest: &Manifest, target: &Target) -> Option<Finding> {
    let needs_one = target.places.iter().any(|dial| dial.address.is_none());
    let relays: Vec<_> = manifest.access.relays.iter().map(|(name, at)| format!("`{name}` at {at}")).collect();
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
