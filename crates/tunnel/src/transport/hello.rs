//! The exchange of hellos, over either transport: how two sides of a connection come to know each other.
//!
//! Each says who it is and what it knows, the newer head is handed over, and only then is the other one judged.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use ground::clock;
use identity::certificate;
use identity::id::Digest;
use identity::principal::Principal;
use identity::text::Bytes;
use identity::verifier::untrusted::Untrusted;
use identity::verifier::{ProvenSvid, Side};
use org::member::peer::{NotAPeer, Peer, Presented};
use org::report::plain;
use pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use wire::peer::{HeadPlace, Hello, Knows, News, SCHEMA};

use crate::access::trust::TrustSnapshot;
use crate::control::event::{Meeting, TunnelEvent};
use crate::frame::format::FrameKind;
use crate::frame::reader::{FrameReader, NoFrame, send_frame};
use crate::limit::large::LargePermit;
use crate::state::shared::TunnelState;

const HELLO: Duration = Duration::from_secs(10);
/// For what the other side knows and this one does not: so long to hear it, and so long until the agent has looked at it.
const NEWS: Duration = Duration::from_secs(5);

/// Who is at the other end.
#[derive(Debug)]
pub(crate) struct MetPeer {
    /// Or why that is nobody to speak with.
    pub peer: Result<Arc<Peer>, NotAPeer>,
    /// The head that it goes by.
    pub head: u64,
    pub shared: SharedKnowledge,
    /// Whom its SVID names, believed or not.
    pub claims: Option<Principal>,
}

/// The newest head that one of the two knew when they met, the heads beside it, and the suspensions. Who has heard of more
/// since has something to tell, and needs another connection for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharedKnowledge {
    pub place: HeadPlace,
    pub rivals: Option<Digest>,
    pub suspended: Option<Digest>,
}

impl SharedKnowledge {
    /// Is nothing left to tell by what is known now?
    pub(crate) fn is_all_of(&self, trust: &TrustSnapshot) -> bool {
        let now = trust.knows();
        self.place >= now.place && (self.rivals, self.suspended) == (now.rivals, now.suspended)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NoHello {
    #[error("this node was never shown its place in the org, so it has nothing to show")]
    NothingToShow,
    #[error("it did not say who it is within {} s", HELLO.as_secs())]
    Silent,
    #[error("it speaks version {0} of the tunnel's words, and this program {SCHEMA}: upgrade the older one")]
    OtherWords(u32),
    #[error(transparent)]
    NoFrame(#[from] NoFrame),
    #[error("the transport did not say whom it proved")]
    NoChain,
}

/// What the handshake showed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownChain<'a> {
    pub chain: &'a [CertificateDer<'a>],
    /// Which side the other one is on.
    pub side: Side,
}

/// Both sides say who they are at once, and what the other lacks then.
pub(crate) async fn exchange<R, W>(
    state: &TunnelState,
    frames: &mut FrameReader<R>,
    to: &mut W,
    shown: ShownChain<'_>,
) -> Result<MetPeer, NoHello>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (frame, own) = {
        let trust = &state.policy.load().trust;
        (trust.hello_frame().map_err(NoFrame::from)?.ok_or(NoHello::NothingToShow)?, trust.knows())
    };
    // What was read is kept until the other one is judged.
    let svid = shown.chain.first().map(AsRef::as_ref).unwrap_or_default();
    let mut permit = state.limits.large.permit(shown.side, svid);
    // At once: whoever waited for the other to read first could wait for ever.
    let heard = frames.large_words::<Hello>(FrameKind::Hello, &mut permit);
    let both = async { tokio::try_join!(send_frame(to, &frame), heard) };
    let ((), hello) = timeout(HELLO, both).await.map_err(|_| NoHello::Silent)??;
    if hello.schema != SCHEMA {
        return Err(NoHello::OtherWords(hello.schema));
    }
    // What this side said that it knows, and no more: by that the other one decides whether to wait.
    let trust = Arc::clone(&state.policy.load().trust);
    let other = hello.knows();
    let news = if other.lacks_of(&own) { trust.news_for(&other).map_err(NoFrame::from)? } else { None };
    let tell = async {
        match &news {
            Some(news) => tell(to, news).await,
            None => Ok(()),
        }
    };
    let hear = async {
        if own.lacks_of(&other) {
            hear(state, frames, &mut permit, &hello).await.map_err(NoHello::from)
        } else {
            Ok(None)
        }
    };
    let ((), later) = tokio::try_join!(tell, hear)?;
    if shown.chain.is_empty() {
        return Err(NoHello::NoChain);
    }
    if shown.side == Side::Server {
        state.meter.called();
    }
    let trust = later.map_or_else(|| Arc::clone(&state.policy.load().trust), Arc::new);
    // Of a later head there is only the other's word, unless it came.
    let goes_by = other.place.min(trust.knows().place.max(own.place));
    let Knows { rivals, suspended, .. } = state.policy.load().trust.knows();
    let shared = SharedKnowledge { place: own.place.max(goes_by), rivals, suspended };
    let peer = judge(state, &trust, &hello, shown).map(Arc::new);
    let claims = peer.as_ref().map_or_else(|_| claimed(shown), |peer| Some(peer.principal().clone()));
    Ok(MetPeer { peer, head: goes_by.head, shared, claims })
}

async fn tell<W: AsyncWrite + Unpin>(to: &mut W, news: &[u8]) -> Result<(), NoHello> {
    match timeout(HELLO, send_frame(to, news)).await.map_err(|_| NoHello::Silent)? {
        // It waited for them long enough, and goes by what it has.
        Err(NoFrame::Io(why)) if why.kind() == ErrorKind::ConnectionReset => Ok(()),
        told => told.map_err(NoHello::from),
    }
}

fn claimed(shown: ShownChain<'_>) -> Option<Principal> {
    let leaf = certificate::read(shown.chain.first()?).ok()?;
    leaf.uris.first()?.parse().ok()
}

/// Waits until the agent has taken in what the other side knows. If it does not come, or does not hold, one goes by what one
/// has. An agent that stands still ends no calls: what it did not take in, and holds, is used to judge this one.
async fn hear<R: AsyncRead + Unpin>(
    state: &TunnelState,
    frames: &mut FrameReader<R>,
    permit: &mut LargePermit<'_>,
    hello: &Hello,
) -> Result<Option<TrustSnapshot>, NoFrame> {
    let mut changes = state.head();
    let Ok(news) = timeout(NEWS, frames.large_words::<News>(FrameKind::News, permit)).await else {
        return Ok(None);
    };
    let news = news?;
    let trust = Arc::clone(&state.policy.load().trust);
    let (known, suspensions) = match trust.with(&news, trust.known.now(clock::now())) {
        Ok(Some(later)) => later,
        // Whoever says that it knows more, and does not, costs the agent nothing.
        Ok(None) => return Ok(None),
        Err(why) => {
            tracing::warn!(why = plain(&why.to_string()), "a peer's news do not hold");
            return Ok(None);
        }
    };
    state.tell(TunnelEvent::Heard(Box::new(news)));
    if state.waited_in_vain(hello.knows()) {
        return Ok(trust.under(known, suspensions));
    }
    let is_known = async {
        let now = trust.known.now(clock::now());
        while !state.policy.load().trust.has(&known, &suspensions, now) {
            if changes.changed().await.is_err() {
                break;
            }
        }
    };
    if timeout(NEWS, is_known).await.is_err() {
        state.note_in_vain(hello.knows());
        tracing::info!(head = hello.head, "the agent has not taken in what a peer knows");
        return Ok(trust.under(known, suspensions));
    }
    Ok(None)
}

fn judge(state: &TunnelState, trust: &TrustSnapshot, hello: &Hello, shown: ShownChain<'_>) -> Result<Peer, NotAPeer> {
    let now = trust.known.now(clock::now());
    let svid = match state.svids.vouched().take(shown.chain) {
        Some(svid) => svid,
        // Two handshakes of one chain at once: the other one took it.
        None => prove(state, shown)?,
    };
    let peer = trust.recognize(&svid, &hello.presented, now)?;
    if trust.meet(&peer, now)? {
        state.tell(TunnelEvent::Met(Box::new(meeting(trust, hello, shown))));
    }
    Ok(peer)
}

/// The agent believes nobody's word but the operators': it judges by what was shown.
fn meeting(trust: &TrustSnapshot, hello: &Hello, shown: ShownChain<'_>) -> Meeting {
    let Presented { by, listing, admission } = hello.presented.clone();
    Meeting {
        chain: shown.chain.iter().map(|der| Bytes(der.to_vec())).collect(),
        is_caller: shown.side == Side::Client,
        by: (by.digest() != trust.known.head.digest).then_some(by),
        listing,
        admission,
    }
}

/// Checks all signatures of a chain whose holder has proven itself already.
pub(crate) fn prove(state: &TunnelState, shown: ShownChain<'_>) -> Result<ProvenSvid, Untrusted> {
    state.policy.load().trust.prove(shown.chain, shown.side, clock::now())
}
