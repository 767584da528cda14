//! Carriers that lie: they change bytes, hand on to somebody else, or ask for more than one place.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use trials::client::stranger::{Cut, Dial};
use trials::place::{Place, refused, stderr, succeeded};

use super::{Carrier, founded};

/// Which way a carrier changes a byte, and after how many of the WebSocket's.
#[derive(Debug, Clone, Copy)]
enum Changes {
    Nothing,
    Downward(usize),
    Upward(usize),
}

/// A carrier that ends the outer TLS and sees everything that nginx or Cloudflare would see.
fn carrier(listener: TcpListener, gateway: u16, changes: Changes) {
    let made = rcgen::generate_simple_self_signed(vec!["carrier".to_owned()]).unwrap();
    let key = pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let near = acceptor.accept(stream).await.ok()?;
                    let far = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, gateway)).await.ok()?;
                    let name = pki_types::ServerName::try_from("127.0.0.1").ok()?;
                    let far = TlsConnector::from(wire::tls::carrier().ok()?).connect(name, far).await.ok()?;
                    let ((near_in, near_out), (far_in, far_out)) = (tokio::io::split(near), tokio::io::split(far));
                    let (down, up) = match changes {
                        Changes::Nothing => (None, None),
                        Changes::Downward(after) => (Some(after), None),
                        Changes::Upward(after) => (None, Some(after)),
                    };
                    tokio::join!(pass(far_in, near_out, down), pass(near_in, far_out, up));
                    Some(())
                });
            }
        });
    });
}

/// Passes bytes on; one of those after the opening of the WebSocket is changed.
async fn pass<R, W>(mut from: R, mut to: W, change: Option<usize>)
where
    R: tokio::io::AsyncRead + Unpin,
    W: tokio::io::AsyncWrite + Unpin,
{
    let (mut seen, mut opened, mut buffer) = (Vec::new(), None, [0; 4096]);
    while let Ok(count) = from.read(&mut buffer).await {
        if count == 0 {
            break;
        }
        let bytes = &mut buffer[..count];
        let begins = seen.len();
        seen.extend_from_slice(bytes);
        opened = opened.or_else(|| seen.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4));
        if let (Some(opened), Some(change)) = (opened, change)
            && let Some(byte) = (opened + change).checked_sub(begins).and_then(|at| bytes.get_mut(at))
        {
            *byte ^= 1;
        }
        if to.write_all(bytes).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

#[test]
fn a_carrier_that_changes_a_byte_is_noticed_and_nothing_is_spent() {
    let place = Place::new();
    let honest = TcpListener::bind("127.0.0.1:0").unwrap();
    founded(&place, &format!("wss://{}", honest.local_addr().unwrap()), &[]);
    carrier(honest, place.port, Changes::Nothing);
    let _gateway = place.serve();
    let invite = place.invite(&[]);
    let id = trials::place::text(&invite, "id");
    for changes in [Changes::Downward(700), Changes::Downward(2_500), Changes::Upward(700), Changes::Upward(2_000)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut code: org::invite::code::InviteCode = trials::place::text(&invite, "code").parse().unwrap();
        code.gateways = vec![format!("wss://{}", listener.local_addr().unwrap()).parse().unwrap()];
        carrier(listener, place.port, changes);
        let told = place.join("web-1", &code.encode());
        refused(&told, "is changed on the way");
        assert_eq!(place.spent(&id), 0, "{changes:?}");
    }
    succeeded(&place.join("web-1", &trials::place::text(&invite, "code")));
}

#[test]
fn a_carrier_that_hands_on_to_another_gateway_is_not_believed() {
    let place = Place::new();
    let other = Place::new();
    let nginx = Carrier::nginx(other.port, "").started();
    founded(&place, &nginx.wss(), &[]);
    founded(&other, &nginx.wss(), &[]);
    let _other = other.serve();
    let told = place.join("web-1", &place.code(&[]));
    refused(&told, "is not one of this org's");
    assert!(stderr(&told).contains(&nginx.wss()), "{}", stderr(&told));
}

#[test]
fn nothing_is_carried_inside_of_what_is_carried() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let request = "GET /v1/carry HTTP/1.1\r\nHost: gw\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let at = place.address().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let reply = runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(place.address()).await.unwrap();
        let name = || pki_types::ServerName::try_from("127.0.0.1").unwrap();
        let config = || TlsConnector::from(Dial::to(place.port).config());
        let outer = config().connect(name(), stream).await.unwrap();
        let carried = wire::carry::ask(outer, &at, &identity::principal::CarryPath::default()).await.unwrap();
        let mut inner = config().connect(name(), carried).await.unwrap();
        inner.write_all(request.as_bytes()).await.unwrap();
        let mut reply = vec![0; 4096];
        let count = inner.read(&mut reply).await.unwrap();
        String::from_utf8_lossy(&reply[..count]).into_owned()
    });
    assert!(reply.starts_with("HTTP/1.1 400") && reply.contains("what is carried carries no other"), "{reply}");
    // What speaks neither TLS nor frames inside is closed, and takes nothing with it.
    let mut line = Dial::to(place.port).line();
    line.send(request.as_bytes()).unwrap();
    assert_eq!(line.reply().unwrap().status, 101);
    line.send(b"this is no frame at all, and no TLS either").unwrap();
    assert_eq!(line.reply(), Err(Cut(None)));
}
