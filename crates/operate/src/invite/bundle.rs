//! Bundles: one file that lets one machine in, encrypted, or for a key that the machine has.

use ground::archive::ArchiveError;
use ground::archive::text;
use ground::passphrase::Passphrase;
use ground::random::{self, NoRandomness};
use identity::envelope::Envelope;
use identity::principal::NodeName;
use org::invite::carried::{BadRequest, JoinBundle, JoinRequest};
use org::invite::code::InviteCode;
use zeroize::Zeroizing;

/// 79 bits, in letters and digits that nobody mistakes for each other.
pub fn draw_passphrase() -> Result<Zeroizing<String>, NoRandomness> {
    const LETTERS: &[u8] = b"abcdefghjkmnpqrstuvwxyz23456789";
    let bytes: Zeroizing<[u8; 16]> = Zeroizing::new(random::bytes()?);
    let letter = |byte: &u8| LETTERS.get(usize::from(*byte) % LETTERS.len()).copied().map_or('x', char::from);
    let groups: Vec<String> = bytes.chunks(4).map(|four| four.iter().map(letter).collect()).collect();
    Ok(Zeroizing::new(groups.join("-")))
}

/// The file. Without a passphrase it is for a key that the machine has: there is no secret in it.
pub fn file(
    code: InviteCode,
    name: &NodeName,
    passphrase: Option<&Passphrase>,
) -> Result<Zeroizing<Vec<u8>>, ArchiveError> {
    let bundle = JoinBundle { code, name: name.clone() }.encode();
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
pub fn open_request(bytes: &[u8]) -> Result<JoinRequest, NoRequest> {
    let envelope: Envelope = serde_json::from_slice(bytes).map_err(|_| NoRequest::Unread)?;
    Ok(JoinRequest::open(&envelope)?)
}
