//! `freehold-node join`: from an invite code to a member.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use ground::file::{self, FileAccess};
use identity::key::Sign;
use identity::principal::host::HostName;
use identity::principal::label::Label;
use identity::principal::{Name, NodeName};
use identity::time::Seconds;
use member::agent::status::{NodeStatus, WaitingStatus};
use member::ask::enroll::bundle::Opened;
use member::ask::enroll::rejoin::{self, Begun, NotRejoined};
use member::ask::enroll::{self, Step};
use member::ask::error::AskError;
use member::ask::host::own_full_name;
use member::store::scope::trust::TrustPaths;
use member::store::scope::waiting::Waiting;
use member::store::scope::{Scope, Wish, read_key};
use org::invite::code::{InviteCode, Ticket};
use terminal::facts;
use terminal::failure::{During, Exit, Failure};
use terminal::show::show;
use wire::connect::CallError;
use wire::known::carried::KnownOrg;
use zeroize::Zeroizing;

use crate::commands::bundle;
use crate::commands::roots::{ScopeOptions, name_of};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node join --name web-1 < code.txt        the code from a file or a pipe: it stays out of `ps`
  freehold-node join --invite-file /run/invite
  freehold-node join                                asks for the code, or goes on with one that waits
  freehold-node join --no-wait < code.txt           exit code 5 if an operator must approve it first
  freehold-node join --bundle web-1.bundle          a bundle that an operator issued or signed
  freehold-node join --old-key node.key < code.txt  reinstalled: the old key proves it, and the name stays
  freehold-node join --as harbor-2 < code.txt       another org of the same name: its scope gets a name of its own

Running it again is safe: the same machine gets the same answer, and one use is spent.")]
pub struct Join {
    /// The invite code; others on this machine can see it while the command runs: prefer stdin or --invite-file
    #[arg(long, value_name = "CODE", env = "FREEHOLD_INVITE", hide_env_values = true, conflicts_with = "invite_file")]
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
    /// The full host name to claim, where a pattern or a code asks for one [default: this machine's]
    #[arg(long, value_name = "HOST")]
    host: Option<HostName>,
    /// The node key that this machine had before it was reinstalled: it keeps its name, with a new key
    #[arg(long, value_name = "FILE")]
    old_key: Option<PathBuf>,
    /// This machine's name in the org [default: its host name]
    #[arg(long, env = "FREEHOLD_NAME", overrides_with = "name")]
    name: Option<NodeName>,
    /// A label that the invite allows, as KEY=VALUE; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<Label>,
    /// A role that the invite allows; may be repeated
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<Name>,
    /// Write the name of the scope into FILE when this machine is a member: for scripts
    #[arg(long, value_name = "FILE")]
    tell: Option<PathBuf>,
    /// Do not wait for an operator's approval, if one is needed; run this again, or `freehold-node run`, to go on
    #[arg(long)]
    no_wait: bool,
    /// Wait so long at most for an operator's approval [default: as long as the invite can be used]
    #[arg(long, value_name = "SPAN", conflicts_with = "no_wait")]
    wait: Option<Seconds>,
    /// Write the roots of gateways here for other programs [default: trust/endpoint.pem in the scope]
    #[arg(long, value_name = "FILE")]
    endpoint_pem: Option<PathBuf>,
    /// Write the roots of members here for other programs [default: trust/identity.pem in the scope]
    #[arg(long, value_name = "FILE")]
    identity_pem: Option<PathBuf>,
}

/// With what a machine comes.
struct In {
    code: InviteCode,
    /// Of a join that waits here.
    wish: Option<Wish>,
    /// For which a bundle was made.
    name: Option<NodeName>,
    /// What a bundle brought along.
    org: Option<KnownOrg>,
}

impl Join {
    pub async fn run(self, common: &ScopeOptions) -> Result<(), Failure> {
        let doing = "could not join";
        let old_key = self.old_key.as_deref().map(read_key).transpose().during(doing)?;
        let In { code, wish, name, org } = self.code(common, doing)?;
        let doing = format!("could not join `{}`", code.name);
        if let Some(org) = common.org.as_ref().filter(|org| **org != code.name) {
            return Err(Failure::usage(doing, format!("the code is for the org `{}`, and not for `{org}`", code.name))
                .hint(format!("leave --org out; to keep it under another name on this machine: --as {org}")));
        }
        let folder = common.scope.as_ref().unwrap_or(&code.name);
        let scope = Scope::at(&common.root(), folder);
        let _turn = rejoin::take_turn(&common.root(), folder).await.map_err(|why| not_again(&doing, why))?;
        let tell = self.tell.clone();
        if rejoin::finish(&scope, &code).await.map_err(|why| not_again(&doing, why))? {
            return told(common, &scope, tell.as_deref(), &doing);
        }
        let host = self.wanted_host(&code);
        let trust = wanted_paths(self.endpoint_pem.as_deref(), self.identity_pem.as_deref(), &doing)?;
        let wish = match wish {
            Some(wish) => Wish { trust: trust.or(wish.trust), ..wish },
            None => Wish {
                name: self.wanted_name(name, host.as_ref(), &doing)?,
                host,
                replaces: old_key.as_ref().map(Sign::public),
                labels: self.labels.into_iter().collect(),
                roles: self.roles.into_iter().collect(),
                trust,
            },
        };
        if let Some(paths) = &wish.trust {
            scope.check_trust_paths(paths).during(&doing)?;
        }
        let patience = if self.no_wait { Some(Seconds(0)) } else { self.wait };
        let patience = patience.map(|span| Duration::from_secs(span.0));
        let quiet = common.json || !std::io::stderr().is_terminal();
        let step = |step: Step<'_>| match step {
            Step::Doing(step) if !quiet => eprintln!("  {step}"),
            // It is told at the end.
            Step::Waits(_) if self.no_wait => {}
            Step::Doing(_) => {}
            Step::Waits(waiting) if common.json => {
                eprintln!("{}", facts::line(&WaitingStatus::of(waiting)));
            }
            Step::Waits(waiting) => eprintln!("{}", in_words(waiting)),
        };
        let shown = enroll::Shown { code: &code, old_key: old_key.as_ref(), org: org.as_ref() };
        match enroll::join(&scope, shown, &wish, patience, step).await {
            Ok(_) => told(common, &scope, tell.as_deref(), &doing),
            Err(AskError::Waits { .. }) => Err(still_waits(common, &scope, &doing)),
            Err(why) => Err(failed(&doing, why)),
        }
    }

    /// The code in hand; without one, that of a join that waits here, with what it wants to be.
    fn code(&self, common: &ScopeOptions, doing: &str) -> Result<In, Failure> {
        if let Some(path) = &self.bundle {
            let Opened { bundle, org } = bundle::open(path, self.passphrase_file.as_deref(), doing)?;
            return Ok(In { code: bundle.code, wish: None, name: Some(bundle.name), org });
        }
        let is_named = self.invite.is_some() || self.invite_file.is_some() || self.name.is_some();
        let begun = if is_named { None } else { rejoin::begun(&common.root(), common.wanted()).during(doing)? };
        let text = if begun.is_some() && nothing_to_read() { Zeroizing::default() } else { self.code_text(doing)? };
        match begun {
            Some(Begun { wish, code }) if text.trim().is_empty() => {
                Ok(In { code, wish: Some(wish), name: None, org: None })
            }
            _ => match text.parse() {
                Ok(code) => Ok(In { code, wish: None, name: None, org: None }),
                Err(why) => Err(not_a_code(doing, &why)),
            },
        }
    }

    /// Only where it is asked for: a host name that nobody asked for is nobody's business.
    fn wanted_host(&self, code: &InviteCode) -> Option<HostName> {
        match (&self.host, &code.ticket) {
            (Some(host), _) => Some(host.clone()),
            (None, Ticket::Pattern | Ticket::HostToken { .. }) => own_full_name(),
            (None, Ticket::Token { .. } | Ticket::Key { .. } | Ticket::Machine { .. }) => None,
        }
    }

    fn code_text(&self, doing: &str) -> Result<Zeroizing<String>, Failure> {
        if let Some(code) = &self.invite {
            return Ok(Zeroizing::new(code.clone()));
        }
        if let Some(path) = &self.invite_file {
            let bytes = file::read(path).map(Zeroizing::new).during(doing)?;
            return Ok(Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned()));
        }
        if std::io::stdin().is_terminal() {
            eprint!("invite code: ");
            let mut line = Zeroizing::new(String::new());
            std::io::stdin().read_line(&mut line).during(doing)?;
            return Ok(line);
        }
        let mut text = Zeroizing::new(String::new());
        std::io::stdin().take(64 << 10).read_to_string(&mut text).during(doing)?;
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

/// Is stdin at its end, or a terminal at which nobody has typed anything? A pipe or a file with something in it is a code.
fn nothing_to_read() -> bool {
    use rustix::fs::FileType;
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return true;
    }
    let kind = rustix::fs::fstat(&stdin).map(|stat| FileType::from_raw_mode(stat.st_mode));
    !matches!(kind, Ok(FileType::Fifo | FileType::RegularFile | FileType::Socket))
}

fn not_a_code(doing: &str, why: &org::invite::code::BadCode) -> Failure {
    Failure::usage(doing, why.to_string()).hint("ask an operator for a new one: freehold invite create")
}

fn failed(doing: &str, why: AskError) -> Failure {
    let failure = Failure::new(doing, &why);
    match why {
        AskError::OtherWish { begun } => failure
            .hint(format!("finish it: freehold-node join --name {begun}; or give it up: freehold-node leave --local")),
        // Nobody can tell these two apart from here: whoever has no root in common with the org believes nothing.
        AskError::Call(why) if why.is_unknown_root() => failure.also(
            "or the code pins a root that the org uses no more: then ask an operator for a new code: freehold invite create",
        ),
        AskError::Call(why) if why.is_worth_retrying() => {
            failure.hint("is the gateway running, and can this machine reach it? Run this again later: nothing is lost")
        }
        _ => failure,
    }
}

fn not_again(doing: &str, why: NotRejoined) -> Failure {
    let (why, joined) = match why {
        NotRejoined::StillJoining => return Failure::new(doing, &why).hint("wait for it"),
        NotRejoined::AgentRuns => return Failure::new(doing, &why).hint("stop it, and run this again"),
        NotRejoined::OtherOrg { .. } => {
            let hint = "give the scope of this one a name of its own: --as NAME";
            return Failure::new(doing, &why).hint(hint).exit(Exit::Refused);
        }
        NotRejoined::Scope(why) => return Failure::new(doing, &why),
        NotRejoined::File(why) => return Failure::new(doing, &why),
        NotRejoined::Asking { why, joined } => (why, joined),
    };
    let failure = Failure::new(doing, &why);
    match why {
        _ if !joined => failure,
        AskError::Call(CallError::NotAccepted { .. } | CallError::Refused(_)) | AskError::Revoked => {
            failure.hint("it was a member once; an operator lets it join as a new machine: freehold node replace NAME")
        }
        _ => failure.hint("this machine joined before; its gateway cannot be asked right now: freehold-node status"),
    }
}

/// A person must say yes, and this run has waited as long as it should.
fn still_waits(common: &ScopeOptions, scope: &Scope, doing: &str) -> Failure {
    match scope.waiting() {
        Ok(Some((waiting, _))) => {
            show(common.json, &WaitingStatus::of(&waiting), || in_words(&waiting));
            Failure::failed(format!("{doing} yet"), "an operator must approve this machine first")
                .hint("then run this again, or freehold-node run: it goes on")
                .exit(Exit::Waiting)
        }
        Ok(None) => Failure::failed(doing, "an operator must approve this machine first").exit(Exit::Waiting),
        Err(why) => Failure::new(doing, &why),
    }
}

/// For whoever sits at the machine.
pub(crate) fn in_words(waiting: &Waiting) -> String {
    let typed = waiting.words.iter().collect::<Vec<_>>().join(" ");
    format!(
        "`{}` waits for an operator of `{}`. Its words are:\n\n    {}\n\nThe operator compares them, and says yes: \
         freehold node approve {typed}",
        waiting.name, waiting.org, waiting.words
    )
}

/// Goes on with a join that waits, for the agent.
pub(crate) async fn go_on(common: &ScopeOptions, scope: &Scope, code: &InviteCode) -> Result<(), Failure> {
    let doing = format!("could not join `{}`", code.name);
    let folder = name_of(scope).parse().during(&doing)?;
    let _turn = rejoin::take_turn(&common.root(), &folder).await.map_err(|why| not_again(&doing, why))?;
    if scope.node().during(&doing)?.is_some() {
        return Ok(());
    }
    let wish = scope.wish().during(&doing)?;
    let wish = wish.ok_or_else(|| Failure::failed(&doing, "what this machine wanted to be is lost"))?;
    let tell = |step: Step<'_>| match step {
        Step::Doing(step) => tracing::debug!("{step}"),
        Step::Waits(waiting) => tracing::warn!(
            name = %waiting.name, words = %waiting.words,
            "this machine waits until an operator approves it: freehold node approve"
        ),
    };
    let shown = enroll::Shown { code, old_key: None, org: None };
    enroll::join(scope, shown, &wish, None, tell).await.map(drop).map_err(|why| failed(&doing, why))
}

fn told(common: &ScopeOptions, scope: &Scope, tell: Option<&Path>, doing: &str) -> Result<(), Failure> {
    let status = NodeStatus::from_disk(scope).during(doing)?;
    if let Some(path) = tell {
        let name = format!("{}\n", name_of(scope));
        file::write(path, name.as_bytes(), FileAccess::Private).during(doing)?;
    }
    show(common.json, &status, || {
        let (name, org, id) = (&status.name, &status.org, &status.spiffe_id);
        format!("`{name}` is a member of `{org}` as {id}\nkeep it so: {}", common.agent(scope))
    });
    Ok(())
}

/// Where the roots are to be for others; nothing if that was not said.
pub(crate) fn wanted_paths(
    endpoint: Option<&Path>,
    identity: Option<&Path>,
    doing: &str,
) -> Result<Option<TrustPaths>, Failure> {
    let absolute = |path: &Path| std::path::absolute(path).during(doing);
    let endpoint = endpoint.map(absolute).transpose()?;
    let identity = identity.map(absolute).transpose()?;
    let paths = TrustPaths { endpoint, identity };
    Ok((paths != TrustPaths::default()).then_some(paths))
}
