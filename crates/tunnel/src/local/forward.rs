//! Serves a port that leads to one service: a forward, or the address that a service's name resolves to.

use std::net::SocketAddr;

use identity::principal::{HostPort, Principal};
use tokio::net::TcpStream;

use crate::dial::destination::Wanted;
use crate::local::Hall;
use crate::local::opens::{Carries as _, Opens, log_unopened};

pub(super) async fn serve_forward<O: Opens>(hall: &Hall<O>, wished: &HostPort, socket: TcpStream, from: SocketAddr) {
    // Gone just now, if it is not there.
    let Some(desk) = hall.desk.load_full() else { return };
    let Some((who, service)) = desk.by_forward(wished) else { return };
    serve(hall, &who, &Wanted { service: service.clone(), node: None }, socket, from).await;
}

pub(super) async fn serve_address<O: Opens>(hall: &Hall<O>, wanted: Wanted, socket: TcpStream, from: SocketAddr) {
    let Some(desk) = hall.desk.load_full() else { return };
    serve(hall, desk.by_address(), &wanted, socket, from).await;
}

async fn serve<O: Opens>(hall: &Hall<O>, who: &Principal, wanted: &Wanted, socket: TcpStream, from: SocketAddr) {
    // There are no words for it on this way if nothing is opened: a reset, so that nobody takes it for an empty answer.
    let _ = socket.set_zero_linger();
    match hall.open(who, wanted).await {
        Ok((stream, _part)) => stream.carry(socket).await,
        Err(why) => log_unopened(from, who, wanted, &why),
    }
}
