//! Programs on `beta` that speak SOCKS by themselves, and services on `alpha` that do as a walk says.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use trials::place::until;

use super::Harbor;

pub const TRANSPORTS: [&str; 2] = ["tls", "quic"];

impl Harbor {
    /// With these services on `alpha` beside the wiki; `beta` calls by this transport.
    pub fn declare_services(&self, allowed: &str, transport: &str, services: &[(&str, SocketAddr)]) {
        self.declare_with(allowed, &format!("    tunnel: {{transport: {transport}}}"));
        let path = self.scene.place.path("fleet/fleet.yaml");
        let fleet = std::fs::read_to_string(&path).unwrap();
        let rows = services
            .iter()
            .map(|(name, addr)| format!("  {name}:\n    at: alpha\n    addr: {addr}\n    groups: pages\n"));
        std::fs::write(path, fleet + &rows.collect::<String>()).unwrap();
    }

    pub fn offer(&self, transport: &str, services: &[(&str, SocketAddr)]) {
        self.declare_services("pages", transport, services);
        self.scene.place.facts(&["publish", "--yes"]);
    }

    /// Where this user's programs ask.
    pub fn socks(&self, user: &str) -> Socks {
        let told = self.scene.place.node("beta", &["port", "socks", "--user", user], "");
        Socks { port: trials::place::stdout(&told).trim().parse().unwrap() }
    }

    /// Streams that the tunnel of a node says are open.
    pub fn open_streams(&self, node: &str) -> u64 {
        let now = self.tunnel(node)["now"].clone();
        now["services"].as_array().unwrap().iter().map(|row| row["open"].as_u64().unwrap()).sum()
    }

    pub fn all_is_given_back(&self) {
        until("nothing is open", || ["alpha", "beta"].iter().all(|node| self.open_streams(node) == 0));
    }

    /// By which transport a user's streams were opened that `alpha` wrote down.
    pub fn opened_by(&self, transport: &str) -> usize {
        self.log("alpha").iter().filter(|line| line["event"] == "opened" && line["transport"] == transport).count()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Socks {
    pub port: u16,
}

impl Socks {
    /// A stream to the service, or the code of the refusal.
    pub fn call(self, service: &str) -> io::Result<Result<TcpStream, u8>> {
        self.ask(format!("{service}.harbor.internal").as_bytes())
    }

    /// The same with the name as it is sent.
    pub fn ask(self, name: &[u8]) -> io::Result<Result<TcpStream, u8>> {
        let length = u8::try_from(name.len()).unwrap_or(u8::MAX);
        let (code, stream) = self.say(&[&[5, 1, 0, 3, length], name, &[0, 80]].concat())?;
        Ok(if code == 0 { Ok(stream) } else { Err(code) })
    }

    /// Any request, after the greeting; the code of the reply.
    pub fn say(self, request: &[u8]) -> io::Result<(u8, TcpStream)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        stream.write_all(&[&[5, 1, 0], request].concat())?;
        let mut reply = [0; 12];
        stream.read_exact(&mut reply)?;
        assert_eq!((reply[0], reply[1], reply[2]), (5, 0, 5), "{reply:?}");
        Ok((reply[3], stream))
    }

    /// A stream that has to open.
    pub fn open(self, service: &str) -> TcpStream {
        self.call(service).unwrap().unwrap_or_else(|code| panic!("`{service}` is refused with {code}"))
    }
}

/// Does this with each connection, in a thread of its own.
pub fn service(answer: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    serve(listener, answer);
    at
}

pub fn serve(listener: TcpListener, answer: impl Fn(TcpStream) + Send + Sync + 'static) {
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || answer(stream));
        }
    });
}

/// Gives back what it gets.
pub fn echo() -> SocketAddr {
    service(|mut stream| {
        let _ = stream.set_nodelay(true);
        let mut room = [0; 1 << 14];
        while let Ok(count @ 1..) = stream.read(&mut room) {
            if stream.write_all(&room[..count]).is_err() {
                return;
            }
        }
    })
}

/// Through, and back.
pub fn echoes(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"ahoy")?;
    let mut back = [0; 4];
    stream.read_exact(&mut back)?;
    assert_eq!(&back, b"ahoy");
    Ok(())
}

/// How a stream ended: everything that came, and whether it ended in order.
pub fn rest(stream: &mut TcpStream) -> (usize, io::Result<()>) {
    let (mut all, mut room) = (0, [0; 1 << 14]);
    loop {
        match stream.read(&mut room) {
            Ok(0) => return (all, Ok(())),
            Ok(count) => all += count,
            Err(why) => return (all, Err(why)),
        }
    }
}

/// It did not end in order: nobody takes what came for all that there is.
pub fn broke(stream: &mut TcpStream) {
    let (_, ended) = rest(stream);
    assert_eq!(ended.map_err(|why| why.kind()), Err(io::ErrorKind::ConnectionReset));
}
