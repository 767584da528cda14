//! How long roots last, and the certificates of issuing keys under them.

use identity::authority::Authority;
use identity::bundle::InDomain;
use identity::certificate::{self, Validity};
use identity::time::{Seconds, Timestamp};

const YEAR: Seconds = Seconds::DAY.times(365);
pub const ROOT_LIFE: Seconds = YEAR.times(20);
pub const ISSUER_LIFE: Seconds = YEAR.times(3);
/// Shorter ones would end before anybody has heeded the warning.
const ROOT_LIVES: std::ops::RangeInclusive<Seconds> = YEAR..=YEAR.times(50);
const ISSUER_LIVES: std::ops::RangeInclusive<Seconds> = Seconds::DAY.times(180)..=YEAR.times(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    pub root: Seconds,
    pub issuer: Seconds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadLifetime {
    #[error("a root lasts between 1y and 50y")]
    Root,
    #[error("the certificate of an issuing key lasts between 180d and 10y")]
    Issuer,
}

impl Lifetimes {
    /// As they are wished for, as far as they are.
    pub fn new(root: Option<Seconds>, issuer: Option<Seconds>) -> Result<Self, BadLifetime> {
        let lives = Self { root: root.unwrap_or(ROOT_LIFE), issuer: issuer.unwrap_or(ISSUER_LIFE) };
        if !ROOT_LIVES.contains(&lives.root) {
            return Err(BadLifetime::Root);
        }
        if ISSUER_LIVES.contains(&lives.issuer) { Ok(lives) } else { Err(BadLifetime::Issuer) }
    }

    /// What is issued under a root is worth nothing after it.
    pub fn issuer_is_cut(&self) -> bool {
        self.issuer > self.root
    }
}

/// A root that certifies issuing keys, for so long.
#[derive(Debug)]
pub struct Certifier<'a, T: InDomain> {
    pub root: &'a Authority<T>,
    pub life: Seconds,
}

#[expect(clippy::expl_impl_clone_on_copy, reason = "deriving it would ask the domain for it, too")]
impl<T: InDomain> Clone for Certifier<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: InDomain> Copy for Certifier<'_, T> {}

impl<T: InDomain> Certifier<'_, T> {
    /// Of what it certifies now: never beyond its own.
    pub fn validity(self, now: Timestamp) -> Validity {
        let whole = Validity::from_now(now, self.life);
        let end = certificate::read(self.root.certificate()).map(|root| root.validity.not_after);
        Validity { not_after: end.map_or(whole.not_after, |end| whole.not_after.min(end)), ..whole }
    }
}

#[cfg(test)]
mod tests {
    use ground::random;
    use identity::bundle::Endpoint;

    use super::*;

    #[test]
    fn lifetimes_have_bounds_and_defaults() {
        let lives = |root, issuer| Lifetimes::new(root, issuer);
        assert_eq!(lives(None, None), Ok(Lifetimes { root: ROOT_LIFE, issuer: ISSUER_LIFE }));
        assert_eq!(lives(Some(Seconds::DAY.times(364)), None), Err(BadLifetime::Root));
        assert_eq!(lives(Some(YEAR.times(51)), None), Err(BadLifetime::Root));
        assert_eq!(lives(None, Some(Seconds::DAY.times(179))), Err(BadLifetime::Issuer));
        assert_eq!(lives(None, Some(YEAR.times(11))), Err(BadLifetime::Issuer));
        assert!(lives(Some(YEAR), Some(YEAR.times(2))).is_ok_and(|lives| lives.issuer_is_cut()));
    }

    #[test]
    fn a_certificate_never_outlives_its_root() {
        let now = Timestamp::from_unix(1_800_000_000);
        let validity = Validity::from_now(now, YEAR);
        let key = random::p256().unwrap();
        let root =
            Authority::<Endpoint>::root(&"harbor".parse().unwrap(), &key, random::serial().unwrap(), validity).unwrap();
        let until = |life| Certifier { root: &root, life }.validity(now).not_after;
        assert_eq!(until(Seconds::DAY), now + Seconds::DAY);
        assert_eq!(until(YEAR.times(3)), now + YEAR);
    }
}
