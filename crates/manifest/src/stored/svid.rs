//! How the program of a user or service has its SVID: whose file the key is, which names it carries, who is told of a change.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use identity::principal::host::HostName;
use identity::text::BadText;
use identity::text_form;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramSvid {
    /// Whose file the private key is. Absent: the agent's own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Account>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Account>,
    pub mode: KeyMode,
    /// What the certificate carries beside the principal: exactly these.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub dns: BTreeSet<HostName>,
    /// A program and its words, without a shell, that runs when something has changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reload: Vec<String>,
}

/// A user or group of a machine, by name or by number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Account(String);

impl Account {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Account {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        // The highest number means nobody to the system calls that give files away.
        let is_number = text.parse::<u32>().is_ok_and(|id| id != u32::MAX && id.to_string() == text);
        let plain = |c: u8| c.is_ascii_alphanumeric() || b"_-.".contains(&c);
        let begins = text.bytes().next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_');
        let is_name = begins && text.len() <= 32 && text.bytes().all(plain);
        if is_number || is_name {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadText { form: "user or group of a machine, by name or number" })
        }
    }
}

text_form!(Account);

/// Who may read a private key: its owner, or its group too. Nobody else, ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyMode(u32);

impl KeyMode {
    const ALL: [u32; 4] = [0o400, 0o440, 0o600, 0o640];

    pub const fn bits(self) -> u32 {
        self.0
    }

    pub const fn is_for_group(self) -> bool {
        self.0 & 0o040 != 0
    }
}

impl Default for KeyMode {
    fn default() -> Self {
        Self(0o600)
    }
}

impl fmt::Display for KeyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl FromStr for KeyMode {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        let found = Self::ALL.into_iter().map(Self).find(|mode| mode.to_string() == text);
        found.ok_or(BadText { form: "mode of a private key (0400, 0440, 0600 or 0640)" })
    }
}

text_form!(KeyMode);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_for_everybody() {
        for mode in 0..=0o7777_u32 {
            if let Ok(read) = format!("{mode:04o}").parse::<KeyMode>() {
                assert_eq!((read.bits(), mode & 0o7137), (mode, 0), "{mode:04o}");
            }
        }
        for bad in ["640", "rw-r-----", "", "00640", "0o640"] {
            assert!(bad.parse::<KeyMode>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_account_is_a_name_or_a_number_of_one_form() {
        for good in ["www-data", "postgres", "_apt", "0", "33", "A.b"] {
            assert_eq!(good.parse::<Account>().unwrap().to_string(), good);
        }
        for bad in ["", "-x", "a b", "a:b", "../x", "007", "4294967295", "4294967296", "é", &"a".repeat(33)] {
            assert!(bad.parse::<Account>().is_err(), "{bad}");
        }
    }
}
