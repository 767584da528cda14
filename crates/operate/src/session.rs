//! One operator's command: look what is so, sign, hand in, remember.

use ground::{clock, random};
use identity::envelope::{BadEnvelope, Envelope, Payload};
use identity::id::Correlation;
use identity::key::Sign as _;
use identity::principal::Author;
use identity::time::Timestamp;
use org::effect::FIRST_EPOCH;
use org::entry::{Action, Entry};
use org::frontier::Place;
use org::refusal::Refusal;
use wire::control::{Answer, Call, Survey};
use wire::known::{BadKnowledge, Known};

use crate::desk::{Desk, DeskError};
use crate::folder::{FolderError, Memory, OperatorFolder};
use crate::keys::{KeyError, SignerKeys};

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
    NoRandomness(#[from] random::NoRandomness),
    #[error("there is no {what} `{name}`")]
    NoSuch { what: &'static str, name: String },
    #[error("{0}")]
    Unwise(String),
}

/// What an operator's tool has in hand while it works.
#[derive(Debug)]
pub struct Session<D> {
    pub folder: OperatorFolder,
    pub known: Known,
    pub survey: Survey,
    memory: Memory,
    desk: D,
}

/// Another command may have been quicker; so often the whole is done again on what is so then. Each time somebody
/// else got on, so this is also how many commands may run at once.
const TRIES: usize = 64;

impl<D: Desk> Session<D> {
    /// Looks what is so, and refuses to go on with a gateway that knows less than this operator does.
    pub async fn begin(folder: OperatorFolder, desk: D) -> Result<Self, OperateError> {
        let (known, memory) = (folder.known()?, folder.memory()?);
        let mut desk = desk;
        let survey = ask_survey(&mut desk, &memory).await?;
        let mut session = Self { folder, known, survey, memory, desk };
        session.take_in()?;
        Ok(session)
    }

    pub(crate) async fn look_again(&mut self) -> Result<(), OperateError> {
        self.survey = ask_survey(&mut self.desk, &self.memory).await?;
        self.take_in()
    }

    /// Checks a survey against what is known, then remembers it.
    fn take_in(&mut self) -> Result<(), OperateError> {
        if !self.survey.frontier.covers_all(&self.memory.frontier) {
            return Err(OperateError::LedgerBehind);
        }
        let more = self.survey.signers.get(self.known.chain.len()..).ok_or(OperateError::LedgerBehind)?;
        self.known = self.known.advance(more, Some(&self.survey.head))?;
        self.folder.save_known(&self.known)?;
        self.memory.schema = 1;
        self.memory.frontier.raise(&self.survey.frontier);
        self.memory.tip = Some(self.survey.tip.clone());
        self.memory.gateway = Some(self.survey.gateway.clone());
        self.memory.gateways.clone_from(&self.survey.addresses);
        Ok(self.folder.save_memory(&self.memory)?)
    }

    pub async fn ask(&mut self, call: Call) -> Result<Answer, OperateError> {
        Ok(self.desk.ask(call).await?)
    }

    /// Signs what `draft` makes of the present state, and hands it in. If somebody else was quicker, again.
    pub async fn publish<T>(
        &mut self,
        keys: &SignerKeys,
        draft: impl Fn(&Self, Timestamp) -> Result<(Action, T), OperateError>,
    ) -> Result<T, OperateError> {
        let correlation = random::correlation()?;
        for attempt in 1.. {
            let now = clock::now();
            let (action, made) = draft(self, now)?;
            let entry = self.entry(keys, action, now, correlation)?;
            match self.desk.ask(Call::Append { entries: vec![entry] }).await {
                Ok(Answer::Appended {}) => {
                    self.look_again().await?;
                    return Ok(made);
                }
                Ok(_) => return Err(DeskError::OtherAnswer.into()),
                Err(why) if attempt < TRIES && is_about_turn(&why) => self.look_again().await?,
                Err(why) => return Err(why.into()),
            }
        }
        Err(DeskError::OtherAnswer.into())
    }

    /// The next entry of this operator's chain.
    fn entry(
        &self,
        keys: &SignerKeys,
        action: Action,
        at: Timestamp,
        correlation: Correlation,
    ) -> Result<Envelope, OperateError> {
        let (name, key) = keys.author(self.memory.signer.as_ref())?;
        let author = Author::Signer(name.clone());
        let place: Option<Place> = self.survey.frontier.place_of(&author).copied();
        let entry = Entry {
            author,
            key: key.public(),
            epoch: FIRST_EPOCH,
            seq: place.map_or(1, |place| place.seq + 1),
            previous: place.map(|place| place.digest),
            seen: self.survey.frontier.clone(),
            at,
            correlation,
            action,
        };
        let envelope = Envelope::seal(Some(self.known.org()), &entry)?;
        Ok(envelope.signed(key).map_err(KeyError::from)?)
    }

    pub fn seal<T: Payload>(&self, keys: &SignerKeys, body: &T) -> Result<Envelope, OperateError> {
        Ok(keys.sign(Envelope::seal(Some(self.known.org()), body)?)?)
    }
}

async fn ask_survey<D: Desk>(desk: &mut D, memory: &Memory) -> Result<Survey, OperateError> {
    match desk.ask(Call::Survey { tip: memory.tip.clone() }).await? {
        Answer::Survey(survey) => Ok(*survey),
        _ => Err(DeskError::OtherAnswer.into()),
    }
}

fn is_about_turn(why: &DeskError) -> bool {
    let refusal = match why {
        DeskError::Refused(refusal) | DeskError::Call(wire::connect::CallError::Refused(refusal)) => refusal,
        DeskError::Call(_) | DeskError::OtherAnswer => return false,
    };
    matches!(refusal, Refusal::LedgerRefuses { .. })
}
