//! Checks a backup: every sum, every signature, and the whole ledger folded afresh. Says what it would bring back.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gateway::store::folder::GatewayFile;
use ground::file::FileError;
use ground::{clock, sealed};
use identity::bundle::{Endpoint, Identity};
use identity::envelope::Envelope;
use identity::head::Head;
use identity::id::{InviteId, OrgId};
use identity::key::{EdKey, Sign as _};
use identity::principal::{NodeName, OrgName};
use identity::time::Timestamp;
use ledger::error::LedgerError;
use ledger::store::Ledger;
use operate::audit::check_alone;
use operate::backup::inside::Inside;
use operate::backup::read::{Backup, Kept, Sink};
use operate::backup::{BackupContents, BackupError, LEDGER};
use operate::folder::Memory;
use org::state::{InviteRecord, Standing, State};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::known::{BadKnowledge, Known, KnownFile};

use crate::backup::roots::{self, RootTold};
use crate::backup::scratch::Scratch;

#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{what}` in the backup is damaged: {why}")]
    Damaged { what: String, why: String },
    #[error("`{what}` in the backup cannot be used")]
    Knowledge {
        what: &'static str,
        #[source]
        why: BadKnowledge,
    },
    #[error("`{0}` is missing in the backup")]
    Missing(&'static str),
    #[error("the ledger in the backup cannot be read")]
    Ledger(#[from] LedgerError),
    #[error("the ledger in the backup does not hold: {0}")]
    LedgerDoesNotHold(LedgerFault),
    #[error("the backup does not hold together: {0}")]
    Inconsistent(Mismatch),
}

/// Why a ledger does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerFault {
    /// The first entry that does not.
    #[error("{0}")]
    Entry(String),
    #[error("it has no head, or an older one than the operator knew")]
    Behind,
    #[error("entries are missing that the operator had seen")]
    EntriesMissing,
}

/// Two parts of a backup that are not of one org.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    #[error("`{0}` is of another org than the backup says")]
    Known(&'static str),
    #[error("`gateway/gateway.json` is of another org")]
    Gateway,
    #[error("no mandate names the voice of the gateway that is in it")]
    Voice,
    #[error("the ledger is of another org")]
    Ledger,
}

const MAX_LOOKED_AT: u64 = 4 << 20;
/// Where the operator keeps trust bundles.
const BUNDLES: &str = "operator/bundles/";

/// What a backup would bring back.
#[derive(Debug, Clone, Serialize)]
pub struct CheckReport {
    pub org: OrgName,
    pub org_id: OrgId,
    pub made_at: Timestamp,
    pub file: PathBuf,
    pub bytes: u64,
    pub files: usize,
    /// Is the operator's half in it, and which signers' keys are?
    pub operator: bool,
    pub signers: Vec<String>,
    /// The keys of all roots in use are in it.
    pub roots: bool,
    pub root_keys: Vec<RootTold>,
    pub gateway: bool,
    pub head: u64,
    /// Of the ledger, if the gateway's half is in it.
    pub entries: Option<usize>,
    pub nodes: Option<usize>,
    pub open_invites: Vec<OpenInvite>,
}

#[derive(Debug, Clone, Serialize)]
pub struct OpenInvite {
    pub id: InviteId,
    pub label: String,
    /// Nothing: without limit.
    pub uses_left: Option<u32>,
    pub expires_at: Timestamp,
}

/// Reads and checks everything. The ledger is opened in `scratch`; no key is written anywhere.
pub fn check(backup: &mut Backup, file: &Path, scratch: PathBuf) -> Result<CheckReport, CheckError> {
    let scratch = Scratch::at(scratch)?;
    let ledger = scratch.path().join("ledger.db");
    let kept = backup.unpack(|item| match item.path.as_str() {
        LEDGER => Sink::File(ledger.clone()),
        _ if item.size <= MAX_LOOKED_AT && is_looked_at(&item.path) => Sink::Memory,
        _ => Sink::Nowhere,
    })?;
    let contents = &backup.contents;
    let bytes = std::fs::metadata(file).map_or(0, |meta| meta.len());
    let known = known(contents, &kept)?;
    let damaged = |it: roots::Damaged| CheckError::Damaged { what: it.what, why: it.why.to_owned() };
    let root_keys = roots::roots(&kept).map_err(damaged)?;
    check_bundles(&known, &kept)?;
    let mut report = CheckReport {
        org: contents.org.clone(),
        org_id: contents.org_id,
        made_at: contents.made_at,
        file: file.to_owned(),
        bytes,
        files: contents.files.len(),
        operator: contents.has("operator"),
        signers: signers(&kept)?,
        roots: roots::are_whole(&root_keys, None),
        root_keys,
        gateway: contents.has("gateway"),
        head: known.head.head.version,
        entries: None,
        nodes: None,
        open_invites: Vec::new(),
    };
    if report.gateway {
        if !has(contents, LEDGER) {
            return Err(CheckError::Missing(LEDGER));
        }
        check_gateway(&known, contents, &kept)?;
        let (state, entries) = check_ledger(&ledger, &known)?;
        check_memory(&state, &kept)?;
        report.roots = roots::are_whole(&report.root_keys, Some(&state));
        let live = state.members.values().filter(|member| state.standing(member) != Standing::Revoked);
        report.nodes = Some(live.count());
        report.entries = Some(entries);
        report.head = state.head().map_or(report.head, |record| record.head.version);
        report.open_invites = open_invites(&state, clock::now());
    }
    Ok(report)
}

/// What is more than a sum: keys, and what is known and remembered of the org.
fn is_looked_at(path: &Inside) -> bool {
    let about = matches!(path.name(), "known.json" | "memory.json" | "gateway.json");
    path.is_key()
        || about
        || path.as_str().starts_with(BUNDLES)
        || (path.first() == "operator" && path.as_str().contains("-root"))
}

/// Trust bundles that the operator keeps: each is what its name says, and the signers signed it.
fn check_bundles(known: &Known, kept: &Kept) -> Result<(), CheckError> {
    for (path, bytes) in kept.iter().filter(|(path, _)| path.as_str().starts_with(BUNDLES)) {
        let damaged = |why: &str| CheckError::Damaged { what: path.to_string(), why: why.to_owned() };
        let envelope: Envelope = serde_json::from_slice(bytes).map_err(|why| damaged(&why.to_string()))?;
        if path.name() != format!("{}.json", envelope.digest()) {
            return Err(damaged("it is another bundle than its name says"));
        }
        let holds = known.open_bundle::<Endpoint>(&envelope).is_some();
        if !holds && known.open_bundle::<Identity>(&envelope).is_none() {
            return Err(damaged("it is no trust bundle of this org"));
        }
    }
    Ok(())
}

fn has(contents: &BackupContents, path: &str) -> bool {
    contents.files.iter().any(|item| item.path.as_str() == path)
}

fn bytes<'a>(kept: &'a Kept, path: &'static str) -> Result<&'a [u8], CheckError> {
    let found = kept.iter().find(|(inside, _)| inside.as_str() == path);
    found.map(|(_, bytes)| &bytes[..]).ok_or(CheckError::Missing(path))
}

fn json<T: DeserializeOwned>(kept: &Kept, path: &'static str) -> Result<T, CheckError> {
    let damaged = |why: serde_json::Error| CheckError::Damaged { what: path.to_owned(), why: why.to_string() };
    serde_json::from_slice(bytes(kept, path)?).map_err(damaged)
}

/// Founding record, signer chain and head, each checked by its signatures.
fn known(contents: &BackupContents, kept: &Kept) -> Result<Known, CheckError> {
    let path = if contents.has("operator") { "operator/known.json" } else { "gateway/node/known.json" };
    let unusable = |why| CheckError::Knowledge { what: path, why };
    let known = Known::from_file(json::<KnownFile>(kept, path)?).map_err(unusable)?;
    if known.org() != contents.org_id || known.founding.record.name != contents.org {
        return Err(CheckError::Inconsistent(Mismatch::Known(path)));
    }
    Ok(known)
}

/// The signers whose key files are in it; each must be one.
fn signers(kept: &Kept) -> Result<Vec<String>, CheckError> {
    let mut names = Vec::new();
    for (path, bytes) in kept.iter().filter(|(path, _)| path.first() == "operator" && path.is_key()) {
        if !sealed::is_sealed(bytes) {
            return Err(CheckError::Damaged { what: path.to_string(), why: "it is not a key file".to_owned() });
        }
        let signer = path.as_str().strip_prefix("operator/signers/").and_then(|name| name.strip_suffix(".key"));
        names.extend(signer.map(str::to_owned));
    }
    Ok(names)
}

/// The gateway's voice must be one that a mandate names: else what is restored could not speak for itself.
fn check_gateway(known: &Known, contents: &BackupContents, kept: &Kept) -> Result<(), CheckError> {
    let about: GatewayFile = json(kept, "gateway/gateway.json")?;
    if about.org_id != contents.org_id {
        return Err(CheckError::Inconsistent(Mismatch::Gateway));
    }
    let short = |_| CheckError::Damaged { what: "gateway/voice.key".to_owned(), why: "not 32 bytes".to_owned() };
    let voice = EdKey::from_seed(bytes(kept, "gateway/voice.key")?.try_into().map_err(short)?).public();
    if !known.head.head.mandates.iter().any(|mandate| mandate.voice == voice && mandate.gateway == about.node) {
        return Err(CheckError::Inconsistent(Mismatch::Voice));
    }
    for name in ["gateway/identity-issuer.key", "gateway/endpoint-issuer.key"] {
        let damaged = || CheckError::Damaged { what: name.to_owned(), why: "it is not a key".to_owned() };
        let text = std::str::from_utf8(bytes(kept, name)?).map_err(|_| damaged())?;
        identity::key::P256Key::from_pem(text).map_err(|_| damaged())?;
    }
    Ok(())
}

/// The whole ledger, checked entry by entry.
fn check_ledger(path: &Path, known: &Known) -> Result<(State, usize), CheckError> {
    let (ledger, founding) = Ledger::open(path)?;
    if founding.id != known.org() {
        return Err(CheckError::Inconsistent(Mismatch::Ledger));
    }
    let state = ledger.state(&founding, clock::now())?;
    let entries: Vec<Envelope> = ledger.all_entries()?.into_iter().map(|signed| signed.envelope).collect();
    let count = entries.len();
    if let Some(bad) = check_alone(&founding, entries, &state).first_bad {
        return Err(CheckError::LedgerDoesNotHold(LedgerFault::Entry(bad)));
    }
    // While two sets claim one place, an older head stands.
    let has_known = state.replica.heads.contains(&known.head.digest);
    if has_known || !is_behind(state.head().map(|record| &record.head), &known.head.head) {
        return Ok((state, count));
    }
    Err(CheckError::LedgerDoesNotHold(LedgerFault::Behind))
}

/// A later signer set may count from the beginning.
fn is_behind(ledger: Option<&Head>, known: &Head) -> bool {
    ledger.is_none_or(|head| head.place() < known.place())
}

/// What the operator had seen must be there.
fn check_memory(state: &State, kept: &Kept) -> Result<(), CheckError> {
    let path = Inside::new("operator/memory.json").ok().filter(|path| kept.contains_key(path));
    if path.is_none() {
        return Ok(());
    }
    let memory: Memory = json(kept, "operator/memory.json")?;
    if state.frontier.covers_all(&memory.pulled) {
        return Ok(());
    }
    Err(CheckError::LedgerDoesNotHold(LedgerFault::EntriesMissing))
}

fn open_invites(state: &State, now: Timestamp) -> Vec<OpenInvite> {
    let view = |record: &InviteRecord| {
        let InviteRecord { invite, .. } = record;
        // Of a gateway that has several, all are told at once.
        let gateways: BTreeSet<&NodeName> = record.open_rights().map(|right| &right.gateway).collect();
        let mut left = gateways.into_iter().map(|gateway| record.uses_left(gateway));
        let uses_left = left.try_fold(0, |sum: u32, left| Some(sum.saturating_add(left?)));
        OpenInvite { id: invite.id, label: invite.label.clone(), uses_left, expires_at: invite.expires_at }
    };
    let mut open: Vec<OpenInvite> = state.open_invites(now).map(view).collect();
    open.sort_by_key(|invite| (invite.expires_at, invite.id));
    open
}

#[cfg(test)]
mod tests {
    use identity::id::Digest;
    use identity::signers::SignersRef;
    use trials::scene::first_head;

    use super::*;

    fn head(signers: u64, version: u64) -> Head {
        Head { version, ..first_head(SignersRef { version: signers, id: Digest([0; 32]) }) }
    }

    #[test]
    fn a_ledger_is_behind_by_its_signers_first_and_then_by_its_number() {
        for (ledger, known, expected) in [
            ((1, 7), (1, 7), false),
            ((1, 7), (1, 8), true),
            ((2, 1), (1, 8), false),
            ((1, 8), (2, 1), true),
            ((2, 3), (2, 1), false),
        ] {
            let found = is_behind(Some(&head(ledger.0, ledger.1)), &head(known.0, known.1));
            assert_eq!(found, expected, "{ledger:?} {known:?}");
        }
        assert!(is_behind(None, &head(1, 1)));
    }
}
