//! The invite code: everything that a machine must know to join, in one line of text. Holds a secret.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::hkdf;
use identity::id::{Digest, Fingerprint, InviteId, OrgId, sha256};
use identity::key::EdKey;
use identity::principal::{Address, OrgName};
use identity::signers::SignersRef;
use identity::text::{base64url, from_base64url};
use zeroize::Zeroizing;

use crate::invite::admission::ClaimAuthority;

const PREFIX: &str = "fh1_";
/// Room for as many gateways as a code may name, each under the longest name that there is.
const MAX_CODE: usize = 6 << 10;
const MAX_GATEWAYS: usize = 16;

/// The 128-bit secret of a token invite. It never travels: only keys derived from it sign.
#[derive(Clone)]
pub struct InviteSecret(Zeroizing<[u8; 16]>);

impl InviteSecret {
    pub fn new(bytes: [u8; 16]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The invite's key pair, bound to one org and one invite.
    pub fn key(&self, org: OrgId, invite: InviteId) -> EdKey {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"freehold invite v1");
        let prk = salt.extract(&self.0[..]);
        let info: [&[u8]; 2] = [&org.0, &invite.0];
        let mut seed = Zeroizing::new([0; 32]);
        // Filling 32 bytes from HKDF-SHA256 cannot fail; a zero seed would simply prove nothing.
        if let Ok(okm) = prk.expand(&info, hkdf::HKDF_SHA256) {
            let _ = okm.fill(&mut seed[..]);
        }
        EdKey::from_seed(&seed)
    }
}

impl fmt::Debug for InviteSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InviteSecret(hidden)")
    }
}

#[derive(Debug, Clone)]
pub struct InviteCode {
    pub org: OrgId,
    pub name: OrgName,
    /// The joiner refuses a signer chain that does not pass through this, and a head below that.
    pub signers_floor: SignersRef,
    pub head_floor: u64,
    pub endpoint_root: Fingerprint,
    pub gateways: Vec<Address>,
    pub ticket: Ticket,
}

/// What the joiner shows besides its own key.
#[derive(Debug, Clone)]
pub enum Ticket {
    /// A secret from which the invite's key is derived.
    Token { invite: InviteId, secret: InviteSecret },
    /// The same, and the machine says its full host name: the invite asks for one that fits.
    HostToken { invite: InviteId, secret: InviteSecret },
    /// The invite's key itself: a key to be baked into an image, or that of a bundle.
    Key { invite: InviteId, seed: InviteSeed },
    /// Nothing: the invite knows the machine's own key.
    Machine { invite: InviteId },
    /// Nothing, and no invite in particular: some pattern will fit, or none.
    Pattern,
}

/// The seed of an Ed25519 key that proves an invite.
#[derive(Clone)]
pub struct InviteSeed(Zeroizing<[u8; 32]>);

impl InviteSeed {
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    pub fn key(&self) -> EdKey {
        EdKey::from_seed(&self.0)
    }
}

impl fmt::Debug for InviteSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InviteSeed(hidden)")
    }
}

impl Ticket {
    pub const fn invite(&self) -> Option<InviteId> {
        match self {
            Self::Token { invite, .. }
            | Self::HostToken { invite, .. }
            | Self::Key { invite, .. }
            | Self::Machine { invite } => Some(*invite),
            Self::Pattern => None,
        }
    }

    /// By what right the claim is made.
    pub const fn authority(&self) -> ClaimAuthority {
        match self.invite() {
            Some(invite) => ClaimAuthority::Invite(invite),
            None => ClaimAuthority::Pattern,
        }
    }

    /// The key that signs beside the node key.
    pub fn key(&self, org: OrgId) -> Option<EdKey> {
        match self {
            Self::Token { invite, secret } | Self::HostToken { invite, secret } => Some(secret.key(org, *invite)),
            Self::Key { seed, .. } => Some(seed.key()),
            Self::Machine { .. } | Self::Pattern => None,
        }
    }

    /// Codes of version 1 were all tokens.
    const fn version(&self) -> u8 {
        match self {
            Self::Token { .. } => 1,
            Self::HostToken { .. } | Self::Key { .. } | Self::Machine { .. } | Self::Pattern => 2,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Token { invite, secret } => {
                out.extend_from_slice(&invite.0);
                out.extend_from_slice(&secret.0[..]);
            }
            Self::HostToken { invite, secret } => {
                out.push(b'h');
                out.extend_from_slice(&invite.0);
                out.extend_from_slice(&secret.0[..]);
            }
            Self::Key { invite, seed } => {
                out.push(b'k');
                out.extend_from_slice(&invite.0);
                out.extend_from_slice(&seed.0[..]);
            }
            Self::Machine { invite } => {
                out.push(b'm');
                out.extend_from_slice(&invite.0);
            }
            Self::Pattern => out.push(b'p'),
        }
    }

    fn read(version: u8, reader: &mut Reader<'_>) -> Result<Self, BadCode> {
        if version == 1 {
            return Ok(Self::Token { invite: InviteId(reader.take()?), secret: InviteSecret::new(reader.take()?) });
        }
        match reader.take()? {
            [b'h'] => {
                Ok(Self::HostToken { invite: InviteId(reader.take()?), secret: InviteSecret::new(reader.take()?) })
            }
            [b'k'] => Ok(Self::Key { invite: InviteId(reader.take()?), seed: InviteSeed::new(reader.take()?) }),
            [b'm'] => Ok(Self::Machine { invite: InviteId(reader.take()?) }),
            [b'p'] => Ok(Self::Pattern),
            _ => Err(BadCode::Newer),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCode {
    #[error("this is not an invite code: a code begins with `{PREFIX}`")]
    NotACode,
    #[error("the invite code is incomplete or was changed: copy it whole")]
    Damaged,
    #[error("the invite code is of a newer kind: upgrade freehold-node on this machine")]
    Newer,
}

impl InviteCode {
    /// The text to hand over. Wiped by the caller's `Zeroizing`.
    pub fn encode(&self) -> Zeroizing<String> {
        let mut out = self.public();
        self.ticket.write(&mut out);
        let check = sha256(&out);
        out.extend_from_slice(&check[..4]);
        Zeroizing::new(format!("{PREFIX}{}", base64url(&out)))
    }

    /// The text in two: as far as no letter of it says anything of the ticket, and the rest.
    pub fn halves(&self) -> (String, Zeroizing<String>) {
        let text = self.encode();
        // Three bytes are four letters.
        let (public, secret) = text.split_at(PREFIX.len() + self.public().len() / 3 * 4);
        (public.to_owned(), Zeroizing::new(secret.to_owned()))
    }

    /// What everybody may know.
    fn public(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(vec![self.ticket.version()]);
        out.extend_from_slice(&self.org.0);
        push_text(&mut out, self.name.as_str());
        out.extend_from_slice(&self.signers_floor.version.to_be_bytes());
        out.extend_from_slice(&self.signers_floor.id.0);
        out.extend_from_slice(&self.head_floor.to_be_bytes());
        out.extend_from_slice(&self.endpoint_root.0);
        out.push(u8::try_from(self.gateways.len().min(MAX_GATEWAYS)).unwrap_or_default());
        for gateway in self.gateways.iter().take(MAX_GATEWAYS) {
            push_text(&mut out, &gateway.to_string());
        }
        out
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(text.as_bytes());
}

impl FromStr for InviteCode {
    type Err = BadCode;
    fn from_str(text: &str) -> Result<Self, BadCode> {
        let text = text.trim();
        if text.len() > MAX_CODE {
            return Err(BadCode::NotACode);
        }
        let encoded = text.strip_prefix(PREFIX).ok_or(BadCode::NotACode)?;
        let bytes = Zeroizing::new(from_base64url(encoded).map_err(|_| BadCode::Damaged)?);
        let (body, check) = bytes.split_last_chunk::<4>().ok_or(BadCode::Damaged)?;
        if sha256(body).first_chunk::<4>() != Some(check) {
            return Err(BadCode::Damaged);
        }
        let mut reader = Reader(body);
        let [kind @ 1..=2] = reader.take()? else {
            return Err(BadCode::Newer);
        };
        let org = OrgId(reader.take()?);
        let name = reader.text()?.parse().map_err(|_| BadCode::Damaged)?;
        let version = u64::from_be_bytes(reader.take()?);
        let signers_floor = SignersRef { version, id: Digest(reader.take()?) };
        let head_floor = u64::from_be_bytes(reader.take()?);
        let endpoint_root = Fingerprint(reader.take()?);
        let [count] = reader.take()?;
        if usize::from(count) > MAX_GATEWAYS {
            return Err(BadCode::Damaged);
        }
        let gateways = (0..count)
            .map(|_| reader.text()?.parse().map_err(|_| BadCode::Damaged))
            .collect::<Result<Vec<Address>, _>>()?;
        let ticket = Ticket::read(kind, &mut reader)?;
        if !reader.0.is_empty() {
            return Err(BadCode::Damaged);
        }
        Ok(Self { org, name, signers_floor, head_floor, endpoint_root, gateways, ticket })
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], BadCode> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(BadCode::Damaged)?;
        self.0 = rest;
        Ok(*head)
    }

    fn text(&mut self) -> Result<&'a str, BadCode> {
        let [length] = self.take()?;
        let (head, rest) = self.0.split_at_checked(usize::from(length)).ok_or(BadCode::Damaged)?;
        self.0 = rest;
        std::str::from_utf8(head).map_err(|_| BadCode::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use identity::key::Sign as _;

    use super::*;

    fn code() -> InviteCode {
        InviteCode {
            org: OrgId([1; 32]),
            name: "harbor".parse().unwrap(),
            signers_floor: SignersRef { version: 1, id: Digest([1; 32]) },
            head_floor: 7,
            endpoint_root: Fingerprint([2; 32]),
            gateways: vec!["gw.example:7443".parse().unwrap(), "[::1]:7443".parse().unwrap()],
            ticket: Ticket::Token { invite: InviteId([3; 16]), secret: InviteSecret::new([4; 16]) },
        }
    }

    #[test]
    fn a_code_reads_back_as_it_was_written() {
        let read: InviteCode = format!("  {}\n", code().encode().as_str()).parse().unwrap();
        assert_eq!(read.encode(), code().encode());
        assert_eq!(read.gateways, code().gateways);
    }

    #[test]
    fn a_code_with_the_longest_names_and_the_most_gateways_reads_back() {
        let part = "a".repeat(63);
        let host = |n: usize| format!("{part}.{part}.{part}.{}:65535", "b".repeat(n));
        let longest: Address = host(57).parse().unwrap();
        assert_eq!(longest.to_string().len(), usize::from(u8::MAX));
        assert!(host(58).parse::<Address>().is_err(), "it could not be written into a code");
        let full = InviteCode { name: part.parse().unwrap(), gateways: vec![longest; MAX_GATEWAYS], ..code() };
        let read: InviteCode = full.encode().parse().unwrap();
        assert_eq!(read.gateways, full.gateways);
    }

    #[test]
    fn every_kind_of_ticket_reads_back() {
        let (invite, seed) = (InviteId([3; 16]), InviteSeed::new([5; 32]));
        let secret = InviteSecret::new([6; 16]);
        let hosted = Ticket::HostToken { invite, secret };
        let tickets =
            [hosted, Ticket::Key { invite, seed }, Ticket::Machine { invite }, Ticket::Pattern, code().ticket];
        for ticket in tickets {
            let whole = InviteCode { ticket, ..code() };
            let read: InviteCode = whole.encode().parse().unwrap();
            assert_eq!(read.encode(), whole.encode());
            let public = |code: &InviteCode| code.ticket.key(code.org).map(|key| key.public());
            assert_eq!((public(&read), read.ticket.authority()), (public(&whole), whole.ticket.authority()));
        }
    }

    #[test]
    fn the_first_half_of_a_code_is_the_same_whatever_the_secret_and_both_are_the_code() {
        for name in ["harbor", "harbors", "harbour-2"] {
            let with = |byte| {
                let ticket = Ticket::Token { invite: InviteId([byte; 16]), secret: InviteSecret::new([byte; 16]) };
                InviteCode { name: name.parse().unwrap(), ticket, ..code() }
            };
            let [(one, secret), (other, another)] = [with(0), with(255)].map(|code| code.halves());
            assert_eq!((&one, one.clone() + &secret), (&other, with(0).encode().to_string()));
            assert!(secret != another && secret.len() <= 51, "{}", secret.len());
        }
    }

    #[test]
    fn every_truncation_and_every_changed_letter_is_noticed() {
        let text = code().encode();
        for end in 0..text.len() {
            assert!(text[..end].parse::<InviteCode>().is_err(), "cut at {end}");
        }
        for at in PREFIX.len()..text.len() {
            let other = if &text[at..=at] == "A" { "B" } else { "A" };
            let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            assert_eq!(changed.parse::<InviteCode>().err(), Some(BadCode::Damaged), "changed at {at}");
        }
    }

    #[test]
    fn the_derived_key_is_bound_to_org_and_invite() {
        let secret = InviteSecret::new([4; 16]);
        let key = |org, invite| secret.key(OrgId([org; 32]), InviteId([invite; 16])).public();
        assert_eq!(key(1, 1), key(1, 1));
        assert_ne!(key(1, 1), key(2, 1));
        assert_ne!(key(1, 1), key(1, 2));
        assert!(!format!("{:?}", code()).contains("04"), "a secret must not be printed");
    }
}
