//! What the programs here get of their SVIDs: the files as the manifest says, and a word when something has changed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ground::clock;
use identity::causes::describe;
use identity::certificate;
use identity::id::Digest;
use identity::principal::Principal;
use manifest::stored::ProgramSvid;
use org::report::{ProgramTold, plain};
use tokio::task::{AbortHandle, JoinSet};
use wire::known::Known;

use crate::agent::Agent;
use crate::agent::status::NodeStatus;
use crate::apply::probe;
use crate::ask::keep::identity_roots;
use crate::store::programs::{self, Desk, Handed, NotHanded, Owned, ProgramView, Reload};
use crate::store::scope::{Scope, ScopeError};

/// Whoever takes longer to read a file again is not waited for.
const RELOAD_TIME: Duration = Duration::from_secs(30);

/// Programs that are being told. Dropped, it ends what it began; whoever was not told to the end is told again.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    telling: JoinSet<()>,
    told: BTreeMap<Principal, AbortHandle>,
}

impl Programs {
    /// One at a time for each: what changes meanwhile is told with the next exchange.
    fn is_free(&mut self, principal: &Principal) -> bool {
        while self.telling.try_join_next().is_some() {}
        self.told.get(principal).is_none_or(AbortHandle::is_finished)
    }
}

impl Agent {
    /// After each exchange, whatever came of it: what lies here already is for programs also while no gateway answers.
    pub(crate) fn serve_programs(&mut self) {
        if let Err(why) = self.serve() {
            tracing::error!(why = describe(&why), "what is for programs here could not be read");
        }
        let views = programs::views(&self.scope);
        self.tell(|status| status.programs = views);
    }

    fn serve(&mut self) -> Result<(), ScopeError> {
        let said = self.engine.current().map(|manifest| manifest.runs.svids.clone()).unwrap_or_default();
        if said.is_empty() && !programs::is_begun(&self.scope) {
            return Ok(());
        }
        let Some(known) = self.scope.known()? else { return Ok(()) };
        let placed = self.placed(&known);
        let said: BTreeMap<_, _> = said.into_iter().filter(|(principal, _)| placed.contains(principal)).collect();
        // What is on trial may go back, and its programs want their files then.
        if !self.engine.is_on_trial() {
            programs::keep_only(&self.scope, said.keys())?;
        }
        let roots = roots(&self.scope, &known)?;
        for (principal, svid) in &said {
            // One that fails keeps no other from its files.
            if let Err(why) = self.serve_one(principal, svid, &roots) {
                tracing::error!(%principal, why = describe(&why), "its program does not have its SVID");
            }
        }
        Ok(())
    }

    fn serve_one(&mut self, principal: &Principal, said: &ProgramSvid, roots: &str) -> Result<(), ScopeError> {
        let Some(has) = self.scope.seat(principal).svid()? else { return Ok(()) };
        let desk = Desk::of(&self.scope, principal);
        let handed = Handed {
            certificate: certificate::to_pem(&has.own.chain),
            key: has.own.key.to_pem(),
            roots: roots.to_owned(),
        };
        let owned = Owned::by(said).map_err(NotHanded::from);
        let outcome = owned.and_then(|owned| desk.hand(&self.scope, &handed, owned));
        let known = desk.noted().and_then(|view| view.problem);
        let problem = outcome.as_ref().err().map(|why| {
            let why = describe(why);
            known.filter(|known| known.why == why).unwrap_or_else(|| {
                tracing::error!(%principal, why, "its program does not have its SVID as the manifest says");
                ProgramTold { principal: principal.clone(), at: clock::now(), why }
            })
        });
        let view = ProgramView {
            principal: principal.clone(),
            folder: desk.folder().to_owned(),
            expires_at: has.not_after,
            dns: has.dns,
            told_at: None,
            problem,
            untold: false,
        };
        desk.note(&view)?;
        match outcome {
            Ok(files) if !said.reload.is_empty() => self.tell_of_change(desk, principal, of(files, &said.reload), said),
            Ok(_) => desk.forget_reload()?,
            Err(_) => {}
        }
        Ok(())
    }

    fn tell_of_change(&mut self, desk: Desk, principal: &Principal, of: Digest, said: &ProgramSvid) {
        let urged = self.errand.as_ref().is_some_and(|asked| asked.errand.urge().is_some());
        let is_known = desk.reload().is_some_and(|last| last.of == of && !(urged && last.failed.is_some()));
        if is_known || !self.programs.is_free(principal) {
            return;
        }
        let (scope, status) = (self.scope.clone(), Arc::clone(&self.status));
        let (whose, words) = (principal.clone(), said.reload.clone());
        let telling = self.programs.telling.spawn(async move {
            let failed = reload(&words).await.err();
            match &failed {
                None => tracing::info!(principal = %whose, "its program was told of a new SVID"),
                Some(why) => tracing::error!(principal = %whose, why, "its program was not told of a new SVID"),
            }
            if let Err(why) = desk.note_reload(&Reload { of, at: clock::now(), failed }) {
                tracing::error!(principal = %whose, why = describe(&why), "that its program was told is not written down");
            }
            show(&scope, &status);
        });
        self.programs.told.insert(principal.clone(), telling);
    }
}

/// Which files, and by which words.
fn of(files: Digest, words: &[String]) -> Digest {
    let words = serde_json::to_vec(words).unwrap_or_default();
    Digest::of(&[&files.0[..], &words].concat())
}

fn roots(scope: &Scope, known: &Known) -> Result<String, ScopeError> {
    Ok(certificate::to_pem(identity_roots(scope, known)?.certificates()))
}

async fn reload(words: &[String]) -> Result<(), String> {
    let telling = tokio::time::timeout(RELOAD_TIME, probe::command(words, Path::new("/"))).await;
    match telling {
        Ok(told) => told.map_err(|why| why.to_string()),
        Err(_) => Err(format!("`{}` did not end within 30s", words.first().map_or("", String::as_str))),
    }
}

fn show(scope: &Scope, status: &Mutex<NodeStatus>) {
    let views = programs::views(scope);
    status.lock().unwrap_or_else(PoisonError::into_inner).programs = views;
}

/// For a report: what operators should know.
pub(crate) fn troubles(views: &[ProgramView]) -> Vec<ProgramTold> {
    let told = |view: &ProgramView| view.problem.clone().map(|told| ProgramTold { why: plain(&told.why), ..told });
    views.iter().filter_map(told).take(org::report::TOLD).collect()
}
