//! Calling a gateway. Everyone goes the same way: a provisional connection, the signer chain walked, the head
//! verified, the mandate found in it; only then is the gateway believed, and asked.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use ground::clock;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use identity::envelope::Envelope;
use identity::head::{Head, Mandate};
use identity::id::OrgId;
use identity::principal::{Address, NodeName};
use identity::signers::SignersRef;
use identity::time::{Seconds, Timestamp};
use identity::verifier::untrusted::Inactive;
use identity::verifier::{ProvisionalEndpoint, Untrusted};
use org::founding::Founding;
use org::refusal::Refusal;
use pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::carry::way::{self, NoWay};
use crate::connect::clocks::Clocks;
use crate::connect::reply::{BadReply, Foreign};
use crate::connect::standing::Standing;
use crate::http::{self, MAX_REPLY};
use crate::known::{BadKnowledge, Known};
use crate::permit::{Ask, Method};
use crate::sync::{Documents, Done, ShowRequest};
use crate::tls::{self, EXPORTER_LABEL, Expect, OwnSvid, TlsSetup};

pub mod clocks;
pub mod reply;
pub(crate) mod standing;
mod explain;

use explain::from_tls;

const REPLY_TIME: Duration = Duration::from_secs(30);

/// Why a gateway could not be asked, or said no.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("cannot reach the gateway at {address}")]
    Unreachable {
        address: Address,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot reach the gateway at {address} by {}", address.way.word())]
    NotCarried {
        address: Address,
        #[source]
        source: Box<NoWay>,
    },
    #[error("what is said to and by the gateway at {address} is changed on the way: {why}")]
    Tampered { address: Address, why: Box<rustls::Error> },
    #[error("the gateway at {address} did not answer in time")]
    Silent { address: Address },
    #[error("what answers at {address} is not a gateway: {why}")]
    NotAGateway { address: Address, why: Foreign },
    #[error("the gateway at {address} is not one of this org's: {why}")]
    NotBelieved { address: Address, why: Untrusted },
    #[error(
        "the gateway at {address} is not asked: the mandate of {why}{}",
        clocks.as_ref().map(|clocks| format!("; {clocks}")).unwrap_or_default()
    )]
    NotInForce {
        address: Address,
        why: Box<Inactive>,
        /// This one and the gateway's, if they are apart.
        clocks: Option<Box<Clocks>>,
    },
    #[error(
        "this machine's clock and that of the gateway at {address} are at least {} apart: {why}",
        apart.roughly()
    )]
    ClocksApart { address: Address, why: Untrusted, apart: Seconds },
    #[error(
        "the gateway at {address} did not accept this machine's certificate: {why}{}",
        standing.as_ref().map(|own| format!("; {own}")).unwrap_or_default()
    )]
    NotAccepted {
        address: Address,
        why: &'static str,
        alert: AlertKind,
        /// How it stands with that certificate, seen from here.
        standing: Option<Box<Standing>>,
    },
    #[error("the gateway at {address} broke off")]
    BrokenOff { address: Address },
    #[error("what the gateway at {address} says of the org does not hold")]
    Knowledge {
        address: Box<Address>,
        #[source]
        source: BadKnowledge,
    },
    #[error("the gateway at {address} answered what cannot be read: {why}")]
    Unreadable { address: Address, why: BadReply },
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Setup(#[from] TlsSetup),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlertKind {
    Revoked,
    Expired,
    Other,
}

impl CallError {
    /// What answers there leads to no endpoint root that is trusted here: the roots may have moved on.
    pub const fn is_unknown_root(&self) -> bool {
        matches!(self, Self::NotBelieved { why, .. } if why.is_unknown_root())
    }

    /// True if another gateway, or a later moment, may do better.
    pub const fn is_worth_retrying(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::NotCarried { .. }
            | Self::Tampered { .. }
            | Self::Silent { .. }
            | Self::BrokenOff { .. } => true,
            Self::Refused(refusal) => {
                matches!(refusal, Refusal::Busy { .. } | Refusal::TooManyAttempts { .. } | Refusal::Failed { .. })
            }
            Self::NotAGateway { .. }
            | Self::NotBelieved { .. }
            | Self::NotInForce { .. }
            | Self::ClocksApart { .. }
            | Self::NotAccepted { .. }
            | Self::Knowledge { .. }
            | Self::Unreadable { .. }
            | Self::Setup(_) => false,
        }
    }

    /// Of the failures of a round, the one that is told: what somebody answered says more than that another could not be
    /// reached, and of two that say as much the later one is told.
    #[must_use]
    pub fn or_rather(earlier: Option<Self>, later: Self) -> Self {
        match earlier {
            Some(earlier) if earlier.says() > later.says() => earlier,
            Some(_) | None => later,
        }
    }

    /// How much it tells about whoever asks, rather than about the way to a gateway.
    const fn says(&self) -> u8 {
        match self {
            Self::NotAccepted { .. } => 3,
            Self::Refused(_) => 2,
            _ if self.is_worth_retrying() => 0,
            _ => 1,
        }
    }
}

/// A gateway's address, and, if another way leads there, the socket to dial instead of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayAddress {
    pub address: Address,
    pub dial: Option<SocketAddr>,
}

impl From<Address> for GatewayAddress {
    fn from(address: Address) -> Self {
        Self { address, dial: None }
    }
}

/// What the caller goes by.
#[derive(Debug, Clone, Copy)]
pub enum Anchor<'a> {
    /// A joiner: the code's floors.
    Code { org: OrgId, signers: SignersRef, head: u64 },
    /// A node or an operator, with the last word of this gateway's ledger that it was given.
    Known(&'a Known, Option<&'a Envelope>),
    /// An operator who knows that the gateway was restored from an older copy, and goes by what is known here alone.
    Behind(&'a Known),
}

/// A TLS connection to something that holds a certificate under the right endpoint root: not believed yet.
#[derive(Debug)]
pub struct Provisional {
    conversation: Conversation,
    endpoint: ProvisionalEndpoint,
}

/// A connection to a gateway that is mandated in a verified head.
#[derive(Debug)]
pub struct Believed {
    pub(crate) conversation: Conversation,
    endpoint: ProvisionalEndpoint,
    pub mandate: Mandate,
}

#[derive(Debug)]
pub(crate) struct Conversation {
    sender: SendRequest<Full<Bytes>>,
    exporter: [u8; 32],
    pub(crate) address: Address,
    own: bool,
    /// What time it was there at the last answer, as HTTP tells it: for words alone.
    date: Option<Timestamp>,
}

impl Provisional {
    pub async fn dial(gateway: &GatewayAddress, expect: &Expect, own: Option<&OwnSvid>) -> Result<Self, CallError> {
        let address = &gateway.address;
        let silent = |_| CallError::Silent { address: address.clone() };
        timeout(way::patience(&address.way), Self::dial_unbounded(gateway, expect, own)).await.map_err(silent)?
    }

    async fn dial_unbounded(
        gateway: &GatewayAddress,
        expect: &Expect,
        own: Option<&OwnSvid>,
    ) -> Result<Self, CallError> {
        let address = gateway.address.clone();
        let failed = |source| explain(source, &address, own.is_some());
        let stream = way::open(&address, gateway.dial).await.map_err(|why| no_way(why, &address))?;
        let config = tls::client(expect.clone(), address.host.clone(), own)?;
        let unreadable = |why| CallError::Unreadable { address: address.clone(), why };
        let name = ServerName::try_from(address.host.to_string()).map_err(|_| unreadable(BadReply::Name))?;
        let stream = TlsConnector::from(config).connect(name, stream).await.map_err(failed)?;
        let session = stream.get_ref().1;
        let exporter = session
            .export_keying_material([0; 32], EXPORTER_LABEL, None)
            .map_err(|_| unreadable(BadReply::NoExporter))?;
        // The verifier has seen this chain during the handshake; this reads its issuer out of it.
        let chain = session.peer_certificates().unwrap_or_default();
        let endpoint =
            expect.check(chain, &address.host, clock::now()).map_err(|why| not_believed(address.clone(), why))?;
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|_| CallError::BrokenOff { address: address.clone() })?;
        tokio::spawn(connection);
        Ok(Self { conversation: Conversation { sender, exporter, address, own: own.is_some(), date: None }, endpoint })
    }

    /// Walks the chain, checks the head, finds the mandate. Returns what is now known.
    pub async fn believe(mut self, anchor: Anchor<'_>) -> Result<(Believed, Known), CallError> {
        let known = match anchor {
            Anchor::Code { org, signers, head } => self.learn(org, signers, head).await?,
            Anchor::Behind(known) => known.clone(),
            Anchor::Known(known, tip) => match self.catch_up(known).await {
                Err(why) => {
                    self.show(known, tip, &why).await;
                    return Err(why);
                }
                caught_up => caught_up?,
            },
        };
        let mandate = self.endpoint.believe(&known.head.head, known.now(clock::now())).cloned();
        let mandate = mandate.map_err(|why| match why {
            Untrusted::MandateNotActive(why) => self.conversation.not_in_force(why, &known),
            why => not_believed(self.conversation.address.clone(), why),
        })?;
        Ok((Believed { conversation: self.conversation, endpoint: self.endpoint, mandate }, known))
    }

    async fn learn(&mut self, org: OrgId, floor: SignersRef, head_floor: u64) -> Result<Known, CallError> {
        let founding = self.conversation.document(Ask::Founding).await?;
        let founding = Founding::open_expecting(founding, org).map_err(|why| self.wrong(why))?;
        let chain = self.conversation.documents(Ask::Signers).await?;
        let head = self.conversation.document(Ask::Head).await?;
        let now = clock::now();
        let known = Known::begin(founding, floor, &chain, &head, now).map_err(|why| self.wrong(why))?;
        known.head.head.check_for_joiner(floor.version, head_floor, now).map_err(|why| self.wrong(why))?;
        Ok(known)
    }

    async fn catch_up(&mut self, known: &Known) -> Result<Known, CallError> {
        let chain = self.conversation.documents(Ask::Signers).await?;
        let head = self.conversation.document(Ask::Head).await?;
        let now = known.now(clock::now());
        match known.advance(&chain, Some(&head), now) {
            // Whoever stands still goes on asking by what it has, and hears of the way out.
            Err(why @ BadKnowledge::Frozen { .. }) => Ok(known.heed(&why, now).unwrap_or_else(|| known.clone())),
            caught_up => caught_up.map_err(|why| self.wrong(why)),
        }
    }

    /// A gateway that knows less than the caller is told so: it may have been restored from an old copy. All of this
    /// is signed and no secret.
    async fn show(&mut self, known: &Known, tip: Option<&Envelope>, why: &CallError) {
        use identity::head::BadHead;
        use identity::signers::BrokenChain;
        let CallError::Knowledge { source, .. } = why else {
            return;
        };
        let lacks = match source {
            BadKnowledge::Head(why) => why.is_behind() || matches!(why, BadHead::Forked { .. }),
            BadKnowledge::Signers(why) => matches!(why, BrokenChain::EndsTooEarly { .. }),
            BadKnowledge::Founding(_)
            | BadKnowledge::Newer
            | BadKnowledge::Older
            | BadKnowledge::Step(_)
            | BadKnowledge::RecoveryWaits { .. }
            | BadKnowledge::Frozen { .. }
            | BadKnowledge::Parted => false,
        };
        if lacks {
            let request = ShowRequest { head: known.head_envelope.clone(), tip: tip.cloned() };
            let shown: Result<Done, CallError> = self.conversation.ask(Ask::Show, &request).await;
            drop(shown);
        }
    }

    fn wrong(&self, why: impl Into<BadKnowledge>) -> CallError {
        CallError::Knowledge { address: Box::new(self.conversation.address.clone()), source: why.into() }
    }
}

impl Believed {
    /// This machine's clock and the gateway's, if they are apart.
    pub fn clocks(&self, known: &Known) -> Option<Clocks> {
        self.conversation.clocks(&self.mandate.gateway, known)
    }

    pub const fn exporter(&self) -> [u8; 32] {
        self.conversation.exporter
    }

    pub const fn address(&self) -> &Address {
        &self.conversation.address
    }

    /// Is it still a gateway by what is known now? An open connection outlives no mandate.
    pub fn check(&self, known: &Known) -> Result<(), CallError> {
        self.check_by(&known.head.head)
    }

    /// The same, by a head that was verified.
    pub fn check_by(&self, head: &Head) -> Result<(), CallError> {
        let still = self.endpoint.believe(head, clock::now().max(head.issued_at));
        still.map(drop).map_err(|why| not_believed(self.conversation.address.clone(), why))
    }

    pub async fn ask<Q: Serialize, A: DeserializeOwned>(&mut self, ask: Ask, question: &Q) -> Result<A, CallError> {
        self.conversation.ask(ask, question).await
    }

    /// Asks what the gateway may take so much longer to answer: it waits for news.
    pub async fn ask_patiently<Q: Serialize, A: DeserializeOwned>(
        &mut self,
        ask: Ask,
        question: &Q,
        longer: Seconds,
    ) -> Result<A, CallError> {
        self.conversation.ask_within(ask, question, REPLY_TIME + Duration::from_secs(longer.0)).await
    }
}

impl Conversation {
    fn clocks(&self, gateway: &NodeName, known: &Known) -> Option<Clocks> {
        Clocks::new(clock::now(), self.date?, gateway, known).apart()
    }

    /// A mandate that is over by this clock: nobody renewed it, or one of the two clocks is wrong.
    fn not_in_force(&self, why: Box<Inactive>, known: &Known) -> CallError {
        let clocks = self.clocks(&why.gateway, known).map(Box::new);
        CallError::NotInForce { address: self.address.clone(), why, clocks }
    }

    /// With whoever answers there: what they say counts only as far as it is signed.
    pub(crate) async fn with_anybody(gateway: &GatewayAddress) -> Result<Self, CallError> {
        let address = gateway.address.clone();
        let silent = |_| CallError::Silent { address: address.clone() };
        let dial = async {
            let stream = way::open(&address, gateway.dial).await.map_err(|why| no_way(why, &address))?;
            let unnamed = |_| CallError::Unreadable { address: address.clone(), why: BadReply::Name };
            let name = ServerName::try_from(address.host.to_string()).map_err(unnamed)?;
            let config = tls::carrier()?;
            let stream = TlsConnector::from(config).connect(name, stream).await;
            let stream = stream.map_err(|source| explain(source, &address, false))?;
            let broken = |_| CallError::BrokenOff { address: address.clone() };
            let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(broken)?;
            tokio::spawn(connection);
            Ok(Self { sender, exporter: [0; 32], address: address.clone(), own: false, date: None })
        };
        timeout(way::patience(&address.way), dial).await.map_err(silent)?
    }

    pub(crate) async fn document(&mut self, ask: Ask) -> Result<Envelope, CallError> {
        let address = self.address.clone();
        let missing = || CallError::Unreadable { address, why: BadReply::Nothing(ask) };
        self.documents(ask).await?.into_iter().next().ok_or_else(missing)
    }

    pub(crate) async fn documents(&mut self, ask: Ask) -> Result<Vec<Envelope>, CallError> {
        let documents: Documents = self.ask(ask, &()).await?;
        Ok(documents.documents)
    }

    async fn ask<Q: Serialize, A: DeserializeOwned>(&mut self, ask: Ask, question: &Q) -> Result<A, CallError> {
        self.ask_within(ask, question, REPLY_TIME).await
    }

    async fn ask_within<Q: Serialize, A: DeserializeOwned>(
        &mut self,
        ask: Ask,
        question: &Q,
        time: Duration,
    ) -> Result<A, CallError> {
        let address = self.address.clone();
        let unreadable = |why| CallError::Unreadable { address: address.clone(), why };
        let (method, body) = match ask.method() {
            Method::Get => ("GET", Vec::new()),
            Method::Post => ("POST", serde_json::to_vec(question).map_err(|why| unreadable(BadReply::Json(why)))?),
        };
        let request = hyper::Request::builder()
            .method(method)
            .uri(ask.path())
            .header(hyper::header::HOST, address.host_port().to_string())
            .header(hyper::header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|why| unreadable(BadReply::Request(why)))?;
        let own = self.own;
        let exchange = async {
            self.sender.ready().await.map_err(|why| from_hyper(&why, &address, own))?;
            let response = self.sender.send_request(request).await.map_err(|why| from_hyper(&why, &address, own))?;
            let status = response.status();
            let date = response.headers().get(hyper::header::DATE).and_then(|date| date.to_str().ok());
            self.date = date.and_then(Timestamp::from_http);
            let bytes =
                http::read(response.into_body(), MAX_REPLY).await.map_err(|why| unreadable(BadReply::Body(why)))?;
            Ok::<_, CallError>((status, bytes))
        };
        let silent = |_| CallError::Silent { address: address.clone() };
        let (status, bytes) = timeout(time, exchange).await.map_err(silent)??;
        if status == hyper::StatusCode::OK {
            return serde_json::from_slice(&bytes).map_err(|why| unreadable(BadReply::Json(why)));
        }
        let refusal: Refusal = serde_json::from_slice(&bytes).map_err(|_| unreadable(BadReply::Status(status)))?;
        Err(refusal.into())
    }
}

fn from_hyper(why: &hyper::Error, address: &Address, own: bool) -> CallError {
    let mut source = std::error::Error::source(why);
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>()
            && let Some(tls) = io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())
        {
            return from_tls(tls, address, own).unwrap_or(CallError::BrokenOff { address: address.clone() });
        }
        source = inner.source();
    }
    CallError::BrokenOff { address: address.clone() }
}

fn explain(source: std::io::Error, address: &Address, own: bool) -> CallError {
    let tls = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls.and_then(|tls| from_tls(tls, address, own)) {
        Some(error) => error,
        None => CallError::Unreachable { address: address.clone(), source },
    }
}

fn no_way(why: NoWay, address: &Address) -> CallError {
    let address = address.clone();
    match why {
        NoWay::Unreachable(source) => CallError::Unreachable { address, source },
        NoWay::Setup(setup) => CallError::Setup(setup),
        source => CallError::NotCarried { address, source: Box::new(source) },
    }
}

/// A certificate under the right root that is good at another time says more of the clocks than of the gateway, which
/// renews it at half its life.
fn not_believed(address: Address, why: Untrusted) -> CallError {
    match why.moment() {
        Some(at) => {
            let here = clock::now();
            CallError::ClocksApart { address, why, apart: here.apart(at) }
        }
        None => match why {
            Untrusted::MandateNotActive(why) => CallError::NotInForce { address, why, clocks: None },
            why => CallError::NotBelieved { address, why },
        },
    }
}

#[cfg(test)]
mod tests;
