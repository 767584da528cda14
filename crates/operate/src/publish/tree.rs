//! What is in force, gathered for a static tree.

use identity::head::Head;
use identity::id::Digest;
use identity::members::{ClassLeaves, InClass, Leaf, Listing, Meant};
use identity::time::Timestamp;
use manifest::stored::Manifest;
use org::state::State;
use wire::tree::{Contents, ForNode};

use crate::session::{OperateError, Result, Session, Unwise, maps};

/// Everything that the head in force names. `told` hears for how many nodes it is there, of how many.
pub async fn tree(session: &mut Session, now: Timestamp, mut told: impl FnMut(usize, usize)) -> Result<Contents> {
    session.head().fleet.as_ref().ok_or(Unwise::NothingPublished)?;
    let published = maps::published(session).await?.ok_or(Unwise::NothingPublished)?;
    let state = session.folded().await?;
    let mut contents = documents(session.head(), &state, now)?;
    let (all, classes) = (published.nodes().count(), ClassLeaves::of(&published.leaves));
    for (nth, leaf) in published.nodes().enumerate() {
        told(nth + 1, all);
        let not_as_told = || OperateError::NotAsTold { what: "node", name: leaf.name.to_string() };
        // The very admission that the map names: whose seal key it is was checked when the map was signed.
        let member = state.members.get(&leaf.node_key).filter(|it| it.admission.digest == leaf.admission);
        let claim = member.ok_or_else(not_as_told)?.claim();
        let manifest = match classes.manifest_of(leaf) {
            Some(digest) => published.manifests.get(&digest).ok_or_else(not_as_told)?.clone(),
            None => Manifest::nothing().bytes(),
        };
        let path = |leaf: Leaf| published.map.prove(leaf.key()).ok_or_else(not_as_told);
        let class = match &leaf.manifest {
            Meant::Class(class) => {
                let class = classes.get(class).ok_or_else(not_as_told)?.clone();
                Some(InClass { path: path(Leaf::Class(class.clone()))?, leaf: class })
            }
            Meant::Own(_) | Meant::Nothing => None,
        };
        contents.nodes.push(ForNode {
            node_key: leaf.node_key,
            seal_key: claim.seal_key.0,
            listing: Listing::Own { leaf: leaf.clone(), path: path(Leaf::Node(leaf.clone()))?, class },
            manifest,
        });
    }
    Ok(contents)
}

/// Bundles that the head trusts, and suspensions that are not over.
fn documents(head: &Head, state: &State, now: Timestamp) -> Result<Contents, Unwise> {
    let is_trusted = |bundle: Digest| head.trust.iter().any(|line| line.bundle == bundle && line.state.is_trusted());
    let named = state.objects.bundles.iter().filter(|(digest, _)| is_trusted(**digest));
    let lasting = state.objects.suspensions.values().flatten().filter(|record| now < record.until);
    let contents = Contents {
        trust: named.map(|(_, record)| record.envelope.clone()).collect(),
        suspensions: lasting.map(|record| record.envelope.clone()).collect(),
        ..Contents::default()
    };
    let lacks = contents.trust.len() < head.trust.iter().filter(|line| line.state.is_trusted()).count();
    if lacks { Err(Unwise::BundlesLacking) } else { Ok(contents) }
}
