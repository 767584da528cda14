//! The gateway's inbox: what waits for signatures is left there for the other signers, and found. Nothing rests on it: what
//! comes from there is read from its bytes, folded and weighed like a file, and a gateway that hides it only delays.

use std::collections::{BTreeMap, BTreeSet};

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::{NodeName, SignerName};
use identity::signers::Quorum;
use identity::time::Timestamp;
use wire::control::{Call, ControlAnswer, LeftView, waiting_digest};

use crate::pending::handed::Handed;
use crate::pending::{Need, Pending};
use crate::session::{DeskError, Result, Session, maps};

/// More is not read: a gateway that goes on for ever is not listened to.
const MOST: usize = 1_024;
/// More objects are in nothing that waits.
const MOST_OBJECTS: usize = 64;

/// Something that lies in the inbox and still fits what is so.
#[derive(Debug, Clone)]
pub struct Lying {
    pub pending: Pending,
    pub needs: Vec<Need>,
    /// Who left a copy, as the gateway says.
    pub left_by: BTreeSet<SignerName>,
}

impl Lying {
    /// Can one of these add something?
    pub fn waits_for(&self, names: &[SignerName]) -> bool {
        self.needs.iter().any(|need| !need.is_met() && need.others().into_iter().any(|name| names.contains(name)))
    }
}

/// Leaves it for the others; says where, or why not. It lies in a file all the same.
pub(crate) async fn leave(session: &mut Session, pending: &Pending) -> Result<NodeName> {
    let objects = pending.handed.0.clone();
    match session.ask(Call::Leave { objects }).await? {
        ControlAnswer::Left {} => Ok(session.survey.gateway.clone()),
        _ => Err(DeskError::OtherAnswer.into()),
    }
}

/// Takes back what this operator left.
pub async fn withdraw(session: &mut Session, digest: Digest) -> Result<()> {
    match session.ask(Call::Withdraw { digest }).await? {
        ControlAnswer::Left {} => Ok(()),
        _ => Err(DeskError::OtherAnswer.into()),
    }
}

/// What waits there, of each the signatures that hold of whoever must sign it. What is of another org, does not follow what is
/// so, or cannot be read is nobody's business.
pub async fn all(session: &mut Session) -> Result<Vec<Lying>> {
    let mut copies: BTreeMap<Digest, Vec<LeftView>> = BTreeMap::new();
    for view in read(session).await? {
        if !view.objects.is_empty() && view.objects.len() <= MOST_OBJECTS {
            copies.entry(waiting_digest(&view.objects)).or_default().push(view);
        }
    }
    let mut lying: Vec<Lying> = copies.into_values().filter_map(|copies| put_together(session, &copies)).collect();
    lying.sort_by_key(|it| (it.pending.made_at, it.pending.digest()));
    Ok(lying)
}

/// Does the ledger have it, with every signature that is here? A file stays when somebody else has delivered.
pub async fn is_done(session: &mut Session, pending: &Pending) -> bool {
    let head = pending.handed.head_envelope().map(Envelope::digest);
    if head == Some(session.known.head.digest) {
        return true;
    }
    let state = Box::pin(session.fold_here()).await;
    state.is_ok_and(|state| pending.handed.0.iter().all(|object| state.has_object(object)))
}

/// What this operator has not been told of yet and could sign. From now on it counts as told.
pub async fn news(session: &mut Session) -> Result<Vec<Lying>> {
    // Alone there is nobody to ask, and where one signer decides nothing waits.
    if session.is_alone() || session.signers().quorum.threshold() < 2 {
        return Ok(Vec::new());
    }
    let lying = all(session).await?;
    let here: BTreeSet<Digest> = lying.iter().map(|it| it.pending.digest()).collect();
    let told = session.memory.told.clone();
    if here != told {
        session.remember(|memory| memory.told = here)?;
    }
    let own: Vec<SignerName> = session.folder.signers_here().into_iter().chain(session.folder.tokens_here()).collect();
    Ok(lying.into_iter().filter(|it| !told.contains(&it.pending.digest()) && it.waits_for(&own)).collect())
}

/// Whom its head lists comes from the gateway, too, and is held against the root in the head.
pub(crate) async fn fetch_listing(session: &mut Session, pending: &Pending) {
    if let Some(root) = pending.handed.head(session.known.org()).and_then(|head| head.members) {
        // What is not there is not compared, and that is told.
        let _unseen = Box::pin(maps::published_as(session, root)).await;
    }
}

async fn read(session: &mut Session) -> Result<Vec<LeftView>> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let ControlAnswer::Inbox { left, next } = session.ask(Call::Inbox { after }).await? else {
            return Err(DeskError::OtherAnswer.into());
        };
        let brought = left.len();
        all.extend(left);
        match next {
            Some(next) if next > after && brought > 0 && all.len() < MOST => after = next,
            _ => return Ok(all),
        }
    }
}

fn put_together(session: &Session, copies: &[LeftView]) -> Option<Lying> {
    let first = copies.first()?;
    let bare: Vec<Envelope> = first.objects.iter().map(|object| object.kept(&BTreeSet::new())).collect();
    let made_at = copies.iter().map(|copy| copy.at).min().unwrap_or(Timestamp::from_unix(0));
    let mut pending = Pending::new(&session.known, Handed(bare), made_at);
    let keys: BTreeSet<PublicKey> = pending.quorums(&session.known).ok()?.iter().flat_map(Quorum::keys).collect();
    for copy in copies {
        pending.merge_sifted(&copy.objects, &keys);
    }
    let needs = pending.needs(&session.known).ok()?;
    // What nobody who counts has signed is noise.
    if needs.iter().all(|need| need.signed.is_empty()) {
        return None;
    }
    let signers = session.signers().quorum.signers();
    let left_by = signers.iter().filter(|signer| copies.iter().any(|copy| copy.by == signer.key));
    let left_by = left_by.map(|signer| signer.name.clone()).collect();
    Some(Lying { pending, needs, left_by })
}
