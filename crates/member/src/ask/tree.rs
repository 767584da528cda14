//! Taking what a static tree holds, exactly as if a gateway had said it.

use ground::clock;
use identity::envelope::Envelope;
use identity::key::Sign as _;
use tokio::runtime::Handle;
use wire::known::Known;
use wire::tree::{BadTree, FromTree, Reader};

use crate::ask::error::AskError;
use crate::ask::keep::{keep_in_sight, save_authority};
use crate::ask::source::{NoFile, NotTaken, Source};
use crate::ask::sync::Listed;
use crate::store::scope::{NodeFile, Scope};
use crate::store::{suspensions, tunnel};

/// What a tree says.
#[derive(Debug)]
pub(crate) struct TreeTold {
    pub known: Known,
    pub listed: Result<Listed, AskError>,
    /// Said to be the bundles that its head trusts; not checked yet.
    pub trust: Vec<Envelope>,
}

/// Authority is on disk before the rest is looked at, and stays also if the rest does not hold.
pub(crate) async fn read(scope: &Scope, node: &NodeFile, source: &Source) -> Result<TreeTold, AskError> {
    let known = scope.known()?.ok_or(AskError::NotJoined)?;
    let (secret, node_key) = (scope.seal_secret()?, scope.node_key()?.public().digest());
    let (name, from, old) = (node.name.clone(), source.clone(), known.clone());
    let handle = Handle::current();
    // The reader asks for one file after the other, and does not wait itself.
    let reading = tokio::task::spawn_blocking(move || {
        let reader = Reader { known: &old, name: &name, node_key, seal_secret: &secret };
        let mut get = |path: &str| handle.block_on(from.get(path));
        let read: FromTree = reader.authority(old.now(clock::now()), &mut get)?;
        let listed = reader.listed(&read, get);
        Ok((read.known, listed, read.trust, read.suspensions))
    });
    let not_taken = |why: BadTree<NoFile>| NotTaken { at: source.to_string(), source: Box::new(why) };
    let read = reading.await.unwrap_or(Err(BadTree::Get(NoFile::BrokenOff)));
    let (newer, listed, trust, suspended) = match read {
        Ok(read) => read,
        Err(BadTree::Knowledge(why)) => {
            // A recovery may have taken effect before this machine heard of it.
            keep_in_sight(scope, known.heed(&why, known.now(clock::now())))?;
            return Err(not_taken(BadTree::Knowledge(why)).into());
        }
        Err(why) => return Err(not_taken(why).into()),
    };
    if newer.head.digest != known.head.digest || newer.signers.id != known.signers.id {
        save_authority(scope, &newer)?;
    }
    suspensions::take(scope, &newer, &suspended)?;
    match &listed {
        Ok(Some(listed)) => tunnel::keep_place(scope, &newer, Some(&listed.listing)),
        Ok(None) if newer.head.head.members.is_none() => tunnel::keep_place(scope, &newer, None),
        Ok(None) | Err(_) => {}
    }
    let listed = match listed {
        Ok(None) => Ok(Listed::Nothing),
        Ok(Some(listed)) => Ok(Listed::Manifest { digest: listed.digest, bytes: Some(listed.manifest) }),
        Err(why) => Err(not_taken(why).into()),
    };
    Ok(TreeTold { known: newer, listed, trust })
}
