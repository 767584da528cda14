//! Values that travel as text: one macro so that each has exactly one written form.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::de::Visitor;

/// Makes serde use a type's `Display` and `FromStr`, so that JSON, command line and logs agree.
#[macro_export]
macro_rules! text_form {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str($crate::text::TextVisitor::default())
            }
        }
    };
}

/// Reads a value where its text lies, without a copy of that.
#[derive(Debug)]
pub struct TextVisitor<T>(PhantomData<T>);

impl<T> Default for TextVisitor<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not valid {form}")]
pub struct BadText {
    pub form: &'static str,
}

pub fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn base64url_onto(bytes: &[u8], out: &mut String) {
    URL_SAFE_NO_PAD.encode_string(bytes, out);
}

pub fn from_base64url(text: &str) -> Result<Vec<u8>, BadText> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| BadText { form: "base64url" })
}

pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub fn from_base64(text: &str) -> Result<Vec<u8>, BadText> {
    STANDARD.decode(text).map_err(|_| BadText { form: "base64" })
}

pub fn hex(bytes: &[u8]) -> String {
    let mut out = vec![0; bytes.len() * 2];
    String::from(hex_into(bytes, &mut out))
}

/// The same without memory of its own: `out` is twice as long as `bytes`.
pub(crate) fn hex_into<'o>(bytes: &[u8], out: &'o mut [u8]) -> &'o str {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or_default();
    for (byte, [high, low]) in bytes.iter().zip(out.as_chunks_mut::<2>().0) {
        (*high, *low) = (digit(byte >> 4), digit(byte & 15));
    }
    std::str::from_utf8(out).unwrap_or_default()
}

/// Lowercase only: a second spelling of one value would be a second name for it.
pub fn from_hex(text: &str) -> Result<Vec<u8>, BadText> {
    let mut bytes = vec![0; text.len() / 2];
    from_hex_into(text, &mut bytes)?;
    Ok(bytes)
}

/// The same, for so many bytes as there is room for, no more and no fewer.
pub(crate) fn from_hex_into(text: &str, out: &mut [u8]) -> Result<(), BadText> {
    let bad = BadText { form: "lowercase hex" };
    let digit = |c: u8| match c {
        b'0'..=b'9' => Ok(c - b'0'),
        b'a'..=b'f' => Ok(c - b'a' + 10),
        _ => Err(bad),
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() || pairs.len() != out.len() {
        return Err(bad);
    }
    for (byte, [high, low]) in out.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Ok(())
}

/// Bytes that travel inside JSON as base64 text (DSSE's own choice of alphabet).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64(&self.0))
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl FromStr for Bytes {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        from_base64(text).map(Self)
    }
}

text_form!(Bytes);
