//! The inside of a backup is a tar file (POSIX ustar), so that ordinary tools read it. Writes and reads the headers: of
//! files, links and folders, and of nothing else that a tar file may hold.

use identity::time::Timestamp;

pub const BLOCK: usize = 512;
/// Two empty blocks end it.
pub const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];
/// Eleven octal digits.
const MAX_SIZE: u64 = 0o777_7777_7777;
/// The records before an entry whose names are long; other writers put times there, too.
const MAX_RECORDS: u64 = 16 << 10;

const NAME: Field = Field { at: 0, length: 100 };
const MODE: Field = Field { at: 100, length: 8 };
const OWNER: Field = Field { at: 108, length: 8 };
const GROUP: Field = Field { at: 116, length: 8 };
const SIZE: Field = Field { at: 124, length: 12 };
const TIME: Field = Field { at: 136, length: 12 };
const SUM: Field = Field { at: 148, length: 8 };
const KIND: Field = Field { at: 156, length: 1 };
const TARGET: Field = Field { at: 157, length: 100 };
const MAGIC: Field = Field { at: 257, length: 8 };
const PREFIX: Field = Field { at: 345, length: 155 };

const POSIX: &[u8] = b"ustar\x0000";
const GNU: &[u8] = b"ustar  \0";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTar {
    #[error("it is no tar file, or a part of it is damaged")]
    Malformed,
    #[error("it has something in it that is neither a file nor a link nor a folder")]
    OtherKind,
    #[error("it has a name in it that is no text, or too long")]
    BadName,
    #[error("`{0}` has more than 8 GiB")]
    TooLarge(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TarEntryKind {
    /// So many bytes follow, and zeros up to a whole block.
    File {
        size: u64,
    },
    Link {
        target: String,
    },
    Folder,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TarEntry {
    pub path: String,
    pub kind: TarEntryKind,
}

/// The header of one entry: a block, or more if its names are long.
pub fn header(entry: &TarEntry, mode: u32, at: Timestamp) -> Result<Vec<u8>, BadTar> {
    let (letter, size, target) = match &entry.kind {
        TarEntryKind::File { size } if *size > MAX_SIZE => return Err(BadTar::TooLarge(entry.path.clone())),
        TarEntryKind::File { size } => (b'0', *size, ""),
        TarEntryKind::Link { target } => (b'2', 0, target.as_str()),
        TarEntryKind::Folder => (b'5', 0, ""),
    };
    let (mut out, place) = (Vec::new(), split(&entry.path));
    let mut records = String::new();
    if place.is_none() {
        records.push_str(&record("path", &entry.path));
    }
    if target.len() > TARGET.length {
        records.push_str(&record("linkpath", target));
    }
    if !records.is_empty() {
        let about = Block::new("", "records", Meta { letter: b'x', size: records.len() as u64, mode: 0o600, at }, "");
        out.extend(about.finish());
        out.extend(records.as_bytes());
        out.extend(padding(records.len() as u64));
    }
    let (prefix, name) = place.unwrap_or_else(|| ("", short(&entry.path)));
    out.extend(Block::new(prefix, name, Meta { letter, size, mode, at }, target).finish());
    Ok(out)
}

/// What fills the last block of a file.
pub fn padding(size: u64) -> impl Iterator<Item = u8> {
    let over = usize::try_from(size % BLOCK as u64).unwrap_or_default();
    std::iter::repeat_n(0, (BLOCK - over) % BLOCK)
}

/// The next entry; nothing at the end. `fill` is asked for the bytes of headers alone.
pub fn next<E: From<BadTar>>(mut fill: impl FnMut(&mut [u8]) -> Result<(), E>) -> Result<Option<TarEntry>, E> {
    let mut block = Block([0; BLOCK]);
    fill(&mut block.0)?;
    if block.0 == [0; BLOCK] {
        return Ok(None);
    }
    let mut long = Long::default();
    if block.letter()? == b'x' {
        let size = block.number(SIZE)?;
        if size > MAX_RECORDS {
            return Err(BadTar::BadName.into());
        }
        let mut records = vec![0; usize::try_from(size).unwrap_or_default() + padding(size).count()];
        fill(&mut records)?;
        let size = usize::try_from(size).unwrap_or_default();
        long = Long::read(records.get(..size).unwrap_or_default())?;
        fill(&mut block.0)?;
    }
    Ok(Some(block.entry(long)?))
}

/// Prefix and name, if it fits into both.
fn split(path: &str) -> Option<(&str, &str)> {
    if path.len() <= NAME.length {
        return Some(("", path));
    }
    let cuts = path.match_indices('/').map(|(at, _)| (path.get(..at), path.get(at + 1..)));
    let cuts = cuts.filter_map(|(prefix, name)| prefix.zip(name));
    // An empty prefix is read as none, and the slash would be lost.
    let fits = |(prefix, name): &(&str, &str)| {
        (1..=PREFIX.length).contains(&prefix.len()) && (1..=NAME.length).contains(&name.len())
    };
    cuts.into_iter().find(fits)
}

/// For readers that pass over the records.
fn short(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.get(..name.floor_char_boundary(NAME.length)).unwrap_or_default()
}

/// `LENGTH KEY=VALUE`, where the length counts its own digits.
fn record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let mut length = rest.len();
    while length != rest.len() + length.to_string().len() {
        length = rest.len() + length.to_string().len();
    }
    format!("{length}{rest}")
}

/// Names that do not fit into a block.
#[derive(Debug, Default)]
struct Long {
    path: Option<String>,
    target: Option<String>,
}

impl Long {
    fn read(mut records: &[u8]) -> Result<Self, BadTar> {
        let mut long = Self::default();
        while !records.is_empty() {
            let digits = records.iter().take(6).position(|byte| *byte == b' ').ok_or(BadTar::Malformed)?;
            let (number, _) = records.split_at(digits);
            let length = octets(number, 10).and_then(|length| usize::try_from(length).ok()).ok_or(BadTar::Malformed)?;
            let (record, rest) = records.split_at_checked(length).ok_or(BadTar::Malformed)?;
            let record = record.get(digits + 1..).and_then(|record| record.strip_suffix(b"\n"));
            let record = std::str::from_utf8(record.ok_or(BadTar::Malformed)?).map_err(|_| BadTar::BadName)?;
            match record.split_once('=').ok_or(BadTar::Malformed)? {
                (_, value) if value.contains('\0') => return Err(BadTar::BadName),
                ("path", value) => long.path = Some(value.to_owned()),
                ("linkpath", value) => long.target = Some(value.to_owned()),
                // What changes how much follows, for those who know it, must not be passed over.
                ("size", _) => return Err(BadTar::OtherKind),
                (key, _) if key.starts_with("GNU.sparse") => return Err(BadTar::OtherKind),
                _ => {}
            }
            records = rest;
        }
        Ok(long)
    }
}

#[derive(Clone, Copy)]
struct Field {
    at: usize,
    length: usize,
}

/// What a header says of an entry beside its names.
struct Meta {
    letter: u8,
    size: u64,
    mode: u32,
    at: Timestamp,
}

struct Block([u8; BLOCK]);

impl Block {
    fn new(prefix: &str, name: &str, Meta { letter, size, mode, at }: Meta, target: &str) -> Self {
        let mut block = Self([0; BLOCK]);
        block.put(PREFIX, prefix.as_bytes());
        block.put(NAME, name.as_bytes());
        block.put(TARGET, if target.len() > TARGET.length { &[] } else { target.as_bytes() });
        for (field, number) in
            [(MODE, mode.into()), (OWNER, 0), (GROUP, 0), (SIZE, size), (TIME, u64::try_from(at.unix()).unwrap_or(0))]
        {
            block.put(field, format!("{number:0width$o}", width = field.length - 1).as_bytes());
        }
        block.put(KIND, &[letter]);
        block.put(MAGIC, POSIX);
        block
    }

    fn finish(mut self) -> [u8; BLOCK] {
        let sum = format!("{:06o}\0 ", self.sum());
        self.put(SUM, sum.as_bytes());
        self.0
    }

    fn entry(&self, long: Long) -> Result<TarEntry, BadTar> {
        let letter = self.letter()?;
        let size = self.number(SIZE)?;
        let path = match long.path {
            Some(path) => path,
            None => self.path()?,
        };
        let kind = match letter {
            b'0' | 0 => TarEntryKind::File { size },
            b'2' if size == 0 => TarEntryKind::Link { target: long.target.map_or_else(|| self.text(TARGET), Ok)? },
            b'5' if size == 0 => TarEntryKind::Folder,
            _ => return Err(BadTar::OtherKind),
        };
        Ok(TarEntry { path, kind })
    }

    /// Only a block that is a header has one.
    fn letter(&self) -> Result<u8, BadTar> {
        let known = [POSIX, GNU].contains(&self.get(MAGIC));
        if !known || self.number(SUM)? != u64::from(self.sum()) {
            return Err(BadTar::Malformed);
        }
        self.get(KIND).first().copied().ok_or(BadTar::Malformed)
    }

    fn path(&self) -> Result<String, BadTar> {
        let name = self.text(NAME)?;
        // GNU's tar has something else there.
        let prefix = if self.get(MAGIC) == POSIX { self.text(PREFIX)? } else { String::new() };
        Ok(if prefix.is_empty() { name } else { format!("{prefix}/{name}") })
    }

    /// Of all bytes, its own field taken as spaces.
    fn sum(&self) -> u32 {
        let own = SUM.at..SUM.at + SUM.length;
        self.0.iter().enumerate().map(|(at, byte)| u32::from(if own.contains(&at) { b' ' } else { *byte })).sum()
    }

    fn get(&self, field: Field) -> &[u8] {
        self.0.get(field.at..field.at + field.length).unwrap_or_default()
    }

    fn put(&mut self, field: Field, bytes: &[u8]) {
        for (to, from) in self.0.iter_mut().skip(field.at).take(field.length).zip(bytes) {
            *to = *from;
        }
    }

    /// Up to the first zero.
    fn text(&self, field: Field) -> Result<String, BadTar> {
        let bytes = self.get(field).split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| BadTar::BadName)
    }

    /// Octal digits between spaces and zeros.
    fn number(&self, field: Field) -> Result<u64, BadTar> {
        let edge = |byte: &u8| matches!(byte, b' ' | 0);
        let bytes = self.get(field);
        let start = bytes.iter().position(|byte| !edge(byte)).unwrap_or(bytes.len());
        let bytes = bytes.get(start..).unwrap_or_default();
        let digits = bytes.split(edge).next().unwrap_or_default();
        let clean = bytes.get(digits.len()..).unwrap_or_default().iter().all(edge);
        octets(digits, 8).filter(|_| clean).ok_or(BadTar::Malformed)
    }
}

/// A number of at most eleven digits.
fn octets(digits: &[u8], base: u32) -> Option<u64> {
    if digits.len() > 11 {
        return None;
    }
    digits.iter().try_fold(0, |sum, digit| Some(sum * u64::from(base) + u64::from(char::from(*digit).to_digit(base)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Timestamp {
        Timestamp::from_unix(1_900_000_000)
    }

    fn entry(path: &str, kind: TarEntryKind) -> TarEntry {
        TarEntry { path: path.to_owned(), kind }
    }

    fn read(mut bytes: &[u8]) -> Result<Vec<TarEntry>, BadTar> {
        let mut entries = Vec::new();
        loop {
            let mut fill = |out: &mut [u8]| -> Result<(), BadTar> {
                let (now, later) = bytes.split_at_checked(out.len()).ok_or(BadTar::Malformed)?;
                out.copy_from_slice(now);
                bytes = later;
                Ok(())
            };
            match next(&mut fill)? {
                Some(entry) => entries.push(entry),
                None => return Ok(entries),
            }
        }
    }

    #[test]
    fn headers_are_read_as_they_were_written_however_long_the_names_are() {
        let deep = |depth: usize| vec!["a-folder-with-a-name"; depth].join("/");
        let targets = ["1".to_owned(), "x".repeat(100), "y".repeat(101), deep(40)];
        let paths = [
            "a".to_owned(),
            "b".repeat(100),
            "c".repeat(101),
            deep(8),
            deep(12),
            deep(13),
            deep(48),
            "\u{fc}/\u{df}".to_owned(),
            format!("/{}", "d".repeat(100)),
            "/".repeat(130) + "e",
        ];
        for path in &paths {
            let links = targets.iter().map(|target| TarEntryKind::Link { target: target.clone() });
            for kind in links.chain([TarEntryKind::File { size: 0 }, TarEntryKind::Folder]) {
                let entry = entry(path, kind);
                let bytes = [header(&entry, 0o600, at()).unwrap(), END.to_vec()].concat();
                assert_eq!(bytes.len() % BLOCK, 0);
                assert_eq!(read(&bytes).unwrap(), [entry]);
            }
        }
        let large = entry("a", TarEntryKind::File { size: MAX_SIZE });
        assert_eq!(
            next(|out| {
                out.copy_from_slice(&header(&large, 0o600, at())?);
                Ok::<_, BadTar>(())
            }),
            Ok(Some(large))
        );
        let larger = entry("a", TarEntryKind::File { size: MAX_SIZE + 1 });
        assert_eq!(header(&larger, 0o600, at()), Err(BadTar::TooLarge("a".to_owned())));
    }

    #[test]
    fn a_header_that_was_changed_is_none() {
        let good = header(&entry("operator/a", TarEntryKind::File { size: 0 }), 0o600, at()).unwrap();
        for byte in 0..BLOCK {
            let mut changed = good.clone();
            changed[byte] ^= 1;
            assert!(read(&[changed, END.to_vec()].concat()).is_err(), "byte {byte}");
        }
        assert!(read(&good).is_err(), "it does not end");
    }

    #[test]
    fn what_we_never_write_is_not_taken() {
        let with = |letter: u8, size: u64| {
            let block = Block::new("", "a", Meta { letter, size, mode: 0o600, at: at() }, "b").finish();
            read(&[&block[..], &END].concat())
        };
        for letter in [b'1', b'3', b'4', b'6', b'7', b'L', b'K', b'g', b'S', b'V'] {
            assert_eq!(with(letter, 0), Err(BadTar::OtherKind), "{letter}");
        }
        assert_eq!(with(b'2', 1), Err(BadTar::OtherKind), "a link with a body");
        assert_eq!(with(b'5', 1), Err(BadTar::OtherKind), "a folder with a body");
        assert_eq!(with(b'x', MAX_RECORDS + 1), Err(BadTar::BadName));
        let records = |text: &str| {
            let about =
                Block::new("", "r", Meta { letter: b'x', size: text.len() as u64, mode: 0o600, at: at() }, "").finish();
            let file = Block::new("", "a", Meta { letter: b'0', size: 0, mode: 0o600, at: at() }, "").finish();
            read(&[&about[..], text.as_bytes(), &padding(text.len() as u64).collect::<Vec<_>>(), &file, &END].concat())
        };
        assert_eq!(records(&record("path", "b")).unwrap(), [entry("b", TarEntryKind::File { size: 0 })]);
        assert_eq!(records(&record("mtime", "1.5")).unwrap(), [entry("a", TarEntryKind::File { size: 0 })]);
        assert_eq!(records(&record("path", "b\0c")), Err(BadTar::BadName));
        assert_eq!(records(&record("size", "512")), Err(BadTar::OtherKind));
        assert_eq!(records(&record("GNU.sparse.size", "5")), Err(BadTar::OtherKind));
        for text in ["9 path=b", "11 path=b\n", "8 path=b\n", "path=b\n", "0 path=b\n", "3 \n", " 9 path=b\n"] {
            assert!(records(text).is_err(), "{text}");
        }
        let twice = Block::new("", "r", Meta { letter: b'x', size: 0, mode: 0o600, at: at() }, "").finish();
        assert_eq!(read(&[&twice[..], &twice, &END].concat()), Err(BadTar::OtherKind));
    }
}
