//! A stream inside a WebSocket, and how the two ends agree on one. Whoever carries it is trusted with nothing: TLS to
//! the gateway goes on inside.

pub mod frame;
pub mod socks;
pub mod proxied;
pub mod way;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use aws_lc_rs::digest;
use bytes::Bytes;
use ground::random;
use http_body_util::{Empty, Full};
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use identity::principal::{CarryPath, HostPort};
use identity::text::{base64, from_base64};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::carry::frame::{Decoder, FrameKind, From, encode};

const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
const VERSION: HeaderName = HeaderName::from_static("sec-websocket-version");
/// RFC 6455, 1.3.
const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What one frame carries at most: a TLS record and a little.
const MAX_PAYLOAD: usize = 17 << 10;
/// Carriers end what is silent for a minute or so; a node waits longer than that for news.
const PING_EVERY: Duration = Duration::from_secs(20);

/// What both ends speak TLS over.
pub type Carried = WebSocket<TokioIo<Upgraded>>;

/// Why a carrier did not hand a WebSocket on.
#[derive(Debug, thiserror::Error)]
pub enum NoSocket {
    #[error("it answered {0} instead of opening a WebSocket")]
    Status(StatusCode),
    #[error("it opened something else than the WebSocket that was asked for")]
    OtherSocket,
    #[error("it broke off while a WebSocket was opened")]
    BrokenOff,
}

/// Asks for a WebSocket on a stream that a carrier answers.
pub async fn ask<S>(stream: S, at: &HostPort, path: &CarryPath) -> Result<Carried, NoSocket>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |_| NoSocket::BrokenOff;
    let key = base64(&random::bytes::<16>().map_err(|_| NoSocket::BrokenOff)?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(connection.with_upgrades());
    let request = hyper::Request::builder()
        .uri(path.as_str())
        .header(HOST, at.to_string())
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(VERSION, "13")
        .header(KEY, &key)
        .body(Empty::<Bytes>::new())
        .map_err(|_| NoSocket::BrokenOff)?;
    let response = sender.send_request(request).await.map_err(broken)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(NoSocket::Status(response.status()));
    }
    if response.headers().get(ACCEPT).is_none_or(|accept| accept.as_bytes() != answer_to(&key).as_bytes()) {
        return Err(NoSocket::OtherSocket);
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(broken)?;
    Ok(WebSocket::new(TokioIo::new(upgraded), From::Server))
}

/// The answer to a request for a WebSocket, or what is wrong with it.
pub fn agree(headers: &HeaderMap) -> Result<Response<Full<Bytes>>, &'static str> {
    let has = |name: HeaderName, word: &str| {
        let said = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        said.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    if !has(UPGRADE, "websocket") || !has(CONNECTION, "upgrade") {
        return Err(
            "this is where WebSockets begin: the headers `Upgrade: websocket` and `Connection: upgrade` are missing",
        );
    }
    if !has(VERSION, "13") {
        return Err("only WebSockets of version 13 are spoken here");
    }
    let key = headers.get(KEY).and_then(|key| key.to_str().ok()).map(str::trim);
    let key = key.filter(|key| key.len() == 24 && from_base64(key).is_ok_and(|key| key.len() == 16));
    let key = key.ok_or("the header `Sec-WebSocket-Key` is missing or not 16 bytes in base64")?;
    let accept = HeaderValue::try_from(answer_to(key)).map_err(|_| "the key cannot be answered")?;
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let said = response.headers_mut();
    said.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    said.insert(UPGRADE, HeaderValue::from_static("websocket"));
    said.insert(ACCEPT, accept);
    Ok(response)
}

fn answer_to(key: &str) -> String {
    // Not a matter of secrecy: it shows that the other end has read the request as one for a WebSocket.
    let mut sum = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    sum.update(key.as_bytes());
    sum.update(MAGIC);
    base64(sum.finish().as_ref())
}

/// A stream of bytes in binary frames.
#[derive(Debug)]
pub struct WebSocket<S> {
    inner: S,
    decoder: Decoder,
    /// Frames that are not written yet, from `sent` on. Only one of data at a time.
    out: Vec<u8>,
    sent: usize,
    has_closed: bool,
    /// A client's next sign of life.
    ping: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// `from`: who sends what is read here.
    pub fn new(inner: S, from: From) -> Self {
        let ping = (from == From::Server).then(|| Box::pin(sleep(PING_EVERY)));
        Self { inner, decoder: Decoder::new(from), out: Vec::new(), sent: 0, has_closed: false, ping }
    }

    fn put(&mut self, kind: FrameKind, payload: &[u8]) -> io::Result<()> {
        let mask = self.ping.as_ref().map(|_| random::bytes()).transpose().map_err(io::Error::other)?;
        encode(&mut self.out, kind, mask, payload);
        Ok(())
    }

    /// Writes what waits.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.out.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.inner).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        // Thousands of connections rest: none keeps room for what it has sent.
        (self.out, self.sent) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }

    /// Signs of life, ours and the answers to theirs. One that finds no room is left out: there is life enough.
    fn keep_alive(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while let Some(ping) = &mut self.ping
            && ping.as_mut().poll(cx).is_ready()
        {
            ping.as_mut().reset(Instant::now() + PING_EVERY);
            if self.out.is_empty() {
                self.put(FrameKind::Ping, &[])?;
            }
        }
        if let Some(said) = self.decoder.take_ping()
            && self.out.is_empty()
        {
            self.put(FrameKind::Pong, &said)?;
        }
        if !self.out.is_empty()
            && let Poll::Ready(written) = self.drain(cx)
        {
            written?;
            // Whatever lies below is asked again by whoever writes next.
            let _ = Pin::new(&mut self.inner).poll_flush(cx)?;
        }
        Ok(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocket<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            this.keep_alive(cx)?;
            if this.decoder.is_closed() || buf.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let mut raw = ReadBuf::new(buf.initialize_unfilled());
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut raw))?;
            if raw.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            let carried = this.decoder.decode(raw.filled_mut());
            let carried = carried.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
            if carried > 0 {
                buf.advance(carried);
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocket<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.drain(cx))?;
        let now = bytes.get(..MAX_PAYLOAD).unwrap_or(bytes);
        this.put(FrameKind::Data, now)?;
        if let Poll::Ready(written) = this.drain(cx) {
            written?;
        }
        Poll::Ready(Ok(now.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.drain(cx))?;
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.has_closed {
            this.has_closed = true;
            this.put(FrameKind::Close, &1000_u16.to_be_bytes())?;
        }
        ready!(this.drain(cx))?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[test]
    fn the_answer_to_a_key_is_that_of_the_standard() {
        assert_eq!(answer_to("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "RFC 6455, 1.3");
    }

    #[test]
    fn a_request_for_a_websocket_is_whole_or_refused() {
        let good = [
            ("upgrade", "WebSocket"),
            ("connection", "keep-alive, Upgrade"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let headers = |pairs: &[(&'static str, &'static str)]| {
            pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
        };
        assert_eq!(agree(&headers(&good)).unwrap().status(), StatusCode::SWITCHING_PROTOCOLS);
        for missing in 0..good.len() {
            let mut some = good.to_vec();
            some.remove(missing);
            assert!(agree(&headers(&some)).is_err(), "without {:?}", good[missing]);
        }
        for key in ["", "dGhlIHNhbXBsZSBub25jZQ", "????????????????????????", "dGhlIHNhbXBsZSBub25jZSE="] {
            let mut bad = good;
            bad[3].1 = key;
            assert!(agree(&headers(&bad)).is_err(), "{key}");
        }
    }

    #[tokio::test]
    async fn both_ends_hear_what_the_other_says_however_small_the_pipe_is() {
        let (near, far) = duplex(7);
        let (mut near, mut far) = (WebSocket::new(near, From::Server), WebSocket::new(far, From::Client));
        let sent: Vec<u8> = (0..100_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let echo = tokio::spawn(async move {
            let mut heard = vec![0; 100_000];
            far.read_exact(&mut heard).await.unwrap();
            far.write_all(&heard).await.unwrap();
            far.shutdown().await.unwrap();
        });
        near.write_all(&sent).await.unwrap();
        near.flush().await.unwrap();
        let mut heard = Vec::new();
        near.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, sent);
        echo.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_waits_gives_signs_of_life_and_they_are_answered() {
        let (near, middle) = duplex(1 << 16);
        let (mut carrier, far) = (middle, duplex(1 << 16));
        let mut near = WebSocket::new(near, From::Server);
        let waiting = tokio::spawn(async move { near.read_u8().await });
        let mut frame = [0; 6];
        carrier.read_exact(&mut frame).await.unwrap();
        assert_eq!(frame[..2], [0x89, 0x80], "a masked ping");
        let mut gateway = WebSocket::new(far.0, From::Client);
        tokio::spawn(async move { gateway.read_u8().await });
        let mut other = far.1;
        other.write_all(&frame).await.unwrap();
        let mut answer = [0; 2];
        other.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, [0x8a, 0], "a bare pong");
        carrier.write_all(&answer).await.unwrap();
        carrier.write_all(&[0x82, 1, 7]).await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), 7);
    }

    #[tokio::test]
    async fn a_flood_of_pings_that_nobody_reads_the_answers_to_takes_no_room() {
        let (mut noisy, pipe) = duplex(1 << 10);
        let mut gateway = WebSocket::new(pipe, From::Client);
        let flood = tokio::spawn(async move {
            let mut ping = Vec::new();
            encode(&mut ping, FrameKind::Ping, Some([1; 4]), &[b'x'; 125]);
            for _ in 0..10_000 {
                noisy.write_all(&ping).await.unwrap();
            }
            let mut last = Vec::new();
            encode(&mut last, FrameKind::Data, Some([1; 4]), b"!");
            noisy.write_all(&last).await.unwrap();
            noisy
        });
        assert_eq!(gateway.read_u8().await.unwrap(), b'!');
        assert!(gateway.out.capacity() < 1 << 10, "{}", gateway.out.capacity());
        drop(flood.await.unwrap());
    }
}
