//! A membership, looked at from its own disk, its agent and its gateways.

use identity::causes::describe;
use identity::key::Sign as _;
use member::agent::status::NodeStatus;
use member::agent::tunnel::view::State;
use member::apply::view;
use member::store::damage::{self, Worth};
use member::store::scope::{NodeFile, Scope, ScopeError, Svid};
use org::ledger::frontier::Tip;
use org::report::ProgramTold;
use terminal::finding::{Finding, Patient};
use wire::known::Known;

use super::examination::Examination;
use super::standing::{self, Viewer, Vouched};
use super::{process, trust};
use crate::program::Program;

/// The scope goes by the name of its folder.
pub(crate) async fn examine(scope: &Scope, program: Program, folder: String) -> Patient {
    let (node, known) = (scope.node(), scope.known());
    let name = match (&node, program) {
        // Inside a gateway every scope's folder has the same name.
        (Ok(Some(node)), Program::Gateway) => node.org.to_string(),
        _ => folder,
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
    // What else is wrong follows from it, and nothing helps.
    if is_revoked(scope) {
        return found.end(name, Some(&newest));
    }
    let now = found.now;
    found.push(standing::svid(now, svid.as_ref().map(Option::as_ref), program.agent()));
    found.push(standing::head(now, &known.head.head, Viewer::Node));
    found.push(standing::mandate(now, known.head.head.mandates.iter(), Viewer::Node));
    let status = NodeStatus::from_agent(scope);
    found.push(agent(status.as_ref(), program));
    let tunnel = status.as_ref().map(|status| &status.tunnel);
    found.extend(tunnel.filter(|tunnel| tunnel.state != State::Off).map(|there| process::tunnel(Some(there), program)));
    found.extend(programs(status.as_ref(), scope, program));
    found.push(applied(scope, program, status));
    found.extend(trust::trust(scope, program, &known, now));
    let good =
        svid.as_ref().ok().and_then(Option::as_ref).filter(|svid| svid.not_before <= now && now < svid.not_after);
    trust::gateways(&mut found, scope, program, &node, &known, good).await;
    found.end(name, Some(&newest))
}

/// Files that lie there and say nothing. What nothing goes on without is told as the membership.
fn damage(scope: &Scope, program: Program) -> Option<Finding> {
    let told = damage::damaged(scope).into_iter().filter(|(worth, _)| *worth != Worth::Needed);
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
    if let Some((_, why)) = damage::damaged(scope).into_iter().find(|(worth, _)| *worth == Worth::Needed) {
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
pub(crate) fn is_revoked(scope: &Scope) -> bool {
    let (Ok(Some(known)), Ok(key)) = (scope.known(), scope.node_key()) else {
        return false;
    };
    known.head.head.revocations.node_keys.contains(&key.public().digest())
}

fn agent(status: Option<&NodeStatus>, program: Program) -> Finding {
    match status {
        None => Finding::wrong(
            "agent",
            "it does not run: nothing is renewed",
            format!("start it, and let your service manager keep it running: {}", program.agent()),
        ),
        Some(status) => match (&status.problem, status.last_check_in) {
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
fn applied(scope: &Scope, program: Program, status: Option<NodeStatus>) -> Finding {
    let subject = "manifest";
    let view = status.map_or_else(|| view::from_disk(&scope.folder), |status| status.applied);
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

/// Do the programs here have their SVIDs, and were they told?
fn programs(status: Option<&NodeStatus>, scope: &Scope, program: Program) -> Vec<Finding> {
    let on_disk = || NodeStatus::from_disk(scope).map(|status| status.programs).unwrap_or_default();
    let views = status.map_or_else(on_disk, |status| status.programs.clone());
    let found = views.iter().map(|view| {
        let (whose, folder) = (&view.principal, view.folder.display());
        let subject = "program";
        let Some(ProgramTold { at, why, .. }) = &view.problem else {
            return Finding::ok(subject, format!("that of {whose} reads `{folder}`, good until {}", view.expires_at));
        };
        let cure = if view.untold {
            format!("mend that, and run it again: {}; it has the new SVID in `{folder}`", program.command("sync --now"))
        } else {
            "mend that; the agent tries again with the next exchange".to_owned()
        };
        Finding::wrong(subject, format!("that of {whose}, since {at}: {why}"), cure)
    });
    found.collect()
}

/// The newest moment that somebody else vouched for.
fn newest(scope: &Scope, known: &Known, svid: Option<&Svid>) -> Vouched {
    let vouched = |what: &str, at| Vouched { what: what.to_owned(), at };
    let head = vouched(&format!("head {}", known.head.head.version), known.head.head.issued_at);
    let told = scope.tip().ok().flatten().and_then(|tip| tip.peek::<Tip>(Some(known.org())).ok());
    let tip = told.map(|tip| vouched("the gateway's last word", tip.at));
    let svid = svid.map(|svid| vouched("the SVID", svid.not_before));
    [tip, svid].into_iter().flatten().fold(head, |newest, next| if next.at > newest.at { next } else { newest })
}
