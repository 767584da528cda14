//! What waits for people: claims for a yes, and what was signed for more signatures. Never authority.

pub mod inbox;

use std::net::IpAddr;

use identity::envelope::Envelope;
use identity::id::Digest;
use identity::time::Timestamp;
use rusqlite::params;

use crate::damage::{Damage, Part};
use crate::error::LedgerError;
use crate::store::Ledger;

/// A machine that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingClaim {
    pub claim: Envelope,
    pub facts: Option<Envelope>,
    /// Digest of the invite's envelope, and when the invite ends.
    pub invite: Digest,
    pub until: Timestamp,
    pub source: IpAddr,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
}

impl Ledger {
    /// One claim for each node key. It waits since it came first; what it last told of itself counts.
    pub fn keep_claim(&self, node_key: Digest, row: &WaitingClaim) -> Result<(), LedgerError> {
        let text =
            |envelope: &Envelope| serde_json::to_string(envelope).map_err(|why| LedgerError::from(Part::Claim.is(why)));
        self.db
            .prepare_cached(
                "INSERT INTO claims VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO UPDATE SET
                     facts = COALESCE(excluded.facts, iif(digest = excluded.digest, facts, NULL)),
                     first_seen = iif(digest = excluded.digest, first_seen, excluded.first_seen),
                     digest = excluded.digest, invite = excluded.invite, claim = excluded.claim,
                     source = excluded.source, last_seen = excluded.last_seen, until = excluded.until",
            )?
            .execute(params![
                node_key.to_string(),
                row.claim.digest().to_string(),
                row.invite.to_string(),
                text(&row.claim)?,
                row.facts.as_ref().map(text).transpose()?,
                row.source.to_string(),
                row.first_seen.unix(),
                row.last_seen.unix(),
                row.until.unix()
            ])?;
        Ok(())
    }

    pub fn has_claim(&self, node_key: Digest) -> Result<bool, LedgerError> {
        Ok(self.db.prepare_cached("SELECT 1 FROM claims WHERE node_key = ?1")?.exists([node_key.to_string()])?)
    }

    /// How many wait under this invite, from this address, and in all.
    pub fn count_claims(&self, invite: Digest, source: IpAddr) -> Result<[i64; 3], LedgerError> {
        let count = |query: &str, value: &dyn rusqlite::ToSql| -> Result<i64, LedgerError> {
            Ok(self.db.prepare_cached(query)?.query_row([value], |row| row.get(0))?)
        };
        Ok([
            count("SELECT COUNT(*) FROM claims WHERE invite = ?1", &invite.to_string())?,
            count("SELECT COUNT(*) FROM claims WHERE source = ?1", &source.to_string())?,
            count("SELECT COUNT(*) FROM claims WHERE until > ?1", &i64::MIN)?,
        ])
    }

    /// Those whose node keys come after this one, in order.
    pub fn claims(&self, after: Option<Digest>, most: u32) -> Result<Vec<(Digest, WaitingClaim)>, LedgerError> {
        let mut query = self.db.prepare_cached(
            "SELECT node_key, claim, facts, invite, until, source, first_seen, last_seen FROM claims
             WHERE node_key > ?1 ORDER BY node_key LIMIT ?2",
        )?;
        let after = after.map(|after| after.to_string()).unwrap_or_default();
        let mut rows = query.query(params![after, most])?;
        let mut claims = Vec::new();
        while let Some(row) = rows.next()? {
            let read = |text: String| serde_json::from_str(&text).map_err(|_| Damage::Claim("envelope"));
            let digest = |text: String| text.parse::<Digest>().map_err(|_| Damage::Claim("digest"));
            let time = |at: usize| row.get(at).map(Timestamp::from_unix);
            let waiting = WaitingClaim {
                claim: read(row.get(1)?)?,
                facts: row.get::<_, Option<String>>(2)?.map(read).transpose()?,
                invite: digest(row.get(3)?)?,
                until: time(4)?,
                source: row.get::<_, String>(5)?.parse().map_err(|_| Damage::Claim("address"))?,
                first_seen: time(6)?,
                last_seen: time(7)?,
            };
            claims.push((digest(row.get(0)?)?, waiting));
        }
        Ok(claims)
    }

    pub fn forget_claim(&self, node_key: Digest) -> Result<(), LedgerError> {
        self.db.prepare_cached("DELETE FROM claims WHERE node_key = ?1")?.execute([node_key.to_string()])?;
        Ok(())
    }

    /// Their invites are over.
    pub fn forget_claims_until(&self, now: Timestamp) -> Result<(), LedgerError> {
        self.db.prepare_cached("DELETE FROM claims WHERE until <= ?1")?.execute([now.unix()])?;
        Ok(())
    }

    /// Nobody can come in by this invite any more.
    pub fn forget_claims_under(&self, invite: Digest) -> Result<(), LedgerError> {
        self.db.prepare_cached("DELETE FROM claims WHERE invite = ?1")?.execute([invite.to_string()])?;
        Ok(())
    }
}
