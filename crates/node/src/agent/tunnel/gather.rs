//! What the tunnel should go by, read from what this node keeps and obeys.

use std::collections::BTreeSet;

use ground::clock;
use identity::bundle::{self, Roots};
use identity::principal::Name;
use identity::text::Bytes;
use manifest::stored::{Manifest, Socks};
use tunnel::orders::{Identity, Knowledge, Running};

use super::feed::Orders;
use crate::apply::engine::Engine;
use crate::apply::trust::Trusting;
use crate::store::scope::{NodeFile, Scope, ScopeError};
use crate::store::tunnel::{self as kept, Met};

/// Nothing if there is nothing to carry.
pub fn orders(scope: &Scope, node: &NodeFile, engine: &Engine, met: &Met) -> Result<Option<Orders>, ScopeError> {
    let Some(manifest) = engine.current().filter(|manifest| is_wanted(manifest)) else {
        return Ok(None);
    };
    let Some(know) = knowledge(scope, met)? else {
        return Ok(None);
    };
    let mut speak = Vec::new();
    for principal in scope.seated(node) {
        if let Some(svid) = scope.seat(&principal).svid()? {
            let chain = svid.own.chain.iter().map(|der| Bytes(der.to_vec())).collect();
            speak.push(Identity { principal, chain, key: Bytes(svid.own.key.pkcs8().to_vec()) });
        }
    }
    Ok(Some(Orders {
        org: node.org.clone(),
        node: node.name.clone(),
        know,
        speak,
        allow: engine.access().all().cloned().collect(),
        run: running(scope, manifest, met)?,
    }))
}

/// Has a node with this manifest anything to carry?
pub fn is_wanted(manifest: &Manifest) -> bool {
    let runs = &manifest.runs;
    runs.relay
        || runs.address.is_some()
        || !runs.services.is_empty()
        || !runs.users.is_empty()
        || !manifest.access.targets.is_empty()
}

fn knowledge(scope: &Scope, met: &Met) -> Result<Option<Knowledge>, ScopeError> {
    let Some(known) = scope.known()? else {
        return Ok(None);
    };
    let trusting = Trusting::<bundle::Identity>::open(scope, &known, known.now(clock::now()))?;
    let (roots, former) = (trusting.roots(&known.head.head), trusting.former(&known.head.head));
    Ok(Some(Knowledge {
        known: known.to_file(),
        roots: certificates(&roots),
        former: certificates(&former),
        presented: kept::presented(scope)?,
        pins: met.pins.clone(),
    }))
}

fn certificates(roots: &Roots<bundle::Identity>) -> Vec<Bytes> {
    roots.certificates().iter().map(|der| Bytes(der.to_vec())).collect()
}

fn running(scope: &Scope, manifest: &Manifest, met: &Met) -> Result<Running, ScopeError> {
    let runs = &manifest.runs;
    let users: BTreeSet<Name> = match &runs.tunnel.socks {
        Socks::At { password: true, .. } => runs.users.clone(),
        Socks::At { password: false, .. } | Socks::Off => BTreeSet::new(),
    };
    Ok(Running {
        address: runs.address.clone(),
        relay: runs.relay,
        policy: runs.tunnel.clone(),
        services: runs.services.clone(),
        ports: met.ports.clone(),
        passwords: kept::passwords(scope, &users)?,
    })
}
