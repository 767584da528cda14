//! `freehold audit`: everything that was ever changed, and whether it holds.

use clap::Args;
use ground::clock;
use identity::principal::Name;
use manifest::access::{Who, may};
use manifest::source;
use operate::audit;
use operate::audit::AuditResult;
use operate::audit::hindsight;
use operate::audit::hindsight::question::BadQuestion;
use operate::audit::hindsight::{CannotSay, Edge, HeadTold, Hindsight, SignerTold};
use operate::publish::fleet::FleetFolder;
use operate::publish::fleet::git;
use operate::session::lines::lines;
use serde::Serialize;
use terminal::failure::{Exit, Failure};
use terminal::show::show;
use terminal::table::{or_dash, table};

use crate::home::{Common, During, failure};
use crate::moment::Moment;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold audit                        every change, oldest first
  freehold audit --subject web-1        what concerns one node, invite or author
  freehold audit --verify               checks every hash, link and signature, and folds it all afresh
  freehold audit --at 2026-11-01 --can alice wiki
  freehold audit --at 3d --can alice@laptop wiki
                                        could she reach it then, since when, and by whose signatures

WHO is a user, service or node: NAME, NAME@NODE, KIND/NAME or a SPIFFE id. The answer comes from the ledger alone, and from the
members' maps that its signed heads name. When an entry was written is its author's word. Exit code 0 for yes, 3 for no.")]
pub struct Audit {
    /// Check everything instead of listing it
    #[arg(long)]
    verify: bool,
    /// Only what concerns this node, invite or author
    #[arg(long, value_name = "NAME", conflicts_with = "verify")]
    subject: Option<String>,
    /// Could WHO reach the service WHAT?
    #[arg(long, num_args = 2, value_names = ["WHO", "WHAT"], conflicts_with_all = ["verify", "subject"])]
    can: Option<Vec<String>>,
    /// When: 2026-11-01T09:30:00Z, 2026-11-01, or how long ago: 3d [default: now]
    #[arg(long, value_name = "TIME", requires = "can")]
    at: Option<Moment>,
}

impl Audit {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        if let Some(can) = &self.can {
            return could(common, can, self.at).await;
        }
        let doing = "the audit failed";
        let mut session = common.session(doing).await?;
        if self.verify {
            let verdict = audit::verify(&mut session).await.during(doing)?;
            if let (false, Some(bad)) = (common.json, &verdict.first_bad) {
                return Err(Failure::failed("the ledger does not hold", bad.clone())
                    .hint("keep the gateway's folder as it is for evidence, and compare it with another copy"));
            }
            show(common.json, &verdict, || in_short(&verdict));
            return if verdict.ok { Ok(()) } else { Err(Failure::failed("the ledger does not hold", "see above")) };
        }
        let lines = lines(&mut session, self.subject.as_deref()).await.during(doing)?;
        show(common.json, &lines, || {
            let row = |line: &org::audit::AuditLine| {
                vec![
                    line.at.to_string(),
                    line.action.clone(),
                    line.subject.clone(),
                    line.actor.to_string(),
                    or_dash(line.version.as_ref()),
                    line.correlation.to_string(),
                    line.remark().unwrap_or_default(),
                ]
            };
            let rows: Vec<_> = lines.iter().map(row).collect();
            table(&["AT", "ACTION", "SUBJECT", "ACTOR", "VERSION", "CORRELATION", ""], &rows)
        });
        Ok(())
    }
}

fn in_short(verdict: &AuditResult) -> String {
    let void = match verdict.void {
        0 => String::new(),
        1 => "; 1 of them does not count: freehold audit says why".to_owned(),
        more => format!("; {more} of them do not count: freehold audit says why"),
    };
    let AuditResult { entries, heads, .. } = verdict;
    format!("{entries} entries hold: hashes, links, signatures{void}; {heads} heads; every leaf has its admission")
}

async fn could(common: &Common, can: &[String], at: Option<Moment>) -> Result<(), Failure> {
    let doing = "could not say who could reach what";
    let [who, what] = can else {
        return Err(Failure::usage(doing, "--can takes two names: WHO and WHAT"));
    };
    let asked = who.parse().map_err(|why: BadQuestion| cannot_say(doing, &why.into()))?;
    let what: Name =
        what.parse().map_err(|why: identity::principal::BadName| Failure::usage(doing, why.to_string()))?;
    let mut session = common.session(doing).await?;
    let now = clock::now();
    let at = at.map_or(now, |at| at.before(now));
    let told = Box::pin(hindsight::could(&mut session, &asked, &what, at, now))
        .await
        .map_err(|why| cannot_say(doing, &why))?;
    let told = Told { roles: roles(&told), hindsight: told };
    show(common.json, &told, || in_words(&told));
    let told = told.hindsight;
    if told.allowed {
        return Ok(());
    }
    let from = told.from.as_ref().map(|from| format!(" from `{from}`")).unwrap_or_default();
    let said = format!("{} could not reach `{}`{from} at {at}", told.who, told.what);
    Err(Failure::refused(said, told.against.first().cloned().unwrap_or_default()))
}

fn cannot_say(doing: &str, why: &CannotSay) -> Failure {
    let told = match why {
        CannotSay::Operate(why) => return failure(doing, why),
        other => Failure::new(doing, other),
    };
    match why {
        CannotSay::Question(why) => told.exit(Exit::Usage).hint(match why {
            BadQuestion::NotWho(_) | BadQuestion::Several(_) => "for example: --can alice@laptop wiki",
            BadQuestion::OtherOrg { .. } => "say which org is meant: --org NAME",
            BadQuestion::Unknown { .. } => "see all names: freehold access --matrix, freehold node list",
        }),
        CannotSay::BeforeFounding { .. } | CannotSay::NotYet { .. } => {
            told.exit(Exit::Usage).hint("name a moment between the founding and now: freehold audit lists them")
        }
        CannotSay::NotKept { .. } => {
            told.hint("ask another gateway, or one that is restored from a backup of that time: --gateway HOST:PORT")
        }
        CannotSay::Unreadable { .. } => told.hint("upgrade freehold"),
        CannotSay::Operate(_) => told,
    }
}

#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    hindsight: Hindsight,
    /// What the fleet of then says, if the folder here still has it: by which roles, or what was missing.
    roles: Vec<String>,
}

/// The head names the fleet's tree by its hash; git finds it, if it is at hand.
fn roles(told: &Hindsight) -> Vec<String> {
    let explain = || {
        let tree = told.head.as_ref()?.tree.as_ref()?;
        let folder = FleetFolder::find(None).ok()?;
        let files = git::sources_at(folder.root(), tree)?;
        let (fleet, _) = source::read(&files, &|_| Ok(Vec::new()), &[]).ok()?;
        let from = told.from.as_ref().map(|from| format!("@{from}")).unwrap_or_default();
        let who: Who = format!("{}{from}", told.who).parse().ok()?;
        Some(may(&fleet, &who, &told.what).ok()?.why.iter().map(ToString::to_string).collect())
    };
    explain().unwrap_or_default()
}

fn in_words(told: &Told) -> String {
    let Told { hindsight: told, roles } = told;
    let from = told.from.as_ref().map(|from| format!(" from `{from}`")).unwrap_or_default();
    let (yes, could) = if told.allowed { ("yes", "could") } else { ("no", "could not") };
    let mut lines = vec![format!("{yes}: {} {could} reach `{}`{from} at {}", told.who, told.what, told.at)];
    lines.extend(told.ways.iter().map(|way| format!("  {}", way.words)));
    lines.extend(told.against.iter().map(|against| format!("  {against}")));
    lines.extend(roles.iter().map(|role| format!("  by the fleet of then: {role}")));
    lines.push(format!("  since {}", edge("the founding", &told.since)));
    lines.push(format!("  until {}", edge("now", &told.until)));
    lines.extend(told.head.iter().flat_map(head));
    lines.push("This is what the operators had signed, by the times that the authors of the entries wrote; when a node took it in,".to_owned());
    lines.push("and whether anybody came, the ledger does not say.".to_owned());
    lines.join("\n")
}

fn edge(end: &str, edge: &Edge) -> String {
    match edge {
        Edge::Open => end.to_owned(),
        Edge::Unknown { at } => format!("{at} at least: maps beyond that were not read, or are not kept"),
        Edge::At { at, head, by } => {
            let head = head.map(|head| format!(", head {head}")).unwrap_or_default();
            let by = if by.is_empty() { String::new() } else { format!(": {}", by.join("; ")) };
            format!("{at}{head}{by}")
        }
    }
}

fn head(head: &HeadTold) -> Vec<String> {
    let names = |signers: &[SignerTold]| {
        signers.iter().map(|signer| format!("`{}` ({})", signer.name, signer.key)).collect::<Vec<_>>().join(", ")
    };
    let by = head.published_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let mut lines = vec![format!("head {}, issued at {}: {}{by}", head.version, head.issued_at, head.action)];
    lines.push(format!("  signed by {}", names(&head.signed_by)));
    if let Some(set) = &head.signers {
        let all = set.signers.iter().map(|signer| format!("`{}`", signer.name)).collect::<Vec<_>>().join(", ");
        lines.push(format!("  of signer set {}, {} of {}: {all}", set.version, set.threshold, set.signers.len()));
    }
    if !head.fresh {
        let until = head.fresh_until;
        lines.push(format!("  NOT FRESH since {until}: only those who had met before would have let each other in"));
    }
    lines.extend(head.commit.iter().map(|commit| format!("  compiled from the fleet's commit {commit}")));
    lines
}
