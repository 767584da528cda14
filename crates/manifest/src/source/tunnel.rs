//! What is said of a machine's tunnels, over what the org says, and where it is said.

use std::collections::BTreeMap;

use identity::principal::HostPort;

use super::names::Names;
use super::place::{Notes, Spot, error};
use super::tree::{Entry, Node, Value};
use crate::stored::{Forward, Socks, Transport, TunnelPolicy};

/// A machine binds them all.
const MAX_FORWARDS: usize = 256;

/// Where tunnels are told what to do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) listen: Option<Spot>,
    pub(crate) socks: Option<Spot>,
    pub(crate) resolver: Option<Spot>,
    pub(crate) forward: BTreeMap<HostPort, ForwardTold>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ForwardTold {
    pub(crate) at: Spot,
    pub(crate) service: Spot,
    pub(crate) user: Option<Spot>,
}

impl Told {
    pub(crate) fn of(node: &Node, org: &Self) -> Self {
        let mut told = org.clone();
        let Some(tunnel) = node.get("tunnel").map(|entry| &entry.value) else { return told };
        let spot = |key: &str| tunnel.get(key).map(Entry::spot);
        told.listen = spot("listen").or(told.listen);
        told.socks = spot("socks").or(told.socks);
        told.resolver = spot("resolver").or(told.resolver);
        for entry in forwards(tunnel) {
            let Ok(address) = entry.key.parse() else { continue };
            let service = entry.value.get("service").map_or(entry.spot(), Entry::spot);
            let user = entry.value.get("user").map(Entry::spot);
            told.forward.insert(address, ForwardTold { at: entry.at, service, user });
        }
        told
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.listen.is_none() && self.socks.is_none() && self.resolver.is_none() && self.forward.is_empty()
    }
}

/// What is said here wins over what was said before; forwards are merged by their address.
pub(crate) fn read(notes: &mut Notes<'_>, names: &Names, node: &Node, policy: &mut TunnelPolicy) {
    let Some(entry) = node.get("tunnel") else { return };
    let tunnel = &entry.value;
    policy.transport = match tunnel.get("transport").and_then(|entry| entry.value.text()) {
        Some("auto") => Transport::Auto,
        Some("tls") => Transport::Tls,
        Some("quic") => Transport::Quic,
        _ => policy.transport,
    };
    policy.listen = address(tunnel, "listen").or_else(|| policy.listen.take());
    policy.resolver = address(tunnel, "resolver").or_else(|| policy.resolver.take());
    if let Some(entry) = tunnel.get("socks") {
        policy.socks = socks(&entry.value, &policy.socks);
    }
    let mut here: BTreeMap<HostPort, Spot> = BTreeMap::new();
    for entry in forwards(tunnel) {
        let Ok(address) = entry.key.parse::<HostPort>() else { continue };
        if let Some(first) = here.insert(address.clone(), entry.at) {
            let draft = error(entry.at, format!("there are two forwards at {address}"));
            notes.push(draft.also(first, "it is first here").hint("keep one of them, or give one another port"));
        }
        if let Some(forward) = forward(notes, names, entry) {
            policy.forward.insert(address, forward);
        }
    }
    if policy.forward.len() > MAX_FORWARDS {
        let at = tunnel.get("forward").map_or(entry.at, |entry| entry.at);
        let draft = error(at, format!("{} forwards; a machine has {MAX_FORWARDS} at most", policy.forward.len()));
        notes.push(draft.hint("SOCKS and the resolver lead to every service: use those"));
        policy.forward.clear();
    }
}

fn forwards(tunnel: &Node) -> &[Entry] {
    tunnel.get("forward").map(|entry| entry.value.entries()).unwrap_or_default()
}

fn address(tunnel: &Node, key: &str) -> Option<HostPort> {
    tunnel.get(key)?.value.text()?.parse().ok()
}

/// A text says where, and leaves the rest as it is.
fn socks(said: &Node, before: &Socks) -> Socks {
    let (addr, password) = match before {
        Socks::Off => (Socks::usual_addr(), false),
        Socks::At { addr, password } => (addr.clone(), *password),
    };
    match &said.value {
        Value::Text { text, .. } if text == "off" => Socks::Off,
        Value::Text { text, .. } => Socks::At { addr: text.parse().unwrap_or(addr), password },
        _ => {
            let password = match said.get("password").and_then(|entry| entry.value.text()) {
                Some(text) => text == "true",
                None => password,
            };
            Socks::At { addr: address(said, "at").unwrap_or(addr), password }
        }
    }
}

fn forward(notes: &mut Notes<'_>, names: &Names, entry: &Entry) -> Option<Forward> {
    let (service, user) = match &entry.value.value {
        Value::Text { .. } => (Some(&entry.value), None),
        _ => (entry.value.get("service").map(|entry| &entry.value), entry.value.get("user").map(|entry| &entry.value)),
    };
    let service = service.and_then(|item| names.service(notes, item));
    let user = user.map(|item| names.user(notes, item));
    match user {
        None => Some(Forward { service: service?, user: None }),
        Some(user) => Some(Forward { service: service?, user: Some(user?) }),
    }
}
