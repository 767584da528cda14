//! What another gateway handed over becomes part of this ledger: entries as the fold takes them, the rest as observed.

use std::collections::BTreeSet;

use ground::clock;
use identity::head::Head;
use identity::id::Digest;
use identity::key::Sign as _;
use identity::principal::{Author, NodeName, Principal};
use identity::time::Timestamp;
use ledger::replicate::is_narrow;
use ledger::store::Alarm;
use org::derived;
use org::entry::{Action, SignedEntry};
use org::frontier::Tip;
use org::refusal::Refusal;
use org::renew::{Conflict, Issuance};
use org::report::{Applied, Report};
use org::state::{State, Unfit};
use wire::control::ReportView;
use wire::exchange::IssuedRow;

use crate::answer::desk::{Desk, Taken};

use crate::answer::held::Held;

/// What came of a page.
#[derive(Debug, Default)]
pub struct Merged {
    pub taken: usize,
    /// Why the rest was not taken.
    pub stopped: Option<Unfit>,
    /// What is not taken yet.
    pub held: Held,
}

impl Desk<'_> {
    /// Takes entries as far as the fold takes them. One that is void stands without effect, here as everywhere. What waits
    /// for a recovery, since before or from now on, is left out, and holds up nobody else's.
    pub fn merge(&mut self, entries: Vec<SignedEntry>, held: Held) -> Result<Merged, Refusal> {
        let fresh = |signed: &SignedEntry| !self.state.frontier.covers(&signed.cut());
        let entries: Vec<SignedEntry> = entries.into_iter().filter(fresh).collect();
        if let Some(own) = entries.iter().find(|signed| self.is_own(signed)) {
            // Nobody else has this voice: it was written here, and is not here any more.
            let told = Tip { author: own.entry.author.clone(), place: own.place(), at: own.entry.at };
            self.confirms(&told)?;
            return Err(Refusal::LedgerBehind);
        }
        // What is wide is compared as a whole, from the first such entry on.
        let first_wide = entries.iter().position(|signed| !is_narrow(&signed.entry.action));
        let mut merged = Merged { held, ..Merged::default() };
        let mut before: Option<State> = None;
        let now = clock::now();
        for (nth, signed) in entries.into_iter().enumerate() {
            if first_wide == Some(nth) {
                self.write_rows()?;
                before = Some(self.state.clone());
            }
            if merged.held.follows(&signed) {
                if merged.held.is_full() {
                    merged.stopped = Some(Unfit::FromTheFuture);
                    break;
                }
                merged.held.add(&signed);
                continue;
            }
            if let Some(wait) = self.waits(&signed, now)? {
                if merged.held.is_full() {
                    merged.stopped = Some(Unfit::FromTheFuture);
                    break;
                }
                merged.held.begin(&signed, wait);
                continue;
            }
            // What is unfit changes nothing.
            if let Err(unfit) = self.state.apply(&signed) {
                merged.stopped = Some(unfit);
                break;
            }
            if before.is_none() {
                let narrow = derived::rows_after(self.state, &signed);
                // One that cannot be read is void, and only takes its place.
                let nobody = || derived::rows_about(self.state, &signed, Digest([0; 32]));
                self.rows.extend(narrow.unwrap_or_else(nobody));
            }
            self.keep(|desk| desk.ledger.add_entry(&signed))?;
            self.sight(&signed, now)?;
            self.batch.taken.push(Taken { signed, granted: None });
            merged.taken += 1;
        }
        if let Some(before) = before {
            let changes = derived::changes(Some(&before), self.state);
            self.keep(|desk| desk.ledger.change_rows(&changes))?;
            self.batch.wide = true;
            self.measure_again()?;
        }
        Ok(merged)
    }

    /// Whoever hears of a recovery counts from then, and shouts.
    fn sight(&mut self, signed: &SignedEntry, now: Timestamp) -> Result<(), Refusal> {
        let Action::RecoveryBegin { recovery } = &signed.entry.action else {
            return Ok(());
        };
        let id = recovery.digest();
        if self.state.open_recoveries().any(|record| record.set.id == id) {
            shout(self.due_at(id, now)?);
        }
        Ok(())
    }

    fn is_own(&self, signed: &SignedEntry) -> bool {
        signed.entry.author == self.voice.author && signed.entry.key == self.voice.key.public()
    }

    /// What is published came after its head: whoever waits is told.
    pub const fn show_published(&mut self) {
        self.batch.wide = true;
    }

    fn own_name(&self) -> Option<NodeName> {
        match &self.voice.author {
            Author::Gateway(name) => Some(name.clone()),
            Author::Signer(_) => None,
        }
    }

    /// Do other gateways issue, too?
    pub fn has_peers(&self) -> bool {
        self.state.head().is_some_and(|record| record.head.mandates.len() > 1)
    }

    /// A gateway's word counts while it has a mandate.
    fn is_mandated(&self, teller: &str) -> bool {
        let head = self.state.head().map(|record| &record.head);
        head.is_some_and(|head| head.mandates.iter().any(|mandate| mandate.gateway.as_str() == teller))
    }

    /// Does an alarm still count?
    pub fn heeds(&self, alarm: &Alarm) -> bool {
        alarm.tellers().all(|teller| self.is_mandated(teller.as_str()))
    }

    /// The gateway that told of this SVID, if this one did not make it: a lie of its must not outlive its mandate.
    pub fn teller_of(
        &mut self,
        (key, principal): (Digest, &Principal),
        last: &Issuance,
    ) -> Result<Option<NodeName>, Refusal> {
        if self.keep(|desk| desk.ledger.issuance(key, principal))?.as_ref() == Some(last) {
            return Ok(None);
        }
        let told = self.keep(|desk| desk.ledger.told_of(key, principal))?;
        Ok(told.into_iter().find(|(row, _)| row == last).and_then(|(_, teller)| teller.parse().ok()))
    }

    /// The last SVID of a principal, whichever gateway made it.
    pub fn last_issuance(&mut self, key: Digest, principal: &Principal) -> Result<Option<Issuance>, Refusal> {
        let own = self.keep(|desk| desk.ledger.issuance(key, principal))?;
        if !self.has_peers() {
            return Ok(own);
        }
        let told = self.keep(|desk| desk.ledger.told_of(key, principal))?;
        let told = told.into_iter().find(|(_, teller)| self.is_mandated(teller)).map(|(row, _)| row);
        let newer = told.filter(|told| own.as_ref().is_none_or(|own| own.counter < told.counter));
        Ok(newer.or(own))
    }

    /// May another gateway have made the SVID before this one? One that is there may not have told yet; of one that is
    /// gone, its notes say how far it went.
    pub fn may_be_from_elsewhere(&mut self, key: Digest, principal: &Principal, counter: u64) -> Result<bool, Refusal> {
        if self.has_peers() {
            return Ok(true);
        }
        let told = self.keep(|desk| desk.ledger.told_of(key, principal))?;
        Ok(told.first().is_some_and(|(row, _)| counter <= row.counter.saturating_add(1)))
    }

    /// Logs an SVID, and notes it for the others.
    pub fn log_issuance(&mut self, key: Digest, principal: &Principal, row: &Issuance) -> Result<(), Refusal> {
        self.keep(|desk| desk.ledger.log_issuance(key, principal, row))?;
        self.note_asked((key, principal), row, true)
    }

    /// Notes that an SVID was made, or asked for in vain.
    pub fn note_asked(
        &mut self,
        (node_key, principal): (Digest, &Principal),
        row: &Issuance,
        made: bool,
    ) -> Result<(), Refusal> {
        let Some(own) = self.own_name().filter(|_| self.has_peers()) else {
            return Ok(());
        };
        let issued = IssuedRow { node_key, principal: principal.clone(), row: row.clone(), made };
        self.batch.observed = true;
        self.keep(|desk| desk.ledger.note_issued(&own, &issued)).map(drop)
    }

    /// Takes another gateway's notes of SVIDs. Two keys under one number are two machines with one node key.
    pub fn merge_issued(&mut self, peer: &NodeName, rows: &[IssuedRow], now: Timestamp) -> Result<(), Refusal> {
        for told in rows.iter().filter(|told| self.state.members.contains_key(&told.node_key)).collect::<Vec<_>>() {
            if !self.keep(|desk| desk.ledger.note_issued(peer, told))? {
                continue;
            }
            let others = self.keep(|desk| desk.ledger.other_issued(told.node_key, &told.principal, &told.row))?;
            let own = self.keep(|desk| desk.ledger.issuance(told.node_key, &told.principal))?;
            let own = own.filter(|own| own.counter == told.row.counter && own.request != told.row.request);
            let mut others = others.into_iter().filter(|(_, teller)| self.is_mandated(teller));
            let own = own.map(|row| (row, None));
            if let Some((known, by)) = own.or_else(|| others.next().map(|(row, teller)| (row, teller.parse().ok()))) {
                // What this gateway noted itself is its own word.
                let by = by.filter(|by| self.own_name().as_ref() != Some(by));
                self.alarm_of_two((peer, by), (&known, told), now)?;
            }
        }
        Ok(())
    }

    fn alarm_of_two(
        &mut self,
        (peer, known_by): (&NodeName, Option<NodeName>),
        (known, told): (&Issuance, &IssuedRow),
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let key = told.node_key;
        let alarmed = self.keep(|desk| desk.ledger.alarm(key))?;
        if alarmed.is_some_and(|alarm| self.heeds(&alarm)) {
            return Ok(());
        }
        let conflict = Conflict::new(Some(known), &told.row);
        let why = format!("{}, at the gateway `{peer}`", conflict.refusal());
        tracing::error!(
            node_key = %key,
            "{why}; this node key gets nothing more. Look: freehold node list; end it: freehold node replace NAME"
        );
        self.raise_alarm(key, now, &Alarm { why, conflict: Some(conflict), told_by: Some(peer.clone()), known_by })
    }

    /// Takes nodes' own words, which they signed, if they are newer than those that are here.
    pub fn merge_reports(&mut self, reports: &[ReportView]) -> Result<(), Refusal> {
        let org = Some(self.state.org);
        for view in reports {
            let Ok(named) = view.report.peek::<Report>(org) else { continue };
            let key = named.node_key;
            let opened = view.report.open_kept::<Report>(org, &BTreeSet::from([key]));
            let Some((report, kept)) = opened.ok().filter(|(report, _)| report.is_plain()) else { continue };
            let member = self.state.member(&key).filter(|member| member.claim().name == report.node);
            if member.is_none() {
                continue;
            }
            let known = self.keep(|desk| desk.ledger.report_of(key.digest()))?;
            let known = known.and_then(|known| Some(later(&known.peek::<Report>(org).ok()?, known.digest())));
            if known < Some(later(&report, kept.digest())) {
                let received = (view.received_at, report.head.version);
                self.keep(|desk| desk.ledger.put_report(key.digest(), received, &kept))?;
            }
            let seen = self.keep(|desk| desk.ledger.seen(key.digest()))?;
            // Another gateway's clock, or its lie, makes nobody seen in the future.
            let received_at = view.received_at.min(clock::now());
            if seen.is_none_or(|seen| seen < received_at) {
                self.keep(|desk| desk.ledger.log_seen(key.digest(), received_at))?;
            }
        }
        Ok(())
    }
}

/// Everybody who serves hears of it.
pub fn shout(due_at: Timestamp) {
    tracing::error!(
        %due_at,
        "RECOVERY: the recovery keys want to replace the signers. If the signers are not lost, stop it: freehold recover --cancel"
    );
}

/// Which of a node's words is the later one: within one second, the one that goes further. The same at every gateway, or
/// two of them would hand each other theirs for ever.
const fn later(report: &Report, digest: Digest) -> (Timestamp, u64, u8, Digest) {
    let further = match report.applied {
        Applied::Nothing => 0,
        Applied::OnTrial { .. } => 1,
        Applied::Settled { .. } | Applied::RolledBack { .. } => 2,
    };
    (report.at, report.head.version, further, digest)
}

/// The members' maps that heads among these entries name.
pub fn maps_named(entries: &[SignedEntry], state_org: identity::id::OrgId) -> BTreeSet<Digest> {
    let heads = entries.iter().filter_map(|signed| signed.entry.action.head());
    heads.filter_map(|head| head.peek::<Head>(Some(state_org)).ok()?.members).collect()
}
