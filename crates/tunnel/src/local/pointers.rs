//! Texts that point other programs to the ways in: a PAC file for browsers, and a drop-in for systemd-resolved.

use std::net::SocketAddr;

use identity::principal::OrgName;

/// Names of the org go to SOCKS, and never elsewhere: not even when it is down. All others go where they went before.
pub fn pac(org: &OrgName, socks: SocketAddr) -> String {
    format!(
        r#"// Services of `{org}`. Written by freehold-node; changes are overwritten.
function FindProxyForURL(url, host) {{
  var name = host.toLowerCase().replace(/\.$/, "");
  var zone = ".{org}.internal";
  if (name.length > zone.length && name.substring(name.length - zone.length) === zone) {{
    return "SOCKS5 {socks}";
  }}
  return "DIRECT";
}}
"#
    )
}

/// To be placed in `/etc/systemd/resolved.conf.d`.
pub fn resolved(org: &OrgName, resolver: SocketAddr) -> String {
    format!(
        "# Names of services of `{org}`. Written by freehold-node; changes are overwritten.\n[Resolve]\n\
         DNS={resolver}\nDomains=~{org}.internal\n"
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_resolver_is_asked_for_names_of_the_org_alone() {
        let text = resolved(&"harbor".parse().unwrap(), "127.0.0.1:5353".parse().unwrap());
        assert!(text.ends_with("[Resolve]\nDNS=127.0.0.1:5353\nDomains=~harbor.internal\n"), "{text}");
    }

    #[test]
    fn a_browser_goes_through_socks_for_names_of_the_org_alone() {
        let text = pac(&"harbor".parse().unwrap(), "127.0.0.1:1180".parse().unwrap());
        let hosts = [
            ("wiki.harbor.internal", "SOCKS5 127.0.0.1:1180"),
            ("WIKI.Alpha.Harbor.Internal.", "SOCKS5 127.0.0.1:1180"),
            ("harbor.internal", "DIRECT"),
            ("wikiharbor.internal", "DIRECT"),
            ("wiki.harbor.internal.example.com", "DIRECT"),
            ("127.0.0.1", "DIRECT"),
        ];
        let names = hosts.map(|(host, _)| host);
        let script = format!("{text}for (const host of {names:?}) console.log(FindProxyForURL('', host));");
        let node = Command::new("node").arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut node = match node {
            Ok(node) => node,
            Err(why) => panic!("a PAC file is a program, and needs `node` to be tried: {why}"),
        };
        node.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let said = node.wait_with_output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        assert_eq!(said.lines().collect::<Vec<_>>(), hosts.map(|(_, way)| way), "{script}");
    }
}
