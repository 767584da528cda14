//! A manifest as a list of facts, so that two can be held against each other line by line.

use std::collections::BTreeMap;
use std::fmt::Display;

use identity::id::Digest;
use identity::principal::{Name, Principal};
use serde::{Deserialize, Serialize};

use crate::stored::{
    Access, Account, BadManifest, Caller, Check, Confirm, Delivered, Dial, Forward, Manifest, Place, Probe,
    ProgramSvid, Runs, Socks, Target, Transport, TunnelPolicy,
};

/// What a fact is about, in the order in which people want to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    Service,
    /// A service that listens here is told who calls.
    TellsCaller,
    User,
    Gateways,
    Address,
    Relay,
    /// What carries streams to other nodes.
    Transport,
    /// Where it listens for them.
    Listen,
    /// Where programs here ask for services.
    Socks,
    /// An address here that leads to one service.
    Forward,
    /// Where names of services are resolved.
    Resolver,
    SvidLife,
    SyncWait,
    ApplyDeadline,
    Confirm,
    Label,
    Check,
    File,
    /// How the program of a service or user has its SVID.
    Svid,
    /// A DNS name that the SVID carries.
    SvidName,
    /// Somebody may call a service that listens here.
    Caller,
    /// Somebody opens nothing new here on a stale head.
    Stale,
    /// Somebody here may call a service elsewhere.
    Target,
    /// Where such a service is.
    TargetAt,
    /// A node that carries for those without an address.
    Carrier,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fact {
    pub what: What,
    /// The service, user, file and so on; empty for what a machine has once.
    pub name: String,
    /// Whom it concerns, for callers and targets.
    pub who: String,
}

pub(super) type Facts = BTreeMap<Fact, String>;

/// The part of a manifest that says who may call.
#[derive(Deserialize)]
struct Glance {
    access: Tables,
}

#[derive(Deserialize)]
struct Tables {
    callers: BTreeMap<Name, Vec<Caller>>,
}

/// Without reading the rest: of thousands of manifests that stay as they are, nothing else is needed.
pub(super) fn callers_in(bytes: &[u8], named: Digest) -> Result<BTreeMap<Name, Vec<Caller>>, BadManifest> {
    if Digest::of(bytes) != named {
        return Err(BadManifest::OtherBytes);
    }
    let glance: Glance = serde_json::from_slice(bytes).map_err(|why| BadManifest::Malformed(why.to_string()))?;
    Ok(glance.access.callers)
}

pub(super) fn of(manifest: &Manifest) -> Facts {
    let mut facts = Facts::new();
    runs(&manifest.runs, &mut |what, name, value| {
        facts.insert(Fact { what, name, who: String::new() }, value);
    });
    for (principal, svid) in &manifest.runs.svids {
        let whose = short(principal);
        for name in &svid.dns {
            facts.insert(Fact { what: What::SvidName, name: whose.clone(), who: name.to_string() }, String::new());
        }
        facts.insert(Fact { what: What::Svid, name: whose, who: String::new() }, handed(svid));
    }
    access(&manifest.access, &mut |what, name, who, value| {
        facts.insert(Fact { what, name, who }, value);
    });
    facts
}

fn runs(runs: &Runs, add: &mut impl FnMut(What, String, String)) {
    let none = String::new;
    let gateways = if runs.gateways.is_empty() { "those found so far".to_owned() } else { joined(&runs.gateways) };
    let life = runs.svid_life.map_or_else(|| "as the gateway's mandate says".to_owned(), |life| life.to_string());
    let confirm = match runs.apply.confirm {
        Confirm::Auto => "auto",
        Confirm::Operator => "operator",
        Confirm::Offline => "offline",
    };
    add(What::Gateways, none(), gateways);
    add(What::SvidLife, none(), life);
    add(What::SyncWait, none(), runs.sync.wait.to_string());
    add(What::ApplyDeadline, none(), runs.apply.deadline.to_string());
    add(What::Confirm, none(), confirm.to_owned());
    if let Some(address) = &runs.address {
        add(What::Address, none(), address.to_string());
    }
    if runs.relay {
        add(What::Relay, none(), "yes".to_owned());
    }
    tunnel(&runs.tunnel, add);
    let told = runs.services.iter().filter(|(_, listener)| listener.tells_caller);
    told.for_each(|(name, _)| add(What::TellsCaller, name.to_string(), none()));
    runs.labels.iter().for_each(|label| add(What::Label, label.to_string(), none()));
    runs.services.iter().for_each(|(name, listener)| add(What::Service, name.to_string(), listener.addr.to_string()));
    runs.users.iter().for_each(|name| add(What::User, name.to_string(), none()));
    runs.checks.iter().for_each(|(name, check)| add(What::Check, name.to_string(), probe(check)));
    runs.files.iter().for_each(|(name, file)| add(What::File, name.to_string(), content(file)));
}

fn tunnel(tunnel: &TunnelPolicy, add: &mut impl FnMut(What, String, String)) {
    let none = String::new;
    let transport = match tunnel.transport {
        Transport::Auto => "auto",
        Transport::Tls => "tls",
        Transport::Quic => "quic",
    };
    let socks = match &tunnel.socks {
        Socks::Off => "off".to_owned(),
        Socks::At { addr, password: false } => addr.to_string(),
        Socks::At { addr, password: true } => format!("{addr}, with a password"),
    };
    add(What::Transport, none(), transport.to_owned());
    add(What::Socks, none(), socks);
    if let Some(listen) = &tunnel.listen {
        add(What::Listen, none(), listen.to_string());
    }
    if let Some(resolver) = &tunnel.resolver {
        add(What::Resolver, none(), resolver.to_string());
    }
    for (at, Forward { service, user }) in &tunnel.forward {
        let whose = user.as_ref().map_or_else(|| "this node".to_owned(), |user| format!("user/{user}"));
        add(What::Forward, at.to_string(), format!("{service} for {whose}"));
    }
}

fn access(access: &Access, add: &mut impl FnMut(What, String, String, String)) {
    for (service, rows) in &access.callers {
        for row in rows {
            let (who, places) = caller(row);
            add(What::Caller, service.to_string(), who, places);
        }
    }
    for (service, target) in &access.targets {
        let callers = target.callers.iter().map(short);
        for who in callers.chain(target.node.then(|| "this node".to_owned())) {
            add(What::Target, service.to_string(), who, String::new());
        }
        add(What::TargetAt, service.to_string(), String::new(), found(target));
    }
    for (stale, row) in access.stale.iter().flat_map(|stale| stale.callers.iter().map(move |row| (stale, row))) {
        let (who, places) = caller(row);
        let places = if places.is_empty() { places } else { format!(", at home on {places}") };
        add(What::Stale, String::new(), who, format!("{}{places}", stale.margin));
    }
    for (relay, address) in &access.relays {
        add(What::Carrier, relay.to_string(), String::new(), address.to_string());
    }
}

pub(super) fn caller(row: &Caller) -> (String, String) {
    match row {
        Caller::Placed { principal, at } => (short(principal), at.iter().map(place).collect::<Vec<_>>().join(", ")),
        Caller::Node(name) => (format!("node/{name}"), String::new()),
        Caller::Class { class, names } => (format!("class/{class}"), joined(names)),
        Caller::AnyNode => ("every node".to_owned(), String::new()),
    }
}

fn short(principal: &Principal) -> String {
    format!("{}/{}", principal.kind().word(), principal.name())
}

fn place(place: &Place) -> String {
    match place {
        Place::Node(name) => name.to_string(),
        Place::Class { class, names } => format!("class {class} ({})", joined(names)),
    }
}

fn found(target: &Target) -> String {
    let port = target.port.map(|port| format!(", port {port}")).unwrap_or_default();
    format!("{}{port}", dials(&target.places))
}

fn dials(dials: &[Dial]) -> String {
    let dial = |dial: &Dial| match &dial.address {
        Some(address) => format!("{} at {address}", place(&dial.at)),
        None => format!("{} by a relay", place(&dial.at)),
    };
    dials.iter().map(dial).collect::<Vec<_>>().join(", ")
}

fn probe(check: &Check) -> String {
    let probe = match &check.probe {
        Probe::Tcp(at) => format!("tcp {at}"),
        Probe::Http { at, path, status } => format!("http {at}{path} = {status}"),
        Probe::Command(words) => format!("command {words:?}"),
    };
    format!("{probe} within {}", check.timeout)
}

fn handed(svid: &ProgramSvid) -> String {
    let account = |account: &Option<Account>| account.as_ref().map_or("the agent's own".to_owned(), Account::to_string);
    let reload = if svid.reload.is_empty() { String::new() } else { format!(", then {:?}", svid.reload) };
    let (owner, group) = (account(&svid.owner), account(&svid.group));
    format!("user {owner}, group {group}, mode {}{reload}", svid.mode)
}

fn content(file: &Delivered) -> String {
    let executable = if file.executable { ", executable" } else { "" };
    format!("sha256:{}{executable}", Digest::of(&file.content.0))
}

fn joined(items: &[impl Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
