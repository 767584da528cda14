//! What gateways hand each other (anti-entropy): entries that one lacks, and what was observed of SVIDs.

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::principal::{NodeName, Principal};
use identity::time::Timestamp;
use org::enroll::renew::Issuance;
use org::ledger::frontier::Frontier;
use org::state::State;
use rusqlite::{OptionalExtension as _, params};
use wire::exchange::{BYTES_PER_PAGE, ENTRIES_PER_PAGE, IssuedRow};

use crate::damage::Damage;
use crate::error::LedgerError;
use crate::store::{Ledger, read};

/// Of each principal so many numbers are remembered; a clone that is further behind is refused by its number alone.
const REMEMBERED: u64 = 32;

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Ledger {
    /// Entries beyond a frontier, in the order in which they came here. True if there are more. Of a chain whose last place
    /// there is another's entry, all that no head has settled comes. That, and what follows no entry that is here, comes after all
    /// else: their frontier says nothing of it, so it comes again each time, and must hold up no other chain.
    pub fn beyond(&self, state: &State, theirs: &Frontier) -> Result<(Vec<Envelope>, bool), LedgerError> {
        let mut found: Vec<(bool, i64, String)> = Vec::new();
        let limit = i64::try_from(ENTRIES_PER_PAGE + 1).unwrap_or(i64::MAX);
        let mut query = self.db.prepare_cached(
            "SELECT seq > ?4, id, envelope FROM entries WHERE voice = ?1 AND seq > ?2 ORDER BY seq, digest LIMIT ?3",
        )?;
        for voice in state.replica.chains.keys() {
            let known = theirs.place_of(voice);
            let parted = known.is_some_and(|known| state.has_other(voice, known));
            let settled = state.head().and_then(|head| head.head.record.get(voice)).map_or(0, |it| it.seq);
            let from = known.map_or(0, |known| if parted { settled.min(known.seq) } else { known.seq });
            let linked = if parted { 0 } else { state.frontier.seq_of(voice) };
            let asked = params![voice.to_string(), number(from), limit, number(linked)];
            let rows = query.query_map(asked, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            found.extend(rows.collect::<Result<Vec<_>, _>>()?);
        }
        found.sort_by_key(|(aside, id, _)| (*aside, *id));
        let (all, mut size) = (found.len(), 0);
        let fits = |(nth, (_, _, text)): &(usize, (bool, i64, String))| {
            size += text.len();
            *nth < ENTRIES_PER_PAGE && (*nth == 0 || size <= BYTES_PER_PAGE)
        };
        let page: Vec<_> = found.into_iter().enumerate().take_while(fits).map(|(_, (_, _, text))| text).collect();
        let more = page.len() < all;
        Ok((page.iter().map(|text| read(text)).collect::<Result<_, _>>()?, more))
    }

    /// Where chains fork: what stands at the first such place of each, for whoever may not have seen it.
    pub fn forks(&self, state: &State) -> Result<Vec<Envelope>, LedgerError> {
        let forks = state.judged.fold.forks.iter().take(ENTRIES_PER_PAGE);
        let entries = forks.map(|(voice, seq)| self.entries_at(*voice, *seq));
        Ok(entries.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// The same with what follows on each branch, as much as goes into a page.
    pub fn branches(&self, state: &State) -> Result<Vec<Envelope>, LedgerError> {
        let limit = i64::try_from(ENTRIES_PER_PAGE).unwrap_or(i64::MAX);
        let mut query = self.db.prepare_cached(
            "SELECT envelope FROM entries WHERE voice = ?1 AND seq >= ?2 ORDER BY seq, digest LIMIT ?3",
        )?;
        let mut all = Vec::new();
        for (voice, seq) in &state.judged.fold.forks {
            let rows =
                query.query_map(params![voice.to_string(), number(*seq), limit], |row| row.get::<_, String>(0))?;
            all.extend(rows.collect::<Result<Vec<_>, _>>()?);
        }
        all.truncate(ENTRIES_PER_PAGE);
        all.iter().map(|text| read(text)).collect()
    }

    /// From the first exchange on, every SVID is noted; what was made before is noted then.
    pub fn note_earlier(&self, teller: &NodeName) -> Result<(), LedgerError> {
        self.db.execute(
            "INSERT OR IGNORE INTO issued (node_key, principal, counter, request, teller, made, value)
             SELECT node_key, principal, json_extract(value, '$.counter'), json_extract(value, '$.request'), ?1, 1, value
             FROM issuances WHERE NOT EXISTS (
                 SELECT 1 FROM issued WHERE issued.node_key = issuances.node_key
                 AND issued.principal = issuances.principal AND issued.counter >= json_extract(issuances.value, '$.counter')
             )",
            [teller.as_str()],
        )?;
        Ok(())
    }

    /// Notes one. False if it was known.
    pub fn note_issued(&self, teller: &NodeName, issued: &IssuedRow) -> Result<bool, LedgerError> {
        let (key, principal) = (issued.node_key.to_string(), issued.principal.to_string());
        let value = serde_json::to_string(&issued.row).unwrap_or_default();
        let counter = number(issued.row.counter);
        let added = self
            .db
            .prepare_cached(
                "INSERT OR IGNORE INTO issued (node_key, principal, counter, request, teller, made, value)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                key,
                principal,
                counter,
                issued.row.request.to_string(),
                teller.as_str(),
                issued.made,
                value
            ])?;
        self.db
            .prepare_cached(
                "DELETE FROM issued WHERE node_key = ?1 AND principal = ?2 AND counter < ?3 AND teller = ?4",
            )?
            .execute(params![key, principal, counter.saturating_sub(number(REMEMBERED)), teller.as_str()])?;
        Ok(added > 0)
    }

    /// What this gateway noted itself, after a number; and the number to ask after next time.
    pub fn issued_after(&self, teller: &NodeName, after: u64) -> Result<(Vec<IssuedRow>, u64), LedgerError> {
        let mut query = self.db.prepare_cached(
            "SELECT number, node_key, principal, made, value FROM issued WHERE number > ?1 AND teller = ?2
             ORDER BY number LIMIT ?3",
        )?;
        let limit = i64::try_from(ENTRIES_PER_PAGE).unwrap_or(i64::MAX);
        let newest: i64 = self.db.query_row("SELECT COALESCE(MAX(number), 0) FROM issued", [], |row| row.get(0))?;
        // Whoever read further than there is, read what an older copy has lost: from the beginning, then.
        let after = if number(after) > newest { 0 } else { after };
        let rows = query.query_map(params![number(after), teller.as_str(), limit], |row| {
            let named = (row.get::<_, String>(1)?, row.get::<_, String>(2)?);
            Ok((row.get::<_, i64>(0)?, named, row.get::<_, bool>(3)?, row.get::<_, String>(4)?))
        })?;
        let (mut all, mut last) = (Vec::new(), after);
        for row in rows {
            let (nth, (key, principal), made, value) = row?;
            last = u64::try_from(nth).unwrap_or(after);
            all.push(IssuedRow {
                node_key: key.parse().map_err(|_| Damage::Note)?,
                principal: principal.parse().map_err(|_| Damage::Note)?,
                row: read(&value)?,
                made,
            });
        }
        Ok((all, last))
    }

    /// What was made for a principal under the highest number, and who told of it; the highest first.
    pub fn told_of(&self, node_key: Digest, principal: &Principal) -> Result<Vec<(Issuance, String)>, LedgerError> {
        let mut query = self.db.prepare_cached(
            "SELECT value, teller FROM issued WHERE node_key = ?1 AND principal = ?2 AND made ORDER BY counter DESC",
        )?;
        let rows = query.query_map([node_key.to_string(), principal.to_string()], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?;
        rows.map(|row| row.map_err(LedgerError::from).and_then(|(value, teller)| Ok((read(&value)?, teller)))).collect()
    }

    /// Another key that was asked for under the same number, and who told of it: two machines hold one node key, or a
    /// disk was put back.
    pub fn other_issued(
        &self,
        node_key: Digest,
        principal: &Principal,
        row: &Issuance,
    ) -> Result<Vec<(Issuance, String)>, LedgerError> {
        let mut query = self.db.prepare_cached(
            "SELECT value, teller FROM issued WHERE node_key = ?1 AND principal = ?2 AND counter = ?3 AND request <> ?4",
        )?;
        let asked = params![node_key.to_string(), principal.to_string(), number(row.counter), row.request.to_string()];
        let rows = query.query_map(asked, |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
        rows.map(|row| row.map_err(LedgerError::from).and_then(|(value, teller)| Ok((read(&value)?, teller)))).collect()
    }

    /// How far this gateway has read another's observations.
    pub fn read_of(&self, peer: &NodeName) -> Result<(u64, u64), LedgerError> {
        let mut query = self.db.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
        let text: Option<String> = query.query_row([format!("read of {peer}")], |row| row.get(0)).optional()?;
        text.map_or(Ok((0, 0)), |text| read(&text))
    }

    pub fn keep_read_of(&self, peer: &NodeName, issued: u64, reports: u64) -> Result<(), LedgerError> {
        let text = serde_json::to_string(&(issued, reports)).unwrap_or_default();
        self.db.execute("INSERT OR REPLACE INTO meta VALUES (?1, ?2)", params![format!("read of {peer}"), text])?;
        Ok(())
    }

    /// What a gateway said last of its issuing keys; it replaces what it said before.
    pub fn keep_issuers(&self, gateway: &NodeName, at: Timestamp, envelope: &Envelope) -> Result<(), LedgerError> {
        let text = serde_json::to_string(envelope).unwrap_or_default();
        let named = params![gateway.as_str(), at.unix(), text];
        self.db.execute("INSERT OR REPLACE INTO issuers (gateway, at, envelope) VALUES (?1, ?2, ?3)", named)?;
        Ok(())
    }

    /// What each gateway said last of its issuing keys.
    pub fn issuers(&self) -> Result<Vec<Envelope>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT envelope FROM issuers ORDER BY gateway")?;
        let rows = query.query_map([], |row| row.get::<_, String>(0))?;
        rows.map(|row| read(&row?)).collect()
    }

    /// The last report of one node.
    pub fn report_of(&self, node_key: Digest) -> Result<Option<Envelope>, LedgerError> {
        let mut query = self.db.prepare_cached("SELECT report FROM reports WHERE node_key = ?1")?;
        let text: Option<String> = query.query_row([node_key.to_string()], |row| row.get(0)).optional()?;
        text.as_deref().map(read).transpose()
    }
}
