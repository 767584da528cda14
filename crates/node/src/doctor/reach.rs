//! Whether a gateway answers where it should: connected, believed, and what it shows of itself.

use std::io;
use std::time::Duration;

use identity::bundle::{Endpoint, Roots};
use identity::causes::describe;
use identity::certificate;
use identity::principal::Way;
use identity::time::Timestamp;
use org::refusal::Refusal;
use pki_types::ServerName;
use terminal::failure::way_out;
use terminal::finding::Finding;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use wire::carry::way;
use wire::connect::{Anchor, CallError, GatewayAddress, Provisional};
use wire::known::Known;
use wire::tls::{self, Expect, OwnSvid};

const LOOK_TIME: Duration = Duration::from_secs(10);
const MAX_HEADERS: u64 = 16 << 10;

/// A gateway that was believed.
#[derive(Debug)]
pub struct Seen {
    /// The head that it shows.
    pub head: u64,
    /// When its certificate ends, and what time it is there.
    pub certificate_until: Option<Timestamp>,
    pub date: Option<Timestamp>,
}

/// The whole conversation that every caller has before it asks something. What is learned by it is not kept.
pub async fn reach(
    gateway: &GatewayAddress,
    roots: &Roots<Endpoint>,
    known: &Known,
    own: Option<&OwnSvid>,
) -> Result<Seen, CallError> {
    let expect = Expect::RootsSince(roots.clone(), known.head.head.issued_at);
    // Without the last word of its ledger: to be shown its future would stop a gateway, and a doctor only looks.
    let (_, newer) = Provisional::dial(gateway, &expect, own).await?.believe(Anchor::Known(known, None)).await?;
    let shown = timeout(LOOK_TIME, glimpse(gateway, expect)).await.ok().and_then(Result::ok);
    let (certificate_until, date) = shown.unwrap_or_default();
    Ok(Seen { head: newer.head.head.version, certificate_until, date })
}

/// Its certificate's end and its clock, from one plain request.
async fn glimpse(gateway: &GatewayAddress, expect: Expect) -> io::Result<(Option<Timestamp>, Option<Timestamp>)> {
    let host = &gateway.address.host;
    let stream = way::open(&gateway.address, gateway.dial).await.map_err(io::Error::other)?;
    let config = tls::client(expect, host.clone(), None).map_err(io::Error::other)?;
    let name = ServerName::try_from(host.to_string()).map_err(io::Error::other)?;
    let mut stream = TlsConnector::from(config).connect(name, stream).await?;
    let leaf = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let until = leaf.and_then(|leaf| certificate::read(leaf).ok()).map(|read| read.validity.not_after);
    let request =
        format!("GET /v1/head HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", gateway.address.host_port());
    stream.write_all(request.as_bytes()).await?;
    let mut reply = Vec::new();
    stream.take(MAX_HEADERS).read_to_end(&mut reply).await?;
    Ok((until, date_in(&String::from_utf8_lossy(&reply))))
}

/// The `Date` line of an HTTP reply.
fn date_in(reply: &str) -> Option<Timestamp> {
    let line = reply.lines().take_while(|line| !line.is_empty()).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("date").then_some(value)
    })?;
    Timestamp::from_http(line)
}

/// What came of it, in a line.
pub(crate) fn finding(gateway: &GatewayAddress, outcome: &Result<Seen, CallError>) -> Finding {
    let address = &gateway.address;
    match outcome {
        Ok(seen) => {
            let way = way_in_words(gateway);
            Finding::ok("gateway", format!("{address} answers {way}, is one of this org's, and has head {}", seen.head))
        }
        Err(why) => Finding::wrong("gateway", describe(why), cure(why)),
    }
}

fn way_in_words(gateway: &GatewayAddress) -> String {
    match &gateway.address.way {
        _ if gateway.dial.is_some() => "directly".to_owned(),
        Way::Direct => "directly".to_owned(),
        Way::WebSocket { .. } => "inside a WebSocket".to_owned(),
        Way::Socks5 { proxy } => format!("by the SOCKS5 proxy at {proxy}"),
    }
}

fn cure(why: &CallError) -> String {
    match why {
        CallError::Unreachable { address, source } => unreachable(address.port, source),
        CallError::NotCarried { source, .. } => source.hint().to_owned(),
        CallError::Tampered { .. } => {
            "something between changes bytes: take another way (another gateway address), or mend what carries them"
                .to_owned()
        }
        CallError::Silent { .. } => {
            "a firewall or a router swallows it: open the port on every way there; the name may also lead elsewhere".to_owned()
        }
        CallError::NotAGateway { .. }
        | CallError::NotBelieved { .. }
        | CallError::NotInForce { .. }
        | CallError::ClocksApart { .. } => way_out(why).unwrap_or_default(),
        CallError::NotAccepted { .. } => {
            "the gateway does not take this machine's SVID: an operator looks with freehold node show; if a clock is wrong, `clock` here says what is known of it"
                .to_owned()
        }
        CallError::BrokenOff { .. } => "try again; if it stays, the gateway's log says why".to_owned(),
        CallError::Knowledge { .. } => {
            "the gateway's word contradicts what was signed: was it restored from an old copy? Its operator puts back the newest"
                .to_owned()
        }
        CallError::Unreadable { .. } => "is that a gateway of another version? Upgrade the older one".to_owned(),
        CallError::Refused(refusal) => refused(refusal),
        CallError::Setup(_) => "this program cannot do TLS here: install it afresh".to_owned(),
    }
}

fn unreachable(port: u16, source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("start the gateway there: freehold serve; if it runs, is port {port} forwarded to it?")
        }
        _ if source.raw_os_error().is_none() => "the name does not lead anywhere: mend DNS, or /etc/hosts".to_owned(),
        _ => "there is no way to that address: look at routes and firewalls".to_owned(),
    }
}

fn refused(refusal: &Refusal) -> String {
    refusal.hint().unwrap_or("the gateway's log says more").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_says_what_time_it_is_there() {
        let reply = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\ndate: Sun, 15 Nov 2026 10:38:54 GMT\r\n\r\ndate: no";
        assert_eq!(date_in(reply).map(|at| at.to_string()).as_deref(), Some("2026-11-15T10:38:54Z"));
        for silent in ["", "HTTP/1.1 200 OK\r\n\r\ndate: Sun, 15 Nov 2026 10:38:54 GMT", "date: yesterday\r\n\r\n"] {
            assert_eq!(date_in(silent), None, "{silent}");
        }
    }
}
