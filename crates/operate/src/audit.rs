//! The audit: every entry of the ledger in words, and a check that believes nothing but signatures.

use std::collections::BTreeSet;
use std::sync::Arc;

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::principal::Author;
use org::audit::{self, Line};
use org::derived::{self, Rows};
use org::entry::SignedEntry;
use org::fold::fold;
use org::founding::Founding;
use org::frontier::Place;
use org::state::State;
use serde::Serialize;
use wire::control::{Answer, Call, DerivedRow};

use crate::desk::{Desk, DeskError};
use crate::session::{OperateError, Session};

/// The result of a check.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    pub ok: bool,
    pub entries: usize,
    /// So many of them do not count; the audit says why.
    pub void: usize,
    pub derived_rows: usize,
    /// The first thing that does not hold.
    pub first_bad: Option<String>,
}

impl<D: Desk> Session<D> {
    /// Every entry, folded here from its bytes.
    pub async fn audit(&mut self, subject: Option<&str>) -> Result<Vec<Line>, OperateError> {
        let mut state = State::of(&self.known.founding);
        let mut signed_entries = Vec::new();
        for envelope in self.entries().await? {
            let signed = SignedEntry::open(self.known.org(), envelope)?;
            let unfit = state.apply(&signed).err();
            signed_entries.push((signed, unfit));
        }
        let lines = signed_entries.iter().flat_map(|(signed, unfit)| {
            let mut lines = audit::lines(&state, signed);
            if let Some(unfit) = unfit {
                for line in &mut lines {
                    line.result = format!("NOT PART OF THE LEDGER: {unfit}");
                }
            }
            lines
        });
        Ok(lines.filter(|line| subject.is_none_or(|subject| line.concerns(subject, &state))).collect())
    }

    /// Every entry in an order in which each comes after what it has seen; or what is missing.
    pub(crate) async fn whole_ledger(&mut self) -> Result<Result<Vec<SignedEntry>, String>, OperateError> {
        let entries = self.entries().await?;
        let mut state = State::of(&self.known.founding);
        let mut opened = Vec::with_capacity(entries.len());
        for envelope in entries.iter().cloned() {
            let signed = SignedEntry::open(self.known.org(), envelope)?;
            let _unfit = state.apply(&signed);
            opened.push(signed);
        }
        Ok(match self.missing(&entries, &state) {
            Some(missing) => Err(missing),
            None => Ok(opened),
        })
    }

    /// What the entries say, folded here, if all are there that the gateway counts, and the head in force.
    pub(crate) async fn folded(&mut self) -> Result<Arc<State>, OperateError> {
        // Once per command, unless the ledger moved.
        if let Some(state) = self.fold.as_ref().filter(|state| self.is_whole(state)) {
            return Ok(Arc::clone(state));
        }
        let state = self.replica().await?.state;
        if !self.is_whole(&state) {
            return Err(OperateError::LedgerBehind);
        }
        let state = Arc::new(state);
        self.fold = Some(Arc::clone(&state));
        Ok(state)
    }

    /// A gateway that keeps an entry back must not have it missed: the head that it shows is in one.
    fn is_whole(&self, state: &State) -> bool {
        let head = &self.known.head;
        let differs = |(author, place): (&Author, &Place)| {
            let here = state.frontier.place_of(author);
            here.is_some_and(|here| (here.epoch, here.seq) == (place.epoch, place.seq) && here.digest != place.digest)
        };
        state.frontier.covers_all(&self.survey.frontier)
            && !self.survey.frontier.0.iter().any(differs)
            && state.heads.contains_key(&(head.head.version, head.digest))
    }

    /// Checks all hashes, links and signatures, folds afresh, compares every derived table.
    pub async fn verify(&mut self) -> Result<Verdict, OperateError> {
        let (entries, rows) = self.still_picture().await?;
        let count = entries.len();
        let mut state = State::of(&self.known.founding);
        let first_bad = first_bad_entry(entries.clone(), &mut state);
        let first_bad = first_bad
            .or_else(|| self.missing(&entries, &state))
            .or_else(|| folds_otherwise(&self.known.founding, entries, &state))
            .or_else(|| first_difference(&state, &rows));
        Ok(Verdict {
            ok: first_bad.is_none(),
            entries: count,
            void: state.void.len(),
            derived_rows: rows.len(),
            first_bad,
        })
    }

    /// Entries and rows of one moment: read again if the ledger moved meanwhile.
    async fn still_picture(&mut self) -> Result<(Vec<Envelope>, Rows), OperateError> {
        for _ in 0..20 {
            let before = self.survey.frontier.clone();
            let (entries, rows) = (self.entries().await?, self.derived_rows().await?);
            self.look_again().await?;
            if self.survey.frontier == before {
                return Ok((entries, rows));
            }
        }
        Err(OperateError::Unwise("the ledger does not stand still: check again when fewer machines join".to_owned()))
    }

    /// What the gateway counts, and what this operator was ever told of, must be there, digest for digest.
    fn missing(&self, entries: &[Envelope], state: &State) -> Option<String> {
        if !state.frontier.covers_all(&self.survey.frontier) {
            return Some("entries are missing that the gateway itself counts".to_owned());
        }
        let there: BTreeSet<Digest> = entries.iter().map(Envelope::digest).collect();
        let remembered = self.remembered().into_iter().find(|(_, place)| !there.contains(&place.digest));
        remembered
            .map(|(author, place)| format!("entry {} of `{author}`, seen before, is not there any more", place.seq))
    }

    pub(crate) async fn entries(&mut self) -> Result<Vec<Envelope>, OperateError> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            match self.ask(Call::Entries { after }).await? {
                Answer::Entries { entries, next } => {
                    all.extend(entries);
                    match next {
                        Some(next) => after = next,
                        None => return Ok(all),
                    }
                }
                _ => return Err(DeskError::OtherAnswer.into()),
            }
        }
    }

    async fn derived_rows(&mut self) -> Result<Rows, OperateError> {
        let mut all = Rows::new();
        loop {
            let after = all.last_key_value().map(|(key, _)| key.clone());
            match self.ask(Call::Derived { after }).await? {
                Answer::Derived { rows, more } => {
                    all.extend(rows.into_iter().map(|DerivedRow { table, key, value }| ((table, key), value)));
                    if !more {
                        return Ok(all);
                    }
                }
                _ => return Err(DeskError::OtherAnswer.into()),
            }
        }
    }
}

/// Folds entries in the order in which they came: what they say, and the first thing that does not hold.
pub fn check_alone(founding: &Founding, entries: Vec<Envelope>, rows: &Rows) -> (State, Option<String>) {
    let mut state = State::of(founding);
    let first_bad = first_bad_entry(entries.clone(), &mut state)
        .or_else(|| folds_otherwise(founding, entries, &state))
        .or_else(|| first_difference(&state, rows));
    (state, first_bad)
}

fn first_bad_entry(entries: Vec<Envelope>, state: &mut State) -> Option<String> {
    for (number, envelope) in entries.into_iter().enumerate() {
        let number = number + 1;
        let signed = match SignedEntry::open(state.org, envelope) {
            Ok(signed) => signed,
            Err(why) => return Some(format!("entry {number}: {why}")),
        };
        let place = format!("entry {number} ({} {})", signed.entry.author, signed.entry.seq);
        // What does not count stands in the ledger without effect, and is told: a gateway that lies could write it at any
        // time, and must not be able to make the whole of it look bad.
        if let Err(unfit) = state.apply(&signed) {
            return Some(format!("{place}: {unfit}"));
        }
    }
    None
}

/// Whatever the order in which the entries came, they must say the same.
fn folds_otherwise(founding: &Founding, entries: Vec<Envelope>, state: &State) -> Option<String> {
    let folded = fold(founding, entries);
    let fork = folded.forks.keys().next().map(|(author, seq)| format!("the chain of `{author}` forks at {seq}"));
    let other = || (folded.state != *state).then(|| "the entries say something else in another order".to_owned());
    fork.or_else(other)
}

fn first_difference(state: &State, found: &Rows) -> Option<String> {
    let expected = derived::rows(state);
    for (at, value) in &expected {
        match found.get(at) {
            Some(same) if same == value => {}
            Some(_) => return Some(format!("derived table `{}`, row `{}`: not what the ledger says", at.0, at.1)),
            None => return Some(format!("derived table `{}`, row `{}`: missing", at.0, at.1)),
        }
    }
    let extra = found.keys().find(|at| !expected.contains_key(at));
    extra.map(|at| format!("derived table `{}`, row `{}`: nothing in the ledger says so", at.0, at.1))
}
