//! The next head: what is so, with one thing changed.

use ground::clock;
use identity::envelope::Envelope;
use identity::head::{Head, MOST_PREVIOUS, Mandate, SignedHead, TrustLine};
use identity::id::KeyId;
use identity::signers::SignerSet;
use identity::time::{Seconds, Timestamp};
use identity::trust;
use org::entry::{Action, Cause};
use wire::known::{BadKnowledge, Known};

use crate::desk::Desk;
use crate::keys::SignerKeys;
use crate::session::{Made, OperateError, Session};

/// How long the first head is fresh, and how long a mandate lasts from its renewal. Later heads are as long as the one
/// before, until a fleet says otherwise.
pub const FRESH: Seconds = Seconds::DAY.times(30);
pub const MANDATE: Seconds = Seconds::DAY.times(365);
/// Nobody can renew a head more often than once a day.
const SHORTEST: Seconds = Seconds::DAY;

impl<D: Desk> Session<D> {
    /// The head that follows the present one. It lists every member that is known here, and nobody whom it revokes.
    pub fn next_head(&self, now: Timestamp, change: impl FnOnce(&mut Head)) -> Head {
        let mut head = self.known.head.head.clone();
        head.version += 1;
        head.reverts = None;
        head.issued_at = now;
        head.fresh_until = now + span(&self.known.head.head);
        head.signers = self.known.signers.as_ref();
        let rivals = self.rivals().into_iter().map(|rival| rival.digest);
        head.previous = std::iter::once(self.known.head.digest).chain(rivals).take(MOST_PREVIOUS).collect();
        head.recent.clear();
        self.take_shown(&mut head);
        // No node has a higher one: it would never take this.
        head.version = head.version.max(self.mark.map_or(0, |mark| mark.saturating_add(1)));
        change(&mut head);
        if let Some(roll) = &self.roll {
            roll.settle(&mut head, &self.known.head, &self.known.founding.record.name);
        }
        head
    }

    /// Somebody showed the gateway a head that says more than its ledger, or two operators at two gateways published at
    /// once: what either revoked stays so, and the next version exceeds every one that was ever seen.
    fn take_shown(&self, head: &mut Head) {
        for rival in self.rivals() {
            head.revocations.absorb(&rival.head.revocations);
            head.version = head.version.max(rival.head.version.saturating_add(1));
        }
        head.trust = self.lines();
        self.keep_moved_keys(head);
    }

    /// If another head revoked an issuing key after a theft, its mandates name the one that took its place.
    fn keep_moved_keys(&self, head: &mut Head) {
        let rivals = self.rivals();
        let named: Vec<&Mandate> = rivals.iter().flat_map(|it| &it.head.mandates).collect();
        let revoked = head.revocations.issuing_keys.clone();
        for mandate in &mut head.mandates {
            let same = named.iter().filter(|it| it.gateway == mandate.gateway && it.voice == mandate.voice);
            let good = |key: &KeyId| !revoked.contains(key);
            if revoked.contains(&mandate.identity_issuer) {
                let moved = same.clone().map(|it| it.identity_issuer).find(good);
                mandate.identity_issuer = moved.unwrap_or(mandate.identity_issuer);
            }
            if revoked.contains(&mandate.endpoint_issuer) {
                let moved = same.clone().map(|it| it.endpoint_issuer).find(good);
                mandate.endpoint_issuer = moved.unwrap_or(mandate.endpoint_issuer);
            }
        }
    }

    /// What is known, with the head that the gateway has. If two operators published at once, and the gateway has this
    /// home's head beside that one, the next head makes them meet.
    pub(crate) fn follow(&self, more: &[Envelope]) -> Result<Known, BadKnowledge> {
        let (head, now) = (&self.survey.head, clock::now());
        let beside = || self.survey.rivals.iter().any(|rival| rival.digest() == self.known.head.digest);
        match self.known.advance(more, Some(head), now) {
            Err(BadKnowledge::Head(why)) if why.forgets() && beside() => self.known.meet(more, head, now),
            known => known,
        }
    }

    fn beside(&self) -> impl Iterator<Item = &Envelope> {
        self.survey.shown.iter().chain(&self.survey.rivals)
    }

    /// Heads that were shown, or published at another gateway at the same time, by the signers in force. Those who were
    /// replaced decide nothing any more: whoever has an old key could revoke whom they like.
    fn rivals(&self) -> Vec<SignedHead> {
        self.beside().filter_map(|head| SignedHead::open(&self.known.signers, head).ok()).collect()
    }

    /// Heads of signers who were replaced, beside the one in force, which says less than they do. Nobody signs them again:
    /// a person looks, and decides anew.
    pub(crate) fn of_former_signers(&self) -> Vec<SignedHead> {
        let sets = self.known.signer_sets();
        let former = |set: &&SignerSet| set.version != self.known.signers.version;
        let open = |head| sets.iter().filter(former).find_map(|set| SignedHead::open(set, head).ok());
        self.beside().filter_map(open).collect()
    }

    /// What is so of trust: as the head in force says, and whatever another head took away. The next head says it all.
    pub fn lines(&self) -> Vec<TrustLine> {
        let own = self.known.head.head.trust.clone();
        self.rivals().iter().fold(own, |lines, rival| trust::heed(&lines, &rival.head.trust, true))
    }

    /// What another head said of trust that the one in force does not know, in words.
    pub fn turned_elsewhere(&self) -> Vec<String> {
        let (own, lines) = (&self.known.head.head.trust, self.lines());
        let mut all = Vec::new();
        for line in &lines {
            let (version, word, state) = (line.version, line.domain.word(), line.state.word());
            let before = own.iter().find(|it| it.is_same(line));
            if before.is_some_and(|it| it.state == line.state && it.distrusted == line.distrusted) {
                continue;
            }
            let theft = if line.distrusted { ", its root was stolen" } else { "" };
            let number = if own.iter().any(|it| it.has_number_of(line) && !it.is_same(line)) {
                " (two bundles were given this number; of these only one is used, ever)"
            } else {
                ""
            };
            let was = before.map_or("not listed", |it| it.state.word());
            all.push(format!(
                "version {version} of `{word}` is {state}{theft} by a head that was published at another gateway at the \
                 same time; the head in force, {}, says {was}{number}. The next head says {state}: freehold refresh; then \
                 look: freehold trust list",
                self.known.head.head.version
            ));
        }
        all
    }

    /// Renews freshness and mandates; changes nothing else.
    pub async fn refresh(&mut self, keys: &SignerKeys) -> Result<Made<Head>, OperateError> {
        self.publish(keys, |session, now| {
            let head = session.next_head(now, |head| {
                for mandate in &mut head.mandates {
                    mandate.not_after = mandate.not_after.max(now + MANDATE);
                }
            });
            Ok((Action::HeadPublish { head: session.seal(&head)?, cause: Cause::Refresh }, head))
        })
        .await
    }
}

/// How long a head was made to be fresh.
pub fn span(head: &Head) -> Seconds {
    head.fresh_until.since(head.issued_at).max(SHORTEST)
}
