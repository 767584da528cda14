//! How tokens write an Ed25519 public key: raw, or wrapped in DER.

use identity::key::PublicKey;

/// Raw as newer standards say, an OCTET STRING as older ones do, a BIT STRING as some do.
pub fn read(point: &[u8]) -> Option<PublicKey> {
    let raw = match point {
        [0x04, 0x20, raw @ ..] | [0x03, 0x21, 0x00, raw @ ..] if raw.len() == 32 => raw,
        raw => raw,
    };
    raw.try_into().ok().map(PublicKey::Ed25519)
}

/// `edwards25519` by name, and by number: tokens know one or the other.
pub const CURVES: [&[u8]; 2] = [b"\x13\x0cedwards25519", b"\x06\x03\x2b\x65\x70"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_is_read_from_each_form() {
        let raw = [7; 32];
        let key = Some(PublicKey::Ed25519(raw));
        assert_eq!(read(&raw), key);
        assert_eq!(read(&[&[0x04, 0x20][..], &raw].concat()), key);
        assert_eq!(read(&[&[0x03, 0x21, 0x00][..], &raw].concat()), key);
        // Raw, and yet it begins like the wrapped ones.
        let mut like = raw;
        [like[0], like[1]] = [0x04, 0x20];
        assert_eq!(read(&like), Some(PublicKey::Ed25519(like)));
        for bad in [&raw[..31], &[0x04; 65], &[], &[&[0x04, 0x21][..], &raw].concat()] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }
}
