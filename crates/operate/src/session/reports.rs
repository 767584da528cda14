//! What nodes say of themselves, each signed by its node key.

use std::collections::BTreeMap;

use identity::id::{Digest, OrgId};
use identity::time::Timestamp;
use org::report::Report;
use serde::Serialize;
use wire::control::{Call, ControlAnswer, ReportView};

use crate::session::{DeskError, Result, Session};

/// A report by the key that it names. Whose key that is, the caller knows.
#[derive(Debug, Clone, Serialize)]
pub struct Heard {
    #[serde(flatten)]
    pub report: Report,
    pub received_at: Timestamp,
}

/// The last report of each node key.
pub type Reports = BTreeMap<Digest, Heard>;

/// All that is known of what nodes say of themselves; nothing where no gateway answers.
pub async fn reports_known(session: &mut Session) -> Result<Reports> {
    if session.is_alone() { Ok(Reports::default()) } else { Ok(reports(session, 0).await?.0) }
}

/// Reports that came after the one with this number, and the number to ask after next time. What does not hold is
/// left out.
pub(crate) async fn reports(session: &mut Session, after: u64) -> Result<(Reports, u64)> {
    let (mut all, mut last) = (Reports::new(), after);
    loop {
        let ControlAnswer::Reports { reports, last: seen, more } = session.ask(Call::Reports { after: last }).await?
        else {
            return Err(DeskError::OtherAnswer.into());
        };
        let heard = reports.iter().filter_map(|view| open(session.known.org(), view));
        all.extend(heard.map(|heard| (heard.report.node_key.digest(), heard)));
        // A number that does not rise would be asked for for ever.
        let rises = seen > last;
        last = last.max(seen);
        if !more || !rises {
            return Ok((all, last));
        }
    }
}

fn open(org: OrgId, view: &ReportView) -> Option<Heard> {
    let named: Report = view.report.peek(Some(org)).ok()?;
    let report: Report = view.report.open_signed_by(Some(org), &[named.node_key]).ok()?;
    report.is_plain().then_some(Heard { report, received_at: view.received_at })
}
