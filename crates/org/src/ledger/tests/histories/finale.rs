//! The end of a history: everybody hears everything, and the operators' next head is taken by all.

use super::{History, Theft};
use crate::ledger::tests::drafting::Wish;
use crate::ledger::tests::replicas::{hear, hear_all, holdings};
use crate::ledger::tests::world::{DELAY, day};

impl History {
    /// L8.
    pub(super) fn finale(&mut self) {
        for _ in 0..2 {
            for from in 0..self.replicas.len() {
                for to in 0..self.replicas.len() {
                    self.exchange(from, to, || true);
                }
            }
            self.now += 2 * DELAY;
        }
        for sent in self.drawer.clone() {
            (0..self.replicas.len()).for_each(|to| self.hand(to, &sent));
        }
        self.now += 3 * DELAY;
        self.say("everybody has heard everything, the thieves' drawer, too");
        let by = match self.cast.theft {
            Theft::Nothing | Theft::Voices | Theft::OneOfSeveral => self.signers_at(0),
            Theft::Signer | Theft::Phrases => Some(self.settle_by_hand()),
        };
        let Some(head) = by.and_then(|by| self.publish_at(0, &by, &Wish::default(), ", the last")) else {
            return self.breaks("L8", "the operators cannot publish");
        };
        (0..self.replicas.len()).for_each(|to| self.hand(to, &head));
        self.look(super::Dice(1));
        let states: Vec<_> = self.replicas.iter().map(|(_, replica)| replica.state(day(self.now)).ok()).collect();
        for (at, state) in states.iter().enumerate() {
            let wrong = match state {
                None => "is frozen",
                Some(state) if state.head != Some(head.digest()) => "does not take it",
                Some(_) if *state != states[0] => "has another state than the home",
                Some(_) => continue,
            };
            self.breaks("L8", &format!("{} {wrong}", self.replicas[at].0));
        }
        self.look_at_newcomer(&head);
    }

    /// Where thieves speak for the set in force or for the phrases, people go to every machine and settle who follows the
    /// founders.
    fn settle_by_hand(&mut self) -> Vec<String> {
        let set = self.org.later(3, 1, &["saved"]);
        let way = self.org.way_out(&self.org.set(), &set, self.org.first.digest(), &["phrase-1", "phrase-3"]).into();
        for at in 0..self.replicas.len() {
            self.replicas[at].1.basis.floor = Some(set.as_ref());
            self.hand(at, &self.org.first.clone());
            self.hand(at, &way);
        }
        self.truth = vec![self.org.set(), set];
        self.say("people settle on every machine that `saved` follows the founders");
        vec!["saved".to_owned()]
    }

    /// Whoever comes now needs the signer chain and this head, and no other.
    fn look_at_newcomer(&mut self, head: &super::Sent) {
        let home = &self.replicas[0].1;
        let mut new = self.org.newcomer(self.truth.last().map(identity::signers::SignerSet::as_ref));
        let beside = |sent: &super::Sent| !home.heads.contains(&sent.digest());
        let others: Vec<_> = holdings(home).into_iter().filter(beside).collect();
        hear(&mut new, head, self.now);
        hear_all(&mut new, &others, self.now);
        // Why somebody waits may differ: a line that is over was dropped, and what it ended is over, too.
        let told = |replica: &super::Store| {
            let state = replica.state(day(self.now)).ok();
            state.map(|it| (it.head, it.members, it.waiting.into_keys().collect::<Vec<_>>()))
        };
        if told(&new) != told(home) {
            self.breaks("L3", "a newcomer with only the last head has another state than the home");
        }
    }
}
