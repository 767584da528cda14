//! `freehold gateway list`: where the gateways are, and how far each is.

use std::collections::BTreeMap;

use clap::Args;
use ground::clock;
use identity::head::Mandate;
use identity::principal::NodeName;
use ledger::views::NodeView;
use operate::gateway;
use operate::gateway::answering;
use operate::session::Session;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::{or_dash, table};
use wire::control::PeerView;

use super::reopen::ForkTold;
use crate::home::{Common, During};

#[derive(Debug, Args)]
pub struct List {}

#[derive(Serialize)]
struct GatewayTold {
    gateway: String,
    first: bool,
    asked: bool,
    /// Seen from here, now.
    answers: bool,
    addresses: Vec<String>,
    until: String,
    last_exchange: Option<String>,
    last_seen: Option<String>,
    behind: u64,
    ahead: u64,
    state: String,
    problem: Option<String>,
    /// Where its chain has two branches, with the entries that begin them.
    fork: Option<ForkTold>,
}

impl List {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not list the gateways";
        let mut session = common.session(doing).await?;
        let peers = gateway::peers(&mut session).await.during(doing)?;
        let nodes = operate::node::all(&mut session).await.during(doing)?;
        let looked = answering::look(&session, clock::now()).await;
        let seen = Seen { peers: &peers, nodes: &nodes, looked: &looked };
        let gateways: Vec<_> = session
            .known
            .head
            .head
            .mandates
            .iter()
            .enumerate()
            .map(|(nth, it)| row(&session, nth == 0, it, &seen))
            .collect();
        show(common.json, &gateways, || {
            let cells = |it: &GatewayTold| {
                let fork = it.fork.as_ref().map(|fork| fork.in_words(&it.gateway));
                vec![
                    it.gateway.clone(),
                    it.state.clone(),
                    or_dash(fork.or_else(|| it.problem.clone()).as_ref()),
                    or_dash(it.last_seen.as_ref()),
                    if it.addresses.is_empty() { "-".to_owned() } else { it.addresses.join(" ") },
                    it.until.clone(),
                    or_dash(it.last_exchange.as_ref()),
                    if it.asked { "-".to_owned() } else { it.ahead.to_string() },
                ]
            };
            let rows: Vec<_> = gateways.iter().map(cells).collect();
            table(&["GATEWAY", "STATE", "PROBLEM", "SEEN", "AT", "MANDATE UNTIL", "EXCHANGED", "BEHIND"], &rows)
        });
        Ok(())
    }
}

/// What is known of all gateways.
struct Seen<'a> {
    peers: &'a [PeerView],
    nodes: &'a [NodeView],
    /// Why each does not answer now.
    looked: &'a BTreeMap<NodeName, Option<String>>,
}

fn row(session: &Session, first: bool, mandate: &Mandate, all: &Seen<'_>) -> GatewayTold {
    let now = clock::now();
    let asked = mandate.gateway == session.survey.gateway;
    let peer = all.peers.iter().find(|peer| peer.gateway == mandate.gateway);
    let seen = answering::last_there(session, all.nodes, &mandate.gateway);
    let silent = all.looked.get(&mandate.gateway).cloned().flatten();
    let problem = silent.clone().or_else(|| peer.and_then(|peer| peer.problem.clone()));
    let fork = operate::gateway::reopen::fork(session, mandate.voice).map(ForkTold::of);
    let state = if !mandate.is_active(now) {
        "over"
    } else if fork.is_some() {
        "FORKED"
    } else if silent.is_some() {
        "DOWN"
    } else if asked {
        "answers"
    } else if problem.is_some() || peer.is_none_or(|peer| peer.last_exchange.is_none()) {
        "apart"
    } else {
        "exchanging"
    };
    GatewayTold {
        gateway: mandate.gateway.to_string(),
        first,
        asked,
        answers: matches!(all.looked.get(&mandate.gateway), Some(None)),
        addresses: mandate.addresses.iter().map(ToString::to_string).collect(),
        until: mandate.not_after.to_string(),
        last_exchange: peer.and_then(|peer| peer.last_exchange).map(|at| at.to_string()),
        last_seen: seen.map(|at| at.to_string()),
        behind: peer.map_or(0, |peer| peer.behind),
        ahead: peer.map_or(0, |peer| peer.ahead),
        state: if first { format!("first, {state}") } else { state.to_owned() },
        problem,
        fork,
    }
}
