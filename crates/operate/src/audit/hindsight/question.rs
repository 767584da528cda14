//! Who, what: a question about the past, and the names that it can mean.

use std::collections::BTreeSet;
use std::str::FromStr;

use identity::principal::{Name, NodeName, OrgName, Principal, PrincipalKind};
use manifest::source::meant;

/// A question that means nobody, or more than one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadQuestion {
    #[error("`{0}` is not a user, service or node: write NAME, NAME@NODE, KIND/NAME or a SPIFFE id")]
    NotWho(String),
    #[error("`{org}` is another org; this is `{own}`")]
    OtherOrg { org: OrgName, own: OrgName },
    #[error("no {kind} is known by the name `{name}`{}", or_near(near.as_deref()))]
    Unknown { kind: &'static str, name: String, near: Option<String> },
    #[error("`{0}` is the name of more than one: write user/{0}, service/{0} or node/{0}")]
    Several(String),
}

fn or_near(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// As one types it: `alice`, `alice@laptop`, `node/web-7`, `spiffe://harbor/user/alice`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    org: Option<OrgName>,
    kind: Option<PrincipalKind>,
    name: String,
    from: Option<NodeName>,
}

/// A question that names one principal and one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub who: Principal,
    /// From this machine, or from any.
    pub from: Option<NodeName>,
    pub what: Name,
}

/// Names by their kind.
pub type Names = BTreeSet<(PrincipalKind, String)>;

impl FromStr for Asked {
    type Err = BadQuestion;
    fn from_str(text: &str) -> Result<Self, BadQuestion> {
        let bad = || BadQuestion::NotWho(text.chars().take(200).collect());
        let (who, from) = match text.split_once('@') {
            Some((who, at)) => (who, Some(at.parse().map_err(|_| bad())?)),
            None => (text, None),
        };
        if who.starts_with("spiffe://") {
            let principal: Principal = who.parse().map_err(|_| bad())?;
            let (org, name) = (principal.org().clone(), principal.name().to_owned());
            return Ok(Self { org: Some(org), kind: Some(principal.kind()), name, from });
        }
        let (kind, name) = match who.split_once('/') {
            Some(("user", name)) => (Some(PrincipalKind::User), name),
            Some(("service", name)) => (Some(PrincipalKind::Service), name),
            Some(("node", name)) => (Some(PrincipalKind::Node), name),
            Some(_) => return Err(bad()),
            None => (None, who),
        };
        let name: Name = name.parse().map_err(|_| bad())?;
        Ok(Self { org: None, kind, name: name.to_string(), from })
    }
}

impl Asked {
    /// The one principal of that name; names are unique across kinds, within one fleet.
    pub fn find(&self, org: &OrgName, known: &Names) -> Result<Principal, BadQuestion> {
        if let Some(other) = self.org.as_ref().filter(|other| *other != org) {
            return Err(BadQuestion::OtherOrg { org: other.clone(), own: org.clone() });
        }
        let fits = |(kind, name): &&(PrincipalKind, String)| {
            *name == self.name && self.kind.is_none_or(|given| given == *kind)
        };
        let found: Vec<PrincipalKind> = known.iter().filter(fits).map(|(kind, _)| *kind).collect();
        match found.as_slice() {
            [kind] => Ok(principal(org, *kind, &self.name)?),
            [] => {
                let kin = known.iter().filter(|(kind, _)| self.kind.is_none_or(|given| given == *kind));
                Err(BadQuestion::unknown("user, service or node", &self.name, kin.map(|(_, name)| name.as_str())))
            }
            _ => Err(BadQuestion::Several(self.name.clone())),
        }
    }

    pub fn question(&self, org: &OrgName, what: &Name, known: &Names) -> Result<Question, BadQuestion> {
        let who = self.find(org, known)?;
        if !known.contains(&(PrincipalKind::Service, what.to_string())) {
            let services = known.iter().filter(|(kind, _)| *kind == PrincipalKind::Service);
            return Err(BadQuestion::unknown("service", what.as_str(), services.map(|(_, name)| name.as_str())));
        }
        Ok(Question { who, from: self.from.clone(), what: what.clone() })
    }
}

impl BadQuestion {
    fn unknown<'n>(kind: &'static str, name: &str, known: impl Iterator<Item = &'n str>) -> Self {
        let near = meant(name, known).map(ToOwned::to_owned);
        Self::Unknown { kind, name: name.to_owned(), near }
    }
}

fn principal(org: &OrgName, kind: PrincipalKind, name: &str) -> Result<Principal, BadQuestion> {
    let bad = |_| BadQuestion::NotWho(name.to_owned());
    Ok(match kind {
        PrincipalKind::Node => Principal::node(org, &name.parse().map_err(bad)?),
        PrincipalKind::User => Principal::user(org, &name.parse().map_err(bad)?),
        PrincipalKind::Service => Principal::service(org, &name.parse().map_err(bad)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Names {
        let names = [
            (PrincipalKind::User, "alice"),
            (PrincipalKind::Node, "laptop"),
            (PrincipalKind::Service, "wiki"),
            (PrincipalKind::Node, "wiki"),
        ];
        names.into_iter().map(|(kind, name)| (kind, name.to_owned())).collect()
    }

    #[test]
    fn a_name_means_one_principal_or_the_nearest_is_named() {
        let org: OrgName = "harbor".parse().unwrap();
        let find = |text: &str| text.parse::<Asked>().and_then(|asked| asked.find(&org, &known()));
        for (asked, found) in [
            ("alice", "spiffe://harbor/user/alice"),
            ("alice@laptop", "spiffe://harbor/user/alice"),
            ("node/wiki", "spiffe://harbor/node/wiki"),
            ("spiffe://harbor/service/wiki", "spiffe://harbor/service/wiki"),
        ] {
            assert_eq!(find(asked).unwrap().to_string(), found);
        }
        for (asked, why) in [
            ("alicee", "no user, service or node is known by the name `alicee`; did you mean `alice`?"),
            ("node/alice", "no user, service or node is known by the name `alice`"),
            ("wiki", "`wiki` is the name of more than one: write user/wiki, service/wiki or node/wiki"),
            ("spiffe://other/user/alice", "`other` is another org; this is `harbor`"),
            (
                "king/alice",
                "`king/alice` is not a user, service or node: write NAME, NAME@NODE, KIND/NAME or a SPIFFE id",
            ),
        ] {
            assert_eq!(find(asked).unwrap_err().to_string(), why);
        }
    }
}
