//! `freehold gateway add | list | address | renew | move | reopen | remove`: which machines are gateways.

mod address;
pub mod mandate;
pub mod refresh;
mod renew;
mod reopen;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use address::AddressCommand;
use clap::{Args, Subcommand};
use ground::clock;
use ground::file;
use identity::envelope::Envelope;
use identity::head::{Mandate, TrustLine, TrustState};
use identity::principal::NodeName;
use identity::principal::glob::NameGlob;
use identity::time::Seconds;
use ledger::views::NodeView;
use operate::gateway;
use operate::gateway::add::{self, Addition, write_grant};
use operate::gateway::{GatewayWish, answering};
use operate::session::Session;
use renew::Renew;
use reopen::{ForkTold, Reopen};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::{or_dash, table};
use wire::control::PeerView;

use crate::home::{Common, During};
use crate::root_keys::RootKeys;
use crate::waiting::{Consent, Left, leave, told};

#[derive(Debug, Subcommand)]
pub enum GatewayCommand {
    /// Make a machine a gateway: it made its keys itself, and asks
    Add(Add),
    /// List the gateways, where they are, and how far each is
    List(List),
    /// List, add and remove addresses at which machines find a gateway
    #[command(subcommand)]
    Address(AddressCommand),
    /// Let a gateway's mandate last longer, and certify its keys under roots that came since
    Renew(Renew),
    /// Have a gateway come before the others: nodes, invites and this tool go there
    Move(Move),
    /// Have a gateway begin another chain: what it lacks nobody can bring, or its chain forks
    Reopen(Reopen),
    /// Take a gateway's mandate away; nodes come back at another
    Remove(Remove),
}

impl GatewayCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::Add(add) => add.run(common).await,
            Self::List(list) => list.run(common).await,
            Self::Address(address) => Box::pin(address.run(common)).await,
            Self::Renew(renew) => renew.run(common).await,
            Self::Move(to) => to.run(common).await,
            Self::Reopen(reopen) => Box::pin(reopen.run(common)).await,
            Self::Remove(remove) => remove.run(common).await,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold gateway add vps.request --out vps.grant
  freehold gateway add vps.request --name 'web-*' --name vps      it may issue for these names only

On that machine before:  freehold-node gateway request --address vps.example:7443 --out vps.request
and after:               freehold-node gateway install vps.grant && freehold-node gateway serve")]
pub struct Add {
    /// What `freehold-node gateway request` wrote
    request: PathBuf,
    /// Where to write what it takes home; there is no secret in it [default: NAME.grant here]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Names for which it may issue; may be repeated
    #[arg(long = "name", value_name = "GLOB", default_value = "*")]
    names: Vec<NameGlob>,
    /// How long an SVID lives [default: as at the first gateway]
    #[arg(long, value_name = "SPAN")]
    svid_ttl: Option<Seconds>,
    /// How long its mandate lasts [default: 365d]
    #[arg(long, value_name = "SPAN")]
    lasts: Option<Seconds>,
    /// Where the root keys are [default: the operator's folder]
    #[arg(long, value_name = "DIR")]
    roots: Option<PathBuf>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Added {
    gateway: String,
    addresses: Vec<String>,
    until: String,
    grant: String,
    /// Trusted versions under which its keys have no certificate, since the root's key is not here.
    uncertified: Vec<String>,
    #[serde(flatten)]
    pending: Left,
}

impl Add {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not add a gateway";
        let bytes = file::read(&self.request).during(doing)?;
        let request: Envelope = serde_json::from_slice(&bytes)
            .map_err(|why| Failure::failed(doing, format!("`{}` is no request: {why}", self.request.display())))?;
        let (mut session, keys) = common.signing_session(doing).await?;
        let wish = GatewayWish { names: self.names, svid_ttl: self.svid_ttl, lasts: self.lasts };
        let addition = Addition::begin(&mut session, &request, wish).await.during(doing)?;
        if !common.json {
            eprintln!("{}", who(&addition));
        }
        let gateway = &addition.mandate.gateway;
        let out = self.out.unwrap_or_else(|| PathBuf::from(format!("{gateway}.grant")));
        if out.exists() {
            return Err(Failure::failed(doing, format!("`{}` is there already", out.display()))
                .hint("move it away, or choose another name: --out FILE"));
        }
        let question = format!("Make `{gateway}` a gateway?");
        let consent = Consent { common, doing, yes: self.yes, question: &question };
        consent.ask(&mut session, |session, now| addition.roll(session, now)).await?;
        let mut papers = addition.papers(&mut session).await.during(doing)?;
        let roots = RootKeys::new(common, &session, self.roots);
        roots.certify_lacking(&session, gateway, &mut papers, doing)?;
        let absent = roots.absent(&papers, doing)?;
        for line in absent.iter().filter(|_| !common.json) {
            eprintln!("{}", without_root(gateway, line));
        }
        let made = addition.sign(&mut session, &keys, &papers).await.during(doing)?;
        let pending = leave(common, doing, &session.known, &made)?;
        let add::Added { mandate, grant } = made.what;
        let grant = grant.ok_or_else(|| renew::no_certificate(doing))?;
        write_grant(&out, &grant).during(doing)?;
        let result = Added {
            gateway: mandate.gateway.to_string(),
            addresses: mandate.addresses.iter().map(ToString::to_string).collect(),
            until: mandate.not_after.to_string(),
            grant: out.display().to_string(),
            uncertified: absent.iter().map(named).collect(),
            pending,
        };
        show(common.json, &result, || {
            let take = format!(
                "Bring `{0}` to `{1}`; there run:\n\n  freehold-node gateway install {0}\n  freehold-node gateway serve\n",
                result.grant, result.gateway
            );
            let done = || format!("`{}` has a mandate until {}", result.gateway, result.until);
            format!("{}\n{take}", told(result.pending.waiting(), done))
        });
        Ok(())
    }
}

/// A version of the roots of a domain.
fn named(line: &TrustLine) -> String {
    format!("{} {}", line.domain.word(), line.version)
}

/// What it cannot be given here, and what comes of that.
fn without_root(gateway: &NodeName, line: &TrustLine) -> String {
    let (domain, version, state) = (line.domain.word(), line.version, line.state.word());
    let so = match line.state {
        TrustState::Staged => format!(
            "that version cannot be activated with it. Run this where the key is (--roots DIR), or hand out another \
             version afterwards: freehold trust rollback {domain}, freehold trust publish {domain}"
        ),
        TrustState::Active | TrustState::Grace | TrustState::Retired => {
            "whoever goes by that version alone does not find it".to_owned()
        }
    };
    format!(
        "warning: version {version} of the `{domain}` roots is trusted ({state}), and the key of its root is not here: \
         `{gateway}` gets no certificate under it, and {so}"
    )
}

fn who(addition: &Addition) -> String {
    let Addition { checked, node, mandate, .. } = addition;
    let request = &checked.request;
    let list = |items: Vec<String>| items.join(" ");
    let lines = [
        format!("`{}` asks to be a gateway; it asked at {}", request.node, request.at),
        format!("  its node key   {} (the member's)", request.node_key.digest()),
        format!("  joined         {}, let in by `{}`", node.enrolled_at, node.admitted_by),
        format!("  found at       {}", list(mandate.addresses.iter().map(ToString::to_string).collect())),
        format!("  answers as     {}", list(mandate.hosts.iter().map(ToString::to_string).collect())),
        format!("  its voice      {}", request.voice),
        format!("  issuing keys   {} and {}", checked.identity.id, checked.endpoint.id),
        format!(
            "It may let machines in by invites that give it a right, and issue SVIDs of {} for the names {}, until {}.",
            mandate.svid_ttl,
            list(mandate.names.iter().map(ToString::to_string).collect()),
            mandate.not_after
        ),
    ];
    lines.join("\n")
}

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
    async fn run(self, common: &Common) -> Result<(), Failure> {
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

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold gateway move vps               and wait until every node knows of it
  freehold gateway move vps --no-wait

The gateway that came first until now stays one, until it is removed: freehold gateway remove NAME")]
pub struct Move {
    /// The gateway's node name
    node: NodeName,
    /// Do not wait until every node knows of it
    #[arg(long)]
    no_wait: bool,
    /// Wait this long at most
    #[arg(long, value_name = "SPAN", default_value = "5m")]
    wait: Seconds,
}

#[derive(Serialize)]
struct Moved {
    gateway: String,
    head: u64,
    /// Nodes that have not said yet that they know.
    not_yet: Vec<String>,
    #[serde(flatten)]
    pending: Left,
}

impl Move {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not move to `{}`", self.node);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let made = gateway::move_first(&mut session, &keys, &self.node).await.during(&doing)?;
        let pending = leave(common, &doing, &session.known, &made)?;
        let mut not_yet = Vec::new();
        if pending.waiting().is_none() {
            let wait = if self.no_wait { Seconds(0) } else { self.wait };
            let shown = !common.json && std::io::stderr().is_terminal();
            let mut fewest = usize::MAX;
            let tell = |left: &[NodeName]| {
                if shown && left.len() < fewest {
                    fewest = left.len();
                    eprintln!("waiting for {fewest} node(s): {}", first_names(left));
                }
            };
            not_yet = gateway::until_known(&mut session, made.what.version, wait, tell).await.during(&doing)?;
        }
        let not_yet = not_yet.iter().map(ToString::to_string).collect();
        let result = Moved { gateway: self.node.to_string(), head: made.what.version, not_yet, pending };
        show(common.json, &result, || {
            told(result.pending.waiting(), || {
                let known = if result.not_yet.is_empty() {
                    "every node knows".to_owned()
                } else {
                    format!(
                        "these have not said yet that they know, and find it when they next ask the old one: {}",
                        result.not_yet.join(" ")
                    )
                };
                format!("`{}` comes first (head {}); {known}", result.gateway, result.head)
            })
        });
        Ok(())
    }
}

fn first_names(names: &[NodeName]) -> String {
    let more = names.len().saturating_sub(5);
    let some: Vec<_> = names.iter().take(5).map(ToString::to_string).collect();
    if more > 0 { format!("{} and {more} more", some.join(" ")) } else { some.join(" ") }
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold gateway remove laptop

Everything that it issued is worth nothing at once; the nodes come back by their node keys at another gateway.
What it wrote into the ledger until now stands. Invites that only it has a right to are of no use any more.")]
pub struct Remove {
    /// The gateway's node name
    node: NodeName,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Removed {
    gateway: String,
    head: u64,
    #[serde(flatten)]
    pending: Left,
}

impl Remove {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not remove the gateway `{}`", self.node);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let peers = gateway::peers(&mut session).await.during(&doing)?;
        if !common.json {
            let peer = peers.iter().find(|peer| peer.gateway == self.node);
            let apart = peer.filter(|peer| peer.problem.is_some() || peer.last_exchange.is_none() || peer.behind > 0);
            if let Some(peer) = apart {
                eprintln!(
                    "`{}` last exchanged at {}: machines that it let in since then would have to join again.",
                    self.node,
                    or_dash(peer.last_exchange.as_ref())
                );
            }
            eprintln!(
                "Everything that `{}` issued is worth nothing at once; the nodes come back at another gateway. It cannot \
                 become a gateway under this name again.",
                self.node
            );
        }
        let question = format!("Remove the gateway `{}`?", self.node);
        let consent = Consent { common, doing: &doing, yes: self.yes, question: &question };
        let draft = |session: &Session, now| Ok(gateway::draft_removal(session, &self.node, now)?.roll);
        let sign = async |session: &mut Session| gateway::remove(session, &keys, &self.node).await;
        let (head, pending) = consent.sign(&mut session, draft, sign).await?;
        let result = Removed { gateway: self.node.to_string(), head: head.version, pending };
        show(common.json, &result, || {
            told(result.pending.waiting(), || {
                format!("`{}` is no gateway any more (head {})", result.gateway, result.head)
            })
        });
        Ok(())
    }
}
