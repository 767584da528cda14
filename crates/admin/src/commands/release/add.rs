//! `freehold release add`: agents, one for each platform.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use operate::release;
use operate::release::files::Sent;
use operate::release::{NoAgent, read_agent};
use org::release::executable::NotAnAgent;
use org::release::{Agent, AgentVersion, MAX_FILE};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::screen::Live;
use terminal::show::show;

use super::told::ReleaseTold;
use crate::home::{Common, During};
use crate::waiting::{self, Left, leave};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold release add /usr/local/bin/freehold-node
  freehold release add linux/freehold-node mac/freehold-node windows/freehold-node.exe

System, architecture and version are read from each file; none is run. An agent takes the place of the one for the same
platform, the others stay. From then on the line of `freehold invite create` installs these; lines that were made before
go on installing what they name.")]
pub struct Add {
    /// Programs `freehold-node`
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The version of the agents, where a file does not say it
    #[arg(long, value_name = "VERSION")]
    agent_version: Option<AgentVersion>,
}

#[derive(Serialize)]
struct Added {
    release: ReleaseTold,
    #[serde(flatten)]
    pending: Left,
}

impl Add {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not add to the release";
        let mut programs: Vec<(Agent, Vec<u8>)> = Vec::new();
        for path in &self.files {
            let bytes = read(path, doing)?;
            let agent = read_agent(&bytes, self.agent_version.as_ref()).map_err(|why| no_agent(doing, path, &why))?;
            if programs.iter().any(|(other, _)| other.platform() == agent.platform()) {
                let why = format!("two of the files are for {} {}", agent.os, agent.arch);
                return Err(Failure::usage(doing, why).hint("give one for each platform"));
            }
            programs.push((agent, bytes));
        }
        let (mut session, keys) = common.signing_session(doing).await?;
        let mut bar = Bar::new(common.json);
        let made = release::publish(&mut session, &keys, &programs, |sent| bar.show(sent)).await;
        let made = made.during(doing)?;
        let pending = leave(common, doing, &session.known, &made)?;
        let release = ReleaseTold::of(&made.what, None, pending.waiting().is_none());
        let told = Added { release, pending };
        show(common.json, &told, || {
            waiting::told(told.pending.waiting(), || {
                format!("{}\n\nThe lines of new invites install these: freehold invite create", told.release.in_words())
            })
        });
        Ok(())
    }
}

/// Bounded: a wrong path may lead to a disk.
fn read(path: &Path, doing: &str) -> Result<Vec<u8>, Failure> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|why| Failure::failed(doing, format!("cannot read `{}`: {why}", path.display())))
}

fn no_agent(doing: &str, path: &Path, why: &NoAgent) -> Failure {
    let failure = Failure::usage(doing, format!("`{}`: {why}", path.display()));
    match why {
        NoAgent::Program(NotAnAgent::Universal) => failure,
        NoAgent::Program(_) => failure.hint("give programs `freehold-node`, as they were built for each platform"),
        NoAgent::TooLarge => failure.hint("strip it: strip freehold-node"),
        NoAgent::NoVersion => failure.hint("is it freehold-node? If so, say its version: --agent-version VERSION"),
        NoAgent::OtherVersion { .. } => failure.hint("leave out --agent-version: the file says it"),
    }
}

/// How far it is, where somebody looks.
struct Bar(Option<Live>);

impl Bar {
    fn new(json: bool) -> Self {
        Self(Live::new().filter(|_| !json))
    }

    fn show(&mut self, Sent { done, all }: Sent) {
        const MIB: u64 = 1 << 20;
        // What is handed in at once needs no bar.
        if let Some(live) = self.0.as_mut().filter(|_| all > MIB) {
            let percent = (done * 100).checked_div(all).unwrap_or(100);
            live.draw(&[format!("handing in: {percent:>3} % of {} MiB", all.div_ceil(MIB))]);
        }
    }
}
