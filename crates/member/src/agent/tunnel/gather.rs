//! What the tunnel should go by, read from what this node keeps and obeys.

use std::collections::{BTreeMap, BTreeSet};

use ground::clock;
use identity::bundle::{self, Roots};
use identity::causes::describe;
use identity::principal::Name;
use identity::text::Bytes;
use manifest::stored::{Manifest, Socks};
use org::member::peer::Presented;
use tunnel::control::order::{KeyedSvid, Knowledge, TunnelConfig};

use super::feed::Orders;
use crate::apply::engine::Engine;
use crate::apply::trust::Trusting;
use crate::store::scope::{NodeFile, Scope, ScopeError};
use crate::store::suspensions;
use crate::store::tunnel::{self as kept, Met};

/// Nothing if there is nothing to carry. What is damaged, and is not about who is believed, is left out and told: it ends
/// nothing that goes without it.
pub(crate) fn orders(scope: &Scope, node: &NodeFile, engine: &Engine, met: &Met) -> Result<Option<Orders>, ScopeError> {
    let Some(manifest) = engine.current().filter(|manifest| is_wanted(manifest)) else {
        return Ok(None);
    };
    let Some(know) = knowledge(scope)? else {
        return Ok(None);
    };
    let mut gaps = Gaps::new();
    let know = Knowledge { presented: presented(scope, &mut gaps), ..know };
    Ok(Some(Orders {
        id: node.org_id,
        org: node.org.clone(),
        node: node.name.clone(),
        know,
        speak: identities(scope, node, &mut gaps),
        allow: engine.access().all().cloned().collect(),
        run: running(scope, manifest, met, &mut gaps),
        gaps,
    }))
}

/// What is left out, and why, and what to do.
pub(crate) type Gaps = BTreeMap<String, String>;

fn identities(scope: &Scope, node: &NodeFile, gaps: &mut Gaps) -> Vec<KeyedSvid> {
    let mut speak = Vec::new();
    for principal in scope.seated(node) {
        match scope.seat(&principal).look() {
            Ok(Some(svid)) => {
                let chain = svid.own.chain.iter().map(|der| Bytes(der.to_vec())).collect();
                speak.push(KeyedSvid { principal, chain, key: Bytes(svid.own.key.pkcs8().to_vec()) });
            }
            Ok(None) => {}
            Err(why) => {
                let cure =
                    "with the next exchange the agent asks for another one, unless others can read this one's key";
                let why = format!("{}; nobody speaks for it: {cure}", describe(&why));
                gaps.insert(format!("SVID of {principal}"), why);
            }
        }
    }
    speak
}

fn presented(scope: &Scope, gaps: &mut Gaps) -> Option<Presented> {
    kept::presented(scope).unwrap_or_else(|why| {
        let cure = "its place comes anew with the next connection to a gateway, or with the command `sync`";
        gaps.insert("place".to_owned(), format!("{}; other nodes do not believe this one: {cure}", describe(&why)));
        None
    })
}

/// Has a node with this manifest anything to carry?
pub(crate) fn is_wanted(manifest: &Manifest) -> bool {
    let runs = &manifest.runs;
    runs.relay
        || runs.address.is_some()
        || !runs.services.is_empty()
        || !runs.users.is_empty()
        || !manifest.access.targets.is_empty()
}

/// Without what this node shows of itself.
fn knowledge(scope: &Scope) -> Result<Option<Knowledge>, ScopeError> {
    let Some(known) = scope.known()? else {
        return Ok(None);
    };
    let trusting = Trusting::<bundle::Identity>::open(scope, &known, known.now(clock::now()))?;
    let (roots, former) = (trusting.roots(&known.head.head), trusting.former(&known.head.head));
    Ok(Some(Knowledge {
        ahead: known.ahead(),
        known: known.to_file(),
        roots: certificates(&roots),
        former: certificates(&former),
        suspensions: suspensions::load(&scope.folder),
        presented: None,
    }))
}

fn certificates(roots: &Roots<bundle::Identity>) -> Vec<Bytes> {
    roots.certificates().iter().map(|der| Bytes(der.to_vec())).collect()
}

fn running(scope: &Scope, manifest: &Manifest, met: &Met, gaps: &mut Gaps) -> TunnelConfig {
    let runs = &manifest.runs;
    let users: BTreeSet<Name> = match &runs.tunnel.socks {
        Socks::At { password: true, .. } => runs.users.clone(),
        Socks::At { password: false, .. } | Socks::Off => BTreeSet::new(),
    };
    let (passwords, failed) = kept::passwords(scope, &users);
    for (user, why) in failed {
        let file = kept::password_file(scope, &user);
        let cure = format!("free space, or move `{}` away", file.display());
        gaps.insert(format!("password of {user}"), format!("{}; SOCKS refuses that user: {cure}", describe(&why)));
    }
    TunnelConfig {
        address: runs.address.clone(),
        relay: runs.relay,
        policy: runs.tunnel.clone(),
        services: runs.services.clone(),
        ports: met.ports.clone(),
        passwords,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ground::file::{self, FileAccess};
    use ground::random;
    use identity::authority::Authority;
    use identity::bundle::Identity as IdentityDomain;
    use identity::certificate::Validity;
    use identity::time::Seconds;

    use super::*;
    use crate::scene::{founding, scope};

    #[test]
    fn one_damaged_svid_is_one_principal_that_nobody_speaks_for() {
        let (_root, scope) = scope();
        let (org, key) = ("harbor".parse().unwrap(), random::p256().unwrap());
        let day = Validity::from_now(clock::now(), Seconds::DAY);
        let some = Authority::<IdentityDomain>::root(&org, &key, random::serial().unwrap(), day).unwrap();
        for user in ["ann", "bob"] {
            let folder = scope.path(&format!("principals/user-{user}/svids/0"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("svid.pem"), some.pem()).unwrap();
            file::write(&folder.join("svid.key"), key.to_pem().as_bytes(), FileAccess::Private).unwrap();
        }
        fs::write(scope.path("principals/user-ann/svids/0/svid.pem"), "half of it").unwrap();
        let node = NodeFile {
            schema: 1,
            org,
            org_id: founding().id,
            name: "alpha".parse().unwrap(),
            invite: None,
            gateways: Vec::new(),
            joined: true,
            trust: None,
        };
        let mut gaps = Gaps::new();
        let speak = identities(&scope, &node, &mut gaps);
        let spoken: Vec<_> = speak.iter().map(|identity| identity.principal.to_string()).collect();
        assert_eq!(spoken, ["spiffe://harbor/user/bob"]);
        assert_eq!(gaps.keys().collect::<Vec<_>>(), ["SVID of spiffe://harbor/user/ann"]);
        assert!(gaps.values().all(|why| why.contains("the agent asks for another one")), "{gaps:?}");
    }

    #[test]
    fn a_damaged_place_is_told_and_nothing_is_shown() {
        let (_root, scope) = scope();
        let mut gaps = Gaps::new();
        assert_eq!((presented(&scope, &mut gaps), gaps.len()), (None, 0));
        fs::write(scope.path("listing.json"), "{").unwrap();
        assert_eq!((presented(&scope, &mut gaps), gaps.len()), (None, 1));
    }
}
