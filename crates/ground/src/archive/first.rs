//! The header of what freehold wrote before it wrote age files: read, never written.
//!
//! ```text
//! magic 16 | schema 4 | Argon2id memory 4, passes 4, lanes 4 | salt 16 | check 32 | chunk | chunk | ... | last chunk
//! ```
//!
//! Key and check are drawn from the stretched passphrase and the header before the check, so that a changed header and a
//! wrong passphrase show at once. The chunks are those of an age file, under AES-256-GCM.

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use aws_lc_rs::{constant_time, hkdf};
use zeroize::Zeroizing;

use super::{ArchiveError, With};
use crate::age::wrap::NotUnwrapped;
use crate::passphrase::Passphrase;
use crate::sealed::{self, Cost, SealError};

pub(super) const MAGIC: [u8; 16] = *b"freehold backup\n";
const SCHEMA: u32 = 1;
/// Up to the check, and with it.
const BEFORE_CHECK: usize = 48;
pub(super) const HEADER: usize = BEFORE_CHECK + 32;

/// The key of the chunks, and where they begin.
pub(super) fn unlock(beginning: &[u8], with: &With) -> Result<(LessSafeKey, usize), ArchiveError> {
    let header = beginning.first_chunk::<HEADER>().ok_or(ArchiveError::NotAnArchive)?;
    let (before, check) = header.split_at(BEFORE_CHECK);
    let (numbers, salt) = before.split_at(MAGIC.len()).1.split_at(16);
    let mut numbers = numbers.chunks_exact(4).map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)));
    let mut next = || numbers.next().ok_or(ArchiveError::NotAnArchive);
    let found = next()?;
    if found != SCHEMA {
        return Err(ArchiveError::Newer { found: format!("format {found}") });
    }
    let cost = Cost { memory_kib: next()?, passes: next()?, lanes: next()? };
    if !cost.is_bearable() {
        return Err(ArchiveError::NotAnArchive);
    }
    let With::Passphrase(passphrase) = with else {
        return Err(NotUnwrapped::NeedsPassphrase.into());
    };
    let keys = Keys::derive(passphrase, before, salt, cost).map_err(|_| ArchiveError::NotAnArchive)?;
    if constant_time::verify_slices_are_equal(check, &keys.check).is_err() {
        return Err(NotUnwrapped::WrongPassphrase.into());
    }
    Ok((keys.chunks, HEADER))
}

/// The keys that belong to one header.
struct Keys {
    chunks: LessSafeKey,
    check: [u8; 32],
}

impl Keys {
    fn derive(passphrase: &Passphrase, before_check: &[u8], salt: &[u8], cost: Cost) -> Result<Self, SealError> {
        let stretched = sealed::stretch(passphrase, salt, cost)?;
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, b"freehold backup v1").extract(&stretched[..]);
        let draw = |label: &[u8]| -> Result<Zeroizing<[u8; 32]>, SealError> {
            let mut out = Zeroizing::new([0; 32]);
            let info = [label, before_check];
            let okm = prk.expand(&info, hkdf::HKDF_SHA256).map_err(|_| SealError::Kdf)?;
            okm.fill(&mut out[..]).map_err(|_| SealError::Kdf)?;
            Ok(out)
        };
        let chunks = UnboundKey::new(&AES_256_GCM, &draw(b"chunks")?[..]).map_err(|_| SealError::Kdf)?;
        Ok(Self { chunks: LessSafeKey::new(chunks), check: *draw(b"check")? })
    }
}

/// As the programs of that time sealed.
#[cfg(test)]
pub(super) fn seal(passphrase: &Passphrase, plain: &[u8]) -> Vec<u8> {
    let (cost, salt) = (Cost { memory_kib: 64, passes: 1, lanes: 1 }, [7; 16]);
    let numbers = [SCHEMA, cost.memory_kib, cost.passes, cost.lanes];
    let before: Vec<u8> = MAGIC.into_iter().chain(numbers.into_iter().flat_map(u32::to_be_bytes)).chain(salt).collect();
    let keys = Keys::derive(passphrase, &before, &salt, cost).unwrap();
    let mut sealer = super::Sealer::under([&before[..], &keys.check].concat(), keys.chunks);
    sealer.write(plain).unwrap();
    sealer.finish().unwrap()
}
