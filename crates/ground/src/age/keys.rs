//! Who opens an age file: recipients (`age1…`), which are public, and the identities that belong to them.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use zeroize::Zeroizing;

use crate::age::bech32;
use crate::file::{self, FileError};
use crate::random::{self, NoRandomness};

/// Each identity is tried at each stanza.
const MAX_KEYS: usize = 64;
const MAX_FILE: usize = 64 << 10;

/// Whom a file is encrypted to: an X25519 key, as `age-keygen` makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recipient(pub(super) [u8; 32]);

/// The secret half.
#[derive(Clone)]
pub struct AgeIdentity(pub(super) Zeroizing<[u8; 32]>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRecipient {
    #[error("`{0}` is not a recipient of age, or it is mistyped: one begins with `age1` and has 62 letters")]
    Mistyped(String),
    #[error("`{0}` is a recipient of another kind than those that `age-keygen` makes, and freehold knows only those")]
    OtherKind(String),
    /// What it was is not repeated.
    #[error("that is an identity, which is secret, and no recipient: `age-keygen -y` tells the recipient of one")]
    Secret,
}

#[derive(Debug, thiserror::Error)]
pub enum BadKeyFile {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("it is too large, or no text")]
    NoText,
    #[error("there is no key in it")]
    Empty,
    #[error("there are more than {MAX_KEYS} keys in it")]
    TooMany,
    #[error("it is encrypted itself: decrypt it first, with `age --decrypt`")]
    Encrypted,
    #[error("line {line} is not an identity as `age-keygen` writes them (`AGE-SECRET-KEY-1…`)")]
    NotAnIdentity { line: usize },
    #[error("line {line}")]
    NotARecipient {
        line: usize,
        #[source]
        why: BadRecipient,
    },
}

impl FromStr for Recipient {
    type Err = BadRecipient;

    fn from_str(text: &str) -> Result<Self, BadRecipient> {
        if text.get(..15).is_some_and(|start| start.eq_ignore_ascii_case("AGE-SECRET-KEY-")) {
            return Err(BadRecipient::Secret);
        }
        let shown = || text.chars().take(80).collect::<String>().escape_default().to_string();
        let (prefix, bytes) = bech32::decode(text).ok_or_else(|| BadRecipient::Mistyped(shown()))?;
        match (prefix.as_str(), <[u8; 32]>::try_from(&bytes[..])) {
            ("age", Ok(key)) if !text.starts_with('A') => Ok(Self(key)),
            (prefix, _) if prefix.starts_with("age1") => Err(BadRecipient::OtherKind(shown())),
            _ => Err(BadRecipient::Mistyped(shown())),
        }
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bech32::encode("age", &self.0))
    }
}

impl fmt::Debug for AgeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(hidden)")
    }
}

impl AgeIdentity {
    /// As `age-keygen` writes it, in capitals.
    pub fn parse(text: &str) -> Option<Self> {
        let (prefix, bytes) = bech32::decode(text)?;
        let key = <[u8; 32]>::try_from(&bytes[..]).ok()?;
        let key = Zeroizing::new(key);
        (prefix == "age-secret-key-" && text.starts_with('A')).then_some(Self(key))
    }

    pub fn recipient(&self) -> Result<Recipient, NoRandomness> {
        random::x25519_public(&self.0).map(Recipient)
    }
}

/// The recipients in a file, one on each line. Lines that begin with `#` are for people.
pub fn recipients(path: &Path) -> Result<Vec<Recipient>, BadKeyFile> {
    let bytes = file::read(path)?;
    read(&bytes, |line, text| text.parse().map_err(|why| BadKeyFile::NotARecipient { line, why }))
}

/// The identities in a file that nobody else can read.
pub fn identities(path: &Path) -> Result<Vec<AgeIdentity>, BadKeyFile> {
    let bytes = file::read_secret(path)?;
    if bytes.starts_with(b"age-encryption.org/") || bytes.starts_with(b"-----BEGIN AGE ENCRYPTED FILE-----") {
        return Err(BadKeyFile::Encrypted);
    }
    read(&bytes, |line, text| AgeIdentity::parse(text).ok_or(BadKeyFile::NotAnIdentity { line }))
}

fn read<T>(bytes: &[u8], one: impl Fn(usize, &str) -> Result<T, BadKeyFile>) -> Result<Vec<T>, BadKeyFile> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_FILE).ok_or(BadKeyFile::NoText)?;
    let lines = text.lines().map(str::trim_end).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let keys: Vec<T> = lines.take(MAX_KEYS + 1).map(|(at, line)| one(at + 1, line)).collect::<Result<_, _>>()?;
    match keys.len() {
        0 => Err(BadKeyFile::Empty),
        1..=MAX_KEYS => Ok(keys),
        _ => Err(BadKeyFile::TooMany),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::FileAccess;

    /// From the specification of age: the identity is 32 times `B`.
    const IDENTITY: &str = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
    const RECIPIENT: &str = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";

    #[test]
    fn an_identity_and_its_recipient_are_those_of_the_specification() {
        let identity = AgeIdentity::parse(IDENTITY).unwrap();
        assert_eq!(*identity.0, [0x42; 32]);
        assert_eq!(identity.recipient().unwrap().to_string(), RECIPIENT);
        assert_eq!(RECIPIENT.parse(), identity.recipient().map_err(|_| BadRecipient::Secret));
        assert!(AgeIdentity::parse(RECIPIENT).is_none() && AgeIdentity::parse(&IDENTITY.to_lowercase()).is_none());
        assert_eq!(format!("{identity:?}"), "Identity(hidden)");
    }

    #[test]
    fn what_is_no_recipient_is_told_apart_and_a_secret_is_not_repeated() {
        let parse = |text: &str| text.parse::<Recipient>().unwrap_err();
        assert_eq!(parse(IDENTITY), BadRecipient::Secret);
        assert!(!parse(IDENTITY).to_string().contains("GFPYYS"));
        let other = bech32::encode("age1yubikey", &[2; 33]);
        assert!(matches!(parse(&other), BadRecipient::OtherKind(_)));
        let short = bech32::encode("age", &[2; 31]);
        for text in ["", "age1", &RECIPIENT[..61], &RECIPIENT.to_uppercase(), &short, &"a".repeat(9_000)] {
            assert!(matches!(parse(text), BadRecipient::Mistyped(_)), "{text}");
        }
    }

    #[test]
    fn files_have_a_key_on_each_line_and_words_for_people() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let put = |text: &str| {
            let _ = std::fs::remove_file(&path);
            file::write(&path, text.as_bytes(), FileAccess::Private).unwrap();
        };
        put(&format!("# public key: {RECIPIENT}\n\n{IDENTITY}\r\n"));
        assert_eq!(identities(&path).unwrap().len(), 1);
        assert!(matches!(recipients(&path).unwrap_err(), BadKeyFile::NotARecipient { line: 3, .. }));
        put(&format!("{RECIPIENT}\n# and again\n{RECIPIENT}"));
        assert_eq!(recipients(&path).unwrap().len(), 2);
        assert!(matches!(identities(&path).unwrap_err(), BadKeyFile::NotAnIdentity { line: 1 }));
        put("# nothing\n");
        assert!(matches!(recipients(&path).unwrap_err(), BadKeyFile::Empty));
        put(&format!("{RECIPIENT}\n").repeat(MAX_KEYS + 1));
        assert!(matches!(recipients(&path).unwrap_err(), BadKeyFile::TooMany));
        put("age-encryption.org/v1\n-> scrypt");
        assert!(matches!(identities(&path).unwrap_err(), BadKeyFile::Encrypted));
        std::fs::write(&path, [0xff; 9]).unwrap();
        assert!(matches!(recipients(&path).unwrap_err(), BadKeyFile::NoText));
    }
}
