//! How the key of an age file is wrapped: for each recipient, or under a passphrase; and how it is unwrapped.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hkdf, hmac};
use zeroize::Zeroizing;

use crate::age::header::{self, BadHeader, Header, Stanza};
use crate::age::keys::{AgeIdentity, Recipient};
use crate::passphrase::Passphrase;
use crate::random::{self, NoRandomness};

/// What a guess at a passphrase costs: 2 to this, times 1 KiB of memory and as much work. What `age` itself takes.
pub(crate) const WORK: u8 = 18;
/// A changed file must not make us allocate or wait without end: this is 1 GiB.
pub const MAX_WORK: u8 = 20;

const BY_SCRYPT: &str = "scrypt";
const BY_X25519: &str = "X25519";
const SCRYPT_LABEL: &[u8] = b"age-encryption.org/v1/scrypt";
const X25519_LABEL: &[u8] = b"age-encryption.org/v1/X25519";
/// A wrapped file key, with its tag.
const WRAPPED: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotUnwrapped {
    #[error(transparent)]
    Header(#[from] BadHeader),
    #[error("its passphrase costs 2^{work} rounds of scrypt, and so many are refused")]
    TooCostly { work: u32 },
    #[error("it is encrypted to recipients, and no passphrase opens it")]
    NeedsIdentity,
    #[error("it is encrypted with a passphrase, and no identity opens it")]
    NeedsPassphrase,
    #[error("the passphrase is wrong, or the beginning of the file was changed")]
    WrongPassphrase,
    #[error("it is encrypted to others than the identities that were given, or the beginning of the file was changed")]
    OtherRecipients,
    #[error("the beginning of the file was changed")]
    Changed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotWrapped {
    #[error("{0} is no key that anything can be encrypted to")]
    NoKey(Recipient),
    #[error("there is nobody to encrypt it to, or there are more than {}", header::MAX_STANZAS)]
    HowMany,
    #[error("the passphrase could not be turned into a key")]
    Kdf,
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

impl From<Unspecified> for NotWrapped {
    fn from(_: Unspecified) -> Self {
        Self::Kdf
    }
}

/// From it come the key of the header's MAC, and that of the payload.
pub struct FileKey(Zeroizing<[u8; 16]>);

/// What opens a file, by its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opens {
    Passphrase,
    Identity,
}

impl FileKey {
    pub fn draw() -> Result<Self, NoRandomness> {
        Ok(Self(Zeroizing::new(random::bytes()?)))
    }

    /// A header with these stanzas.
    pub fn header(&self, stanzas: Vec<Stanza>) -> Result<Header, Unspecified> {
        let tag = hmac::sign(&self.mac_key()?, &header::covered(&stanzas));
        let mac = tag.as_ref().try_into().map_err(|_| Unspecified)?;
        Ok(Header { stanzas, mac })
    }

    /// The key of the chunks that follow the header and a nonce.
    pub fn payload(&self, nonce: &[u8; 16]) -> Result<LessSafeKey, Unspecified> {
        chacha(&*derive(&self.0[..], nonce, b"payload")?)
    }

    fn mac_key(&self) -> Result<hmac::Key, Unspecified> {
        Ok(hmac::Key::new(hmac::HMAC_SHA256, &derive(&self.0[..], &[], b"header")?[..]))
    }

    fn wrap(&self, key: &LessSafeKey) -> Result<Vec<u8>, NotWrapped> {
        let mut body = self.0.to_vec();
        key.seal_in_place_append_tag(once(), Aad::empty(), &mut body)?;
        Ok(body)
    }

    fn unwrap(body: &[u8; WRAPPED], key: &LessSafeKey) -> Option<Self> {
        let mut body = Zeroizing::new(*body);
        let open = key.open_in_place(once(), Aad::empty(), &mut body[..]).ok()?;
        Some(Self(Zeroizing::new(<[u8; 16]>::try_from(&*open).ok()?)))
    }

    /// A file is what its writer made of it only if this holds.
    fn check(self, header: &Header, written: &[u8]) -> Result<Self, NotUnwrapped> {
        let covered = header::covered_in(written);
        let held = self.mac_key().and_then(|key| hmac::verify(&key, covered, &header.mac));
        held.map(|()| self).map_err(|_| NotUnwrapped::Changed)
    }
}

pub fn for_passphrase(key: &FileKey, passphrase: &Passphrase, work: u8) -> Result<Stanza, NotWrapped> {
    let salt = random::bytes::<16>()?;
    let body = key.wrap(&stretch(passphrase, &salt, work).ok_or(NotWrapped::Kdf)?)?;
    Ok(Stanza { words: vec![BY_SCRYPT.to_owned(), header::encode(&salt), work.to_string()], body })
}

pub fn for_recipients(key: &FileKey, to: &[Recipient]) -> Result<Vec<Stanza>, NotWrapped> {
    if !(1..=header::MAX_STANZAS).contains(&to.len()) {
        return Err(NotWrapped::HowMany);
    }
    to.iter().map(|recipient| for_recipient(key, *recipient)).collect()
}

fn for_recipient(key: &FileKey, to: Recipient) -> Result<Stanza, NotWrapped> {
    let (secret, share) = random::x25519()?;
    let body = key.wrap(&agree(&secret, &to.0, &share, &to.0).ok_or(NotWrapped::NoKey(to))?)?;
    Ok(Stanza { words: vec![BY_X25519.to_owned(), header::encode(&share)], body })
}

/// What a header asks for. One with a passphrase has it alone: else somebody could have added themselves.
pub fn opens(header: &Header) -> Result<Opens, BadHeader> {
    if !header.stanzas.iter().any(|stanza| stanza.is(BY_SCRYPT)) {
        return Ok(Opens::Identity);
    }
    match header.stanzas.len() {
        1 => Ok(Opens::Passphrase),
        _ => Err(BadHeader::Malformed("a passphrase is not the only way to open it")),
    }
}

/// How costly the passphrase is, as a power of two; nothing if none opens it, or that is not said as it should be.
pub(crate) fn work_of(header: &Header) -> Option<u32> {
    let [_, _, work] = &header.stanzas.first()?.words[..] else { return None };
    work.parse().ok()
}

/// `written`: the header as it stands in the file.
pub fn by_passphrase(header: &Header, written: &[u8], passphrase: &Passphrase) -> Result<FileKey, NotUnwrapped> {
    let (Opens::Passphrase, Some(stanza)) = (opens(header)?, header.stanzas.first()) else {
        return Err(NotUnwrapped::NeedsIdentity);
    };
    let malformed = BadHeader::Malformed("the stanza of its passphrase is none");
    let [_, salt, work] = &stanza.words[..] else {
        return Err(malformed.into());
    };
    let salt: [u8; 16] = header::decode(salt)?.try_into().map_err(|_| malformed.clone())?;
    let body = stanza.wrapped()?;
    let plain = work.len() <= 4 && work.bytes().all(|byte| byte.is_ascii_digit()) && !work.starts_with('0');
    let work: u32 = work.parse().ok().filter(|_| plain).ok_or(malformed)?;
    let bearable = u8::try_from(work).ok().filter(|work| *work <= MAX_WORK);
    let bearable = bearable.ok_or(NotUnwrapped::TooCostly { work })?;
    let key = stretch(passphrase, &salt, bearable).ok_or(NotUnwrapped::WrongPassphrase)?;
    FileKey::unwrap(body, &key).ok_or(NotUnwrapped::WrongPassphrase)?.check(header, written)
}

pub fn by_identities(header: &Header, written: &[u8], identities: &[AgeIdentity]) -> Result<FileKey, NotUnwrapped> {
    if opens(header)? == Opens::Passphrase {
        return Err(NotUnwrapped::NeedsPassphrase);
    }
    let publics: Result<Vec<_>, NoRandomness> = identities.iter().map(AgeIdentity::recipient).collect();
    let publics = publics.map_err(|_| NotUnwrapped::OtherRecipients)?;
    for stanza in header.stanzas.iter().filter(|stanza| stanza.is(BY_X25519)) {
        let malformed = BadHeader::Malformed("the stanza of a recipient is none");
        let [_, share] = &stanza.words[..] else {
            return Err(malformed.into());
        };
        let share: [u8; 32] = header::decode(share)?.try_into().map_err(|_| malformed.clone())?;
        let body = stanza.wrapped()?;
        for (identity, public) in identities.iter().zip(&publics) {
            // A share that gives nothing was made to do harm.
            let key = agree(&identity.0, &share, &share, &public.0).ok_or_else(|| malformed.clone())?;
            if let Some(found) = FileKey::unwrap(body, &key) {
                return found.check(header, written);
            }
        }
    }
    Err(NotUnwrapped::OtherRecipients)
}

impl Stanza {
    fn is(&self, kind: &str) -> bool {
        self.words.first().is_some_and(|word| word == kind)
    }

    /// Only a body of the right length is tried: a longer one could be made to open under many keys.
    fn wrapped(&self) -> Result<&[u8; WRAPPED], BadHeader> {
        self.body.as_slice().try_into().map_err(|_| BadHeader::Malformed("a wrapped key is not as long as one"))
    }
}

/// Each key is used for one message.
fn once() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn chacha(key: &[u8; 32]) -> Result<LessSafeKey, Unspecified> {
    UnboundKey::new(&CHACHA20_POLY1305, key).map(LessSafeKey::new)
}

fn derive(secret: &[u8], salt: &[u8], info: &[u8]) -> Result<Zeroizing<[u8; 32]>, Unspecified> {
    let mut key = Zeroizing::new([0; 32]);
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    prk.expand(&[info], hkdf::HKDF_SHA256)?.fill(&mut key[..])?;
    Ok(key)
}

fn stretch(passphrase: &Passphrase, salt: &[u8; 16], work: u8) -> Option<LessSafeKey> {
    let mut key = Zeroizing::new([0; 32]);
    let params = scrypt::Params::new(work, 8, 1).ok()?;
    scrypt::scrypt(passphrase.bytes(), &[SCRYPT_LABEL, salt].concat(), &params, &mut key[..]).ok()?;
    chacha(&key).ok()
}

/// Nothing if the other's key gives no secret.
fn agree(secret: &[u8; 32], other: &[u8; 32], share: &[u8; 32], recipient: &[u8; 32]) -> Option<LessSafeKey> {
    let secret = PrivateKey::from_private_key(&X25519, secret).ok()?;
    let salt = [&share[..], recipient].concat();
    let other = UnparsedPublicKey::new(&X25519, other);
    let agreed = agreement::agree(&secret, other, Unspecified, |shared| derive(shared, &salt, X25519_LABEL));
    agreed.and_then(|key| chacha(&key)).ok()
}

impl std::fmt::Debug for FileKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileKey(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: u8 = 4;

    fn phrase(text: &str) -> Passphrase {
        Passphrase::new(text.to_owned())
    }

    fn identity(byte: u8) -> AgeIdentity {
        AgeIdentity(Zeroizing::new([byte; 32]))
    }

    fn to(identities: &[u8]) -> Vec<Recipient> {
        identities.iter().map(|byte| identity(*byte).recipient().unwrap()).collect()
    }

    /// A header, and the bytes of it.
    fn headed(key: &FileKey, stanzas: Vec<Stanza>) -> (Header, Vec<u8>) {
        let header = key.header(stanzas).unwrap();
        let written = header.write();
        assert_eq!(Header::parse(&written).unwrap(), (header.clone(), written.len()));
        (header, written)
    }

    #[test]
    fn every_recipient_opens_it_and_nobody_else() {
        let key = FileKey::draw().unwrap();
        let (header, written) = headed(&key, for_recipients(&key, &to(&[1, 2])).unwrap());
        for own in [1, 2] {
            // Among others, which are tried in vain.
            let found = by_identities(&header, &written, &[identity(9), identity(own)]).unwrap();
            assert_eq!(found.0, key.0);
        }
        let no = |identities: &[AgeIdentity]| by_identities(&header, &written, identities).unwrap_err();
        assert_eq!(no(&[identity(9)]), NotUnwrapped::OtherRecipients);
        assert_eq!(no(&[]), NotUnwrapped::OtherRecipients);
        assert_eq!(by_passphrase(&header, &written, &phrase("p")).unwrap_err(), NotUnwrapped::NeedsIdentity);
    }

    #[test]
    fn the_passphrase_opens_it_and_no_other_does() {
        let key = FileKey::draw().unwrap();
        let (header, written) = headed(&key, vec![for_passphrase(&key, &phrase("p"), CHEAP).unwrap()]);
        assert_eq!(by_passphrase(&header, &written, &phrase("p")).unwrap().0, key.0);
        assert_eq!(by_passphrase(&header, &written, &phrase("q")).unwrap_err(), NotUnwrapped::WrongPassphrase);
        assert_eq!(by_identities(&header, &written, &[identity(1)]).unwrap_err(), NotUnwrapped::NeedsPassphrase);
    }

    #[test]
    fn a_header_that_was_added_to_or_changed_does_not_hold() {
        let key = FileKey::draw().unwrap();
        let stanzas = for_recipients(&key, &to(&[1])).unwrap();
        let more = Stanza { words: vec!["grease".to_owned()], body: Vec::new() };
        let (good, _) = headed(&key, stanzas);
        for place in 0..2 {
            let mut changed = good.clone();
            changed.stanzas.insert(place, more.clone());
            let written = changed.write();
            assert_eq!(by_identities(&changed, &written, &[identity(1)]).unwrap_err(), NotUnwrapped::Changed);
        }
        let mut wrong = good.clone();
        wrong.mac[31] ^= 1;
        assert_eq!(by_identities(&wrong, &wrong.write(), &[identity(1)]).unwrap_err(), NotUnwrapped::Changed);
        // A stanza that nobody here knows is left alone, if it was there from the beginning.
        let (known, written) = headed(&key, vec![more, good.stanzas[0].clone()]);
        assert!(by_identities(&known, &written, &[identity(1)]).is_ok());
    }

    #[test]
    fn a_passphrase_stands_alone() {
        let key = FileKey::draw().unwrap();
        let passphrase = for_passphrase(&key, &phrase("p"), CHEAP).unwrap();
        let recipient = for_recipients(&key, &to(&[1])).unwrap().remove(0);
        for stanzas in [vec![passphrase.clone(), recipient], vec![passphrase.clone(), passphrase]] {
            let (header, written) = headed(&key, stanzas);
            assert!(opens(&header).is_err());
            for no in [
                by_passphrase(&header, &written, &phrase("p")).unwrap_err(),
                by_identities(&header, &written, &[identity(1)]).unwrap_err(),
            ] {
                assert!(matches!(no, NotUnwrapped::Header(BadHeader::Malformed(_))), "{no}");
            }
        }
    }

    #[test]
    fn work_that_is_absurd_or_badly_written_is_refused_before_it_is_done() {
        let key = FileKey::draw().unwrap();
        let good = for_passphrase(&key, &phrase("p"), CHEAP).unwrap();
        for (work, costly) in
            [("21", true), ("30", true), ("64", true), ("255", true), ("9999", true)].into_iter().chain(
                ["", "0", "04", "+4", "-4", "4 ", "4.0", "four", "18446744073709551620", "99999"]
                    .map(|work| (work, false)),
            )
        {
            let mut stanza = good.clone();
            work.clone_into(&mut stanza.words[2]);
            let header = key.header(vec![stanza]).unwrap();
            let no = by_passphrase(&header, &header.write(), &phrase("p")).unwrap_err();
            match no {
                NotUnwrapped::TooCostly { .. } => assert!(costly, "{work}"),
                NotUnwrapped::Header(BadHeader::Malformed(_)) => assert!(!costly, "{work}"),
                other => panic!("{work}: {other}"),
            }
        }
    }

    #[test]
    fn stanzas_that_are_none_end_it() {
        let key = FileKey::draw().unwrap();
        let passphrase = for_passphrase(&key, &phrase("p"), CHEAP).unwrap();
        let recipient = for_recipients(&key, &to(&[1])).unwrap().remove(0);
        let with = |stanza: &Stanza, change: &dyn Fn(&mut Stanza)| {
            let mut stanza = stanza.clone();
            change(&mut stanza);
            let header = key.header(vec![stanza]).unwrap();
            let written = header.write();
            let opened = match opens(&header).unwrap() {
                Opens::Passphrase => by_passphrase(&header, &written, &phrase("p")),
                Opens::Identity => by_identities(&header, &written, &[identity(1)]),
            };
            opened.unwrap_err()
        };
        let changes: [&dyn Fn(&mut Stanza); 6] = [
            &|it| it.words.push("more".to_owned()),
            &|it| it.words.truncate(1),
            &|it| it.words[1].push('A'),
            &|it| it.words[1] = it.words[1].replace(|c: char| c.is_ascii_alphanumeric(), "*"),
            &|it| it.body.push(0),
            &|it| it.body.truncate(31),
        ];
        for change in changes {
            for stanza in [&passphrase, &recipient] {
                let no = with(stanza, change);
                assert!(matches!(no, NotUnwrapped::Header(BadHeader::Malformed(_))), "{no}");
            }
        }
        // Shares of small order give no secret.
        for share in [[0; 32], [&[1][..], &[0; 31]].concat().try_into().unwrap()] {
            let no = with(&recipient, &|it| it.words[1] = header::encode(&share));
            assert!(matches!(no, NotUnwrapped::Header(BadHeader::Malformed(_))), "{no}");
        }
        assert_eq!(for_recipients(&key, &[Recipient([0; 32])]).unwrap_err(), NotWrapped::NoKey(Recipient([0; 32])));
        assert_eq!(for_recipients(&key, &[]).unwrap_err(), NotWrapped::HowMany);
    }
}
