//! Gets a connection to a node: one that is free, or a new one by the better transport, and by the other if that takes long.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use identity::principal::{HostPort, NodeName, Principal};
use identity::time::Timestamp;
use org::peer::Peer;
use org::report::plain;
use quinn::Endpoint;
use tokio::time::timeout;
use wire::peer::{Open, Opened};

use crate::dial::choose::{By, Choice, LATELY, choose};
use crate::dial::pool::{Call, Key, Line};
use crate::dial::queue::Turns;
use crate::dial::{Inner, Try};
use crate::transport::hello::Met;
use crate::transport::relayed::Through;
use crate::transport::{connect, quic, resolve, tls};

/// A machine that answers does so within a few round trips.
const CONNECT: Duration = Duration::from_secs(5);
/// So long the first transport is tried alone, or five round trips: it takes three.
const HEAD_START: Duration = Duration::from_millis(300);
/// And so long the other one, when the first was turned down within that time.
const AFTER_A_NO: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub struct Ring {
    turns: Turns,
    /// Sockets for calls over QUIC: of the older addresses, and of the newer.
    four: OnceLock<Endpoint>,
    six: OnceLock<Endpoint>,
}

impl Ring {
    pub async fn line(&self, inner: &Inner, to: (&Key, &HostPort), only_new: bool) -> Result<Call, Vec<Try>> {
        let ((key, _), begun) = (to, Instant::now());
        let wanted = inner.held.running.load().as_ref().map(|running| running.policy.transport).unwrap_or_default();
        let measured = inner.facts.measured(&key.1);
        let choice = choose(wanted, measured);
        if !only_new {
            let failed = match choice.first {
                By::Tls => measured.tls_failed,
                By::Quic => measured.quic_failed,
            };
            // What works is not left for what has just failed.
            let other = failed.is_some_and(|ago| ago < LATELY).then_some(choice.first.other());
            for by in [Some(choice.first), other].into_iter().flatten() {
                if let Some(call) = inner.kept(key, by).await {
                    if let Line::Quic(line) = &call.line {
                        inner.facts.still(&key.1, line.connection.rtt());
                    }
                    return Ok(call);
                }
            }
        }
        // Before the race: who waits for a turn is not slow.
        let race = async {
            // Somebody else may have opened one meanwhile.
            match inner.kept_since(key, choice.first, only_new.then_some(begun)).await {
                Some(call) => Ok(call),
                None => self.race(inner, to, (choice, measured.round_trip())).await,
            }
        };
        let call = self.turns.take((key, inner.facts.is_dead(&key.1)), Box::pin(race)).await?;
        inner.facts.used(&key.1, call.line.by(), choice);
        Ok(call)
    }

    /// To a node without an address: by one of the relays at which it waits.
    pub async fn line_by_relay(&self, inner: &Inner, key: &Key, only_new: bool) -> Result<Call, Vec<Try>> {
        if !only_new && let Some(call) = inner.kept(key, By::Tls).await {
            return Ok(call);
        }
        self.turns.queue(key, 1, Box::pin(self.by_any_relay(inner, key))).await
    }

    async fn by_any_relay(&self, inner: &Inner, key: &Key) -> Result<Call, Vec<Try>> {
        let mut relays = inner.held.relays_to(&key.1);
        relays.sort_by_cached_key(|(relay, _)| inner.facts.is_bad_relay(relay));
        let mut tries = Vec::new();
        for (relay, address) in relays {
            match self.through(inner, key, (&relay, &address)).await {
                Ok(call) => return Ok(call),
                Err(why) => {
                    tries.push(Try { node: key.1.clone(), by: None, why: format!("by relay `{relay}`: {why}") });
                }
            }
        }
        if tries.is_empty() {
            tries.push(Try { node: key.1.clone(), by: None, why: crate::dial::NO_ADDRESS.to_owned() });
        }
        Err(tries)
    }

    /// TLS with the node inside TLS with the relay, which sees neither who calls nor what is said.
    pub async fn through(
        &self,
        inner: &Inner,
        key: &Key,
        (relay, address): (&NodeName, &HostPort),
    ) -> Result<Call, String> {
        let begun = Instant::now();
        let (mut ends, via) = self.at_relay(inner, relay, address).await?;
        // One that is silent, or brings nobody after a yes, would else be the first again for the next call.
        let failed = |why: &dyn std::error::Error| {
            let why = plain(&why.to_string());
            inner.facts.brought_nobody(relay, &format!("as a relay to `{}`: {why}", key.1));
            why
        };
        match ends.ask(&Open::Through(key.1.clone())).await.map_err(|why| failed(&why))? {
            Opened::Yes => {}
            Opened::No(why) => return Err(why.to_string()),
        }
        let config = inner.held.client(&key.0).map_err(|why| why.to_string())?;
        let below = Through::new(ends, Arc::clone(&inner.held), Arc::clone(&via));
        let shaking = Box::pin(tls::call(&inner.held, config, Box::new(below)));
        let (ends, met) = shaking.await.map_err(|why| failed(&why))?;
        let (head, shared, (peer, until)) = (met.head, met.shared, known(inner, key, met)?);
        let counted = Arc::new(inner.facts.reached_through(&key.1, relay, (begun.elapsed(), head)));
        Ok(Call { line: Line::Tls(Box::new(ends)), peer, via: Some(via), until, shared, counted })
    }

    /// A new connection to a relay, in this node's own name.
    pub async fn at_relay(
        &self,
        inner: &Inner,
        relay: &NodeName,
        address: &HostPort,
    ) -> Result<(tls::Ends, Arc<Peer>), String> {
        let key = (Principal::node(&inner.held.org, &inner.held.node), relay.clone());
        let dial = async { self.dial(inner, (&key, address), By::Tls).await.map_err(|why| vec![why]) };
        let call = self.turns.take((&key, inner.facts.failed_lately(relay, By::Tls)), Box::pin(dial)).await;
        let call = call.map_err(|tries| tries.into_iter().map(|one| one.why).collect::<Vec<_>>().join("; "))?;
        inner.facts.is_relay(relay);
        match call.line {
            Line::Tls(ends) => Ok((*ends, call.peer)),
            Line::Quic(_) => Err("the relay was reached by QUIC".to_owned()),
        }
    }

    async fn race(
        &self,
        inner: &Inner,
        to: (&Key, &HostPort),
        (choice, round_trip): (Choice, Option<Duration>),
    ) -> Result<Call, Vec<Try>> {
        let mut first = std::pin::pin!(self.dial(inner, to, choice.first));
        let alone = HEAD_START.max(round_trip.unwrap_or_default() * 5);
        match timeout(alone, &mut first).await {
            Ok(Ok(call)) => return Ok(call),
            Ok(Err(failed)) => {
                // Whoever says no at once is near. Over UDP a no is not heard, so it is not waited for long.
                let other = choice.first.other();
                let late = || Try { node: to.0.1.clone(), by: Some(other), why: "it did not answer".to_owned() };
                let second = timeout(AFTER_A_NO, self.dial(inner, to, other)).await;
                return second.unwrap_or_else(|_| Err(late())).map_err(|also| vec![failed, also]);
            }
            Err(_) => {}
        }
        let mut second = std::pin::pin!(self.dial(inner, to, choice.first.other()));
        tokio::select! {
            one = &mut first => match one {
                Ok(call) => Ok(call),
                Err(failed) => second.await.map_err(|also| vec![failed, also]),
            },
            other = &mut second => match other {
                Ok(call) => {
                    inner.facts.failed(&to.0.1, choice.first, "it took longer than the other one");
                    Ok(call)
                }
                Err(failed) => first.await.map_err(|also| vec![also, failed]),
            },
        }
    }

    pub async fn dial(&self, inner: &Inner, to: (&Key, &HostPort), by: By) -> Result<Call, Try> {
        let (key, address) = to;
        let dialed = match by {
            By::Tls => self.by_tls(inner, key, address).await,
            By::Quic => self.by_quic(inner, key, address).await,
        };
        dialed.map_err(|why| {
            // Some of it may be the other side's words.
            let why = plain(&why);
            inner.facts.failed(&key.1, by, &why);
            inner.held.meter.failed_to_shake_hands("calling");
            Try { node: key.1.clone(), by: Some(by), why }
        })
    }

    async fn by_tls(&self, inner: &Inner, key: &Key, address: &HostPort) -> Result<Call, String> {
        let config = inner.held.client(&key.0).map_err(|why| why.to_string())?;
        let begun = Instant::now();
        let late = |_| format!("{address} did not answer within {} s", CONNECT.as_secs());
        let socket = timeout(CONNECT, connect(address)).await.map_err(late)?;
        let socket = socket.map_err(|why| format!("{address}: {why}"))?;
        let round_trip = begun.elapsed();
        // Apart: a handshake takes much room for a short time.
        let shaking = Box::pin(tls::call(&inner.held, config, tls::over(socket)));
        let (ends, met) = shaking.await.map_err(|why| why.to_string())?;
        let (head, shared, (peer, until)) = (met.head, met.shared, known(inner, key, met)?);
        let counted = Arc::new(inner.facts.reached(&key.1, By::Tls, (round_trip, head)));
        Ok(Call { line: Line::Tls(Box::new(ends)), peer, via: None, until, shared, counted })
    }

    async fn by_quic(&self, inner: &Inner, key: &Key, address: &HostPort) -> Result<Call, String> {
        let opening = inner.stock.opening(key);
        let begun = Instant::now();
        let _one = opening.lock().await;
        // Opened by somebody else while this one waited.
        if let Some(call) = inner.kept_since(key, By::Quic, Some(begun)).await {
            return Ok(call);
        }
        // Somebody else has found out meanwhile that nobody answers.
        if inner.facts.measured(&key.1).quic_failed.is_some_and(|ago| ago < begun.elapsed()) {
            return Err("it did not answer a moment ago".to_owned());
        }
        if inner.facts.is_crowded(&key.1) {
            return Err("it has as many connections over QUIC as it takes from one node".to_owned());
        }
        let config = inner.held.client(&key.0).map_err(|why| why.to_string())?;
        let config = quic::client(&config).map_err(|why| why.to_string())?;
        let mut failed = String::new();
        for address in resolve(address).await.map_err(|why| format!("{address}: {why}"))? {
            let endpoint = self.endpoint(address).map_err(|why| why.to_string())?;
            let shaking = Box::pin(quic::call(&inner.held, (&endpoint, config.clone()), address));
            match shaking.await {
                Ok((line, met)) => {
                    let (head, shared, (peer, until)) = (met.head, met.shared, known(inner, key, met)?);
                    let round_trip = line.connection.rtt();
                    let counted = Arc::new(inner.facts.reached(&key.1, By::Quic, (round_trip, head)));
                    let line = Arc::new(line);
                    let kept = Call {
                        line: Line::Quic(Arc::clone(&line)),
                        peer: Arc::clone(&peer),
                        via: None,
                        until,
                        shared,
                        counted: Arc::clone(&counted),
                    };
                    inner.stock.put(key, kept);
                    return Ok(Call { line: Line::Quic(line), peer, via: None, until, shared, counted });
                }
                Err(why) => failed = format!("{address}: {why}"),
            }
        }
        Err(failed)
    }

    fn endpoint(&self, to: SocketAddr) -> std::io::Result<Endpoint> {
        let (kept, own): (_, SocketAddr) = match to {
            SocketAddr::V4(_) => (&self.four, ([0, 0, 0, 0], 0).into()),
            SocketAddr::V6(_) => (&self.six, ([0_u16; 8], 0).into()),
        };
        if let Some(endpoint) = kept.get() {
            return Ok(endpoint.clone());
        }
        let made = Endpoint::client(own)?;
        Ok(kept.get_or_init(|| made).clone())
    }
}

/// The node that was called, and no other; and until when that holds.
fn known(inner: &Inner, (who, node): &Key, met: Met) -> Result<(Arc<Peer>, Timestamp), String> {
    let peer = met.peer.map_err(|why| format!("it is not believed: {why}"))?;
    if *peer.principal() != Principal::node(&inner.held.org, node) {
        return Err(format!("`{}` answers there, and not node `{node}`", peer.principal()));
    }
    // Whom the operators wrote down is called, not whoever came under that name by an invite for any.
    if !peer.is_meant() {
        return Err("no map lists it, and its invite is for any name: it is not the one that is meant".to_owned());
    }
    let chain = inner.held.chain_of(who).unwrap_or_default();
    let own = chain.first().and_then(|leaf| identity::certificate::read(leaf).ok()).map(|leaf| leaf.validity.not_after);
    let until = own.map_or(peer.until(), |own| own.min(peer.until()));
    Ok((peer, until))
}
