//! An operator's home, made anew: from the org's card, or from the gateway's folder beside it.

use std::path::Path;

use gateway::store::folder::GatewayFolder;
use identity::principal::OrgName;
use ledger::error::LedgerError;
use ledger::store::Ledger;
use member::store::scope::ScopeError;
use operate::folder::card::{self, Card};
use operate::folder::{FolderError, OperatorFolder};
use org::founding::{BadFounding, Founding};
use wire::known::{BadKnowledge, Known};

use crate::home::Explain;

#[derive(Debug, thiserror::Error)]
pub enum NoHome {
    #[error(transparent)]
    Operator(#[from] FolderError),
    #[error(transparent)]
    Gateway(#[from] ScopeError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Founding(#[from] BadFounding),
    #[error(transparent)]
    Knowledge(#[from] BadKnowledge),
    #[error("the gateway's ledger has no head")]
    NoHead,
}

impl Explain for NoHome {}

/// What a card says, where this home does not know the org.
pub fn from_card(home: &Path, path: &Path) -> Result<(), FolderError> {
    let (known, gateways) = Card::read(path)?;
    let folder = OperatorFolder::at(home, &known.founding.record.name);
    if folder.path("known.json").exists() { Ok(()) } else { card::settle(&folder, &known, gateways) }
}

/// The home as it is; if it does not know the org, what the gateway's ledger says.
pub fn open(home: &Path, org: &OrgName) -> Result<(OperatorFolder, Known), NoHome> {
    let folder = OperatorFolder::at(home, org);
    if !folder.path("known.json").exists() {
        let gateway = GatewayFolder::at(home, org);
        let state = Ledger::glance(&gateway.path("ledger.db"))?;
        let founding = Founding::open(state.founding.clone())?;
        let head = state.head().map(|head| head.envelope.clone()).ok_or(NoHome::NoHead)?;
        let known = Known::new(founding, &state.signer_chain(1), &head)?;
        card::settle(&folder, &known, gateway.about()?.addresses)?;
    }
    let known = folder.known()?;
    Ok((folder, known))
}
