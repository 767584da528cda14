//! A machine's full host name, as it claims it, and patterns for such names. A claim, never a proof.

use std::fmt;
use std::str::FromStr;

use crate::principal::glob;
use crate::text::BadText;
use crate::text_form;

/// As DNS has them.
const LONGEST: usize = 253;

/// A host name: labels of letters, digits and `-`, in lower case, joined by dots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for HostName {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        let label = |part: &str| {
            let inner = part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
            inner && (1..=63).contains(&part.len()) && !part.starts_with('-') && !part.ends_with('-')
        };
        // A name may be written with the root's dot.
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.len() <= LONGEST && text.split('.').all(label) {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(BadText { form: "host name" })
        }
    }
}

text_form!(HostName);

/// A pattern for host names: `*` stands for any run, dots too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostGlob(String);

impl HostGlob {
    pub fn matches(&self, host: &HostName) -> bool {
        glob::fits(&self.0, &host.0)
    }
}

impl fmt::Display for HostGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for HostGlob {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.' | b'*');
        // A pattern that says nothing would let in whoever asks.
        let says = text.bytes().any(|c| c.is_ascii_alphanumeric());
        if says && text.len() <= LONGEST && text.bytes().all(fits) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadText { form: "pattern of host names (a-z, 0-9, `-`, `.` and `*`, not only stars)" })
        }
    }
}

text_form!(HostGlob);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_whole_host_names() {
        let glob: HostGlob = "*.web.example.com".parse().unwrap();
        for (host, fits) in [
            ("a.web.example.com", true),
            ("A.Web.Example.COM.", true),
            ("a.b.web.example.com", true),
            ("web.example.com", false),
            ("a.web.example.com.evil.net", false),
            ("a.xweb.example.com", false),
        ] {
            assert_eq!(glob.matches(&host.parse().unwrap()), fits, "{host}");
        }
    }

    #[test]
    fn what_is_no_host_name_is_refused() {
        for bad in ["", ".", "a..b", "-a.b", "a-.b", "a_b.c", "a b", "é.b", &"a.".repeat(200)] {
            assert!(bad.parse::<HostName>().is_err(), "{bad}");
        }
        for bad in ["", "*", "*.*", "A.b", "a/b", "a b"] {
            assert!(bad.parse::<HostGlob>().is_err(), "{bad}");
        }
    }
}
