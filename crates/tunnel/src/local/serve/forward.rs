//! Serves a port that leads to one service: a forward, or the address that a service's name resolves to.

use std::net::SocketAddr;

use identity::principal::{HostPort, Principal};
use tokio::net::TcpStream;

use crate::dial::destination::Destination;
use crate::local::opens::{Carries as _, Opens, log_unopened};
use crate::local::shared::LocalState;

pub(crate) async fn serve_forward<O: Opens>(
    local: &LocalState<O>,
    wished: &HostPort,
    socket: TcpStream,
    from: SocketAddr,
) {
    // Gone just now, if it is not there.
    let Some(auth) = local.auth.load_full() else { return };
    let Some((who, service)) = auth.by_forward(wished) else { return };
    serve(local, &who, &Destination { service: service.clone(), node: None }, socket, from).await;
}

pub(crate) async fn serve_address<O: Opens>(
    local: &LocalState<O>,
    wanted: Destination,
    socket: TcpStream,
    from: SocketAddr,
) {
    let Some(auth) = local.auth.load_full() else { return };
    serve(local, auth.by_address(), &wanted, socket, from).await;
}

async fn serve<O: Opens>(
    local: &LocalState<O>,
    who: &Principal,
    wanted: &Destination,
    socket: TcpStream,
    from: SocketAddr,
) {
    // There are no words for it on this way if nothing is opened: a reset, so that nobody takes it for an empty answer.
    let _ = socket.set_zero_linger();
    match local.open(who, wanted).await {
        Ok((stream, _permit)) => stream.carry(socket).await,
        Err(why) => log_unopened(from, who, wanted, &why),
    }
}
