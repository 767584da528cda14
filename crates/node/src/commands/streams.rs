//! The tunnel, in words: where it listens, whom it speaks to, and what was carried.

use tunnel::orders::{CallerView, Count, PeerView, View};

use crate::agent::tunnel::view::{State, TunnelView};

/// For `status`.
pub fn in_words(tunnel: &TunnelView) -> Vec<String> {
    let mut lines = Vec::new();
    match (tunnel.state, tunnel.since) {
        (State::Off, _) => return lines,
        (State::Running, since) => {
            let since = since.map(|at| format!(" since {at}")).unwrap_or_default();
            let sandbox = tunnel.now.as_ref().map(|now| format!(", sandbox {}", now.sandbox)).unwrap_or_default();
            lines.push(format!("tunnel    running{since}{sandbox}"));
        }
        (State::Waiting, _) => lines.push("tunnel    ended, and is started again in a while".to_owned()),
    }
    if tunnel.restarts > 0 {
        let last = tunnel.problem.as_ref().map(|why| format!("; last: {why}")).unwrap_or_default();
        lines.push(format!("          started again {} times{last}", tunnel.restarts));
    }
    for (place, at) in &tunnel.listens {
        lines.push(format!("listens   {} at {at}", String::from(place.clone())));
    }
    for (place, why) in &tunnel.failed {
        lines.push(format!("problem   cannot listen for {}: {why}", String::from(place.clone())));
    }
    lines.extend(tunnel.troubles.iter().map(|(about, why)| format!("problem   {about}: {why}")));
    if let Some(now) = &tunnel.now {
        lines.extend(now.fewer.iter().map(|fewer| format!("tunnel    {fewer}")));
        lines.extend(now.peers.iter().map(peer));
        lines.extend(now.callers.iter().map(caller));
        lines.push(sum(now));
        lines.extend(left_out(now));
    }
    lines
}

/// Those that are not shown.
pub fn left_out(now: &View) -> Option<String> {
    let View { left_out, .. } = now;
    (*left_out > 0)
        .then(|| format!("          and {left_out} more peers, callers or counts that carry nothing, or little"))
}

pub fn peer(peer: &PeerView) -> String {
    let way = peer.through.as_ref().map_or_else(|| "direct".to_owned(), |relay| format!("via {relay}"));
    let transport = format!("{:?}", peer.transport).to_lowercase();
    let trip = peer.round_trip_us.map(|us| format!(", round trip {us} µs")).unwrap_or_default();
    let problem = peer.problem.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
    format!(
        "peer      {} over {transport} ({}), {way}, {} streams on {} connections{trip}{problem}",
        peer.node, peer.why, peer.streams, peer.connections
    )
}

pub fn caller(caller: &CallerView) -> String {
    let CallerView { node, transport, since, connections, streams, head } = caller;
    let way = if transport == "relay" { "tls, by a relay".to_owned() } else { format!("{transport}, direct") };
    format!("caller    {node} over {way}, {streams} streams on {connections} connections since {since}, head {head}")
}

fn sum(now: &View) -> String {
    let open: u64 = now.services.iter().map(|count| count.open).sum();
    let streams: u64 = now.services.iter().map(|count| count.streams).sum();
    let refused: u64 = now.services.iter().map(refusals).sum();
    let failed: u64 = now.handshakes.failed.values().sum();
    let relayed = if now.relayed.carried + now.relayed.waiting > 0 {
        format!(", {} relayed ({}), {} wait", now.relayed.carried, size(now.relayed.bytes), now.relayed.waiting)
    } else {
        String::new()
    };
    format!(
        "streams   {open} open, {streams} in all, {refused} refused; {} handshakes with callers, {} with called, {failed} failed{relayed}; {} rules of head {}",
        now.handshakes.done, now.handshakes.called, now.rules, now.head
    )
}

pub fn refusals(count: &Count) -> u64 {
    count.refused.values().sum()
}

pub fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut whole, mut tenths, mut unit) = (bytes, 0, 0);
    while whole >= 1024 && unit + 1 < units.len() {
        (tenths, whole) = (whole % 1024 * 10 / 1024, whole / 1024);
        unit += 1;
    }
    let name = units.get(unit).copied().unwrap_or_default();
    if unit == 0 { format!("{whole} {name}") } else { format!("{whole}.{tenths} {name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        let cases = [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")];
        for (bytes, told) in cases {
            assert_eq!(size(bytes), told);
        }
    }
}
