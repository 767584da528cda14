//! Envelopes as a text in which nothing is in base64 and nothing is signed, so that a mutation changes what is inside
//! and the signatures still hold.
//!
//! Parts are separated by a line `%`. The first line of a part is its kind and who signs it; the rest is the payload,
//! in which `"@N"` stands for the envelope that part N became, and `"#N"` for its digest.

use identity::envelope::{Envelope, Payload};
use identity::id::OrgId;
use identity::text::base64;

use crate::cast;

const SEPARATOR: &[u8] = b"\n%\n";
const MOST_PARTS: usize = 10;
const LARGEST_PART: usize = 128 << 10;

#[derive(Debug)]
pub struct Part {
    pub kind: String,
    pub payload: Vec<u8>,
    pub envelope: Envelope,
}

/// Nothing if the text is not of this form: such inputs are not worth keeping.
pub fn read(data: &[u8]) -> Option<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    for raw in split(data) {
        let end = raw.iter().position(|byte| *byte == b'\n')?;
        let (first, rest) = (std::str::from_utf8(&raw[..end]).ok()?, &raw[end + 1..]);
        let mut words = first.split(' ');
        let kind = words.next()?.to_owned();
        let payload = fill(rest, &parts)?;
        let json = serde_json::json!({
            "payloadType": format!("application/vnd.freehold.{kind}+json"),
            "payload": base64(&payload),
            "signatures": [],
        });
        let mut envelope: Envelope = serde_json::from_value(json).ok()?;
        for name in words.take(4) {
            envelope.sign(&*cast::key(name)?).expect("our own keys sign");
        }
        parts.push(Part { kind, payload, envelope });
    }
    Some(parts)
}

/// The last part of a kind.
pub fn last<'a>(parts: &'a [Part], kind: &str) -> Option<&'a Part> {
    parts.iter().rev().find(|part| part.kind == kind)
}

fn split(data: &[u8]) -> Vec<&[u8]> {
    let (mut out, mut rest) = (Vec::new(), data);
    while let Some(at) = rest.windows(SEPARATOR.len()).position(|window| window == SEPARATOR) {
        out.push(&rest[..at]);
        rest = &rest[at + SEPARATOR.len()..];
        if out.len() == MOST_PARTS - 1 {
            break;
        }
    }
    out.push(rest);
    out
}

fn fill(text: &[u8], parts: &[Part]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match text_of(byte, after, parts) {
            Some(filled) => {
                out.extend_from_slice(&filled);
                rest = &after[3..];
            }
            None => out.push(*byte),
        }
        if out.len() > LARGEST_PART {
            return None;
        }
    }
    Some(out)
}

fn text_of(byte: &u8, after: &[u8], parts: &[Part]) -> Option<Vec<u8>> {
    match (byte, after) {
        (b'"', [form @ (b'@' | b'#'), digit @ b'0'..=b'9', b'"', ..]) => {
            let envelope = &parts.get(usize::from(digit - b'0'))?.envelope;
            match form {
                b'@' => serde_json::to_vec(envelope).ok(),
                _ => serde_json::to_vec(&envelope.digest()).ok(),
            }
        }
        _ => None,
    }
}

/// Writes such a text: for seeds.
#[derive(Debug, Default)]
pub struct Text(Vec<String>);

impl Text {
    /// Adds a part; gives its number. `names` are pairs of what stands in the payload and what is written for it.
    pub fn add<T: Payload>(
        &mut self,
        org: Option<OrgId>,
        body: &T,
        signers: &str,
        names: &[(String, String)],
    ) -> usize {
        let envelope = Envelope::seal(org, body).expect("our own objects can be sealed");
        let mut payload = String::from_utf8(payload_of(&envelope)).expect("JSON is text");
        for (value, name) in names {
            payload = payload.replace(value, name);
        }
        self.add_raw(&format!("{} {signers}", T::KIND), &payload)
    }

    pub fn add_raw(&mut self, first: &str, payload: &str) -> usize {
        self.0.push(format!("{}\n{payload}", first.trim_end()));
        self.0.len() - 1
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.0.join("\n%\n").into_bytes()
    }
}

/// How an envelope stands inside another one's payload, and the sign for part `n`.
pub fn name_of(envelope: &Envelope, n: usize) -> (String, String) {
    (serde_json::to_string(envelope).expect("an envelope is JSON"), format!("\"@{n}\""))
}

/// How a digest stands in a payload, and the sign for that of part `n`.
pub fn digest_of(envelope: &Envelope, n: usize) -> (String, String) {
    (format!("\"{}\"", envelope.digest()), format!("\"#{n}\""))
}

pub fn payload_of(envelope: &Envelope) -> Vec<u8> {
    let json = serde_json::to_value(envelope).expect("an envelope is JSON");
    let text = json["payload"].as_str().expect("a payload is text");
    identity::text::from_base64(text).expect("a payload is base64")
}
