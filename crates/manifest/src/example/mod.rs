//! An example fleet whose comments are the documentation: what `freehold fleet init` writes.

use identity::id::OrgId;
use identity::principal::{Address, HostPort, Name, NodeName, OrgName};

use crate::source::{SourceFile, schema};

/// What is known where the example is made.
#[derive(Debug, Clone)]
pub struct Setting {
    pub org: OrgName,
    pub id: OrgId,
    pub gateway: Address,
    /// The node from which the org is managed.
    pub node: NodeName,
    pub operator: Name,
}

const FILES: [(&str, &str); 5] = [
    ("org.yaml", include_str!("org.yaml")),
    ("machines.yaml", include_str!("machines.yaml")),
    ("services.yaml", include_str!("services.yaml")),
    ("people.yaml", include_str!("people.yaml")),
    ("files/motd.txt", include_str!("motd.txt")),
];

/// The example's own names.
const TAKEN: [&str; 9] = ["bob", "cleo", "bob-laptop", "cleo-laptop", "web", "wiki", "pulse", "gw-1", "ann"];

impl Setting {
    /// What stands in the example where nothing is known.
    pub fn unknown() -> Option<Self> {
        Some(Self {
            org: "harbor".parse().ok()?,
            id: OrgId([0; 32]),
            gateway: "gw.example:7443".parse().ok()?,
            node: "gw-1".parse().ok()?,
            operator: "ann".parse().ok()?,
        })
    }

    /// The example for this setting. The schema is in a folder that is not read as fleet.
    pub fn files(&self) -> Vec<SourceFile> {
        // A name that stands for somebody else in the example, or fits its class, would be there twice.
        let free = |name: &str| !TAKEN.contains(&name) && !name.starts_with("web-");
        let node = Some(self.node.as_str()).filter(|name| free(name)).unwrap_or("gw-1");
        let operator = Some(self.operator.as_str()).filter(|name| free(name) && *name != node).unwrap_or("ann");
        let host = HostPort { port: 7444, host: self.gateway.host.clone() }.to_string();
        let written = |text: &str| {
            let text = text.replace("@ORG@", self.org.as_str()).replace("@ID@", &format!("\"{}\"", self.id));
            let text = text.replace("@GATEWAY@", &self.gateway.to_string()).replace("@HOST@:7444", &host);
            text.replace("@NODE@", node).replace("@OPERATOR@", operator).into_bytes()
        };
        let schema =
            SourceFile { path: ".schema/fleet.json".to_owned(), bytes: format!("{:#}\n", schema()).into_bytes() };
        let files = FILES.iter().map(|(path, text)| SourceFile { path: (*path).to_owned(), bytes: written(text) });
        files.chain([schema]).collect()
    }
}
