//! `freehold serve`: the gateway, until SIGTERM. Opens only the gateway's folder.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use clap::Args;
use node::answer::gateway::{Gateway, GatewayError};
use node::answer::serve::{self, ServeError};
use node::commands::run::stop_signal;
use node::report::Failure;
use node::store::gateway::GatewayFolder;
use serde::Serialize;

use crate::home::Common;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold serve                              on the advertised port, on all addresses
  freehold serve --listen 127.0.0.1:7443

It needs nothing of the operator's folder, which can be on another machine.")]
pub struct Serve {
    /// Where to listen [default: all addresses, the advertised port]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
}

#[derive(Serialize)]
struct Ready {
    event: &'static str,
    org: String,
    gateway: String,
    listen: SocketAddr,
    addresses: Vec<String>,
}

impl Serve {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not serve";
        let org = common.org(doing)?;
        let folder = GatewayFolder::at(&common.home(), &org);
        let about = folder.about().map_err(|why| Failure::new(doing, &why))?;
        let port = about.addresses.first().map_or(7443, |address| address.port);
        let listen = self.listen.unwrap_or_else(|| SocketAddr::new(any_address(), port));
        let stop = stop_signal().map_err(|why| Failure::new(doing, &why))?;
        let json = common.json;
        serve::serve(&folder, listen, stop, |gateway, local| tell(json, gateway, local)).await.map_err(|why| {
            let hint = match &why {
                ServeError::Gateway(GatewayError::Busy) => who_serves(&folder),
                ServeError::Gateway(why) => why.hint().map(str::to_owned),
                ServeError::Listen { .. } => Some("choose another: --listen ADDR:PORT".to_owned()),
                ServeError::Certificate(_) => Some(
                    "is this machine's clock right? If the mandate has really ended, an operator renews it: freehold refresh"
                        .to_owned(),
                ),
                _ => None,
            };
            let failure = Failure::new(doing, &why);
            match hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        })?;
        if !json {
            println!("stopped in good order");
        }
        Ok(())
    }
}

/// The process that has the folder, if it left word.
fn who_serves(folder: &GatewayFolder) -> Option<String> {
    let serving = folder.serving().ok().flatten();
    let alive = serving.filter(|serving| std::path::Path::new("/proc").join(serving.pid.to_string()).exists());
    match alive {
        Some(there) => {
            Some(format!("process {} serves it at {}: stop that one first, or leave it", there.pid, there.listen))
        }
        None => GatewayError::Busy.hint().map(str::to_owned),
    }
}

/// Both families where the system has both.
fn any_address() -> IpAddr {
    let dual = std::net::TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
    if dual { Ipv6Addr::UNSPECIFIED.into() } else { std::net::Ipv4Addr::UNSPECIFIED.into() }
}

fn tell(json: bool, gateway: &Gateway, local: SocketAddr) {
    let addresses: Vec<String> = gateway.about.addresses.iter().map(ToString::to_string).collect();
    if json {
        let ready = Ready {
            event: "ready",
            org: gateway.about.org.to_string(),
            gateway: gateway.about.node.to_string(),
            listen: local,
            addresses,
        };
        println!("{}", serde_json::to_string(&ready).unwrap_or_default());
    } else {
        println!(
            "gateway `{}` of `{}` listens on {local}; machines find it at {}",
            gateway.about.node,
            gateway.about.org,
            addresses.join(", ")
        );
    }
}
