//! Fixed-size identifiers, each its own type so that none can be passed for another.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{Context, SHA256, digest};

use crate::text::{BadText, from_hex_into, hex_into};
use crate::text_form;

macro_rules! fixed_id {
    ($(#[$doc:meta])* $name:ident, $size:literal, $form:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $size]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(hex_into(&self.0, &mut [0; $size * 2]))
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
        impl FromStr for $name {
            type Err = BadText;
            fn from_str(text: &str) -> Result<Self, BadText> {
                let mut bytes = [0; $size];
                from_hex_into(text, &mut bytes).map_err(|_| BadText { form: $form })?;
                Ok(Self(bytes))
            }
        }
        text_form!($name);
    };
}

fixed_id!(
    /// SHA-256 of a signed object (its pre-authentication encoding), of a file, or of a public key.
    Digest, 32, "SHA-256 digest"
);
fixed_id!(
    /// The org's id: the digest of its founding record.
    OrgId, 32, "org id"
);
fixed_id!(
    /// SHA-256 of a certificate's public key information: what a mandate names and a revocation kills.
    KeyId, 32, "key id"
);
fixed_id!(
    /// SHA-256 of a root certificate as it stands in DER, as `openssl x509 -fingerprint -sha256` prints it.
    Fingerprint, 32, "certificate fingerprint"
);
fixed_id!(
    /// Names an invite; not secret.
    InviteId, 16, "invite id"
);
fixed_id!(
    /// A certificate's serial number, drawn at random.
    Serial, 16, "certificate serial"
);
fixed_id!(
    /// Ties together what one command or one conversation caused.
    Correlation, 8, "correlation id"
);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha256(bytes))
    }
}

impl KeyId {
    pub fn of_spki(der: &[u8]) -> Self {
        Self(sha256(der))
    }
}

impl Fingerprint {
    pub fn of_certificate(der: &[u8]) -> Self {
        Self(sha256(der))
    }
}

pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

/// SHA-256 of something that comes in parts.
#[derive(Clone)]
pub struct Hasher(Context);

impl Hasher {
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> Digest {
        let mut out = [0; 32];
        out.copy_from_slice(self.0.finish().as_ref());
        Digest(out)
    }
}

impl Default for Hasher {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher")
    }
}
