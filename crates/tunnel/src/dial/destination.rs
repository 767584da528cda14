//! Names that programs ask for: `<service>.<org>.internal`, or `<service>.<node>.<org>.internal` for one of several places.

use identity::principal::{Name, NodeName, OrgName};

/// A service, perhaps at one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Destination {
    pub service: Name,
    pub node: Option<NodeName>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadDestination {
    #[error("it does not end in `.{org}.internal`")]
    Elsewhere { org: OrgName },
    #[error("it is no name of a service: SERVICE.{org}.internal or SERVICE.NODE.{org}.internal")]
    Malformed { org: OrgName },
}

const LONGEST: usize = 253;

impl Destination {
    /// As programs write them: in any case, and with a dot at the end or without.
    pub(crate) fn parse(text: &str, org: &OrgName) -> Result<Self, BadDestination> {
        let malformed = || BadDestination::Malformed { org: org.clone() };
        if text.len() > LONGEST + 1 || !text.is_ascii() {
            return Err(malformed());
        }
        let lower = text.to_ascii_lowercase();
        let lower = lower.strip_suffix('.').unwrap_or(&lower);
        let inner = lower
            .strip_suffix(&format!(".{org}.internal"))
            .ok_or_else(|| BadDestination::Elsewhere { org: org.clone() })?;
        let (service, node) = match inner.split_once('.') {
            None => (inner, None),
            Some((service, node)) => (service, Some(node.parse().map_err(|_| malformed())?)),
        };
        Ok(Self { service: service.parse().map_err(|_| malformed())?, node })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_programs_write_them() {
        let org: OrgName = "harbor".parse().unwrap();
        let long = format!("{}.harbor.internal", "a".repeat(300));
        for (text, service, node) in [
            ("wiki.harbor.internal", "wiki", None),
            ("wiki.harbor.internal.", "wiki", None),
            ("WIKI.Harbor.INTERNAL", "wiki", None),
            ("wiki.alpha.harbor.internal", "wiki", Some("alpha")),
        ] {
            let wanted =
                Destination { service: service.parse().unwrap(), node: node.map(|node| node.parse().unwrap()) };
            assert_eq!(Destination::parse(text, &org), Ok(wanted), "{text}");
        }
        for text in ["wiki.port.internal", "wiki", "", ".", "harbor.internal", "wiki.harbor.internal.example.com"] {
            assert_eq!(Destination::parse(text, &org), Err(BadDestination::Elsewhere { org: org.clone() }), "{text}");
        }
        for text in [
            ".harbor.internal",
            "wiki..harbor.internal",
            "wi ki.harbor.internal",
            "a.b.c.harbor.internal",
            "wiki.harbor.internal..",
            "wíki.harbor.internal",
            long.as_str(),
            "wiki\0.harbor.internal",
        ] {
            assert!(Destination::parse(text, &org).is_err(), "{text}");
        }
    }
}
