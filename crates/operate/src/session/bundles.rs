//! Trust bundles beside this home's copy of the ledger: by these it knows gateways before it has asked one.

use identity::bundle::{Domain, Endpoint, Identity};
use identity::envelope::Envelope;
use identity::head::TrustLine;
use wire::known::Known;

use crate::session::{Result, Session};

/// Keeps what the head trusts, once there is something that does not lie there yet.
pub(super) async fn keep_trusted(session: &mut Session) -> Result<()> {
    let lacks = |line: &&TrustLine| line.state.is_trusted() && !session.folder.has_bundle(line.bundle);
    let lacking: Vec<TrustLine> = session.head().trust.iter().filter(lacks).cloned().collect();
    if lacking.is_empty() {
        return Ok(());
    }
    // What has not come here is kept by the next command.
    let Ok(state) = Box::pin(session.fold_here()).await else { return Ok(()) };
    for line in &lacking {
        let bundle = state.bundle_named(line.bundle).map(|record| &record.envelope);
        if let Some(envelope) = bundle.filter(|envelope| holds(&session.known, line, envelope)) {
            session.folder.keep_bundle(envelope)?;
        }
    }
    Ok(())
}

/// Did signers of this org sign it?
fn holds(known: &Known, line: &TrustLine, envelope: &Envelope) -> bool {
    match line.domain {
        Domain::Endpoint => known.open_bundle::<Endpoint>(envelope).is_some(),
        Domain::Identity => known.open_bundle::<Identity>(envelope).is_some(),
    }
}
