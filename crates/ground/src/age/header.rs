//! The header of an age file: text with one written form. Reads no more of it than is bearable.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// The longest header that is read: room for a hundred recipients of any kind that there is.
pub const MAX: usize = 64 << 10;
/// What unwrapping costs is paid before anything of the header is proven.
pub const MAX_STANZAS: usize = 128;
/// Letters on a full line of a stanza's body.
const COLUMNS: usize = 64;
const ARMOR: &[u8] = b"-----BEGIN AGE ENCRYPTED FILE-----";
const MAGIC: &[u8] = b"age-encryption.org/";
const VERSION: &str = "age-encryption.org/v1";
/// What the MAC covers ends with this; a space and the MAC follow.
const END: &str = "---";
/// A space, the MAC, the end of the line.
const AFTER_END: usize = 45;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadHeader {
    #[error("it is no age file")]
    NotAge,
    #[error("it is an age file in its armor, as text")]
    Armored,
    #[error("it is an age file of the version `{0}`")]
    OtherVersion(String),
    #[error("it ends within its header")]
    Cut,
    #[error("its header is too long, or has too many stanzas")]
    TooLong,
    #[error("its header is malformed: {0}")]
    Malformed(&'static str),
}

/// Does it begin as an age file does, in its armor or without?
pub(crate) fn is_age(file: &[u8]) -> bool {
    file.starts_with(MAGIC) || file.starts_with(ARMOR)
}

/// One way to the file's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stanza {
    /// The kind first.
    pub words: Vec<String>,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub stanzas: Vec<Stanza>,
    pub mac: [u8; 32],
}

impl Header {
    /// The header at the beginning of a file, of which no more than `MAX` bytes are needed; and how long it is.
    pub fn parse(file: &[u8]) -> Result<(Self, usize), BadHeader> {
        let start = file.get(..MAX).unwrap_or(file);
        match Self::read(start) {
            Err(BadHeader::Cut) if start.len() == MAX => Err(BadHeader::TooLong),
            other => other,
        }
    }

    fn read(file: &[u8]) -> Result<(Self, usize), BadHeader> {
        let mut lines = Lines { rest: file };
        lines.version()?;
        let mut stanzas = Vec::new();
        loop {
            let line = lines.next()?;
            if let Some(words) = line.strip_prefix("-> ") {
                if stanzas.len() == MAX_STANZAS {
                    return Err(BadHeader::TooLong);
                }
                stanzas.push(lines.stanza(words)?);
            } else if let Some(mac) = line.strip_prefix(END).and_then(|rest| rest.strip_prefix(' ')) {
                let mac = decode(mac)?.try_into().map_err(|_| BadHeader::Malformed("its MAC is not one"))?;
                if stanzas.is_empty() {
                    return Err(BadHeader::Malformed("it is for nobody"));
                }
                return Ok((Self { stanzas, mac }, file.len() - lines.rest.len()));
            } else {
                return Err(BadHeader::Malformed("a line is neither a stanza's nor the last"));
            }
        }
    }

    /// As it stands in a file.
    pub fn write(&self) -> Vec<u8> {
        [&covered(&self.stanzas)[..], b" ", encode(&self.mac).as_bytes(), b"\n"].concat()
    }
}

/// What the MAC is of, in a header that was read.
pub fn covered_in(header: &[u8]) -> &[u8] {
    header.get(..header.len().saturating_sub(AFTER_END)).unwrap_or_default()
}

/// What the MAC is of, in a header that is being written.
pub fn covered(stanzas: &[Stanza]) -> Vec<u8> {
    let mut text = format!("{VERSION}\n");
    for stanza in stanzas {
        let body = encode(&stanza.body);
        text.extend(["-> ", &stanza.words.join(" "), "\n"]);
        let mut rest = body.as_str();
        // A body ends with a line that is not full, be it empty.
        while let Some((line, more)) = rest.split_at_checked(COLUMNS) {
            text.extend([line, "\n"]);
            rest = more;
        }
        text.extend([rest, "\n"]);
    }
    text.push_str(END);
    text.into_bytes()
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    STANDARD_NO_PAD.encode(bytes)
}

/// Without padding, and in no other than the one written form.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, BadHeader> {
    STANDARD_NO_PAD.decode(text).map_err(|_| BadHeader::Malformed("there is something that is not base64"))
}

struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Lines<'a> {
    fn version(&mut self) -> Result<(), BadHeader> {
        if self.rest.starts_with(ARMOR) {
            return Err(BadHeader::Armored);
        }
        if !self.rest.starts_with(MAGIC) {
            return Err(BadHeader::NotAge);
        }
        match self.next()? {
            VERSION => Ok(()),
            other => Err(BadHeader::OtherVersion(other.chars().skip(MAGIC.len()).take(32).collect())),
        }
    }

    /// The next line, without its end.
    fn next(&mut self) -> Result<&'a str, BadHeader> {
        let end = self.rest.iter().position(|byte| *byte == b'\n').ok_or(BadHeader::Cut)?;
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        if !line.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
            return Err(BadHeader::Malformed("a line is not plain text"));
        }
        std::str::from_utf8(line).map_err(|_| BadHeader::Malformed("a line is not plain text"))
    }

    /// What follows a stanza's first line.
    fn stanza(&mut self, words: &str) -> Result<Stanza, BadHeader> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        if words.iter().any(String::is_empty) {
            return Err(BadHeader::Malformed("a stanza has an empty word"));
        }
        let mut body = String::new();
        loop {
            let line = self.next()?;
            body.push_str(line);
            match line.len() {
                ..COLUMNS => return Ok(Stanza { words, body: decode(&body)? }),
                COLUMNS => {}
                _ => return Err(BadHeader::Malformed("a stanza has a line that is too long")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stanza(kind: &str, body: &[u8]) -> Stanza {
        Stanza { words: vec![kind.to_owned(), "x".to_owned()], body: body.to_vec() }
    }

    fn written(stanzas: Vec<Stanza>) -> Vec<u8> {
        Header { stanzas, mac: [7; 32] }.write()
    }

    fn parse(text: &str) -> Result<(Header, usize), BadHeader> {
        Header::parse(text.as_bytes())
    }

    const MAC: &str = "--- BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc\n";

    #[test]
    fn what_was_written_is_read_and_what_follows_is_left() {
        for lengths in [vec![0], vec![32], vec![47, 48, 49], vec![96, 95, 1, 0]] {
            let stanzas: Vec<_> = lengths.iter().map(|length| stanza("some", &vec![9; *length])).collect();
            let text = written(stanzas.clone());
            let file = [&text[..], b"\n--- more"].concat();
            let (read, length) = Header::parse(&file).unwrap();
            assert_eq!((read.stanzas, length), (stanzas.clone(), text.len()));
            assert_eq!(covered_in(&text), covered(&stanzas));
            assert!(text.ends_with(MAC.as_bytes()));
            for cut in 19..text.len() {
                assert_eq!(Header::parse(&text[..cut]), Err(BadHeader::Cut), "cut at {cut}");
            }
        }
    }

    #[test]
    fn only_one_written_form_is_taken() {
        let good = format!("age-encryption.org/v1\n-> some x\nCQk\n{MAC}");
        assert_eq!(written(vec![stanza("some", &[9, 9])]), good.as_bytes());
        assert!(parse(&good).is_ok());
        for (from, to) in [
            ("CQk\n", "CQk=\n"),
            ("CQk\n", "CQl\n"),
            ("CQk\n", "CQk\r\n"),
            ("CQk\n", " CQk\n"),
            ("CQk\n", "C-k\n"),
            ("-> some", "->  some"),
            ("-> some", "->some"),
            ("-> some", "-> s\u{f6}me"),
            ("-> some", "-> so\u{1}me"),
            (" x\n", " x \n"),
            ("--- ", "---  "),
            ("--- ", "---"),
            ("--- ", "---- "),
            ("wc\n", "wd\n"),
            ("wc\n", "wcA\n"),
            ("-> some x\nCQk\n", ""),
            ("-> some x\nCQk\n", "CQk\n"),
            ("v1\n", "v1\n\n"),
        ] {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good);
            assert!(matches!(parse(&text), Err(BadHeader::Malformed(_))), "{text}");
        }
        let full = "Q".repeat(64);
        let unended = good.replacen("CQk", &full, 1);
        assert!(parse(&unended).is_err(), "a full line is not the last");
        let long = good.replacen("CQk", &format!("{full}Q"), 1);
        assert!(matches!(parse(&long), Err(BadHeader::Malformed(_))));
    }

    #[test]
    fn what_is_no_age_file_of_this_version_is_told_apart() {
        assert_eq!(parse("freehold backup\n"), Err(BadHeader::NotAge));
        assert_eq!(parse(""), Err(BadHeader::NotAge));
        assert_eq!(parse("age-encryption.org/v2\n-> x"), Err(BadHeader::OtherVersion("v2".to_owned())));
        assert_eq!(parse("age-encryption.org/v1 \n"), Err(BadHeader::OtherVersion("v1 ".to_owned())));
        assert_eq!(parse("-----BEGIN AGE ENCRYPTED FILE-----\n"), Err(BadHeader::Armored));
    }

    #[test]
    fn many_stanzas_and_long_ones_are_refused_early() {
        let many = |count: usize| written((0..count).map(|_| stanza("some", &[1; 32])).collect());
        assert!(Header::parse(&many(MAX_STANZAS)).is_ok());
        assert_eq!(Header::parse(&many(MAX_STANZAS + 1)), Err(BadHeader::TooLong));
        let large = written(vec![stanza("some", &vec![1; 1 << 20])]);
        let word = format!("age-encryption.org/v1\n-> {}", "x".repeat(1 << 20)).into_bytes();
        for file in [large, word] {
            assert_eq!(Header::parse(&file), Err(BadHeader::TooLong));
            assert_eq!(Header::parse(&file[..MAX]), Err(BadHeader::TooLong), "the first bytes alone say so");
            assert_eq!(Header::parse(&file[..MAX - 1]), Err(BadHeader::Cut));
        }
    }
}
