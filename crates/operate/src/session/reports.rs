//! What nodes say of themselves, each signed by its node key; and the highest head that any of them has.

use std::collections::BTreeMap;

use identity::id::{Digest, OrgId};
use identity::time::Timestamp;
use org::report::Report;
use serde::Serialize;
use wire::control::{Answer, Call, ReportView};

use crate::session::desk::{Desk, DeskError};
use crate::session::{OperateError, Session};

/// A report by the key that it names. Whose key that is, the caller knows.
#[derive(Debug, Clone, Serialize)]
pub struct Heard {
    #[serde(flatten)]
    pub report: Report,
    pub received_at: Timestamp,
}

/// The last report of each node key.
pub type Reports = BTreeMap<Digest, Heard>;

/// No org publishes so often: whoever claims to be further ahead than this wants to use the numbers up.
pub const LARGEST_JUMP: u64 = 1_000_000;

fn open(org: OrgId, view: &ReportView) -> Option<Heard> {
    let named: Report = view.report.peek(Some(org)).ok()?;
    let report: Report = view.report.open_signed_by(Some(org), &[named.node_key]).ok()?;
    report.is_plain().then_some(Heard { report, received_at: view.received_at })
}

impl<D: Desk> Session<D> {
    /// All that is known of what nodes say of themselves; nothing where no gateway answers.
    pub async fn reports_known(&mut self) -> Result<Reports, OperateError> {
        if self.desk().is_alone() { Ok(Reports::default()) } else { Ok(self.reports(0).await?.0) }
    }

    /// Reports that came after the one with this number, and the number to ask after next time. What does not hold is
    /// left out.
    pub async fn reports(&mut self, after: u64) -> Result<(Reports, u64), OperateError> {
        let (mut all, mut last) = (Reports::new(), after);
        loop {
            let Answer::Reports { reports, last: seen, more } = self.ask(Call::Reports { after: last }).await? else {
                return Err(DeskError::OtherAnswer.into());
            };
            let heard = reports.iter().filter_map(|view| open(self.known.org(), view));
            all.extend(heard.map(|heard| (heard.report.node_key.digest(), heard)));
            // A number that does not rise would be asked for for ever.
            let rises = seen > last;
            last = last.max(seen);
            if !more || !rises {
                return Ok((all, last));
            }
        }
    }

    /// Finds out whether a member has a head above the one in force: the next version must exceed it, or that node
    /// would never take it. Nothing is asked unless somebody claims so.
    pub(crate) async fn weigh_mark(&mut self) -> Result<(), OperateError> {
        self.mark = None;
        self.odd_marks.clear();
        let now = self.known.head.head.version;
        let claimed = self.survey.mark.as_ref().and_then(|mark| mark.peek::<Report>(Some(self.known.org())).ok());
        if claimed.is_none_or(|claimed| claimed.head.version <= now) {
            return Ok(());
        }
        // The one that claims most may lie, and hide another that does not: all are looked at.
        let (reports, _) = self.reports(0).await?;
        let mut ahead: Vec<&Heard> = reports.values().filter(|heard| heard.report.head.version > now).collect();
        ahead.sort_by_key(|heard| std::cmp::Reverse(heard.report.head.version));
        for Heard { report, .. } in ahead {
            let (name, version) = (&report.node, report.head.version);
            if version - now > LARGEST_JUMP {
                self.odd_marks.push(format!(
                    "`{name}` says that it has head {version}, which cannot be: it is not heeded. Look at that machine."
                ));
                continue;
            }
            if self.is_members(report).await {
                self.mark = Some(version);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Was the key that made this report let in, under this name, and not revoked?
    async fn is_members(&mut self, report: &Report) -> bool {
        let key = report.node_key.digest();
        if self.known.head.head.revocations.node_keys.contains(&key) {
            return false;
        }
        // Whoever has no ledger signs nothing, and heeds no mark.
        let Ok(state) = Box::pin(self.folded()).await else { return false };
        state.members.get(&key).is_some_and(|member| member.claim().name == report.node)
    }
}
