//! TCP to another node or to a service: names resolved, and dead connections found by keep-alive.

use std::net::SocketAddr;
use std::time::Duration;

use identity::principal::{Host, HostPort};
use rustix::net::sockopt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// No waiting to fill a segment, and a machine at the other end that is gone is found while nothing is said. While something
/// is said, signs of life do it: the kernel's own bound would also end those who only read slowly.
pub(crate) fn settle(socket: &TcpStream) -> std::io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(5))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(3))?;
    Ok(sockopt::set_tcp_keepcnt(socket, 3)?)
}

/// So many addresses of one name are tried.
const ADDRESSES: usize = 4;

pub(crate) async fn resolve(at: &HostPort) -> std::io::Result<Vec<SocketAddr>> {
    match &at.host {
        Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, at.port)]),
        Host::Dns(name) => {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), at.port)).await?.take(ADDRESSES).collect();
            if found.is_empty() {
                return Err(std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address"));
            }
            Ok(found)
        }
    }
}

/// The kernel asks again after one second, then after two, then after four: whoever is back in between is found by then alone.
const AGAIN: Duration = Duration::from_secs(1);

/// Asks anew every second. The first that is answered counts, and so does a no.
async fn knock(at: SocketAddr) -> std::io::Result<TcpStream> {
    let mut asked = JoinSet::new();
    loop {
        asked.spawn(TcpStream::connect(at));
        if let Ok(Some(Ok(answered))) = timeout(AGAIN, asked.join_next()).await {
            return answered;
        }
    }
}

/// The first of its addresses that answers.
pub(crate) async fn connect(at: &HostPort) -> std::io::Result<TcpStream> {
    let mut failed = None;
    for address in resolve(at).await? {
        match knock(address).await {
            Ok(socket) => {
                settle(&socket)?;
                return Ok(socket);
            }
            Err(why) => failed = Some(why),
        }
    }
    Err(failed.unwrap_or_else(|| std::io::ErrorKind::NotFound.into()))
}
