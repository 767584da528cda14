//! `freehold rotate DOMAIN --compromised`: what breaks is shown, a name is typed, and the stolen root is gone at once.

use std::io::{IsTerminal as _, Write as _};

use ground::clock;
use ground::plain::plain;
use identity::bundle::InDomain;
use operate::trust::dependents::Break;
use operate::trust::dependents::look;
use operate::trust::rotate::{ReplacePlan, replace_plan};
use operate::trust::stolen;
use operate::trust::stolen::Spares;
use terminal::failure::Failure;

use super::spares::Known;
use super::{Run, Then, wait};
use crate::commands::trust::plan::Planned;
use crate::home::During;
use crate::rooting::fresh_root;
use crate::waiting::leave;

pub async fn replace<T: InDomain>(run: &mut Run<'_>) -> Result<Then, Failure> {
    let mut known = Known::gather(run).await?;
    let waived = plan::<T>(run, &known).await?;
    confirm::<T>(run)?;
    known.draw(run, T::DOMAIN).await?;
    let roots = run.wish.roots.clone();
    let root = fresh_root::<T>(run.common, &run.session, roots, &run.doing)?;
    let made = stolen::replace(&mut run.session, &run.keys, &root, known.issuing(), &waived).await;
    drop((root, known));
    let made = made.during(&run.doing)?;
    let (turned, spares) = &made.what;
    let pending = leave(run.common, &run.doing, &run.session.known, &made)?;
    if pending.waiting().is_some() {
        return Ok(run.done("replace", pending));
    }
    run.say(&format!(
        "version {} of `{}` is in use (head {}); all others are trusted no more, and their roots never again",
        turned.version,
        T::DOMAIN.word(),
        turned.head
    ));
    let (version, lost) = (turned.version, lost_words(spares));
    run.say(&format!("mandates moved to the spare keys of {} gateway(s){lost}", spares.ready.len()));
    run.done("replace", pending);
    if run.waits() {
        run.say("waiting until every node is back under it");
    }
    let mut missing = wait::adopted::<T>(run, version).await?;
    if missing.is_empty() {
        missing = wait::reissued::<T>(run, version).await?;
    }
    if missing.is_empty() {
        return Ok(Then::Rest);
    }
    run.told.missing = missing;
    Ok(Then::Wait(format!("the stolen root is gone, and not every node is back under version {version} yet")))
}

/// Shows what would break; gives back how the ledger names it.
async fn plan<T: InDomain>(run: &mut Run<'_>, known: &Known) -> Result<Vec<String>, Failure> {
    let scene = look::scene(&mut run.session, T::DOMAIN).await.during(&run.doing)?;
    let spares = Spares::of(&scene.head, known.issuing(), T::DOMAIN, clock::now());
    let ReplacePlan { scene, step, outcome } = replace_plan(scene, &spares).during(&run.doing)?;
    run.say(&Planned::of(&scene, step, &outcome).in_words());
    run.say(match T::DOMAIN {
        identity::bundle::Domain::Identity => {
            "\nEvery certificate of every node is worth nothing at once. Each node that is there gets a new one by its node \
             key within moments; those that are off do when they are back."
        }
        identity::bundle::Domain::Endpoint => {
            "\nEvery gateway shows a new certificate at once. Nodes find the new root by the signed head; codes, files and \
             images that pin an old one are of no use any more."
        }
    });
    for old in known.old_in_words() {
        run.say(&old);
    }
    if !spares.lost.is_empty() {
        run.say(&format!("These gateways have told no spare key, or are left out{}", lost_words(&spares)));
    }
    run.session.foretell(|session, now| stolen::foretold(session, T::DOMAIN, &spares, now)).await;
    Ok(outcome.breaks.iter().map(Break::in_words).collect())
}

fn lost_words(spares: &Spares) -> String {
    if spares.lost.is_empty() {
        return String::new();
    }
    let names: Vec<_> = spares.lost.iter().map(|name| format!("`{name}`")).collect();
    let names = names.join(", ");
    format!(
        "; {names} cannot issue any more, for the key of its mandate is revoked: remove each; under another name its machine can become \
         a gateway again"
    )
}

/// The org's name, typed: nobody does this by a slip.
fn confirm<T: InDomain>(run: &Run<'_>) -> Result<(), Failure> {
    let org = run.session.known.founding.record.name.as_str();
    let typed = match &run.wish.confirm {
        Some(typed) => typed.clone(),
        None if std::io::stdin().is_terminal() => {
            eprint!("This cannot be taken back. Type the org's name to go on: ");
            let _ = std::io::stderr().flush();
            let mut typed = String::new();
            let _ = std::io::stdin().read_line(&mut typed);
            typed.trim().to_owned()
        }
        None => {
            return Err(Failure::usage(&run.doing, "this must be confirmed, and there is no terminal to ask at")
                .hint(format!("add --confirm {org}, if the {} root was stolen", T::DOMAIN.word())));
        }
    };
    if typed == org {
        return Ok(());
    }
    Err(Failure::refused(&run.doing, format!("`{}` is not the org's name: nothing was done", plain(&typed))))
}
