//! `freehold-node port`: where programs of this machine reach services, as it was bound and not as it was wished.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use clap::Args;
use identity::principal::{Name, Principal};
use serde::Serialize;
use tunnel::orders::Place;

use crate::agent::status::Status;
use crate::agent::tunnel::view::{State, TunnelView};
use crate::commands::roots::Common;
use crate::program::Program;
use crate::report::{Failure, show};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node port                    every port
  freehold-node port socks              curl --socks5-hostname 127.0.0.1:$(freehold-node port socks) http://wiki.harbor.internal/
  freehold-node port socks --user ann   where SOCKS speaks for `ann`, if several are at home here
  freehold-node port wiki               the local port that leads to `wiki`, if the fleet has a forward for it

A port that is taken when the tunnel starts becomes a free one: ask here rather than in the fleet. Where SOCKS asks for
passwords, and at the address of a service, it is that port or none, and `freehold-node status` says so.")]
pub struct Port {
    /// A service, or `socks`
    #[arg(value_name = "SERVICE|socks")]
    what: Option<Name>,
    /// The SOCKS port of this user at home here, rather than the one for whoever is there by default
    #[arg(long, value_name = "USER")]
    user: Option<Name>,
}

#[derive(Serialize)]
struct Told {
    port: u16,
    address: SocketAddr,
    place: Place,
}

impl Port {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not tell the port";
        let scope = common.scope(doing)?;
        let Some(status) = Status::from_agent(&scope) else {
            let why = "the agent does not run, so nothing listens";
            return Err(Failure::failed(doing, why).hint(common.start(&scope)));
        };
        let tunnel = &status.tunnel;
        let Some(what) = &self.what else {
            let ports: BTreeMap<_, _> = tunnel.listens.iter().collect();
            show(common.json, &ports, || {
                let lines = tunnel.listens.iter().map(|(place, at)| format!("{at}  {}", String::from(place.clone())));
                lines.collect::<Vec<_>>().join("\n")
            });
            return Ok(());
        };
        let found = find(tunnel, what, self.user.map(|user| Principal::user(&status.org, &user)));
        if found.is_empty() {
            return Err(nothing(doing, (tunnel, common.program(&scope)), what));
        }
        show(common.json, &found, || found.iter().map(|told| told.port.to_string()).collect::<Vec<_>>().join("\n"));
        Ok(())
    }
}

fn find(tunnel: &TunnelView, what: &Name, user: Option<Principal>) -> Vec<Told> {
    let wanted = user.map_or(Place::Socks, Place::SocksOf);
    let socks = |place: &Place| what.as_str() == "socks" && *place == wanted;
    let all = tunnel.listens.iter().filter(|(place, _)| socks(place)).map(|(place, at)| (place, *at));
    let found = all.chain(tunnel.ports_of(what));
    found.map(|(place, at)| Told { port: at.port(), address: at, place: place.clone() }).collect()
}

fn nothing(doing: &str, (tunnel, program): (&TunnelView, Program), what: &Name) -> Failure {
    match tunnel.state {
        State::Off => {
            Failure::failed(doing, "nothing is published that this node could reach or serve, so nothing listens").hint(
                format!(
                    "an operator publishes a fleet with services: freehold publish; then: {}",
                    program.command("sync")
                ),
            )
        }
        State::Waiting => {
            Failure::failed(doing, tunnel.problem.clone().unwrap_or_else(|| "the tunnel's process ended".to_owned()))
                .hint(format!("it is started again by itself: {}", program.command("status")))
        }
        State::Running if what.as_str() == "socks" => {
            let failed = tunnel.failed.get(&Place::Socks).cloned();
            Failure::failed(doing, failed.unwrap_or_else(|| "the fleet turns SOCKS off for this node".to_owned()))
        }
        State::Running => Failure::failed(doing, format!("no local port leads to `{what}`")).hint(format!(
            "by SOCKS every service can be reached: {}; or the fleet declares a forward for it",
            program.command("port socks")
        )),
    }
}
