//! One connection: who asks, what, and whether they may. The way from bytes to an answer and back; who waits for news is
//! kept waiting (long poll).

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ground::clock;
use ground::quota::QuotaPermit;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::RANGE;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response};
use identity::verifier::{BelievedSvid, ProvenSvid, Side, Untrusted};
use org::member::Member;
use org::refusal::Refusal;
use pki_types::CertificateDer;
use wire::enroll::{EnrollRequest, Issued, LONGEST_APPROVAL_WAIT};
use wire::exchange::ExchangeRequest;
use wire::permit::{self, Ask, Caller};
use wire::sync::{CheckIn, LONGEST_WAIT, RecoverRequest, RecoveryBegun, SyncRequest};
use wire::{carry, http};

use crate::answer::enroll::{OpenChallenge, Setting};
use crate::answer::operator::control;
use crate::answer::{approve, documents, enroll, exchange, recover, renew, reuse, show, sync, vouch};
use crate::gateway::Gateway;
use crate::limit::download::{self, Progress, Reply};
use crate::limit::limits::{AttemptGuard, LimitKey};
use crate::port::ingress::Ingress;

/// A body that does not arrive in this time is given up.
const BODY_TIME: Duration = Duration::from_secs(15);

/// What is known of one connection.
#[derive(Debug)]
pub struct Conversation {
    gateway: Arc<Gateway>,
    source: IpAddr,
    exporter: [u8; 32],
    post_quantum: bool,
    /// What the handshake proved of the caller. Whether it is believed, the head of now says, at each question.
    peer: Option<ProvenSvid>,
    /// It dies with the connection, and an attempt that was not finished has failed.
    challenge: Mutex<Option<(OpenChallenge, AttemptGuard)>>,
    pub downloads: Arc<Progress>,
    /// Where others that this one carries come in; nothing if it is carried itself.
    ingress: Option<Arc<Ingress>>,
    carriage: Mutex<Option<Carriage>>,
}

/// A WebSocket that was agreed on: inside it the caller begins anew.
#[derive(Debug)]
pub struct Carriage {
    pub upgrade: OnUpgrade,
    pub source: IpAddr,
    pub permit: Option<QuotaPermit<IpAddr>>,
}

impl Conversation {
    pub fn new(
        gateway: Arc<Gateway>,
        source: IpAddr,
        exporter: [u8; 32],
        post_quantum: bool,
        chain: &[CertificateDer<'_>],
    ) -> Self {
        let (judgment, now) = (gateway.judgment.load_full(), clock::now());
        // The handshake has just proven this very chain.
        let proven = gateway.vouched.take(chain);
        let proven = proven.or_else(|| ProvenSvid::prove(chain, Side::Client, judgment.standard(), now).ok());
        let peer = proven.filter(|proven| proven.believe(judgment.standard(), now).is_ok());
        let (challenge, carriage) = (Mutex::new(None), Mutex::new(None));
        Self {
            gateway,
            source,
            exporter,
            post_quantum,
            peer,
            challenge,
            downloads: Arc::default(),
            ingress: None,
            carriage,
        }
    }

    /// The same, with a way in for what it may carry.
    #[must_use]
    pub fn behind(self, ingress: Option<Arc<Ingress>>) -> Self {
        Self { ingress, ..self }
    }

    /// What it became, when it is over as a conversation.
    pub fn take_carriage(&self) -> Option<Carriage> {
        self.carriage.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whose certificate it is, as far as TLS can tell.
    pub const fn peer(&self) -> Option<&ProvenSvid> {
        self.peer.as_ref()
    }

    pub async fn answer(&self, request: Request<Incoming>) -> Reply {
        let tally = &self.gateway.callers.tally;
        let ask = Ask::route(request.method().as_str(), request.uri().path());
        tally.asked(ask);
        let Some(ask) = ask else {
            let refusal = Refusal::NotFound { what: request.uri().path().chars().take(80).collect() };
            tally.refused(&refusal);
            return http::refuse(&refusal).map(Either::Left);
        };
        let answer = match permit::named_file(request.uri().path()).filter(|_| ask == Ask::File) {
            Some(digest) => {
                let range = request.headers().get(RANGE);
                Box::pin(download::hand_out(&self.gateway.shelves, digest, range, self.source, &self.downloads)).await
            }
            None if ask == Ask::Carry => self.carry(request).map(|response| response.map(Either::Left)),
            None => self.hear(ask, request).await.map(|response| response.map(Either::Left)),
        };
        match answer {
            Ok(response) => {
                tally.answered(ask);
                response
            }
            Err(refusal) => {
                tally.refused(&refusal);
                tracing::debug!(?ask, source = %self.source, %refusal, "refused");
                http::refuse(&refusal).map(Either::Left)
            }
        }
    }

    /// Agrees to carry another connection. Who calls inside is asked there, as of everybody.
    fn carry(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Refusal> {
        let malformed = |why: &str| Refusal::Malformed { why: why.to_owned() };
        let ingress = self.ingress.as_ref().ok_or_else(|| malformed("what is carried carries no other"))?;
        if self.peer.is_some() {
            return Err(malformed("a member's connection carries no other: come without a certificate"));
        }
        let agreed = carry::agree(request.headers()).map_err(malformed)?;
        let (source, permit) = ingress.hand_on(self.source, request.headers())?;
        let upgrade = hyper::upgrade::on(request);
        *self.carriage.lock().unwrap_or_else(PoisonError::into_inner) = Some(Carriage { upgrade, source, permit });
        Ok(agreed)
    }

    async fn hear(&self, ask: Ask, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Refusal> {
        let late = |_| Refusal::Malformed { why: "the body did not arrive in time".to_owned() };
        let body = tokio::time::timeout(BODY_TIME, http::read(request.into_body(), ask.max_body())).await;
        let body = body.map_err(late)?.map_err(|why| Refusal::Malformed { why: why.to_string() })?;
        // What holds a connection for long is a member that waits for news; the rest is boxed, and takes no room then.
        match ask.needs() {
            Caller::Stranger => Box::pin(self.hear_stranger(ask, &body)).await,
            Caller::Member => {
                let peer = match self.member().await {
                    Err(Refusal::NotAdmitted) if matches!(ask, Ask::CheckIn | Ask::Sync) => {
                        return Err(self.not_admitted(ask, &body).await);
                    }
                    other => other?,
                };
                if ask == Ask::Sync {
                    let request = http::parse(&body)?;
                    // The body lies in the connection's buffer, and keeps it as long as it lives.
                    drop(body);
                    return Ok(http::reply(&self.sync(peer, request).await?));
                }
                Box::pin(self.hear_member(ask, &body, &peer)).await
            }
            Caller::Observer | Caller::Gateway => Box::pin(self.hear_replica(&body)).await,
            Caller::Operator => Box::pin(self.hear_operator(&body)).await,
        }
    }

    async fn hear_stranger(&self, ask: Ask, body: &[u8]) -> Result<Response<Full<Bytes>>, Refusal> {
        let gateway = &self.gateway;
        match ask {
            Ask::Founding => Ok(http::reply(&documents::founding(gateway).await)),
            Ask::Signers => Ok(http::reply(&documents::signers(gateway).await)),
            Ask::Head => Ok(http::reply(&documents::head(gateway).await?)),
            Ask::Trust(domain) => Ok(http::reply(&documents::trust(gateway, domain).await)),
            Ask::Challenge => self.open_challenge().await,
            Ask::Enroll => {
                let (setting, mut attempt) = self.take_challenge()?;
                let answer = async { self.enroll(http::parse(body)?, setting, &mut attempt).await };
                let answer = answer.await;
                if answer.is_err()
                    && let Ok(request) = http::parse(body)
                {
                    reuse::notice(gateway, &request, setting).await;
                }
                self.conclude(attempt, answer)
            }
            Ask::Return => {
                let (setting, attempt) = self.take_challenge()?;
                let answer = async { enroll::come_back(gateway, http::parse(body)?, setting).await };
                self.conclude(attempt, answer.await)
            }
            Ask::Recover => {
                let attempt = gateway.callers.limits.attempt(LimitKey::at(self.source), clock::now())?;
                let answer = async {
                    let request: RecoverRequest = http::parse(body)?;
                    Ok(RecoveryBegun { due_at: recover::begin(gateway, request.recovery).await? })
                };
                self.conclude(attempt, answer.await)
            }
            Ask::Show => {
                let attempt = gateway.callers.limits.attempt(LimitKey::at(self.source), clock::now())?;
                let answer = async { show::show(gateway, http::parse(body)?).await };
                self.conclude(attempt, answer.await)
            }
            // A file has no body to be read first: it was handed out before. So was what is carried.
            Ask::File
            | Ask::Carry
            | Ask::CheckIn
            | Ask::Sync
            | Ask::Renew
            | Ask::Leave
            | Ask::Exchange
            | Ask::Control => Err(not_permitted(ask)),
        }
    }

    async fn hear_member(&self, ask: Ask, body: &[u8], peer: &Member) -> Result<Response<Full<Bytes>>, Refusal> {
        let gateway = &self.gateway;
        match ask {
            Ask::CheckIn => Ok(http::reply(&sync::check_in(gateway, peer, http::parse(body)?, self.source).await?)),
            Ask::Sync => Ok(http::reply(&self.sync(peer.clone(), http::parse(body)?).await?)),
            Ask::Renew => {
                let (setting, attempt) = self.take_challenge()?;
                let answer = async { renew::renew(gateway, peer, http::parse(body)?, setting).await };
                self.conclude(attempt, answer.await)
            }
            Ask::Leave => {
                let reply = sync::leave(gateway, peer, http::parse(body)?).await?;
                Ok(http::reply(&reply))
            }
            Ask::Founding
            | Ask::Signers
            | Ask::Head
            | Ask::Trust(_)
            | Ask::File
            | Ask::Challenge
            | Ask::Enroll
            | Ask::Return
            | Ask::Recover
            | Ask::Show
            | Ask::Carry
            | Ask::Exchange
            | Ask::Control => Err(not_permitted(ask)),
        }
    }

    async fn hear_replica(&self, body: &[u8]) -> Result<Response<Full<Bytes>>, Refusal> {
        let member = self.member().await?;
        let request: Result<ExchangeRequest, Refusal> = http::parse(body);
        let needed = request.as_ref().map_or(Caller::Gateway, ExchangeRequest::needs);
        let peer = exchange::check(&self.gateway, &member, needed).await?;
        Ok(http::reply(&exchange::answer(&self.gateway, peer, request?).await?))
    }

    async fn hear_operator(&self, body: &[u8]) -> Result<Response<Full<Bytes>>, Refusal> {
        if !self.post_quantum {
            return Err(Refusal::WeakKeyExchange);
        }
        let admitted = async { control::admit(&self.gateway, &http::parse(body)?, &self.exporter).await };
        let (call, asker) = match admitted.await {
            Ok(admitted) => admitted,
            // Only a bad signature counts: no noise at an operator's address keeps a revocation out.
            Err(refusal) => {
                drop(self.gateway.callers.limits.attempt(LimitKey::at(self.source), clock::now())?);
                return Err(refusal);
            }
        };
        Ok(http::reply(&control::answer(&self.gateway, call, asker).await?))
    }

    /// Enrolls, and if a person must look first, waits for that person as long as the joiner wishes. Whoever waits has not
    /// failed, and may go away meanwhile.
    async fn enroll(
        &self,
        request: EnrollRequest,
        setting: Setting,
        attempt: &mut AttemptGuard,
    ) -> Result<Issued, Refusal> {
        let mut bell = self.gateway.shelf.listen();
        let until = tokio::time::Instant::now() + Duration::from_secs(request.wait.min(LONGEST_APPROVAL_WAIT).0);
        let first = enroll::enroll(&self.gateway, request.clone(), setting).await;
        let Err(waits @ Refusal::AwaitingApproval { .. }) = first else {
            return first;
        };
        attempt.excuse();
        loop {
            let Some(ends) = approve::waits_until(&self.gateway, &request.claim, self.source).await else {
                let answer = enroll::enroll(&self.gateway, request, setting).await;
                if answer.is_ok() {
                    // Others may have waited for the same name, or for the same use.
                    self.gateway.shelf.ring();
                }
                return answer;
            };
            if bell.borrow_and_update().closing || tokio::time::Instant::now() >= until {
                return Err(waits);
            }
            let left = Duration::from_secs(ends.since(clock::now()).0 + 1);
            let until = until.min(tokio::time::Instant::now() + left);
            let _ = tokio::time::timeout_at(until, bell.changed()).await;
        }
    }

    /// Waits with the node. What is true when there is news decides, not what was true when it began to wait.
    async fn sync(&self, peer: Member, mut request: SyncRequest) -> Result<sync::Answer, Refusal> {
        // What is not needed for the answer is not kept while the node waits.
        sync::take_report(&self.gateway, &peer, request.report.take())?;
        let shown = request.tip.take();
        Box::pin(sync::come_in(&self.gateway, &peer, shown.as_ref(), self.source)).await?;
        drop((peer, shown));
        let mut bell = self.gateway.shelf.listen();
        let until = tokio::time::Instant::now() + Duration::from_secs(request.wait.min(LONGEST_WAIT).0);
        loop {
            let rung = *bell.borrow_and_update();
            let over = rung.closing || tokio::time::Instant::now() >= until;
            if let Some(answer) = self.news(&request, over).await? {
                return Ok(answer);
            }
            let _ = tokio::time::timeout_at(until, bell.changed()).await;
        }
    }

    /// Nothing, if there is no news and the node goes on waiting.
    async fn news(&self, request: &SyncRequest, over: bool) -> Result<Option<sync::Answer>, Refusal> {
        let peer = self.member().await?;
        let news = sync::news_for(&self.gateway, &peer, request).await?;
        Ok((over || news.is_new).then_some(news.answer))
    }

    /// The caller as a member, judged by what is true now, not by what was true when it connected.
    async fn member(&self) -> Result<Member, Refusal> {
        let peer = self.peer.as_ref().ok_or_else(|| Refusal::NotPermitted { needed: "member".to_owned() })?;
        if !self.post_quantum {
            return Err(Refusal::WeakKeyExchange);
        }
        let (svid, now) = (self.believe(peer)?, clock::now());
        self.gateway.await_map().await?;
        let state = self.gateway.state().await;
        let record = state.member(&svid.node_key);
        let member = match (Member::recognize(&state, svid), record) {
            (Err(Refusal::Waiting), Some(record)) => return Err(vouch::waits(&self.gateway, &state, record, now)),
            (recognized, _) => recognized?,
        };
        // Users and services talk to their peers; to a gateway their node speaks for them.
        if member.is_the_node() { Ok(member) } else { Err(Refusal::NotPermitted { needed: "node".to_owned() }) }
    }

    fn believe(&self, peer: &ProvenSvid) -> Result<BelievedSvid, Refusal> {
        let judgment = self.gateway.judgment.load();
        let believed = peer.believe(judgment.standard(), judgment.now(clock::now()));
        believed.map_err(|why| match why {
            Untrusted::Revoked { .. } => Refusal::KeyRevoked,
            other => Refusal::NotPermitted { needed: format!("member with a valid SVID ({other})") },
        })
    }

    /// A machine that this ledger does not know may hold the proof that the ledger is too old.
    async fn not_admitted(&self, ask: Ask, body: &[u8]) -> Refusal {
        let tip = if ask == Ask::Sync {
            http::parse::<SyncRequest>(body).ok().and_then(|told| told.tip)
        } else {
            http::parse::<CheckIn>(body).ok().and_then(|told| told.tip)
        };
        self.gateway.confront(tip.as_ref()).await.err().unwrap_or(Refusal::NotAdmitted)
    }

    async fn open_challenge(&self) -> Result<Response<Full<Bytes>>, Refusal> {
        let asker = self
            .member()
            .await
            .map_or_else(|_| LimitKey::at(self.source), |member| LimitKey::Member(member.node_key()));
        let attempt = self.gateway.callers.limits.attempt(asker, clock::now())?;
        match OpenChallenge::new(&self.gateway) {
            Ok((open, told)) => {
                // A second challenge gives the first one up.
                *self.challenge.lock().unwrap_or_else(PoisonError::into_inner) = Some((open, attempt));
                Ok(http::reply(&told))
            }
            Err(refusal) => {
                attempt.forgive();
                Err(refusal)
            }
        }
    }

    /// A challenge is used once, whatever comes of it.
    fn take_challenge(&self) -> Result<(Setting, AttemptGuard), Refusal> {
        let taken = self.challenge.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (challenge, attempt) = taken.ok_or(Refusal::NoChallenge)?;
        Ok((Setting { challenge, exporter: self.exporter, source: self.source }, attempt))
    }

    fn conclude<T: serde::Serialize>(
        &self,
        attempt: AttemptGuard,
        result: Result<T, Refusal>,
    ) -> Result<Response<Full<Bytes>>, Refusal> {
        match &result {
            Err(refusal) if refusal.counts_as_failed() => self.gateway.note_refused(self.source, refusal),
            Ok(_) | Err(_) => attempt.forgive(),
        }
        result.map(|answer| http::reply(&answer))
    }
}

fn not_permitted(ask: Ask) -> Refusal {
    Refusal::NotPermitted { needed: ask.needs().word().to_owned() }
}
