//! The key of somebody who is no signer yet.

use identity::key::PublicKey;
use identity::principal::SignerName;
use operate::folder::OperatorFolder;
use operate::signer::home;
use terminal::failure::Failure;
use wire::known::Known;

use crate::home::{Common, During};

pub fn known_here(common: &Common, doing: &str) -> Result<(OperatorFolder, Known), Failure> {
    let org = common.org(doing).map_err(|why| why.hint("or start from the org's card: --card FILE"))?;
    let folder = OperatorFolder::at(&common.home(), &org);
    let known = folder.known().during(doing)?;
    Ok((folder, known))
}

/// The key of somebody who is no signer yet: the one that an earlier run left here, or a new one.
pub fn find_or_make_key(
    common: &Common,
    folder: &OperatorFolder,
    known: &Known,
    name: &SignerName,
    unprotected: bool,
    doing: &str,
) -> Result<PublicKey, Failure> {
    if home::has_new_key(folder, known, name) {
        return common.public_key_here(folder, name, doing);
    }
    home::check_free(folder, name).during(doing)?;
    let passphrase = common.new_passphrase(unprotected, doing)?;
    home::make_key(folder, name, passphrase.as_ref()).during(doing)
}
