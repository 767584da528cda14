//! What the ledger takes of trust bundles: each version, and each turn in its life together with the head that makes it.

use identity::bundle::{Bundle, BundleBody, Domain, Endpoint, Identity};
use identity::envelope::Envelope;
use identity::head::{SignedHead, TrustLine, TrustState};
use identity::id::Digest;
use identity::trust;

use crate::entry::{SignedEntry, Turn};
use crate::state::{BundleRecord, State, Void, bad};

impl State {
    /// A new version. The founders' own come before the first head; every later one is staged by the head beside it.
    pub(crate) fn stage(
        &mut self,
        signed: &SignedEntry,
        bundle: &Envelope,
        head: Option<&Envelope>,
    ) -> Result<(), Void> {
        let body = self.read_bundle(signed, bundle)?;
        let Some(head) = head else {
            self.keep_bundle(signed, body, bundle);
            return Ok(());
        };
        let opened = self.open_trusting(signed, head)?;
        let line = line(&opened, body.domain, body.trust_bundle_version)?;
        if line.bundle != bundle.digest() || line.state != TrustState::Staged {
            return Err(Void::BadObject("the head does not stage the bundle".into()));
        }
        self.keep_bundle(signed, body, bundle);
        self.take_trusting(signed, opened, head);
        Ok(())
    }

    pub(crate) fn activate(&mut self, signed: &SignedEntry, head: &Envelope, turn: &Turn) -> Result<(), Void> {
        let opened = self.open_trusting(signed, head)?;
        let active = line(&opened, turn.domain, turn.version)?.state == TrustState::Active;
        let former = turn.replaces.map(|version| line(&opened, turn.domain, version)).transpose()?;
        let in_grace = former.is_some_and(|line| line.state == TrustState::Grace && line.grace == turn.grace);
        if !active || !in_grace {
            return Err(Void::BadObject("the head does not activate the bundle".into()));
        }
        self.take_trusting(signed, opened, head);
        Ok(())
    }

    pub(crate) fn take_back(
        &mut self,
        signed: &SignedEntry,
        bundle: &Envelope,
        head: &Envelope,
        turn: &Turn,
    ) -> Result<(), Void> {
        let body = self.read_bundle(signed, bundle)?;
        let opened = self.open_trusting(signed, head)?;
        let line = line(&opened, turn.domain, turn.version)?;
        let fits = body.domain == turn.domain
            && body.trust_bundle_version == turn.version
            && body.reverts.is_some()
            && line.bundle == bundle.digest()
            && line.state == TrustState::Active;
        if !fits {
            return Err(Void::BadObject("the head does not roll back".into()));
        }
        self.keep_bundle(signed, body, bundle);
        self.take_trusting(signed, opened, head);
        Ok(())
    }

    pub(crate) fn retire(
        &mut self,
        signed: &SignedEntry,
        bundle: Option<&Envelope>,
        head: &Envelope,
        turn: &Turn,
    ) -> Result<(), Void> {
        let opened = self.open_trusting(signed, head)?;
        let not_so = |why: &str| Err(Void::BadObject(why.to_owned()));
        let gone = line(&opened, turn.domain, turn.version)?;
        if gone.state != TrustState::Retired {
            return not_so("the head does not retire the bundle");
        }
        if let Some(bundle) = bundle {
            let body = self.read_bundle(signed, bundle)?;
            let line = line(&opened, turn.domain, body.trust_bundle_version)?;
            let fits = body.domain == turn.domain && line.bundle == bundle.digest() && gone.distrusted;
            if !fits || line.state != TrustState::Active {
                return not_so("the head does not put the new bundle in the place of the stolen one");
            }
            self.keep_bundle(signed, body, bundle);
        }
        self.take_trusting(signed, opened, head);
        Ok(())
    }

    fn read_bundle(&self, signed: &SignedEntry, envelope: &Envelope) -> Result<BundleBody, Void> {
        let signers = self.signers_before(signed);
        match Bundle::<Identity>::open(signers, envelope) {
            Ok(bundle) => Ok(bundle.body().clone()),
            Err(_) => Ok(Bundle::<Endpoint>::open(signers, envelope).map_err(|why| bad(&why))?.body().clone()),
        }
    }

    fn keep_bundle(&mut self, signed: &SignedEntry, body: BundleBody, envelope: &Envelope) {
        let envelope = envelope.kept(&self.signers_before(signed).quorum.keys());
        let known = self.bundles.entry(envelope.digest());
        known.or_insert_with(|| BundleRecord { body, envelope: envelope.clone() }).envelope.merge(&envelope);
    }

    fn open_trusting(&self, signed: &SignedEntry, head: &Envelope) -> Result<SignedHead, Void> {
        let opened = SignedHead::open(self.signers_before(signed), head).map_err(|why| bad(&why))?;
        if !trust::is_sound(&opened.head.trust) {
            return Err(Void::BadObject("the head leaves a domain without a bundle to use".into()));
        }
        self.check_epoch_kept(signed, &opened.head)?;
        Ok(opened)
    }

    fn take_trusting(&mut self, signed: &SignedEntry, opened: SignedHead, head: &Envelope) {
        let head = head.kept(&self.signers_before(signed).quorum.keys());
        self.take_head(signed, opened, head);
    }

    /// A version of the trusted roots, by its number.
    pub fn bundle(&self, domain: Domain, version: u64) -> Option<(&TrustLine, &BundleRecord)> {
        let lines = self.head()?.head.trust.iter();
        let line = lines.into_iter().find(|line| line.domain == domain && line.version == version)?;
        Some((line, self.bundles.get(&line.bundle)?))
    }

    /// What all heads of the signers in force together say of trust: as with revocations, what any of them took away stays
    /// away. Two operators at two gateways may have published at once, and the newer head does not know of the other until
    /// the next one.
    pub fn trust_lines(&self) -> Vec<TrustLine> {
        let Some(newest) = self.head() else { return Vec::new() };
        let signers = self.signer_set().as_ref();
        let heads = self.heads.values().rev().filter(|record| record.head.signers == signers);
        heads.fold(newest.head.trust.clone(), |lines, record| {
            if trust::follows(&record.head.trust, &lines).is_ok() {
                return lines;
            }
            trust::heed(&lines, &record.head.trust, true)
        })
    }

    /// The bundles that the head in force names as trusted: whoever follows it asks for just these.
    pub fn named_bundles(&self, domain: Domain) -> impl Iterator<Item = &BundleRecord> {
        let lines = self.head().into_iter().flat_map(move |record| record.head.trusted_bundles(domain));
        lines.filter_map(|line| self.bundle_of(line))
    }

    /// The bundle of a line, if it says of itself what the line does.
    pub fn bundle_of(&self, line: &TrustLine) -> Option<&BundleRecord> {
        self.bundles.get(&line.bundle).filter(|record| line.fits(&record.body, &self.name))
    }

    /// The same, by what the head calls it.
    pub fn bundle_named(&self, digest: Digest) -> Option<&BundleRecord> {
        self.bundles.get(&digest)
    }
}

fn line(opened: &SignedHead, domain: Domain, version: u64) -> Result<&TrustLine, Void> {
    let found = opened.head.trust.iter().find(|line| line.domain == domain && line.version == version);
    found.ok_or_else(|| Void::BadObject(format!("the head names no version {version} of `{}`", domain.word())))
}
