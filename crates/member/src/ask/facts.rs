//! What this machine tells of itself to a person who must approve it. Nothing of it is proven.

use std::collections::BTreeMap;

use identity::id::Digest;
use org::invite::admission::Facts;

/// Longer values are cut.
const LONGEST: usize = 100;

/// Where firmware says what it runs on.
const MODEL: [&str; 2] = ["/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name"];

pub(crate) fn facts(claim: Digest) -> Facts {
    let uname = rustix::system::uname();
    let mut more = BTreeMap::from([("kernel".to_owned(), short(&uname.release().to_string_lossy()))]);
    let model: Vec<String> = MODEL.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    let model = short(&model.join(" "));
    if !model.is_empty() {
        more.insert("model".to_owned(), model);
    }
    Facts {
        claim,
        hostname: short(&uname.nodename().to_string_lossy()),
        os: short(std::env::consts::OS),
        arch: short(std::env::consts::ARCH),
        agent: format!("freehold-node {}", env!("CARGO_PKG_VERSION")),
        more,
    }
}

/// On one line, in words with one space between them.
fn short(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_tells_is_plain_and_short() {
        let told = facts(Digest([7; 32]));
        assert!(told.is_plain() && told.claim == Digest([7; 32]) && told.os == "linux", "{told:?}");
        assert_eq!(short("  ACME\tCorp.\n Rocket\u{1b}[2J\n"), "ACME Corp. Rocket [2J");
        assert_eq!(short(&"long ".repeat(100)).chars().count(), LONGEST);
    }
}
