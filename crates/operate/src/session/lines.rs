//! Every entry of this home's copy of the ledger as a line of the audit, judged here.

use std::collections::BTreeSet;

use identity::id::Correlation;
use org::audit::{self, AuditLine};
use org::state::State;

use crate::session::fold::entries;
use crate::session::{Result, Session};

/// Every entry, or those about a subject.
pub async fn lines(session: &mut Session, subject: Option<&str>) -> Result<Vec<AuditLine>> {
    let (state, entries) = (session.folded().await?, entries(session).await?);
    let mut told = BTreeSet::new();
    // Two gateways may have been handed the same.
    let lines = entries.iter().map(|signed| audit::line(&state, signed));
    let lines = lines.filter(|line| told.insert((line.action.clone(), line.subject.clone(), line.fingerprint)));
    let mut lines: Vec<AuditLine> = lines.collect();
    told_by_its_head(&mut lines, &state);
    lines.retain(|line| subject.is_none_or(|subject| line.concerns(subject, &state)));
    Ok(lines)
}

/// A bundle, a release or a step to other signers that came with a head which names it is told by that one.
fn told_by_its_head(lines: &mut Vec<AuditLine>, state: &State) {
    let is_head = |line: &AuditLine| state.head_named(line.fingerprint).is_some();
    let subject = |line: &AuditLine| (line.correlation, about(&line.action).to_owned());
    let heads: BTreeSet<(Correlation, String)> = lines.iter().filter(|line| is_head(line)).map(subject).collect();
    let named = |line: &AuditLine| heads.contains(&subject(line));
    lines.retain(|line| {
        is_head(line) || !["bootstrap_trust", "release", "signers"].contains(&about(&line.action)) || !named(line)
    });
}

fn about(action: &str) -> &str {
    action.split_once('.').map_or(action, |(about, _)| about)
}
