//! Tries each way to a service, and a call to it, for whoever asks why it is not reached.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use identity::principal::{HostPort, NodeName, Principal};
use manifest::stored::Transport;
use org::report::plain;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use wire::peer::{Open, Opened};

use crate::control::{Called, Way};
use crate::dial::choose::By;
use crate::dial::destination::Wanted;
use crate::dial::pool::{Call, Line};
use crate::dial::{Dialer, Kind, NO_ADDRESS, NoStream, Stream};

/// For all tries of a call together.
const CALLING: Duration = Duration::from_secs(30);
/// A service that is not called for anything may take so long to hang up.
const HANGS_UP: Duration = Duration::from_secs(2);

impl Dialer {
    /// Calls a service as a program would, and hangs up: the other node judges it, and the service there takes it or not.
    pub async fn try_call(&self, who: &Principal, wanted: &Wanted) -> Called {
        let stream = match timeout(CALLING, self.open(who, wanted)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(NoStream::Declined { node, why })) => return Called::Declined { node, why },
            Ok(Err(NoStream::NoWay { .. })) => return Called::NoWay,
            Ok(Err(NoStream::WhichOne { class, .. })) => return Called::WhichOne { class },
            Ok(Err(
                why @ (NoStream::NotAtHome(_)
                | NoStream::NotATarget(_)
                | NoStream::NotAllowed { .. }
                | NoStream::NotThere { .. }),
            )) => return Called::Kept(why.to_string()),
            Err(_) => return Called::Late,
        };
        let node = match &stream.0 {
            Kind::There(there) => there.subject.node.clone(),
            Kind::Here { .. } => self.0.held.node.clone(),
        };
        let by = stream.transport().to_owned();
        // The service may take its time, and nobody waits for that.
        tokio::spawn(stream.hang_up());
        Called::Taken { node, by }
    }

    /// Tries every way to a service, over both transports, and opens nothing.
    pub async fn reach(&self, who: &Principal, wanted: &Wanted) -> Result<Vec<Way>, NoStream> {
        let mut ways = Vec::new();
        for (node, address) in self.places(who, wanted)? {
            if address.is_none() && node != self.0.held.node {
                ways.extend(self.probe_relays(who, &node).await);
                continue;
            }
            for by in [By::Tls, By::Quic] {
                let transport = if by == By::Tls { Transport::Tls } else { Transport::Quic };
                let outcome = self.probe((who, &node, address.as_ref()), by).await;
                ways.push(Way { node: node.clone(), transport, through: None, outcome });
            }
        }
        Ok(ways)
    }

    async fn probe(
        &self,
        (who, node, address): (&Principal, &NodeName, Option<&HostPort>),
        by: By,
    ) -> Result<String, String> {
        if *node == self.0.held.node {
            return Ok("it is this node".to_owned());
        }
        let Some(address) = address else {
            return Err(NO_ADDRESS.to_owned());
        };
        let begun = Instant::now();
        let key = (who.clone(), node.clone());
        let call = self.0.ring.dial(&self.0, (&key, address), by).await.map_err(|why| why.why)?;
        probed(call, begun).await
    }

    async fn probe_relays(&self, who: &Principal, node: &NodeName) -> Vec<Way> {
        let (key, mut ways) = ((who.clone(), node.clone()), Vec::new());
        for (relay, address) in &self.0.held.relays_to(node) {
            let begun = Instant::now();
            let outcome = match self.0.ring.through(&self.0, &key, (relay, address)).await {
                Ok(call) => probed(call, begun).await,
                Err(why) => Err(why),
            };
            ways.push(Way { node: node.clone(), transport: Transport::Tls, through: Some(relay.clone()), outcome });
        }
        if ways.is_empty() {
            let outcome = Err(NO_ADDRESS.to_owned());
            ways.push(Way { node: node.clone(), transport: Transport::Auto, through: None, outcome });
        }
        ways
    }
}

impl Stream {
    /// Ends it without a byte, and in good order: many services complain of a connection that breaks.
    async fn hang_up(self) {
        match (self.0, gone().await) {
            (Kind::There(mut there), Ok(program)) => {
                there.terms.idle = HANGS_UP;
                there.carry(program).await;
            }
            (Kind::There(_), Err(_)) | (Kind::Here { .. }, _) => {}
        }
    }
}

/// The socket of a program that connected and hung up at once.
async fn gone() -> std::io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let (ours, _) = tokio::try_join!(TcpStream::connect(listener.local_addr()?), listener.accept())?;
    Ok(ours)
}

async fn probed(mut call: Call, begun: Instant) -> Result<String, String> {
    let opened = match &mut call.line {
        Line::Tls(ends) => ends.ask(&Open::Probe).await,
        Line::Quic(line) => line.ask(&Open::Probe).await.map(|(opened, _)| opened),
    };
    match opened {
        Ok(Opened::Yes) => Ok(format!("answered after {} ms", begun.elapsed().as_millis())),
        Ok(Opened::No(why)) => Err(format!("it declined: {why}")),
        Err(why) => Err(plain(&why.to_string())),
    }
}
