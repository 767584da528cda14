//! `freehold-node caller`: who is at the other end of a connection that a service here accepted.

use std::net::SocketAddr;

use clap::Args;
use member::agent::socket::Remote;
use terminal::failure::Failure;
use terminal::show::show;
use tunnel::control::question::{CallerIdentity, ServiceConnection};

use crate::commands::roots::ScopeOptions;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold-node caller 127.0.0.1:54321 127.0.0.1:8080      both ends, as the service that accepted the connection sees them

A service gives both ends (getpeername, getsockname), and then only that very connection fits. With the far one alone the answer
may be about another service's connection, which somebody else has: compare `at` in it with the service's own address.

A program asks the same by a line on the socket `agent.sock` in the scope's folder:
  {\"caller\": {\"far\": \"127.0.0.1:54321\", \"near\": \"127.0.0.1:8080\"}}      or, with the far end alone: {\"caller\": \"127.0.0.1:54321\"}")]
pub struct Caller {
    /// The address from which the service sees the connection come
    #[arg(value_name = "FAR")]
    far: SocketAddr,
    /// The service's own address of that connection
    #[arg(value_name = "NEAR")]
    near: Option<SocketAddr>,
}

impl Caller {
    pub async fn run(self, common: &ScopeOptions) -> Result<(), Failure> {
        let doing = "could not tell who calls";
        let scope = common.scope(doing)?;
        let Some(agent) = Remote::find(&scope).await else {
            return Err(Failure::failed(doing, "the agent does not run").hint(common.start(&scope)));
        };
        let (far, near) = (self.far, self.near);
        let connection = near.map_or(ServiceConnection::From(far), |near| ServiceConnection::Between { far, near });
        let Some(caller) = agent.caller(connection).await else {
            let to = near.map(|near| format!(" to {near}")).unwrap_or_default();
            let why = format!("no service here has an open connection from {far}{to} by the tunnel");
            return Err(Failure::failed(doing, why)
                .hint("it may have ended, or somebody on this machine connected to the service directly"));
        };
        show(common.json, &caller, || told(&caller, far, near));
        Ok(())
    }
}

fn told(caller: &CallerIdentity, far: SocketAddr, near: Option<SocketAddr>) -> String {
    let CallerIdentity { principal, node, service, at, since } = caller;
    let told = format!("`{service}` at {at} is called by {principal} on {node} since {since}");
    match near {
        Some(_) => told,
        None => format!(
            "{told}\nA connection from {far} to any other address than {at} is somebody else's: name both ends to be sure, freehold-node caller {far} {at}"
        ),
    }
}
