//! A gateway that is none: a TLS server in the test that shows the papers it was given and answers nothing else.

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
use wire::permit::Ask;
use wire::sync::Documents;

use crate::stranger::Own;

/// What the impostor shows.
#[derive(Debug, Clone)]
pub struct Papers {
    pub founding: Envelope,
    pub signers: Vec<Envelope>,
    pub head: Envelope,
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
    pub fn serve(port: u16, own: &Own, papers: Papers) -> Self {
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
                let _ = answer(stream.unwrap(), &config, &papers, &counted);
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

fn answer(
    stream: TcpStream,
    config: &Arc<ServerConfig>,
    papers: &Papers,
    secrets: &AtomicUsize,
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
        let head = String::from_utf8_lossy(&head).into_owned();
        let documents = match head.split(' ').nth(1) {
            Some(path) if path == Ask::Founding.path() => vec![papers.founding.clone()],
            Some(path) if path == Ask::Signers.path() => papers.signers.clone(),
            Some(path) if path == Ask::Head.path() => vec![papers.head.clone()],
            _ => {
                secrets.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
        };
        let body = serde_json::to_vec(&Documents { documents }).unwrap();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(&[head.as_bytes(), &body].concat())?;
        stream.flush()?;
    }
}
