//! A light caller for many connections at once from one process: what a load generator spends is not the gateway's.

use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use org::refusal::Refusal;
use pki_types::{CertificateDer, ServerName};
use rustls::ClientConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use wire::permit::{Ask, Method};
use wire::tls::EXPORTER_LABEL;

#[derive(Debug)]
pub struct Caller {
    stream: TlsStream<TcpStream>,
    pub exporter: [u8; 32],
    buffer: Vec<u8>,
}

/// Source addresses to call from: every number has its own, until they come round.
pub const fn address(number: usize) -> Ipv4Addr {
    let [.., high, low] = number.to_be_bytes();
    Ipv4Addr::new(127, 16 + high % 64, low, 9)
}

impl Caller {
    pub async fn dial(port: u16, source: Ipv4Addr, config: Arc<ClientConfig>) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        let stream = socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST).into());
        let stream = TlsConnector::from(config).connect(name, stream).await?;
        let exporter = stream.get_ref().1.export_keying_material([0; 32], EXPORTER_LABEL, None);
        Ok(Self { exporter: exporter.map_err(Error::other)?, stream, buffer: Vec::new() })
    }

    /// The certificates that the other side showed.
    pub fn shown(&self) -> Vec<CertificateDer<'static>> {
        let session = self.stream.get_ref().1;
        session.peer_certificates().unwrap_or_default().iter().map(|shown| shown.clone().into_owned()).collect()
    }

    /// Asks; a refusal is an answer too.
    pub async fn ask<Q: Serialize, A: DeserializeOwned>(
        &mut self,
        ask: Ask,
        question: &Q,
    ) -> Result<std::result::Result<A, Refusal>> {
        self.ask_with(ask, &serde_json::to_vec(question)?).await
    }

    /// With a body that was made earlier.
    pub async fn ask_with<A: DeserializeOwned>(
        &mut self,
        ask: Ask,
        body: &[u8],
    ) -> Result<std::result::Result<A, Refusal>> {
        let (method, body) = match ask.method() {
            Method::Get => ("GET", &[] as &[u8]),
            Method::Post => ("POST", body),
        };
        let mut request =
            format!("{method} {} HTTP/1.1\r\nhost: gateway\r\ncontent-length: {}\r\n\r\n", ask.path(), body.len())
                .into_bytes();
        request.extend_from_slice(body);
        self.stream.write_all(&request).await?;
        self.stream.flush().await?;
        let (status, body) = self.reply().await?;
        Ok(if status == 200 { Ok(serde_json::from_slice(&body)?) } else { Err(serde_json::from_slice(&body)?) })
    }

    async fn reply(&mut self) -> Result<(u16, Vec<u8>)> {
        let odd = || Error::new(ErrorKind::InvalidData, "not an HTTP answer");
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.read_more().await?;
        };
        let head = String::from_utf8_lossy(self.buffer.get(..end).unwrap_or_default()).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or_else(odd)?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.unwrap_or("0").parse().map_err(|_| odd())?;
        while self.buffer.len() < end + length {
            self.read_more().await?;
        }
        let body = self.buffer.get(end..end + length).unwrap_or_default().to_vec();
        self.buffer.drain(..end + length);
        Ok((status, body))
    }

    async fn read_more(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}
