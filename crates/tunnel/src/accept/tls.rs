//! Where peers come in over TLS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use wire::tls::TlsSetup;

use crate::accept::handshake::{Shaken, count_caller, shake_hands};
use crate::accept::streams::{TlsCaller, serve_streams};
use crate::limit::connections::PendingHandshake;
use crate::relay::rendezvous::Rendezvous;
use crate::state::shared::TunnelState;
use crate::stream::admit::CallOrigin;
use crate::transport::protocol::Protocol;
use crate::transport::tcp::settle;
use crate::transport::tls;

/// Until it is told to stop, or nobody is left to tell it. What was let in goes on.
pub(crate) async fn serve_tls(
    state: Arc<TunnelState>,
    listener: TcpListener,
    mut stop: watch::Receiver<bool>,
) -> Result<(), TlsSetup> {
    let config = Arc::new(state.svids.server()?);
    let rendezvous = Arc::<Rendezvous>::default();
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {
                rendezvous.close();
                return Ok(());
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, from)) => match state.limits.begin_handshake(from.ip(), Instant::now()) {
                Some(pending) => {
                    let (state, rendezvous, config) =
                        (Arc::clone(&state), Arc::clone(&rendezvous), Arc::clone(&config));
                    tokio::spawn(let_in(state, rendezvous, config, NewSocket { socket, from, pending }));
                }
                None => turn_away(&state, &socket),
            },
            // Out of descriptors, most likely: others end meanwhile.
            Err(why) => {
                tracing::warn!(%why, "cannot accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Without a word, and without anything left behind in the kernel.
fn turn_away(state: &TunnelState, socket: &TcpStream) {
    state.meter.failed_to_shake_hands("too_many");
    let _ = socket.set_zero_linger();
}

/// Of somebody who has not shown yet who it is.
struct NewSocket {
    socket: TcpStream,
    from: SocketAddr,
    pending: PendingHandshake,
}

async fn let_in(state: Arc<TunnelState>, rendezvous: Arc<Rendezvous>, config: Arc<ServerConfig>, new: NewSocket) {
    let NewSocket { socket, from, pending } = new;
    if settle(&socket).is_err() {
        return;
    }
    // Apart, so that what stays in memory for long is small.
    let receiving = tls::receive(&state, config, tls::over(socket));
    let shaken = Box::pin(shake_hands(&state, from, Protocol::Tls, pending, receiving)).await;
    if let Some(Shaken { connection, met, counted }) = shaken {
        let _counted = count_caller(&state, &met, Protocol::Tls.word());
        let origin = CallOrigin { transport: Protocol::Tls.word(), from: Some(from) };
        let (permit, _stranger) = match counted {
            Ok(permit) => (Some(permit), None),
            Err(pending) => (None, Some(pending)),
        };
        let caller = TlsCaller { connection: Box::new(connection), met, origin, permit };
        serve_streams(&state, caller, Some(&rendezvous)).await;
    }
}
