//! A gateway that serves until it is told to stop: what is said when it listens, and what cures it if it does not.

use std::net::SocketAddr;

use gateway::gateway::Gateway;
use gateway::port::serve::{self, ServeError, ServeOptions};
use gateway::store::folder::GatewayFolder;
use serde::Serialize;
use terminal::failure::Failure;
use tokio::sync::watch;

#[derive(Serialize)]
struct Ready {
    event: &'static str,
    org: String,
    gateway: String,
    listen: SocketAddr,
    addresses: Vec<String>,
}

pub async fn serve(
    folder: &GatewayFolder,
    options: ServeOptions,
    stop: watch::Receiver<bool>,
    json: bool,
) -> Result<(), ServeError> {
    serve::serve(folder, options, stop, |gateway, local| announce(json, gateway, local)).await?;
    if !json {
        println!("stopped in good order");
    }
    Ok(())
}

fn announce(json: bool, gateway: &Gateway, local: SocketAddr) {
    let addresses: Vec<String> = gateway.addresses().iter().map(ToString::to_string).collect();
    let (org, name) = (gateway.about.org.to_string(), gateway.about.node.to_string());
    if json {
        let ready = Ready { event: "ready", org, gateway: name, listen: local, addresses };
        println!("{}", serde_json::to_string(&ready).unwrap_or_default());
    } else {
        println!("gateway `{name}` of `{org}` listens on {local}; machines find it at {}", addresses.join(", "));
    }
}

/// Why it does not serve. What an operator does about a mandate that has ended depends on who reads it.
pub fn serve_failure(doing: &str, why: &ServeError, mandate_ended: &str) -> Failure {
    let hint = match why {
        ServeError::Gateway(why) => why.hint(),
        ServeError::Listen { .. } => Some("choose another: --listen ADDR:PORT"),
        ServeError::Metrics(why) => Some(why.hint()),
        ServeError::Certificate(_) => Some(mandate_ended),
        _ => None,
    };
    let failure = Failure::new(doing, why);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
