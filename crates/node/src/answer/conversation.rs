//! One connection: who asks, what, and whether they may. The way from bytes to an answer and back.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ground::clock;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};
use identity::verifier::{self, BelievedSvid, Side};
use org::refusal::Refusal;
use pki_types::CertificateDer;
use wire::http;
use wire::permit::{Ask, Caller};
use wire::tls::Judgment;

use crate::answer::enroll::{OpenChallenge, Setting};
use crate::answer::gateway::Gateway;
use crate::answer::limits::Asker;
use crate::answer::{control, documents, enroll, renew, sync};

/// A body that does not arrive in this time is given up.
const BODY_TIME: Duration = Duration::from_secs(15);

/// What is known of one connection.
#[derive(Debug)]
pub struct Conversation {
    gateway: Arc<Gateway>,
    source: IpAddr,
    asker: Asker,
    exporter: [u8; 32],
    post_quantum: bool,
    peer: Option<Peer>,
    challenge: Mutex<Option<OpenChallenge>>,
}

/// A caller with a certificate, and the judgment under which it was last believed.
#[derive(Debug)]
struct Peer {
    chain: Vec<CertificateDer<'static>>,
    believed: Mutex<(Arc<Judgment>, BelievedSvid)>,
}

impl Conversation {
    pub fn new(
        gateway: Arc<Gateway>,
        source: IpAddr,
        exporter: [u8; 32],
        post_quantum: bool,
        chain: Vec<CertificateDer<'static>>,
    ) -> Self {
        let judgment = gateway.judgment.load_full();
        let believed = verifier::check_svid(&chain, Side::Client, judgment.standard(), clock::now()).ok();
        let known = believed.as_ref().filter(|svid| gateway.is_member(svid).is_ok());
        let asker = known.map_or_else(|| Asker::stranger(source), |svid| Asker::Member(svid.node_key));
        let peer = believed.map(|believed| Peer { chain, believed: Mutex::new((judgment, believed)) });
        Self { gateway, source, asker, exporter, post_quantum, peer, challenge: Mutex::new(None) }
    }

    /// The member's node key, for the registry.
    pub fn node_key(&self) -> Option<identity::key::PublicKey> {
        let peer = self.peer.as_ref()?;
        Some(peer.believed.lock().unwrap_or_else(PoisonError::into_inner).1.node_key)
    }

    pub async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let Some(ask) = Ask::route(request.method().as_str(), request.uri().path()) else {
            return http::refuse(&Refusal::NotFound { what: request.uri().path().chars().take(80).collect() });
        };
        match self.hear(ask, request).await {
            Ok(response) => response,
            Err(refusal) => {
                tracing::debug!(?ask, source = %self.source, %refusal, "refused");
                http::refuse(&refusal)
            }
        }
    }

    async fn hear(&self, ask: Ask, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Refusal> {
        let late = |_| Refusal::Malformed { why: "the body did not arrive in time".to_owned() };
        let body = tokio::time::timeout(BODY_TIME, http::read(request.into_body(), ask.max_body())).await;
        let body = body.map_err(late)?.map_err(|why| Refusal::Malformed { why: why.to_string() })?;
        match ask.needs() {
            Caller::Stranger => self.hear_stranger(ask, &body).await,
            Caller::Member => {
                let peer = self.member()?;
                self.hear_member(ask, &body, &peer).await
            }
            Caller::Operator => self.hear_operator(&body).await,
        }
    }

    async fn hear_stranger(&self, ask: Ask, body: &[u8]) -> Result<Response<Full<Bytes>>, Refusal> {
        let gateway = &self.gateway;
        match ask {
            Ask::Founding => Ok(http::reply(&documents::founding(gateway))),
            Ask::Signers => Ok(http::reply(&documents::signers(gateway))),
            Ask::Head => Ok(http::reply(&documents::head(gateway)?)),
            Ask::Trust(domain) => Ok(http::reply(&documents::trust(gateway, domain))),
            Ask::Challenge => self.open_challenge(),
            Ask::Enroll => {
                let setting = self.take_challenge()?;
                let answer = async { enroll::enroll(gateway, http::parse(body)?, setting).await };
                self.count(answer.await)
            }
            Ask::Return => {
                let setting = self.take_challenge()?;
                let answer = async { enroll::come_back(gateway, http::parse(body)?, setting).await };
                self.count(answer.await)
            }
            Ask::CheckIn | Ask::Renew | Ask::Leave | Ask::Control => Err(not_permitted(ask)),
        }
    }

    async fn hear_member(&self, ask: Ask, body: &[u8], peer: &BelievedSvid) -> Result<Response<Full<Bytes>>, Refusal> {
        let gateway = &self.gateway;
        match ask {
            Ask::CheckIn => Ok(http::reply(&sync::check_in(gateway, peer, http::parse(body)?).await?)),
            Ask::Renew => {
                let setting = self.take_challenge()?;
                let answer = async { renew::renew(gateway, peer, http::parse(body)?, setting.challenge).await };
                self.count(answer.await)
            }
            Ask::Leave => {
                let reply = sync::leave(gateway, peer, http::parse(body)?).await?;
                Ok(http::reply(&reply))
            }
            Ask::Founding
            | Ask::Signers
            | Ask::Head
            | Ask::Trust(_)
            | Ask::Challenge
            | Ask::Enroll
            | Ask::Return
            | Ask::Control => Err(not_permitted(ask)),
        }
    }

    async fn hear_operator(&self, body: &[u8]) -> Result<Response<Full<Bytes>>, Refusal> {
        if !self.post_quantum {
            return Err(Refusal::WeakKeyExchange);
        }
        let call = http::parse(body).and_then(|signed| control::admit(&self.gateway, &signed, &self.exporter));
        match call {
            // A signature that holds is nobody's guess: no noise at the operator's address keeps a revocation out.
            Ok(call) => Ok(http::reply(&control::answer(&self.gateway, call).await?)),
            Err(refusal) => {
                let now = clock::now();
                self.gateway.limits.open(self.asker, now)?;
                self.gateway.limits.fail(self.asker, now);
                Err(refusal)
            }
        }
    }

    /// The caller as a member, judged by what is true now, not by what was true when it connected.
    fn member(&self) -> Result<BelievedSvid, Refusal> {
        let peer = self.peer.as_ref().ok_or_else(|| Refusal::NotPermitted { needed: "member".to_owned() })?;
        if !self.post_quantum {
            return Err(Refusal::WeakKeyExchange);
        }
        let now = clock::now();
        let judgment = self.gateway.judgment.load_full();
        let mut last = peer.believed.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&last.0, &judgment) || last.1.not_after <= now {
            let fresh = verifier::check_svid(&peer.chain, Side::Client, judgment.standard(), now);
            let fresh = fresh.map_err(|why| match why {
                verifier::Untrusted::Revoked => Refusal::KeyRevoked,
                other => Refusal::NotPermitted { needed: format!("member with a valid SVID ({other})") },
            })?;
            *last = (judgment, fresh);
        }
        self.gateway.is_member(&last.1)?;
        Ok(last.1.clone())
    }

    fn open_challenge(&self) -> Result<Response<Full<Bytes>>, Refusal> {
        // A second challenge gives the first one up.
        self.give_up();
        self.gateway.limits.open(self.asker, clock::now())?;
        let opened = OpenChallenge::new(&self.gateway);
        let (open, told) = opened.inspect_err(|_| self.gateway.limits.succeed(self.asker, clock::now()))?;
        *self.challenge.lock().unwrap_or_else(PoisonError::into_inner) = Some(open);
        Ok(http::reply(&told))
    }

    /// A challenge is used once, whatever comes of it.
    fn take_challenge(&self) -> Result<Setting, Refusal> {
        let challenge = self.challenge.lock().unwrap_or_else(PoisonError::into_inner).take();
        let challenge = challenge.ok_or(Refusal::NoChallenge)?;
        Ok(Setting { challenge, exporter: self.exporter, source: self.source })
    }

    fn count<T: serde::Serialize>(&self, result: Result<T, Refusal>) -> Result<Response<Full<Bytes>>, Refusal> {
        let (limits, now) = (&self.gateway.limits, clock::now());
        match result {
            Ok(answer) => {
                limits.succeed(self.asker, now);
                Ok(http::reply(&answer))
            }
            Err(refusal) if refusal.counts_as_failed() => {
                limits.fail(self.asker, now);
                let (source, what) = (self.source.to_string(), refusal.to_string());
                // Nobody waits for it.
                drop(
                    self.gateway.writer.submit(move |desk| desk.keep(|desk| desk.ledger.observe(now, &source, &what))),
                );
                Err(refusal)
            }
            Err(refusal) => {
                limits.succeed(self.asker, now);
                Err(refusal)
            }
        }
    }

    fn give_up(&self) {
        if self.challenge.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            self.gateway.limits.fail(self.asker, clock::now());
        }
    }
}

impl Drop for Conversation {
    /// An attempt that was begun and not finished counts as failed.
    fn drop(&mut self) {
        self.give_up();
    }
}

fn not_permitted(ask: Ask) -> Refusal {
    Refusal::NotPermitted { needed: ask.needs().word().to_owned() }
}
