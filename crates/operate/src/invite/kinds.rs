//! What a joiner must show, by the kind of invite, and the keys that prove it.

use ground::random::{self, NoRandomness};
use identity::id::{InviteId, OrgId};
use identity::key::{PublicKey, Sign as _};
use identity::principal::host::HostGlob;
use identity::time::Seconds;
use org::invite::InviteKind;
use org::invite::code::{InviteSecret, InviteSeed, Ticket};

/// What is asked of whoever comes, beside the bounds that every invite has.
#[derive(Debug, Clone)]
pub struct InviteTerms {
    pub kind: InviteChoice,
    /// Full host names, of which the joiner must claim one that fits.
    pub hosts: Vec<HostGlob>,
}

/// A kind of invite, with what it needs to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InviteChoice {
    Token,
    Key,
    Pattern,
    Bundle,
    /// For the machine that has this node key.
    Machine(PublicKey),
}

impl Default for InviteTerms {
    fn default() -> Self {
        Self { kind: InviteChoice::Token, hosts: Vec::new() }
    }
}

impl InviteTerms {
    /// As the choice says; whoever must claim a host name is told so by the code.
    pub(super) fn draw(&self, org: OrgId, invite: InviteId) -> Result<(Option<PublicKey>, Ticket), NoRandomness> {
        let (key, ticket) = self.kind.draw(org, invite)?;
        let ticket = match ticket {
            Ticket::Token { invite, secret } if !self.hosts.is_empty() => Ticket::HostToken { invite, secret },
            ticket => ticket,
        };
        Ok((key, ticket))
    }

    pub fn of(kind: InviteChoice) -> Self {
        Self { kind, ..Self::default() }
    }
}

/// A person who must say yes may be asleep.
pub const TTL: Seconds = Seconds::HOUR;
pub const TTL_WITH_A_PERSON: Seconds = Seconds::DAY;

impl InviteChoice {
    pub(crate) const fn of_invite(self) -> InviteKind {
        match self {
            Self::Token => InviteKind::Token,
            Self::Key => InviteKind::Key,
            Self::Pattern => InviteKind::Pattern,
            Self::Bundle => InviteKind::Bundle,
            Self::Machine(_) => InviteKind::Machine,
        }
    }

    /// The key that proves the invite, if one does, and what the joiner is handed.
    fn draw(self, org: OrgId, invite: InviteId) -> Result<(Option<PublicKey>, Ticket), NoRandomness> {
        Ok(match self {
            Self::Token => {
                let secret = InviteSecret::new(random::bytes()?);
                (Some(secret.key(org, invite).public()), Ticket::Token { invite, secret })
            }
            Self::Key | Self::Bundle => {
                let seed = InviteSeed::new(random::bytes()?);
                (Some(seed.key().public()), Ticket::Key { invite, seed })
            }
            Self::Pattern => (None, Ticket::Pattern),
            Self::Machine(node_key) => (Some(node_key), Ticket::Machine { invite }),
        })
    }
}
