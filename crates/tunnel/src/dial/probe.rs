//! Tries each way to a service, and a call to it, for whoever asks why it is not reached.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use identity::principal::{NodeName, Principal};
use manifest::stored::Transport;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use wire::peer::{Open, Opened};

use crate::control::question::{CallOutcome, ProbedWay};
use crate::dial::destination::Destination;
use crate::dial::dialer::{Candidate, Dialer};
use crate::dial::no_stream::{NoStream, NotReached};
use crate::dial::pool::{AnyConnection, CallKey, PeerConnection};
use crate::dial::stream::DialedStream;
use crate::transport::protocol::Protocol;

/// For all tries of a call together.
const CALLING: Duration = Duration::from_secs(30);
/// A service that is not called for anything may take so long to hang up.
const HANGS_UP: Duration = Duration::from_secs(2);

impl Dialer {
    /// Calls a service as a program would, and hangs up: the other node judges it, and the service there takes it or not.
    pub(crate) async fn try_call(&self, who: &Principal, destination: &Destination) -> CallOutcome {
        let stream = match timeout(CALLING, self.open(who, destination)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(NoStream::Declined { node, why })) => return CallOutcome::Declined { node, why },
            Ok(Err(NoStream::NoWay { .. })) => return CallOutcome::NoWay,
            Ok(Err(NoStream::WhichOne { class, .. })) => return CallOutcome::WhichOne { class },
            Ok(Err(
                why @ (NoStream::NotAtHome(_)
                | NoStream::NotATarget(_)
                | NoStream::NotAllowed { .. }
                | NoStream::NotThere { .. }),
            )) => return CallOutcome::Kept(why.to_string()),
            Err(_) => return CallOutcome::Late,
        };
        let (node, by) = (stream.node().clone(), stream.transport().to_owned());
        // The service may take its time, and nobody waits for that.
        tokio::spawn(hang_up(stream));
        CallOutcome::Taken { node, by }
    }

    /// Tries every way to a service, over both transports, and opens nothing.
    pub(crate) async fn reach(&self, who: &Principal, destination: &Destination) -> Result<Vec<ProbedWay>, NoStream> {
        let mut ways = Vec::new();
        for candidate in self.candidates(who, destination)? {
            if candidate.address.is_none() && candidate.node != self.0.state.node {
                ways.extend(self.probe_relays(who, &candidate.node).await);
                continue;
            }
            for protocol in [Protocol::Tls, Protocol::Quic] {
                let transport = if protocol == Protocol::Tls { Transport::Tls } else { Transport::Quic };
                let outcome = told(self.probe(who, &candidate, protocol).await);
                ways.push(ProbedWay { node: candidate.node.clone(), transport, through: None, outcome });
            }
        }
        Ok(ways)
    }

    async fn probe(
        &self,
        who: &Principal,
        Candidate { node, address }: &Candidate,
        protocol: Protocol,
    ) -> Result<Answered, NotReached> {
        if *node == self.0.state.node {
            return Ok(Answered::ThisNode);
        }
        let address = address.as_ref().ok_or(NotReached::NoAddress)?;
        let begun = Instant::now();
        let key = CallKey { who: who.clone(), node: node.clone() };
        let dialed = self.0.dial(&key, address, protocol).await;
        probed(dialed.map_err(|failed| NotReached::Tries(vec![failed]))?, begun).await
    }

    async fn probe_relays(&self, who: &Principal, node: &NodeName) -> Vec<ProbedWay> {
        let (key, mut ways) = (CallKey { who: who.clone(), node: node.clone() }, Vec::new());
        for (relay, address) in &self.0.state.relays_to(node) {
            let begun = Instant::now();
            let outcome = match self.0.through(&key, relay, address).await {
                Ok(connection) => probed(connection, begun).await,
                Err(why) => Err(why),
            };
            let (node, through, outcome) = (node.clone(), Some(relay.clone()), told(outcome));
            ways.push(ProbedWay { node, transport: Transport::Tls, through, outcome });
        }
        if ways.is_empty() {
            let outcome = told(Err(NotReached::NoAddress));
            ways.push(ProbedWay { node: node.clone(), transport: Transport::Auto, through: None, outcome });
        }
        ways
    }
}

enum Answered {
    ThisNode,
    After(Duration),
}

/// In the words of whoever asked.
fn told(outcome: Result<Answered, NotReached>) -> Result<String, String> {
    match outcome {
        Ok(Answered::ThisNode) => Ok("it is this node".to_owned()),
        Ok(Answered::After(time)) => Ok(format!("answered after {} ms", time.as_millis())),
        Err(why) => Err(why.plain()),
    }
}

/// Ends it without a byte, and in good order: many services complain of a connection that breaks.
async fn hang_up(stream: DialedStream) {
    if let Ok(program) = gone().await {
        stream.carry_briefly(program, HANGS_UP).await;
    }
}

/// The socket of a program that connected and hung up at once.
async fn gone() -> std::io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let (ours, _) = tokio::try_join!(TcpStream::connect(listener.local_addr()?), listener.accept())?;
    Ok(ours)
}

async fn probed(mut connection: PeerConnection, begun: Instant) -> Result<Answered, NotReached> {
    let opened = match &mut connection.inner {
        AnyConnection::Tls(tls) => tls.ask(&Open::Probe).await,
        AnyConnection::Quic(quic) => quic.ask(&Open::Probe).await.map(|(opened, _)| opened),
    };
    match opened? {
        Opened::Yes => Ok(Answered::After(begun.elapsed())),
        Opened::No(why) => Err(NotReached::ProbeDeclined(why)),
    }
}
