//! A machine's full host name, as it knows it itself.

use identity::principal::host::HostName;

/// The system's own name; if that has no dots, the first name with dots that its table of hosts gives to the same line.
pub(crate) fn full_name(nodename: &str, table: &str) -> Option<HostName> {
    let own: HostName = nodename.parse().ok()?;
    if own.as_str().contains('.') {
        return Some(own);
    }
    let lines = table.lines().map(|line| line.split('#').next().unwrap_or_default());
    let names = lines.map(|line| line.split_whitespace().skip(1).filter_map(|name| name.parse::<HostName>().ok()));
    let mut ours = names.map(Iterator::collect::<Vec<_>>).filter(|names| names.contains(&own));
    let full = ours.find_map(|names| names.into_iter().find(|name| name.as_str().contains('.')));
    Some(full.unwrap_or(own))
}

/// As this machine has it now.
pub fn own_full_name() -> Option<HostName> {
    let uname = rustix::system::uname();
    let table = ground::file::read_if_there(std::path::Path::new("/etc/hosts")).ok().flatten().unwrap_or_default();
    full_name(&uname.nodename().to_string_lossy(), &String::from_utf8_lossy(&table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nodename: &str, table: &str, expected: Option<&str>) {
        assert_eq!(full_name(nodename, table).map(|name| name.to_string()).as_deref(), expected, "{nodename}");
    }

    #[test]
    fn the_full_name_is_the_systems_own_or_that_of_its_table() {
        let table = "127.0.0.1 localhost\n# 10.0.0.1 web-1.wrong.example web-1\n10.0.0.9 db-1.example db-1\n\
                     127.0.1.1 web-1.web.example.com web-1 # us\n";
        check("WEB-1.Other.example.", table, Some("web-1.other.example"));
        check("web-1", table, Some("web-1.web.example.com"));
        check("web-2", table, Some("web-2"));
        check("web-1", "", Some("web-1"));
        check("not a name", table, None);
    }
}
