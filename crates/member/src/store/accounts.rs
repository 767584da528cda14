//! Which number a machine's user or group has: by `/etc/passwd` and `/etc/group`, as every program on it sees them.

use std::io;
use std::path::Path;

use manifest::stored::Account;

#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAccount {
    #[error(
        "there is no {kind} `{account}` in `{file}`; for one that another directory knows, the fleet says its number"
    )]
    Unknown { kind: &'static str, account: Account, file: &'static str },
    #[error("`{file}` cannot be read: {source}")]
    Unread { file: &'static str, source: io::Error },
}

pub(crate) fn user(account: &Account) -> Result<u32, NoAccount> {
    number(account, "user", "/etc/passwd")
}

pub(crate) fn group(account: &Account) -> Result<u32, NoAccount> {
    number(account, "group", "/etc/group")
}

fn number(account: &Account, kind: &'static str, file: &'static str) -> Result<u32, NoAccount> {
    if let Ok(number) = account.as_str().parse() {
        return Ok(number);
    }
    let text = std::fs::read(Path::new(file)).map_err(|source| NoAccount::Unread { file, source })?;
    let found = in_table(&String::from_utf8_lossy(&text), account.as_str());
    found.ok_or_else(|| NoAccount::Unknown { kind, account: account.clone(), file })
}

/// Both tables have the name first and the number third.
fn in_table(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let named = fields.next() == Some(name);
        fields.nth(1).filter(|_| named)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let table = "root:x:0:0:root:/root:/bin/sh\nwww:x:7:7::/:/bin/false\nwww-data:x:33:33::/:/bin/false\nodd\n";
        for (name, number) in [("root", Some(0)), ("www-data", Some(33)), ("www", Some(7)), ("ww", None), ("odd", None)]
        {
            assert_eq!(in_table(table, name), number, "{name}");
        }
    }

    #[test]
    fn a_number_needs_no_table_and_an_unknown_name_is_told() {
        assert_eq!(user(&"4242".parse().unwrap()).unwrap(), 4242);
        assert_eq!(user(&"root".parse().unwrap()).unwrap(), 0);
        let why = group(&"no-such-group".parse().unwrap()).unwrap_err().to_string();
        assert!(why.contains("there is no group `no-such-group` in `/etc/group`"), "{why}");
    }
}
