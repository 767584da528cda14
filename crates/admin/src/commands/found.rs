//! `freehold found`: a new org.

use std::io::{IsTerminal as _, Write as _};

use clap::Args;
use ground::clock;
use identity::principal::{Address, Name, NodeName, OrgName, SignerName};
use identity::time::Seconds;
use serde::Serialize;
use terminal::confirm::confirm;
use terminal::failure::Failure;
use terminal::show::in_words;
use wire::known::Known;

use crate::backup::reminder;
use crate::found::addresses::{self, Tried};
use crate::found::{self, FoundError, FoundingPlan, Phrase};
use crate::home::{Common, During};
use crate::root_keys::{LifetimeArgs, cut_short};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold found harbor --advertise gw.example:7443
  freehold found lab --advertise 192.0.2.10:7443 --passphrase-file /run/secret
  freehold found harbor --signers 2-of-3             three key files; two must agree on everything

The three recovery phrases are shown once. Write them down and keep them apart: two of them replace lost signer keys.")]
pub struct Found {
    /// The org's name, and its SPIFFE trust domain
    name: OrgName,
    /// Where machines reach this gateway: HOST:PORT, wss://HOST or socks5://PROXY:PORT/HOST:PORT; may be repeated
    /// [default: those of this machine that were tried and lead to it, port 7443]
    #[arg(long, value_name = "ADDRESS")]
    advertise: Vec<Address>,
    /// How many signers there are, and how many must agree
    #[arg(long, value_name = "K-of-N", default_value = "1-of-1")]
    signers: Threshold,
    /// The name of the first user and signer [default: your login]
    #[arg(long, value_name = "NAME")]
    user: Option<Name>,
    /// The name of this machine in the org [default: its host name]
    #[arg(long, value_name = "NAME")]
    node: Option<NodeName>,
    /// How long an SVID lives
    #[arg(long, value_name = "SPAN", default_value = "24h")]
    svid_ttl: Seconds,
    /// How long a recovery waits before it takes effect
    #[arg(long, value_name = "SPAN", default_value = "24h")]
    recovery_delay: Seconds,
    #[command(flatten)]
    lifetimes: LifetimeArgs,
    /// Keep the private keys unencrypted: whoever reads the disk is the operator
    #[arg(long, conflicts_with = "passphrase_file")]
    unprotected: bool,
    /// Found one more org in a home that has some
    #[arg(long)]
    another: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Clone, Copy)]
struct Threshold {
    k: usize,
    n: usize,
}

impl std::str::FromStr for Threshold {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once("-of-").and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
        match parsed {
            Some((k, n)) if 1 <= k && k <= n && n <= 16 => Ok(Self { k, n }),
            _ => Err("write it like 1-of-1 or 2-of-3, with at most 16 signers".to_owned()),
        }
    }
}

#[derive(Serialize)]
struct Told<'a> {
    org: &'a str,
    org_id: String,
    gateway: String,
    addresses: Vec<String>,
    signers: String,
    endpoint_root: String,
    head: u64,
    protected: bool,
    recovery: Vec<&'a str>,
    /// What came of trying each address.
    tried: &'a [Tried],
    warnings: Vec<String>,
}

impl Found {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not found `{}`", self.name);
        self.check_others(common, &doing)?;
        let json = common.json;
        let tried = self.addresses(json, &doing)?;
        let plan = self.plan(common, &tried, &doing)?;
        let show = |phrases: &[Phrase], known: &Known| {
            if json {
                tell_json(&plan, phrases, known, &tried);
            } else {
                tell_phrases(phrases);
            }
        };
        let founded = found::found(&common.home(), &plan, show).await.map_err(|why| {
            let hint = match &why {
                FoundError::Exists(_) => "choose another name, or look at it: freehold org list",
                _ => "nothing was left behind; run it again",
            };
            Failure::new(&doing, &why).hint(hint)
        })?;
        if !json {
            tell_rest(&plan, &founded.known);
        }
        if plan.passphrase.is_none() {
            eprintln!("warning: the private keys in `{}` are NOT encrypted", founded.folder.join("operator").display());
        }
        if let Some(line) = reminder::line(&common.home(), &plan.org).filter(|_| !json) {
            eprintln!("{line}");
        }
        Ok(())
    }

    /// A second org is founded on purpose or not at all.
    fn check_others(&self, common: &Common, doing: &str) -> Result<(), Failure> {
        let orgs = common.orgs();
        if orgs.contains(&self.name) {
            return Err(Failure::refused(doing, format!("there already is an org `{}` here", self.name))
                .hint("choose another name, or look at it: freehold org list"));
        }
        if orgs.is_empty() {
            return Ok(());
        }
        let home = common.home();
        let count = |org: &OrgName| crate::commands::org::list::count_nodes(&home, org);
        let told: Vec<String> = orgs.iter().map(|org| format!("`{org}` ({})", count(org))).collect();
        let what = format!("this home already has: {}", told.join(", "));
        if !self.another {
            return Err(Failure::refused(doing, what).hint("if you mean a second, separate org: add --another"));
        }
        eprintln!("{what}");
        confirm(self.yes, doing, &format!("Found a NEW, separate org `{}`?", self.name))
    }

    /// Tries those that were named, or proposes some, and says what came of it. A proposal that is not good is asked about.
    fn addresses(&self, json: bool, doing: &str) -> Result<Vec<Tried>, Failure> {
        let proposes = self.advertise.is_empty();
        let tried = if proposes { addresses::propose(&host_name()) } else { addresses::look_at(&self.advertise) };
        let warnings = addresses::warnings(&tried);
        if !json {
            for tried in tried.iter().filter(|_| proposes) {
                let word = if tried.chosen { "takes" } else { "leaves out" };
                eprintln!("{word} {}: {}", tried.address, tried.found);
            }
            for line in &warnings {
                eprintln!("warning: {line}");
            }
            if proposes && !warnings.is_empty() {
                eprintln!("Name a better one: --advertise HOST:PORT; or later: freehold gateway address add");
            }
        }
        if proposes && std::io::stdin().is_terminal() && !json {
            confirm(self.yes, doing, "Found with these addresses?")?;
        }
        Ok(tried)
    }

    fn plan(&self, common: &Common, tried: &[Tried], doing: &str) -> Result<FoundingPlan, Failure> {
        let label = member::ask::enroll::own_name(&host_name());
        if self.svid_ttl < Seconds(10) || self.svid_ttl > Seconds::DAY.times(90) {
            return Err(Failure::usage(doing, "an SVID lives between 10s and 90d"));
        }
        let lives = self.lifetimes.lives(doing)?;
        if lives.issuer_is_cut() && !common.json {
            eprintln!("{}", cut_short(clock::now() + lives.root));
        }
        let login = || {
            ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok()?.to_ascii_lowercase().parse().ok())
        };
        let user: Name = match self.user.clone().or_else(login) {
            Some(user) => user,
            None => "operator".parse().during(doing)?,
        };
        let node = match self.node.clone().or(label) {
            Some(node) if node.as_str() != user.as_str() => node,
            _ => "gateway".parse().during(doing)?,
        };
        Ok(FoundingPlan {
            org: self.name.clone(),
            addresses: tried.iter().filter(|tried| tried.chosen).map(|tried| tried.address.clone()).collect(),
            threshold: self.signers.k,
            signers: signer_names(&user, self.signers.n).during(doing)?,
            user,
            node,
            svid_ttl: self.svid_ttl,
            recovery_delay: self.recovery_delay,
            lives,
            passphrase: common.new_passphrase(self.unprotected, doing)?,
        })
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase()
}

fn signer_names(user: &Name, count: usize) -> Result<Vec<SignerName>, identity::principal::BadName> {
    (1..=count).map(|n| if n == 1 { user.to_string().parse() } else { format!("{user}-{n}").parse() }).collect()
}

fn tell_json(plan: &FoundingPlan, phrases: &[Phrase], known: &Known, tried: &[Tried]) {
    let told = Told {
        org: plan.org.as_str(),
        org_id: known.org().to_string(),
        gateway: plan.node.to_string(),
        addresses: plan.addresses.iter().map(ToString::to_string).collect(),
        signers: format!("{}-of-{}", plan.threshold, plan.signers.len()),
        endpoint_root: known.founding.endpoint_fingerprint().to_string(),
        head: known.head.head.version,
        protected: plan.passphrase.is_some(),
        recovery: phrases.iter().map(Phrase::words).collect(),
        tried,
        warnings: addresses::warnings(tried),
    };
    println!("{}", serde_json::to_string_pretty(&told).unwrap_or_default());
    let _ = std::io::stdout().flush();
}

fn tell_phrases(phrases: &[Phrase]) {
    println!("Recovery phrases. They are shown this once and kept nowhere. Write each on its");
    println!("own paper and keep them apart: any two of the three can replace the signer keys");
    println!("if those are lost.\n");
    for (number, phrase) in phrases.iter().enumerate() {
        // In lines that fit wherever they are read: a word that is broken is copied wrong.
        let words: Vec<&str> = phrase.words().split(' ').collect();
        for (nth, line) in words.chunks(6).enumerate() {
            let number = if nth == 0 { (number + 1).to_string() } else { " ".to_owned() };
            println!("  {number}  {}", line.join(" "));
        }
    }
    println!();
    let _ = std::io::stdout().flush();
}

fn tell_rest(plan: &FoundingPlan, known: &Known) {
    let addresses: Vec<_> = plan.addresses.iter().map(ToString::to_string).collect();
    println!("founded `{}`", plan.org);
    println!("  org id    {}", known.org());
    println!("  signers   {} of {}", plan.threshold, plan.signers.len());
    println!("  gateway   {} at {}", plan.node, addresses.join(", "));
    println!("  you are   spiffe://{}/user/{}", plan.org, plan.user);
    println!("\n{}", in_words("next: freehold serve, then freehold invite create"));
}
