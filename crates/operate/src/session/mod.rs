//! One operator's command: look what is so, sign, hand in, remember.

pub mod desk;
pub mod timely;
pub(crate) mod error;
pub mod reports;
pub(crate) mod bundles;
pub mod maps;
pub mod inbox;
pub(crate) mod stage;
pub(crate) mod fold;
pub mod lines;
pub(crate) mod lacking;
pub(crate) mod look;
pub(crate) mod head;
pub(crate) mod publish;

use std::sync::Arc;

use identity::envelope::{Envelope, Payload};
use identity::head::{Head, TrustLine};
use identity::id::Digest;
use identity::members::{Leaf, MembersMap};
use identity::principal::NodeName;
use identity::signers::SignerSet;
use identity::time::Timestamp;
use org::ledger::heads::HeadRecord;
use org::state::State;
use wire::control::{Call, ControlAnswer, Survey};
use wire::known::Known;

use crate::folder::{Memory, OperatorFolder};
use crate::replica::kept::Kept;
use crate::replica::roll::Roll;
pub use desk::{Desk, DeskError};
pub use error::trust::TrustError;
pub use error::unwise::Unwise;
pub use error::{OperateError, Result};
pub use head::{Aim, NextHead};
pub use publish::{Made, Undelivered, Unsigned};
use timely::Reliance;

/// What an operator's tool has in hand while it works. It looks (`begin`, `look_again`, `folded`), asks, and publishes; what
/// there is to publish is drafted by functions, each with its subject.
#[derive(Debug)]
pub struct Session {
    pub folder: OperatorFolder,
    pub known: Known,
    pub survey: Survey,
    pub(crate) memory: Memory,
    /// The latest moment that was known before this command looked.
    newest: Timestamp,
    /// How far this machine's clock is doubted.
    pub reliance: Reliance,
    /// Hears what a head does to machines before it is signed.
    pub teller: fn(&Roll),
    /// What was told last.
    told: Option<Roll>,
    desk: Box<dyn Desk>,
    /// The highest head that a member reports, if it is above the one in force.
    mark: Option<u64>,
    /// What this home's own copy of the ledger says.
    pub(crate) fold: Option<Arc<State>>,
    /// How far that copy was written when it said so.
    extent: Option<(i64, i64)>,
    /// The map that this command handed in last, and the one that it read last.
    handed_in: Option<Digest>,
    read_map: Option<(MembersMap, Vec<Leaf>)>,
    /// Marks that were not heeded, in words.
    pub odd_marks: Vec<String>,
    /// Why this home's own copy of the ledger could not be brought up to date.
    pub copy_trouble: Option<String>,
}

impl Session {
    /// No gateway answers, or it tells only what is signed: what only one knows is not known.
    pub fn is_alone(&self) -> bool {
        self.desk.is_alone()
    }

    /// The ledger of whoever answers can be had.
    pub fn brings(&self) -> bool {
        self.desk.brings()
    }

    /// The gateway whose word all is that no signature shows: who was seen when, and what it issued.
    pub fn according_to(&self) -> Option<&NodeName> {
        (!self.is_alone()).then_some(&self.survey.gateway)
    }

    /// Until when this home's own copy was brought up to date, where nobody brings what came since.
    pub fn as_of(&self) -> Option<Timestamp> {
        self.memory.pulled_at.filter(|_| !self.brings())
    }

    /// A gateway serves: machines learn from it what is decided.
    pub fn is_served(&self) -> bool {
        self.desk.is_served()
    }

    pub async fn ask(&mut self, call: Call) -> Result<ControlAnswer> {
        Ok(self.desk.ask(call).await?)
    }

    /// What does not hold in the gateway's own file, where it is opened here.
    pub(crate) async fn damage(&mut self) -> Result<Option<String>> {
        Ok(self.desk.damage().await?)
    }

    /// What is so of trust: as the head in force says, and whatever another head took away. The next head says it all.
    pub fn lines(&self) -> Vec<TrustLine> {
        self.fold.as_deref().map_or_else(|| self.head().trust.clone(), State::trust_lines)
    }

    /// The head in force, by this home's own fold: what a gateway shows decides only whom this home dials. Until it has
    /// folded what is there, the newest that it knows.
    pub fn head(&self) -> &Head {
        self.folded_head().map_or(&self.known.head.head, |record| &record.head)
    }

    pub(crate) fn head_digest(&self) -> Digest {
        self.folded_head().map_or(self.known.head.digest, |record| record.digest)
    }

    /// Whose signatures count, by the same.
    pub fn signers(&self) -> &SignerSet {
        self.whole_fold().map_or(&self.known.signers, State::signer_set)
    }

    fn folded_head(&self) -> Option<&HeadRecord> {
        self.whole_fold()?.head()
    }

    fn whole_fold(&self) -> Option<&State> {
        self.fold.as_deref().filter(|state| self.is_whole(state))
    }

    /// Tells once what a head is about to do to machines.
    fn tell(&mut self, roll: &Roll) {
        if self.told.as_ref() != Some(roll) {
            (self.teller)(roll);
            self.told = Some(roll.clone());
        }
    }

    /// Not signed yet: `publish` does that.
    pub(crate) fn seal<T: Payload>(&self, body: &T) -> Result<Envelope> {
        Ok(Envelope::seal(Some(self.known.org()), body)?)
    }

    pub(crate) const fn kept(&self) -> Kept<'_> {
        Kept { folder: &self.folder, known: &self.known }
    }
}
