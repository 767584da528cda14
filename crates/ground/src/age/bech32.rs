//! Bech32 (BIP 173): bytes as text that shows a typing error. Of any length, as age uses it.

use zeroize::Zeroizing;

const LETTERS: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const STEPS: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
/// Letters of the checksum.
const CHECK: usize = 6;

/// In small letters, as `prefix` must be.
pub(crate) fn encode(prefix: &str, bytes: &[u8]) -> String {
    let mut fives = to_fives(bytes);
    let sum = checksum(prefix, fives.iter().copied().chain([0; CHECK])) ^ 1;
    fives.extend((0..CHECK).rev().map(|place| low_bits(sum >> (5 * place))));
    let letters = fives.iter().filter_map(|five| LETTERS.get(usize::from(*five)));
    prefix.chars().chain(['1']).chain(letters.map(|letter| char::from(*letter))).collect()
}

/// The prefix in small letters, and the bytes. Nothing if it is mistyped, of mixed case, or has another written form.
pub(crate) fn decode(text: &str) -> Option<(String, Zeroizing<Vec<u8>>)> {
    let mixed = text.contains(|c: char| c.is_ascii_lowercase()) && text.contains(|c: char| c.is_ascii_uppercase());
    if mixed || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let (prefix, letters) = text.rsplit_once('1')?;
    let prefix = prefix.to_ascii_lowercase();
    let five = |letter: u8| LETTERS.iter().position(|it| *it == letter.to_ascii_lowercase());
    let fives: Option<Vec<u8>> = letters.bytes().map(|letter| u8::try_from(five(letter)?).ok()).collect();
    let fives = Zeroizing::new(fives?);
    if prefix.is_empty() || checksum(&prefix, fives.iter().copied()) != 1 {
        return None;
    }
    let data = fives.get(..fives.len().checked_sub(CHECK)?)?;
    Some((prefix, from_fives(data)?))
}

fn checksum(prefix: &str, values: impl Iterator<Item = u8>) -> u32 {
    let (high, low) = (prefix.bytes().map(|byte| byte >> 5), prefix.bytes().map(|byte| byte & 31));
    high.chain([0]).chain(low).chain(values).fold(1, |sum, value| {
        let next = ((sum & 0x01ff_ffff) << 5) ^ u32::from(value);
        let set = STEPS.iter().enumerate().filter(|(bit, _)| (sum >> 25 >> bit) & 1 == 1);
        set.fold(next, |next, (_, step)| next ^ step)
    })
}

const fn low_bits(number: u32) -> u8 {
    let [.., low] = number.to_be_bytes();
    low & 31
}

fn to_fives(bytes: &[u8]) -> Vec<u8> {
    let (mut fives, mut held, mut bits) = (Vec::with_capacity(bytes.len() * 2 + CHECK), 0_u32, 0);
    for byte in bytes {
        held = (held << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            fives.push(low_bits(held >> bits));
        }
    }
    if bits > 0 {
        fives.push(low_bits(held << (5 - bits)));
    }
    fives
}

/// Nothing if bits are left over that say something, or more than an encoder would leave.
fn from_fives(fives: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (mut bytes, mut held, mut bits) = (Zeroizing::new(Vec::with_capacity(fives.len())), 0_u32, 0);
    for five in fives {
        held = (held << 5) | u32::from(*five);
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            let [.., byte] = (held >> bits).to_be_bytes();
            bytes.push(byte);
        }
    }
    let left = held & ((1 << bits) - 1);
    (bits < 5 && left == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_in_either_case_and_in_no_other_form() {
        for length in [0, 1, 4, 5, 31, 32, 33, 200] {
            let bytes: Vec<u8> = (0..length).map(|at| u8::try_from(at * 37 % 256).unwrap()).collect();
            let text = encode("age", &bytes);
            for text in [text.clone(), text.to_uppercase()] {
                let (prefix, read) = decode(&text).unwrap();
                assert_eq!((prefix.as_str(), &read[..]), ("age", &bytes[..]), "{text}");
            }
            for at in 0..text.len() {
                let mut changed = text.clone().into_bytes();
                changed[at] = if changed[at] == b'q' { b'p' } else { b'q' };
                let changed = String::from_utf8(changed).unwrap();
                assert_eq!(decode(&changed), None, "{changed}");
            }
        }
    }

    #[test]
    fn what_the_standard_gives_as_good_and_bad_is_so() {
        for good in ["A12UEL5L", "abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw", "?1ezyfcl"] {
            assert!(decode(good).is_some(), "{good}");
        }
        for bad in ["", "1", "pzry9x0s0muk", "1pzry9x0s0muk", "li1dgmt3", "A1G7SGD8", "10a06t8", "1qzzfhee", "a12UEL5L"]
        {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
