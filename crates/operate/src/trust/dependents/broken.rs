//! What would break by a step of trust, and by which name people let it.

use std::collections::BTreeSet;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DependentKind {
    Gateway,
    Node,
    /// A node's own certificate.
    Certificate,
    Service,
    User,
    /// A machine that waits for a person.
    Waiting,
    Invite,
    BundleFile,
    Image,
}

impl DependentKind {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Node => "node",
            Self::Certificate => "certificate",
            Self::Service => "service",
            Self::User => "user",
            Self::Waiting => "waiting machine",
            Self::Invite => "invite",
            Self::BundleFile => "bundle file",
            Self::Image => "image",
        }
    }

    /// Does the ledger alone say whether it breaks?
    pub(super) const fn is_in_ledger(self) -> bool {
        match self {
            Self::Invite | Self::BundleFile | Self::Image => true,
            Self::Gateway | Self::Node | Self::Certificate | Self::Service | Self::User | Self::Waiting => false,
        }
    }

    /// What can be done about it before the step.
    pub const fn cure(self) -> &'static str {
        match self {
            Self::Gateway => "start it; if it is gone, remove it: freehold gateway remove NAME",
            Self::Node => "start it and wait; if it is gone, revoke it: freehold node revoke NAME",
            Self::Certificate | Self::Service | Self::User => {
                "its agent gets a new one by itself: start it and wait, or wait until this one has ended"
            }
            Self::Waiting => "decide about it: freehold node waiting",
            Self::Invite | Self::BundleFile | Self::Image => {
                "make a new one, and revoke this: freehold invite revoke ID; or wait until it has ended"
            }
        }
    }
}

/// Something that would break.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Break {
    pub kind: DependentKind,
    /// What it is waived by.
    pub name: String,
    pub why: String,
}

impl Break {
    /// As it stands in the ledger, if it was let break.
    pub fn in_words(&self) -> String {
        let name = match self.kind {
            DependentKind::Gateway | DependentKind::Waiting => self.name.rsplit('/').next().unwrap_or_default(),
            _ => &self.name,
        };
        format!("{} {name}", self.kind.word())
    }

    /// The beginning of an id is enough, as far as people copy it.
    pub(super) fn begins(&self, name: &str) -> bool {
        let id = matches!(self.kind, DependentKind::Invite | DependentKind::BundleFile | DependentKind::Image);
        id && name.len() >= 8 && self.name.starts_with(name)
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        let of = |kind: &str| name.strip_prefix(kind).is_some_and(|name| name == self.name);
        self.name == name
            || match self.kind {
                DependentKind::Gateway => of(GATEWAY),
                DependentKind::Waiting => of(WAITING),
                DependentKind::Node | DependentKind::Certificate => of(NODE),
                DependentKind::Service
                | DependentKind::User
                | DependentKind::Invite
                | DependentKind::BundleFile
                | DependentKind::Image => self.begins(name),
            }
    }
}

const GATEWAY: &str = "gateway/";
const WAITING: &str = "waiting/";
const NODE: &str = "node/";

/// One name must not waive two things: a plain one is the node's and its certificate's, if they are among these.
pub(super) fn tell_apart(breaks: &mut [Break]) {
    let named = |breaks: &[Break], kinds: &[DependentKind]| -> BTreeSet<String> {
        breaks.iter().filter(|it| kinds.contains(&it.kind)).map(|it| it.name.clone()).collect()
    };
    let nodes = named(breaks, &[DependentKind::Node, DependentKind::Certificate]);
    let (gateways, waiting) = (named(breaks, &[DependentKind::Gateway]), named(breaks, &[DependentKind::Waiting]));
    for it in breaks {
        match it.kind {
            DependentKind::Gateway if nodes.contains(&it.name) || waiting.contains(&it.name) => {
                it.name.insert_str(0, GATEWAY);
            }
            DependentKind::Waiting if nodes.contains(&it.name) || gateways.contains(&it.name) => {
                it.name.insert_str(0, WAITING);
            }
            _ => {}
        }
    }
}
