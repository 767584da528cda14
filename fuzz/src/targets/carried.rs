//! What carriers send before TLS begins: requests for a WebSocket, its frames, and PROXY headers. All at once or byte by
//! byte, it says the same.

use std::net::{Ipv4Addr, SocketAddr};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use tunnel::stream::proxy_header;
use wire::carry::agree;
use wire::carry::frame::{Decoder, FrameKind, From, encode};
use wire::carry::proxied::{Read, Whose, parse};

/// What makes a request one for a WebSocket.
const ASKED: [&str; 4] = ["upgrade", "connection", "sec-websocket-version", "sec-websocket-key"];

pub fn seeds() -> Vec<Vec<u8>> {
    let mut masked = vec![b'c'];
    encode(&mut masked, FrameKind::Ping, Some([1, 2, 3, 4]), b"there?");
    encode(&mut masked, FrameKind::Data, Some([5, 6, 7, 8]), &[b'x'; 300]);
    encode(&mut masked, FrameKind::Close, Some([9; 4]), &[3, 232]);
    let mut bare = vec![b's'];
    encode(&mut bare, FrameKind::Data, None, b"a");
    encode(&mut bare, FrameKind::Pong, None, b"");
    encode(&mut bare, FrameKind::Data, None, &[b'y'; 70_000]);
    bare.truncate(10_000);
    let second =
        [b"p\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c".as_slice(), &[192, 0, 2, 1, 192, 0, 2, 2, 0, 1, 0, 2]].concat();
    let local = b"p\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00".to_vec();
    let first = b"pPROXY TCP6 2001:db8::1 ::1 65535 2\r\n".to_vec();
    vec![
        masked,
        bare,
        second,
        local,
        first,
        b"pPROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n".to_vec(),
        b"pPROXY UNKNOWN\r\n".to_vec(),
        b"hUpgrade: websocket\nConnection: keep-alive, Upgrade\nSec-WebSocket-Version: 13\n\
          Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n"
            .to_vec(),
    ]
}

/// Frames of a client after `c`, of a server after `s`, headers after `h`, a PROXY header after anything else.
pub fn check(data: &[u8]) -> bool {
    match data.split_first() {
        Some((b'c', frames)) => decodes(From::Client, frames),
        Some((b's', frames)) => decodes(From::Server, frames),
        Some((b'h', lines)) => agrees(lines),
        Some((_, header)) => introduces(header),
        None => false,
    }
}

fn decodes(from: From, frames: &[u8]) -> bool {
    let run = |size: usize| {
        let (mut decoder, mut carried) = (Decoder::new(from), Vec::new());
        for piece in frames.chunks(size) {
            let mut piece = piece.to_vec();
            match decoder.decode(&mut piece) {
                Ok(count) => carried.extend_from_slice(&piece[..count]),
                Err(why) => return Err(why),
            }
        }
        Ok((carried, decoder.take_ping(), decoder.is_closed()))
    };
    let whole = run(frames.len().max(1));
    assert_eq!(whole, run(1), "byte by byte it is the same");
    assert_eq!(whole, run(7), "in pieces it is the same");
    let Ok((carried, ping, _)) = whole else {
        return false;
    };
    assert!(carried.len() <= frames.len(), "nothing comes from nowhere");
    assert!(ping.is_none_or(|ping| ping.len() <= 125), "a ping is short");
    // What came out goes in again.
    let mut again = Vec::new();
    encode(&mut again, FrameKind::Data, (from == From::Client).then_some([7; 4]), &carried);
    let count = Decoder::new(from).decode(&mut again).expect("our own frame");
    assert_eq!(&again[..count], carried.as_slice());
    true
}

/// A request, by its headers: one that is answered has all that makes it one.
fn agrees(lines: &[u8]) -> bool {
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n').take(64) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let parsed = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value.trim_ascii()));
        if let (Ok(name), Ok(value)) = parsed {
            headers.append(name, value);
        }
    }
    let Ok(answer) = agree(&headers) else {
        return false;
    };
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.headers()["sec-websocket-accept"].len(), 28, "a sum, and nothing of the request");
    for name in ASKED {
        let mut less = headers.clone();
        less.remove(name);
        assert!(agree(&less).is_err(), "without `{name}`");
    }
    true
}

/// What the tunnel tells a service of this caller is read as the same caller.
fn passes_on(caller: std::net::IpAddr) {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
    let (who, node) = ("spiffe://harbor/user/ann".parse().expect("an id"), "web-1".parse().expect("a name"));
    let told = proxy_header::v2(Some(SocketAddr::new(caller, 9)), at, &who, &node);
    let Ok(Read::Whole(Whose::Client(read))) = parse(&told) else {
        panic!("our own header of {caller} is not read");
    };
    assert_eq!(read.to_canonical(), caller.to_canonical());
}

fn introduces(header: &[u8]) -> bool {
    let mut have = 0;
    loop {
        match parse(&header[..have]) {
            Err(_) => return false,
            Ok(Read::Whole(whose)) => {
                assert_eq!(parse(&header[..have]), Ok(Read::Whole(whose)));
                if let Whose::Client(caller) = whose {
                    passes_on(caller);
                }
                return true;
            }
            Ok(Read::More(more)) => {
                assert!(more > 0, "it goes on");
                have += more;
                assert!(have <= 16 + (4 << 10), "a header is bounded");
                if have > header.len() {
                    return false;
                }
            }
        }
    }
}
