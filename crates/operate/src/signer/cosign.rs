//! What another operator made, held against what is so here, and signed: from a file, or from the gateway's inbox.

use std::collections::BTreeSet;

use ground::clock;
use identity::id::OrgId;
use identity::principal::SignerName;

use crate::key::SignerKeys;
use crate::pending::{BadPending, Need, Pending};
use crate::session::inbox::{self, Lying};
use crate::session::timely::{self, ClockDoubt};
use crate::session::{OperateError, Session};
use crate::signer::describe;
use crate::signer::send::send;
use crate::signer::weigh::{Contradiction, Weighed, weigh};

/// What a co-signer is shown: read from the bytes that are signed, and held against this home's own fold.
#[derive(Debug)]
pub struct Looked {
    pub does: Vec<String>,
    pub weighed: Weighed,
}

/// Why nothing is signed, unless a person says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum Objection {
    #[error("{first}{}", and_more(*.more))]
    Contradicts { first: Box<Contradiction>, more: usize },
    #[error("this home cannot tell whether it is right: {0}")]
    Unseen(String),
    #[error(transparent)]
    Clock(#[from] ClockDoubt),
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" (and {more} more)") }
}

/// What a person says beforehand.
#[derive(Debug, Clone, Copy)]
pub struct Despite {
    /// This home's fold says otherwise, or cannot tell.
    pub fold: bool,
    /// Its dates are not those of this clock.
    pub clock: bool,
}

/// What signing came to.
#[derive(Debug)]
pub struct Signed {
    pub by: BTreeSet<SignerName>,
    /// Nobody else was missing: it is delivered.
    pub sent: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum NotSigned {
    #[error(transparent)]
    Pending(#[from] BadPending),
    #[error(transparent)]
    Operate(#[from] OperateError),
    #[error("the gateway did not keep your signature")]
    NotLeft(#[source] OperateError),
}

/// Of something in the inbox: whom its head lists comes from there, too.
pub async fn look(session: &mut Session, pending: &Pending) -> Result<Looked, BadPending> {
    inbox::fetch_listing(session, pending).await;
    let does = describe::in_words(&session.known, &pending.handed)?;
    let weighed = weigh(&session.folder, &session.known, pending)?;
    Ok(Looked { does, weighed })
}

/// A home signs only what its own fold says.
pub fn check(org: OrgId, pending: &Pending, weighed: &Weighed, despite: Despite) -> Result<(), Objection> {
    if !despite.fold {
        if let [first, rest @ ..] = weighed.contradictions.as_slice() {
            return Err(Objection::Contradicts { first: Box::new(first.clone()), more: rest.len() });
        }
        if let Some(why) = &weighed.unseen {
            return Err(Objection::Unseen(why.clone()));
        }
    }
    if despite.clock { Ok(()) } else { Ok(timely::check_dates(org, &pending.handed, clock::now())?) }
}

/// Is there something to do for whoever has these keys: sign it, or deliver what is complete?
pub fn is_for(lying: &Lying, keys: &SignerKeys) -> bool {
    let names: Vec<SignerName> = keys.at_hand().into_iter().map(|(name, _)| name).collect();
    lying.needs.iter().all(Need::is_met) || lying.waits_for(&names)
}

/// Signs what lies in the inbox. The last one who was missing delivers it; else it is left there for the others.
pub async fn sign(session: &mut Session, keys: &SignerKeys, lying: &mut Lying) -> Result<Signed, NotSigned> {
    let by = lying.pending.sign(&session.known, keys)?;
    lying.needs = lying.pending.needs(&session.known)?;
    let sent = lying.needs.iter().all(Need::is_met);
    if sent {
        send(session, &lying.pending).await?;
    } else {
        inbox::leave(session, &lying.pending).await.map_err(NotSigned::NotLeft)?;
    }
    Ok(Signed { by, sent })
}
