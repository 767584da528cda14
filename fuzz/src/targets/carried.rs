//! What carriers send before TLS begins: WebSocket frames, and PROXY headers. All at once or byte by byte, it says the same.

use wire::carry::frame::{Decoder, From, Kind, encode};
use wire::carry::proxied::{Read, parse};

pub fn seeds() -> Vec<Vec<u8>> {
    let mut masked = vec![b'c'];
    encode(&mut masked, Kind::Ping, Some([1, 2, 3, 4]), b"there?");
    encode(&mut masked, Kind::Data, Some([5, 6, 7, 8]), &[b'x'; 300]);
    encode(&mut masked, Kind::Close, Some([9; 4]), &[3, 232]);
    let mut bare = vec![b's'];
    encode(&mut bare, Kind::Data, None, b"a");
    encode(&mut bare, Kind::Pong, None, b"");
    encode(&mut bare, Kind::Data, None, &[b'y'; 70_000]);
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
    ]
}

/// Frames of a client after `c`, of a server after `s`, a PROXY header after anything else.
pub fn check(data: &[u8]) -> bool {
    match data.split_first() {
        Some((b'c', frames)) => decodes(From::Client, frames),
        Some((b's', frames)) => decodes(From::Server, frames),
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
    encode(&mut again, Kind::Data, (from == From::Client).then_some([7; 4]), &carried);
    let count = Decoder::new(from).decode(&mut again).expect("our own frame");
    assert_eq!(&again[..count], carried.as_slice());
    true
}

fn introduces(header: &[u8]) -> bool {
    let mut have = 0;
    loop {
        match parse(&header[..have]) {
            Err(_) => return false,
            Ok(Read::Whole(whose)) => {
                assert_eq!(parse(&header[..have]), Ok(Read::Whole(whose)));
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
