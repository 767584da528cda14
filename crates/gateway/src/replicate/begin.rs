//! How a new gateway begins: its keys, what it asks of the operators, what it takes from them, and the whole ledger.

use std::collections::BTreeSet;

use ground::file::{self, FileAccess};
use ground::{clock, random};
use identity::bundle::{Domain, Endpoint};
use identity::certificate::{self, BadCertificate};
use identity::envelope::{BadEnvelope, Envelope};
use identity::id::Digest;
use identity::key::{BadKey, EdKey, P256Key, Sign as _};
use identity::members::Leaf;
use identity::principal::{Address, NodeName};
use identity::text::Bytes;
use identity::time::Seconds;
use ledger::error::LedgerError;
use ledger::replicate::{self, NotTaken};
use ledger::store::Ledger;
use member::apply::trust::Trusting;
use member::ask::error::AskError;
use member::ask::sync;
use member::store::scope::{NodeFile, Scope, ScopeError, read_key};
use org::founding::{BadFounding, Founding};
use org::gateway::{GatewayGrant, GatewayRequest};
use org::state::State;
use pki_types::CertificateDer;
use wire::connect::reply::BadReply;
use wire::connect::{Believed, CallError, GatewayAddress};
use wire::control::DIGESTS_PER_CALL;
use wire::exchange::{ExchangeAnswer, ExchangeRequest, Have};
use wire::known::Known;
use wire::permit::Ask;

use crate::replicate::mesh::addresses_of;
use crate::store::folder::{GatewayFile, GatewayFolder};
use crate::write::peers::lacking;

#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Certificate(#[from] BadCertificate),
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    #[error(transparent)]
    Key(#[from] BadKey),
    #[error(transparent)]
    Founding(#[from] BadFounding),
    #[error(transparent)]
    NoRandomness(#[from] random::NoRandomness),
    #[error("this machine is not a member yet")]
    NotJoined,
    #[error("this machine was not asked to be a gateway")]
    NoKeys,
    #[error("the grant is {0}")]
    NotForUs(Unfit),
    #[error("no mandate in head {head} names this machine")]
    NoMandate { head: u64 },
    #[error("what the gateway handed over is not taken")]
    NotTaken(#[from] NotTaken),
    #[error("the gateway answered something else than was asked")]
    OtherAnswer,
}

/// Why this machine can do nothing with a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("of a newer freehold: upgrade it on this machine")]
    Newer,
    #[error("of another org")]
    OtherOrg,
    #[error("for another machine")]
    OtherMachine,
    #[error("for other keys than those that were made here: ask again")]
    OtherVoice,
    #[error("for other issuing keys than those that were made here: ask again")]
    OtherIssuers,
    #[error("under an endpoint root that this machine has not heard of: let its agent run until it has")]
    UnheardRoot,
}

/// Makes the keys of a gateway, unless they are there, and asks for a mandate.
pub fn request(scope: &Scope, addresses: Vec<Address>) -> Result<Envelope, BeginError> {
    let node = scope.node()?.ok_or(BeginError::NotJoined)?;
    let folder = GatewayFolder::of_member(scope);
    file::make_private_folder(&folder.folder).map_err(ScopeError::from)?;
    let write = |name: &str, bytes: &[u8]| -> Result<(), BeginError> {
        Ok(file::write(&folder.path(name), bytes, FileAccess::Private).map_err(ScopeError::from)?)
    };
    if !folder.path("voice.key").exists() {
        write("voice.key", &random::ed25519()?.seed()[..])?;
    }
    for domain in [Domain::Identity, Domain::Endpoint] {
        let name = issuer_key(domain);
        if !folder.path(&name).exists() {
            write(&name, random::p256()?.to_pem().as_bytes())?;
        }
    }
    let (voice, node_key) = (voice(&folder)?, scope.node_key()?);
    let mut hosts: Vec<_> = addresses.iter().map(|address| address.host.clone()).collect();
    hosts.sort();
    hosts.dedup();
    let request =
        |domain| -> Result<Bytes, BeginError> { Ok(Bytes(certificate::make_request(&issuer(&folder, domain)?)?)) };
    let body = GatewayRequest {
        node: node.name,
        node_key: node_key.public(),
        voice: voice.public(),
        identity: request(Domain::Identity)?,
        endpoint: request(Domain::Endpoint)?,
        hosts,
        addresses,
        at: clock::now(),
    };
    Ok(Envelope::seal(Some(node.org_id), &body)?.signed(&node_key)?.signed(&voice)?)
}

fn issuer_key(domain: Domain) -> String {
    format!("{}-issuer.key", domain.word())
}

fn voice(folder: &GatewayFolder) -> Result<EdKey, BeginError> {
    let seed = file::read_secret(&folder.path("voice.key")).map_err(ScopeError::from)?;
    let seed = seed.as_slice().try_into().map_err(|_| BeginError::NoKeys)?;
    Ok(EdKey::from_seed(seed))
}

fn issuer(folder: &GatewayFolder, domain: Domain) -> Result<P256Key, BeginError> {
    Ok(read_key(&folder.path(&issuer_key(domain)))?)
}

/// Takes what the operators handed back, if it is for the keys that were made here.
pub fn install(scope: &Scope, grant: &GatewayGrant) -> Result<GatewayFile, BeginError> {
    let node = scope.node()?.ok_or(BeginError::NotJoined)?;
    let folder = GatewayFolder::of_member(scope);
    if !folder.path("voice.key").exists() {
        return Err(BeginError::NoKeys);
    }
    check(&node, &folder, grant)?;
    let founding = Founding::open_expecting(grant.founding.clone(), node.org_id)?;
    if grant.endpoint_root.0 != founding.record.endpoint_root.0 && !is_trusted(scope, &grant.endpoint_root)? {
        return Err(BeginError::NotForUs(Unfit::UnheardRoot));
    }
    folder.take(grant, clock::now())?;
    // Reads them back, as the gateway will.
    let _ = folder.keys()?;
    if !folder.path("ledger.db").exists() {
        drop(Ledger::create(&folder.path("ledger.db"), &founding)?);
    }
    let about = GatewayFile {
        schema: 1,
        org: node.org.clone(),
        org_id: node.org_id,
        node: node.name.clone(),
        addresses: grant.addresses.clone(),
    };
    folder.save_about(&about)?;
    let mut node = node;
    node.gateways
        .extend(grant.others.iter().filter(|address| !node.gateways.contains(address)).cloned().collect::<Vec<_>>());
    scope.save_node(&node)?;
    Ok(about)
}

fn is_trusted(scope: &Scope, root: &Bytes) -> Result<bool, BeginError> {
    let known = scope.known()?.ok_or(BeginError::NotJoined)?;
    let trusting = Trusting::<Endpoint>::open(scope, &known, clock::now())?;
    Ok(trusting.roots(&known.head.head).certificates().iter().any(|trusted| trusted.as_ref() == root.0.as_slice()))
}

fn check(node: &NodeFile, folder: &GatewayFolder, grant: &GatewayGrant) -> Result<(), BeginError> {
    let not = |why| Err(BeginError::NotForUs(why));
    if grant.freehold_grant != GatewayGrant::SCHEMA {
        return not(Unfit::Newer);
    }
    if grant.org_id != node.org_id {
        return not(Unfit::OtherOrg);
    }
    if grant.gateway != node.name {
        return not(Unfit::OtherMachine);
    }
    if grant.voice != voice(folder)?.public() {
        return not(Unfit::OtherVoice);
    }
    let fits = |domain, der: &Bytes| -> Result<bool, BeginError> {
        let key = certificate::key_id(issuer(folder, domain)?.public())?;
        Ok(certificate::read(&CertificateDer::from(der.0.clone()))?.key == key)
    };
    let identity = std::iter::once(&grant.identity_issuer).chain(&grant.identity_more);
    let endpoint = std::iter::once(&grant.endpoint_issuer).chain(&grant.endpoint_more);
    let all = identity.map(|der| (Domain::Identity, der)).chain(endpoint.map(|der| (Domain::Endpoint, der)));
    for (domain, der) in all {
        if !fits(domain, der)? {
            return not(Unfit::OtherIssuers);
        }
    }
    Ok(())
}

/// Fetches the whole ledger from a gateway that is there already. `told` hears how many entries are here, and how many
/// are left.
pub async fn fetch_ledger(scope: &Scope, mut told: impl FnMut(u64, u64)) -> Result<(), BeginError> {
    let folder = GatewayFolder::of_member(scope);
    let (ledger, founding) = Ledger::open(&folder.path("ledger.db"))?;
    let state = ledger.state(&founding, clock::now())?;
    let own = folder.about()?.node;
    if state.head().is_some_and(|record| record.head.active_mandate(&own, clock::now()).is_some()) {
        return Ok(());
    }
    let (mut line, known) = call_other(scope, &own).await?;
    if known.head.head.active_mandate(&own, clock::now()).is_none() {
        return Err(BeginError::NoMandate { head: known.head.head.version });
    }
    ledger.keep_sights(&known.followed())?;
    let mut state = ledger.state(&founding, clock::now())?;
    loop {
        let have = Have {
            frontier: state.frontier.clone(),
            issued: u64::MAX,
            reports: u64::MAX,
            tip: None,
            forks: Vec::new(),
            wait: Seconds(0),
        };
        let answer = line.ask(Ask::Exchange, &ExchangeRequest::News(have)).await.map_err(AskError::Call)?;
        let ExchangeAnswer::News(news) = answer else {
            return Err(BeginError::OtherAnswer);
        };
        let before = state.frontier.clone();
        replicate::take(&ledger, &mut state, news.entries, clock::now())?;
        told(state.frontier.entries(), lacking(&state.frontier, &news.frontier));
        if !news.more || state.frontier == before {
            break;
        }
    }
    fetch_map(&mut line, &ledger, &state).await
}

/// The members' map of the head in force, with its leaves and manifests: without it nobody is known to be listed, this machine
/// neither.
async fn fetch_map(line: &mut Believed, ledger: &Ledger, state: &State) -> Result<(), BeginError> {
    let Some(root) = state.head().and_then(|record| record.head.members) else { return Ok(()) };
    let (mut values, mut from) = (Vec::new(), 0);
    loop {
        let answer = line.ask(Ask::Exchange, &ExchangeRequest::Map { root, from }).await.map_err(AskError::Call)?;
        let ExchangeAnswer::Map { leaves, next } = answer else { return Err(BeginError::OtherAnswer) };
        values.extend(leaves);
        match next.filter(|next| *next > from) {
            Some(next) => from = next,
            None => break,
        }
    }
    let leaves = fetch_blobs(line, ledger, &values).await?;
    let manifests = leaves.iter().filter_map(|bytes| serde_json::from_slice::<Leaf>(bytes).ok()?.manifest());
    let manifests: BTreeSet<Digest> = manifests.collect();
    fetch_blobs(line, ledger, &manifests.into_iter().collect::<Vec<_>>()).await?;
    Ok(ledger.put_map(root, 0, &values)?)
}

/// What is sent counts only if its digest was asked for.
async fn fetch_blobs(line: &mut Believed, ledger: &Ledger, wanted: &[Digest]) -> Result<Vec<Vec<u8>>, BeginError> {
    let (mut found, mut open) = (Vec::new(), wanted.to_vec());
    while !open.is_empty() {
        let digests: Vec<Digest> = open.iter().take(DIGESTS_PER_CALL).copied().collect();
        let answer = line.ask(Ask::Exchange, &ExchangeRequest::Blobs { digests }).await.map_err(AskError::Call)?;
        let ExchangeAnswer::Blobs { blobs } = answer else { return Err(BeginError::OtherAnswer) };
        let before = open.len();
        for blob in blobs {
            let digest = Digest::of(&blob.0);
            if open.contains(&digest) {
                open.retain(|it| *it != digest);
                ledger.put_blob(&blob.0)?;
                found.push(blob.0);
            }
        }
        if open.len() == before {
            return Err(BeginError::OtherAnswer);
        }
    }
    Ok(found)
}

/// Any gateway but this one.
async fn call_other(scope: &Scope, own: &NodeName) -> Result<(Believed, Known), BeginError> {
    let node = scope.node()?.ok_or(BeginError::NotJoined)?;
    let known = scope.known()?.ok_or(BeginError::NotJoined)?;
    let others: Vec<GatewayAddress> =
        addresses_of(&known.head.head, own, clock::now()).into_values().flatten().collect();
    let mine = |address: &Address| {
        known.head.head.mandates.iter().any(|it| it.gateway == *own && it.addresses.contains(address))
    };
    let joined = node.gateways.iter().filter(|address| !mine(address)).cloned().map(GatewayAddress::from);
    let addresses: Vec<GatewayAddress> = others.into_iter().chain(joined).collect();
    let mut last = None;
    for address in addresses {
        match Box::pin(sync::connect(scope, std::slice::from_ref(&address))).await {
            Ok((line, known)) if line.mandate.gateway != *own => return Ok((line, known)),
            Ok((line, _)) => {
                let why = BadReply::OwnGateway;
                last = Some(AskError::Call(CallError::Unreadable { address: line.address().clone(), why }));
            }
            Err(why) => last = Some(why),
        }
    }
    Err(last.unwrap_or(AskError::NoGateway).into())
}
