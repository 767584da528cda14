//! `freehold gateway address list | add | remove`: where machines find a gateway.

use std::io::IsTerminal as _;

use clap::{Args, Subcommand};
use identity::head::Mandate;
use identity::principal::{Address, Host, NodeName};
use identity::time::{Seconds, Timestamp};
use operate::gateway::address::{self, AddressChange, Going, Needing, Place};
use operate::key::SignerKeys;
use operate::session::{OperateError, Session};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::table;

use crate::home::{Common, During};
use crate::waiting::{Consent, Left, told};

#[derive(Debug, Subcommand)]
pub enum AddressCommand {
    /// List where machines find gateways, and which answer
    List(List),
    /// Have machines find a gateway at one more address
    Add(Add),
    /// Have machines find a gateway at an address no longer
    Remove(Remove),
}

impl AddressCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.run(common).await,
            Self::Add(add) => add.run(common).await,
            Self::Remove(remove) => remove.run(common).await,
        }
    }
}

#[derive(Debug, Args)]
pub struct List {
    /// The gateway's node name [default: all]
    #[arg(value_name = "GATEWAY")]
    node: Option<NodeName>,
}

#[derive(Serialize)]
struct AddressTold {
    gateway: String,
    address: String,
    /// Machines are told of it; else only its name is still in the certificate.
    told: bool,
    /// Seen from here, now.
    answers: bool,
    problem: Option<String>,
    /// Machines that found the gateway there alone, although it is told no longer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needed_by: Vec<String>,
}

impl List {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not list the addresses";
        let mut session = common.session(doing).await?;
        let named = session.head().mandates.iter().map(|mandate| mandate.gateway.clone());
        let mut gateways: Vec<NodeName> = named.collect();
        if let Some(gateway) = self.node {
            gateways = vec![gateway];
        }
        let mut rows = Vec::new();
        for gateway in gateways {
            let mandate = address::mandate(&session, &gateway).during(doing)?;
            for address in &mandate.addresses {
                let answered = address::answers_now(&session, &gateway, address).await;
                rows.push(AddressTold {
                    gateway: gateway.to_string(),
                    address: address.to_string(),
                    told: true,
                    answers: answered.is_ok(),
                    problem: answered.err(),
                    needed_by: Vec::new(),
                });
            }
            for host in address::leaving(&mandate) {
                let needing = address::needing(&mut session, 0, &host).await.during(doing)?;
                rows.push(AddressTold {
                    gateway: gateway.to_string(),
                    address: host.to_string(),
                    told: false,
                    answers: false,
                    problem: Some("leaving: only its name is still in the certificate".to_owned()),
                    needed_by: names(&needing.went_back),
                });
            }
        }
        show(common.json, &rows, || {
            let cells = |row: &AddressTold| {
                let state = if row.answers { "answers" } else { "-" };
                let mut problem = row.problem.clone().unwrap_or_else(|| "-".to_owned());
                if !row.needed_by.is_empty() {
                    problem = format!("{problem}; needed by {}", row.needed_by.join(" "));
                }
                vec![row.gateway.clone(), row.address.clone(), state.to_owned(), problem]
            };
            table(&["GATEWAY", "ADDRESS", "STATE", "PROBLEM"], &rows.iter().map(cells).collect::<Vec<_>>())
        });
        Ok(())
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold gateway address add quay gw.example
  freehold gateway address add quay 192.0.2.7:8443

The gateway answers by the new name at once, and machines try it where the others lead nowhere. Codes of new invites name it.
It is tried from here before and after. The gateway goes on listening where it does: --listen of freehold serve.")]
pub struct Add {
    /// The gateway's node name
    #[arg(value_name = "GATEWAY")]
    node: NodeName,
    /// HOST, HOST:PORT, wss://HOST or socks5://PROXY:PORT/HOST:PORT; without a port, that of its first address
    #[arg(value_name = "ADDRESS")]
    place: Place,
    /// Do not try it from here
    #[arg(long)]
    untried: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Changed {
    gateway: String,
    address: String,
    /// Where machines find it from now on.
    addresses: Vec<String>,
    /// Whether it answers by the new name, seen from here; nothing if that was not tried.
    answers: Option<bool>,
    problem: Option<String>,
    /// Machines and classes that go by `gateways` of the fleet, which does not name it.
    declared_without: Vec<String>,
    #[serde(flatten)]
    pending: Left,
}

impl Add {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let gateway = &self.node;
        let doing = format!("could not add an address of `{gateway}`");
        let (mut session, keys) = common.signing_session(&doing).await?;
        let mandate = address::mandate(&session, gateway).during(&doing)?;
        let address = self.place.in_full(&mandate);
        let tries = !self.untried && session.is_served();
        let silent = if tries { address::unreachable(&address).await } else { None };
        if let Some(why) = silent.filter(|_| !common.json) {
            eprintln!("warning: nothing answers at {address}, seen from here: {why}");
        }
        let question = format!("Have machines find `{gateway}` at {address}, too?");
        let (changed, pending) = turn(
            Asking { common, doing: &doing, yes: self.yes },
            &mut session,
            &keys,
            &mandate,
            &AddressChange::Add(address.clone()),
            &question,
        )
        .await?;
        let answered = match pending.waiting() {
            None if tries => Some(address::answers(&session, gateway, &address).await),
            _ => None,
        };
        let without = |gateways: &[Address]| !gateways.contains(&address);
        let result = Changed {
            gateway: gateway.to_string(),
            address: address.to_string(),
            addresses: texts(&changed.addresses),
            answers: answered.as_ref().map(Result::is_ok),
            problem: answered.and_then(Result::err),
            declared_without: address::declared(&mut session, without).await.during(&doing)?,
            pending,
        };
        show(common.json, &result, || result.in_words());
        Ok(())
    }
}

impl Changed {
    fn in_words(&self) -> String {
        let Self { gateway, address, addresses, .. } = self;
        let done = || format!("machines find `{gateway}` at {}", addresses.join(", "));
        let mut lines = vec![told(self.pending.waiting(), done)];
        lines.extend(self.problem.iter().map(|why| {
            format!(
                "warning: it does not answer at {address}, seen from here: {why}\nMachines go on by the others. Mend it, or \
                 take it out: freehold gateway address remove {gateway} {address}"
            )
        }));
        if !self.declared_without.is_empty() {
            lines.push(format!(
                "The fleet declares `gateways` without it for {}: add it there and publish, and each machine tries it.",
                self.declared_without.join(", ")
            ));
        }
        lines.join("\n")
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold gateway address remove quay localhost       and wait until every machine goes by the others
  freehold gateway address remove quay 192.0.2.7 --no-wait

Machines are told of it no longer, try the others, and go back to it if those lead nowhere. Its name stays in the certificate
until every machine has said that it goes by another; run it again for those that were off. Codes that name no other
address are of no use afterwards.")]
pub struct Remove {
    /// The gateway's node name
    #[arg(value_name = "GATEWAY")]
    node: NodeName,
    /// As `freehold gateway address list` has it, or its host alone
    #[arg(value_name = "ADDRESS")]
    place: Place,
    /// Do not try from here whether it answers at another
    #[arg(long)]
    untried: bool,
    #[command(flatten)]
    patience: Patience,
    /// Take its name out of the certificate, also if machines are left that may know no other
    #[arg(long, conflicts_with = "no_wait")]
    anyway: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Args)]
struct Patience {
    /// Do not wait for machines: only tell them
    #[arg(long)]
    no_wait: bool,
    /// Wait this long at most
    #[arg(long, value_name = "SPAN", default_value = "5m")]
    wait: Seconds,
}

#[derive(Serialize)]
struct Removed {
    gateway: String,
    address: String,
    /// Where machines find it from now on.
    addresses: Vec<String>,
    /// The certificate names it no longer.
    name_is_gone: bool,
    /// Machines that have not said that they know.
    not_told: Vec<String>,
    /// Machines that found nobody at the others, and went back.
    went_back: Vec<String>,
    #[serde(flatten)]
    pending: Left,
}

impl Remove {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not remove an address of `{}`", self.node);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let mut mandate = address::mandate(&session, &self.node).during(&doing)?;
        let going = self.place.going(&mandate).during(&doing)?;
        let asking = Asking { common, doing: &doing, yes: self.yes };
        let (text, host) = match &going {
            Going::Address(address) => (address.to_string(), address.host.clone()),
            Going::Name(host) => (host.to_string(), host.clone()),
        };
        if let Going::Address(address) = going {
            let tries = !self.untried && session.is_served();
            address::check_going(&mut session, &mandate, &address, tries).await.during(&doing)?;
            self.tell_who_may_know_no_other(common, &mut session, &address).await.during(&doing)?;
            let question = format!("Have machines find `{}` at {address} no longer?", self.node);
            let (changed, pending) =
                turn(asking, &mut session, &keys, &mandate, &AddressChange::Leave(address), &question).await?;
            let named_still = changed.addresses.iter().any(|it| it.host == host);
            if pending.waiting().is_some() || named_still {
                self.result(text, &changed, &Needing::default(), pending).show(common);
                return Ok(());
            }
            mandate = changed;
        }
        address::check_dropping(&mut session, &host).await.during(&doing)?;
        let needing = self.wait_for_machines(common, &mut session, &host).await.during(&doing)?;
        if !needing.went_back.is_empty() && !self.anyway {
            let back = names(&needing.went_back).join(" ");
            let why = format!("nobody answers at what is left, seen from {back}: back at {text}, whose name stays");
            let hint = format!("put it back: freehold gateway address add {} {text}; or mend what is left", self.node);
            return Err(Failure::failed(&doing, why).hint(hint));
        }
        if !needing.nobody() && !self.anyway {
            self.result(text, &mandate, &needing, Left::default()).show(common);
            return Ok(());
        }
        if !needing.nobody() && !common.json {
            eprintln!("{}", of_no_use(&needing));
        }
        let question = format!("Take {host} out of the certificate of `{}`?", self.node);
        let asking = Asking { yes: self.yes || needing.nobody(), ..asking };
        let (changed, pending) =
            turn(asking, &mut session, &keys, &mandate, &AddressChange::Drop(host), &question).await?;
        self.result(text, &changed, &needing, pending).show(common);
        Ok(())
    }

    /// Whoever is off, and comes back with this address alone.
    async fn tell_who_may_know_no_other(
        &self,
        common: &Common,
        session: &mut Session,
        address: &Address,
    ) -> Result<(), OperateError> {
        let version = session.head().version;
        let needing = address::needing(session, version, &address.host).await?;
        if !needing.not_told.is_empty() && !common.json {
            eprintln!(
                "These have not said that they know head {version}, and may know no other address: {}",
                names(&needing.not_told).join(" ")
            );
        }
        Ok(())
    }

    async fn wait_for_machines(
        &self,
        common: &Common,
        session: &mut Session,
        host: &Host,
    ) -> Result<Needing, OperateError> {
        let waits = !self.patience.no_wait && session.is_served();
        let wait = if waits { self.patience.wait } else { Seconds(0) };
        let version = session.head().version;
        let shown = !common.json && std::io::stderr().is_terminal();
        let mut fewest = usize::MAX;
        address::until_told(session, version, host, wait, |left| {
            if shown && left.len() < fewest {
                fewest = left.len();
                eprintln!("waiting for {fewest} machine(s)");
            }
        })
        .await
    }

    fn result(&self, address: String, mandate: &Mandate, needing: &Needing, pending: Left) -> Removed {
        let host = address.parse::<Address>().map(|address| address.host).or_else(|_| address.parse());
        Removed {
            gateway: self.node.to_string(),
            address,
            addresses: texts(&mandate.addresses),
            name_is_gone: pending.waiting().is_none() && host.is_ok_and(|host| !mandate.hosts.contains(&host)),
            not_told: names(&needing.not_told),
            went_back: names(&needing.went_back),
            pending,
        }
    }
}

impl Removed {
    fn show(&self, common: &Common) {
        show(common.json, self, || self.in_words());
    }

    fn in_words(&self) -> String {
        let Self { gateway, address, addresses, .. } = self;
        let again = format!("freehold gateway address remove {gateway} {address}");
        if let Some(waiting) = self.pending.waiting() {
            return format!("{}\nThen run this again, until its name is gone, too: {again}", waiting.in_words());
        }
        let mut lines = vec![format!("machines find `{gateway}` at {}", addresses.join(", "))];
        if self.name_is_gone {
            lines.push(format!("its certificate does not name {address} any more"));
        } else if !self.not_told.is_empty() {
            lines.push(format!(
                "Its name stays in the certificate: these have not said that they know: {}\nRun this again once they have: {again}",
                self.not_told.join(" ")
            ));
        }
        lines.join("\n")
    }
}

fn of_no_use(needing: &Needing) -> String {
    let all: Vec<String> = needing.not_told.iter().chain(&needing.went_back).map(ToString::to_string).collect();
    format!(
        "These may find no gateway any more: {}. A fresh code brings each back, under its name and with its key: \
         freehold-node join",
        all.join(" ")
    )
}

/// Whoever is asked.
#[derive(Clone, Copy)]
struct Asking<'a> {
    common: &'a Common,
    doing: &'a str,
    yes: bool,
}

/// One head, asked for and signed.
async fn turn(
    Asking { common, doing, yes }: Asking<'_>,
    session: &mut Session,
    keys: &SignerKeys,
    mandate: &Mandate,
    turn: &AddressChange,
    question: &str,
) -> Result<(Mandate, Left), Failure> {
    let gateway = &mandate.gateway;
    turn.check(mandate).during(doing)?;
    let consent = Consent { common, doing, yes, question };
    let draft = |session: &Session, now: Timestamp| Ok(address::draft(session, gateway, turn, now)?.roll());
    let sign = async |session: &mut Session| address::sign(session, keys, gateway, turn).await;
    consent.sign(session, draft, sign).await
}

fn names(nodes: &[NodeName]) -> Vec<String> {
    nodes.iter().map(ToString::to_string).collect()
}

fn texts(addresses: &[Address]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}
