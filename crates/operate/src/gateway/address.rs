//! Where machines find a gateway. An address that goes leaves what they are told first; its name stays in the certificate
//! until every machine has said that it goes without it.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::time::{Duration, Instant};

use identity::causes::describe;
use identity::head::{Cause, Mandate};
use identity::principal::{Address, BadName, Host, NodeName};
use identity::time::{Seconds, Timestamp};
use org::gateway::MAX_ADDRESSES;
use org::state::Standing;
use serde::Serialize;
use tokio::time::{sleep, timeout};
use wire::carry::way;

use super::answering;
use crate::gateway::mandate_of;
use crate::key::SignerKeys;
use crate::node;
use crate::session::reports::reports_known;
use crate::session::{Made, OperateError, Result, Session, Unsigned, Unwise, maps};

const USUAL_PORT: u16 = 7443;
/// A gateway that is not asked itself hears of its new name a little later.
const HEARS: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// An address as a person writes it: without a port, it is the gateway's.
#[derive(Debug, Clone)]
pub enum Place {
    Whole(Address),
    Host(Host),
}

impl FromStr for Place {
    type Err = BadName;
    fn from_str(text: &str) -> std::result::Result<Self, BadName> {
        text.parse().map(Self::Whole).or_else(|why| text.parse().map(Self::Host).map_err(|_| why))
    }
}

impl Place {
    /// One that is to be there.
    pub fn in_full(&self, mandate: &Mandate) -> Address {
        let port = || mandate.addresses.iter().find(|address| address.is_direct()).map_or(USUAL_PORT, |it| it.port);
        match self {
            Self::Whole(address) => address.clone(),
            Self::Host(host) => Address::direct(host.clone(), port()),
        }
    }

    const fn host(&self) -> &Host {
        match self {
            Self::Whole(address) => &address.host,
            Self::Host(host) => host,
        }
    }

    fn fits(&self, address: &Address) -> bool {
        match self {
            Self::Whole(whole) => whole == address,
            Self::Host(host) => *host == address.host,
        }
    }

    /// One that is there: what goes first is the address, then its name.
    pub fn going(&self, mandate: &Mandate) -> Result<Going> {
        let mut named = mandate.addresses.iter().filter(|address| self.fits(address));
        match (named.next(), named.next()) {
            (Some(address), None) => Ok(Going::Address(address.clone())),
            (Some(_), Some(_)) => Err(Unwise::SeveralFit { what: "addresses", wanted: self.host().to_string() }.into()),
            (None, _) if leaving(mandate).contains(self.host()) => Ok(Going::Name(self.host().clone())),
            (None, _) => Err(OperateError::no_such("address", self.host())),
        }
    }
}

/// What is left of an address that goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Going {
    Address(Address),
    /// Machines are told of it no longer, and the certificate still names it.
    Name(Host),
}

/// What becomes of a gateway's addresses with one head.
#[derive(Debug, Clone)]
pub enum AddressChange {
    Add(Address),
    /// Its name stays.
    Leave(Address),
    Drop(Host),
}

impl AddressChange {
    /// Why it cannot be, if so.
    pub fn check(&self, mandate: &Mandate) -> Result<(), Unwise> {
        self.apply(&mut mandate.clone())
    }

    fn apply(&self, mandate: &mut Mandate) -> Result<(), Unwise> {
        let gateway = mandate.gateway.clone();
        match self {
            Self::Add(address) => {
                if mandate.addresses.contains(address) {
                    return Err(Unwise::AddressAlready { gateway, address: address.clone() });
                }
                mandate.addresses.push(address.clone());
                if !mandate.hosts.contains(&address.host) {
                    mandate.hosts.push(address.host.clone());
                }
                if mandate.addresses.len().max(mandate.hosts.len()) > MAX_ADDRESSES {
                    return Err(Unwise::TooManyAddresses);
                }
            }
            Self::Leave(address) => {
                mandate.addresses.retain(|it| it != address);
                if mandate.addresses.is_empty() {
                    return Err(Unwise::LastAddress { gateway, address: address.clone() });
                }
            }
            Self::Drop(host) => mandate.hosts.retain(|it| it != host),
        }
        Ok(())
    }
}

/// Names in its certificate by which machines are told of it no longer.
pub fn leaving(mandate: &Mandate) -> BTreeSet<Host> {
    let named: BTreeSet<&Host> = mandate.addresses.iter().map(|address| &address.host).collect();
    mandate.hosts.iter().filter(|host| !named.contains(host)).cloned().collect()
}

/// A gateway's mandate, with its addresses. One of an older freehold does not say them: the gateway does.
pub fn mandate(session: &Session, gateway: &NodeName) -> Result<Mandate> {
    let mut mandate = mandate_of(session.head(), gateway)?.clone();
    if mandate.addresses.is_empty() && session.survey.gateway == *gateway {
        mandate.addresses.clone_from(&session.survey.addresses);
    }
    Ok(mandate)
}

/// The mandate as it would be, with the head that makes it so.
pub fn draft(
    session: &Session,
    gateway: &NodeName,
    change: &AddressChange,
    now: Timestamp,
) -> Result<Unsigned<Mandate>> {
    let mut changed = mandate(session, gateway)?;
    change.apply(&mut changed)?;
    let next = session.next_head(now, Cause::MandateChange { gateway: gateway.clone() }, |head| {
        for mandate in head.mandates.iter_mut().filter(|mandate| mandate.gateway == *gateway) {
            (mandate.hosts, mandate.addresses) = (changed.hosts.clone(), changed.addresses.clone());
        }
    })?;
    Ok(Unsigned { objects: Vec::new(), next: Some(next), what: changed })
}

pub async fn sign(
    session: &mut Session,
    keys: &SignerKeys,
    gateway: &NodeName,
    change: &AddressChange,
) -> Result<Made<Mandate>> {
    session.publish(keys, |session, now| draft(session, gateway, change, now)).await
}

/// Nodes and classes for which the fleet declares `gateways`, and such ones.
pub async fn declared(session: &mut Session, such: impl Fn(&[Address]) -> bool) -> Result<Vec<String>> {
    let Some(published) = maps::published(session).await? else { return Ok(Vec::new()) };
    Ok(published.those(|manifest| !manifest.runs.gateways.is_empty() && such(&manifest.runs.gateways)))
}

async fn check_declared(session: &mut Session, address: String, such: impl Fn(&[Address]) -> bool) -> Result<()> {
    let by = declared(session, such).await?;
    if by.is_empty() { Ok(()) } else { Err(Unwise::AddressDeclared { address, by }.into()) }
}

/// Why a name cannot go: the fleet declares it.
pub async fn check_dropping(session: &mut Session, host: &Host) -> Result<()> {
    check_declared(session, host.to_string(), |gateways| gateways.iter().any(|it| it.host == *host)).await
}

/// Why an address cannot go: the fleet declares it, or nothing answers at the others.
pub async fn check_going(session: &mut Session, mandate: &Mandate, address: &Address, tries: bool) -> Result<()> {
    AddressChange::Leave(address.clone()).check(mandate)?;
    check_declared(session, address.to_string(), |gateways| gateways.contains(address)).await?;
    if !tries {
        return Ok(());
    }
    let mut why = Vec::new();
    for other in mandate.addresses.iter().filter(|other| *other != address) {
        match answering::at(other, &mandate.gateway, &session.known).await {
            Ok(()) => return Ok(()),
            Err(not) => why.push(not),
        }
    }
    Err(Unwise::NothingElseAnswers { gateway: mandate.gateway.clone(), why: why.join("; ") }.into())
}

/// Why nothing is there, seen from here, before the gateway has the name.
pub async fn unreachable(address: &Address) -> Option<String> {
    let patience = way::patience(&address.way);
    match timeout(patience, way::open(address, None)).await {
        Ok(Ok(_)) => None,
        Ok(Err(why)) => Some(describe(&why)),
        Err(_) => Some(format!("{address} says nothing for {} s", patience.as_secs())),
    }
}

/// Does the gateway answer by the name that it was just given? Else why not.
pub async fn answers(session: &Session, gateway: &NodeName, address: &Address) -> std::result::Result<(), String> {
    let until = Instant::now() + HEARS;
    loop {
        let answered = answers_now(session, gateway, address).await;
        if answered.is_ok() || Instant::now() >= until {
            return answered;
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Does the gateway answer there? Else why not.
pub async fn answers_now(session: &Session, gateway: &NodeName, address: &Address) -> std::result::Result<(), String> {
    answering::at(address, gateway, &session.known).await
}

/// Members who may need a name.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Needing {
    /// They have not said that they know where else to look.
    pub not_told: Vec<NodeName>,
    /// They know, found nobody there, and went back.
    pub went_back: Vec<NodeName>,
}

impl Needing {
    pub const fn nobody(&self) -> bool {
        self.not_told.is_empty() && self.went_back.is_empty()
    }
}

/// By what each said last.
pub async fn needing(session: &mut Session, version: u64, host: &Host) -> Result<Needing> {
    let members = node::all(session).await?.into_iter().filter(|node| node.state == Standing::Member);
    let members: Vec<_> = members.collect();
    let reports = reports_known(session).await?;
    let mut needing = Needing::default();
    for member in members {
        let said = reports.get(&member.node_key.digest()).map(|heard| &heard.report);
        match said.filter(|report| report.head.version >= version) {
            None => needing.not_told.push(member.name),
            Some(report) if report.beside.as_ref().is_some_and(|beside| beside.host == *host) => {
                needing.went_back.push(member.name);
            }
            Some(_) => {}
        }
    }
    Ok(needing)
}

/// Waits until every member has said that it knows this head. `told` hears who has not.
pub async fn until_told(
    session: &mut Session,
    version: u64,
    host: &Host,
    wait: Seconds,
    mut told: impl FnMut(&[NodeName]),
) -> Result<Needing> {
    let until = Instant::now() + Duration::from_secs(wait.0);
    loop {
        let needing = needing(session, version, host).await?;
        if needing.not_told.is_empty() || !needing.went_back.is_empty() || Instant::now() >= until {
            return Ok(needing);
        }
        told(&needing.not_told);
        sleep(LOOK_EVERY).await;
    }
}
