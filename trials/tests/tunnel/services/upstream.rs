//! Services that are down, break off, hang, and come back: a program is told, and what was taken for it is given back.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket, sockopt};
use trials::place::until;
use trials::port::Nobody;

use super::Harbor;
use super::quayside::{Socks, TRANSPORTS, broke, echoes, rest, serve, service};

/// Sends much, and then ends as it is asked: `e` in order, `r` with a reset.
const MUCH: usize = 300_000;

fn ends() -> SocketAddr {
    service(|mut stream| {
        let mut how = [0];
        if stream.read_exact(&mut how).is_err() || stream.write_all(&vec![7; MUCH]).is_err() {
            return;
        }
        if how == *b"r" {
            // The reader has everything, so that only the way it ends tells the one from the other.
            let _ = stream.read_exact(&mut how);
            sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        }
    })
}

/// A port at which nobody is ever accepted: whoever would be next waits for an answer that does not come.
struct Full {
    at: SocketAddr,
    _listener: OwnedFd,
    _queue: Vec<TcpStream>,
}

impl Full {
    fn new() -> Self {
        let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&listener, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
        listen(&listener, 0).unwrap();
        let at = SocketAddr::try_from(getsockname(&listener).unwrap()).unwrap();
        let mut queue = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&at, Duration::from_millis(300)) {
            queue.push(stream);
        }
        Self { at, _listener: listener, _queue: queue }
    }
}

#[test]
fn a_program_is_told_what_is_wrong_with_a_service_and_nothing_stays_behind() {
    let harbor = Harbor::new();
    let (full, nobody) = (Full::new(), Nobody::new());
    let down = nobody.at();
    let (arrived, arrivals) = channel();
    let arrived = Mutex::new(arrived);
    // Accepts, and never says a word.
    let mute = service(move |stream| arrived.lock().unwrap().send(stream).unwrap());
    let services = [("ends", ends()), ("full", full.at), ("down", down), ("mute", mute)];
    for transport in TRANSPORTS {
        harbor.offer(transport, &services);
        let socks = harbor.socks("ann");
        let hangs = std::thread::spawn(move || socks.call("full").unwrap().map(drop));
        assert_eq!(socks.call("down").unwrap().map(drop), Err(5), "{transport}");

        let mut whole = socks.open("ends");
        whole.write_all(b"e").unwrap();
        let (count, ended) = rest(&mut whole);
        assert_eq!((count, ended.is_ok()), (MUCH, true), "{transport}");
        drop(whole);
        let mut reset = socks.open("ends");
        reset.write_all(b"r").unwrap();
        reset.read_exact(&mut vec![0; MUCH]).unwrap();
        reset.write_all(b".").unwrap();
        broke(&mut reset);

        // It has no patience any more, and goes.
        let mut waits = socks.open("mute");
        waits.write_all(b"hello?").unwrap();
        waits.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert_eq!(waits.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(waits);
        let mut silent = arrivals.recv().unwrap();
        assert_eq!(rest(&mut silent).0, 6, "the service hears that its caller is gone");
        drop(silent);

        assert_eq!(hangs.join().unwrap(), Err(6), "{transport}");
        until("it is written down", || harbor.opened_by(transport) > 0);
        harbor.all_is_given_back();
    }
    serve(nobody.listen(), |mut stream| {
        let mut word = [0; 4];
        let _ = stream.read_exact(&mut word).and_then(|()| stream.write_all(&word));
    });
    until("the service that was down is there", || harbor.socks("ann").call("down").unwrap().is_ok());
    echoes(&mut harbor.socks("ann").open("down")).unwrap();
}

#[test]
fn names_and_requests_are_answered_by_the_documented_codes() {
    let harbor = Harbor::new();
    let (ann, bob) = (harbor.socks("ann"), harbor.socks("bob"));
    let long = |length: usize| [&vec![b'a'; length - 16], &b".harbor.internal"[..]].concat();
    let code = |socks: Socks, name: &[u8]| socks.ask(name).unwrap().map_or_else(|code| code, |_| 0);
    for (name, expected) in [
        (&b"wiki.harbor.internal"[..], 0),
        (b"wiki.harbor.internal.", 0),
        (b"WIKI.Alpha.HARBOR.internal.", 0),
        (b"wiki.harbor.internal..", 2),
        (b"w\xc3\xadki.harbor.internal", 4),
        ("ｗｉｋｉ.harbor.internal".as_bytes(), 4),
        (b"wiki\xff.harbor.internal", 4),
        (b"wiki\0.harbor.internal", 4),
        (&long(80), 4),
        (&long(255), 4),
        // There is no word for so much: 255 bytes are the name, and the rest is taken for the port and for the service.
        (&long(300), 4),
        (b"other.harbor.internal", 4),
        (b"wiki.beta.harbor.internal", 4),
        (b"wiki.harbour.internal", 2),
        (b"example.com", 2),
        (b"127.0.0.1", 2),
    ] {
        assert_eq!(code(ann, name), expected, "{}", String::from_utf8_lossy(name));
    }
    assert_eq!(code(bob, b"wiki.harbor.internal"), 2);
    let at = harbor.wiki.at.port().to_be_bytes();
    for (request, expected) in [
        (&[5, 1, 0, 1, 127, 0, 0, 1, at[0], at[1]][..], 2),
        (&[5, 2, 0, 1, 127, 0, 0, 1, at[0], at[1]], 7),
        (&[5, 3, 0, 1, 127, 0, 0, 1, 0, 0], 7),
        (&[5, 9, 0, 1, 127, 0, 0, 1, 0, 0], 7),
        (&[5, 1, 0, 2, 127, 0, 0, 1, 0, 0], 8),
    ] {
        assert_eq!(ann.say(request).unwrap().0, expected, "{request:?}");
    }
}
