//! Tries each way to a service, for whoever asks why it is not reached.

use std::time::Instant;

use identity::principal::{HostPort, NodeName, Principal};
use manifest::stored::Transport;
use org::report::plain;
use wire::peer::{Open, Opened};

use super::stock::{Call, Line};
use super::{Dialer, NO_ADDRESS, NoStream};
use crate::choose::By;
use crate::names::Wanted;
use crate::orders::Way;

impl Dialer {
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
