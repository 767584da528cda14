//! Looking as a machine with the role `observer`: what is known comes from its scope, and a copy of the ledger lies in this home.

use std::path::Path;

use ground::clock;
use ground::file;
use identity::principal::OrgName;
use member::store::scope::Scope;
use operate::folder::OperatorFolder;
use operate::session::Session;
use terminal::failure::Failure;

use super::{Common, During};
use crate::local::AnyDesk;
use crate::local::observer::ObserverDesk;

/// The orgs in which the machine is a member.
pub(super) fn orgs(root: &Path) -> Vec<OrgName> {
    let nodes = Scope::all(root).into_iter().filter_map(|scope| scope.node().ok().flatten());
    let mut orgs: Vec<OrgName> = nodes.map(|node| node.org).collect();
    orgs.sort();
    orgs.dedup();
    orgs
}

impl Common {
    /// Where what is known of an org lies: the operator's, or the observer's.
    pub fn folder(&self, org: &OrgName) -> OperatorFolder {
        match self.as_node {
            Some(_) => OperatorFolder::of_observer(&self.home(), org),
            None => OperatorFolder::at(&self.home(), org),
        }
    }

    /// An observer has no signer's key, and none is looked for.
    pub(super) fn check_may_sign(&self, doing: &str) -> Result<(), Failure> {
        match self.as_node {
            None => Ok(()),
            Some(_) => Err(Failure::refused(doing, "an observer only looks, and this takes an operator")
                .hint("run it where an operator's folder is, without --as-node")),
        }
    }

    /// As the machine whose scope lies under this root.
    pub(super) async fn observe(&self, root: &Path, org: &OrgName, doing: &str) -> Result<Session, Failure> {
        let mut scopes = Scope::all(root).into_iter();
        let of_org = |scope: &Scope| scope.node().ok().flatten().is_some_and(|node| node.org == *org);
        let scope = scopes.find(of_org).ok_or_else(|| {
            Failure::failed(doing, format!("no machine of `{org}` joined under `{}`", root.display()))
                .hint("join one: freehold-node join --root DIR --role observer")
        })?;
        let folder = OperatorFolder::of_observer(&self.home(), org);
        file::make_private_folder(&folder.folder).during(doing)?;
        let pulled = folder.memory().during(doing)?.pulled;
        let connected = Box::pin(ObserverDesk::connect(&scope, pulled)).await;
        let desk = connected.map_err(|why| Failure::new(doing, &why).hint("look at it: freehold-node status"))?;
        // What the machine has followed is where this copy begins; what it knows later stays.
        let locked = folder.lock_files().during(doing)?;
        let known = desk.known().clone();
        let first = folder.known().is_err();
        let kept = if first { folder.save_known(&known) } else { folder.keep_known(known, &locked).map(drop) };
        kept.during(doing)?;
        drop(locked);
        if !self.json {
            eprintln!(
                "as an observer, at {}: what is signed; what only gateways know (who was seen when, SVIDs, machines that wait) \
                 is not told",
                clock::now()
            );
        }
        self.begin_at(folder, AnyDesk::Observer(Box::new(desk)), doing).await
    }
}
