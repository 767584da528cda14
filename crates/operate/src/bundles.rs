//! Trust bundles that this home keeps: a ledger that was restored gets back from here what its head will name.

use ground::random;
use identity::bundle::{Bundle, Domain, Endpoint, Identity};
use identity::envelope::Envelope;
use identity::head::TrustLine;
use identity::signers::SignerSet;
use wire::control::{Answer, Call};

use crate::desk::{Desk, DeskError};
use crate::handed::Handed;
use crate::session::{OperateError, Session};
use crate::unturned::Unturned;

/// What is handed in again of versions that are trusted no more stays below this: they are history.
const HISTORY: usize = 256 << 10;

impl<D: Desk> Session<D> {
    /// The bundles that the gateway has. What is not signed is none.
    pub(crate) async fn told_bundles(&mut self) -> Result<Vec<Envelope>, OperateError> {
        match self.ask(Call::Bundles {}).await? {
            Answer::Bundles { bundles } => Ok(bundles),
            _ => Err(DeskError::OtherAnswer.into()),
        }
    }

    /// Keeps what the head names, once there is something trusted that is not here yet.
    pub(crate) async fn keep_trusted(&mut self) -> Result<(), OperateError> {
        let lines = self.known.head.head.trust.clone();
        let is_here = |line: &TrustLine| self.folder.has_bundle(line.bundle);
        if self.is_behind() || lines.iter().filter(|line| line.state.is_trusted()).all(is_here) {
            return Ok(());
        }
        // Whoever cannot be asked now is asked by the next command.
        let Ok(told) = self.told_bundles().await else { return Ok(()) };
        let sets = self.known.signer_sets();
        for line in lines.iter().filter(|line| !self.folder.has_bundle(line.bundle)) {
            let holds = |envelope: &&Envelope| sets.iter().any(|set| holds(line, set, envelope));
            if let Some(envelope) = told.iter().find(holds) {
                self.folder.keep_bundle(envelope)?;
            }
        }
        Ok(())
    }

    /// Bundles that these lines name and the ledger lacks, as they lie here. One that is trusted must be somewhere, or
    /// nobody could follow a head with these lines.
    pub(crate) async fn lacking(&mut self, lines: &[TrustLine]) -> Result<Vec<(TrustLine, Envelope)>, OperateError> {
        let told = self.told_bundles().await?;
        let (mut found, mut nowhere, mut history) = (Vec::new(), Vec::new(), 0);
        let mut lines: Vec<&TrustLine> =
            lines.iter().filter(|line| told.iter().all(|told| told.digest() != line.bundle)).collect();
        lines.sort_by_key(|line| (!line.state.is_trusted(), std::cmp::Reverse(line.version)));
        for line in lines {
            // The ledger takes what the signers of now have signed.
            let kept = self.folder.kept_bundle(line.bundle).filter(|kept| holds(line, &self.known.signers, kept));
            match (kept, line.state.is_trusted()) {
                (Some(kept), true) => found.push((line.clone(), kept)),
                (Some(kept), false) => {
                    history += serde_json::to_vec(&kept).map_or(HISTORY, |bytes| bytes.len());
                    if history < HISTORY {
                        found.push((line.clone(), kept));
                    }
                }
                (None, true) => nowhere.push(name(line)),
                (None, false) => {}
            }
        }
        if nowhere.is_empty() { Ok(found) } else { Err(Unturned::BundleNowhere(nowhere).into()) }
    }

    /// Hands in again what the ledger lacks of the head that it has; their names.
    pub async fn mend_trust(&mut self) -> Result<Vec<String>, OperateError> {
        let correlation = random::correlation()?;
        let _turn = self.turn_to_sign().await?;
        self.look_again().await?;
        let lines = self.known.head.head.trust.clone();
        let mut names = Vec::new();
        for (line, bundle) in self.lacking(&lines).await? {
            self.hand_over(Handed::of(bundle), correlation).await?;
            names.push(name(&line));
        }
        Ok(names)
    }
}

/// Is it the bundle of the line, and did these signers sign it?
fn holds(line: &TrustLine, signers: &SignerSet, envelope: &Envelope) -> bool {
    envelope.digest() == line.bundle
        && match line.domain {
            Domain::Endpoint => Bundle::<Endpoint>::open(signers, envelope).is_ok(),
            Domain::Identity => Bundle::<Identity>::open(signers, envelope).is_ok(),
        }
}

pub(crate) fn name(line: &TrustLine) -> String {
    format!("{} {}", line.domain.word(), line.version)
}
