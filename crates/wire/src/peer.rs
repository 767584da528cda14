//! The words between the tunnels of two nodes: who is there, what is asked for, and what one knows that the other does not.
//!
//! Both transports carry the same words. On a connection, each side says `Hello` first. Whoever knows a newer head hands it
//! over. Then the caller opens streams, each with `Open`, and the other side answers.

use std::cmp::Reverse;

use identity::envelope::Envelope;
use identity::head::SignedHead;
use identity::id::Digest;
use identity::principal::{Name, NodeName, SignerName};
use identity::time::Timestamp;
use org::member::peer::Presented;
use org::report::plain;
use serde::{Deserialize, Deserializer, Serialize};

pub const SCHEMA: u32 = 1;
/// Agreed on in the handshake, so that nothing else is taken for a tunnel.
pub const ALPN: &[u8] = b"freehold-tunnel/1";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    pub schema: u32,
    /// The newest that are known to the one who speaks.
    pub signers: u64,
    pub head: u64,
    /// Of that head: of two at one place the lower is the newer.
    pub digest: Digest,
    /// The mark of the heads beside it that it keeps; nothing if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rivals: Option<Digest>,
    /// The mark of the suspensions that it knows of; nothing if it knows of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Digest>,
    pub presented: Presented,
}

impl Hello {
    pub const fn knows(&self) -> Knows {
        let Self { signers, head, digest, rivals, suspended, .. } = *self;
        Knows { place: HeadPlace { signers, head, digest: Reverse(digest) }, rivals, suspended }
    }
}

/// What one side of a connection says that it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knows {
    pub place: HeadPlace,
    pub rivals: Option<Digest>,
    pub suspended: Option<Digest>,
}

/// Where a head stands among all: the order is that of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeadPlace {
    pub signers: u64,
    pub head: u64,
    pub digest: Reverse<Digest>,
}

impl HeadPlace {
    pub const fn of(head: &SignedHead) -> Self {
        let (signers, number) = head.head.place();
        Self { signers, head: number, digest: Reverse(head.digest) }
    }
}

impl Knows {
    /// Does the other one know a later head?
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.place < other.place
    }

    /// Has the other one something to tell? Both sides ask this of the same words, so that each knows what the other does.
    pub fn lacks_of(&self, other: &Self) -> bool {
        let lacks = |own: Option<Digest>, theirs: Option<Digest>| theirs.is_some() && theirs != own;
        self.is_older_than(other) || lacks(self.rivals, other.rivals) || lacks(self.suspended, other.suspended)
    }
}

/// What the other side has not heard yet: it believes only the signatures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct News {
    /// The steps to the signers of the head.
    pub signers: Vec<Envelope>,
    /// The head, if it is newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Envelope>,
    /// All heads beside it that take away what it does not, if the other side has others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rivals: Vec<Envelope>,
    /// All suspensions that are known, if the other side has others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspensions: Vec<Envelope>,
}

impl News {
    /// All heads, as if none were to be followed: what they take away counts also if the newest does not hold.
    pub fn beside(&self) -> Vec<Envelope> {
        self.rivals.iter().chain(&self.head).cloned().collect()
    }
}

/// What a connection, or a stream of it, is wanted for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Open {
    /// A service that listens on the asked node.
    Service(Name),
    /// Another node, which waits here for whoever wants it: this node carries the bytes, and cannot read them.
    Through(NodeName),
    /// Nothing yet: the asking node can be reached by others through this connection.
    Wait,
    /// Nothing: heads were exchanged, and the connection is of use.
    Probe,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Opened {
    Yes,
    No(Declined),
}

/// Why not, as the other side is told. What the log says is more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Declined {
    #[error("its access table does not allow it")]
    NotAllowed,
    #[error("it does not believe who is asking: {why}")]
    NotBelieved {
        #[serde(deserialize_with = "plainly")]
        why: String,
    },
    #[error("what was shown is older than what it knows by now")]
    TooOld,
    #[error("its head is past its time, and by then only others may open something new")]
    Stale,
    #[error("`{by}` suspended the machine that asks until {until}")]
    Suspended { by: SignerName, until: Timestamp },
    #[error("the service does not accept connections there")]
    ServiceDown,
    #[error("the service did not answer in time")]
    ServiceSilent,
    #[error("as many streams are open as it allows")]
    TooMany,
    #[error("it carries nothing for others")]
    NoRelay,
    #[error("the wanted node does not wait there")]
    NotWaiting,
    #[error("it is about to stop")]
    Stopping,
}

/// The other side's words go into logs, and before people: they steer nothing, and are short.
fn plainly<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(plain(&String::deserialize(from)?))
}

impl Declined {
    /// Would another connection, with newer papers, help?
    pub const fn wants_new_papers(&self) -> bool {
        matches!(self, Self::TooOld | Self::NotBelieved { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_peer_are_made_plain_when_they_are_read() {
        let why = format!("no\r\n\u{1b}[2J\u{202e}{}", "x".repeat(1_000));
        let said = serde_json::to_vec(&Opened::No(Declined::NotBelieved { why })).unwrap();
        let Opened::No(Declined::NotBelieved { why }) = serde_json::from_slice(&said).unwrap() else {
            panic!("it is another word");
        };
        assert!(why.starts_with("no   [2J xxx"), "{why:?}");
        assert_eq!((why.chars().count(), why.chars().any(char::is_control)), (300, false));
    }
}
