//! Trust bundles that this home keeps: by these it knows gateways, and what is trusted no more.

use identity::bundle::{Bundle, Domain, Endpoint, Identity};
use identity::envelope::Envelope;
use identity::head::TrustLine;
use identity::signers::SignerSet;
use wire::control::{Answer, Call};

use crate::session::desk::{Desk, DeskError};
use crate::session::{OperateError, Session};

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
