//! A secret on its way from one of our processes to another, inside JSON: wiped when dropped, never printed.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_travels_whole_and_is_never_printed() {
        let secret = Secret::of(b"hush");
        let sent = serde_json::to_vec(&secret).unwrap();
        let come: Secret = serde_json::from_slice(&sent).unwrap();
        assert_eq!(&come.0[..], b"hush");
        assert_eq!(format!("{come:?}"), "Secret(hidden)");
    }
}
