//! `freehold status [NODE]`: the org on one page, and how long each machine lasts without a gateway.

use std::path::Path;

use clap::Args;
use ground::clock;
use identity::head::TrustState;
use identity::principal::NodeName;
use operate::audit::status::status;
use operate::audit::status::{Lasting, OrgStatus, TrustView};
use operate::pending::{Need, Pending};
use operate::replica::roll;
use operate::session::{Session, inbox};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::{or_dash, table};

use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold status                   head, gateways, nodes, trust, alarms, and who breaks first if no gateway answers
  freehold status web-1             one machine
  freehold status --json | jq '.survival[0]'

A machine lasts until the first of these ends: its SVID, the mandate of the gateway that issued it, the certificate of that gateway's
issuing key. When the head is no longer fresh it works on, but shouts, and takes in nobody whom it has not met. It comes back by its
node key for a year after its SVID ended. What waits for signatures is looked for in the gateway's inbox, in the operator's folder
and in this one.")]
pub struct ShowStatus {
    /// Only this machine
    node: Option<NodeName>,
}

#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    status: OrgStatus,
    /// What waits for signatures: in the gateway's inbox, and as files.
    pending: Vec<PendingTold>,
    /// How many of these are not complete yet.
    waits_for_signatures: usize,
}

#[derive(Serialize)]
struct PendingTold {
    digest: String,
    /// Nothing if it lies in the inbox alone.
    file: Option<String>,
    inbox: bool,
    waits_for: Vec<String>,
}

impl ShowStatus {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not tell the status";
        let mut session = common.session(doing).await?;
        let status = status(&mut session, self.node.as_ref(), clock::now()).await.during(doing)?;
        let pending = pending_here(&mut session).await;
        let waits_for_signatures = pending.iter().filter(|it| !it.waits_for.is_empty()).count();
        let told = Told { status, pending, waits_for_signatures };
        show(common.json, &told, || match &self.node {
            Some(_) => told.status.survival.iter().map(|it| one(it, &told.status)).collect::<Vec<_>>().join("\n"),
            None => in_words(&told),
        });
        Ok(())
    }
}

/// What lies in the inbox, in the operator's folder and in this one, is of this org, and still fits what is so.
async fn pending_here(session: &mut Session) -> Vec<PendingTold> {
    // Where no gateway answers, the files are there.
    let lying = inbox::all(session).await.unwrap_or_default();
    let mut told: Vec<PendingTold> = lying.iter().map(|it| PendingTold::of(&it.pending, &it.needs)).collect();
    for it in &mut told {
        it.inbox = true;
    }
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let files = entries(&session.folder.pending()).chain(entries(Path::new("."))).map(|entry| entry.path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "pending")).collect();
    files.sort();
    for path in files {
        let Ok(pending) = Pending::read(&path) else { continue };
        let Ok(needs) = pending.needs(&session.known) else { continue };
        if inbox::is_done(session, &pending).await {
            continue;
        }
        let name = path.strip_prefix(".").unwrap_or(&path).display().to_string();
        let digest = pending.digest().to_string();
        match told.iter_mut().find(|it| it.digest == digest) {
            Some(known) => known.file = known.file.take().or(Some(name)),
            None => told.push(PendingTold { file: Some(name), ..PendingTold::of(&pending, &needs) }),
        }
    }
    told
}

impl PendingTold {
    fn of(pending: &Pending, needs: &[Need]) -> Self {
        let open = needs.iter().filter(|need| !need.is_met());
        let waits_for = open.flat_map(Need::others).map(ToString::to_string).collect();
        Self { digest: pending.digest().to_string(), file: None, inbox: false, waits_for }
    }

    fn in_words(&self) -> String {
        let short: String = self.digest.chars().take(8).collect();
        let name = if self.inbox { &short } else { self.file.as_ref().unwrap_or(&short) };
        match self.waits_for.as_slice() {
            [] if self.inbox => format!("pending   {name}: complete: freehold sign {name}"),
            [] => format!("pending   {name}: complete: freehold send {name}"),
            some => format!("pending   {name}: waits for one of {}: freehold sign {name}", some.join(", ")),
        }
    }
}

fn in_words(told: &Told) -> String {
    let Told { status, pending, waits_for_signatures } = told;
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
    let online = status.online.map_or_else(String::new, |online| format!("; {online} online"));
    lines.push(format!("nodes     {}{online}", counts.join(", ")));
    lines.extend(status.trust.iter().map(trusted));
    if status.waiting > 0 {
        lines.push(format!("waiting   {} machine(s) for a person: freehold node waiting", status.waiting));
    }
    lines.extend(status.waits.iter().map(|it| format!("waits     {}: {}", roll::names(&it.nodes), it.why)));
    if *waits_for_signatures > 0 {
        lines.push(format!("pending   {waits_for_signatures} not done yet: freehold sign"));
    }
    lines.extend(pending.iter().map(PendingTold::in_words));
    lines.extend(status.alarms.iter().map(|alarm| format!("ALARM     {alarm}")));
    let row =
        |it: &Lasting| vec![it.node.to_string(), it.left.roughly(), it.until.to_string(), it.limit.word().to_owned()];
    let rows: Vec<_> = status.survival.iter().map(row).collect();
    if !rows.is_empty() {
        let word = by_word_of(status).map_or_else(String::new, |gateway| format!(" (when SVIDs end: says {gateway})"));
        lines
            .push(format!("\nwithout any gateway{word}:\n{}", table(&["NODE", "LASTS", "UNTIL", "LIMITED BY"], &rows)));
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

fn by_word_of(status: &OrgStatus) -> Option<String> {
    status.according_to.as_ref().map(|gateway| format!("`{gateway}`"))
}

fn one(it: &Lasting, status: &OrgStatus) -> String {
    let says = by_word_of(status).map_or_else(String::new, |gateway| format!(", says {gateway}"));
    [
        format!("node      {}", it.node),
        format!("lasts     {} without any gateway, until {}", it.left.roughly(), it.until),
        format!("limited   by {}", it.limit.word()),
        format!("svid      until {}{says}", or_dash(it.svid_until.as_ref())),
        format!("shouts    from {} on, unless the head is renewed", it.shouts_from),
        format!(
            "returns   by its node key until {}; later an operator must say so",
            or_dash(it.returns_until.as_ref())
        ),
    ]
    .join("\n")
}
