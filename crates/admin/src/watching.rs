//! A published head on its way: a table that is drawn again each second, or a line for each change.

use clap::Args;
use ground::plain::plain;
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use operate::publish::watch::follow::{self, Fates};
use operate::publish::watch::{NodeFate, Receipts, Watch, listed};
use operate::session::{OperateError, Session};
use serde::Serialize;
use terminal::failure::{Exit, Failure};
use terminal::screen::{Live, Size};
use terminal::table::table_within;

use crate::home::During;
use crate::waiting::{Left, told};

/// So many nodes stand in the table; those that are well leave it first.
const ROWS: usize = 20;
const BAR: usize = 30;

/// Watches until everything has settled, or the bound is over.
pub async fn watch(
    session: &mut Session,
    watch: &mut Watch,
    bound: Option<Seconds>,
    quiet: bool,
) -> Result<Fates, OperateError> {
    let mut screen = Screen::new(quiet);
    follow::until_settled(session, watch, bound, |fates, now, last| screen.draw(fates, now, last)).await
}

/// The same for the head in force, which somebody published just now.
pub async fn watch_in_force(session: &mut Session, bound: Option<Seconds>, quiet: bool) -> Result<Fates, OperateError> {
    let mut screen = Screen::new(quiet);
    follow::in_force(session, bound, |fates, now, last| screen.draw(fates, now, last)).await
}

struct Screen {
    /// Where somebody looks.
    live: Option<Live>,
    quiet: bool,
    told: Fates,
}

impl Screen {
    fn new(quiet: bool) -> Self {
        Self { live: Live::new(), quiet, told: Fates::new() }
    }

    fn draw(&mut self, fates: &Fates, now: Timestamp, last: bool) {
        if self.quiet {
            return;
        }
        if let Some(live) = &mut self.live {
            let lines = frame(fates, now, live.size());
            live.draw(&lines);
        } else {
            self.tell_changes(fates, now);
            if last {
                eprintln!("{}", counts(fates));
            }
        }
    }

    fn tell_changes(&mut self, fates: &Fates, now: Timestamp) {
        for (name, fate) in fates {
            if self.told.get(name) != Some(fate) {
                eprintln!("{name}: {}", plain(&in_words(fate, now)));
            }
        }
        self.told.clone_from(fates);
    }
}

/// The nodes that a person should look at first, as many as fit, and how far all are.
fn frame(fates: &Fates, now: Timestamp, Size { columns, lines: height }: Size) -> Vec<String> {
    let mut open: Vec<(&NodeName, &NodeFate)> = fates.iter().collect();
    open.sort_by_key(|(name, fate)| (rank(fate), *name));
    // Titles, how many more, the bar, and where the cursor stands.
    let most = ROWS.min(height.saturating_sub(4)).max(1);
    let rows: Vec<_> = open.iter().take(most).map(|(name, fate)| vec![name.to_string(), in_words(fate, now)]).collect();
    let mut lines: Vec<String> =
        table_within(&["NODE", "STATE"], &rows, Some(columns.saturating_sub(1))).lines().map(str::to_owned).collect();
    if let Some(more) = open.len().checked_sub(most).filter(|more| *more > 0) {
        lines.push(format!("and {more} more"));
    }
    lines.push(format!("{} {}", bar(fates), counts(fates)));
    lines
}

/// What a person should look at first.
const fn rank(fate: &NodeFate) -> u8 {
    match fate {
        NodeFate::RolledBack { .. } | NodeFate::Refused { .. } => 0,
        NodeFate::OnTrial { .. } => 1,
        NodeFate::Reached => 2,
        NodeFate::NotReached => 3,
        NodeFate::Offline => 4,
        NodeFate::Confirmed => 5,
    }
}

fn in_words(fate: &NodeFate, now: Timestamp) -> String {
    match fate {
        NodeFate::NotReached => "not reached yet".to_owned(),
        NodeFate::Offline => "offline: it gets this when it is back".to_owned(),
        NodeFate::Reached => "reached".to_owned(),
        NodeFate::OnTrial { deadline, waits } => {
            let left = deadline.since(now).0;
            let waits = if waits.is_empty() { String::new() } else { format!(", waits for {}", waits.join(", ")) };
            format!("on trial, {}:{:02} left{waits}", left / 60, left % 60)
        }
        NodeFate::Confirmed => "confirmed".to_owned(),
        NodeFate::RolledBack { why } => format!("ROLLED BACK: {why}"),
        NodeFate::Refused { why } => format!("REFUSED: {why}"),
    }
}

fn count(fates: &Fates, is: impl Fn(&NodeFate) -> bool) -> usize {
    fates.values().filter(|fate| is(fate)).count()
}

fn bar(fates: &Fates) -> String {
    let done = count(fates, NodeFate::is_settled);
    let full = if fates.is_empty() { BAR } else { done * BAR / fates.len() };
    format!("[{}{}]", "#".repeat(full), "-".repeat(BAR - full))
}

pub fn counts(fates: &Fates) -> String {
    let of = |word: &str, is: &dyn Fn(&NodeFate) -> bool| match count(fates, is) {
        0 => None,
        some => Some(format!("{some} {word}")),
    };
    let parts = [
        of("confirmed", &|fate| matches!(fate, NodeFate::Confirmed)),
        of("on trial", &|fate| matches!(fate, NodeFate::OnTrial { .. })),
        of("reached", &|fate| matches!(fate, NodeFate::Reached)),
        of("not reached", &|fate| matches!(fate, NodeFate::NotReached)),
        of("offline", &|fate| matches!(fate, NodeFate::Offline)),
        of("ROLLED BACK", &|fate| matches!(fate, NodeFate::RolledBack { .. })),
        of("REFUSED", &|fate| matches!(fate, NodeFate::Refused { .. })),
    ];
    let told: Vec<_> = parts.into_iter().flatten().collect();
    format!(
        "{} node(s): {}",
        fates.len(),
        if told.is_empty() { "nobody to wait for".to_owned() } else { told.join(", ") }
    )
}

/// How long a revocation is followed.
#[derive(Debug, Clone, Copy, Args)]
pub struct Wait {
    /// Wait until every node has confirmed it, or this long [default: 5m]
    #[arg(long, value_name = "SPAN", num_args = 0..=1, default_missing_value = "5m")]
    wait: Option<Seconds>,
}

impl Wait {
    pub const fn of(wait: Option<Seconds>) -> Self {
        Self { wait }
    }

    /// Which members have a head on their disk; waits for the others as long as was asked for.
    pub async fn receipts(&self, session: &mut Session, head: u64) -> Result<Receipts, OperateError> {
        follow::receipts(session, head, self.wait).await
    }
}

/// A revocation, and who has it on their disk.
#[derive(Debug, Serialize)]
pub struct Revoked {
    #[serde(rename = "revoked")]
    done: bool,
    head: u64,
    /// Else nobody hears of it until a gateway serves.
    served: bool,
    /// Nodes that have it on their disk, by their own signed word, and those that have not said so.
    confirmed: Vec<NodeName>,
    waiting_for: Vec<NodeName>,
    #[serde(flatten)]
    pending: Left,
}

impl Revoked {
    /// Waits for the nodes as long as was asked for, once it is sent.
    pub async fn look(session: &mut Session, head: u64, pending: Left, wait: &Wait) -> Result<Self, Failure> {
        let done = pending.waiting().is_none();
        let receipts = if done { wait.receipts(session, head).await } else { Ok(Receipts::default()) };
        let receipts = receipts.during("it is revoked, but who knows it could not be read")?;
        let Receipts { confirmed, waiting: waiting_for } = receipts;
        Ok(Self { done, head, served: session.is_served(), confirmed, waiting_for, pending })
    }

    pub fn in_words(&self, what: &str) -> String {
        told(self.pending.waiting(), || {
            if !self.served {
                let head = self.head;
                return format!(
                    "revoked {what} (head {head})\nno gateway serves: nobody hears of it until one does: freehold serve"
                );
            }
            let receipts = Receipts { confirmed: self.confirmed.clone(), waiting: self.waiting_for.clone() };
            format!("revoked {what} (head {})\n{}", self.head, receipts.in_words(self.head))
        })
    }
}

/// A node's fate as data.
#[derive(Debug, Serialize)]
pub struct NodeTold {
    name: String,
    #[serde(flatten)]
    fate: NodeFate,
}

impl NodeTold {
    pub fn all(fates: &Fates) -> Vec<Self> {
        fates.iter().map(|(name, fate)| Self { name: name.to_string(), fate: fate.clone() }).collect()
    }
}

/// No, if a node is not what it should be, by its own word.
pub fn ended_well(doing: &str, head: u64, fates: &Fates) -> Result<(), Failure> {
    let bad: Vec<NodeName> = fates.iter().filter(|(_, fate)| fate.is_bad()).map(|(name, _)| name.clone()).collect();
    if bad.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(doing, format!("head {head} was published, and did not stay on {}", listed(&bad)))
        .exit(Exit::TakenBack)
        .hint("those nodes are what they were before; mend the fleet and publish again, or: freehold rollback"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_table_fits_eighty_columns_and_the_screen_and_shows_what_is_wrong_first() {
        let fate = |nth: usize| match nth {
            77 => NodeFate::RolledBack { why: "the check `web` failed: ".repeat(9) },
            _ => NodeFate::Confirmed,
        };
        let fates: Fates = (0..100).map(|nth| (format!("web-{nth}").parse().unwrap(), fate(nth))).collect();
        let lines = frame(&fates, Timestamp::from_unix(1_800_000_000), Size { columns: 80, lines: 24 });
        assert!(lines.len() <= 23, "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() < 80), "{lines:?}");
        assert!(lines[1].starts_with("web-77  ROLLED BACK: the check `web` failed"), "{lines:?}");
        assert!(lines.iter().any(|line| line == "and 80 more"), "{lines:?}");
    }
}
