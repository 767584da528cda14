//! `freehold here`: the gateway's machine is a node as any other, and tells the same as `freehold-node` does elsewhere.

use clap::Subcommand;
use node::commands::caller::Caller;
use node::commands::doctor::Doctor;
use node::commands::port::Port;
use node::commands::roots::Common as Node;
use node::commands::status::Status;
use node::commands::top::Top;
use node::report::Failure;
use node::store::gateway::GatewayFolder;

use crate::home::Common;

pub const EXAMPLES: &str = "Examples:
  freehold here port socks              curl --socks5-hostname 127.0.0.1:$(freehold here port socks) http://wiki.harbor.internal/
  freehold here status
  freehold here top
  freehold here doctor wiki             why can't I reach it from here?

On every other machine these are commands of `freehold-node`.";

#[derive(Debug, Subcommand)]
pub enum HereCommand {
    /// Tell how this node stands
    Status(Status),
    /// Tell where programs of this machine reach services
    Port(Port),
    /// Show who calls what, now
    Top(Top),
    /// Tell who is at the other end of a connection that a service here accepted
    Caller(Caller),
    /// Look at everything that can be wrong with this node, and say how to cure it
    Doctor(Doctor),
}

impl HereCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not look at the node here";
        let org = common.org(doing)?;
        let scope = GatewayFolder::at(&common.home(), &org).scope();
        if !scope.folder.exists() {
            let why = format!("no gateway of `{org}` was founded on this machine");
            return Err(Failure::failed(doing, why).hint("if it joined as a node: freehold-node status"));
        }
        let node = Node::inside(scope, common.json);
        match self {
            Self::Status(status) => status.run(&node),
            Self::Port(port) => port.run(&node),
            Self::Top(top) => top.run(&node).await,
            Self::Caller(caller) => caller.run(&node).await,
            Self::Doctor(doctor) => doctor.run(&node).await,
        }
    }
}
