//! `freehold here`: the gateway's machine is a node as any other, and tells the same as `freehold-node` does elsewhere.

use clap::{Args, Subcommand};
use gateway::store::folder::GatewayFolder;
use node::commands::doctor::Doctor;
use node::commands::roots::ScopeOptions;
use node::commands::status::Status;
use node::commands::sync::Sync;
use node::commands::trust::Trust;
use node::commands::tunnel::caller::Caller;
use node::commands::tunnel::port::Port;
use node::commands::tunnel::top::Top;
use terminal::failure::Failure;

use crate::home::Common;

pub const EXAMPLES: &str = "Examples:
  freehold here port socks              curl --socks5-hostname 127.0.0.1:$(freehold here port socks) http://wiki.harbor.internal/
  freehold here status
  freehold here top
  freehold here doctor wiki             why can't I reach it from here?
  freehold here sync --now              try again what went back

On every other machine these are commands of `freehold-node`.";

#[derive(Debug, Subcommand)]
pub enum HereCommand {
    /// Tell how this node stands
    #[command(after_help = STATUS)]
    Status(Status),
    /// Tell where programs of this machine reach services
    #[command(after_help = PORT)]
    Port(Port),
    /// Show who calls what, now
    #[command(after_help = TOP)]
    Top(Top),
    /// Tell who is at the other end of a connection that a service here accepted
    #[command(after_help = CALLER)]
    Caller(Caller),
    /// Look at everything that can be wrong with this node, and say how to cure it
    #[command(after_help = DOCTOR)]
    Doctor(Doctor),
    /// Take what is published at once, and stay until it is settled or went back
    #[command(after_help = SYNC)]
    Sync(Sync),
    /// Tell which roots this node goes by, and where other programs read them
    #[command(after_help = TRUST)]
    Trust(Trust),
}

/// What is typed here by whoever means the other program.
#[derive(Debug, Args)]
pub struct Elsewhere {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

impl Elsewhere {
    /// Whatever was typed is taken for the other program's.
    pub fn wants_json(&self) -> bool {
        self.words.iter().any(|word| word == "--json")
    }

    pub fn run() -> Result<(), Failure> {
        let hint =
            "on the machine that is to join: freehold-node join < code.txt; a code or a line: freehold invite create";
        Err(Failure::usage("this program joins no machine", "machines join by `freehold-node`").hint(hint))
    }
}

const STATUS: &str = "Examples:
  freehold here status
  freehold here status --json | jq .survival         how long it lasts without a gateway, and what limits that";
const PORT: &str = "Examples:
  freehold here port                    every port
  freehold here port socks              curl --socks5-hostname 127.0.0.1:$(freehold here port socks) http://wiki.harbor.internal/
  freehold here port socks --user ann   where SOCKS speaks for `ann`, if several are at home here
  freehold here port wiki               the local port that leads to `wiki`, if the fleet has a forward for it

A port that is taken when the tunnel starts becomes a free one: ask here rather than in the fleet. Where SOCKS asks for
passwords, and at the address of a service, it is that port or none, and `freehold here status` says so.";
const TOP: &str = "Examples:
  freehold here top                 until Ctrl-C
  freehold here top --once
  freehold here top --json | jq     a line each second";
const CALLER: &str = "Example:
  freehold here caller 127.0.0.1:54321      the far address of the connection, as the service sees it";
const DOCTOR: &str = "Examples:
  freehold here doctor
  freehold here doctor wiki         why can't I reach the service `wiki`?

It changes nothing. The service is called once, without a byte, for somebody here who may. Exit code 0 if nothing is wrong,
else 1; what is marked `soon` is not wrong yet. The gateway itself has a doctor of its own: freehold doctor";
const SYNC: &str = "Examples:
  freehold here sync                          take what is published, wait until it is confirmed or went back
  freehold here sync --dry-run                show what would change here
  freehold here sync --now                    try again what went back

Exit code: 0 settled, 1 no gateway was reached, 3 what was offered is refused, 4 it went back.";
const TRUST: &str = "Examples:
  freehold here trust                    every version that the head names, and what this machine makes of it
  freehold here trust paths --endpoint /etc/ssl/harbor-gateways.pem --identity /etc/ssl/harbor-members.pem
  freehold here trust paths --reset";

impl HereCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not look at the node here";
        let org = common.org(doing)?;
        let scope = GatewayFolder::at(&common.home(), &org).scope();
        if !scope.folder.exists() {
            let why = format!("no gateway of `{org}` was founded on this machine");
            return Err(Failure::failed(doing, why).hint("if it joined as a node: freehold-node status"));
        }
        let node = ScopeOptions::inside(scope, common.json);
        match self {
            Self::Status(status) => status.run(&node),
            Self::Port(port) => port.run(&node),
            Self::Top(top) => top.run(&node).await,
            Self::Caller(caller) => caller.run(&node).await,
            Self::Doctor(doctor) => doctor.run(&node).await,
            Self::Sync(sync) => Box::pin(sync.run(&node)).await,
            Self::Trust(trust) => trust.run(&node),
        }
    }
}
