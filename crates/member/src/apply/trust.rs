//! Which roots of a domain this node goes by: what it has taken, what is on trial, what went back.
//!
//! ```text
//! SCOPE/trust/DOMAIN/trial.json     where the node stands (record.rs)
//! SCOPE/trust/DOMAIN/DIGEST.json    versions that were trusted together, as they were signed
//! SCOPE/trust/DOMAIN.pem            the roots in force, for other programs
//! ```
//! Order of writes: the versions, then the record, then the file for others, then what nobody names is removed. The head
//! and the record decide, and the file follows. What the head retired counts no more as soon as the head is on the disk,
//! whatever the record says. A scope without a record goes by the file for others, but for what it
//! knows to be retired, until it learns which versions it has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use ground::file;
use identity::bundle::{Bundle, Domain, InDomain, Roots};
use identity::envelope::Envelope;
use identity::head::Head;
use identity::id::Digest;
use identity::time::{Seconds, Timestamp};
use identity::trust;
use manifest::stored::{ApplyPolicy, Confirm};
use org::report::{DomainTold, Refused, TOLD, plain};
use pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use wire::known::Known;

use crate::apply::record::{self, Found};
use crate::apply::trial::{Event, Item, Offer, Outcome, Standing, Trial, TrialTerms};
use crate::apply::unfit::Unfit;
use crate::store::scope::trust::TrustPaths;
use crate::store::scope::{Scope, ScopeError, read_json, write_json};

/// Where a node stands with the bundles of one domain. Opening it changes nothing.
#[derive(Debug)]
pub struct Trusting<D: InDomain> {
    folder: PathBuf,
    paths: TrustPaths,
    standing: Standing,
    /// As it lies on the disk.
    written: Standing,
    /// The trial was over when this was read.
    over: bool,
    shelf: BTreeMap<Digest, Together<D>>,
    /// What others read, if nothing is known of versions yet.
    unnumbered: Option<Roots<D>>,
}

/// Versions that were trusted together.
#[derive(Debug, Clone)]
struct Together<D: InDomain> {
    bundles: Vec<Bundle<D>>,
    taken_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TogetherFile {
    schema: u32,
    taken_at: Option<Timestamp>,
    bundles: Vec<Envelope>,
}

/// How something new is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trying {
    pub within: Seconds,
    /// There is no gateway to reach.
    pub offline: bool,
    /// A person wants it: also what went back before.
    pub urged: bool,
}

impl Default for Trying {
    fn default() -> Self {
        Self { within: ApplyPolicy::default().deadline, offline: false, urged: false }
    }
}

impl<D: InDomain> Trusting<D> {
    pub fn open(scope: &Scope, known: &Known, now: Timestamp) -> Result<Self, ScopeError> {
        Self::open_with(scope, known, scope.trust_paths()?, now)
    }

    pub fn open_with(scope: &Scope, known: &Known, paths: TrustPaths, now: Timestamp) -> Result<Self, ScopeError> {
        let folder = scope.path("trust").join(D::DOMAIN.word());
        let written = match record::load(&folder)? {
            Found::Standing(standing) => *standing,
            Found::Nothing => Standing::default(),
            Found::Damaged(why) => {
                tracing::error!(domain = D::DOMAIN.word(), why, "which roots were taken cannot be read; asked anew");
                Standing::default()
            }
        };
        let shelf = read_shelf(&folder, known);
        let mut standing = written.clone();
        for digest in written.kept().filter(|digest| !shelf.contains_key(digest)).collect::<Vec<_>>() {
            standing = standing.step(Event::Damaged(digest), now).0;
        }
        // Over is over, also if that cannot be written down.
        let over = standing.clone().step(Event::Tick, now).1 == Outcome::WentBack;
        let written_roots = || scope.written_roots(&paths).map(|roots| still_trusted(&roots, known, &shelf));
        let unnumbered = if standing.obeyed().is_none() { written_roots() } else { None };
        Ok(Self { folder, paths, standing, written, over, shelf, unnumbered })
    }

    fn obeyed(&self) -> Option<Item> {
        if self.over { self.standing.confirmed } else { self.standing.obeyed() }
    }

    /// The versions that count by this head, as far as they are here.
    pub fn in_force(&self, head: &Head) -> Vec<&Bundle<D>> {
        let taken = self.obeyed().map(|item| self.named(item.digest)).unwrap_or_default();
        let lines = trust::in_force(&head.trust, D::DOMAIN, &taken);
        lines.into_iter().filter_map(|line| self.bundle(line.bundle)).collect()
    }

    /// None if nothing that the head trusts is here: then it is fetched from whoever has it, since it is signed.
    pub fn roots(&self, head: &Head) -> Roots<D> {
        match &self.unnumbered {
            Some(roots) => roots.clone(),
            None => Roots::of_all(self.in_force(head)),
        }
    }

    /// Those that are kept here and count no more: only for words.
    pub fn former(&self, head: &Head) -> Roots<D> {
        let counts: BTreeSet<Digest> = self.in_force(head).iter().map(|bundle| bundle.digest()).collect();
        let kept = self.shelf.values().flat_map(|together| &together.bundles);
        Roots::of_all(kept.filter(|bundle| !counts.contains(&bundle.digest())))
    }

    /// Is there something here that the head trusts, with its version?
    pub fn is_served(&self, head: &Head) -> bool {
        self.obeyed().is_some() && !self.in_force(head).is_empty()
    }

    /// Were the keys of all that was taken stolen since? Other programs look at no mandate: for them such a root is enough.
    fn is_stolen(&self, head: &Head) -> bool {
        let taken = self.obeyed().map(|item| self.named(item.digest)).unwrap_or_default();
        let stolen = |digest: &Digest| head.trust.iter().any(|line| line.bundle == *digest && line.distrusted);
        !taken.is_empty() && taken.iter().all(stolen)
    }

    /// Every bundle that the head trusts, if all of them are here.
    pub(crate) fn at_hand(&self, head: &Head) -> Option<Vec<Bundle<D>>> {
        head.trusted_bundles(D::DOMAIN).map(|line| self.bundle(line.bundle).cloned()).collect()
    }

    /// What is on trial and was not there before.
    pub fn tried(&self) -> Vec<&Bundle<D>> {
        let Some(trial) = &self.standing.trial else {
            return Vec::new();
        };
        let before = self.standing.confirmed.map(|item| self.named(item.digest)).unwrap_or_default();
        let bundles = self.shelf.get(&trial.item.digest).map(|together| &together.bundles);
        bundles.into_iter().flatten().filter(|bundle| !before.contains(&bundle.digest())).collect()
    }

    /// What a trial is waiting for, in words.
    pub fn waits_for(&self) -> Vec<String> {
        self.standing.trial.as_ref().map(Trial::waits_for).unwrap_or_default()
    }

    pub(crate) const fn trial(&self) -> Option<&Trial> {
        self.standing.trial.as_ref()
    }

    /// Takes all that the head trusts. Only what adds roots to those that are still trusted is tried; what takes some
    /// away is authority, and where none is left there is nothing to go back to.
    pub(crate) fn offer(
        &mut self,
        scope: &Scope,
        head: &Head,
        bundles: Vec<Bundle<D>>,
        trying: Trying,
        now: Timestamp,
    ) -> Result<Outcome, ScopeError> {
        if self.standing.confirmed.is_none() {
            self.number(head, &bundles, now)?;
        }
        let adds = self.adds(&bundles);
        let terms = TrialTerms {
            confirm: if trying.offline { Confirm::Offline } else { Confirm::Auto },
            fresh: true,
            within: trying.within,
        };
        let unchanged = self.standing.confirmed.filter(|_| !adds).map(|confirmed| confirmed.runs);
        // What went back is tried again once the head says something else of this domain.
        let runs = unchanged.unwrap_or_else(|| head_lines::<D>(head));
        let same = self.standing.confirmed.is_some_and(|confirmed| confirmed.digest == digest_of(&bundles));
        let item = Item { digest: self.put(bundles, (!adds && !same).then_some(now))?, runs };
        let offer = Offer { item, head: head.version, terms, urged: trying.urged };
        let outcome = if self.standing.confirmed.is_some() {
            self.step(Event::Offered(offer), now)?
        } else {
            self.save(Standing { head: head.version, confirmed: Some(item), ..Standing::default() })?;
            Outcome::Confirmed
        };
        self.unnumbered = None;
        if trying.offline {
            self.found(Ok(()), now)?;
        }
        self.settle(scope, head)?;
        Ok(outcome)
    }

    /// Takes all that the head trusts without a trial: nothing of what was here leads to a gateway.
    pub(crate) fn take(
        &mut self,
        scope: &Scope,
        head: &Head,
        bundles: Vec<Bundle<D>>,
        now: Timestamp,
    ) -> Result<(), ScopeError> {
        let digest = self.put(bundles, Some(now))?;
        let item = Item { digest, runs: digest };
        self.save(Standing {
            head: head.version,
            confirmed: Some(item),
            previous: self.standing.confirmed,
            ..Standing::default()
        })?;
        self.unnumbered = None;
        self.settle(scope, head)
    }

    /// What was tried works, or why not. Evidence is not written down: it is found again.
    pub(crate) fn found(&mut self, found: Result<(), Unfit>, now: Timestamp) -> Result<Outcome, ScopeError> {
        let Some(under) = self.standing.trial.as_ref().map(|trial| trial.item.digest) else {
            return Ok(Outcome::Ignored);
        };
        if let Err(why) = found {
            return self.lapse(Some(why), now);
        }
        self.step(Event::Reached { under, fresh: true }, now)?;
        self.step(Event::Checked { under, found }, now)?;
        self.tick(now)
    }

    /// Time passes: goes back at the deadline, for the last reason that was found.
    pub(crate) fn lapse(&mut self, why: Option<Unfit>, now: Timestamp) -> Result<Outcome, ScopeError> {
        if let (Some(trial), Some(why)) = (&self.standing.trial, why) {
            // It was found in time.
            let (found, seen) = (Err(why), trial.seen);
            let event = Event::Checked { under: trial.item.digest, found };
            self.standing = self.standing.clone().step(event, seen).0;
        }
        self.tick(now)
    }

    /// Confirms, or goes back.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Result<Outcome, ScopeError> {
        let trial = self.standing.trial.as_ref().map(|trial| trial.item.digest);
        let (next, outcome) = self.standing.clone().step(Event::Tick, now);
        if outcome == Outcome::Confirmed
            && let Some(together) = trial.and_then(|digest| self.shelf.get(&digest))
        {
            let bundles = together.bundles.clone();
            self.put(bundles, Some(now))?;
        }
        let back = next.failed.clone();
        self.write(next, now)?;
        match (outcome, back) {
            (Outcome::WentBack, Some(back)) => {
                tracing::error!(domain = D::DOMAIN.word(), why = %back.why, "new roots went back");
            }
            (Outcome::Confirmed, _) => tracing::info!(domain = D::DOMAIN.word(), "new roots are confirmed"),
            _ => {}
        }
        Ok(outcome)
    }

    /// The program was started: that costs a trial some of its time.
    pub(crate) fn restarted(&mut self, now: Timestamp) -> Result<(), ScopeError> {
        self.step(Event::Restarted, now)?;
        self.tick(now).map(drop)
    }

    /// The file for others follows, and what nobody names goes.
    pub(crate) fn settle(&mut self, scope: &Scope, head: &Head) -> Result<(), ScopeError> {
        if !self.is_served(head) {
            if self.is_stolen(head) && scope.withdraw_roots(&self.paths, D::DOMAIN)? {
                tracing::error!(
                    domain = D::DOMAIN.word(),
                    "the keys of these roots were stolen: the file for other programs is gone until the new roots are here"
                );
            }
            return Ok(());
        }
        if scope.write_roots(&self.paths, &self.roots(head))? {
            tracing::debug!(domain = D::DOMAIN.word(), versions = ?self.versions(head), "roots in force");
        }
        let kept: BTreeSet<Digest> = self.standing.kept().chain(self.written.kept()).collect();
        for digest in self.shelf.keys().filter(|digest| !kept.contains(*digest)) {
            let _ = fs::remove_file(self.folder.join(format!("{digest}.json")));
        }
        self.shelf.retain(|digest, _| kept.contains(digest));
        Ok(())
    }

    pub fn versions(&self, head: &Head) -> Vec<u64> {
        self.in_force(head).iter().map(|bundle| bundle.body().trust_bundle_version).take(TOLD).collect()
    }

    /// For people and for reports; nothing while versions are not known here.
    pub fn told(&self, head: &Head) -> Option<DomainTold> {
        let in_force = self.in_force(head);
        let newest = in_force.iter().map(|bundle| bundle.body()).max_by_key(|body| body.trust_bundle_version)?;
        let tried = self.tried().into_iter().map(|bundle| bundle.body().trust_bundle_version).max();
        let confirmed = self.standing.confirmed.and_then(|item| self.shelf.get(&item.digest));
        let failed = self.standing.failed.as_ref();
        Some(DomainTold {
            version: newest.trust_bundle_version,
            fingerprint: newest.sha256_fingerprint,
            versions: self.versions(head),
            trial: tried,
            updated_at: confirmed.and_then(|together| together.taken_at),
            refused: failed.map(|failed| Refused { at: failed.at, why: plain(&failed.why.to_string()) }),
        })
    }

    /// What others read counts as taken: the versions that have no other roots.
    fn number(&mut self, head: &Head, bundles: &[Bundle<D>], now: Timestamp) -> Result<(), ScopeError> {
        let Some(roots) = self.unnumbered.clone() else {
            return Ok(());
        };
        let known = |bundle: &&Bundle<D>| all_within(bundle, roots.certificates());
        let before: Vec<_> = bundles.iter().filter(known).cloned().collect();
        if before.is_empty() {
            return Ok(());
        }
        let digest = self.put(before, Some(now))?;
        let item = Item { digest, runs: digest };
        self.save(Standing { head: head.version, confirmed: Some(item), ..Standing::default() })
    }

    /// Is there a root among these that was not taken, while one that was taken is still trusted?
    fn adds(&self, bundles: &[Bundle<D>]) -> bool {
        let Some(confirmed) = self.standing.confirmed else {
            return false;
        };
        let before = self.shelf.get(&confirmed.digest).map(|together| Roots::of_all(&together.bundles));
        let before = before.map(|roots| roots.certificates().to_vec()).unwrap_or_default();
        // A version with the roots of one that was taken goes on with them.
        let is_left = bundles.iter().any(|bundle| all_within(bundle, &before));
        is_left && bundles.iter().any(|bundle| !all_within(bundle, &before))
    }

    fn named(&self, digest: Digest) -> BTreeSet<Digest> {
        self.shelf.get(&digest).map(|it| it.bundles.iter().map(Bundle::digest).collect()).unwrap_or_default()
    }

    fn bundle(&self, digest: Digest) -> Option<&Bundle<D>> {
        self.shelf.values().flat_map(|together| &together.bundles).find(|bundle| bundle.digest() == digest)
    }

    fn put(&mut self, bundles: Vec<Bundle<D>>, taken_at: Option<Timestamp>) -> Result<Digest, ScopeError> {
        let digest = digest_of(&bundles);
        let before = self.shelf.get(&digest);
        let taken_at = taken_at.or_else(|| before.and_then(|together| together.taken_at));
        if before.is_none_or(|together| together.taken_at != taken_at) || !self.file(digest).exists() {
            file::make_private_folder(&self.folder)?;
            let bundles = bundles.iter().map(|bundle| bundle.envelope().clone()).collect();
            write_json(&self.file(digest), &TogetherFile { schema: 1, taken_at, bundles })?;
        }
        self.shelf.insert(digest, Together { bundles, taken_at });
        Ok(digest)
    }

    fn file(&self, digest: Digest) -> PathBuf {
        self.folder.join(format!("{digest}.json"))
    }

    fn step(&mut self, event: Event, now: Timestamp) -> Result<Outcome, ScopeError> {
        let (next, outcome) = self.standing.clone().step(event, now);
        self.write(next, now)?;
        match outcome {
            Outcome::OnTrial => tracing::info!(domain = D::DOMAIN.word(), "new roots are on trial"),
            Outcome::Withdrawn => tracing::warn!(domain = D::DOMAIN.word(), "roots on trial were withdrawn"),
            _ => {}
        }
        Ok(outcome)
    }

    fn write(&mut self, next: Standing, now: Timestamp) -> Result<(), ScopeError> {
        // A clock that was put back must not stop the time of a trial.
        let put_back = self.written.trial.as_ref().is_some_and(|trial| trial.seen > now);
        if put_back || next.differs_from(&self.written) {
            return self.save(next);
        }
        (self.standing, self.over) = (next, false);
        Ok(())
    }

    fn save(&mut self, next: Standing) -> Result<(), ScopeError> {
        file::make_private_folder(&self.folder)?;
        record::save(&self.folder, &next)?;
        (self.written, self.standing, self.over) = (next.clone(), next, false);
        Ok(())
    }
}

/// What a file says, but for roots of which it is known here that they are retired: those that versions on the shelf have,
/// and the founders'.
fn still_trusted<D: InDomain>(written: &Roots<D>, known: &Known, shelf: &BTreeMap<Digest, Together<D>>) -> Roots<D> {
    let record = &known.founding.record;
    let founders = match D::DOMAIN {
        Domain::Endpoint => &record.endpoint_root,
        Domain::Identity => &record.identity_root,
    };
    let named = |trusted: bool| {
        let lines = known.head.head.trust.iter().filter(|line| line.domain == D::DOMAIN);
        let (mut roots, mut versions) = (Vec::new(), BTreeSet::new());
        for line in lines.filter(|line| line.state.is_trusted() == trusted) {
            versions.insert(line.bundle);
            roots.extend((line.version == 1).then(|| CertificateDer::from(founders.0.clone())));
        }
        let bundles = shelf.values().flat_map(|together| &together.bundles);
        let bundles = bundles.filter(|bundle| versions.contains(&bundle.digest()));
        roots.extend(bundles.flat_map(|bundle| bundle.roots().certificates().to_vec()));
        roots
    };
    let (trusted, retired) = (named(true), named(false));
    let counts = |root: &&CertificateDer<'static>| trusted.contains(root) || !retired.contains(root);
    Roots::from_certificates(written.certificates().iter().filter(counts).cloned().collect())
}

fn head_lines<D: InDomain>(head: &Head) -> Digest {
    Digest::of(&serde_json::to_vec(&trust::of(&head.trust, D::DOMAIN)).unwrap_or_default())
}

fn all_within<D: InDomain>(bundle: &Bundle<D>, roots: &[CertificateDer<'static>]) -> bool {
    bundle.roots().certificates().iter().all(|root| roots.contains(root))
}

/// By the versions in it, in whatever order.
fn digest_of<D: InDomain>(bundles: &[Bundle<D>]) -> Digest {
    let named: BTreeSet<Digest> = bundles.iter().map(Bundle::digest).collect();
    Digest::of(&named.into_iter().flat_map(|digest| digest.0).collect::<Vec<u8>>())
}

/// What is whole: each bundle signed, of this domain, and together what the file is named for.
fn read_shelf<D: InDomain>(folder: &std::path::Path, known: &Known) -> BTreeMap<Digest, Together<D>> {
    let read = |entry: fs::DirEntry| {
        let path = entry.path();
        let digest: Digest = path.file_name()?.to_str()?.strip_suffix(".json")?.parse().ok()?;
        let kept: TogetherFile = read_json(&path).ok()??;
        let bundles: Option<Vec<Bundle<D>>> = kept.bundles.iter().map(|envelope| known.open_bundle(envelope)).collect();
        let bundles = bundles.filter(|bundles| kept.schema == 1 && digest_of(bundles) == digest)?;
        Some((digest, Together { bundles, taken_at: kept.taken_at }))
    };
    fs::read_dir(folder).into_iter().flatten().flatten().filter_map(read).collect()
}

#[cfg(test)]
mod tests;
