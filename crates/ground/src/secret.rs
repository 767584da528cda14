//! A secret on its way from one of our processes to another, inside JSON: wiped when dropped, never printed.

use std::io::{self, Read};

use identity::text::{base64, from_base64};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

#[derive(Clone)]
pub struct Secret(pub Zeroizing<Vec<u8>>);

impl Secret {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Zeroizing::new(base64(&self.0)))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        from_base64(&text).map(|bytes| Self(Zeroizing::new(bytes))).map_err(serde::de::Error::custom)
    }
}

/// As much as all secrets of one line need: a buffer that grows leaves copies behind.
pub const ROOM: usize = 64 << 10;

/// A line of JSON that may hold secrets.
pub fn to_line<T: Serialize>(value: &T) -> serde_json::Result<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(Vec::with_capacity(ROOM));
    serde_json::to_writer(&mut *line, value)?;
    line.push(b'\n');
    Ok(line)
}

/// Reads such a line, for which the sender waits to be answered; nothing of it stays in a buffer. It is empty at the
/// end of what there is, and cut off where it is longer than `most`.
pub fn read_line(from: &mut impl Read, most: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(Vec::with_capacity(ROOM));
    let mut chunk = Zeroizing::new([0; 4_096]);
    while line.last() != Some(&b'\n') && line.len() < most {
        match from.read(&mut chunk[..]) {
            Ok(0) => break,
            Ok(length) => line.extend_from_slice(chunk.get(..length).unwrap_or_default()),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whole_and_no_longer_than_allowed() {
        let sent = to_line(&vec!["x"; 5_000]).unwrap();
        assert_eq!(read_line(&mut &sent[..], 1 << 20).unwrap(), sent);
        assert!(read_line(&mut &sent[..], 10_000).unwrap().len() < sent.len());
        assert!(read_line(&mut &b""[..], 10).unwrap().is_empty());
    }

    #[test]
    fn a_secret_travels_whole_and_is_never_printed() {
        let secret = Secret::of(b"hush");
        let sent = serde_json::to_vec(&secret).unwrap();
        let come: Secret = serde_json::from_slice(&sent).unwrap();
        assert_eq!(&come.0[..], b"hush");
        assert_eq!(format!("{come:?}"), "Secret(hidden)");
    }
}
