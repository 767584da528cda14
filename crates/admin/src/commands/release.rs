//! `freehold release add | list | show | prune`: the agents that machines install and run.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use identity::id::Digest;
use identity::time::Seconds;
use operate::release;
use operate::release::files;
use operate::release::files::Sent;
use operate::release::{NoAgent, read_agent};
use org::release::executable::NotAnAgent;
use org::release::{Agent, AgentVersion, MAX_FILE, Release};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::screen::Live;
use terminal::show::show;
use terminal::table::table;

use crate::home::{Common, During};
use crate::waiting::{self, Left, leave};

#[derive(Debug, Subcommand)]
pub enum ReleaseCommand {
    /// Add agents to the release: programs `freehold-node`, one for each platform
    Add(Add),
    /// List the releases
    List(List),
    /// Show a release and the agents in it
    Show(Show),
    /// Remove files from the gateway that neither the release nor an invite names
    Prune(Prune),
}

impl ReleaseCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::Add(add) => add.run(common).await,
            Self::List(list) => list.run(common).await,
            Self::Show(show) => show.run(common).await,
            Self::Prune(prune) => prune.run(common).await,
        }
    }
}

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

#[derive(Serialize)]
struct ReleaseTold {
    number: u64,
    created_at: String,
    digest: Option<Digest>,
    current: bool,
    list: Digest,
    agents: Vec<Agent>,
}

impl ReleaseTold {
    fn of(release: &Release, digest: Option<Digest>, current: bool) -> Self {
        Self {
            number: release.number,
            created_at: release.created_at.to_string(),
            digest,
            current,
            list: release.list,
            agents: release.agents.clone(),
        }
    }

    fn in_words(&self) -> String {
        let row = |agent: &Agent| {
            let Agent { os, arch, version, size, sha256 } = agent;
            vec![os.to_string(), arch.to_string(), version.to_string(), size.to_string(), sha256.to_string()]
        };
        let rows: Vec<_> = self.agents.iter().map(row).collect();
        let standing = if self.current { ", in force" } else { "" };
        let agents = table(&["SYSTEM", "ARCH", "VERSION", "BYTES", "SHA-256"], &rows);
        format!("release {} of {}{standing}\n\n{agents}", self.number, self.created_at)
    }
}

impl Add {
    async fn run(self, common: &Common) -> Result<(), Failure> {
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

#[derive(Debug, Args)]
pub struct List {}

impl List {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not list the releases";
        let mut session = common.session(doing).await?;
        let releases = release::all(&mut session).await.during(doing)?;
        let named = session.head().release;
        let told: Vec<ReleaseTold> = releases
            .all
            .iter()
            .map(|(digest, release)| ReleaseTold::of(release, Some(*digest), Some(*digest) == named))
            .collect();
        show(common.json, &told, || {
            if told.is_empty() {
                return "no release yet: freehold release add FILE...".to_owned();
            }
            let row = |release: &ReleaseTold| {
                let agents: Vec<_> =
                    release.agents.iter().map(|it| format!("{}/{} {}", it.os, it.arch, it.version)).collect();
                let standing = if release.current { "in force" } else { "-" };
                vec![release.number.to_string(), standing.to_owned(), release.created_at.clone(), agents.join(", ")]
            };
            table(&["RELEASE", "STATE", "CREATED", "AGENTS"], &told.iter().map(row).collect::<Vec<_>>())
        });
        Ok(())
    }
}

#[derive(Debug, Args)]
pub struct Show {
    /// Its number [default: the one in force]
    number: Option<u64>,
}

impl Show {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not show the release";
        let mut session = common.session(doing).await?;
        let releases = release::all(&mut session).await.during(doing)?;
        let named = session.head().release;
        let wanted = |(digest, release): &&(Digest, Release)| match self.number {
            Some(number) => release.number == number,
            None => Some(*digest) == named,
        };
        let Some((digest, release)) = releases.all.iter().find(wanted) else {
            return Err(match self.number {
                Some(number) => Failure::failed(doing, format!("there is no release {number}"))
                    .hint("see which there are: freehold release list"),
                None => {
                    Failure::failed(doing, "there is no release yet").hint("make one: freehold release add FILE...")
                }
            });
        };
        let told = ReleaseTold::of(release, Some(*digest), Some(*digest) == named);
        show(common.json, &told, || told.in_words());
        Ok(())
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold release prune                        what the gateway would remove by itself, now
  freehold release prune --unused-for 0s        also what was handed in just now

The gateway does it every hour. What waits for other operators' signatures names its files only when it was sent: with a
short time they may be gone by then.")]
pub struct Prune {
    /// Only what nobody handed in or asked about for so long
    #[arg(long, value_name = "SPAN", default_value = "7d")]
    unused_for: Seconds,
}

#[derive(Serialize)]
struct Pruned {
    files: u64,
    bytes: u64,
}

impl Prune {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not remove unused files";
        let mut session = common.session(doing).await?;
        let (files, bytes) = files::sweep(&mut session, self.unused_for).await.during(doing)?;
        let told = Pruned { files, bytes };
        show(common.json, &told, || format!("removed {files} file(s), {bytes} bytes"));
        Ok(())
    }
}
