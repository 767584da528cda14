//! `freehold`: founds an org and operates it.

mod secrets;
mod config;
mod local;
mod home;
mod tree;
mod found;
mod backup;
mod doctor;
mod moment;
mod handing;
mod root_keys;
mod waiting;
mod planning;
mod watching;
mod commands;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use node::commands::keep::Keep;
use node::commands::tunnel::TunnelCommand;
use terminal::failure::{Exit, Failure};
use terminal::help::Group;
use terminal::pages::{Completions, Man};
use tokio::runtime::Builder;

use crate::backup::reminder;
use crate::commands::audit::Audit;
use crate::commands::backup::BackupCommand;
use crate::commands::doctor::OrgDoctor;
use crate::commands::fleet::FleetCommand;
use crate::commands::fleet::access::Access;
use crate::commands::fleet::check::Check;
use crate::commands::fleet::compile::Compile;
use crate::commands::fleet::plan::Plan;
use crate::commands::fleet::publish::Publish;
use crate::commands::fleet::rollback::Rollback;
use crate::commands::found::Found;
use crate::commands::gateway::GatewayCommand;
use crate::commands::gateway::mandate::MandateCommand;
use crate::commands::gateway::refresh::Refresh;
use crate::commands::here::{self, Elsewhere, HereCommand};
use crate::commands::invite::InviteCommand;
use crate::commands::invite::bundle::BundleCommand;
use crate::commands::invite::landing::LandingCommand;
use crate::commands::node::NodeCommand;
use crate::commands::node::confirm::Confirm;
use crate::commands::node::suspend::Suspend;
use crate::commands::node::user::UserCommand;
use crate::commands::org::OrgCommand;
use crate::commands::release::ReleaseCommand;
use crate::commands::serve::Serve;
use crate::commands::signer::SignerCommand;
use crate::commands::signer::recover::Recover;
use crate::commands::signer::send::Send;
use crate::commands::signer::sign::SignPending;
use crate::commands::signer::token::TokenCommand;
use crate::commands::signer::unlock::Unlock;
use crate::commands::signer::unlock::agent::AgentCommand;
use crate::commands::signer::unlock::lock::LockCommand;
use crate::commands::status::ShowStatus;
use crate::commands::trust::TrustCommand;
use crate::commands::trust::rotate::Rotate;
use crate::home::Common;

/// Founds an org of machines that you own, and governs it.
#[derive(Debug, Parser)]
#[command(
    name = "freehold",
    version,
    after_help = "From nothing to a member:
  freehold found harbor --advertise gw.example:7443
  freehold serve &
  freehold invite create --name 'web-*'        gives a line to run on the machine that joins
  freehold node list"
)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Found a new org on this machine
    Found(Found),
    /// Serve as the gateway: machines join and renew here
    Serve(Serve),
    /// Make, list, show and revoke invites
    #[command(subcommand)]
    Invite(InviteCommand),
    /// Make a file that lets one machine in, or sign a machine's request
    #[command(subcommand)]
    Bundle(BundleCommand),
    /// Say which agents machines install, and list them
    #[command(subcommand)]
    Release(ReleaseCommand),
    /// List, show and revoke nodes
    #[command(subcommand)]
    Node(NodeCommand),
    /// Add, list and revoke users
    #[command(subcommand)]
    User(UserCommand),
    /// Tell how the org is, and how long each machine lasts without a gateway
    Status(ShowStatus),
    /// Tell everything that was ever changed, and check it
    Audit(Audit),
    /// Say what publishing the fleet would do
    Plan(Plan),
    /// Publish the fleet to the nodes, and watch what they make of it
    Publish(Publish),
    /// Go back to a fleet that was published earlier
    Rollback(Rollback),
    /// Let stay what a node has on trial
    Confirm(Confirm),
    /// Make an example fleet, and the schema for editors
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Say everything that is wrong with a fleet
    Check(Check),
    /// Say who may call what by the fleet, and why
    Access(Access),
    /// Write what publishing the fleet would sign, as files
    Compile(Compile),
    /// Renew how long the head and the mandates last
    Refresh(Refresh),
    /// Open your signer keys for a while, so that commands do not ask for the passphrase
    Unlock(Unlock),
    /// Forget the keys that `unlock` opened
    Lock(LockCommand),
    /// Look at hardware tokens, and make keys on them
    #[command(subcommand)]
    Token(TokenCommand),
    /// Hold opened keys: what `unlock` starts
    #[command(hide = true)]
    Agent(AgentCommand),
    /// Carry streams: what the agent inside `serve` starts
    #[command(subcommand, hide = true)]
    Tunnel(TunnelCommand),
    /// Keep the program of a check: what the agent inside `serve` starts
    #[command(name = member::apply::keeper::COMMAND, hide = true)]
    Keep(Keep),
    /// Add, list, renew, move to and remove gateways
    #[command(subcommand)]
    Gateway(GatewayCommand),
    /// Look at the trusted roots, and turn to new ones
    #[command(subcommand)]
    Trust(TrustCommand),
    /// Turn to a new root, from the first step to the last
    Rotate(Rotate),
    /// List and change what gateways may do
    #[command(subcommand)]
    Mandate(MandateCommand),
    /// Stop a node for a day, by one signer's word
    Suspend(Suspend),
    /// Show what waits for signatures, and add yours
    Sign(SignPending),
    /// Deliver what enough operators have signed
    Send(Send),
    /// List, add, replace and remove signers
    #[command(subcommand)]
    Signer(SignerCommand),
    /// Replace lost signers by the recovery phrases
    Recover(Recover),
    /// List the orgs of this home, and make an org's card
    #[command(subcommand)]
    Org(OrgCommand),
    /// Write a page that tells newcomers what to do
    Landing(LandingCommand),
    /// Look at everything that can be wrong here, and say how to cure it
    Doctor(OrgDoctor),
    /// See this machine as a node of the org: how it stands, its ports, who calls what
    #[command(subcommand, after_help = here::EXAMPLES)]
    Here(HereCommand),
    /// Machines join by a program of their own
    #[command(hide = true)]
    Join(Elsewhere),
    /// Print a script that completes words in your shell
    Completions(Completions),
    /// Print the manual, or write all of its pages
    Man(Man),
    /// Make, check and restore backups: one encrypted file
    #[command(subcommand)]
    Backup(BackupCommand),
}

const GROUPS: &[Group] = &[
    Group { title: "Begin", commands: &["found", "serve", "org", "backup"] },
    Group { title: "Machines", commands: &["invite", "bundle", "landing", "release", "node", "user", "suspend"] },
    Group {
        title: "Fleet",
        commands: &["fleet", "check", "access", "plan", "publish", "confirm", "rollback", "compile"],
    },
    Group { title: "Look", commands: &["status", "doctor", "audit", "here"] },
    Group { title: "Sign", commands: &["sign", "send", "unlock", "lock", "signer", "token", "recover"] },
    Group { title: "Gateways and roots", commands: &["gateway", "mandate", "refresh", "trust", "rotate"] },
    Group { title: "Shell", commands: &["completions", "man"] },
];

fn main() -> ExitCode {
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
    let json = cli.common.json || matches!(&cli.command, Command::Join(elsewhere) if elsewhere.wants_json());
    let done = match Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(Box::pin(run(cli.command, &cli.common))),
        Err(why) => Err(Failure::new("could not start", &why)),
    };
    match done {
        Ok(()) if cli.common.unfinished.is_noted() => Exit::Waiting.into(),
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => cli.common.named(failure).finish(json),
    }
}

async fn run(command: Command, common: &Common) -> Result<(), Failure> {
    match command {
        Command::Found(found) => found.run(common).await,
        Command::Join(_) => Elsewhere::run(),
        Command::Tunnel(tunnel) => tunnel.run(),
        Command::Keep(keep) => keep.run(),
        Command::Serve(serve) => serve.run(common).await,
        Command::Invite(invite) => reminded(common, invite.run(common).await),
        Command::Bundle(bundle) => reminded(common, bundle.run(common).await),
        Command::Release(release) => release.run(common).await,
        Command::Node(node) => reminded(common, node.run(common).await),
        Command::User(user) => user.run(common).await,
        Command::Status(status) => status.run(common).await,
        Command::Audit(audit) => audit.run(common).await,
        Command::Plan(plan) => plan.run(common).await,
        Command::Publish(publish) => reminded(common, publish.run(common).await),
        Command::Rollback(rollback) => Box::pin(rollback.run(common)).await,
        Command::Confirm(confirm) => confirm.run(common).await,
        Command::Fleet(fleet) => fleet.run(common),
        Command::Check(check) => check.run(common),
        Command::Access(access) => access.run(common),
        Command::Compile(compile) => compile.run(common),
        Command::Refresh(refresh) => reminded(common, refresh.run(common).await),
        Command::Gateway(gateway) => reminded(common, gateway.run(common).await),
        Command::Trust(trust) => reminded(common, Box::pin(trust.run(common)).await),
        Command::Rotate(rotate) => reminded(common, Box::pin(rotate.run(common)).await),
        Command::Mandate(mandate) => mandate.run(common).await,
        Command::Suspend(suspend) => suspend.run(common).await,
        Command::Sign(sign) => sign.run(common).await,
        Command::Send(send) => send.run(common).await,
        Command::Signer(signer) => signer.run(common).await,
        Command::Recover(recover) => recover.run(common).await,
        Command::Org(org) => org.run(common),
        Command::Unlock(unlock) => unlock.run(common),
        Command::Lock(LockCommand {}) => LockCommand::run(common),
        Command::Token(token) => token.run(common),
        Command::Agent(agent) => agent.run().await,
        Command::Landing(landing) => landing.run(common).await,
        Command::Doctor(doctor) => doctor.run(common).await,
        Command::Here(here) => here.run(common).await,
        Command::Completions(completions) => completions.run(Cli::command()),
        // `freehold-node` is another program, and has a page of that name.
        Command::Man(man) => man.run(Cli::command().mut_subcommand("node", |node| node.display_name("freehold-nodes"))),
        Command::Backup(backup) => backup.run(common),
    }
}

/// The commands of every day remind whoever has no backup yet.
fn reminded(common: &Common, done: Result<(), Failure>) -> Result<(), Failure> {
    if done.is_ok() {
        reminder::at_terminal(common);
    }
    done
}
