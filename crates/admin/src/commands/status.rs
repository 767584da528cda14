//! `freehold status [NODE]`: the org on one page, and how long each machine lasts without a gateway.

use clap::Args;
use ground::clock;
use identity::head::TrustState;
use identity::principal::NodeName;
use operate::audit::status::status;
use operate::audit::status::{Lasting, OrgStatus, TrustView};
use operate::pending::Pending;
use operate::replica::roll;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::{or_dash, table};
use wire::known::Known;

use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold status                   head, gateways, nodes, trust, alarms, and who breaks first if no gateway answers
  freehold status web-1             one machine
  freehold status --json | jq '.survival[0]'

A machine lasts until the first of these ends: its SVID, the mandate of the gateway that issued it, the certificate of that gateway's
issuing key. When the head is no longer fresh it works on, but shouts, and takes in nobody whom it has not met. It comes back by its
node key for a year after its SVID ended. Files that wait for signatures are looked for in this folder.")]
pub struct ShowStatus {
    /// Only this machine
    node: Option<NodeName>,
}

#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    status: OrgStatus,
    /// Files here that wait for signatures.
    pending: Vec<PendingTold>,
}

#[derive(Serialize)]
struct PendingTold {
    file: String,
    waits_for: Vec<String>,
}

impl ShowStatus {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not tell the status";
        let mut session = common.session(doing).await?;
        let status = status(&mut session, self.node.as_ref(), clock::now()).await.during(doing)?;
        let told = Told { status, pending: pending_here(&session.known) };
        show(common.json, &told, || match &self.node {
            Some(_) => told.status.survival.iter().map(one).collect::<Vec<_>>().join("\n"),
            None => in_words(&told),
        });
        Ok(())
    }
}

/// What lies in this folder, is of this org, and still fits what is so.
fn pending_here(known: &Known) -> Vec<PendingTold> {
    let files = std::fs::read_dir(".").into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "pending")).collect();
    files.sort();
    let told = |path: std::path::PathBuf| {
        let needs = Pending::read(&path).ok()?.needs(known).ok()?;
        let open = needs.iter().filter(|need| !need.is_met());
        let waits_for = open.flat_map(|need| need.others()).map(ToString::to_string);
        Some(PendingTold { file: path.file_name()?.to_string_lossy().into_owned(), waits_for: waits_for.collect() })
    };
    files.into_iter().filter_map(told).collect()
}

fn in_words(told: &Told) -> String {
    let Told { status, pending } = told;
    let head = &status.head;
    let names: Vec<_> = head.signers.iter().map(ToString::to_string).collect();
    let fresh = if head.fresh { "fresh until" } else { "NOT FRESH since" };
    let mut lines = vec![
        format!("org       {} ({})", status.org, status.org_id),
        format!("head      {}, issued at {}, {fresh} {}", head.version, head.issued_at, head.fresh_until),
        format!("signers   set {}, {} of {}: {}", head.signer_set, head.threshold, names.len(), names.join(", ")),
    ];
    for gateway in &status.gateways {
        let (name, until, ttl) = (&gateway.name, gateway.mandate_until, gateway.svid_ttl);
        let issuer = or_dash(gateway.issuer_until.as_ref());
        let over = if gateway.active { "" } else { "  NOT IN FORCE" };
        lines.push(format!(
            "gateway   {name}: mandate until {until}, issuing key until {issuer}, SVIDs for {ttl}{over}"
        ));
    }
    let counts: Vec<_> = status.nodes.iter().map(|(state, count)| format!("{count} {state}")).collect();
    lines.push(format!("nodes     {}", counts.join(", ")));
    lines.extend(status.trust.iter().map(trusted));
    if status.waiting > 0 {
        lines.push(format!("waiting   {} machine(s) for a person: freehold node waiting", status.waiting));
    }
    lines.extend(status.waits.iter().map(|it| format!("waits     {}: {}", roll::names(&it.nodes), it.why)));
    lines.extend(pending.iter().map(|it| match it.waits_for.as_slice() {
        [] => format!("pending   {}: complete: freehold send {0}", it.file),
        some => format!("pending   {}: waits for one of {}", it.file, some.join(", ")),
    }));
    lines.extend(status.alarms.iter().map(|alarm| format!("ALARM     {alarm}")));
    let row =
        |it: &Lasting| vec![it.node.to_string(), it.left.roughly(), it.until.to_string(), it.limit.word().to_owned()];
    let rows: Vec<_> = status.survival.iter().map(row).collect();
    if !rows.is_empty() {
        lines.push(format!("\nwithout any gateway:\n{}", table(&["NODE", "LASTS", "UNTIL", "LIMITED BY"], &rows)));
    }
    lines.join("\n")
}

fn trusted(it: &TrustView) -> String {
    let used = if it.state == TrustState::Retired.word() {
        format!(", yet {} went by it when last heard of", it.used_by.unwrap_or(0))
    } else {
        it.used_by.map_or_else(String::new, |count| format!(", used by {count}"))
    };
    format!("trust     {} {}: {}{used}", it.domain, it.version, it.state)
}

fn one(it: &Lasting) -> String {
    [
        format!("node      {}", it.node),
        format!("lasts     {} without any gateway, until {}", it.left.roughly(), it.until),
        format!("limited   by {}", it.limit.word()),
        format!("svid      until {}", or_dash(it.svid_until.as_ref())),
        format!("shouts    from {} on, unless the head is renewed", it.shouts_from),
        format!(
            "returns   by its node key until {}; later an operator must say so",
            or_dash(it.returns_until.as_ref())
        ),
    ]
    .join("\n")
}
