//! Users: where they are at home, and an invite for a machine of theirs.

use std::collections::BTreeSet;

use identity::head::Head;
use identity::principal::glob::NameGlob;
use identity::principal::{Name, NodeName, OrgName, Principal, PrincipalKind};
use identity::time::Seconds;
use manifest::fleet::Fleet;
use org::invite::code::InviteCode;
use org::invite::{Approval, Invite, Uses};
use org::state::Standing;

use crate::invite::kinds::InviteTerms;
use crate::invite::line::{self, Kit, Start};
use crate::invite::{InviteWish, NewInvite, create};
use crate::key::SignerKeys;
use crate::node;
use crate::replica::published::{PublishedMap, UserHomes};
use crate::session::{Made, Result, Session, Unwise, maps};

/// A user who is not there yet, and the machine on which she is herself.
#[derive(Debug, Clone)]
pub struct NewUser {
    pub name: Name,
    pub machine: NodeName,
    pub roles: Vec<Name>,
}

/// Why there cannot be such a user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUser {
    #[error("a user and a node cannot have one name")]
    NamedLikeMachine,
    #[error("the fleet has a user `{0}` already")]
    Declared(Name),
    #[error("the fleet has no role `{role}`")]
    NoRole { role: Name, there: Vec<Name> },
    #[error("`{0}` was revoked, and a revoked name never returns")]
    Revoked(Principal),
}

impl BadUser {
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NamedLikeMachine | Self::Declared(_) => None,
            Self::NoRole { there, .. } if there.is_empty() => {
                Some("it declares no roles: add one under `roles:`".to_owned())
            }
            Self::NoRole { there, .. } => {
                let there: Vec<_> = there.iter().map(Name::as_str).collect();
                Some(format!("it has: {}", there.join(", ")))
            }
            Self::Revoked(_) => Some("give her another name".to_owned()),
        }
    }
}

impl NewUser {
    /// What the fleet, if there is one, would not take.
    pub fn check(&self, fleet: Option<&Fleet>) -> Result<(), BadUser> {
        if self.name.as_str() == self.machine.as_str() {
            return Err(BadUser::NamedLikeMachine);
        }
        let Some(fleet) = fleet else { return Ok(()) };
        if fleet.users.contains_key(&self.name) {
            return Err(BadUser::Declared(self.name.clone()));
        }
        match self.roles.iter().find(|role| !fleet.roles.contains_key(role)) {
            Some(role) => Err(BadUser::NoRole { role: role.clone(), there: fleet.roles.keys().cloned().collect() }),
            None => Ok(()),
        }
    }

    /// A revoked name never returns.
    pub fn check_name(&self, org: &OrgName, head: &Head) -> Result<(), BadUser> {
        let principal = Principal::user(org, &self.name);
        let revoked = head.revocations.principals.contains(&principal);
        if revoked { Err(BadUser::Revoked(principal)) } else { Ok(()) }
    }

    /// What to add to the fleet.
    pub fn yaml(&self, fleet: Option<&Fleet>) -> String {
        let Self { name, machine, roles } = self;
        let declared = fleet.is_some_and(|fleet| covers(fleet, machine));
        let nodes = if declared { String::new() } else { format!("nodes:\n  {machine}:\n") };
        let roles: Vec<_> = roles.iter().map(Name::as_str).collect();
        let roles = if roles.is_empty() { String::new() } else { format!("    roles: [{}]\n", roles.join(", ")) };
        format!("{nodes}users:\n  {name}:\n{roles}    nodes: {machine}\n")
    }
}

fn covers(fleet: &Fleet, node: &NodeName) -> bool {
    let in_class = fleet.classes.values().any(|class| class.names.iter().any(|glob| glob.matches(node.as_str())));
    fleet.nodes.contains_key(node) || in_class
}

/// What a user's machine joins with.
#[derive(Debug)]
pub struct MachineInvite {
    pub invite: Invite,
    pub code: InviteCode,
    pub kit: Option<Kit>,
    pub start: Option<Start>,
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
        kit,
        after: 0,
        approval: Approval::None,
        approvers: 1,
    };
    let made = create(session, keys, &wish).await?;
    let kit = wish.kit;
    Ok(Some(made.map(|NewInvite { invite, code, start }| MachineInvite { invite, code, kit, start })))
}

/// A user, as she is known now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownUser {
    pub name: Name,
    pub nodes: BTreeSet<NodeName>,
    pub classes: BTreeSet<Name>,
    /// Nobody believes her any more, wherever she still stands.
    pub revoked: bool,
}

/// Whoever is published, whom the head places, and whoever was revoked.
pub async fn all(session: &mut Session) -> Result<Vec<KnownUser>> {
    let published = maps::published(session).await?;
    let mut users = published.as_ref().map(PublishedMap::users).unwrap_or_default();
    let head = session.head();
    let name_of = |principal: &Principal| {
        (principal.kind() == PrincipalKind::User).then(|| principal.name().parse::<Name>().ok()).flatten()
    };
    for place in &head.placements {
        if let Some(name) = name_of(&place.principal) {
            users.entry(name).or_default().nodes.insert(place.node.clone());
        }
    }
    let revoked: BTreeSet<Name> = head.revocations.principals.iter().filter_map(name_of).collect();
    for name in &revoked {
        users.entry(name.clone()).or_default();
    }
    let known =
        |(name, UserHomes { nodes, classes })| KnownUser { revoked: revoked.contains(&name), name, nodes, classes };
    Ok(users.into_iter().map(known).collect())
}

/// The machines that may speak for a user, as people read them: by what is published, and by what the head places.
pub async fn homes(session: &mut Session, user: &Name) -> Result<Vec<String>> {
    let principal = Principal::user(&session.known.founding.record.name, user);
    let published = maps::published(session).await?;
    let mut homes = published.as_ref().map(|published| published.homes_of(user)).unwrap_or_default();
    let placed = session.head().placements.iter().filter(|place| place.principal == principal);
    homes.extend(placed.map(|place| format!("`{}`", place.node)));
    Ok(homes)
}
