//! One operator's command: look what is so, sign, hand in, remember.

use std::sync::{Arc, Mutex};

use ground::file::Lock;
use ground::{clock, random};
use identity::envelope::{BadEnvelope, Envelope, Payload};
use identity::head::Cause;
use identity::id::{Correlation, Digest};
use identity::members::{Leaf, MembersMap};
use identity::principal::SignerName;
use identity::signers::SignerSet;
use identity::time::Timestamp;
use org::frontier::Tip;
use org::ledger::draft::NotDrafted;
use org::state::State;
use wire::control::{Answer, Call, Survey};
use wire::known::{BadKnowledge, Known};

use crate::desk::{Desk, DeskError};
use crate::distrust::Distrust;
use crate::folder::{FolderError, Memory, OperatorFolder};
use crate::handed::Handed;
use crate::keys::{KeyError, SignerKeys};
use crate::pending::{BadPending, Need, Pending};
use crate::refused::{is_about_turn, is_farewell};
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
    #[error("{0}: it was restored from an old copy, or it hides something")]
    NotBrought(String),
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    #[error(transparent)]
    NoRandomness(#[from] random::NoRandomness),
    #[error("there is no {what} `{name}`")]
    NoSuch { what: &'static str, name: String },
    #[error("the gateway's word about the {what} `{name}` is not what was signed: nothing was done")]
    NotAsTold { what: &'static str, name: String },
    #[error("what the ledger says of members is not what was published, and nothing was signed:{}", lines(.0))]
    Distrusted(Vec<Distrust>),
    #[error(transparent)]
    NotDrafted(#[from] NotDrafted),
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
    TooFew { what: String, needed: usize, found: usize },
}

fn lines(doubts: &[Distrust]) -> String {
    doubts.iter().flat_map(|doubt| ["\n    ".to_owned(), doubt.to_string()]).collect()
}

/// What a command made: in the ledger, or waiting for other operators.
#[derive(Debug)]
pub struct Made<T> {
    pub what: T,
    pub pending: Option<Pending>,
    /// What its head does to machines, if there is one in it.
    pub roll: Option<Roll>,
}

/// What an operator's tool has in hand while it works.
#[derive(Debug)]
pub struct Session<D> {
    pub folder: OperatorFolder,
    pub known: Known,
    pub survey: Survey,
    pub(crate) memory: Memory,
    /// The latest moment that was known before this command looked.
    pub(crate) newest: Timestamp,
    /// How far this machine's clock is doubted.
    pub reliance: Reliance,
    pub(crate) desk: D,
    /// The highest head that a member reports, if it is above the one in force.
    pub(crate) mark: Option<u64>,
    /// What this home's own copy of the ledger says.
    pub(crate) fold: Option<Arc<State>>,
    /// How far that copy was written when it said so.
    pub(crate) extent: Option<(i64, i64)>,
    /// The members' map of the head that was drafted last, and what it does to machines.
    pub(crate) drafted: Mutex<Option<(Vec<Leaf>, Roll)>>,
    /// The map that this command handed in last, and the one that it read last.
    pub(crate) handed_in: Option<Digest>,
    pub(crate) read_map: Option<(MembersMap, Vec<Leaf>)>,
    /// Marks that were not heeded, in words.
    pub odd_marks: Vec<String>,
    /// Why this home's own copy of the ledger could not be brought up to date.
    pub copy_trouble: Option<String>,
}

/// Another command may have been quicker; so often the whole is done again on what is so then. Each time somebody
/// else got on, so this is also how many commands may run at once.
const TRIES: usize = 64;

impl<D: Desk> Session<D> {
    /// Looks what is so, takes over what this home lacks, and hands over what the gateway lacks.
    pub async fn begin(folder: OperatorFolder, mut desk: D) -> Result<Self, OperateError> {
        let (known, memory) = (folder.known()?, folder.memory()?);
        let survey = ask_survey(&mut desk, &memory).await?;
        let newest = timely::newest(&known, &memory);
        let mut session = Self {
            folder,
            known,
            survey,
            memory,
            newest,
            reliance: Reliance::Doubted,
            desk,
            mark: None,
            fold: None,
            extent: None,
            drafted: Mutex::new(None),
            handed_in: None,
            read_map: None,
            odd_marks: Vec::new(),
            copy_trouble: None,
        };
        session.compare().await?;
        session.keep_trusted().await?;
        Box::pin(session.pull()).await;
        Ok(session)
    }

    /// A gateway that lacks something is handed it, not accused.
    async fn compare(&mut self) -> Result<(), OperateError> {
        if !self.desk.is_alone() {
            // What cannot be handed over now is by the next command.
            let _lacks = Box::pin(self.hand_lacking()).await;
        }
        self.take_in()?;
        self.weigh_mark().await
    }

    /// The gateway knows itself that it lacks something.
    pub const fn is_behind(&self) -> bool {
        self.survey.halt.is_some()
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
        self.compare().await
    }

    /// Checks a survey against what is known, then remembers it.
    fn take_in(&mut self) -> Result<(), OperateError> {
        let known = match self.known.advance(&self.survey.signers, Some(&self.survey.head), clock::now()) {
            Ok(known) => known,
            // Whoever stands still may look; nothing is signed meanwhile.
            Err(why @ BadKnowledge::Frozen { .. }) => {
                self.known.heed(&why, clock::now()).unwrap_or_else(|| self.known.clone())
            }
            Err(why) => {
                // A recovery took effect unseen by this home, which counts from now on.
                if let Some(noticed) = self.known.heed(&why, clock::now()) {
                    self.known = noticed;
                    self.remember(|_| {})?;
                }
                return Err(why.into());
            }
        };
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
                let kept = self.folder.memory()?.tip.as_ref().and_then(open);
                // Of two about the same place the older one stays: it says when the place was first seen.
                kept.is_none_or(|kept| kept.voice != told.voice || kept.place.seq < told.place.seq)
            }
        };
        // Whoever hears of a recovery counts from then.
        let recoveries = self.survey.recoveries.iter();
        let noticed = recoveries.fold(known, |known, view| known.notice(&view.recovery, clock::now()).unwrap_or(known));
        self.known = noticed;
        let survey = self.survey.clone();
        self.remember(|memory| {
            memory.schema = 1;
            if newer {
                memory.tip = survey.tip;
            }
            memory.gateway = Some(survey.gateway);
            memory.gateways = survey.addresses;
        })
    }

    /// Changes what is remembered, on top of what other commands have written meanwhile. What is known never goes back.
    pub(crate) fn remember(&mut self, change: impl FnOnce(&mut Memory)) -> Result<(), OperateError> {
        let locked = self.folder.lock_files()?;
        let mut memory = self.folder.memory()?;
        change(&mut memory);
        self.folder.save_memory(&memory)?;
        self.memory = memory;
        let kept = self.folder.keep_known(self.known.clone(), &locked)?;
        if kept.head.digest == self.known.head.digest {
            self.known = kept;
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
        draft: impl Fn(&Self, Timestamp) -> Result<(Handed, T), OperateError>,
    ) -> Result<Made<T>, OperateError> {
        let correlation = random::correlation()?;
        let _turn = self.turn_to_sign().await?;
        self.look_again().await?;
        let mut attempt = 1;
        loop {
            let now = clock::now();
            self.check_clock(now)?;
            Box::pin(self.folded()).await?;
            let (handed, what) = draft(self, now).map_err(|why| self.held_back(why))?;
            let (roll, listing) = Box::pin(self.stage_drafted()).await?;
            let mut pending = Pending::new(&self.known, handed, now);
            pending.listing = listing;
            pending.sign(&self.known, keys)?;
            let needs = pending.needs(&self.known)?;
            if !needs.iter().all(Need::is_met) {
                if needs.iter().all(|need| need.signed.is_empty()) {
                    return Err(KeyError::NoKey.into());
                }
                return Ok(Made { what, pending: Some(pending), roll });
            }
            let stood = self.survey.frontier.clone();
            match Box::pin(self.hand_over(pending.handed, correlation)).await {
                Ok(()) => return Ok(Made { what, pending: None, roll }),
                // A gateway that refuses although nobody got on is not given one signed thing after the other.
                Err(OperateError::Desk(why))
                    if attempt < TRIES && is_about_turn(&why) && self.survey.frontier != stood =>
                {
                    attempt += 1;
                    // Perhaps at another gateway.
                    self.handed_in = None;
                }
                Err(why) => return Err(why),
            }
        }
    }

    /// Of a gateway that is held back, that is what must be told.
    fn held_back(&self, why: OperateError) -> OperateError {
        match (&why, &self.survey.halt) {
            (OperateError::NotDrafted(NotDrafted::NoMap), Some(halt)) => DeskError::Refused(halt.clone()).into(),
            (_, Some(_) | None) => why,
        }
    }

    /// Delivers what enough operators have signed.
    pub async fn send(&mut self, pending: &Pending) -> Result<(), OperateError> {
        let correlation = random::correlation()?;
        let _turn = self.turn_to_sign().await?;
        self.look_again().await?;
        let here = clock::now();
        // Others signed that the clock goes back; a wrong one here would be told by the gateway's.
        if self.reliance == Reliance::Doubted && timely::sets_back(&self.known, &pending.handed, here) {
            self.reliance = Reliance::Resets;
        }
        self.check_clock(here)?;
        timely::check_dates(self.known.org(), &pending.handed, here)?;
        if let Some(need) = pending.needs(&self.known)?.into_iter().find(|need| !need.is_met()) {
            return Err(OperateError::TooFew {
                what: need.what,
                needed: need.quorum.threshold(),
                found: need.signed.len(),
            });
        }
        // A stolen root goes whoever breaks by it.
        if let Some(Cause::TrustRetire(turn)) = pending.handed.cause(self.known.org())
            && pending.handed.bundles().next().is_none()
        {
            self.weigh_again(&turn).await?;
        }
        // Where it is not needed it does no good, and where it is, the gateway says what is missing.
        let _staged = self.stage_again(pending).await;
        self.hand_over(pending.handed.clone(), correlation).await
    }

    /// Hands in what is signed, all or none, and is content only when this home's own copy of the ledger has it.
    pub(crate) async fn hand_over(&mut self, handed: Handed, correlation: Correlation) -> Result<(), OperateError> {
        // A gateway that is held back is looked at, not written to, but for what leads out of that.
        if self.survey.tip.is_none() && !handed.leads_out(self.known.org()) {
            return Err(match self.survey.halt.clone() {
                Some(halt) => DeskError::Refused(halt).into(),
                None => OperateError::LedgerBehind,
            });
        }
        for bundle in handed.bundles() {
            self.folder.keep_bundle(bundle)?;
        }
        let sent = self.desk.ask(Call::Take { objects: handed.0.clone(), correlation }).await;
        if sent.is_ok() {
            self.take_own(&handed)?;
        }
        // Without an answer it may have been taken or not: the ledger says.
        match self.look_again().await {
            // Whoever left the signers with this is told nothing more.
            Err(OperateError::Desk(why)) if sent.is_ok() && is_farewell(&handed, &why) => return Ok(()),
            looked => looked?,
        }
        let state = Box::pin(self.folded()).await?;
        let taken = handed.0.iter().all(|object| state.has_object(object));
        match sent {
            _ if taken => Ok(()),
            Ok(_) => Err(OperateError::NotTaken),
            Err(why) => Err(why.into()),
        }
    }

    /// What this operator signed and handed in is known to it, whatever a gateway shows.
    fn take_own(&mut self, handed: &Handed) -> Result<(), OperateError> {
        let Some(head) = handed.head(self.known.org()) else { return Ok(()) };
        // Another operator's head may have followed already.
        if head.place() > self.known.head.head.place() {
            let more: Vec<Envelope> = handed.step().cloned().into_iter().collect();
            self.known = self.known.advance(&more, handed.head_envelope(), clock::now())?;
            self.remember(|_| {})?;
        }
        Ok(())
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
