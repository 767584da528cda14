//! Ports that are certain: one that a program takes later, and one at which nobody is.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};

/// A port that was free a moment ago, and that no other walk takes while this is held.
#[derive(Debug)]
pub struct Claim {
    pub port: u16,
    _mark: UnixListener,
}

impl Claim {
    /// Below the range from which the system gives ports to callers: a gateway that is down for a moment finds its port
    /// free when it comes back. Each walk is a process, and begins where no other does; what it takes is claimed by a
    /// socket without a file, so that no other walk takes it in such a moment.
    pub fn new() -> Self {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        let ports = (0..1000).map(|_| std::process::id() * 16 + TAKEN.fetch_add(1, Ordering::Relaxed));
        let ports = ports.filter_map(|number| u16::try_from(10_000 + number % 22_000).ok());
        let mut claimed = ports.filter_map(|port| {
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
