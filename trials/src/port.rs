//! Ports that are certain: one that a program takes later, and one at which nobody is.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};

/// Below the range from which the system gives ports to callers.
const RANGE: Range<u32> = 10_000..32_000;

/// What the homes of the fixtures listen at. They were given out once, and stand in what is never edited: no walk takes them.
const OF_FIXTURES: [u16; 8] = [17_444, 27_664, 29_155, 31_840, 31_842, 31_843, 31_844, 31_845];

/// A port that was free a moment ago, and that no other walk takes while this is held.
#[derive(Debug)]
pub struct Claim {
    pub port: u16,
    _mark: UnixListener,
}

impl Claim {
    /// Where the system gives callers none: a gateway that is down for a moment finds its port
    /// free when it comes back. Each walk is a process, and begins where no other does; what it takes is claimed by a
    /// socket without a file, so that no other walk takes it in such a moment.
    pub fn new() -> Self {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        let ports = (0..1000).map(|_| std::process::id() * 16 + TAKEN.fetch_add(1, Ordering::Relaxed));
        let ports = ports.filter_map(|number| u16::try_from(RANGE.start + number % (RANGE.end - RANGE.start)).ok());
        let mut claimed = ports.filter(|port| !OF_FIXTURES.contains(port)).filter_map(|port| {
            let name = UnixAddr::from_abstract_name(format!("freehold-trials-{port}")).ok()?;
            Some(Self { port, _mark: UnixListener::bind_addr(&name).ok()? })
        });
        let free = claimed.find(|claim| TcpListener::bind(claim.at()).is_ok());
        free.unwrap_or_else(|| panic!("no port is free"))
    }

    pub fn at(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }
}

impl Default for Claim {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at().fmt(f)
    }
}

/// Bound, and not listening: whoever calls is refused, and nobody else can listen there while this is held.
#[derive(Debug)]
pub struct Nobody {
    at: SocketAddr,
    socket: OwnedFd,
}

impl Nobody {
    pub fn new() -> Self {
        Self::bound().unwrap_or_else(|why| panic!("no port is free: {why}"))
    }

    fn bound() -> Result<Self, rustix::io::Errno> {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let at = SocketAddr::try_from(getsockname(&socket)?)?;
        Ok(Self { at, socket })
    }

    pub const fn at(&self) -> SocketAddr {
        self.at
    }

    /// From now on somebody is there, without a moment in which the port is free.
    pub fn listen(self) -> TcpListener {
        listen(&self.socket, 128).unwrap_or_else(|why| panic!("cannot listen: {why}"));
        self.socket.into()
    }
}

impl Default for Nobody {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Nobody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The ports at which anything in there says that it is.
    fn ports_in(folder: &Path) -> Vec<u16> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                all.extend(ports_in(&entry));
                continue;
            }
            let text = String::from_utf8_lossy(&std::fs::read(&entry).unwrap()).into_owned();
            let ports = text.split("127.0.0.1:").skip(1);
            all.extend(ports.filter_map(|rest| {
                rest.split(|digit: char| !digit.is_ascii_digit()).next().and_then(|port| port.parse::<u16>().ok())
            }));
        }
        all
    }

    #[test]
    fn no_walk_takes_a_port_at_which_a_home_of_the_fixtures_listens() {
        let held = ports_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures"));
        let taken = |port: &&u16| RANGE.contains(&u32::from(**port)) && !OF_FIXTURES.contains(port);
        assert_eq!(held.iter().find(taken), None, "a walk may take it");
        assert!(OF_FIXTURES.iter().all(|port| held.contains(port)), "one of them is nobody's");
    }
}
