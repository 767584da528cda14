//! A gateway that is none, or that was taken over: a TLS server in the test that shows the papers it was given, and
//! answers further questions as it likes.

#![expect(clippy::unwrap_used, reason = "a trial fails by panicking")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use identity::envelope::Envelope;
use pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::crypto::aws_lc_rs;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use wire::known::Known;
use wire::permit::Ask;
use wire::sync::Documents;

use crate::client::stranger::Own;

/// What the impostor shows.
#[derive(Debug, Clone)]
pub struct Papers {
    pub founding: Envelope,
    pub signers: Vec<Envelope>,
    pub head: Envelope,
}

impl Papers {
    /// Those of an org whose signers never changed.
    pub fn of(known: Known) -> Self {
        Self { founding: known.founding.envelope, signers: Vec::new(), head: known.head_envelope }
    }
}

/// Stops when dropped.
#[derive(Debug)]
pub struct Impostor {
    port: u16,
    stop: Arc<AtomicBool>,
    /// Questions that only a believed gateway should hear.
    secrets_heard: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Impostor {
    /// Hangs up on whoever asks for more than papers.
    pub fn serve(port: u16, own: &Own, papers: Papers) -> Self {
        Self::answering(port, own, papers, |_, _| None)
    }

    /// `more` is given path and body, and returns the answer.
    pub fn answering(
        port: u16,
        own: &Own,
        papers: Papers,
        more: impl Fn(&str, &[u8]) -> Option<Value> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.key.pkcs8().to_vec()));
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(own.chain.clone(), key)
            .unwrap();
        let config = Arc::new(config);
        let (stop, heard) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&heard));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                // A caller that hangs up in the middle is what most of these trials are about.
                let _ = answer(stream.unwrap(), &config, |path, body| {
                    show(&papers, path).or_else(|| {
                        counted.fetch_add(1, Ordering::Relaxed);
                        more(path, body)
                    })
                });
            }
        });
        Self { port, stop, secrets_heard: heard, thread: Some(thread) }
    }

    /// How often it was asked something that is only for believed gateways.
    pub fn was_believed(&self) -> bool {
        self.secrets_heard.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the listener.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What any stranger may read, and what anybody is told who knows less than the caller.
fn show(papers: &Papers, path: &str) -> Option<Value> {
    if path == Ask::Show.path() {
        return Some(serde_json::to_value(wire::sync::Done {}).unwrap());
    }
    let documents = if path == Ask::Founding.path() {
        vec![papers.founding.clone()]
    } else if path == Ask::Signers.path() {
        papers.signers.clone()
    } else if path == Ask::Head.path() {
        vec![papers.head.clone()]
    } else {
        return None;
    };
    Some(serde_json::to_value(Documents { documents }).unwrap())
}

fn answer(
    stream: TcpStream,
    config: &Arc<ServerConfig>,
    reply: impl Fn(&str, &[u8]) -> Option<Value>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_nodelay(true)?;
    let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(config)).unwrap(), stream);
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.extend_from_slice(&byte);
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body)?;
        let Some(told) = reply(head.split(' ').nth(1).unwrap_or_default(), &body) else {
            return Ok(());
        };
        let body = told.to_string();
        let length = body.len();
        // A refusal is known by its code.
        let status = if told.get("code").is_some() { "409 Conflict" } else { "200 OK" };
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(format!("{head}{body}").as_bytes())?;
        stream.flush()?;
    }
}
