//! `freehold gateway add`: a machine that made its keys itself, and asks, becomes a gateway.

use std::path::PathBuf;

use clap::Args;
use ground::file;
use identity::envelope::Envelope;
use identity::head::{TrustLine, TrustState};
use identity::principal::NodeName;
use identity::principal::glob::NameGlob;
use identity::time::Seconds;
use operate::gateway::GatewayWish;
use operate::gateway::add::{self, Addition, write_grant};
use operate::session::Session;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use super::renew::named;
use crate::home::{Common, During};
use crate::root_keys::RootKeys;
use crate::waiting::{Consent, Left, told};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold gateway add vps.request --out vps.grant
  freehold gateway add vps.request --name 'web-*' --name vps      it may issue for these names only

On that machine before:  freehold-node gateway request --address vps.example:7443 --out vps.request
and after:               freehold-node gateway install vps.grant && freehold-node gateway serve")]
pub struct Add {
    /// What `freehold-node gateway request` wrote
    request: PathBuf,
    /// Where to write what it takes home; there is no secret in it [default: NAME.grant here]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Names for which it may issue; may be repeated
    #[arg(long = "name", value_name = "GLOB", default_value = "*")]
    names: Vec<NameGlob>,
    /// How long an SVID lives [default: as at the first gateway]
    #[arg(long, value_name = "SPAN")]
    svid_ttl: Option<Seconds>,
    /// How long its mandate lasts [default: 365d]
    #[arg(long, value_name = "SPAN")]
    lasts: Option<Seconds>,
    /// Where the root keys are [default: the operator's folder]
    #[arg(long, value_name = "DIR")]
    roots: Option<PathBuf>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Added {
    gateway: String,
    addresses: Vec<String>,
    until: String,
    grant: String,
    /// Trusted versions under which its keys have no certificate, since the root's key is not here.
    uncertified: Vec<String>,
    #[serde(flatten)]
    pending: Left,
}

impl Add {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not add a gateway";
        let bytes = file::read(&self.request).during(doing)?;
        let request: Envelope = serde_json::from_slice(&bytes)
            .map_err(|why| Failure::failed(doing, format!("`{}` is no request: {why}", self.request.display())))?;
        let (mut session, keys) = common.signing_session(doing).await?;
        let wish = GatewayWish { names: self.names, svid_ttl: self.svid_ttl, lasts: self.lasts };
        let addition = Addition::begin(&mut session, &request, wish).await.during(doing)?;
        if !common.json {
            eprintln!("{}", who(&addition));
        }
        let gateway = &addition.mandate.gateway;
        let out = self.out.unwrap_or_else(|| PathBuf::from(format!("{gateway}.grant")));
        if out.exists() {
            return Err(Failure::failed(doing, format!("`{}` is there already", out.display()))
                .hint("move it away, or choose another name: --out FILE"));
        }
        let question = format!("Make `{gateway}` a gateway?");
        let consent = Consent { common, doing, yes: self.yes, question: &question };
        let roots = RootKeys::new(common, &session, self.roots);
        let warn = |line: &TrustLine| {
            if !common.json {
                eprintln!("{}", without_root(gateway, line));
            }
        };
        let draft = |session: &Session, now| addition.roll(session, now);
        let sign = async |session: &mut Session| addition.make(session, &keys, &roots, warn).await;
        let (add::Added { mandate, grant, uncertified }, pending) = consent.sign(&mut session, draft, sign).await?;
        write_grant(&out, &grant).during(doing)?;
        let result = Added {
            gateway: mandate.gateway.to_string(),
            addresses: mandate.addresses.iter().map(ToString::to_string).collect(),
            until: mandate.not_after.to_string(),
            grant: out.display().to_string(),
            uncertified: uncertified.iter().map(named).collect(),
            pending,
        };
        show(common.json, &result, || {
            let take = format!(
                "Bring `{0}` to `{1}`; there run:\n\n  freehold-node gateway install {0}\n  freehold-node gateway serve\n",
                result.grant, result.gateway
            );
            let done = || format!("`{}` has a mandate until {}", result.gateway, result.until);
            format!("{}\n{take}", told(result.pending.waiting(), done))
        });
        Ok(())
    }
}

/// What it cannot be given here, and what comes of that.
fn without_root(gateway: &NodeName, line: &TrustLine) -> String {
    let (domain, version, state) = (line.domain.word(), line.version, line.state.word());
    let so = match line.state {
        TrustState::Staged => format!(
            "that version cannot be activated with it. Run this where the key is (--roots DIR), or hand out another \
             version afterwards: freehold trust rollback {domain}, freehold trust publish {domain}"
        ),
        TrustState::Active | TrustState::Grace | TrustState::Retired => {
            "whoever goes by that version alone does not find it".to_owned()
        }
    };
    format!(
        "warning: version {version} of the `{domain}` roots is trusted ({state}), and the key of its root is not here: \
         `{gateway}` gets no certificate under it, and {so}"
    )
}

fn who(addition: &Addition) -> String {
    let Addition { checked, node, mandate, .. } = addition;
    let request = &checked.request;
    let list = |items: Vec<String>| items.join(" ");
    let lines = [
        format!("`{}` asks to be a gateway; it asked at {}", request.node, request.at),
        format!("  its node key   {} (the member's)", request.node_key.digest()),
        format!("  joined         {}, let in by `{}`", node.enrolled_at, node.admitted_by),
        format!("  found at       {}", list(mandate.addresses.iter().map(ToString::to_string).collect())),
        format!("  answers as     {}", list(mandate.hosts.iter().map(ToString::to_string).collect())),
        format!("  its voice      {}", request.voice),
        format!("  issuing keys   {} and {}", checked.identity.id, checked.endpoint.id),
        format!(
            "It may let machines in by invites that give it a right, and issue SVIDs of {} for the names {}, until {}.",
            mandate.svid_ttl,
            list(mandate.names.iter().map(ToString::to_string).collect()),
            mandate.not_after
        ),
    ];
    lines.join("\n")
}
