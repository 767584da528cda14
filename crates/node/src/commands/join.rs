//! `freehold-node join`: from an invite code to a member.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use ground::file::{self, Lock};
use identity::host::HostName;
use identity::key::Sign;
use identity::label::Label;
use identity::principal::{Name, NodeName, OrgName};
use org::carried::JoinBundle;
use org::code::{InviteCode, Ticket};
use wire::connect::{CallError, Gateway};
use zeroize::Zeroizing;

use crate::agent::status::Status;
use crate::ask::call::{AskError, is_revoked};
use crate::ask::enroll;
use crate::ask::host::own_full_name;
use crate::commands::bundle;
use crate::commands::roots::Common;
use crate::report::{Failure, show};
use crate::store::scope::{NodeFile, Scope, ScopeError, Wish, read_key};

/// A join that must wait for another one gives up after this.
const TURN_TIME: Duration = Duration::from_mins(1);
/// Longer than an agent rests between two check-ins.
const AGENT_TIME: Duration = Duration::from_secs(90);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node join --name web-1 < code.txt        the code from a file or a pipe: it stays out of `ps`
  freehold-node join --invite-file /run/invite
  freehold-node join                                asks for the code
  freehold-node join --bundle web-1.bundle          a bundle that an operator issued or signed
  freehold-node join --old-key node.key < code.txt  reinstalled: the old key proves it, and the name stays

Running it again is safe: the same machine gets the same answer, and one use is spent.")]
pub struct Join {
    /// The invite code; others on this machine can see it while the command runs: prefer stdin or --invite-file
    #[arg(long, value_name = "CODE", conflicts_with = "invite_file")]
    invite: Option<String>,
    /// Read the code from a file
    #[arg(long, value_name = "FILE", visible_alias = "pattern-file")]
    invite_file: Option<PathBuf>,
    /// Join with a bundle: an encrypted file, or what an operator made of this machine's request
    #[arg(long, value_name = "FILE", conflicts_with_all = ["invite", "invite_file"])]
    bundle: Option<PathBuf>,
    /// Read the bundle's passphrase from a file instead of asking
    #[arg(long, value_name = "FILE", requires = "bundle")]
    passphrase_file: Option<PathBuf>,
    /// The full host name to claim, where a pattern asks for one [default: this machine's]
    #[arg(long, value_name = "HOST")]
    host: Option<HostName>,
    /// The node key that this machine had before it was reinstalled: it keeps its name, with a new key
    #[arg(long, value_name = "FILE")]
    old_key: Option<PathBuf>,
    /// This machine's name in the org [default: its host name]
    #[arg(long)]
    name: Option<NodeName>,
    /// A label that the invite allows, as KEY=VALUE; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<Label>,
    /// A role that the invite allows; may be repeated
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<Name>,
}

impl Join {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not join";
        let (code, name) = self.code(doing)?;
        let old_key = self.old_key.as_deref().map(read_key).transpose().map_err(|why| Failure::new(doing, &why))?;
        let doing = format!("could not join `{}`", code.name);
        let scope = Scope::at(&common.root(), &code.name);
        let _turn = take_turn(&common.root(), &code.name, &doing).await?;
        if let Some(node) = scope.node().map_err(|why| Failure::new(&doing, &why))?
            && !is_over(&scope, &node, &code, &doing).await?
        {
            return again(common, &scope, node, &code, &doing).await;
        }
        let host = self.wanted_host(&code);
        let wish = Wish {
            name: self.wanted_name(name, host.as_ref(), &doing)?,
            host,
            replaces: old_key.as_ref().map(Sign::public),
            labels: self.labels.into_iter().collect(),
            roles: self.roles.into_iter().collect(),
        };
        let quiet = common.json || !std::io::stderr().is_terminal();
        let tell = |step: &str| {
            if !quiet {
                eprintln!("  {step}");
            }
        };
        let shown = enroll::Shown { code: &code, old_key: old_key.as_ref() };
        enroll::join(&scope, shown, &wish, tell).await.map_err(|why| {
            let failure = Failure::new(&doing, &why);
            match why {
                AskError::OtherWish { begun } => failure.hint(format!(
                    "finish it: freehold-node join --name {begun}; or give it up: freehold-node leave --local"
                )),
                AskError::Call(why) if why.is_worth_retrying() => failure.hint(
                    "is the gateway running, and can this machine reach it? Run this again later: nothing is lost",
                ),
                _ => failure,
            }
        })?;
        told(common, &scope, &doing)
    }

    /// The code, and the name that a bundle was made for.
    fn code(&self, doing: &str) -> Result<(InviteCode, Option<NodeName>), Failure> {
        if let Some(path) = &self.bundle {
            let JoinBundle { code, name } = bundle::open(path, self.passphrase_file.as_deref(), doing)?;
            return Ok((code, Some(name)));
        }
        let code = self.code_text(doing)?.parse().map_err(|why: org::code::BadCode| {
            Failure::usage(doing, why.to_string()).hint("ask an operator for a new one: freehold invite create")
        })?;
        Ok((code, None))
    }

    /// Only where it is asked for: a host name that nobody asked for is nobody's business.
    fn wanted_host(&self, code: &InviteCode) -> Option<HostName> {
        match (&self.host, &code.ticket) {
            (Some(host), _) => Some(host.clone()),
            (None, Ticket::Pattern) => own_full_name(),
            (None, Ticket::Token { .. } | Ticket::Key { .. } | Ticket::Machine { .. }) => None,
        }
    }

    fn code_text(&self, doing: &str) -> Result<Zeroizing<String>, Failure> {
        if let Some(code) = &self.invite {
            return Ok(Zeroizing::new(code.clone()));
        }
        if let Some(path) = &self.invite_file {
            let bytes = file::read(path).map(Zeroizing::new).map_err(|why| Failure::new(doing, &why))?;
            return Ok(Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned()));
        }
        if std::io::stdin().is_terminal() {
            eprint!("invite code: ");
            let mut line = Zeroizing::new(String::new());
            std::io::stdin().read_line(&mut line).map_err(|why| Failure::new(doing, &why))?;
            return Ok(line);
        }
        let mut text = Zeroizing::new(String::new());
        std::io::stdin().take(64 << 10).read_to_string(&mut text).map_err(|why| Failure::new(doing, &why))?;
        Ok(text)
    }

    fn wanted_name(&self, given: Option<NodeName>, host: Option<&HostName>, doing: &str) -> Result<NodeName, Failure> {
        let of_host = || NodeName::of_host(host?.as_str()).ok();
        if let Some(name) = self.name.clone().or(given).or_else(of_host) {
            return Ok(name);
        }
        let uname = rustix::system::uname();
        let host = uname.nodename().to_string_lossy();
        enroll::own_name(&host).ok_or_else(|| {
            Failure::usage(doing, format!("the host name `{host}` cannot be this machine's name"))
                .hint("give one: --name NAME")
        })
    }
}

/// One join of a scope at a time, or each would draw a node key of its own. The second waits, and finds the work done.
/// The lock lies beside the scope, not in it: a join that comes to nothing leaves no scope.
async fn take_turn(root: &Path, org: &OrgName, doing: &str) -> Result<Lock, Failure> {
    let failed = |why: file::FileError| Failure::new(doing, &why);
    file::make_private_folder(root).map_err(failed)?;
    let path = root.join(format!(".{org}.joining"));
    let deadline = Instant::now() + TURN_TIME;
    loop {
        if let Some(lock) = Lock::take(&path).map_err(failed)? {
            return Ok(lock);
        }
        if Instant::now() >= deadline {
            return Err(Failure::failed(doing, "another join of this machine is still running").hint("wait for it"));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A fresh code on a machine whose key was revoked: the old keys are of no use to anybody, and go. Not a refusal's
/// word counts but the signed head.
async fn is_over(scope: &Scope, node: &NodeFile, code: &InviteCode, doing: &str) -> Result<bool, Failure> {
    if node.org_id != code.org || (node.invite.is_some() && node.invite == code.ticket.invite()) {
        return Ok(false);
    }
    let gateways: Vec<Gateway> = node.gateways.iter().chain(&code.gateways).cloned().map(Gateway::from).collect();
    if !is_revoked(scope, &gateways).await.unwrap_or(false) {
        return Ok(false);
    }
    let failed = |why: ScopeError| Failure::new(doing, &why);
    // Its agent ends by itself when it next asks. Held until the scope is gone: a new one gets a lock of its own.
    let deadline = Instant::now() + AGENT_TIME;
    let _agent = loop {
        if let Some(lock) = scope.lock().map_err(failed)? {
            break lock;
        }
        if Instant::now() >= deadline {
            let why = "the agent of this machine's old key, which was revoked, still runs";
            return Err(Failure::failed(doing, why).hint("stop it, and run this again"));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    scope.wipe().map_err(failed)?;
    tracing::info!(name = %node.name, "this machine's old key was revoked and is wiped; it joins as a new machine");
    Ok(true)
}

/// A second run: finishes what was begun, touches nothing that is done.
async fn again(common: &Common, scope: &Scope, node: NodeFile, code: &InviteCode, doing: &str) -> Result<(), Failure> {
    if node.org_id != code.org {
        let why = format!("this machine is already in another org that is also called `{}`", code.name);
        return Err(Failure::refused(doing, why).hint("use another folder for it: --root DIR"));
    }
    let joined = node.joined;
    enroll::come_back(scope, node).await.map_err(|why| {
        let failure = Failure::new(doing, &why);
        match why {
            _ if !joined => failure,
            AskError::Call(CallError::NotAccepted { .. } | CallError::Refused(_)) | AskError::Revoked => failure
                .hint("it was a member once; an operator lets it join as a new machine: freehold node replace NAME"),
            _ => {
                failure.hint("this machine joined before; its gateway cannot be asked right now: freehold-node status")
            }
        }
    })?;
    told(common, scope, doing)
}

fn told(common: &Common, scope: &Scope, doing: &str) -> Result<(), Failure> {
    let status = Status::from_disk(scope).map_err(|why| Failure::new(doing, &why))?;
    show(common.json, &status, || {
        format!(
            "`{}` is a member of `{}` as {}\nkeep it so: freehold-node run{}",
            status.name,
            status.org,
            status.spiffe_id,
            common.root.as_ref().map(|root| format!(" --root {}", root.display())).unwrap_or_default()
        )
    });
    Ok(())
}
