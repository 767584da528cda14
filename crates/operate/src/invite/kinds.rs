//! What a joiner must show, by the kind of invite: keys are drawn, and what would be unwise is refused.

use ground::random;
use identity::id::{InviteId, OrgId};
use identity::key::{PublicKey, Sign as _};
use identity::principal::host::HostGlob;
use identity::time::Seconds;
use manifest::fleet::ROLE_OPERATOR;
use org::invite::InviteKind;
use org::invite::code::{InviteSecret, InviteSeed, Ticket};

use super::InviteWish;
use crate::session::OperateError;

/// What is asked of whoever comes, beside the bounds that every invite has.
#[derive(Debug, Clone)]
pub struct Terms {
    pub kind: Kind,
    /// Full host names, of which the joiner must claim one that fits.
    pub hosts: Vec<HostGlob>,
}

/// A kind of invite, with what it needs to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Token,
    Key,
    Pattern,
    Bundle,
    /// For the machine that has this node key.
    Machine(PublicKey),
}

impl Default for Terms {
    fn default() -> Self {
        Self { kind: Kind::Token, hosts: Vec::new() }
    }
}

impl Terms {
    pub fn of(kind: Kind) -> Self {
        Self { kind, ..Self::default() }
    }
}

/// A person who must say yes may be asleep.
pub const TTL: Seconds = Seconds::HOUR;
pub const TTL_WITH_A_PERSON: Seconds = Seconds::DAY;

impl Kind {
    pub const fn of_invite(self) -> InviteKind {
        match self {
            Self::Token => InviteKind::Token,
            Self::Key => InviteKind::Key,
            Self::Pattern => InviteKind::Pattern,
            Self::Bundle => InviteKind::Bundle,
            Self::Machine(_) => InviteKind::Machine,
        }
    }

    /// The key that proves the invite, if one does, and what the joiner is handed.
    pub(super) fn draw(self, org: OrgId, invite: InviteId) -> Result<(Option<PublicKey>, Ticket), OperateError> {
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

impl InviteWish {
    /// Why such an invite had better not be made, if so.
    pub(super) fn check_kind(&self) -> Result<(), OperateError> {
        let unwise = |why: String| Err(OperateError::Unwise(why));
        let terms = &self.terms;
        if terms.kind != Kind::Pattern {
            return Ok(());
        }
        if self.networks.is_empty() {
            return unwise(
                "a pattern says from which networks: --from CIDR; if really anywhere, type --from 0.0.0.0/0 --from ::/0"
                    .to_owned(),
            );
        }
        if terms.hosts.is_empty() && self.names.iter().any(identity::principal::glob::NameGlob::is_any) {
            return unwise("a pattern that fits any name lets in whoever asks".to_owned());
        }
        if self.roles.iter().any(|role| role.as_str() == ROLE_OPERATOR) {
            return unwise(format!(
                "a pattern cannot give the role `{ROLE_OPERATOR}`: whoever claims such a name, which proves nothing, would \
                 run the org"
            ));
        }
        Ok(())
    }
}
