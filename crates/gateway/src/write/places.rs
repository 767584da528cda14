//! Where machines find this gateway: as its mandate says, also after its next start.

use identity::causes::describe;
use identity::head::Head;
use identity::key::PublicKey;
use identity::principal::Address;
use member::store::scope::ScopeError;
use org::state::State;

use crate::store::folder::{GatewayFile, GatewayFolder};

/// By the mandate. One of an older freehold names none: then as it is written down.
pub(crate) fn named_or<'a>(head: &'a Head, voice: PublicKey, about: &'a GatewayFile) -> &'a [Address] {
    let named = head.mandate_for_voice(voice).map_or(&[][..], |mandate| &mandate.addresses);
    if named.is_empty() { &about.addresses } else { named }
}

/// What is written down, brought in line with the mandate.
pub(crate) fn settle(folder: &GatewayFolder, state: &State, voice: PublicKey) -> Result<GatewayFile, ScopeError> {
    let about = folder.about()?;
    let Some(record) = state.head() else { return Ok(about) };
    let addresses = named_or(&record.head, voice, &about).to_vec();
    if addresses == about.addresses {
        return Ok(about);
    }
    let about = GatewayFile { addresses, ..about };
    folder.save_about(&about)?;
    Ok(about)
}

/// The same; if it cannot be written, the next start does it.
pub(crate) fn keep(folder: &GatewayFolder, state: &State, voice: PublicKey) {
    if let Err(why) = settle(folder, state, voice) {
        tracing::error!(why = describe(&why), "where this gateway is found could not be written down");
    }
}
