//! Signatures that held: whether one holds is a matter of its bytes alone, so the same bytes are not worked out twice.
//!
//! What a node goes by lies on its disk and is checked whenever it is read; most of it was read before. Only what held is
//! remembered, by a hash over all that was looked at: to remember changes how long an answer takes, and never the answer.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};
use pki_types::{AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm};

/// Of each of the two generations. What nobody asked for while so many others came is forgotten.
const MOST: usize = 4_096;

static CACHE: Mutex<Option<Cache>> = Mutex::new(None);

#[derive(Debug, Default)]
struct Cache {
    young: HashSet<[u8; 32]>,
    old: HashSet<[u8; 32]>,
}

/// All that decides whether a signature holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim<'a> {
    /// Its name, no other's beginning.
    pub algorithm: &'static str,
    pub key: &'a [u8],
    pub message: &'a [u8],
    pub signature: &'a [u8],
}

/// Works it out, unless just that held before.
pub(crate) fn check<E>(claim: Claim<'_>, work_out: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    let digest = claim.digest();
    if cached(|cache| cache.has(&digest)) {
        return Ok(());
    }
    work_out()?;
    cached(|cache| cache.keep(digest));
    Ok(())
}

fn cached<T>(with: impl FnOnce(&mut Cache) -> T) -> T {
    with(CACHE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

impl Claim<'_> {
    /// Each part with its length: no two claims look alike.
    fn digest(&self) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        for part in [self.algorithm.as_bytes(), self.key, self.signature, self.message] {
            context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            context.update(part);
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(context.finish().as_ref());
        digest
    }
}

impl Cache {
    fn has(&mut self, digest: &[u8; 32]) -> bool {
        if self.young.contains(digest) {
            return true;
        }
        let was_there = self.old.remove(digest);
        if was_there {
            self.keep(*digest);
        }
        was_there
    }

    fn keep(&mut self, digest: [u8; 32]) {
        if self.young.len() >= MOST {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest);
    }
}

/// For chains of certificates: the issuers in them are the same for everybody.
#[derive(Debug)]
pub(crate) struct Remembering(pub &'static dyn SignatureVerificationAlgorithm);

impl SignatureVerificationAlgorithm for Remembering {
    fn verify_signature(&self, key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        let claim = Claim { algorithm: "chain", key, message, signature };
        check(claim, || self.0.verify_signature(key, message, signature))
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.0.public_key_alg_id()
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.0.signature_alg_id()
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: Claim<'_> = Claim { algorithm: "test", key: b"key", message: b"message", signature: b"signature" };

    #[test]
    fn what_held_is_worked_out_once_and_what_did_not_each_time() {
        let claim = Claim { message: b"worked out once", ..CLAIM };
        assert_eq!(check(claim, || Err("no")), Err("no"));
        assert_eq!(check(claim, || Ok::<(), &str>(())), Ok(()));
        assert_eq!(check(claim, || Err("it is not asked again")), Ok(()));
        let other = Claim { signature: b"another", ..claim };
        assert_eq!(check(other, || Err("no")), Err("no"), "another signature of the same words");
    }

    #[test]
    fn bytes_that_move_from_one_part_to_the_next_make_another_claim() {
        let claims = [
            CLAIM,
            Claim { key: b"keym", message: b"essage", ..CLAIM },
            Claim { key: b"ke", signature: b"ysignature", ..CLAIM },
            Claim { algorithm: "testk", key: b"ey", ..CLAIM },
            Claim { key: b"signature", signature: b"key", ..CLAIM },
        ];
        let digests: HashSet<_> = claims.iter().map(Claim::digest).collect();
        assert_eq!(digests.len(), claims.len());
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_is_forgotten() {
        let mut cache = Cache::default();
        let digest = |n: usize| Claim { message: &n.to_be_bytes(), ..CLAIM }.digest();
        cache.keep(digest(0));
        for n in 1..=MOST * 3 {
            cache.keep(digest(n));
            assert!(cache.has(&digest(0)), "after {n} others");
            assert!(cache.young.len() <= MOST && cache.old.len() <= MOST);
        }
        assert!(!cache.has(&digest(1)));
    }
}
