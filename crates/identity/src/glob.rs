//! A pattern for names: letters, digits, `-`, and `*` for any run of them.

use std::fmt;
use std::str::FromStr;

use crate::text_form;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameGlob(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name pattern: use a-z, 0-9, `-` and `*`")]
pub struct BadGlob(String);

impl NameGlob {
    /// Whether a name, already checked to be one, fits.
    pub fn matches(&self, name: &str) -> bool {
        let mut rest = name;
        let mut parts = self.0.split('*').peekable();
        // The first part is anchored at the beginning, the last at the end; each part between at its first chance.
        let Some(stripped) = parts.next().and_then(|first| rest.strip_prefix(first)) else {
            return false;
        };
        if parts.peek().is_none() {
            return stripped.is_empty();
        }
        rest = stripped;
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return rest.ends_with(part);
            }
            match rest.find(part) {
                Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
                None => return false,
            }
        }
        true
    }
}

impl fmt::Display for NameGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for NameGlob {
    type Err = BadGlob;
    fn from_str(text: &str) -> Result<Self, BadGlob> {
        let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'*';
        if text.is_empty() || text.len() > 63 || !text.bytes().all(allowed) {
            return Err(BadGlob(text.chars().take(80).collect()));
        }
        Ok(Self(text.to_owned()))
    }
}

text_form!(NameGlob);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principal::NodeName;

    #[test]
    fn a_star_stands_for_any_run() {
        for (glob, name, fits) in [
            ("web-*", "web-1", true),
            ("web-*", "web-", false), // not a name
            ("web-*", "db-1", false),
            ("web-*", "my-web-1", false),
            ("*", "anything", true),
            ("*-db", "a-db", true),
            ("*-db", "a-db2", false),
            ("a*b*c", "aXbYc", false), // not a name
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("web-1", "web-1", true),
            ("web-1", "web-11", false),
            ("a*a", "a", false),
        ] {
            let found =
                name.parse::<NodeName>().is_ok_and(|name| glob.parse::<NameGlob>().unwrap().matches(name.as_str()));
            assert_eq!(found, fits, "{glob} {name}");
        }
    }
}
