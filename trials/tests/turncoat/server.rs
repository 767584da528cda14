//! A real gateway inside, and somebody before it who holds its keys: every question goes through their hands, every answer, too.
//!
//! Proofs of joiners and calls of operators are bound to the connection on which they come. So it is the gateway's own
//! conversation that answers here, told the secrets of the connection that the liar holds.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use gateway::gateway::Gateway;
use gateway::port::conversation::Conversation;
use gateway::port::endpoint::EndpointCertificate;
use gateway::replicate::peering;
use gateway::store::folder::GatewayFolder;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use identity::certificate;
use identity::envelope::Envelope;
use org::state::State;
use pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use trials::dice::Dice;
use wire::permit::Ask;
use wire::tls::{self, EXPORTER_LABEL};

use super::forge::Hand;
use super::lies::{Mind, Plan};

/// Stops when dropped.
pub struct Turncoat {
    runtime: Option<Runtime>,
    scene: Arc<Scene>,
}

struct Scene {
    gateway: Arc<Gateway>,
    mind: Mutex<Mind>,
}

/// The connection ends without an answer.
#[derive(Debug)]
struct HungUp;

impl std::fmt::Display for HungUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hung up")
    }
}

impl std::error::Error for HungUp {}

impl Turncoat {
    /// Takes the place of a gateway that does not run at present.
    pub fn serve(folder: &GatewayFolder, port: u16, mind: Mind) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let gateway = Arc::new(Gateway::open_to_serve(folder).unwrap());
        let scene = Arc::new(Scene { gateway, mind: Mutex::new(mind) });
        let at = Arc::clone(&scene);
        runtime.block_on(async {
            at.gateway.speak_first().await.unwrap();
            let certificate = Arc::new(EndpointCertificate::make(&at.gateway).unwrap());
            let (judgment, vouched) = (Arc::clone(&at.gateway.judgment), Arc::clone(&at.gateway.vouched));
            let acceptor = TlsAcceptor::from(tls::server(judgment, vouched, certificate).unwrap());
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.unwrap();
            // It goes on to hear what the other gateway has.
            tokio::spawn(peering::keep(Arc::clone(&at.gateway), folder.scope()));
            tokio::spawn(async move {
                while let Ok((stream, source)) = listener.accept().await {
                    tokio::spawn(Arc::clone(&at).entertain(stream, source.ip(), acceptor.clone()));
                }
            });
        });
        Self { runtime: Some(runtime), scene }
    }

    /// Every lie so far, in words.
    pub fn told(&self) -> Vec<String> {
        self.scene.mind().told.clone()
    }

    /// What it does with its keys.
    pub fn by_hand<T>(&self, act: impl FnOnce(&mut Hand) -> T) -> T {
        act(&mut self.scene.mind().hand)
    }

    /// Makes something with the keys that it holds.
    pub fn make(&self, kind: &str, state: &State, dice: &mut Dice) -> Option<Envelope> {
        self.by_hand(|hand| hand.make(kind, state, dice)).map(|(made, _)| made)
    }
}

impl Drop for Turncoat {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

impl Scene {
    fn mind(&self) -> std::sync::MutexGuard<'_, Mind> {
        self.mind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn entertain(self: Arc<Self>, stream: TcpStream, source: IpAddr, acceptor: TlsAcceptor) -> Option<()> {
        stream.set_nodelay(true).ok()?;
        let stream = acceptor.accept(stream).await.ok()?;
        let session = stream.get_ref().1;
        let exporter = session.export_keying_material([0; 32], EXPORTER_LABEL, None).ok()?;
        let chain = session.peer_certificates().unwrap_or_default();
        let caller = name_of(chain).unwrap_or_else(|| "stranger".to_owned());
        let post_quantum = tls::is_post_quantum(session);
        let inside = Conversation::new(Arc::clone(&self.gateway), source, exporter, post_quantum, chain);
        let inside = Arc::new(tokio::sync::Mutex::new(talk_to(inside).await?));
        let service = service_fn(move |request| Arc::clone(&self).hear(Arc::clone(&inside), caller.clone(), request));
        let mut connection = hyper::server::conn::http1::Builder::new();
        connection.timer(TokioTimer::new());
        let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        Some(())
    }

    async fn hear(
        self: Arc<Self>,
        inside: Arc<tokio::sync::Mutex<SendRequest<Full<Bytes>>>>,
        caller: String,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, HungUp> {
        let (head, body) = request.into_parts();
        let ask = Ask::route(head.method.as_str(), head.uri.path());
        let body = body.collect().await.map_err(|_| HungUp)?.to_bytes();
        let plan = ask.map_or(Plan::Hand(body.to_vec()), |ask| self.mind().plan(ask, &caller, &body));
        let (body, changes) = match plan {
            Plan::HangUp => return Err(HungUp),
            Plan::Keep(longer) => {
                tokio::time::sleep(longer).await;
                return Err(HungUp);
            }
            Plan::Say(status, bytes) => return Ok(respond(status, bytes)),
            Plan::Hand(body) => (body, None),
            Plan::Change(body, dice) => (body, Some(dice)),
        };
        let mut question = Request::builder().method(head.method).uri(head.uri);
        for (name, value) in &head.headers {
            if name != hyper::header::CONTENT_LENGTH {
                question = question.header(name, value);
            }
        }
        let question = question.body(Full::new(Bytes::from(body))).map_err(|_| HungUp)?;
        let mut inside = inside.lock().await;
        inside.ready().await.map_err(|_| HungUp)?;
        let answer = inside.send_request(question).await.map_err(|_| HungUp)?;
        let status = answer.status().as_u16();
        let told = answer.into_body().collect().await.map_err(|_| HungUp)?.to_bytes();
        let Some(ask) = ask else { return Ok(respond(status, told.to_vec())) };
        let state = self.gateway.state().await.clone();
        let (told, grown) = self.mind().answer((ask, &caller), told.to_vec(), (changes, &state));
        if let Some(entry) = grown {
            // It stands in its own chain from now on: what it writes next follows it.
            let _ = self.gateway.writer.run(move |desk| desk.merge(vec![entry])).await;
        }
        Ok(respond(status, told))
    }
}

/// The gateway's own conversation, to be talked to without a network.
async fn talk_to(conversation: Conversation) -> Option<SendRequest<Full<Bytes>>> {
    let conversation = Arc::new(conversation);
    let (near, far) = tokio::io::duplex(1 << 16);
    let service = service_fn(move |request| {
        let conversation = Arc::clone(&conversation);
        async move { Ok::<_, Infallible>(conversation.answer(request).await) }
    });
    let answering = hyper::server::conn::http1::Builder::new();
    tokio::spawn(answering.serve_connection(TokioIo::new(far), service));
    let (sender, asking) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await.ok()?;
    tokio::spawn(asking);
    Some(sender)
}

fn respond(status: u16, bytes: Vec<u8>) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(Full::new(Bytes::from(bytes))).unwrap()
}

fn name_of(chain: &[CertificateDer<'_>]) -> Option<String> {
    certificate::read(chain.first()?).ok()?.uris.first().map(ToString::to_string)
}
