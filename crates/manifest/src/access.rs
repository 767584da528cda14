//! May she, and why (RBAC): answers from the fleet itself, not from the tables that are compiled from it.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use identity::principal::{Name, NodeName, OrgName, PrincipalKind};
use identity::time::Seconds;
use serde::{Serialize, Serializer};

use crate::fleet::{At, Fleet, ROLE_NODE, StaleSpec};

/// Whom a question is about: `alice`, `alice@laptop`, `user/alice`, `node/web-7`, `class/web`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// Of a full SPIFFE id.
    org: Option<String>,
    kind: Option<String>,
    name: String,
    at: Option<NodeName>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAccessQuestion {
    #[error("`{0}` is not a user, service, node or class: write NAME, NAME@NODE or KIND/NAME")]
    NotWho(String),
    #[error("this is the fleet of `{fleet}`, not of `{org}`")]
    OtherOrg { org: String, fleet: OrgName },
    #[error("the fleet has no user, service, node or class `{0}`")]
    NoSuch(String),
    #[error("the fleet has no service `{0}`")]
    NoService(Name),
}

impl FromStr for Who {
    type Err = BadAccessQuestion;
    fn from_str(text: &str) -> Result<Self, BadAccessQuestion> {
        let bad = || BadAccessQuestion::NotWho(text.chars().take(200).collect());
        let (who, at) = match text.split_once('@') {
            Some((who, at)) => (who, Some(at.parse().map_err(|_| bad())?)),
            None => (text, None),
        };
        let (org, who) = match who.strip_prefix("spiffe://") {
            Some(rest) => rest.split_once('/').map(|(org, who)| (Some(org.to_owned()), who)).ok_or_else(bad)?,
            None => (None, who),
        };
        let (kind, name) = match who.split_once('/') {
            Some((kind @ ("user" | "service" | "node" | "class"), name)) => (Some(kind.to_owned()), name),
            Some(_) => return Err(bad()),
            None => (None, who),
        };
        let name: Name = name.parse().map_err(|_| bad())?;
        Ok(Self { org, kind, name: name.to_string(), at })
    }
}

impl Who {
    /// Names are unique across kinds, so that a bare one means one thing. A node need not be declared.
    fn find(&self, fleet: &Fleet) -> Result<Subject, BadAccessQuestion> {
        if let Some(org) = self.org.as_ref().filter(|org| *org != fleet.org.name.as_str()) {
            return Err(BadAccessQuestion::OtherOrg { org: org.clone(), fleet: fleet.org.name.clone() });
        }
        let is = |kind: PrincipalKind| self.kind.as_deref().is_none_or(|given| given == kind.word());
        let no_such = || BadAccessQuestion::NoSuch(self.name.clone());
        let name: Name = self.name.parse().map_err(|_| no_such())?;
        let node: NodeName = self.name.parse().map_err(|_| no_such())?;
        if is(PrincipalKind::User) && fleet.users.contains_key(&name) {
            return Ok(Subject::User(name));
        }
        if is(PrincipalKind::Service) && fleet.services.contains_key(&name) {
            return Ok(Subject::Service(name));
        }
        if self.kind.as_deref().is_none_or(|given| given == "class") && fleet.classes.contains_key(&name) {
            return Ok(Subject::Class(name));
        }
        let known = fleet.nodes.contains_key(&node) || classes_of(fleet, &node).next().is_some();
        match self.kind.as_deref() {
            Some("node") => Ok(Subject::Node(node)),
            None if known => Ok(Subject::Node(node)),
            _ => Err(no_such()),
        }
    }
}

/// Somebody who may call something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    User(Name),
    Service(Name),
    Node(NodeName),
    /// Every node of it.
    Class(Name),
    EveryNode,
}

impl Subject {
    fn words(&self) -> String {
        match self {
            Self::User(name) => format!("user `{name}`"),
            Self::Service(name) => format!("service `{name}`"),
            Self::Node(name) => format!("node `{name}`"),
            Self::Class(name) => format!("class `{name}`"),
            Self::EveryNode => "every node".to_owned(),
        }
    }
}

/// As one types it.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user/{name}"),
            Self::Service(name) => write!(f, "service/{name}"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Class(name) => write!(f, "class/{name}"),
            Self::EveryNode => f.write_str("every node"),
        }
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccessAnswer {
    pub who: Subject,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<NodeName>,
    pub what: Name,
    pub allowed: bool,
    /// Every way that leads there; or what is missing.
    pub why: Vec<AccessStep>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum AccessStep {
    /// One way by which it is allowed.
    Way {
        who: Subject,
        through_class: Option<Name>,
        role: String,
        group: Name,
        service: Name,
    },
    /// From where.
    AtHome {
        who: Subject,
        places: Vec<String>,
    },
    NotAtHome {
        who: Subject,
        node: Option<NodeName>,
        places: Vec<String>,
    },
    /// With a head that is past its time by more than the margin, it is over.
    UntilStale {
        who: Subject,
        role: String,
        margin: Seconds,
    },
    NoRole {
        who: Subject,
    },
    NoGroup {
        service: Name,
    },
    NoWay {
        who: Subject,
        roles: Vec<String>,
        service: Name,
        groups: Vec<Name>,
    },
}

impl fmt::Display for AccessStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Way { who, through_class, role, group, service } => {
                match through_class {
                    Some(class) => write!(f, "{} is in class `{class}`, which has role `{role}`", who.words())?,
                    None => write!(f, "{} has role `{role}`", who.words())?,
                }
                write!(f, "; `{role}` allows group `{group}`; service `{service}` is in `{group}`")
            }
            Self::AtHome { who, places } => write!(f, "{} is at home on {}", who.words(), places.join(", ")),
            Self::NotAtHome { who, node: Some(node), places } if !places.is_empty() => {
                write!(f, "{} is not at home on `{node}`, only on {}", who.words(), places.join(", "))
            }
            Self::NotAtHome { who, .. } => write!(f, "{} is at home on no node", who.words()),
            Self::UntilStale { who, role, margin } => {
                write!(
                    f,
                    "{} has role `{role}`, which opens nothing new on a head that is stale for {margin}",
                    who.words()
                )
            }
            Self::NoRole { who } => write!(f, "{} has no role", who.words()),
            Self::NoGroup { service } => write!(f, "service `{service}` is in no group, so nobody may call it"),
            Self::NoWay { who, roles, service, groups } => write!(
                f,
                "none of the roles of {} ({}) allows a group of service `{service}` ({})",
                who.words(),
                ticked(roles),
                ticked(groups)
            ),
        }
    }
}

fn ticked(names: &[impl fmt::Display]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// May they call it? With a node: from there; without: from anywhere.
pub fn may(fleet: &Fleet, who: &Who, what: &Name) -> Result<AccessAnswer, BadAccessQuestion> {
    let subject = who.find(fleet)?;
    let service = fleet.services.get(what).ok_or_else(|| BadAccessQuestion::NoService(what.clone()))?;
    let roles = roles_of(fleet, &subject);
    let ways = roles.iter().flat_map(|binding| {
        binding.groups.intersection(&service.groups).map(|group| AccessStep::Way {
            who: subject.clone(),
            through_class: binding.through.cloned(),
            role: binding.role.to_owned(),
            group: group.clone(),
            service: what.clone(),
        })
    });
    let mut why: Vec<AccessStep> = ways.collect();
    let has_way = !why.is_empty();
    if !has_way {
        why.push(missing(&subject, &roles, what, &service.groups));
    }
    let place = home(fleet, &subject, who.at.as_ref());
    let is_there = !matches!(place, Some(AccessStep::NotAtHome { .. }));
    let allowed = has_way && is_there;
    why.extend(place.filter(|_| allowed || !is_there));
    if let Some(stale) = fleet.org.stale.as_ref().filter(|_| allowed) {
        why.extend(shut_out(&subject, &roles, stale));
    }
    Ok(AccessAnswer { who: subject, at: who.at.clone(), what: what.clone(), allowed, why })
}

/// The role, if any, by which a stale head ends it.
fn shut_out(who: &Subject, roles: &[RoleBinding<'_>], stale: &StaleSpec) -> Option<AccessStep> {
    let named = |role: &str| match role {
        ROLE_NODE => stale.every_node,
        role => stale.roles.iter().any(|name| name.as_str() == role),
    };
    let binding = roles.iter().find(|binding| named(binding.role))?;
    Some(AccessStep::UntilStale { who: who.clone(), role: binding.role.to_owned(), margin: stale.margin })
}

fn missing(who: &Subject, roles: &[RoleBinding<'_>], service: &Name, groups: &BTreeSet<Name>) -> AccessStep {
    if groups.is_empty() {
        return AccessStep::NoGroup { service: service.clone() };
    }
    if roles.is_empty() {
        return AccessStep::NoRole { who: who.clone() };
    }
    let roles: BTreeSet<String> = roles.iter().map(|binding| binding.role.to_owned()).collect();
    let (roles, groups) = (roles.into_iter().collect(), groups.iter().cloned().collect());
    AccessStep::NoWay { who: who.clone(), roles, service: service.clone(), groups }
}

/// A role that somebody has, and what it allows.
struct RoleBinding<'a> {
    role: &'a str,
    groups: &'a BTreeSet<Name>,
    through: Option<&'a Name>,
}

fn roles_of<'a>(fleet: &'a Fleet, who: &Subject) -> Vec<RoleBinding<'a>> {
    let held = |roles: &'a BTreeSet<Name>, through: Option<&'a Name>| {
        let known = roles.iter().filter_map(|role| Some((role, fleet.roles.get(role)?)));
        known.map(move |(role, groups)| RoleBinding { role: role.as_str(), groups, through }).collect::<Vec<_>>()
    };
    let everyone = || RoleBinding { role: ROLE_NODE, groups: &fleet.every_node, through: None };
    match who {
        Subject::User(name) => fleet.users.get(name).map(|user| held(&user.roles, None)).unwrap_or_default(),
        Subject::Service(name) => fleet.services.get(name).map(|it| held(&it.roles, None)).unwrap_or_default(),
        Subject::Class(name) => {
            let own = fleet.classes.get(name).map(|class| held(&class.like.roles, None)).unwrap_or_default();
            own.into_iter().chain([everyone()]).collect()
        }
        Subject::Node(name) => {
            let own = fleet.nodes.get(name).map(|node| held(&node.roles, None)).unwrap_or_default();
            let shared = classes_of(fleet, name);
            let shared = shared.filter_map(|class| Some((class, fleet.classes.get(class)?)));
            let shared = shared.flat_map(|(name, class)| held(&class.like.roles, Some(name)));
            own.into_iter().chain(shared).chain([everyone()]).collect()
        }
        Subject::EveryNode => vec![everyone()],
    }
}

/// Where they are at home, or that they are not there. Nodes speak for themselves, from where they are.
fn home(fleet: &Fleet, who: &Subject, at: Option<&NodeName>) -> Option<AccessStep> {
    let places: &[At] = match who {
        Subject::User(name) => fleet.users.get(name).map(|user| user.nodes.as_slice()).unwrap_or_default(),
        Subject::Service(name) => fleet.services.get(name).map(|it| it.at.as_slice()).unwrap_or_default(),
        Subject::Node(name) => {
            let elsewhere = at.filter(|at| *at != name)?;
            let places = vec![format!("`{name}`")];
            return Some(AccessStep::NotAtHome { who: who.clone(), node: Some(elsewhere.clone()), places });
        }
        Subject::Class(_) | Subject::EveryNode => return None,
    };
    let covers = |place: &&At| match (place, at) {
        (_, None) => true,
        (At::Node(node), Some(at)) => node == at,
        (At::Class(class), Some(at)) => classes_of(fleet, at).any(|covering| covering == class),
    };
    let words = |place: &At| match place {
        At::Node(node) => format!("`{node}`"),
        At::Class(class) => format!("class `{class}`"),
    };
    let here: Vec<String> = places.iter().filter(covers).map(words).collect();
    let who = who.clone();
    if here.is_empty() {
        return Some(AccessStep::NotAtHome { who, node: at.cloned(), places: places.iter().map(words).collect() });
    }
    Some(AccessStep::AtHome { who, places: here })
}

fn classes_of<'a>(fleet: &'a Fleet, node: &NodeName) -> impl Iterator<Item = &'a Name> {
    let covering =
        move |names: &[identity::principal::glob::NameGlob]| names.iter().any(|glob| glob.matches(node.as_str()));
    let classes: Vec<&Name> =
        fleet.classes.iter().filter(|(_, class)| covering(&class.names)).map(|(name, _)| name).collect();
    classes.into_iter()
}

/// Who may call what, everybody and everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Matrix {
    pub services: Vec<Name>,
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub who: Subject,
    pub may_call: BTreeSet<Name>,
}

/// Nodes and classes have a row if they may more than every node may.
pub fn matrix(fleet: &Fleet) -> Matrix {
    let users = fleet.users.keys().cloned().map(Subject::User);
    let services = fleet.services.keys().cloned().map(Subject::Service);
    let nodes = fleet.nodes.iter().filter(|(_, node)| !node.roles.is_empty());
    let nodes = nodes.map(|(name, _)| Subject::Node(name.clone()));
    let classes = fleet.classes.iter().filter(|(_, class)| !class.like.roles.is_empty());
    let classes = classes.map(|(name, _)| Subject::Class(name.clone()));
    let every = (!fleet.every_node.is_empty()).then_some(Subject::EveryNode);
    let row = |who: Subject| {
        let homeless = matches!(home(fleet, &who, None), Some(AccessStep::NotAtHome { .. }));
        let groups: BTreeSet<&Name> = roles_of(fleet, &who).iter().flat_map(|binding| binding.groups).collect();
        let reached = |groups_of: &BTreeSet<Name>| !homeless && groups_of.iter().any(|group| groups.contains(group));
        let may_call = fleet.services.iter().filter(|(_, it)| reached(&it.groups)).map(|(name, _)| name.clone());
        Row { may_call: may_call.collect(), who }
    };
    let rows = users.chain(services).chain(nodes).chain(classes).chain(every).map(row).collect();
    Matrix { services: fleet.services.keys().cloned().collect(), rows }
}

const YES: &str = "yes";

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.rows.iter().map(|row| row.who.to_string().len()).max().unwrap_or(0);
        let line = |who: &str, cell: &dyn Fn(&Name) -> String| {
            let mut line = format!("{who:first$}");
            for service in &self.services {
                // A name may be shorter than what stands below it.
                let _ = write!(line, "  {:width$}", cell(service), width = service.as_str().len().max(YES.len()));
            }
            line.trim_end().to_owned()
        };
        f.write_str(&line("", &ToString::to_string))?;
        for row in &self.rows {
            let mark = |service: &Name| if row.may_call.contains(service) { YES } else { "." }.to_owned();
            write!(f, "\n{}", line(&row.who.to_string(), &mark))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
