//! One operator's command: look what is so, sign, hand in, remember.

use std::sync::Arc;

use ground::file::Lock;
use ground::{clock, random};
use identity::envelope::{BadEnvelope, Envelope, Payload};
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::{Author, SignerName};
use identity::signers::SignerSet;
use identity::time::Timestamp;
use org::entry::{Action, NotWritten};
use org::frontier::{Frontier, Place, Tip};
use org::state::State;
use wire::control::{Answer, Call, Survey};
use wire::known::{BadKnowledge, Known};

use crate::desk::{Desk, DeskError};
use crate::distrust::Distrust;
use crate::folder::{FolderError, Memory, OperatorFolder};
use crate::keys::{KeyError, SignerKeys};
use crate::listing::Basis;
use crate::pending::{BadPending, Pending};
use crate::refused::is_about_turn;
use crate::replica::ReplicaError;
use crate::roll::Roll;
use crate::timely::{self, ClockDoubt, Reliance};
use crate::unturned::Unturned;

#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    #[error(transparent)]
    Desk(#[from] DeskError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("what the gateway says of the org does not hold")]
    Knowledge(#[from] BadKnowledge),
    #[error(
        "the gateway's ledger is older than what was seen before: it was restored from an old copy, or it hides something"
    )]
    LedgerBehind,
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    #[error(transparent)]
    NotWritten(#[from] NotWritten),
    #[error(transparent)]
    NoRandomness(#[from] random::NoRandomness),
    #[error("there is no {what} `{name}`")]
    NoSuch { what: &'static str, name: String },
    #[error("the gateway's word about the {what} `{name}` is not what was signed: nothing was done")]
    NotAsTold { what: &'static str, name: String },
    #[error("what the gateway says of its members is not believed, and nothing was signed:{}", lines(.0))]
    Distrusted(Vec<Distrust>),
    #[error("the gateway said that it took the change, but its ledger does not show it")]
    NotTaken,
    #[error(transparent)]
    Clock(#[from] ClockDoubt),
    #[error("{0}")]
    Unwise(String),
    #[error("the gateway does not have {what} {digest}")]
    NotKept { what: &'static str, digest: Digest },
    #[error(transparent)]
    Unturned(#[from] Unturned),
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    #[error(transparent)]
    Pending(#[from] BadPending),
    #[error("the {what} needs {needed} signatures and has {found}")]
    TooFew { what: &'static str, needed: usize, found: usize },
}

fn lines(doubts: &[Distrust]) -> String {
    doubts.iter().flat_map(|doubt| ["\n    ".to_owned(), doubt.to_string()]).collect()
}

/// What a command made: in the ledger, or waiting for other operators.
#[derive(Debug)]
pub struct Made<T> {
    pub what: T,
    pub pending: Option<Pending>,
}

/// What an operator's tool has in hand while it works.
#[derive(Debug)]
pub struct Session<D> {
    pub folder: OperatorFolder,
    pub known: Known,
    pub survey: Survey,
    pub(crate) memory: Memory,
    /// What was remembered before this command looked, and the latest moment in it.
    witnessed: Frontier,
    pub(crate) newest: Timestamp,
    /// How far this machine's clock is doubted.
    pub reliance: Reliance,
    pub(crate) desk: D,
    /// The gateway may know less than this operator: it was restored, and that is why this session is.
    forgives: bool,
    behind: bool,
    /// The highest head that a member reports, if it is above the one in force.
    pub(crate) mark: Option<u64>,
    /// What the entries say, once it was asked for.
    pub(crate) fold: Option<Arc<State>>,
    /// Whom the next head lists, while one is made.
    pub(crate) roll: Option<Roll>,
    /// Voices of gateways that are gone, once they were needed.
    pub(crate) old_voices: Option<Vec<PublicKey>>,
    /// Marks that were not heeded, in words.
    pub odd_marks: Vec<String>,
    /// Why this home's own copy of the ledger could not be brought up to date.
    pub copy_trouble: Option<String>,
}

/// Another command may have been quicker; so often the whole is done again on what is so then. Each time somebody
/// else got on, so this is also how many commands may run at once.
const TRIES: usize = 64;

impl<D: Desk> Session<D> {
    /// Looks what is so, and refuses to go on with a gateway that knows less than this operator does.
    pub async fn begin(folder: OperatorFolder, desk: D) -> Result<Self, OperateError> {
        Self::look(folder, desk, false).await
    }

    /// The same, for an operator who knows that the ledger was restored from an older copy: what this home knows
    /// stays as it is until the new epoch has begun.
    pub async fn begin_behind(folder: OperatorFolder, desk: D) -> Result<Self, OperateError> {
        Self::look(folder, desk, true).await
    }

    async fn look(folder: OperatorFolder, mut desk: D, forgives: bool) -> Result<Self, OperateError> {
        let (known, memory) = (folder.known()?, folder.memory()?);
        let survey = ask_survey(&mut desk, &memory).await?;
        let witnessed = memory.frontier.clone();
        let newest = timely::newest(&known, &memory);
        let mut session = Self {
            folder,
            known,
            survey,
            memory,
            witnessed,
            newest,
            reliance: Reliance::Doubted,
            desk,
            forgives,
            behind: false,
            mark: None,
            fold: None,
            roll: None,
            old_voices: None,
            odd_marks: Vec::new(),
            copy_trouble: None,
        };
        session.compare_or_hand().await?;
        session.weigh_mark().await?;
        session.keep_trusted().await?;
        session.pull().await;
        Ok(session)
    }

    fn compare(&mut self) -> Result<(), OperateError> {
        match self.take_in() {
            Err(OperateError::LedgerBehind | OperateError::Knowledge(BadKnowledge::Head(_))) if self.forgives => {
                self.behind = true;
                Ok(())
            }
            taken => taken.inspect(|()| self.behind = false),
        }
    }

    /// A gateway that has not heard what was decided at another, which may be gone, is handed it, not accused.
    async fn compare_or_hand(&mut self) -> Result<(), OperateError> {
        match self.compare() {
            Err(OperateError::LedgerBehind) if Box::pin(self.hand_lacking()).await.unwrap_or(false) => self.compare(),
            compared => compared,
        }
    }

    /// The gateway knows less than this operator, or knows itself that it lacks something.
    pub const fn is_behind(&self) -> bool {
        self.behind || self.survey.halt.is_some()
    }

    /// Where things are handed in.
    pub const fn desk(&self) -> &D {
        &self.desk
    }

    /// Recoveries that wait, and when each takes effect here.
    pub fn alarms(&self) -> Vec<(SignerSet, Timestamp)> {
        self.known.alarms()
    }

    pub(crate) const fn signer(&self) -> Option<&SignerName> {
        self.memory.signer.as_ref()
    }

    pub(crate) async fn look_again(&mut self) -> Result<(), OperateError> {
        self.survey = ask_survey(&mut self.desk, &self.memory).await?;
        self.compare_or_hand().await?;
        self.weigh_mark().await
    }

    /// Checks a survey against what is known, then remembers it.
    fn take_in(&mut self) -> Result<(), OperateError> {
        let more = self.survey.signers.get(self.known.chain.len()..).ok_or(OperateError::LedgerBehind)?;
        let known = match self.follow(more) {
            Ok(known) => known,
            Err(why) => {
                // A recovery took effect unseen by this home, which counts from now on.
                if let Some(noticed) = self.known.heed(&why, clock::now()) {
                    self.known = noticed;
                    self.remember(|_| {})?;
                }
                return Err(why.into());
            }
        };
        // What was given up when the operators restored an older ledger is not missed.
        let remembered = self.memory.frontier.within(&known.head.head.epoch);
        // Of the other gateways' chains a part may still be on its way here.
        let on_its_way = |author: &Author| match author {
            Author::Gateway(name) => *name != self.survey.gateway,
            Author::Signer(_) => false,
        };
        let owed = remembered.0.iter().filter(|(author, _)| !on_its_way(author));
        let owed = Frontier(owed.map(|(author, place)| (author.clone(), *place)).collect());
        if !self.survey.frontier.covers_all(&owed) {
            return Err(OperateError::LedgerBehind);
        }
        // An epoch begins with a head, so nothing is of a later one than the head says.
        let epoch = known.head.head.epoch.clone();
        if self.survey.frontier.0.values().any(|place| place.epoch > epoch.number) {
            return Err(OperateError::LedgerBehind);
        }
        // At the same place there must stand the same entry.
        let differs = |(author, place): (&Author, &Place)| {
            let here = self.survey.frontier.place_of(author);
            here.is_some_and(|here| (here.epoch, here.seq) == (place.epoch, place.seq) && here.digest != place.digest)
        };
        if remembered.0.iter().any(differs) {
            return Err(OperateError::LedgerBehind);
        }
        // The gateway stands by what it says of its own chain, so that it can be confronted with it later.
        let mandates = known.head.head.mandates.iter().filter(|mandate| mandate.gateway == self.survey.gateway);
        let open = |tip: &Envelope| {
            let mut voices = mandates.clone().map(|mandate| mandate.voice);
            voices.find_map(|voice| tip.open_signed_by::<Tip>(Some(known.org()), &[voice]).ok())
        };
        let newer = match &self.survey.tip {
            None => false,
            Some(tip) => {
                let told = open(tip).ok_or(OperateError::LedgerBehind)?;
                let own = Author::Gateway(self.survey.gateway.clone());
                if told.author != own || told.place.epoch > epoch.number {
                    return Err(OperateError::LedgerBehind);
                }
                let given_up = |kept: &Tip| epoch.gave_up(&kept.author, kept.place.epoch, kept.place.seq);
                let kept = self.folder.memory()?.tip.as_ref().and_then(open);
                // Of two about the same place the older one stays: it says when the place was first seen.
                kept.is_none_or(|kept| given_up(&kept) || kept.place.seq < told.place.seq)
            }
        };
        // Whoever hears of a recovery counts from then.
        let recoveries = self.survey.recoveries.iter();
        let noticed = recoveries.fold(known, |known, view| known.notice(&view.recovery, clock::now()).unwrap_or(known));
        self.known = noticed;
        let survey = self.survey.clone();
        self.remember(|memory| {
            memory.schema = 1;
            memory.frontier = remembered;
            memory.frontier.raise(&survey.frontier);
            if newer {
                memory.tip = survey.tip;
            }
            memory.gateway = Some(survey.gateway);
            memory.gateways = survey.addresses;
        })
    }

    /// Every place of the ledger that this operator was told of, last and before.
    pub(crate) fn remembered(&self) -> Vec<(Author, Place)> {
        self.witnessed.0.iter().map(|(author, place)| (author.clone(), *place)).collect()
    }

    /// Changes what is remembered, on top of what other commands have written meanwhile. What is known never goes back.
    pub(crate) fn remember(&mut self, change: impl FnOnce(&mut Memory)) -> Result<(), OperateError> {
        let _lock = self.folder.lock_files()?;
        let mut memory = self.folder.memory()?;
        change(&mut memory);
        self.folder.save_memory(&memory)?;
        self.memory = memory;
        let written = self.folder.known()?;
        // One that was published beside it is followed by the next, which makes them meet.
        if self.known.head.may_follow(&written.head).is_ok() {
            self.folder.save_known(&self.known)?;
        }
        Ok(())
    }

    /// Waits until no other command of this operator signs.
    pub(crate) async fn turn_to_sign(&self) -> Result<Lock, OperateError> {
        for _ in 0..1_200 {
            if let Some(lock) = self.folder.lock_signing()? {
                return Ok(lock);
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        Err(OperateError::Unwise("another command of this operator is signing and does not end".to_owned()))
    }

    pub async fn ask(&mut self, call: Call) -> Result<Answer, OperateError> {
        Ok(self.desk.ask(call).await?)
    }

    /// Signs what `draft` makes of the present state, and hands it in, if the keys at hand are enough for it; else it
    /// waits for the others. If somebody else was quicker, again.
    pub async fn publish<T>(
        &mut self,
        keys: &SignerKeys,
        draft: impl Fn(&Self, Timestamp) -> Result<(Action, T), OperateError>,
    ) -> Result<Made<T>, OperateError> {
        self.publish_on(keys, Basis::InForce, draft).await
    }

    /// The same, with the map of its head made from something else.
    pub(crate) async fn publish_on<T>(
        &mut self,
        keys: &SignerKeys,
        basis: Basis<'_>,
        draft: impl Fn(&Self, Timestamp) -> Result<(Action, T), OperateError>,
    ) -> Result<Made<T>, OperateError> {
        let correlation = random::correlation()?;
        let _turn = self.turn_to_sign().await?;
        self.look_again().await?;
        let mut attempt = 1;
        loop {
            self.bring_roll(basis).await?;
            let now = clock::now();
            self.check_clock(now)?;
            let (action, what) = draft(self, now)?;
            self.stage_for(&action).await?;
            let mut pending = Pending::new(&self.known, action, now);
            let signed = pending.sign(&self.known, keys)?;
            if !pending.is_complete(&self.known)? {
                if signed.is_empty() {
                    return Err(KeyError::NoKey.into());
                }
                return Ok(Made { what, pending: Some(pending) });
            }
            let stood = self.survey.frontier.clone();
            match self.hand_over(keys, pending.action, correlation).await {
                Ok(()) => return Ok(Made { what, pending: None }),
                // A gateway that refuses although nobody got on is not given one signed thing after the other.
                Err(OperateError::Desk(why))
                    if attempt < TRIES && is_about_turn(&why) && self.survey.frontier != stood =>
                {
                    attempt += 1;
                }
                Err(why) => return Err(why),
            }
        }
    }

    /// Delivers what enough operators have signed.
    pub async fn send(&mut self, keys: &SignerKeys, pending: &Pending) -> Result<(), OperateError> {
        let correlation = random::correlation()?;
        let _turn = self.turn_to_sign().await?;
        self.look_again().await?;
        let here = clock::now();
        // Others signed that the clock goes back; a wrong one here would be told by the gateway's.
        if self.reliance == Reliance::Doubted && timely::sets_back(&self.known, &pending.action, here) {
            self.reliance = Reliance::Resets;
        }
        self.check_clock(here)?;
        timely::check_dates(self.known.org(), &pending.action, here)?;
        if let Some(need) = pending.needs(&self.known)?.into_iter().find(|need| !need.is_met()) {
            return Err(OperateError::TooFew {
                what: need.what,
                needed: need.quorum.threshold(),
                found: need.signed.len(),
            });
        }
        // A stolen root goes whoever breaks by it.
        if let Action::TrustRetire { bundle: None, turn, .. } = &pending.action {
            self.weigh_again(turn).await?;
        }
        // Where it is not needed it does no good, and where it is, the gateway says what is missing.
        let _staged = self.stage_again(&pending.action).await;
        self.hand_over(keys, pending.action.clone(), correlation).await
    }

    /// Not signed yet: `publish` does that.
    pub fn seal<T: Payload>(&self, body: &T) -> Result<Envelope, OperateError> {
        Ok(Envelope::seal(Some(self.known.org()), body)?)
    }
}

pub(crate) async fn ask_survey<D: Desk>(desk: &mut D, memory: &Memory) -> Result<Survey, OperateError> {
    match desk.ask(Call::Survey { tip: memory.tip.clone() }).await? {
        Answer::Survey(survey) => Ok(*survey),
        _ => Err(DeskError::OtherAnswer.into()),
    }
}
