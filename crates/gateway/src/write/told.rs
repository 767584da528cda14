//! What every node is told of the state that readers see: written once for each state, not once for each node.

use identity::id::Digest;
use org::ledger::heads::HeadRecord;
use org::state::State;
use org::suspend::suspended::mark;
use wire::sync::SyncRequest;
use wire::written::Written;

#[derive(Debug, Default)]
pub struct Told {
    head: Option<InForce>,
    /// What leads on from the signers of the head in force: nothing, unless two sets claim one place.
    steps: Vec<Written>,
    /// Heads beside the head in force that take away what it does not, and their mark.
    rivals: Vec<Word>,
    mark: Option<Digest>,
    /// Recoveries that wait, and steps to sets that claim one place.
    alarming: Vec<Word>,
}

/// The head in force.
#[derive(Debug)]
struct InForce {
    /// Its signers' version, and its own.
    place: (u64, u64),
    members: Option<Digest>,
    word: Word,
}

#[derive(Debug, Clone)]
struct Word {
    digest: Digest,
    written: Written,
}

impl Word {
    fn of(record: &HeadRecord) -> Self {
        Self { digest: record.digest, written: Written::of(&record.envelope) }
    }
}

impl Told {
    pub fn of(state: &State) -> Self {
        let head = state.head().map(|record| InForce {
            place: record.head.place(),
            members: record.head.members,
            word: Word::of(record),
        });
        let rivals: Vec<Word> = state.judged.ground.takers().map(Word::of).collect();
        let alarming = state.alarming_steps().into_iter();
        Self {
            steps: head.as_ref().map(|head| written_steps(state, head.place.0)).unwrap_or_default(),
            mark: mark(rivals.iter().map(|rival| rival.digest)),
            alarming: alarming.map(|it| Word { digest: it.digest, written: Written::of(&it.envelope) }).collect(),
            head,
            rivals,
        }
    }

    /// Steps to later signers than those that the node knows.
    pub fn steps(&self, state: &State, known: u64) -> Vec<Written> {
        match &self.head {
            Some(head) if head.place.0 == known => self.steps.clone(),
            Some(_) | None => written_steps(state, known),
        }
    }

    /// The head in force, if the node has none at its place, or one there that gives way.
    pub fn head(&self, request: &SyncRequest) -> Option<Written> {
        let head = self.head.as_ref()?;
        let gives_way = request.digest.is_some_and(|theirs| head.word.digest < theirs);
        (head.place != at(request) || gives_way).then(|| head.word.written.clone())
    }

    /// The members' map that the node is told of with this head, or that it does not know its place in.
    pub fn unlisted(&self, with_head: bool, listed: u64) -> Option<Digest> {
        self.head.as_ref().filter(|head| with_head || head.place.1 > listed)?.members
    }

    /// Rivals, if the node was told of others: also the head in force itself, if it is the one to give way.
    pub fn rivals(&self, request: &SyncRequest) -> Option<Vec<Written>> {
        let gives_way = |head: &&InForce| {
            head.place == at(request) && request.digest.is_some_and(|theirs| head.word.digest > theirs)
        };
        let Some(own) = self.head.as_ref().filter(gives_way).map(|head| &head.word) else {
            return (self.mark != request.rivals).then(|| written(&self.rivals));
        };
        let all: Vec<Word> = self.rivals.iter().chain([own]).cloned().collect();
        (mark(all.iter().map(|rival| rival.digest)) != request.rivals).then(|| written(&all))
    }

    pub fn alarming(&self) -> Vec<Written> {
        written(&self.alarming)
    }

    /// Is there one that the node does not know of?
    pub fn alarms(&self, sighted: &[Digest]) -> bool {
        self.alarming.iter().any(|step| !sighted.contains(&step.digest))
    }
}

/// Where the head stands that the node follows.
const fn at(request: &SyncRequest) -> (u64, u64) {
    (request.signers, request.head)
}

fn written(words: &[Word]) -> Vec<Written> {
    words.iter().map(|word| word.written.clone()).collect()
}

fn written_steps(state: &State, known: u64) -> Vec<Written> {
    state.told_steps(known).iter().map(Written::of).collect()
}
