//! Trust bundles that this home keeps: by these it knows gateways, and what is trusted no more.

use identity::bundle::{Domain, Endpoint, Identity};
use identity::envelope::Envelope;
use identity::head::TrustLine;
use wire::control::{Call, ControlAnswer};
use wire::known::Known;

use crate::session::{DeskError, Result, Session};

/// The bundles that the gateway has. What is not signed is none.
pub(crate) async fn told(session: &mut Session) -> Result<Vec<Envelope>> {
    match session.ask(Call::Bundles {}).await? {
        ControlAnswer::Bundles { bundles } => Ok(bundles),
        _ => Err(DeskError::OtherAnswer.into()),
    }
}

/// Keeps what the head names, once there is something trusted that is not here yet.
pub(super) async fn keep_trusted(session: &mut Session) -> Result<()> {
    let is_here = |line: &TrustLine| session.folder.has_bundle(line.bundle);
    let mut trusted = session.known.head.head.trust.iter().filter(|line| line.state.is_trusted());
    // The gateway may know itself that it lacks something.
    if session.survey.halt.is_some() || trusted.all(is_here) {
        return Ok(());
    }
    // Whoever cannot be asked now is asked by the next command.
    let Ok(told) = told(session).await else { return Ok(()) };
    for line in &session.known.head.head.trust {
        let bundle = told.iter().find(|envelope| holds(&session.known, line, envelope));
        if let Some(envelope) = bundle.filter(|_| !session.folder.has_bundle(line.bundle)) {
            session.folder.keep_bundle(envelope)?;
        }
    }
    Ok(())
}

/// Is it the bundle of the line, and did signers of this org sign it?
fn holds(known: &Known, line: &TrustLine, envelope: &Envelope) -> bool {
    envelope.digest() == line.bundle
        && match line.domain {
            Domain::Endpoint => known.open_bundle::<Endpoint>(envelope).is_some(),
            Domain::Identity => known.open_bundle::<Identity>(envelope).is_some(),
        }
}
