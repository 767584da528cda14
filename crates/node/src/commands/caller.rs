//! `freehold-node caller`: who is at the other end of a connection that a service here accepted.

use std::net::SocketAddr;

use clap::Args;

use crate::agent::socket::Remote;
use crate::commands::roots::Common;
use crate::report::{Failure, show};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold-node caller 127.0.0.1:54321      the far address of the connection, as the service sees it

A program asks the same by a line on the socket `agent.sock` in the scope's folder: {\"caller\": \"127.0.0.1:54321\"}")]
pub struct Caller {
    /// The address from which the service sees the connection come
    #[arg(value_name = "ADDR:PORT")]
    address: SocketAddr,
}

impl Caller {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not tell who calls";
        let scope = common.scope(doing)?;
        let Some(agent) = Remote::find(&scope).await else {
            return Err(Failure::failed(doing, "the agent does not run").hint(common.start()));
        };
        let Some(caller) = agent.caller(self.address).await else {
            let why = format!("no service here has an open connection from {} by the tunnel", self.address);
            return Err(Failure::failed(doing, why)
                .hint("it may have ended, or somebody on this machine connected to the service directly"));
        };
        show(common.json, &caller, || {
            format!("{} on {} calls {} since {}", caller.principal, caller.node, caller.service, caller.since)
        });
        Ok(())
    }
}
