//! What taking an offer would change here. Looks only.

use std::path::Path;
use std::sync::Arc;

use identity::id::Digest;
use identity::principal::Address;
use identity::time::{Seconds, Timestamp};
use manifest::diff::{self, Change};
use manifest::stored::{Confirm, Manifest};
use serde::{Deserialize, Serialize};

use crate::apply::engine::{ApplyError, Engine, Offered, offer_of};
use crate::apply::record::{self, Found};
use crate::apply::stage::{FOLDER, Shelf, StageError};
use crate::apply::trial::{Event, Outcome, Standing};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    /// The head that says so.
    pub head: u64,
    /// What the node would be; nothing if nothing is published for it.
    pub manifest: Option<Digest>,
    /// What it is now.
    pub obeyed: Option<Digest>,
    pub outcome: Outcome,
    /// If it would be on trial: what confirms it, and in which time.
    pub trial: Option<TrialShown>,
    pub changes: Vec<Change>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialShown {
    pub confirm: Confirm,
    pub within: Seconds,
}

/// What lies here to compare with: in an engine that runs, or on the disk while none does.
#[derive(Debug)]
pub(crate) struct Ground<'a> {
    standing: Standing,
    source: Source<'a>,
}

#[derive(Debug)]
enum Source<'a> {
    Engine(&'a Engine),
    Disk(Shelf),
}

impl<'a> Ground<'a> {
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self { standing: engine.standing().clone(), source: Source::Engine(engine) }
    }

    /// Without an engine, which would write. A record that cannot be read is as good as none.
    pub(crate) fn on_disk(scope: &Path) -> Result<Self, ApplyError> {
        let folder = scope.join(FOLDER);
        let standing = match record::load(&folder).map_err(StageError::File)? {
            Found::Standing(standing) => *standing,
            Found::Nothing | Found::Damaged(_) => Standing::default(),
        };
        Ok(Self { standing, source: Source::Disk(Shelf { folder }) })
    }

    fn read(&self, digest: Digest) -> Option<Arc<Manifest>> {
        match &self.source {
            Source::Engine(engine) => engine.kept(digest),
            Source::Disk(kept) => kept.get(digest).ok().map(|found| Arc::new(found.manifest)),
        }
    }

    /// What need not be sent.
    pub(crate) fn have(&self) -> Vec<Digest> {
        self.standing.kept().filter(|digest| self.read(*digest).is_some()).collect()
    }

    pub(crate) fn bytes_of(&self, digest: Digest) -> Option<Vec<u8>> {
        self.read(digest).map(|manifest| manifest.bytes())
    }

    /// Where gateways are by what is obeyed now.
    pub(crate) fn gateways(&self) -> Vec<Address> {
        let obeyed = self.standing.obeyed().and_then(|item| self.read(item.digest));
        obeyed.map(|manifest| manifest.runs.gateways.clone()).unwrap_or_default()
    }

    /// Nothing is published for this node: it stays what it is.
    pub(crate) fn nothing(&self, head: u64) -> Preview {
        let obeyed = self.standing.obeyed().map(|item| item.digest);
        Preview { head, manifest: None, obeyed, outcome: Outcome::Ignored, trial: None, changes: Vec::new() }
    }

    pub(crate) fn preview(&self, offered: Offered<'_>, now: Timestamp) -> Result<Preview, ApplyError> {
        let manifest = Manifest::read(offered.bytes, offered.digest)?;
        let confirmed = self.standing.confirmed.and_then(|item| self.read(item.digest));
        let offer = offer_of(&manifest, confirmed.as_deref(), offered);
        let (_, outcome) = self.standing.clone().step(Event::Offered(offer), now);
        let obeyed = self.standing.obeyed().map(|item| item.digest);
        let before = obeyed.and_then(|digest| self.read(digest));
        let terms = TrialShown { confirm: offer.terms.confirm, within: offer.terms.within };
        Ok(Preview {
            head: offered.head,
            manifest: Some(offered.digest),
            obeyed,
            outcome,
            trial: (outcome == Outcome::OnTrial).then_some(terms),
            changes: diff::between(before.as_deref(), &manifest),
        })
    }
}
