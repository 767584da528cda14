//! Bundles: one file that lets one machine in, encrypted, or for a key that the machine has.

use ground::archive::ArchiveError;
use ground::archive::text;
use ground::passphrase::Passphrase;
use ground::random::{self, NoRandomness};
use identity::bundle::{Endpoint, Identity};
use identity::envelope::Envelope;
use identity::principal::NodeName;
use org::invite::carried::{BadRequest, JoinBundle, JoinRequest};
use org::invite::code::InviteCode;
use wire::known::carried::CarriedOrg;
use zeroize::Zeroizing;

use crate::session::{Result, Session};
use crate::trust::versions::trusted_envelopes;

/// 79 bits, in letters and digits that nobody mistakes for each other.
pub fn draw_passphrase() -> std::result::Result<Zeroizing<String>, NoRandomness> {
    const LETTERS: &[u8] = b"abcdefghjkmnpqrstuvwxyz23456789";
    let bytes: Zeroizing<[u8; 16]> = Zeroizing::new(random::bytes()?);
    let letter = |byte: &u8| LETTERS.get(usize::from(*byte) % LETTERS.len()).copied().map_or('x', char::from);
    let groups: Vec<String> = bytes.chunks(4).map(|four| four.iter().map(letter).collect()).collect();
    Ok(Zeroizing::new(groups.join("-")))
}

/// What signers said of the org, so that its machine need hear nothing from whoever answers to believe them.
pub async fn org(session: &mut Session) -> Result<CarriedOrg> {
    let endpoint = trusted_envelopes::<Endpoint>(session).await?;
    let identity = trusted_envelopes::<Identity>(session).await?;
    Ok(CarriedOrg::new(&session.known, endpoint, identity))
}

/// The file. Without a passphrase it is for a key that the machine has: there is no secret in it.
pub fn file(
    code: InviteCode,
    name: &NodeName,
    org: &CarriedOrg,
    passphrase: Option<&Passphrase>,
) -> std::result::Result<Zeroizing<Vec<u8>>, ArchiveError> {
    // Envelopes are text.
    let org = serde_json::to_string(org).ok();
    let bundle = JoinBundle { code, name: name.clone(), org }.encode();
    let bytes = match passphrase {
        Some(passphrase) => text::seal(bundle.as_bytes(), passphrase.clone())?,
        None => bundle.as_bytes().to_vec(),
    };
    Ok(Zeroizing::new(bytes))
}

#[derive(Debug, thiserror::Error)]
pub enum NoRequest {
    #[error("it is no request")]
    Unread,
    #[error(transparent)]
    Bad(#[from] BadRequest),
}

/// What a machine wrote that asks for a bundle.
pub fn open_request(bytes: &[u8]) -> std::result::Result<JoinRequest, NoRequest> {
    let envelope: Envelope = serde_json::from_slice(bytes).map_err(|_| NoRequest::Unread)?;
    Ok(JoinRequest::open(&envelope)?)
}
