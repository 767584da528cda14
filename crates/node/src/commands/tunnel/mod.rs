//! `freehold-node tunnel run`: the process that carries streams. The agent starts it; nobody else has what it needs.

pub(crate) mod streams;
pub mod port;
pub mod top;
pub mod caller;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use clap::Subcommand;
use identity::principal::OrgName;
use rustix::fs::FileType;
use terminal::failure::{During, Failure};
use tokio::runtime::Builder;
use tunnel::process::{obey, sandbox};

#[derive(Debug, Subcommand)]
pub enum TunnelCommand {
    /// Carry streams, as the agent at the other end of standard input says
    #[command(
        after_help = "The agent starts it: standard input is a socket to it, standard output takes the lines of the access log, and
the agent copies what is logged on standard error, marked `tunnel:`. It gives up what it does not need first: new privileges, core files, and every file but those by which names are
resolved. It ends when the agent does. To see how it is: freehold-node status, freehold-node top"
    )]
    Run {
        /// For which org it is: so that `ps` shows it
        #[arg(value_name = "ORG")]
        org: Option<OrgName>,
    },
}

/// What `ps` and `top` call it, in at most 15 bytes.
const COMM: &str = "freehold-tunnel";

impl TunnelCommand {
    /// Makes its own threads, since it confines itself before there is a second one.
    pub fn run(&self) -> Result<(), Failure> {
        let doing = "the tunnel stopped";
        let Self::Run { org: _ } = self;
        // The file that was started has no name of ours. It is not needed for anything.
        let _ = std::fs::write("/proc/self/comm", COMM);
        let (control, log) = handed().map_err(|why| {
            Failure::new("could not run the tunnel", &why).hint("the agent starts it: freehold-node run")
        })?;
        let confined = sandbox::confine().during(doing)?;
        terminal::log::log_aside().during(doing)?;
        confined.complain();
        tracing::info!(sandbox = %confined, open_files = confined.open_files, "the tunnel runs");
        let runtime = Builder::new_multi_thread().enable_all().build().during(doing)?;
        let ran = runtime.block_on(obey::run(control, log, &confined));
        // What still resolves a name is not waited for.
        runtime.shutdown_background();
        ran.during(doing)
    }
}

/// The socket and the log, as the agent left them.
fn handed() -> io::Result<(UnixStream, File)> {
    let control: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    if !FileType::from_raw_mode(rustix::fs::fstat(&control)?.st_mode).is_socket() {
        return Err(io::Error::other("standard input is no socket"));
    }
    let log: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
    Ok((UnixStream::from(control), File::from(log)))
}
