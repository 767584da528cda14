//! An operator whose every call is timed: the words of the real tool, without its questions.

use std::sync::Arc;
use std::time::Instant;

use ground::{clock, random};
use identity::envelope::Envelope;
use identity::head::{Cause, Head};
use identity::id::Digest;
use identity::members::Leaf;
use identity::text::Bytes;
use manifest::compile::{Compiled, MemberKnown};
use org::refusal::Refusal;
use org::state::{MemberRecord, Standing};
use trials::attack::intruder::Intruder;
use trials::attack::thief::{Thief, signed_call};
use trials::load::caller::{Caller, address};
use trials::load::machine::Dialer;
use trials::place::Place;
use wire::control::{BYTES_PER_CALL, Call, ControlAnswer, DIGESTS_PER_CALL, Survey};
use wire::permit::Ask;

/// Beyond the addresses of the machines.
const DESK: usize = 16_000;

pub struct Operator {
    thief: Thief,
    dialer: Dialer,
    ledger: Intruder,
}

/// One connection: a stranger's lasts a minute, so each deed has its own.
pub struct Line {
    of: Arc<Operator>,
    caller: Caller,
}

impl Operator {
    pub fn new(place: &Place) -> Self {
        let ledger = Intruder::at(place.org().join("gateway"));
        Self { thief: Thief::of(place), dialer: Dialer::new(place.port), ledger }
    }

    pub fn members(&self) -> Vec<MemberKnown> {
        let state = self.ledger.state();
        // The entries alone do not say whom the last head lists: whoever it does waits here.
        let here = |it: &MemberRecord| matches!(it.standing, Standing::Member | Standing::Waiting);
        let members = state.members.iter().filter(|(_, it)| here(it));
        let known = |(key, it): (&Digest, &MemberRecord)| MemberKnown {
            name: it.claim().name.clone(),
            node_key: *key,
            admission: it.admission.digest,
        };
        members.map(known).collect()
    }

    pub async fn line(self: &Arc<Self>) -> Line {
        let config = Arc::clone(&self.dialer.config);
        let caller = Caller::dial(self.dialer.port, address(DESK), config).await.unwrap();
        Line { of: Arc::clone(self), caller }
    }
}

impl Line {
    async fn ask(&mut self, call: &Call) -> ControlAnswer {
        let signed = signed_call("ann", call, self.caller.exporter, &self.of.thief.signer());
        let answer: Result<ControlAnswer, Refusal> = self.caller.ask(Ask::Control, &signed).await.unwrap();
        answer.unwrap_or_else(|refusal| panic!("the operator was refused: {refusal}"))
    }

    /// Hands in every leaf and manifest, and the map.
    pub async fn stage(&mut self, compiled: &Compiled) {
        let leaves = compiled.leaves.iter().map(Leaf::bytes);
        let mut page = Vec::new();
        let mut size = 0;
        for blob in leaves.chain(compiled.manifests.values().cloned()) {
            if size + blob.len() > BYTES_PER_CALL {
                self.ask(&Call::Stage { blobs: std::mem::take(&mut page) }).await;
                size = 0;
            }
            size += blob.len();
            page.push(Bytes(blob));
        }
        self.ask(&Call::Stage { blobs: page }).await;
        let values: Vec<_> = compiled.leaves.iter().map(Leaf::value).collect();
        let mut from = 0;
        for leaves in values.chunks(DIGESTS_PER_CALL) {
            self.ask(&Call::StageMap { root: compiled.root, from, leaves: leaves.to_vec() }).await;
            from += u64::try_from(leaves.len()).unwrap();
        }
    }

    /// The next head, signed, ready to be sent; and its version.
    pub async fn head(&mut self, cause: Cause, change: impl FnOnce(&mut Head)) -> (u64, Envelope) {
        let ControlAnswer::Survey(survey) = self.ask(&Call::Survey { tip: None }).await else {
            panic!("not a survey");
        };
        let Survey { head: known, .. } = *survey;
        let org = self.of.thief.known().org();
        let mut head: Head = known.peek(Some(org)).unwrap();
        head.version += 1;
        head.previous = vec![known.digest()];
        head.issued_at = clock::now();
        head.cause = cause;
        change(&mut head);
        (head.version, self.of.thief.seal(&head, &self.of.thief.signer()))
    }

    /// When it was sent, and when the gateway said that it is durable.
    pub async fn hand_in(&mut self, head: Envelope) -> (Instant, Instant) {
        let call = Call::Take { objects: vec![head], correlation: random::correlation().unwrap() };
        let sent = Instant::now();
        self.ask(&call).await;
        (sent, Instant::now())
    }
}
