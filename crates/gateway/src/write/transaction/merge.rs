//! What another gateway handed over becomes part of this ledger: entries as the fold takes them, the rest as observed.

use std::collections::BTreeSet;

use ground::clock;
use identity::head::Head;
use identity::id::Digest;
use identity::principal::{NodeName, Principal};
use identity::time::Timestamp;
use ledger::replicate;
use ledger::store::Alarm;
use org::enroll::renew::{Conflict, Issuance};
use org::ledger::entry::SignedEntry;
use org::ledger::replica::carried;
use org::refusal::Refusal;
use org::report::{Applied, Report};
use wire::control::ReportView;
use wire::exchange::IssuedRow;

use crate::write::transaction::Transaction;

impl Transaction<'_> {
    /// Takes entries that another replica has; how many were new. Each counts or not by the judges, here as everywhere.
    pub fn merge(&mut self, entries: Vec<SignedEntry>) -> Result<usize, Refusal> {
        let now = clock::now();
        let waited: BTreeSet<Digest> = self.waiting_recoveries();
        let voice = self.voice.public();
        let mut own = entries.iter().filter(|signed| signed.entry.voice == voice);
        let lacked = own.any(|signed| !self.state.has_entry(&voice, signed.digest));
        let mut state = self.state.clone();
        let added = self.keep(|tx| replicate::add(tx.ledger, &mut state, entries, now))?;
        if lacked {
            self.keep(|tx| tx.ledger.note_set_back(now))?;
        }
        if added == 0 {
            return Ok(0);
        }
        *self.state = state;
        self.batch.wide = true;
        self.look_back()?;
        for (step, due_at) in self.state.open_recoveries() {
            if !waited.contains(&step.digest) {
                shout(due_at);
            }
        }
        Ok(added)
    }

    fn waiting_recoveries(&self) -> BTreeSet<Digest> {
        self.state.open_recoveries().into_iter().map(|(step, _)| step.digest).collect()
    }

    /// What is published came after its head: whoever waits is told.
    pub fn show_published(&mut self) -> Result<(), Refusal> {
        self.batch.wide = true;
        self.look_for_map()
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
        key: Digest,
        principal: &Principal,
        last: &Issuance,
    ) -> Result<Option<NodeName>, Refusal> {
        if self.keep(|tx| tx.ledger.issuance(key, principal))?.as_ref() == Some(last) {
            return Ok(None);
        }
        let told = self.keep(|tx| tx.ledger.told_of(key, principal))?;
        Ok(told.into_iter().find(|(row, _)| row == last).and_then(|(_, teller)| teller.parse().ok()))
    }

    /// The last SVID of a principal, whichever gateway made it.
    pub fn last_issuance(&mut self, key: Digest, principal: &Principal) -> Result<Option<Issuance>, Refusal> {
        let own = self.keep(|tx| tx.ledger.issuance(key, principal))?;
        if !self.has_peers() {
            return Ok(own);
        }
        let told = self.keep(|tx| tx.ledger.told_of(key, principal))?;
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
        let told = self.keep(|tx| tx.ledger.told_of(key, principal))?;
        Ok(told.first().is_some_and(|(row, _)| counter <= row.counter.saturating_add(1)))
    }

    /// Logs an SVID, and notes it for the others.
    pub fn log_issuance(&mut self, key: Digest, principal: &Principal, row: &Issuance) -> Result<(), Refusal> {
        self.keep(|tx| tx.ledger.log_issuance(key, principal, row))?;
        self.note_asked(key, principal, row, true)
    }

    /// Notes that an SVID was made, or asked for in vain.
    pub fn note_asked(
        &mut self,
        node_key: Digest,
        principal: &Principal,
        row: &Issuance,
        made: bool,
    ) -> Result<(), Refusal> {
        if !self.has_peers() {
            return Ok(());
        }
        let own = self.voice.gateway.clone();
        let issued = IssuedRow { node_key, principal: principal.clone(), row: row.clone(), made };
        self.batch.observed = true;
        self.keep(|tx| tx.ledger.note_issued(&own, &issued)).map(drop)
    }

    /// Takes another gateway's notes of SVIDs. Two keys under one number are two machines with one node key.
    pub fn merge_issued(&mut self, peer: &NodeName, rows: &[IssuedRow], now: Timestamp) -> Result<(), Refusal> {
        for told in rows.iter().filter(|told| self.state.members.contains_key(&told.node_key)).collect::<Vec<_>>() {
            if !self.keep(|tx| tx.ledger.note_issued(peer, told))? {
                continue;
            }
            let others = self.keep(|tx| tx.ledger.other_issued(told.node_key, &told.principal, &told.row))?;
            let own = self.keep(|tx| tx.ledger.issuance(told.node_key, &told.principal))?;
            let own = own.filter(|own| own.counter == told.row.counter && own.request != told.row.request);
            let mut others = others.into_iter().filter(|(_, teller)| self.is_mandated(teller));
            let own = own.map(|row| (row, None));
            if let Some((known, by)) = own.or_else(|| others.next().map(|(row, teller)| (row, teller.parse().ok()))) {
                // What this gateway noted itself is its own word.
                let by = by.filter(|by| self.voice.gateway != *by);
                self.alarm_of_two(peer, by, &known, told, now)?;
            }
        }
        Ok(())
    }

    fn alarm_of_two(
        &mut self,
        peer: &NodeName,
        known_by: Option<NodeName>,
        known: &Issuance,
        told: &IssuedRow,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let key = told.node_key;
        let alarmed = self.keep(|tx| tx.ledger.alarm(key))?;
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
            let known = self.keep(|tx| tx.ledger.report_of(key.digest()))?;
            let known = known.and_then(|known| Some(later(&known.peek::<Report>(org).ok()?, known.digest())));
            if known < Some(later(&report, kept.digest())) {
                let (at, head) = (view.received_at, report.head.version);
                self.keep(|tx| tx.ledger.put_report(key.digest(), at, head, &kept))?;
            }
            let seen = self.keep(|tx| tx.ledger.seen(key.digest()))?;
            // Another gateway's clock, or its lie, makes nobody seen in the future.
            let received_at = view.received_at.min(clock::now());
            if seen.is_none_or(|seen| seen < received_at) {
                self.keep(|tx| tx.ledger.log_seen(key.digest(), received_at))?;
            }
        }
        Ok(())
    }
}

/// Everybody who serves hears of it.
pub(crate) fn shout(due_at: Timestamp) {
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
pub(crate) fn maps_named(entries: &[SignedEntry], state_org: identity::id::OrgId) -> BTreeSet<Digest> {
    let carried = entries.iter().flat_map(|signed| carried(&signed.entry.action));
    carried.filter_map(|envelope| envelope.peek::<Head>(Some(state_org)).ok()?.members).collect()
}
