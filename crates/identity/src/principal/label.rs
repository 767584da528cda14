//! A label on a node: `key=value`, for people and for choosing.

use std::fmt;
use std::str::FromStr;

use crate::text::BadText;
use crate::text_form;

/// `key=value`, both short and plain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label(String);

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Label {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        let plain = |part: &str| {
            (1..=63).contains(&part.len()) && part.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c))
        };
        match text.split_once('=') {
            Some((key, value)) if plain(key) && plain(value) => Ok(Self(text.to_owned())),
            _ => Err(BadText { form: "label (KEY=VALUE)" }),
        }
    }
}

text_form!(Label);
