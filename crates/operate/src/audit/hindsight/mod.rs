//! Could she reach it then, and by whose signature? From the ledger, and from the maps that its signed heads name.

pub mod question;
pub(crate) mod judge;

use std::collections::{BTreeMap, BTreeSet};

use identity::head::{GitHash, Head};
use identity::id::Digest;
use identity::key::PublicKey;
use identity::members::{ClassLeaf, ClassLeaves};
use identity::principal::{Author, Name, NodeName, Principal, PrincipalKind, SignerName};
use identity::signers::Signer;
use identity::time::Timestamp;
use judge::{Judgement, WayIn, judge};
use manifest::stored::BadManifest;
use manifest::table::Table;
use org::audit;
use org::audit::hindsight::{Past, signers_of};
use org::ledger::fold::Leaves;
use org::ledger::heads::KnownHead;
use org::ledger::replica::carried;
use org::state::State;
use question::{Asked, BadQuestion, Names, Question};
use serde::Serialize;

use crate::replica::published::PublishedMap;
use crate::session::fold::entries;
use crate::session::maps::published_as;
use crate::session::{OperateError, Session};

/// So many maps are read on either side of the moment, to find where the answer changed.
const MAPS: usize = 48;

#[derive(Debug, thiserror::Error)]
pub enum CannotSay {
    #[error(transparent)]
    Operate(#[from] OperateError),
    #[error(transparent)]
    Question(#[from] BadQuestion),
    #[error("{at} is before the org was founded, at {founded}")]
    BeforeFounding { at: Timestamp, founded: Timestamp },
    #[error("{at} has not come yet: it is {now}")]
    NotYet { at: Timestamp, now: Timestamp },
    #[error("head {head} names something that this program cannot read")]
    Unreadable {
        head: u64,
        #[source]
        why: BadManifest,
    },
    #[error("it cannot be said: head {head}, in force then, needs {what} {digest}, which the gateway no longer has")]
    NotKept { head: u64, what: &'static str, digest: Digest },
}

#[derive(Debug, Clone, Serialize)]
pub struct Hindsight {
    pub at: Timestamp,
    pub who: Principal,
    pub from: Option<NodeName>,
    pub what: Name,
    pub allowed: bool,
    pub ways: Vec<WayIn>,
    /// What stands against it, if it was not allowed.
    pub against: Vec<String>,
    /// Where the answer last became this one, and where it became another.
    pub since: Edge,
    pub until: Edge,
    pub head: Option<HeadTold>,
}

/// A moment at which the answer changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "edge")]
pub enum Edge {
    At {
        at: Timestamp,
        /// What was in force from then on.
        head: Option<u64>,
        /// The entries of that moment: who did what.
        by: Vec<String>,
    },
    /// The org's beginning, or now.
    Open,
    /// At least so far: further maps were not read, or are not there.
    Unknown { at: Timestamp },
}

#[derive(Debug, Clone, Serialize)]
pub struct HeadTold {
    pub version: u64,
    pub digest: Digest,
    pub issued_at: Timestamp,
    pub fresh_until: Timestamp,
    /// At that time.
    pub fresh: bool,
    pub members: Option<Digest>,
    /// The fleet's commit that it was compiled from.
    pub commit: Option<GitHash>,
    /// The fleet's folder in it, if nothing there was left uncommitted.
    pub tree: Option<GitHash>,
    pub action: String,
    pub published_by: Option<Author>,
    pub published_at: Option<Timestamp>,
    pub signed_by: Vec<SignerTold>,
    pub signers: Option<SetTold>,
}

#[derive(Debug, Clone, Serialize)]
pub struct SignerTold {
    pub name: SignerName,
    pub key: PublicKey,
}

#[derive(Debug, Clone, Serialize)]
pub struct SetTold {
    pub version: u64,
    pub threshold: usize,
    pub signers: Vec<SignerTold>,
}

/// A map that was read: whom it lists, and what they may do.
struct Read {
    table: Table,
    leaves: Leaves,
    classes: Vec<ClassLeaf>,
}

impl Read {
    fn of(published: &PublishedMap) -> Result<Self, BadManifest> {
        let table = Table::read(&published.leaves, &published.manifests)?;
        let leaves = published.nodes().map(|leaf| (leaf.name.clone(), leaf.clone())).collect();
        let classes = ClassLeaves::of(&published.leaves).all().cloned().collect();
        Ok(Self { table, leaves, classes })
    }
}

/// By their roots.
type Tables = BTreeMap<Digest, Read>;

fn map_in(tables: &Tables) -> impl Fn(Digest) -> Option<(Leaves, Vec<ClassLeaf>)> {
    |root| tables.get(&root).map(|read| (read.leaves.clone(), read.classes.clone()))
}

/// Answers for one moment that is over.
pub async fn could(
    session: &mut Session,
    asked: &Asked,
    what: &Name,
    at: Timestamp,
    now: Timestamp,
) -> Result<Hindsight, CannotSay> {
    let begin = past(session).await?;
    if let Some(founded) = begin.founded_at().filter(|founded| at < *founded) {
        return Err(CannotSay::BeforeFounding { at, founded });
    }
    if at > now {
        return Err(CannotSay::NotYet { at, now });
    }
    let mut past = begin.clone();
    let mut tables = Tables::new();
    let head_then = past.walk_to(at, map_in(&tables)).clone();
    read_table(session, &mut tables, &head_then).await?;
    let then = past.walk_to(at, map_in(&tables)).clone();
    let mut further = read_around(session, &mut tables, &begin, at).await?;
    let mut names = names_in(&then, table_of(&tables, &then));
    let today = past.walk_to(now, map_in(&tables)).clone();
    // If the gateway hides the present map, only those of then are known.
    if read_table(session, &mut tables, &today).await.is_ok() {
        names.extend(names_in(&today, table_of(&tables, &today)));
    }
    // Whoever came later could not reach anything, and is known; whoever was on a machine that was revoked is in no map any
    // more, and is known, too.
    names.extend(tables.values().flat_map(|read| read.table.names()));
    let question = loop {
        match asked.question(&then.name, what, &names) {
            Ok(question) => break question,
            // It may be long gone, or have come much later: no moment is asked about that knows fewer names than another.
            Err(why @ BadQuestion::Unknown { .. }) => {
                let root = further.pop().ok_or(why)?;
                read_map(session, &mut tables, root).await?;
                names.extend(tables.get(&root).iter().flat_map(|read| read.table.names()));
            }
            Err(why) => return Err(why.into()),
        }
    };
    // A machine that was revoked is in no map any more: the answer still says that this is why.
    let with_gone = |table: Table| {
        tables.values().fold(table, |table, other| table.with_gone(&other.table, |leaf| then.is_gone(leaf.node_key)))
    };
    let table = table_of(&tables, &then).cloned().map(with_gone);
    let told = judge(&then, table.as_ref(), &question, at);
    let (since, until) = edges(begin, &tables, &question, at, now);
    let head = head_told(&then, &past, at);
    let (allowed, Judgement { ways, against }) = (told.allows(), told);
    let Question { who, from, what } = question;
    Ok(Hindsight { at, who, from, what, allowed, ways, against, since, until, head })
}

/// Every entry, checked; none may be missing that the gateway counts, or that this operator was ever told of.
async fn past(session: &mut Session) -> Result<Past, CannotSay> {
    session.folded().await?;
    let entries = entries(session).await?;
    Ok(Past::of(&session.known.founding, entries))
}

async fn read_table(session: &mut Session, tables: &mut Tables, state: &State) -> Result<(), CannotSay> {
    let Some((head, root)) = state.head().and_then(|it| Some((it.head.version, it.head.members?))) else {
        return Ok(());
    };
    if tables.contains_key(&root) {
        return Ok(());
    }
    let published = published_as(session, root).await.map_err(|why| match why {
        OperateError::NotKept { what, digest } => CannotSay::NotKept { head, what, digest },
        other => other.into(),
    })?;
    let read = Read::of(&published);
    tables.insert(root, read.map_err(|why| CannotSay::Unreadable { head, why })?);
    Ok(())
}

/// The maps of the heads before and after: as many as are cheap. Those that were not read are returned, the nearest last.
async fn read_around(
    session: &mut Session,
    tables: &mut Tables,
    begin: &Past,
    at: Timestamp,
) -> Result<Vec<Digest>, CannotSay> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let org = session.known.org();
    for dated in begin.entries() {
        let head = carried(&dated.signed.entry.action).find_map(|it| it.peek::<Head>(Some(org)).ok());
        if let Some(root) = head.and_then(|head| head.members) {
            let side = if dated.at <= at { &mut before } else { &mut after };
            if !side.contains(&root) {
                side.push(root);
            }
        }
    }
    before.reverse();
    let far = |side: &mut Vec<Digest>| side.split_off(side.len().min(MAPS));
    let further = [far(&mut after), far(&mut before)].concat();
    for root in before.into_iter().chain(after) {
        read_map(session, tables, root).await?;
    }
    Ok(further.into_iter().rev().collect())
}

/// What is not there is not guessed.
async fn read_map(session: &mut Session, tables: &mut Tables, root: Digest) -> Result<(), CannotSay> {
    if tables.contains_key(&root) {
        return Ok(());
    }
    match published_as(session, root).await {
        Ok(published) => tables.extend(Read::of(&published).ok().map(|read| (root, read))),
        Err(OperateError::NotKept { .. }) => {}
        Err(why) => return Err(why.into()),
    }
    Ok(())
}

fn table_of<'t>(tables: &'t Tables, state: &State) -> Option<&'t Table> {
    tables.get(&state.head()?.head.members?).map(|read| &read.table)
}

fn names_in(state: &State, table: Option<&Table>) -> Names {
    let nodes = state.members.names().map(|name| (PrincipalKind::Node, name.to_string()));
    let placed = state.head().into_iter().flat_map(|record| &record.head.placements);
    let placed = placed.map(|place| (place.principal.kind(), place.principal.name().to_owned()));
    nodes.chain(placed).chain(table.into_iter().flat_map(Table::names)).collect()
}

/// Walks through every moment at which the answer may have changed.
fn edges(mut past: Past, tables: &Tables, question: &Question, at: Timestamp, now: Timestamp) -> (Edge, Edge) {
    let read: Vec<&Table> = tables.values().map(|read| &read.table).collect();
    let mut turns: BTreeSet<Timestamp> = past.turns(now, |node| judge::concerns(&read, question, node));
    turns.insert(at);
    let mut answers = Vec::with_capacity(turns.len());
    for turn in turns {
        let state = past.walk_to(turn, map_in(tables));
        let head = state.head();
        // Nothing is known of a map that was not read.
        let hidden = head.and_then(|it| it.head.members).is_some_and(|root| !tables.contains_key(&root));
        let version = head.map(|it| it.head.version);
        let allowed = (!hidden).then(|| judge(state, table_of(tables, state), question, turn).allows());
        answers.push((turn, version, allowed));
    }
    let then = answers.iter().position(|(turn, ..)| *turn == at).unwrap_or_default();
    let (early, late) = answers.split_at(then + 1);
    let allowed = early.last().and_then(|(.., allowed)| *allowed);
    let edge =
        |turn: &(Timestamp, Option<u64>, Option<bool>)| Edge::At { at: turn.0, head: turn.1, by: deeds(&past, turn.0) };
    let same = |turn: &&(Timestamp, Option<u64>, Option<bool>)| turn.2 == allowed;
    let since = match early.iter().rev().take_while(same).count() {
        all if all == early.len() => Edge::Open,
        run => match (early.get(early.len() - run), early.get(early.len() - run - 1)) {
            (Some(first), Some((.., Some(_)))) => edge(first),
            (Some((at, ..)), _) => Edge::Unknown { at: *at },
            (None, _) => Edge::Open,
        },
    };
    let until = match late.iter().find(|turn| !same(turn)) {
        None => Edge::Open,
        Some(turn @ (.., Some(_))) => edge(turn),
        Some((at, ..)) => Edge::Unknown { at: *at },
    };
    (since, until)
}

/// What was written at a moment, in the words of the audit.
fn deeds(past: &Past, at: Timestamp) -> Vec<String> {
    let here = past.entries().iter().filter(|dated| dated.at == at);
    let lines = here.map(|dated| audit::line(past.state(), &dated.signed));
    lines.map(|line| format!("{} {} by {}", line.action, line.subject, line.actor)).collect()
}

fn head_told(then: &State, past: &Past, at: Timestamp) -> Option<HeadTold> {
    let record = then.head()?;
    let told = |signer: &Signer| SignerTold { name: signer.name.clone(), key: signer.key };
    let (set, signed) = signers_of(then, KnownHead::Whole(record)).unzip();
    let brought = past.brought(record.digest);
    let head = &record.head;
    Some(HeadTold {
        version: head.version,
        digest: record.digest,
        issued_at: head.issued_at,
        fresh_until: head.fresh_until,
        fresh: head.is_fresh(at),
        members: head.members,
        commit: head.fleet.as_ref().and_then(|fleet| fleet.commit.clone()),
        tree: head.fleet.as_ref().filter(|fleet| !fleet.dirty).and_then(|fleet| fleet.tree.clone()),
        action: brought.map(|dated| audit::line(then, &dated.signed).action).unwrap_or_default(),
        published_by: brought.map(|dated| audit::line(then, &dated.signed).actor),
        published_at: brought.map(|dated| dated.at),
        signed_by: signed.unwrap_or_default().iter().map(told).collect(),
        signers: set.map(|set| SetTold {
            version: set.version,
            threshold: set.quorum.threshold(),
            signers: set.quorum.signers().iter().map(told).collect(),
        }),
    })
}
