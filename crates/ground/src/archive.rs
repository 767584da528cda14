//! A stream that is encrypted for somebody: little memory however long it is, and every change of it is noticed.
//!
//! It is an age file (`age`). A chunk is 64 KiB under ChaCha20-Poly1305; its nonce is its number and whether it is the
//! last one, so that chunks cannot be dropped, repeated, moved, or cut off at the end. What freehold wrote before it wrote
//! age files is still read (`first`): its chunks are the same but for the cipher.

mod first;
pub mod text;

use std::io::{self, Read, Seek, SeekFrom, Write};

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};
use aws_lc_rs::digest;
use aws_lc_rs::error::Unspecified;
use zeroize::Zeroizing;

use crate::age::header::{self, BadHeader, Header};
use crate::age::keys::{AgeIdentity, Recipient};
use crate::age::wrap::{self, FileKey, NotUnwrapped, NotWrapped, Opens};
use crate::passphrase::Passphrase;
use crate::random;

const CHUNK: usize = 64 << 10;
const TAG: usize = 16;
/// What the payload begins with.
const NONCE: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("it cannot be read or written")]
    Io(#[from] io::Error),
    #[error("it is not a backup of freehold, or its beginning is damaged")]
    NotAnArchive,
    #[error("it was made by a newer freehold, or a newer age ({found}): upgrade freehold")]
    Newer { found: String },
    #[error(
        "it is an age file in its armor, as text; freehold reads those without: `age --decrypt`, and encrypt it again"
    )]
    Armored,
    #[error(transparent)]
    NotUnwrapped(NotUnwrapped),
    #[error(transparent)]
    NotWrapped(#[from] NotWrapped),
    #[error("the part from byte {from} on is damaged: it was changed, cut off, or does not belong there")]
    Damaged { from: u64 },
}

impl From<NotUnwrapped> for ArchiveError {
    fn from(why: NotUnwrapped) -> Self {
        match why {
            NotUnwrapped::Header(why) => why.into(),
            other => Self::NotUnwrapped(other),
        }
    }
}

impl From<BadHeader> for ArchiveError {
    fn from(why: BadHeader) -> Self {
        match why {
            BadHeader::NotAge | BadHeader::Cut => Self::NotAnArchive,
            BadHeader::Armored => Self::Armored,
            BadHeader::OtherVersion(found) => Self::Newer { found },
            other => Self::NotUnwrapped(other.into()),
        }
    }
}

/// For whom it is encrypted.
#[derive(Debug, Clone)]
pub enum To {
    Passphrase(Passphrase),
    Recipients(Vec<Recipient>),
}

/// What opens it.
#[derive(Debug, Clone)]
pub enum With {
    Passphrase(Passphrase),
    Identities(Vec<AgeIdentity>),
}

/// What the beginning of a file asks for.
pub fn opens(mut from: impl Read) -> Result<Opens, ArchiveError> {
    let start = read_up_to(&mut from, header::MAX)?;
    if start.starts_with(&first::MAGIC) {
        return Ok(Opens::Passphrase);
    }
    Ok(wrap::opens(&Header::parse(&start)?.0)?)
}

/// Each number is used once under a key, and the key belongs to one file.
fn nonce(number: u64, last: bool) -> Nonce {
    let mut nonce = [0; 12];
    for (to, from) in nonce.iter_mut().skip(3).zip(number.to_be_bytes()) {
        *to = from;
    }
    if let Some(flag) = nonce.last_mut() {
        *flag = u8::from(last);
    }
    Nonce::assume_unique_for_key(nonce)
}

/// Writes. Nothing of it counts before `finish`.
pub struct Sealer<W> {
    out: W,
    key: LessSafeKey,
    number: u64,
    waiting: Zeroizing<Vec<u8>>,
}

impl<W: Write> Sealer<W> {
    pub fn begin(out: W, to: &To) -> Result<Self, ArchiveError> {
        Self::begin_at(out, to, wrap::WORK)
    }

    fn begin_at(mut out: W, to: &To, work: u8) -> Result<Self, ArchiveError> {
        let key = FileKey::draw().map_err(NotWrapped::from)?;
        let stanzas = match to {
            To::Passphrase(passphrase) => vec![wrap::for_passphrase(&key, passphrase, work)?],
            To::Recipients(to) => wrap::for_recipients(&key, to)?,
        };
        let nonce = random::bytes::<NONCE>().map_err(NotWrapped::from)?;
        out.write_all(&key.header(stanzas).map_err(NotWrapped::from)?.write())?;
        out.write_all(&nonce)?;
        Ok(Self::under(out, key.payload(&nonce).map_err(NotWrapped::from)?))
    }

    fn under(out: W, key: LessSafeKey) -> Self {
        Self { out, key, number: 0, waiting: Zeroizing::new(Vec::with_capacity(CHUNK + TAG)) }
    }

    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), ArchiveError> {
        while !bytes.is_empty() {
            if self.waiting.len() == CHUNK {
                self.seal(false)?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - self.waiting.len()));
            self.waiting.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<W, ArchiveError> {
        self.seal(true)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn seal(&mut self, last: bool) -> Result<(), ArchiveError> {
        let nonce = nonce(self.number, last);
        let sealed = self.key.seal_in_place_append_tag(nonce, Aad::empty(), &mut *self.waiting);
        sealed.map_err(NotWrapped::from)?;
        self.out.write_all(&self.waiting)?;
        self.waiting.clear();
        self.number += 1;
        Ok(())
    }
}

/// Reads. What it hands out was checked, chunk by chunk; that nothing is missing is known at `expect_end`.
pub struct Opener<R> {
    from: R,
    key: LessSafeKey,
    /// Where the first chunk begins.
    start: u64,
    is_first: bool,
    number: u64,
    /// The next chunk as it was read, to know whether it is the last.
    ahead: Vec<u8>,
    open: Zeroizing<Vec<u8>>,
    at: usize,
    ended: bool,
}

impl<R: Read + Seek> Opener<R> {
    pub fn begin(mut from: R, with: &With) -> Result<Self, ArchiveError> {
        let beginning = read_up_to(&mut from, header::MAX + NONCE)?;
        let is_first = beginning.starts_with(&first::MAGIC);
        let (key, start) = if is_first { first::unlock(&beginning, with)? } else { unlock(&beginning, with)? };
        let (ahead, open) = (Vec::new(), Zeroizing::new(Vec::new()));
        let mut opener = Self { from, key, start: start as u64, is_first, number: 0, ahead, open, at: 0, ended: false };
        opener.rewind()?;
        Ok(opener)
    }

    /// Back to the beginning of what is in it.
    pub fn rewind(&mut self) -> Result<(), ArchiveError> {
        self.from.seek(SeekFrom::Start(self.start))?;
        self.ahead = read_up_to(&mut self.from, CHUNK + TAG)?;
        self.open.clear();
        (self.number, self.at, self.ended) = (0, 0, false);
        Ok(())
    }

    /// Was it written before freehold wrote age files? Then its inside is of that time, too.
    pub const fn is_first(&self) -> bool {
        self.is_first
    }

    /// Fills the whole of `out`.
    pub fn fill(&mut self, out: &mut [u8]) -> Result<(), ArchiveError> {
        let mut rest = out;
        while !rest.is_empty() {
            let ready = self.ready()?;
            if ready.is_empty() {
                // The stream holds, but whoever wrote it wrote less than it announced.
                return Err(ArchiveError::Damaged { from: self.place() });
            }
            let count = ready.len().min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(ready.get(..count).unwrap_or_default());
            rest = later;
            self.at += count;
        }
        Ok(())
    }

    pub fn is_at_end(&mut self) -> Result<bool, ArchiveError> {
        Ok(self.ready()?.is_empty())
    }

    pub fn expect_end(&mut self) -> Result<(), ArchiveError> {
        if self.is_at_end()? { Ok(()) } else { Err(ArchiveError::Damaged { from: self.place() }) }
    }

    /// What is open and not yet handed out; nothing at the end.
    fn ready(&mut self) -> Result<&[u8], ArchiveError> {
        while self.at == self.open.len() && !self.ended {
            let next = read_up_to(&mut self.from, CHUNK + TAG)?;
            let last = next.is_empty();
            let mut chunk = Zeroizing::new(std::mem::replace(&mut self.ahead, next));
            let opened = self.key.open_in_place(nonce(self.number, last), Aad::empty(), &mut chunk[..]);
            // Only a stream with nothing in it ends with an empty chunk: there is one way to write each.
            let opened = opened.and_then(|open| match open.len() {
                0 if self.number > 0 => Err(Unspecified),
                length => Ok(length),
            });
            let length = opened.map_err(|_| ArchiveError::Damaged { from: self.place() })?;
            chunk.truncate(length);
            (self.open, self.at, self.ended) = (chunk, 0, last);
            self.number += 1;
        }
        Ok(self.open.get(self.at..).unwrap_or_default())
    }

    /// Where the chunk begins that is next to be opened.
    const fn place(&self) -> u64 {
        self.start + self.number * (CHUNK + TAG) as u64
    }
}

/// The key of the chunks of an age file, and where they begin.
fn unlock(beginning: &[u8], with: &With) -> Result<(LessSafeKey, usize), ArchiveError> {
    let (header, length) = Header::parse(beginning)?;
    let (written, rest) = beginning.split_at(length);
    let key = match with {
        With::Passphrase(passphrase) => wrap::by_passphrase(&header, written, passphrase)?,
        With::Identities(identities) => wrap::by_identities(&header, written, identities)?,
    };
    let nonce = rest.first_chunk::<NONCE>().ok_or(ArchiveError::Damaged { from: length as u64 })?;
    let key = key.payload(nonce).map_err(|_| ArchiveError::NotAnArchive)?;
    Ok((key, length + NONCE))
}

fn read_up_to(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    from.by_ref().take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// SHA-256 of something that comes in parts.
pub struct Sum(digest::Context);

impl Default for Sum {
    fn default() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }
}

impl Sum {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> [u8; 32] {
        let mut out = [0; 32];
        out.copy_from_slice(self.0.finish().as_ref());
        out
    }
}

macro_rules! hidden {
    ($($type:ident$(<$of:ident>)?),*) => {$(
        impl$(<$of>)? std::fmt::Debug for $type$(<$of>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($type))
            }
        }
    )*};
}
hidden!(Sealer<W>, Opener<R>, Sum);

#[cfg(test)]
mod tests;
