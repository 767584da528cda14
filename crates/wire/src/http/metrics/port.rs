//! The port that shows numbers: `GET /metrics`, few callers at a time, nothing else.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Scrapers come one or two at a time, once in a while.
const CALLERS: usize = 8;
const CALL_TIME: Duration = Duration::from_secs(10);
const MAX_HEADER_BYTES: usize = 8 << 10;

/// Where to show them: nowhere, or at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Shown {
    Off,
    At(SocketAddr),
}

impl FromStr for Shown {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let bad = |_| format!("`{text}` is neither `off` nor an address with a port, like 127.0.0.1:7444");
        text.parse().map(Self::At).map_err(bad)
    }
}

impl TryFrom<String> for Shown {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Shown> for String {
    fn from(shown: Shown) -> Self {
        match shown {
            Shown::Off => "off".to_owned(),
            Shown::At(address) => address.to_string(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum NoPort {
    #[error("metrics on {0} could be read by others than this machine: there is neither TLS nor a password")]
    Exposed(SocketAddr),
    #[error("cannot show metrics on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
}

impl NoPort {
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Exposed(_) => "use 127.0.0.1 or [::1]; if others are meant to read them, add --metrics-open",
            Self::Listen { .. } => "choose another: --metrics ADDR:PORT",
        }
    }
}

impl Shown {
    /// The address, if it is this machine's alone or `open` says that others may read too.
    pub fn checked(self, open: bool) -> Result<Option<SocketAddr>, NoPort> {
        match self {
            Self::Off => Ok(None),
            Self::At(address) if open || address.ip().to_canonical().is_loopback() => Ok(Some(address)),
            Self::At(address) => Err(NoPort::Exposed(address)),
        }
    }
}

/// Opens the port, if there is to be one.
pub async fn listen(address: Option<SocketAddr>) -> Result<Option<TcpListener>, NoPort> {
    let Some(address) = address else {
        return Ok(None);
    };
    let listener = TcpListener::bind(address).await.map_err(|source| NoPort::Listen { address, source })?;
    tracing::info!(address = %listener.local_addr().unwrap_or(address), "shows metrics");
    Ok(Some(listener))
}

/// Answers for ever. Who comes when all places are taken is turned away at once.
pub async fn answer<R>(listener: TcpListener, render: impl Fn() -> R + Clone + Send + Sync + 'static)
where
    R: Future<Output = String> + Send,
{
    let places = Arc::new(Semaphore::new(CALLERS));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
                    let render = render.clone();
                    tokio::spawn(async move {
                        let _ = timeout(CALL_TIME, call(stream, render)).await;
                        drop(place);
                    });
                }
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn call<R: Future<Output = String>>(stream: TcpStream, render: impl Fn() -> R) {
    let service = service_fn(|request: Request<Incoming>| {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let render = &render;
        async move {
            let response = match (path.as_str(), method) {
                ("/metrics", hyper::Method::GET) => page(render().await),
                ("/metrics", _) => no(StatusCode::METHOD_NOT_ALLOWED),
                _ => no(StatusCode::NOT_FOUND),
            };
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(CALL_TIME)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let _ = connection.await;
}

fn page(text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn no(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"only GET /metrics\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    response
}
