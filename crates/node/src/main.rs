//! `freehold-node`: a machine's own program.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use node::commands::csr::Csr;
use node::commands::doctor::Doctor;
use node::commands::gateway::GatewayCommand;
use node::commands::join::Join;
use node::commands::keep::Keep;
use node::commands::leave::Leave;
use node::commands::roots::ScopeOptions;
use node::commands::run::Run;
use node::commands::service::Service;
use node::commands::status::Status;
use node::commands::sync::Sync;
use node::commands::trust::Trust;
use node::commands::tunnel::TunnelCommand;
use node::commands::tunnel::caller::Caller;
use node::commands::tunnel::port::Port;
use node::commands::tunnel::top::Top;
use terminal::failure::Failure;
use terminal::help::Group;
use terminal::pages::{Completions, Man};
use tokio::runtime::Builder;

/// Joins this machine to an org and keeps it there.
#[derive(Debug, Parser)]
#[command(
    name = "freehold-node",
    version,
    after_help = "Examples:
  freehold-node join < code.txt     become a member
  freehold-node run                 stay one: renew, check in
  freehold-node service install     let systemd run the agent, from now on and after each start
  freehold-node sync                take what is published now, and see how it goes
  freehold-node status              how things stand
  freehold-node port                where programs here reach services
  freehold-node top                 who calls what, now
  freehold-node trust               which roots it goes by
  freehold-node doctor              what is wrong, and how to cure it
  freehold-node leave               say goodbye and wipe the keys"
)]
struct Cli {
    #[command(flatten)]
    common: ScopeOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Join an org with an invite code
    Join(Join),
    /// Make this machine's keys, and a request for an operator to sign
    Csr(Csr),
    /// Run the agent: renew, check in, answer `status`
    Run(Run),
    /// Let systemd keep the agent running
    #[command(subcommand)]
    Service(Service),
    /// Take what is published at once, and wait until it is settled or went back
    Sync(Sync),
    /// Tell how this node stands
    Status(Status),
    /// Tell where programs here reach services: the SOCKS port, or a service's own
    Port(Port),
    /// Watch who calls what, as it happens
    Top(Top),
    /// Tell who is at the other end of a connection that a service here accepted
    Caller(Caller),
    /// Tell which roots this machine goes by, and where other programs read them
    Trust(Trust),
    /// Be a gateway of the org: ask for it, take what the operators hand back, serve
    #[command(subcommand)]
    Gateway(GatewayCommand),
    /// Carry streams: what the agent starts
    #[command(subcommand, hide = true)]
    Tunnel(TunnelCommand),
    /// Keep the program of a check: what the agent starts
    #[command(name = member::apply::keeper::COMMAND, hide = true)]
    Keep(Keep),
    /// Leave the org and wipe the keys
    Leave(Leave),
    /// Look at everything that can be wrong here, and say how to cure it
    Doctor(Doctor),
    /// Print a script that completes words in your shell
    Completions(Completions),
    /// Print the manual, or write all of its pages
    Man(Man),
}

const GROUPS: &[Group] = &[
    Group { title: "Belong to an org", commands: &["join", "csr", "run", "service", "leave"] },
    Group { title: "Look", commands: &["status", "sync", "trust", "doctor"] },
    Group { title: "Reach services", commands: &["port", "top", "caller"] },
    Group { title: "Be a gateway", commands: &["gateway"] },
    Group { title: "Shell", commands: &["completions", "man"] },
];

/// How `freehold release add` reads the version of an agent without running it.
static MARK: &str = concat!("freehold-node-version:", env!("CARGO_PKG_VERSION"), ";");

fn main() -> ExitCode {
    // Seen to be used, so that no linker drops it.
    std::hint::black_box(MARK);
    let cli: Cli = match terminal::line::read(GROUPS) {
        Ok(cli) => cli,
        Err(end) => return end,
    };
    let started = match &cli.command {
        Command::Tunnel(tunnel) => Some(tunnel.run()),
        Command::Keep(keep) => Some(keep.run()),
        _ => None,
    };
    if let Some(done) = started {
        return done.map_or_else(|failure| failure.finish(cli.common.json), |()| ExitCode::SUCCESS);
    }
    terminal::log::log_to_stderr();
    terminal::screen::show_everything(cli.common.wide);
    // A gateway answers many at once; everything else is content with one thread.
    let mut threads = match cli.command {
        Command::Gateway(GatewayCommand::Serve(_)) => Builder::new_multi_thread(),
        _ => Builder::new_current_thread(),
    };
    let done = match threads.enable_all().build() {
        Ok(runtime) => runtime.block_on(run(cli.command, &cli.common)),
        Err(why) => Err(Failure::new("could not start", &why)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.finish(cli.common.json),
    }
}

async fn run(command: Command, common: &ScopeOptions) -> Result<(), Failure> {
    match command {
        Command::Join(join) => Box::pin(join.run(common)).await,
        Command::Csr(csr) => csr.run(common),
        Command::Run(run) => run.run(common).await,
        Command::Service(service) => service.run(common),
        Command::Sync(sync) => Box::pin(sync.run(common)).await,
        Command::Status(status) => status.run(common),
        Command::Port(port) => port.run(common),
        Command::Top(top) => top.run(common).await,
        Command::Caller(caller) => caller.run(common).await,
        Command::Trust(trust) => trust.run(common),
        Command::Gateway(gateway) => gateway.run(common).await,
        Command::Tunnel(tunnel) => tunnel.run(),
        Command::Keep(keep) => keep.run(),
        Command::Leave(leave) => leave.run(common).await,
        Command::Doctor(doctor) => doctor.run(common).await,
        Command::Completions(completions) => completions.run(Cli::command()),
        Command::Man(man) => man.run(Cli::command()),
    }
}
