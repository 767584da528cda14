//! The liar calls the other gateway, as the gateway that it is, and as a stranger: what it asks may be anything, too.

use identity::envelope::{Envelope, Payload as _};
use identity::head::{Head, Recorded};
use identity::id::Digest;
use identity::key::P256Key;
use identity::signers::Recovery;
use identity::time::Seconds;
use member::store::scope::Scope;
use org::ledger::entry::Entry;
use org::ledger::frontier::Tip;
use org::state::State;
use trials::client::stranger::{Dial, Own};
use trials::place::until;
use wire::exchange::{ExchangeRequest, Have};
use wire::permit::Ask;
use wire::sync::{RecoverRequest, ShowRequest};

use super::laws::forked;
use super::world::{Cast, World};

impl World {
    /// Whatever is asked, the gateway answers or hangs up.
    pub fn raid(&mut self) {
        let state = self.read(&self.ledger());
        let (own, port) = (self.own(), self.place().port);
        for _ in 0..4 {
            let request = self.exchange(&state);
            let told = Dial::to(port).with(&own).line().ask(Ask::Exchange, &request);
            let told = told.map(|reply| reply.code());
            self.story.push(format!("raid: {}: {told:?}", format!("{request:?}").chars().take(60).collect::<String>()));
        }
        let head = self.forged(Head::KIND, &state);
        let tip = Some(self.forged(Tip::KIND, &state));
        let told = Dial::to(port).line().ask(Ask::Show, &ShowRequest { head, tip });
        let recovery = self.forged(Recovery::KIND, &state);
        let begun = Dial::to(port).line().ask(Ask::Recover, &RecoverRequest { recovery });
        self.story.push(format!("raid: shows {told:?}, recovers {begun:?}"));
        let may = self.cast == Cast::Phrases;
        assert!(begun.is_ok_and(|reply| may || reply.code() != "ok"), "a recovery without recovery keys");
    }

    /// It hands the other gateway two entries of its own at one place, until that one has both.
    pub fn fork(&mut self) {
        let after = self.read(&self.ledger()).frontier.place_of(&self.baseline.vps);
        let (own, port) = (self.own(), self.place().port);
        until("the honest gateway knows that the chain forks", || {
            let state = self.read(&self.ledger());
            let forks = self.liar.as_ref().unwrap().by_hand(|hand| hand.fork(after, &state)).to_vec();
            let frontier = state.frontier.clone();
            let have = Have { frontier, issued: 0, reports: 0, tip: None, forks, wait: Seconds(0) };
            let told = Dial::to(port).with(&own).line().ask(Ask::Exchange, &ExchangeRequest::News(have));
            self.story.push(format!("forks after {after:?}: {:?}", told.map(|reply| reply.code())));
            forked(&self.read(&self.ledger()), &self.baseline.vps) > 0
        });
    }

    /// It has two phrases, and begins a recovery, which waits from then on.
    pub fn begin_recovery(&mut self) {
        let port = self.place().port;
        until("a recovery has begun", || {
            let state = self.read(&self.ledger());
            let recovery = self.forged(Recovery::KIND, &state);
            let told = Dial::to(port).line().ask(Ask::Recover, &RecoverRequest { recovery });
            self.story.push(format!("begins a recovery: {told:?}"));
            told.is_ok_and(|reply| reply.code() == "ok")
        });
    }

    fn own(&self) -> Own {
        let scope = Scope { folder: self.place().scope("vps") };
        let svid = scope.seat(&scope.node().unwrap().unwrap().principal()).svid().unwrap().unwrap();
        Own { chain: svid.own.chain.clone(), key: P256Key::from_pkcs8(svid.own.key.pkcs8()).unwrap() }
    }

    fn forged(&mut self, kind: &str, state: &State) -> Envelope {
        let liar = self.liar.as_ref().unwrap();
        (0..20).find_map(|_| liar.make(kind, state, &mut self.dice)).unwrap()
    }

    fn exchange(&mut self, state: &State) -> ExchangeRequest {
        let some_digest = Digest::of(&self.dice.next().to_le_bytes());
        let roots: Vec<Digest> = state.replica.heads.values().filter_map(|record| record.head.members).collect();
        let root = self.dice.choose(&roots).copied().filter(|_| self.dice.percent(70)).unwrap_or(some_digest);
        let number = self.dice.pick([0, 1, 1 << 40, u64::MAX]);
        match self.dice.below(8) {
            0 => ExchangeRequest::Map { root, from: number },
            1 => ExchangeRequest::MapChange { root, base: some_digest },
            2 => ExchangeRequest::Blobs { digests: vec![root; 3_000] },
            3 => ExchangeRequest::File { digest: some_digest, from: number },
            _ => {
                let mut frontier = state.frontier.clone();
                for place in frontier.0.values_mut() {
                    let seq = self.dice.pick([0, place.seq, place.seq + 1, u64::MAX]);
                    *place = if self.dice.percent(50) { *place } else { Recorded { seq, digest: root } };
                }
                let forks = (0..self.dice.below(6)).map(|_| self.forged(Entry::KIND, state)).collect();
                let tip = self.dice.percent(50).then(|| self.forged(Tip::KIND, state));
                let (issued, reports) = (number, self.dice.pick([0, u64::MAX]));
                ExchangeRequest::News(Have { frontier, issued, reports, tip, forks, wait: Seconds(0) })
            }
        }
    }
}
