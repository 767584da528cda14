//! `freehold-node doctor`: everything that can be wrong with this machine's membership, and the cure.

use std::path::Path;

use clap::Args;
use identity::bundle::{Endpoint, InDomain, Roots};
use identity::causes::describe;
use identity::key::Sign as _;
use identity::principal::{Name, OrgName};
use identity::time::Timestamp;
use identity::verifier::leads_to;
use member::agent::status::NodeStatus;
use member::apply::trust::Trusting;
use member::apply::view;
use member::ask::keep::{Both, identity_roots};
use member::ask::reach::is_lost;
use member::store::scope::trust::TrustPaths;
use member::store::scope::worth::Worth;
use member::store::scope::{NodeFile, Scope, ScopeError, Svid};
use org::ledger::frontier::Tip;
use terminal::failure::Failure;
use terminal::finding::{Finding, Mark, Patient, tell};
use wire::connect::GatewayAddress;
use wire::known::Known;
use wire::tls::OwnSvid;
use wire::trust::{explain, refresh};

use crate::commands::roots::{Common, name_of};
use crate::doctor::examination::{self, Examination};
use crate::doctor::standing::{self, Viewer};
use crate::doctor::{reach, service};
use crate::program::Program;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node doctor
  freehold-node doctor wiki         why can't I reach the service `wiki`?
  freehold-node doctor --json | jq '.orgs[].findings[] | select(.mark != \"ok\")'

It changes nothing. The service is called once, without a byte, for somebody here who may. Exit code 0 if nothing is wrong,
else 1; what is marked `soon` is not wrong yet.")]
pub struct Doctor {
    /// Look at what it takes to reach this service from here
    #[arg(value_name = "SERVICE")]
    service: Option<Name>,
}

impl Doctor {
    pub async fn run(&self, common: &Common) -> Result<(), Failure> {
        let root = common.root();
        let scopes = match (common.is_inside(), common.wanted()) {
            (Some(scope), _) => Ok(vec![scope.clone()]),
            (None, Some(org)) => match Scope::at(&root, org) {
                scope if is_missing(&scope) => {
                    let finding = not_joined(org, &root);
                    return tell(common.json, &[Patient { name: org.to_string(), findings: vec![finding] }]);
                }
                scope => Ok(vec![scope]),
            },
            (None, None) => all_below(&root),
        };
        let mut patients = Vec::new();
        for scope in scopes.as_deref().unwrap_or_default() {
            let mut patient = examine(scope, common.program(scope)).await;
            if let Some(service) = &self.service {
                // What has nothing to do with it, and is fine, is left out.
                patient.findings.retain(|finding| finding.mark == Mark::Wrong || concerns(finding));
                if !is_revoked(scope) {
                    patient.findings.extend(service::look(scope, service, common.program(scope)).await);
                }
            }
            patients.push(patient);
        }
        if patients.is_empty() {
            let nothing = format!("no org was joined under `{}`", root.display());
            let nothing = Finding::wrong("membership", nothing, NOWHERE);
            let cure = "run this as the user of the agent, or as root; or say where: --root DIR";
            patients.push(examination::empty(&root, scopes.map(drop), cure, nothing));
        }
        tell(common.json, &patients)
    }
}

fn is_missing(scope: &Scope) -> bool {
    std::fs::metadata(&scope.folder).is_err_and(|why| why.kind() == std::io::ErrorKind::NotFound)
}

fn not_joined(wanted: &OrgName, root: &Path) -> Finding {
    let found = format!("no org `{wanted}` was joined under `{}`", root.display());
    let joined: Vec<_> = all_below(root).unwrap_or_default().iter().map(name_of).collect();
    if joined.is_empty() {
        return Finding::wrong("membership", format!("{found}, nor another"), NOWHERE);
    }
    let cure = format!("say which: --org {}", joined.join(", or --org "));
    Finding::wrong("membership", format!("{found}; joined were {}", joined.join(", ")), cure)
}

const NOWHERE: &str = "join: freehold-node join; or say where it was: --root DIR";

/// Does it bear on whether a service can be reached?
fn concerns(finding: &Finding) -> bool {
    ["clock", "membership", "svid", "head", "agent", "manifest", "gateway"].contains(&finding.subject)
}

/// Every scope, also one whose key is gone.
fn all_below(root: &Path) -> std::io::Result<Vec<Scope>> {
    let mut scopes = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.parse::<OrgName>().is_ok()) && entry.path().is_dir() {
            scopes.push(Scope { folder: entry.path() });
        }
    }
    scopes.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(scopes)
}

async fn examine(scope: &Scope, program: Program) -> Patient {
    let (node, known) = (scope.node(), scope.known());
    let name = match (&node, program) {
        // Inside a gateway every scope's folder has the same name.
        (Ok(Some(node)), Program::Gateway) => node.org.to_string(),
        _ => name_of(scope),
    };
    let svid = match &node {
        Ok(Some(node)) => scope.seat(&node.principal()).look(),
        _ => Ok(None),
    };
    let mut found = Examination::begin(version(&node, program), &scope.folder);
    found.extend(damage(scope, program));
    found.push(membership(scope, program, &node, &known));
    let (Ok(Some(node)), Ok(Some(known))) = (node, known) else {
        return found.end(name, None);
    };
    let newest = newest(scope, &known, svid.as_ref().ok().and_then(Option::as_ref));
    let newest = Some((newest.0.as_str(), newest.1));
    // What else is wrong follows from it, and nothing helps.
    if is_revoked(scope) {
        return found.end(name, newest);
    }
    let now = found.now;
    found.push(standing::svid(now, svid.as_ref().map(Option::as_ref), program.agent()));
    found.push(standing::head(now, &known.head.head, Viewer::Node));
    found.push(standing::mandate(now, known.head.head.mandates.iter(), Viewer::Node));
    found.push(agent(scope, program));
    found.push(applied(scope, program));
    found.extend(trust(scope, program, &known, now));
    let good =
        svid.as_ref().ok().and_then(Option::as_ref).filter(|svid| svid.not_before <= now && now < svid.not_after);
    gateways(&mut found, scope, program, &node, &known, good).await;
    found.end(name, newest)
}

/// Files that lie there and say nothing. What nothing goes on without is told as the membership.
fn damage(scope: &Scope, program: Program) -> Option<Finding> {
    let told = scope.damaged().into_iter().filter(|(worth, _)| *worth == Worth::Heals);
    let told: Vec<String> = told.map(|(_, why)| describe(&why)).collect();
    let cure = format!("nothing: the agent writes it anew: {}", program.agent());
    (!told.is_empty()).then(|| Finding::soon("files", told.join("; "), cure))
}

fn version(node: &Result<Option<NodeFile>, ScopeError>, program: Program) -> Finding {
    let program = format!("{} {}", program.word(), env!("CARGO_PKG_VERSION"));
    match node {
        Ok(Some(node)) if node.schema > 1 => {
            let found = format!("{program}, but `node.json` has schema {}", node.schema);
            Finding::wrong("version", found, "a newer program wrote it: install that one again")
        }
        Ok(Some(node)) => Finding::ok("version", format!("{program}, files of schema {}", node.schema)),
        Ok(None) | Err(_) => Finding::ok("version", program),
    }
}

/// Is this machine what it should be, as far as its own disk says?
fn membership(
    scope: &Scope,
    program: Program,
    node: &Result<Option<NodeFile>, ScopeError>,
    known: &Result<Option<Known>, ScopeError>,
) -> Finding {
    let subject = "membership";
    let damaged = |why: &ScopeError| {
        let cure =
            format!("put the file back from a copy that is not older than the last renewal; else {}", program.anew());
        Finding::wrong(subject, describe(why), cure)
    };
    let (node, known) = match (node, known) {
        (Err(why), _) | (_, Err(why)) => return damaged(why),
        (Ok(Some(node)), Ok(Some(known))) => (node, known),
        (Ok(None), Ok(_)) if matches!(scope.waiting(), Ok(Some(_))) => {
            let status = program.command("status");
            let cure = format!("an operator compares the words ({status}) and says yes: freehold node approve");
            return Finding::soon(subject, "this machine waits for an operator's approval", cure);
        }
        (Ok(_), Ok(_)) if program == Program::Gateway => {
            return Finding::wrong(subject, "what the founding wrote about this node is gone", program.anew());
        }
        (Ok(_), Ok(_)) => {
            let cure = "run the line of the invite again; or give it up: freehold-node leave --local";
            return Finding::wrong(subject, "a join was begun here and is not finished", cure);
        }
    };
    if let Err(why) = scope.node_key() {
        return damaged(&why);
    }
    if let Some((_, why)) = scope.damaged().into_iter().find(|(worth, _)| *worth == Worth::Needed) {
        return damaged(&why);
    }
    if is_revoked(scope) {
        return Finding::wrong(
            subject,
            format!("operators revoked `{}`: its key never returns", node.name),
            program.replaced(),
        );
    }
    if node.joined {
        return Finding::ok(subject, format!("{} of {}", node.principal(), known.org()));
    }
    Finding::soon(
        subject,
        format!("{} has not come back with its SVID yet", node.principal()),
        format!("start the agent: {}", program.agent()),
    )
}

/// Did the operators take back its key, by what is known here?
fn is_revoked(scope: &Scope) -> bool {
    let (Ok(Some(known)), Ok(key)) = (scope.known(), scope.node_key()) else {
        return false;
    };
    known.head.head.revocations.node_keys.contains(&key.public().digest())
}

fn agent(scope: &Scope, program: Program) -> Finding {
    match NodeStatus::from_agent(scope) {
        None => Finding::wrong(
            "agent",
            "it does not run: nothing is renewed",
            format!("start it, and let your service manager keep it running: {}", program.agent()),
        ),
        Some(status) => match (status.problem, status.last_check_in) {
            (Some(problem), _) => Finding::wrong(
                "agent",
                format!("it runs, but: {problem}"),
                "see the other lines here; it tries again by itself",
            ),
            (None, Some(at)) => Finding::ok("agent", format!("it runs, and checked in at {at}")),
            (None, None) => Finding::soon("agent", "it runs, and has not checked in yet", "look again in a minute"),
        },
    }
}

/// Is this node what the operators published for it?
fn applied(scope: &Scope, program: Program) -> Finding {
    let subject = "manifest";
    let view = NodeStatus::from_agent(scope).map_or_else(|| view::from_disk(&scope.folder), |status| status.applied);
    if let Some(problem) = view.problem {
        return Finding::wrong(subject, problem, "look at the disk; the agent asks for it again by itself");
    }
    if let Some(trial) = view.trial {
        let found = format!("on trial until {}; waits for {}", trial.deadline, trial.waits_for.join("; "));
        return Finding::soon(subject, found, "nothing: it is confirmed or goes back by itself");
    }
    match (view.rolled_back, view.confirmed) {
        (Some(back), _) => Finding::wrong(
            subject,
            format!("what was published went back at {}: {}", back.at, back.why),
            format!(
                "operators mend the fleet and publish again; to try the same once more: {}",
                program.command("sync --now")
            ),
        ),
        (None, Some(_)) => Finding::ok(subject, "what was published for this node is confirmed"),
        (None, None) => Finding::ok(subject, "nothing is published for this node"),
    }
}

/// Does this machine go by the roots that the operators hand out, and do others read the same?
fn trust(scope: &Scope, program: Program, known: &Known, now: Timestamp) -> Vec<Finding> {
    let found = Both::open(scope, known, known.now(now)).and_then(|both| {
        let paths = scope.trust_paths()?;
        let endpoint = roots(scope, program, &paths, known, &both.endpoint);
        Ok([endpoint, roots(scope, program, &paths, known, &both.identity)])
    });
    found.map_or_else(
        |why| vec![Finding::wrong("trust", describe(&why), program.anew())],
        |found| found.into_iter().collect(),
    )
}

fn roots<D: InDomain>(
    scope: &Scope,
    program: Program,
    paths: &TrustPaths,
    known: &Known,
    trusting: &Trusting<D>,
) -> Finding {
    let (subject, domain, head) = ("trust", D::DOMAIN.word(), &known.head.head);
    if let Err(why) = scope.check_trust_paths(paths) {
        let cure = format!("say where: {}", program.command("trust paths --help"));
        return Finding::wrong(subject, why.to_string(), cure);
    }
    let file = scope.roots_path(paths, D::DOMAIN);
    let written = scope.written_roots::<D>(paths).map(|roots| roots.certificates().to_vec());
    if written.is_none() || trusting.is_served(head) && written != Some(trusting.roots(head).certificates().to_vec()) {
        let found = format!("`{}` does not hold the roots that count", file.display());
        return Finding::wrong(
            subject,
            found,
            format!("the agent writes it again when it starts: {}", program.agent()),
        );
    }
    let Some(told) = trusting.told(head) else {
        let found = format!("it is not known yet which versions of the `{domain}` roots are here");
        return Finding::soon(subject, found, format!("the agent asks for it: {}", program.agent()));
    };
    if let Some(refused) = told.refused {
        let found = format!("new `{domain}` roots went back at {}: {}", refused.at, refused.why);
        let cure = format!("mend that, then try them again: {}", program.command("sync --now"));
        return Finding::wrong(subject, found, cure);
    }
    if let Some(version) = told.trial {
        let found = format!("version {version} of the `{domain}` roots is on trial");
        return Finding::soon(subject, found, "nothing: it is confirmed or goes back by itself");
    }
    let versions: Vec<_> = told.versions.iter().map(ToString::to_string).collect();
    Finding::ok(subject, format!("it goes by version {} of the `{domain}` roots", versions.join(", ")))
}

/// Each gateway, with the SVID if there is one: what a renewal would meet.
async fn gateways(
    found: &mut Examination,
    scope: &Scope,
    program: Program,
    node: &NodeFile,
    known: &Known,
    svid: Option<&Svid>,
) {
    let now = found.now;
    let roots = match Trusting::<Endpoint>::open(scope, known, known.now(now)) {
        Ok(trusting) => trusting.roots(&known.head.head),
        Err(why) => return found.push(Finding::wrong("gateway", describe(&why), program.anew())),
    };
    for address in &node.gateways {
        let gateway = GatewayAddress::from(address.clone());
        let own = svid.map(|svid| &svid.own);
        let mut outcome = reach::reach(&gateway, &roots, known, own).await;
        let moved = if outcome.as_ref().is_err_and(is_lost) { refresh(&gateway, known).await.ok() } else { None };
        if let Some((newer, trust)) = moved {
            // As the agent would come home; here it is not kept.
            let leads = |own: &&OwnSvid| !leads_to(&own.chain, &Roots::of_all(&trust.identity), now).is_empty();
            let own = own.filter(leads);
            outcome = reach::reach(&gateway, &Roots::of_all(&trust.endpoint), &newer, own).await;
            if outcome.is_ok() {
                let svid = if own.is_some() { "" } else { ", and its SVID leads to none of them" };
                let answers = format!("{address} answers under roots that this machine has not taken yet{svid}");
                let (agent, sync) = (program.agent(), program.command("sync"));
                let cure = format!("the agent comes back by itself: {agent}; or now: {sync}");
                found.push(Finding::soon("trust", answers, cure));
            }
        }
        let outcome = match (outcome, svid, identity_roots(scope, known)) {
            // An alert says little; this machine knows more.
            (Err(why), Some(svid), Ok(members)) => Err(explain(why, &gateway, known, &svid.own.chain, &members).await),
            (outcome, ..) => outcome,
        };
        found.called(&gateway, &outcome);
    }
}

/// The newest moment that somebody else vouched for.
fn newest(scope: &Scope, known: &Known, svid: Option<&Svid>) -> (String, Timestamp) {
    let head = (format!("head {}", known.head.head.version), known.head.head.issued_at);
    let told = scope.tip().ok().flatten().and_then(|tip| tip.peek::<Tip>(Some(known.org())).ok());
    let tip = told.map(|tip| ("the gateway's last word".to_owned(), tip.at));
    let svid = svid.map(|svid| ("the SVID".to_owned(), svid.not_before));
    [tip, svid].into_iter().flatten().fold(head, |newest, next| if next.1 > newest.1 { next } else { newest })
}
