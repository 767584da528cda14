//! One who has a gateway's disk, and writes into its ledger what no gateway would: the program finds it there as if it
//! had come by itself.

#![expect(clippy::unwrap_used, reason = "a trial fails by panicking")]

use std::path::PathBuf;

use ground::{clock, random};
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::key::{EdKey, Sign};
use identity::time::Timestamp;
use org::founding::Founding;
use org::ledger::entry::{Action, SignedEntry, Stamp};
use org::state::State;
use rusqlite::{Connection, params};

#[derive(Debug)]
pub struct Intruder {
    folder: PathBuf,
}

impl Intruder {
    /// The folder `gateway` of a machine. Nobody serves from it while it is written to.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn ledger(&self) -> Connection {
        Connection::open(self.folder.join("ledger.db")).unwrap()
    }

    /// The key with which the gateway signs its entries.
    pub fn voice(&self) -> EdKey {
        EdKey::from_seed(std::fs::read(self.folder.join("voice.key")).unwrap().as_slice().try_into().unwrap())
    }

    pub fn founding(&self) -> Founding {
        let query = "SELECT value FROM meta WHERE key = 'founding'";
        let text: String = self.ledger().query_row(query, [], |row| row.get(0)).unwrap();
        Founding::open(serde_json::from_str(&text).unwrap()).unwrap()
    }

    pub fn entries(&self) -> Vec<SignedEntry> {
        let (ledger, org) = (self.ledger(), self.founding().id);
        let mut query = ledger.prepare("SELECT envelope FROM entries ORDER BY id").unwrap();
        let texts = query.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let open = |text: String| SignedEntry::open(org, serde_json::from_str::<Envelope>(&text).unwrap()).unwrap();
        texts.map(|text| open(text.unwrap())).collect()
    }

    /// What the entries say; when steps were seen, the disk knows.
    pub fn state(&self) -> State {
        let mut state = State::of(&self.founding());
        for signed in self.entries() {
            state.take_entry(&signed, signed.entry.at);
        }
        state.replica.sights.extend(self.sights());
        state.conclude(clock::now());
        state
    }

    /// The next entry of a chain, dated so.
    pub fn entry(&self, voice: &dyn Sign, at: Timestamp, action: Action) -> SignedEntry {
        let (state, about) = (self.state(), Stamp { at, correlation: random::correlation().unwrap() });
        let last = state.frontier.place_of(&voice.public());
        SignedEntry::write(self.founding().id, last, voice, state.under(), about, action).unwrap()
    }

    /// The gateway's next entry, in its own voice.
    pub fn says(&self, action: Action) -> SignedEntry {
        self.entry(&self.voice(), clock::now(), action)
    }

    pub fn put(&self, signed: &SignedEntry) {
        let (voice, seq) = (signed.entry.voice.to_string(), i64::try_from(signed.entry.seq).unwrap());
        let envelope = serde_json::to_string(&signed.envelope).unwrap();
        let row = "INSERT INTO entries (voice, seq, digest, envelope) VALUES (?1, ?2, ?3, ?4)";
        let row = self.ledger().execute(row, params![voice, seq, signed.digest.to_string(), envelope]);
        assert_eq!(row.unwrap(), 1);
    }

    fn sights(&self) -> Vec<(Digest, Timestamp)> {
        let ledger = self.ledger();
        let mut rows = ledger.prepare("SELECT step, since FROM sights").unwrap();
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?));
        let rows = rows.query_map([], read).unwrap().map(Result::unwrap);
        rows.map(|(step, since)| (step.parse().unwrap(), Timestamp::from_unix(since))).collect()
    }

    /// Has the gateway believe that it saw a step to other signers at this time.
    pub fn saw(&self, step: Digest, at: Timestamp) {
        let row = "INSERT OR REPLACE INTO sights (step, since) VALUES (?1, ?2)";
        assert_eq!(self.ledger().execute(row, params![step.to_string(), at.unix()]).unwrap(), 1);
    }
}
