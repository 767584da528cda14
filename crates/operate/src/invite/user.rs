//! Users: where they are at home, and an invite for a machine of theirs.

use std::collections::BTreeSet;

use identity::principal::glob::NameGlob;
use identity::principal::{Name, NodeName, Principal};
use identity::time::Seconds;
use org::invite::code::InviteCode;
use org::invite::{Approval, Invite, Uses};
use org::state::Standing;

use crate::invite::kinds::InviteTerms;
use crate::invite::line::{self, Kit};
use crate::invite::{InviteWish, create};
use crate::key::SignerKeys;
use crate::node;
use crate::session::{Made, Result, Session, Unwise, maps};

/// What a user's machine joins with.
#[derive(Debug)]
pub struct MachineInvite {
    pub invite: Invite,
    pub code: InviteCode,
    pub kit: Option<Kit>,
}

/// Nothing if the machine is a member already.
pub async fn invite_machine(
    session: &mut Session,
    keys: &SignerKeys,
    user: &Name,
    machine: &NodeName,
    ttl: Seconds,
) -> Result<Option<Made<MachineInvite>>> {
    let nodes = node::all(session).await?;
    if nodes.iter().any(|node| node.name == *machine && node.state != Standing::Revoked) {
        return Ok(None);
    }
    let only: NameGlob = machine.as_str().parse().map_err(|_| Unwise::NoInviteFor(machine.clone()))?;
    let kit = line::kit(session).await?;
    let wish = InviteWish {
        label: format!("the machine of {user}"),
        uses: Uses::Limited(1),
        ttl,
        names: vec![only],
        networks: Vec::new(),
        labels: BTreeSet::new(),
        roles: BTreeSet::new(),
        terms: InviteTerms::default(),
        at: Vec::new(),
        files: kit.iter().flat_map(Kit::files).collect(),
        approval: Approval::None,
        approvers: 1,
    };
    let made = create(session, keys, &wish).await?;
    Ok(Some(made.map(|(invite, code)| MachineInvite { invite, code, kit })))
}

/// The machines that may speak for a user, as people read them: by what is published, and by what the head places.
pub async fn homes(session: &mut Session, user: &Name) -> Result<Vec<String>> {
    let principal = Principal::user(&session.known.founding.record.name, user);
    let published = maps::published(session).await?;
    let mut homes = published.as_ref().map(|published| published.homes_of(user)).unwrap_or_default();
    let placed = session.known.head.head.placements.iter().filter(|place| place.principal == principal);
    homes.extend(placed.map(|place| format!("`{}`", place.node)));
    Ok(homes)
}
