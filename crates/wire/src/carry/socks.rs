//! Asking a SOCKS5 proxy (RFC 1928) for a way to a gateway. The proxy looks the name up: so onion services are reached.

use std::io;
use std::net::IpAddr;

use identity::principal::{Host, HostPort};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NONE_OF_THESE: u8 = 0xff;
const CONNECT: u8 = 1;

/// Why a proxy did not connect.
#[derive(Debug, thiserror::Error)]
pub enum NoSocks {
    #[error("it does not speak SOCKS5")]
    OtherTongue,
    #[error("it wants a user and a password")]
    WantsPassword,
    #[error("it broke off")]
    BrokenOff(#[source] io::Error),
    #[error("it failed, and does not say why")]
    Failed,
    #[error("its rules do not allow that address")]
    NotAllowed,
    #[error("it cannot reach that network")]
    NetworkUnreachable,
    #[error("it cannot find or reach that host")]
    HostUnreachable,
    #[error("the connection was refused there: nothing listens")]
    ConnectionRefused,
    #[error("the way there took too long")]
    TimedOut,
    #[error("it cannot open connections for others")]
    NoConnect,
    #[error("it cannot reach addresses of that kind")]
    NoSuchKind,
    #[error("it answered {0}, which means nothing")]
    Unknown(u8),
}

/// Has the proxy at the other end of this stream connect it to a host.
pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, to: &HostPort) -> Result<(), NoSocks> {
    stream.write_all(&[VERSION, 1, NO_AUTHENTICATION]).await.map_err(NoSocks::BrokenOff)?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).await.map_err(NoSocks::BrokenOff)?;
    match chosen {
        [VERSION, NO_AUTHENTICATION] => {}
        [VERSION, NONE_OF_THESE] => return Err(NoSocks::WantsPassword),
        _ => return Err(NoSocks::OtherTongue),
    }
    stream.write_all(&request(to)).await.map_err(NoSocks::BrokenOff)?;
    let mut reply = [0; 4];
    stream.read_exact(&mut reply).await.map_err(NoSocks::BrokenOff)?;
    let [VERSION, outcome, _, kind] = reply else {
        return Err(NoSocks::OtherTongue);
    };
    check(outcome)?;
    // Where the proxy itself stands is of no use here; it is read so that what follows is the gateway's.
    let length = match kind {
        1 => 4,
        3 => usize::from(stream.read_u8().await.map_err(NoSocks::BrokenOff)?),
        4 => 16,
        _ => return Err(NoSocks::OtherTongue),
    };
    let mut bound = vec![0; length + 2];
    stream.read_exact(&mut bound).await.map(drop).map_err(NoSocks::BrokenOff)
}

fn request(to: &HostPort) -> Vec<u8> {
    let mut out = vec![VERSION, CONNECT, 0];
    match &to.host {
        Host::Ip(IpAddr::V4(ip)) => {
            out.push(1);
            out.extend_from_slice(&ip.octets());
        }
        Host::Ip(IpAddr::V6(ip)) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        Host::Dns(name) => {
            // A host's name is never longer than a byte can tell.
            out.extend_from_slice(&[3, u8::try_from(name.len()).unwrap_or(u8::MAX)]);
            out.extend_from_slice(name.as_bytes());
        }
    }
    out.extend_from_slice(&to.port.to_be_bytes());
    out
}

const fn check(outcome: u8) -> Result<(), NoSocks> {
    Err(match outcome {
        0 => return Ok(()),
        1 => NoSocks::Failed,
        2 => NoSocks::NotAllowed,
        3 => NoSocks::NetworkUnreachable,
        4 => NoSocks::HostUnreachable,
        5 => NoSocks::ConnectionRefused,
        6 => NoSocks::TimedOut,
        7 => NoSocks::NoConnect,
        8 => NoSocks::NoSuchKind,
        other => NoSocks::Unknown(other),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokio::io::duplex;

    use super::*;

    /// What a proxy that answers with these bytes is told, and what comes of it.
    async fn asked(to: &str, replies: &[u8]) -> (Vec<u8>, Result<(), NoSocks>) {
        let (mut near, mut far) = duplex(1 << 10);
        far.write_all(replies).await.unwrap();
        far.shutdown().await.unwrap();
        let outcome = connect(&mut near, &to.parse().unwrap()).await;
        drop(near);
        let mut told = Vec::new();
        far.read_to_end(&mut told).await.unwrap();
        (told, outcome)
    }

    #[tokio::test]
    async fn a_name_is_left_to_the_proxy_and_an_address_is_not() {
        let good = [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for (to, kind) in [
            ("abc.onion:7443", b"\x03\x09abc.onion".as_slice()),
            ("192.0.2.1:7443", &[1, 192, 0, 2, 1]),
            ("[::1]:7443", &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ] {
            let (told, outcome) = asked(to, &good).await;
            assert!(outcome.is_ok(), "{to}: {outcome:?}");
            assert_eq!(told, [&[5, 1, 0, 5, 1, 0], kind, &7443_u16.to_be_bytes()].concat(), "{to}");
        }
    }

    #[tokio::test]
    async fn each_reply_has_words_of_its_own() {
        let mut words = BTreeSet::new();
        for outcome in 1..=9 {
            let (_, told) = asked("gw.example:1", &[5, 0, 5, outcome, 0, 1, 0, 0, 0, 0, 0, 0]).await;
            words.insert(told.unwrap_err().to_string());
        }
        assert_eq!(words.len(), 9, "{words:?}");
    }

    #[tokio::test]
    async fn what_is_no_socks_proxy_is_named() {
        assert!(matches!(asked("a:1", b"HTTP/1.1 400").await.1, Err(NoSocks::OtherTongue)));
        assert!(matches!(asked("a:1", &[5, 0xff]).await.1, Err(NoSocks::WantsPassword)));
        assert!(matches!(asked("a:1", &[5, 0, 4, 0, 0, 1]).await.1, Err(NoSocks::OtherTongue)));
        assert!(matches!(asked("a:1", &[5, 0, 5, 0, 0, 9]).await.1, Err(NoSocks::OtherTongue)));
        assert!(matches!(asked("a:1", &[5, 0, 5, 0, 0, 3, 255]).await.1, Err(NoSocks::BrokenOff(_))));
        assert!(matches!(asked("a:1", &[]).await.1, Err(NoSocks::BrokenOff(_))));
    }
}
