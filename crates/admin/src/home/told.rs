//! What whoever sits here is told beside what they came for.

use ground::clock;
use operate::replica::roll::Roll;
use operate::session::{Session, inbox};
use terminal::show::say_beside;
use wire::known::freeze::Freeze;

/// What a head does to machines, before it is signed.
pub(super) fn tell_roll(roll: &Roll) {
    for line in roll.in_words() {
        eprintln!("{line}");
    }
}

/// What waits for whoever sits here is told once, whatever they came for. A gateway that cannot tell holds nothing up.
pub(super) async fn tell_of_inbox(session: &mut Session) {
    for it in inbox::news(session).await.unwrap_or_default() {
        let left_by = it.left_by.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let (what, short) = (it.needs.last().map_or("", |need| &need.what), it.pending.short());
        say_beside(&format!("SIGN: {what}, left by {left_by}, waits for your signature: freehold sign {short}"));
    }
}

/// Whoever sits here should know, whatever they came for.
pub(super) fn warn_of_recoveries(session: &Session) {
    if let Some(freeze) = Freeze::of(&session.known, clock::now()) {
        eprintln!("FROZEN: {freeze}");
        return;
    }
    let now = clock::now();
    for (set, due_at) in session.known.alarms() {
        let names: Vec<_> = set.quorum.signers().iter().map(|signer| signer.name.to_string()).collect();
        eprintln!(
            "RECOVERY: somebody with the recovery phrases replaces the signers by {} at {due_at}.",
            names.join(", ")
        );
        if now < due_at {
            say_beside("  If the signers are not lost, stop it before then: freehold recover --cancel");
        }
    }
}
