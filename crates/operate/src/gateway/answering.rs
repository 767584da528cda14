//! Which gateways answer now, seen from here (a health check): each is dialed and believed, and asked nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use identity::bundle::Roots;
use identity::causes::describe;
use identity::head::Mandate;
use identity::principal::{Address, NodeName};
use identity::time::Timestamp;
use ledger::views::NodeView;
use tokio::task::JoinSet;
use tokio::time::timeout;
use wire::carry::way::patience;
use wire::connect::{Anchor, CallError, GatewayAddress, Provisional};
use wire::known::Known;
use wire::tls::Expect;
use wire::trust;

use crate::session::Session;

/// Whoever says nothing for so long is not there for anybody. By some ways it takes longer.
const LOOK: Duration = Duration::from_secs(4);

/// Why each gateway that has a mandate now does not answer; nothing for one that does.
pub async fn look(session: &Session, now: Timestamp) -> BTreeMap<NodeName, Option<String>> {
    let known = Arc::new(session.known.clone());
    let mut looking = JoinSet::new();
    let mut told = BTreeMap::new();
    for mandate in known.head.head.mandates.iter().filter(|mandate| mandate.is_active(now)) {
        let name = mandate.gateway.clone();
        if name == session.survey.gateway && !session.is_alone() {
            let why = (!session.is_served()).then(|| "it does not run: freehold serve".to_owned());
            told.insert(name, why);
            continue;
        }
        let (known, mandate) = (Arc::clone(&known), mandate.clone());
        looking.spawn(async move { (name, look_at(&mandate, &known).await) });
    }
    while let Some(looked) = looking.join_next().await {
        told.extend(looked.ok());
    }
    told
}

/// When it was last there: by whichever gateway is asked, or when this home itself last heard that very one.
pub fn last_there(session: &Session, nodes: &[NodeView], gateway: &NodeName) -> Option<Timestamp> {
    let seen = nodes.iter().rfind(|node| node.name == *gateway).and_then(|node| node.observed.last_seen);
    let memory = &session.memory;
    seen.max(memory.served_at.filter(|_| memory.gateway.as_ref() == Some(gateway)))
}

/// At each of its addresses, one after the other, until one answers.
async fn look_at(mandate: &Mandate, known: &Known) -> Option<String> {
    let mut why = "it has no address".to_owned();
    for address in &mandate.addresses {
        match at(address, &mandate.gateway, known).await {
            Ok(()) => return None,
            Err(not) => why = not,
        }
    }
    Some(why)
}

/// Does this very gateway answer at this address? Else why not.
pub(super) async fn at(address: &Address, gateway: &NodeName, known: &Known) -> Result<(), String> {
    let patience = LOOK.max(patience(&address.way));
    match timeout(patience, believe(address.clone(), known)).await {
        Ok(Ok(name)) if name == *gateway => Ok(()),
        Ok(Ok(name)) => Err(format!("`{name}` answers at {address}")),
        Ok(Err(failed)) => Err(describe(&failed)),
        Err(_) => Err(format!("{address} says nothing for {} s", patience.as_secs())),
    }
}

/// Who is there.
async fn believe(address: Address, known: &Known) -> Result<NodeName, CallError> {
    let gateway = GatewayAddress::from(address);
    // By the roots of now, whoever hands them over: they are signed.
    let refreshed = trust::refresh(&gateway, known).await;
    let roots =
        refreshed.map_or_else(|_| known.first_endpoint_roots(), |(_, trusted)| Roots::of_all(&trusted.endpoint));
    let expect = Expect::RootsSince(roots, known.head.head.issued_at);
    let (believed, _) = Provisional::dial(&gateway, &expect, None).await?.believe(Anchor::Known(known, None)).await?;
    Ok(believed.mandate.gateway)
}
