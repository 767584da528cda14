//! `freehold`: founds an org and operates it.

mod home;
mod local;
mod found;
mod backup;
mod reminder;
mod commands;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use node::report::Failure;

use crate::commands::audit::Audit;
use crate::commands::backup::BackupCommand;
use crate::commands::found::Found;
use crate::commands::invite::InviteCommand;
use crate::commands::node::NodeCommand;
use crate::commands::org::OrgCommand;
use crate::commands::refresh::Refresh;
use crate::commands::serve::Serve;
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
    /// List, show and revoke nodes
    #[command(subcommand)]
    Node(NodeCommand),
    /// Tell everything that was ever changed, and check it
    Audit(Audit),
    /// Renew how long the head and the mandates last
    Refresh(Refresh),
    /// List the orgs of this home
    #[command(subcommand)]
    Org(OrgCommand),
    /// Make, check and restore backups: one encrypted file
    #[command(subcommand)]
    Backup(BackupCommand),
}

#[tokio::main]
async fn main() -> ExitCode {
    node::report::log_to_stderr();
    let cli = Cli::parse();
    match run(cli.command, &cli.common).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.finish(cli.common.json),
    }
}

async fn run(command: Command, common: &Common) -> Result<(), Failure> {
    match command {
        Command::Found(found) => found.run(common).await,
        Command::Serve(serve) => serve.run(common).await,
        Command::Invite(invite) => reminded(common, invite.run(common).await),
        Command::Node(node) => reminded(common, node.run(common).await),
        Command::Audit(audit) => audit.run(common).await,
        Command::Refresh(refresh) => reminded(common, refresh.run(common).await),
        Command::Backup(backup) => backup.run(common),
        Command::Org(org) => {
            org.run(common);
            Ok(())
        }
    }
}

/// The commands of every day remind whoever has no backup yet.
fn reminded(common: &Common, done: Result<(), Failure>) -> Result<(), Failure> {
    if done.is_ok() {
        reminder::at_terminal(common);
    }
    done
}
