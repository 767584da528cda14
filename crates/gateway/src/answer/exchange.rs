//! Another gateway asks for what it lacks, or an observer. Whether it is one, the head and the ledger of now say.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use ground::clock;
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::principal::NodeName;
use identity::text::Bytes;
use org::enroll::renew::check_standing;
use org::ledger::entry::SignedEntry;
use org::member::{Member, ROLE_OBSERVER};
use org::refusal::{Fault, Refusal};
use org::state::MemberRecord;
use wire::control::{ControlAnswer, ReportView};
use wire::exchange::{
    BYTES_PER_PAGE, Delta, ENTRIES_PER_PAGE, ExchangeAnswer, ExchangeRequest, Have, LONGEST_EXCHANGE,
};
use wire::permit::Caller;

use crate::answer::operator::{stage, trust};
use crate::fault::OrFault as _;
use crate::gateway::Gateway;
use crate::write::transaction::Transaction;

/// Whoever exchanges, by what is so at this question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    Gateway(NodeName),
    /// By the admission of its node key.
    Observer,
}

/// A member whose node has an active mandate, and is not this one; or one who may look.
pub(crate) async fn check(gateway: &Gateway, member: &Member, needed: Caller) -> Result<Peer, Refusal> {
    let not_permitted = || Refusal::NotPermitted { needed: needed.word().to_owned() };
    let now = clock::now();
    gateway.suspended.check(member.node_key().digest(), now)?;
    let mandated = gateway.judgment.load().head.active_mandate(member.node(), now).is_some();
    if mandated && *member.node() != gateway.about.node {
        return Ok(Peer::Gateway(member.node().clone()));
    }
    match needed {
        Caller::Observer if observes(gateway, member).await => Ok(Peer::Observer),
        Caller::Observer | Caller::Stranger | Caller::Member | Caller::Gateway | Caller::Operator => {
            Err(not_permitted())
        }
    }
}

/// Is it a member now, and did operators' invite and its own claim give it the role? What merely claims a host name never has it.
async fn observes(gateway: &Gateway, member: &Member) -> bool {
    let state = gateway.state().await;
    let may = |record: &MemberRecord| {
        let claim = record.claim();
        check_standing(&state, record).is_ok()
            && !claim.is_low()
            && claim.name == *member.node()
            && claim.roles.iter().any(|role| role.as_str() == ROLE_OBSERVER)
    };
    state.member(&member.node_key()).is_some_and(may)
}

pub(crate) async fn answer(
    gateway: &Arc<Gateway>,
    peer: Peer,
    request: ExchangeRequest,
) -> Result<ExchangeAnswer, Refusal> {
    match request {
        ExchangeRequest::News(have) => match peer {
            Peer::Gateway(peer) => Ok(ExchangeAnswer::News(Box::new(wait_for_news(gateway, peer, have).await?))),
            Peer::Observer => Ok(ExchangeAnswer::News(Box::new(show_news(gateway, have).await?))),
        },
        ExchangeRequest::Map { root, from } => {
            match gateway.writer.run(move |tx| stage::read_map(tx, root, from)).await? {
                ControlAnswer::Map { leaves, next } => Ok(ExchangeAnswer::Map { leaves, next }),
                _ => Err(Refusal::NotFound { what: "map".to_owned() }),
            }
        }
        ExchangeRequest::MapChange { root, base } => {
            let change = gateway.writer.run(move |tx| stage::read_change(tx, root, base)).await?;
            Ok(ExchangeAnswer::MapChange(change))
        }
        ExchangeRequest::File { digest, from } => part(gateway, digest, from).await,
        ExchangeRequest::Issuers {} => Ok(ExchangeAnswer::Issuers { issuers: trust::known(gateway).await? }),
        ExchangeRequest::Blobs { digests } => {
            match gateway.writer.run(move |tx| stage::read_blobs(tx, &digests)).await? {
                ControlAnswer::Blobs { blobs } => Ok(ExchangeAnswer::Blobs { blobs }),
                _ => Err(Refusal::NotFound { what: "manifest".to_owned() }),
            }
        }
    }
}

/// What is signed, and nothing of what gateways tell each other of machines. Nothing that an observer brings is taken, and it
/// is not kept waiting: it asks again, and is judged anew.
async fn show_news(gateway: &Arc<Gateway>, have: Have) -> Result<Delta, Refusal> {
    let gather = move |tx: &mut Transaction<'_>| {
        let frontier = tx.state.frontier.clone();
        let (entries, more) = tx.keep(|tx| tx.ledger.beyond(tx.state, &have.frontier))?;
        let forks = tx.keep(|tx| tx.ledger.forks(tx.state))?;
        let (issued_until, reports_until) = (have.issued, have.reports);
        Ok((entries, forks, frontier, more, issued_until, reports_until))
    };
    let ((entries, forks, frontier, more, issued_until, reports_until), tip) =
        gateway.writer.run_for_tip(gather).await?;
    let (issued, reports) = (Vec::new(), Vec::new());
    Ok(Delta { entries, forks, frontier, issued, issued_until, reports, reports_until, more, tip })
}

async fn wait_for_news(gateway: &Arc<Gateway>, peer: NodeName, mut have: Have) -> Result<Delta, Refusal> {
    hear_forks(gateway, std::mem::take(&mut have.forks)).await?;
    // A gateway that is behind hands out nothing: what it lacks, others have.
    gateway.confront(have.tip.as_ref()).await?;
    gateway.peers.asked(&peer, have.frontier.clone(), clock::now());
    let until = tokio::time::Instant::now() + Duration::from_secs(have.wait.min(LONGEST_EXCHANGE).0);
    let mut closing = gateway.shelf.listen();
    let mut bell = gateway.peers.listen();
    loop {
        bell.borrow_and_update();
        let over = closing.borrow_and_update().closing || tokio::time::Instant::now() >= until;
        // Whoever lost its mandate while it waited is told nothing more.
        if gateway.judgment.load().head.active_mandate(&peer, clock::now()).is_none() {
            return Err(Refusal::NotPermitted { needed: "gateway".to_owned() });
        }
        let news = news_for(gateway, &have).await?;
        let is_news = !news.entries.is_empty() || !news.issued.is_empty() || !news.reports.is_empty();
        if over || is_news || news.more {
            return Ok(news);
        }
        tokio::select! {
            _ = tokio::time::timeout_at(until, bell.changed()) => {}
            _ = closing.wait_for(|rung| rung.closing) => {}
        }
    }
}

/// Entries carry their own authority: whoever has two at one place shows them to all.
async fn hear_forks(gateway: &Gateway, forks: Vec<Envelope>) -> Result<(), Refusal> {
    let org = gateway.about.org_id;
    let forks = forks.into_iter().take(ENTRIES_PER_PAGE).map(|envelope| SignedEntry::open(org, envelope));
    let forks: Vec<_> = forks.collect::<Result<_, _>>().map_err(|why| Refusal::Malformed { why: why.to_string() })?;
    if forks.is_empty() {
        return Ok(());
    }
    gateway.writer.run(move |tx| tx.merge(forks)).await.map(drop)
}

async fn news_for(gateway: &Arc<Gateway>, have: &Have) -> Result<Delta, Refusal> {
    let (have, own) = (have.clone(), gateway.about.node.clone());
    let gather = move |tx: &mut Transaction<'_>| {
        let frontier = tx.state.frontier.clone();
        let (entries, mut more) = tx.keep(|tx| tx.ledger.beyond(tx.state, &have.frontier))?;
        let forks = tx.keep(|tx| tx.ledger.forks(tx.state))?;
        let (mut issued, mut issued_until) = (Vec::new(), have.issued);
        let (mut reports, mut reports_until) = (Vec::new(), have.reports);
        // Whom it is about comes first.
        if !more {
            if have.issued == 0 {
                tx.keep(|tx| tx.ledger.note_earlier(&own))?;
            }
            (issued, issued_until) = tx.keep(|tx| tx.ledger.issued_after(&own, have.issued))?;
            let limit = u32::try_from(ENTRIES_PER_PAGE).unwrap_or(u32::MAX);
            let rows = tx.keep(|tx| tx.ledger.reports(have.reports, limit))?;
            more = issued.len() == ENTRIES_PER_PAGE || rows.len() == ENTRIES_PER_PAGE;
            reports_until = rows.last().map_or(have.reports, |row| row.number);
            let view =
                |row: ledger::published::StoredReport| ReportView { report: row.report, received_at: row.received_at };
            reports = rows.into_iter().map(view).collect();
        }
        Ok(((entries, forks), frontier, (issued, issued_until), (reports, reports_until), more))
    };
    // Entries of this batch are on disk when the answer leaves: the job's end waits for the commit.
    let gathered = gateway.writer.run_for_tip(gather).await?;
    let (((entries, forks), frontier, (issued, issued_until), (reports, reports_until), more), tip) = gathered;
    Ok(Delta { entries, forks, frontier, issued, issued_until, reports, reports_until, more, tip })
}

/// A part of a file, for another gateway; no size if it is not here.
async fn part(gateway: &Gateway, digest: Digest, from: u64) -> Result<ExchangeAnswer, Refusal> {
    let store = Arc::clone(&gateway.shelves.store);
    let read = move || -> std::io::Result<ExchangeAnswer> {
        let Some((mut file, size)) = store.open(digest)? else {
            return Ok(ExchangeAnswer::File { size: None, bytes: Bytes(Vec::new()) });
        };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.take(u64::try_from(BYTES_PER_PAGE).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
        Ok(ExchangeAnswer::File { size: Some(size), bytes: Bytes(bytes) })
    };
    tokio::task::spawn_blocking(read).await.or_fault(Fault::Program)?.or_fault(Fault::Disk)
}
