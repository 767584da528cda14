//! The state as rows, so that a gateway can start without folding its whole history, and an auditor can compare.

use std::collections::{BTreeMap, BTreeSet};

use identity::bundle::BundleBody;
use identity::envelope::{Envelope, Payload};
use identity::head::{Head, Revocations};
use identity::id::{Digest, InviteId, OrgId};
use identity::signers::{Quorum, Recovery, SignerSet, Succession, Word};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::admission::{Admission, Claim, Leave};
use crate::approve::{Decision, Verdict, Waiver};
use crate::consent::Consent;
use crate::entry::{Action, SignedEntry};
use crate::founding::Founding;
use crate::frontier::Place;
use crate::invite::Invite;
use crate::release::Release;
use crate::state::{
    AdmissionRecord, BundleRecord, EpochRecord, HeadRecord, Installed, InviteRecord, MemberRecord, RecoveryRecord,
    ReleaseRecord, Spend, State, SuspensionRecord,
};
use crate::suspend::Suspension;

/// Table and key, then the value as JSON.
pub type Rows = BTreeMap<(String, String), String>;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the derived table `{table}` has a row that cannot be read: {key}")]
pub struct BadRow {
    pub table: String,
    pub key: String,
}

/// How the rows of two states differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// New ones, and those that say something else.
    pub put: Rows,
    pub gone: BTreeSet<(String, String)>,
}

/// Every row of every table.
pub fn rows(state: &State) -> Rows {
    changes(None, state).put
}

/// What has to be written so that the rows of one state become those of another. Only what differs is spelled out: of
/// ten thousand members, a head changes none or a few.
pub fn changes(before: Option<&State>, after: &State) -> Changes {
    let mut sheet = Changes::default();
    let by_key = |state: &State| -> BTreeMap<String, Installed> {
        state.later.iter().map(|installed| (signers_key(&installed.set), installed.clone())).collect()
    };
    sheet.table("signers", (before.map(by_key).as_ref(), &by_key(after)), Clone::clone);
    sheet.table("recoveries", (before.map(|it| &it.recoveries), &after.recoveries), text);
    sheet.table("epochs", (before.map(|it| &it.epochs), &after.epochs), |number| epochs_key(*number));
    sheet.table("confirmed", (before.map(|it| &it.confirmed), &after.confirmed), text);
    sheet.table("suspensions", (before.map(|it| &it.suspensions), &after.suspensions), text);
    sheet.table("consents", (before.map(|it| &it.consents), &after.consents), text);
    sheet.table("decisions", (before.map(|it| &it.decisions), &after.decisions), text);
    sheet.table("waivers", (before.map(|it| &it.waivers), &after.waivers), text);
    sheet.table("heads", (before.map(|it| &it.heads), &after.heads), |(version, digest)| heads_key(*version, digest));
    if before.is_none_or(|before| before.revocations != after.revocations) {
        sheet.put("revocations", String::new(), &after.revocations);
    }
    sheet.table("bundles", (before.map(|it| &it.bundles), &after.bundles), text);
    sheet.table("releases", (before.map(|it| &it.releases), &after.releases), text);
    sheet.table("voices", (before.map(|it| &it.voices), &after.voices), text);
    sheet.table("invites", (before.map(|it| &it.invites), &after.invites), text);
    for (digest, record) in &after.invites {
        let known = before.and_then(|before| before.invites.get(digest));
        sheet.table("spends", (known.map(|it| &it.spent), &record.spent), |key| format!("{digest} {key}"));
    }
    for (digest, record) in before.into_iter().flat_map(|before| &before.invites) {
        if !after.invites.contains_key(digest) {
            sheet.table("spends", (Some(&record.spent), &BTreeMap::new()), |key| format!("{digest} {key}"));
        }
    }
    sheet.table("members", (before.map(|it| &it.members), &after.members), text);
    sheet.table("endings", (before.map(|it| &it.endings), &after.endings), text);
    sheet.table("frontier", (before.map(|it| &it.frontier.0), &after.frontier.0), text);
    sheet.table("void", (before.map(|it| &it.void), &after.void), text);
    sheet
}

fn text<K: ToString>(key: &K) -> String {
    key.to_string()
}

impl Changes {
    fn put(&mut self, table: &str, key: String, value: &impl Serialize) {
        self.put.insert((table.to_owned(), key), json(value));
    }

    fn table<K: Ord, V: PartialEq + Serialize>(
        &mut self,
        name: &str,
        (before, after): (Option<&BTreeMap<K, V>>, &BTreeMap<K, V>),
        key: impl Fn(&K) -> String,
    ) {
        for (at, value) in after {
            if before.and_then(|before| before.get(at)) != Some(value) {
                self.put(name, key(at), value);
            }
        }
        for at in before.into_iter().flat_map(BTreeMap::keys).filter(|at| !after.contains_key(at)) {
            self.gone.insert((name.to_owned(), key(at)));
        }
    }
}

/// The rows that an entry of a gateway's can have changed. Operators' entries are rare and wide: nothing for them,
/// which means all.
pub fn rows_after(state: &State, signed: &SignedEntry) -> Option<Rows> {
    let key = match &signed.entry.action {
        Action::NodeAdmit { admission } => claimed_key(state, admission)?,
        Action::NodeJoin { node_key, .. } => *node_key,
        Action::NodeLeave { leave, .. } => leave.peek::<Leave>(Some(state.org)).ok()?.node_key.digest(),
        Action::OrgFound { .. }
        | Action::SignersInstall { .. }
        | Action::RecoveryBegin { .. }
        | Action::InviteConfirm { .. }
        | Action::NodeSuspend { .. }
        | Action::ManifestConfirm { .. }
        | Action::NodeApprove { .. }
        | Action::InviteApprove { .. }
        | Action::TrustPublish { .. }
        | Action::TrustActivate { .. }
        | Action::TrustRollback { .. }
        | Action::TrustRetire { .. }
        | Action::HeadPublish { .. }
        | Action::ReleasePublish { .. }
        | Action::InviteCreate { .. } => return None,
    };
    Some(rows_about(state, signed, key))
}

/// The same, for a caller that knows which node key the entry is about.
pub fn rows_about(state: &State, signed: &SignedEntry, key: Digest) -> Rows {
    let mut out = Rows::new();
    let mut add = |table: &str, key: String, value: String| out.insert((table.to_owned(), key), value);
    // A claim can take another key's place, one to a name can unseat another's, and two gateways may have given one key
    // two names.
    let given = |key: Digest| state.members.get(&key).into_iter().flat_map(MemberRecord::admissions);
    let replaced = given(key).filter_map(|admission| Some(admission.claim.replaces?.digest()));
    let touched: BTreeSet<Digest> = replaced.chain([key]).collect();
    let names: BTreeSet<_> = touched.iter().flat_map(|key| given(*key)).map(|given| &given.claim.name).collect();
    for rival in names.into_iter().filter_map(|name| state.names.get(name)).flatten() {
        if let Some(record) = state.members.get(rival) {
            add("members", rival.to_string(), json(record));
        }
    }
    // Whatever it spent is named by one of its admissions.
    let admissions = state.members.get(&key).into_iter().flat_map(MemberRecord::admissions);
    let ids: BTreeSet<InviteId> = admissions.filter_map(AdmissionRecord::invite).collect();
    for digest in ids.iter().filter_map(|id| state.invite_ids.get(id)).flatten() {
        if let Some((record, spends)) =
            state.invites.get(digest).and_then(|record| Some((record, record.spent.get(&key)?)))
        {
            add("invites", digest.to_string(), json(record));
            add("spends", format!("{digest} {key}"), json(spends));
        }
    }
    for key in &touched {
        if let Some(cuts) = state.endings.get(key) {
            add("endings", key.to_string(), json(cuts));
        }
    }
    if let Some(place) = state.frontier.place_of(&signed.entry.author) {
        add("frontier", signed.entry.author.to_string(), json(place));
    }
    if let Some(void) = state.void.get(&signed.digest) {
        add("void", signed.digest.to_string(), json(void));
    }
    out
}

fn claimed_key(state: &State, admission: &Envelope) -> Option<Digest> {
    let admission: Admission = admission.peek(Some(state.org)).ok()?;
    let claim: Claim = admission.claim.peek(Some(state.org)).ok()?;
    Some(claim.node_key.digest())
}

/// The state again, from all rows.
pub fn restore(founding: &Founding, rows: &Rows) -> Result<State, BadRow> {
    let mut state = State::of(founding);
    for ((table, key), value) in rows {
        let bad = || BadRow { table: table.clone(), key: key.clone() };
        restore_row(&mut state, (table, key, value)).ok_or_else(bad)?;
    }
    for (key, member) in &state.members {
        for admission in std::iter::once(&member.admission).chain(&member.rivals) {
            state.names.entry(admission.claim.name.clone()).or_default().insert(*key);
        }
    }
    for (digest, record) in &state.invites {
        state.invite_ids.entry(record.invite.id).or_default().insert(*digest);
    }
    Ok(state)
}

/// A row that lies under another's key, or that says something else than the signed object in it, would be two things
/// at once, so it is refused.
fn restore_row(state: &mut State, (table, key, value): (&str, &str, &str)) -> Option<()> {
    match table {
        "signers" => {
            let installed: Installed = read(value)?;
            let set = &installed.set;
            let (version, previous, quorum) = brings(state.org, &installed.envelope)?;
            let fits = installed.envelope.digest() == set.id
                && (version, previous, &quorum, state.org) == (set.version, installed.previous, &set.quorum, set.org)
                && (installed.envelope.kind() == Recovery::KIND) == (installed.word == Word::Recovery)
                && signers_key(set) == key;
            state.later.push(fits.then_some(installed)?);
        }
        "recoveries" => {
            let record: RecoveryRecord = read(value)?;
            let set = &record.set;
            let (version, _, quorum) = brings(state.org, &record.envelope)?;
            let fits = record.envelope.digest() == set.id
                && (version, &quorum, state.org) == (set.version, &set.quorum, set.org)
                && set.id.to_string() == key;
            state.recoveries.insert(record.set.id, fits.then_some(record)?);
        }
        "epochs" => {
            let record: EpochRecord = read(value)?;
            let number = record.epoch.number;
            state.epochs.insert(number, (epochs_key(number) == key).then_some(record)?);
        }
        "confirmed" => {
            let invite: InviteId = key.parse().ok()?;
            state.confirmed.insert(invite, read(value).filter(|_| invite.to_string() == key)?);
        }
        "suspensions" => {
            let node_key: Digest = key.parse().ok()?;
            let records: Vec<SuspensionRecord> = read(value)?;
            let fits = |record: &SuspensionRecord| {
                says::<Suspension>(state.org, &record.envelope, |signed| {
                    (signed.node_key, signed.at, signed.until) == (node_key, record.at, record.until)
                })
            };
            let all = node_key.to_string() == key && records.iter().all(fits);
            state.suspensions.insert(node_key, all.then_some(records)?);
        }
        "consents" => {
            let node_key: Digest = key.parse().ok()?;
            let given: BTreeMap<Digest, Envelope> = read(value)?;
            let fits = |(manifest, envelope): (&Digest, &Envelope)| {
                says::<Consent>(state.org, envelope, |signed| {
                    (signed.node_key, signed.manifest) == (node_key, *manifest)
                })
            };
            let all = node_key.to_string() == key && given.iter().all(fits);
            state.consents.insert(node_key, all.then_some(given)?);
        }
        "decisions" => {
            let about: Digest = key.parse().ok()?;
            let words: BTreeMap<Verdict, Envelope> = read(value)?;
            let fits = |(word, envelope): (&Verdict, &Envelope)| {
                says::<Decision>(state.org, envelope, |signed| (signed.about, signed.verdict) == (about, *word))
            };
            let all = about.to_string() == key && words.iter().all(fits);
            state.decisions.insert(about, all.then_some(words)?);
        }
        "waivers" => {
            let (digest, envelope): (Digest, Envelope) = (key.parse().ok()?, read(value)?);
            let fits = envelope.digest() == digest && says::<Waiver>(state.org, &envelope, |_| true);
            state.waivers.insert(digest, fits.then_some(envelope)?);
        }
        "heads" | "bundles" | "releases" | "invites" => restore_signed(state, (table, key, value))?,
        "revocations" => state.revocations = read::<Revocations>(value).filter(|_| key.is_empty())?,
        "voices" => {
            state.voices.insert(key.parse().ok()?, read(value)?);
        }
        // Sorted after `invites`, so the invite is there.
        "spends" => {
            let (invite, node_key) = key.split_once(' ')?;
            let record = state.invites.get_mut(&invite.parse().ok()?)?;
            record.spent.insert(node_key.parse().ok()?, read::<BTreeSet<Spend>>(value)?);
        }
        "members" => {
            let (digest, record) = (key.parse().ok()?, read::<MemberRecord>(value)?);
            let fits = record.admissions().all(|admission| admission.claim.node_key.digest() == digest);
            state.members.insert(digest, fits.then_some(record)?);
        }
        "endings" => {
            state.endings.insert(key.parse().ok()?, read(value)?);
        }
        "frontier" => {
            state.frontier.0.insert(key.parse().ok()?, read::<Place>(value)?);
        }
        "void" => {
            state.void.insert(key.parse().ok()?, read(value)?);
        }
        _ => return None,
    }
    Some(())
}

/// A row that holds one object with its signatures.
fn restore_signed(state: &mut State, (table, key, value): (&str, &str, &str)) -> Option<()> {
    match table {
        "heads" => {
            let record: HeadRecord = read(value)?;
            let fits = record.envelope.digest() == record.digest
                && says::<Head>(state.org, &record.envelope, |signed| *signed == record.head)
                && heads_key(record.head.version, &record.digest) == key;
            state.heads.insert((record.head.version, record.digest), fits.then_some(record)?);
        }
        "bundles" => {
            let (digest, record) = (key.parse().ok()?, read::<BundleRecord>(value)?);
            let fits = record.envelope.digest() == digest
                && says::<BundleBody>(state.org, &record.envelope, |signed| *signed == record.body);
            state.bundles.insert(digest, fits.then_some(record)?);
        }
        "releases" => {
            let (digest, record) = (key.parse().ok()?, read::<ReleaseRecord>(value)?);
            let fits = record.envelope.digest() == digest
                && says::<Release>(state.org, &record.envelope, |signed| *signed == record.release);
            state.releases.insert(digest, fits.then_some(record)?);
        }
        "invites" => {
            let (digest, record) = (key.parse().ok()?, read::<InviteRecord>(value)?);
            let fits = record.envelope.digest() == digest
                && says::<Invite>(state.org, &record.envelope, |signed| *signed == record.invite);
            state.invites.insert(digest, fits.then_some(record)?);
        }
        _ => return None,
    }
    Some(())
}

fn says<T: Payload>(org: OrgId, envelope: &Envelope, the_same: impl FnOnce(&T) -> bool) -> bool {
    envelope.peek(Some(org)).is_ok_and(|signed| the_same(&signed))
}

/// Sorts as versions do.
fn signers_key(set: &SignerSet) -> String {
    format!("{:010} {}", set.version, set.id)
}

fn heads_key(version: u64, digest: &Digest) -> String {
    format!("{version:020} {digest}")
}

fn epochs_key(number: u32) -> String {
    format!("{number:010}")
}

/// The set that a succession or a recovery brings: its version, its predecessor, its quorum.
fn brings(org: OrgId, envelope: &Envelope) -> Option<(u64, Digest, Quorum)> {
    if envelope.kind() == Recovery::KIND {
        let next: Recovery = envelope.peek(Some(org)).ok()?;
        return Some((next.version, next.previous, next.quorum));
    }
    let next: Succession = envelope.peek(Some(org)).ok()?;
    Some((next.version, next.previous, next.quorum))
}

fn json<T: Serialize>(value: &T) -> String {
    // Our own records have string keys and no failing serializers.
    serde_json::to_string(value).unwrap_or_default()
}

fn read<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}
