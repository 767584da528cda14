//! Who is believed right now: a snapshot of what is known of the org, immutable, swapped whole by each order.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use identity::bundle::{Identity, Roots};
use identity::envelope::Envelope;
use identity::id::Digest;
use identity::principal::{NodeName, OrgName};
use identity::time::Timestamp;
use identity::verifier::untrusted::Untrusted;
use identity::verifier::{ProvenSvid, Side};
use org::ledger::ground::Ground;
use org::ledger::heads::HeadRecord;
use org::member::peer::{NotAPeer, Peer, PeerContext, Presented};
use org::suspend::suspended::{Stopped, Suspended, Suspensions};
use pki_types::CertificateDer;
use wire::known::{BadKnowledge, Known};
use wire::peer::{HeadPlace, Hello, Knows, News, SCHEMA};
use wire::tls::Judgment;

use crate::access::pins::{Entered, Pins};
use crate::control::event::Meeting;
use crate::control::order::Knowledge;
use crate::frame::format::{FrameKind, MalformedFrame, words};

/// What is known of the org, and what this node shows of itself.
#[derive(Debug)]
pub struct TrustSnapshot {
    pub known: Known,
    pub judgment: Judgment,
    ground: Ground,
    pub suspensions: Suspensions,
    stopped: Stopped,
    mark: Option<Digest>,
    /// Of the heads beside the one that is followed.
    beside: Option<Digest>,
    presented: Option<Presented>,
    pins: Arc<Pins>,
    /// What is said to everybody is made once: they may take their time to hear it.
    hello: OnceLock<Result<Option<SharedFrame>, MalformedFrame>>,
    news: Mutex<BTreeMap<Told, SharedFrame>>,
}

/// A frame that many are sent.
pub(crate) type SharedFrame = Arc<[u8]>;

/// What somebody has not heard yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Told {
    later: bool,
    rivals: bool,
    suspensions: bool,
}

impl TrustSnapshot {
    pub fn new(name: &OrgName, knowledge: Knowledge, pins: Arc<Pins>) -> Result<Self, BadKnowledge> {
        let known = Known::from_file(knowledge.known)?.ahead_by(knowledge.ahead);
        let roots = |all: Vec<identity::text::Bytes>| {
            Roots::<Identity>::from_certificates(all.into_iter().map(|root| root.0.into()).collect())
        };
        let judgment = Judgment {
            org: known.org(),
            name: name.clone(),
            roots: roots(knowledge.roots),
            head: known.head.head.clone(),
            former: roots(knowledge.former),
        };
        let (ground, suspensions) = (ground_of(&known), knowledge.suspensions);
        let (stopped, mark) = (suspensions.stopped(&known.signers), suspensions.mark());
        let (presented, hello, news) = (knowledge.presented, OnceLock::new(), Mutex::default());
        let beside = known.mark();
        Ok(Self { known, judgment, ground, suspensions, stopped, mark, beside, presented, pins, hello, news })
    }

    /// The same under a later head, whose signatures hold, and with these suspensions. Whether other signers are in force is
    /// the agent's to say: it alone knows how long it has waited.
    pub(crate) fn under(&self, known: Known, suspensions: Suspensions) -> Option<Self> {
        if known.signers != self.known.signers {
            return None;
        }
        let judgment = Judgment { head: known.head.head.clone(), ..self.judgment.clone() };
        let (ground, presented, pins) = (ground_of(&known), self.presented.clone(), Arc::clone(&self.pins));
        let (stopped, mark) = (suspensions.stopped(&known.signers), suspensions.mark());
        let (beside, hello, news) = (known.mark(), OnceLock::new(), Mutex::default());
        Some(Self { known, judgment, ground, suspensions, stopped, mark, beside, presented, pins, hello, news })
    }

    pub(crate) const fn head(&self) -> u64 {
        self.known.head.head.version
    }

    pub(crate) const fn knows(&self) -> Knows {
        Knows { place: HeadPlace::of(&self.known.head), rivals: self.beside, suspended: self.mark }
    }

    /// What this node says first. Nothing while it was never shown its place.
    pub(crate) fn hello(&self) -> Option<Hello> {
        let presented = self.presented.clone()?;
        let Knows { place: HeadPlace { signers, head, digest: Reverse(digest) }, rivals, suspended } = self.knows();
        Some(Hello { schema: SCHEMA, signers, head, digest, rivals, suspended, presented })
    }

    pub(crate) fn hello_frame(&self) -> Result<Option<SharedFrame>, MalformedFrame> {
        let make = || self.hello().map(|hello| words(FrameKind::Hello, &hello).map(SharedFrame::from)).transpose();
        self.hello.get_or_init(make).clone()
    }

    /// What the other side does not know. With a later head go all steps to its signers, which are few: a side that took
    /// another one at some place would else not hear of this one.
    pub(crate) fn news_for(&self, other: &Knows) -> Result<Option<SharedFrame>, MalformedFrame> {
        let own = self.knows();
        if !other.lacks_of(&own) {
            return Ok(None);
        }
        let later = other.is_older_than(&own);
        let (rivals, suspensions) = (own.rivals != other.rivals, own.suspended != other.suspended);
        let told = Told { later, rivals, suspensions };
        let mut made = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(news) = made.get(&told) {
            return Ok(Some(SharedFrame::clone(news)));
        }
        let news = News {
            signers: if later { self.known.chain.clone() } else { Vec::new() },
            head: later.then(|| self.known.head_envelope.clone()),
            rivals: self.known.beside().filter(|_| told.rivals).map(|rival| rival.envelope.clone()).collect(),
            suspensions: if told.suspensions { self.suspensions.envelopes() } else { Vec::new() },
        };
        let news = SharedFrame::from(words(FrameKind::News, &news)?);
        made.insert(told, SharedFrame::clone(&news));
        Ok(Some(news))
    }

    /// What is known once these news are taken in, if they say something new. An error says why they do not hold, and then
    /// nothing that came with them is new either.
    pub(crate) fn with(&self, news: &News, now: Timestamp) -> Result<Option<(Known, Suspensions)>, BadKnowledge> {
        let told = self.known.told(&news.signers, news.head.as_ref(), &news.rivals, now);
        let (known, why) = match told {
            Ok(known) => (known, None),
            Err(why) => (self.rest_of(news, &why, now), Some(why)),
        };
        let mut suspensions = self.suspensions.clone();
        let is_new = suspensions.take(known.heeded(&news.suspensions, now), &known.signers, now);
        match why {
            _ if is_new || known.says_more_than(&self.known) => Ok(Some((known, suspensions))),
            // In sight already: the agent has heard of it.
            None | Some(BadKnowledge::RecoveryWaits { .. } | BadKnowledge::Frozen { .. }) => Ok(None),
            Some(why) => Err(why),
        }
    }

    /// The same without a head that does not hold: what the signers took away is gone all the same, and steps to other
    /// signers count from their first sight.
    fn rest_of(&self, news: &News, why: &BadKnowledge, now: Timestamp) -> Known {
        let heard = self.known.hear(&news.beside(), now).unwrap_or_else(|| self.known.clone());
        heard.heed(why, now).unwrap_or(heard)
    }

    /// Does this one go by all of that?
    pub(crate) fn has(&self, known: &Known, suspensions: &Suspensions, now: Timestamp) -> bool {
        let beside: Vec<Envelope> = known.beside().map(|rival| rival.envelope.clone()).collect();
        HeadPlace::of(&self.known.head) >= HeadPlace::of(&known.head)
            && self.known.hear(&beside, now).is_none()
            && suspensions.objects().all(|object| self.suspensions.knows(object))
    }

    pub fn recognize(&self, svid: &ProvenSvid, presented: &Presented, clock: Timestamp) -> Result<Peer, NotAPeer> {
        let peer = Peer::recognize(svid, presented, self.context(&self.pin(), clock))?;
        self.check_suspended(&peer, clock)?;
        Ok(peer)
    }

    /// Checks all signatures of a chain whose holder has proven itself already.
    pub(crate) fn prove(
        &self,
        chain: &[CertificateDer<'_>],
        side: Side,
        clock: Timestamp,
    ) -> Result<ProvenSvid, Untrusted> {
        ProvenSvid::prove(chain, side, self.judgment.standard(), self.judgment.now(clock))
    }

    /// What somebody else says whom it met, judged as if it had been met here.
    pub fn recall(&self, meeting: Meeting, clock: Timestamp) -> Result<Peer, NotAPeer> {
        let Meeting { chain, is_caller, by, listing, admission } = meeting;
        let chain: Vec<CertificateDer<'_>> = chain.into_iter().map(|der| der.0.into()).collect();
        let svid = self.prove(&chain, if is_caller { Side::Client } else { Side::Server }, clock)?;
        let by = by.unwrap_or_else(|| self.known.head_envelope.clone());
        self.recognize(&svid, &Presented { by, listing, admission }, clock)
    }

    /// From now on the name is this key's. Says whether that is to be written down.
    pub fn meet(&self, peer: &Peer, clock: Timestamp) -> Result<bool, NotAPeer> {
        // The operators' newest word about a name is more than who came first under it; and who was revoked has none.
        let replaces = |old: Digest| peer.is_listed_by(self.known.head.digest) || self.is_revoked(old);
        match self.pins.enter(peer.node(), peer.node_key().digest(), replaces) {
            Entered::Known => Ok(false),
            Entered::New => Ok(true),
            // Somebody else came first, a moment ago.
            Entered::Another => self.check(peer, clock).map(|()| false),
        }
    }

    fn is_revoked(&self, node_key: Digest) -> bool {
        self.known.head.head.revocations.node_keys.contains(&node_key)
    }

    /// Is the peer believed by what is known now?
    pub(crate) fn check(&self, peer: &Peer, clock: Timestamp) -> Result<(), NotAPeer> {
        peer.check(self.context(&self.pin(), clock))?;
        self.check_suspended(peer, clock)
    }

    /// May what it has go on, by what the operators say now?
    pub(crate) fn endures(&self, peer: &Peer, clock: Timestamp) -> Result<(), NotAPeer> {
        peer.endures(self.context(&self.pin(), clock))?;
        self.check_suspended(peer, clock)
    }

    fn check_suspended(&self, peer: &Peer, clock: Timestamp) -> Result<(), NotAPeer> {
        match self.stopped.of(peer.node_key().digest(), self.known.now(clock)) {
            Some(Suspended { by, until, .. }) => Err(NotAPeer::Suspended { by: by.clone(), until: *until }),
            None => Ok(()),
        }
    }

    fn pin(&self) -> impl Fn(&NodeName) -> Option<Digest> {
        |name| self.pins.of(name)
    }

    fn context<'a>(&'a self, pinned: &'a dyn Fn(&NodeName) -> Option<Digest>, clock: Timestamp) -> PeerContext<'a> {
        PeerContext { standard: self.judgment.standard(), ground: &self.ground, pinned, now: self.known.now(clock) }
    }
}

fn ground_of(known: &Known) -> Ground {
    let (digest, envelope, head) = (known.head.digest, known.head_envelope.clone(), known.head.head.clone());
    Ground::alone(known.signers.clone(), known.sets(), HeadRecord { digest, envelope, head })
}
