//! `freehold-node csr`: keys are made here and stay here; what is public of them goes into a file for an operator.

use std::path::PathBuf;

use clap::Args;
use ground::clock;
use ground::file::{self, FileAccess};
use identity::key::Sign as _;
use identity::principal::NodeName;
use member::ask::enroll;
use member::store::scope::Scope;
use org::invite::carried::JoinRequest;
use serde::Serialize;
use terminal::failure::{During, Failure};
use terminal::show::show;

use crate::commands::roots::ScopeOptions;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold-node csr --name web-1 --out web-1.request      take the file to an operator
  freehold bundle sign web-1.request --out web-1.bundle   the operator compares the node key, and signs
  freehold-node join --bundle web-1.bundle                back on this machine

Nothing in the file is secret. Running it again uses the same keys.")]
pub struct Csr {
    /// This machine's name in the org [default: its host name]
    #[arg(long)]
    name: Option<NodeName>,
    /// Where to write the request
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Serialize)]
struct Told {
    name: String,
    node_key: String,
    file: String,
}

impl Csr {
    pub fn run(self, common: &ScopeOptions) -> Result<(), Failure> {
        let doing = "could not make a request";
        let uname = rustix::system::uname();
        let hostname = uname.nodename().to_string_lossy().into_owned();
        let name = self.name.or_else(|| enroll::own_name(&hostname)).ok_or_else(|| {
            Failure::usage(doing, format!("the host name `{hostname}` cannot be this machine's name"))
                .hint("give one: --name NAME")
        })?;
        let place = Scope::requested(&common.root());
        place.make_keys().during(doing)?;
        let node_key = place.node_key().during(doing)?;
        let seal_key = place.seal_key().during(doing)?;
        let request = JoinRequest { node_key: node_key.public(), seal_key, name, hostname, made_at: clock::now() };
        let envelope = request.seal(&node_key).during(doing)?;
        let json = serde_json::to_vec_pretty(&envelope).during(doing)?;
        file::write(&self.out, &json, FileAccess::Readable).during(doing)?;
        let told = Told {
            name: request.name.to_string(),
            node_key: request.node_key.digest().to_string(),
            file: self.out.display().to_string(),
        };
        show(common.json, &told, || {
            format!(
                "`{0}` asks to be let in as `{1}`\nnode key {2}\nTake the file to an operator, who compares the key and \
                 runs: freehold bundle sign {0} --out {1}.bundle",
                told.file, told.name, told.node_key
            )
        });
        Ok(())
    }
}
