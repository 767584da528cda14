//! An observer's desk: a machine with the role `observer` fetches what replicas exchange. It has no signer's key, and changes
//! nothing.

use ground::clock;
use identity::envelope::Envelope;
use identity::time::Seconds;
use member::ask::error::AskError;
use member::ask::sync;
use member::store::scope::Scope;
use operate::session::desk::{Answering, Desk, DeskError};
use org::ledger::entry::SignedEntry;
use org::ledger::frontier::Frontier;
use wire::connect::{Believed, GatewayAddress};
use wire::control::{Call, ControlAnswer, Survey};
use wire::exchange::{ExchangeAnswer, ExchangeRequest, Have};
use wire::known::Known;
use wire::permit::Ask;
use wire::sync::Documents;

#[derive(Debug)]
pub struct ObserverDesk {
    line: Believed,
    known: Known,
    /// What the home has already: only the rest is fetched to learn how far the ledger is.
    pulled: Frontier,
}

/// What an observer is told at once: entries, and where chains fork what stands there, too.
struct Page {
    entries: Vec<Envelope>,
    forks: Vec<Envelope>,
    frontier: Frontier,
    more: bool,
    tip: Envelope,
}

impl ObserverDesk {
    /// As the machine of this scope, by its SVID; its node key gets another if that is over.
    pub async fn connect(scope: &Scope, pulled: Frontier) -> Result<Self, AskError> {
        let node = scope.node()?.ok_or(AskError::NotJoined)?;
        let addresses = scope.addresses(&node, clock::now())?;
        let gateways: Vec<GatewayAddress> = addresses.into_iter().map(GatewayAddress::from).collect();
        let (line, known) = Box::pin(sync::connect(scope, &gateways)).await?;
        Ok(Self { line, known, pulled })
    }

    /// What was known when the gateway was believed.
    pub const fn known(&self) -> &Known {
        &self.known
    }

    async fn exchange(&mut self, request: &ExchangeRequest) -> Result<ExchangeAnswer, DeskError> {
        Ok(self.line.ask(Ask::Exchange, request).await?)
    }

    async fn page(&mut self, frontier: Frontier, tip: Option<Envelope>) -> Result<Page, DeskError> {
        let have = Have { frontier, issued: 0, reports: 0, tip, forks: Vec::new(), wait: Seconds(0) };
        match self.exchange(&ExchangeRequest::News(have)).await? {
            ExchangeAnswer::News(told) => {
                let (mut entries, forks) = (told.entries, told.forks);
                entries.extend(forks.iter().cloned());
                Ok(Page { entries, forks, frontier: told.frontier, more: told.more, tip: told.tip })
            }
            _ => Err(DeskError::OtherAnswer),
        }
    }

    async fn survey(&mut self, tip: Option<Envelope>) -> Result<Survey, DeskError> {
        let page = self.page(self.pulled.clone(), tip).await?;
        let signers: Documents = self.line.ask(Ask::Signers, &()).await?;
        let head: Documents = self.line.ask(Ask::Head, &()).await?;
        let forks = page.forks.into_iter().filter_map(|fork| SignedEntry::open(self.known.org(), fork).ok());
        Ok(Survey {
            frontier: page.frontier,
            head: head.documents.into_iter().next().ok_or(DeskError::OtherAnswer)?,
            signers: signers.documents,
            tip: Some(page.tip),
            gateway: self.line.mandate.gateway.clone(),
            addresses: self.line.mandate.addresses.clone(),
            halt: None,
            recoveries: Vec::new(),
            mark: None,
            forks: forks.map(|fork| fork.entry.voice).collect(),
        })
    }

    async fn answer(&mut self, call: Call) -> Result<ControlAnswer, DeskError> {
        match call {
            Call::Survey { tip } => Ok(ControlAnswer::Survey(Box::new(self.survey(tip).await?))),
            Call::Beyond { frontier } => {
                let Page { entries, more, .. } = self.page(frontier, None).await?;
                Ok(ControlAnswer::Beyond { entries, more })
            }
            Call::Map { root, from } => match self.exchange(&ExchangeRequest::Map { root, from }).await? {
                ExchangeAnswer::Map { leaves, next } => Ok(ControlAnswer::Map { leaves, next }),
                _ => Err(DeskError::OtherAnswer),
            },
            Call::MapChange { root, base } => match self.exchange(&ExchangeRequest::MapChange { root, base }).await? {
                ExchangeAnswer::MapChange(change) => Ok(ControlAnswer::MapChange(change)),
                _ => Err(DeskError::OtherAnswer),
            },
            Call::Blobs { digests } => match self.exchange(&ExchangeRequest::Blobs { digests }).await? {
                ExchangeAnswer::Blobs { blobs } => Ok(ControlAnswer::Blobs { blobs }),
                _ => Err(DeskError::OtherAnswer),
            },
            Call::Issuers {} => Ok(ControlAnswer::Issuers { issuers: Vec::new() }),
            Call::Take { .. }
            | Call::Hand { .. }
            | Call::Recover { .. }
            | Call::Missing { .. }
            | Call::Stage { .. }
            | Call::StagePart { .. }
            | Call::StageMap { .. }
            | Call::StageChange { .. }
            | Call::Spare { .. }
            | Call::FilesMissing { .. }
            | Call::FilePart { .. }
            | Call::FilesSweep { .. }
            | Call::Waiting { .. }
            | Call::Reports { .. }
            | Call::Observed { .. }
            | Call::Leave { .. }
            | Call::Inbox { .. }
            | Call::Withdraw { .. }
            | Call::Peers {} => Err(DeskError::OnlyObserves),
        }
    }
}

impl Desk for ObserverDesk {
    /// What gateways saw of machines is not an observer's to know.
    fn is_alone(&self) -> bool {
        true
    }

    fn brings(&self) -> bool {
        true
    }

    fn ask(&mut self, call: Call) -> Answering<'_> {
        Box::pin(self.answer(call))
    }
}
