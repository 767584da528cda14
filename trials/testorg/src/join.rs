//! An invite, and what a machine claims that comes with it.

use std::collections::BTreeSet;

use identity::id::InviteId;
use identity::key::PublicKey;
use identity::time::Seconds;
use org::invite::admission::{Claim, ClaimAuthority, SealKey};
use org::invite::{Approval, Invite, InviteKind};

use crate::NOW;
use crate::keys::node;

/// Good for a day, for no name and at no gateway.
pub fn invite(id: InviteId, key: PublicKey) -> Invite {
    Invite {
        id,
        label: String::new(),
        signers: 1,
        kind: InviteKind::Token,
        key: Some(key),
        rights: Vec::new(),
        created_at: NOW,
        expires_at: NOW + Seconds::DAY,
        names: Vec::new(),
        hosts: Vec::new(),
        networks: Vec::new(),
        labels: BTreeSet::new(),
        roles: BTreeSet::new(),
        approval: Approval::None,
        approvers: 1,
        files: BTreeSet::new(),
        root: None,
    }
}

pub fn claim(authority: ClaimAuthority, node_key: PublicKey, name: &str) -> Claim {
    Claim {
        authority,
        node_key,
        seal_key: SealKey([0; 32]),
        name: node(name),
        labels: BTreeSet::new(),
        roles: BTreeSet::new(),
        host: None,
        replaces: None,
        until: None,
    }
}
