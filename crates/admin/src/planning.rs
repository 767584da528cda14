//! What publishing a fleet would do, told to a person.

use std::path::Path;

use identity::time::Timestamp;
use operate::publish::fleet::git::{self, GitState};
use operate::publish::plan::Prepared;
use operate::publish::watch::listed;
use operate::session::Session;
use serde::Serialize;
use terminal::failure::Failure;

use terminal::screen::Live;

use crate::home::During;

/// Says what the folder is in git. Changes that were not committed need a word.
pub fn git_state(folder: &Path, dirty: bool, doing: &str) -> Result<GitState, Failure> {
    let state = git::look(folder).during(doing)?;
    if state.versioned && state.fleet.dirty && !dirty {
        let shown: Vec<_> = state.changed.iter().take(5).map(String::as_str).collect();
        let why = match shown.as_slice() {
            [] => "the fleet's folder is under git, and nothing is committed there yet".to_owned(),
            some => format!("the fleet's folder has changes that are not committed: {}", some.join(", ")),
        };
        return Err(Failure::refused(doing, why).hint("commit them; or publish them as they are: --dirty"));
    }
    Ok(state)
}

pub fn git_words(state: &GitState) -> String {
    match &state.fleet.commit {
        _ if !state.versioned => "the fleet's folder is not under git: nobody can look up later what it was".to_owned(),
        Some(commit) if state.fleet.dirty => format!("commit {commit}, WITH CHANGES that are not committed"),
        Some(commit) => format!("commit {commit}"),
        None => "no commit yet".to_owned(),
    }
}

/// A line that stays while many admissions are checked.
pub fn progress(what: &'static str) -> impl FnMut(usize, usize) {
    let mut live = Live::new();
    move |done, all| {
        if let Some(live) = live.as_mut().filter(|_| all > 50 && (done % 50 == 0 || done == all)) {
            live.draw(&[format!("{what} {done} of {all}")]);
        }
    }
}

/// A plan as data.
#[derive(Debug, Serialize)]
pub struct PlanTold {
    #[serde(flatten)]
    plan: manifest::diff::Plan,
    root: String,
    head: u64,
    /// Where no gateway answers: until when this home was told.
    as_of: Option<Timestamp>,
    schema: Option<u32>,
    held_back_by: Vec<String>,
    not_heard: Vec<String>,
    displaced: Vec<String>,
    gone: Vec<operate::publish::plan::Gone>,
    patterns: Vec<operate::invite::patterns::PatternChange>,
    warnings: Vec<operate::publish::shortening::Warning>,
}

pub fn as_facts(session: &Session, prepared: &Prepared) -> PlanTold {
    let names = |names: &[identity::principal::NodeName]| names.iter().map(ToString::to_string).collect();
    let schema = prepared.schema.as_ref();
    PlanTold {
        plan: prepared.plan.clone(),
        root: prepared.compiled.root.to_string(),
        head: session.head().version,
        as_of: session.as_of(),
        schema: schema.map(|schema| schema.schema),
        held_back_by: schema.map(|schema| names(&schema.held_back_by)).unwrap_or_default(),
        not_heard: schema.map(|schema| names(&schema.not_heard)).unwrap_or_default(),
        displaced: prepared.displaced.iter().map(|place| format!("{} on {}", place.principal, place.node)).collect(),
        gone: prepared.gone.clone(),
        patterns: prepared.patterns.changes(),
        warnings: prepared.warnings.clone(),
    }
}

pub fn in_words(session: &Session, prepared: &Prepared) -> String {
    let mut lines = vec![match session.head().fleet {
        Some(_) => format!("against head {}:", session.head().version),
        None => "no fleet was published yet: everything is new".to_owned(),
    }];
    lines.push(prepared.plan.to_string());
    if session.is_alone() {
        lines.push(
            "which schema each machine reads only a gateway knows: planned with that of what is published".to_owned(),
        );
    }
    if let Some(schema) = &prepared.schema {
        if !schema.held_back_by.is_empty() {
            lines.push(format!(
                "manifests are of schema {}: {} read(s) no higher one; upgrade freehold-node there",
                schema.schema,
                listed(&schema.held_back_by)
            ));
        }
        if !schema.not_heard.is_empty() {
            lines.push(format!("never heard from: {}; they may be old, or not be running", listed(&schema.not_heard)));
        }
    }
    for changed in prepared.patterns.changes() {
        lines.push(format!("pattern `{}` {}", changed.pattern, changed.change));
    }
    for place in &prepared.displaced {
        lines.push(format!(
            "{} LOSES its place on `{}`: from now on the fleet alone says who is where",
            place.principal, place.node
        ));
    }
    for gone in &prepared.gone {
        let how = if gone.left { "left, by its own word" } else { "was revoked" };
        lines.push(format!("`{}` {how}: its leaf goes", gone.name));
    }
    lines.extend(prepared.warnings.iter().map(|warning| format!("WARNING: {}", warning.words)));
    lines.join("\n")
}
