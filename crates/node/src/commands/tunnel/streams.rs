//! The tunnel, in words: where it listens, whom it speaks to, and what was carried.

use member::agent::tunnel::view::{State, TunnelView, told};
use tunnel::control::view::{CalledView, CallerView, ServiceCounts, View};

/// For `status`.
pub(crate) fn in_words(tunnel: &TunnelView) -> Vec<String> {
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
        lines.push(format!("listens   {} at {at}", told(place, &tunnel.forwards)));
    }
    for (place, why) in &tunnel.failed {
        lines.push(format!("problem   cannot listen for {}: {why}", told(place, &tunnel.forwards)));
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
pub(crate) fn left_out(now: &View) -> Option<String> {
    let View { left_out, .. } = now;
    (*left_out > 0)
        .then(|| format!("          and {left_out} more peers, callers or counts that carry nothing, or little"))
}

pub(crate) fn peer(peer: &CalledView) -> String {
    let way = peer.through.as_ref().map_or_else(|| "direct".to_owned(), |relay| format!("via {relay}"));
    let transport = format!("{:?}", peer.transport).to_lowercase();
    let trip = peer.round_trip_us.map(|us| format!(", round trip {us} µs")).unwrap_or_default();
    let problem = peer.problem.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
    format!(
        "peer      {} over {transport} ({}), {way}, {} streams on {} connections{trip}{problem}",
        peer.node, peer.why, peer.streams, peer.connections
    )
}

pub(crate) fn caller(caller: &CallerView) -> String {
    let CallerView { node, transport, since, connections, streams, head } = caller;
    let way = if transport == "relay" { "tls, by a relay".to_owned() } else { format!("{transport}, direct") };
    format!("caller    {node} over {way}, {streams} streams on {connections} connections since {since}, head {head}")
}

fn sum(now: &View) -> String {
    let open: u64 = now.services.iter().map(|count| count.open).sum();
    let streams: u64 = now.services.iter().map(|count| count.streams).sum();
    let refused: u64 = now.services.iter().map(refusals).sum();
    let failed: u64 = now.handshakes.failed.values().sum();
    let programs: u64 = now.programs.values().sum();
    let programs =
        if programs > 0 { format!("; {programs} programs of this machine sent away") } else { String::new() };
    let relayed = if now.relayed.carried + now.relayed.waiting > 0 {
        format!(", {} relayed ({}), {} wait", now.relayed.carried, size(now.relayed.bytes), now.relayed.waiting)
    } else {
        String::new()
    };
    format!(
        "streams   {open} open, {streams} in all, {refused} refused; {} handshakes with callers, {} with called, {failed} failed{programs}{relayed}; {} rules of head {}",
        now.handshakes.done, now.handshakes.called, now.rules, now.head
    )
}

pub(crate) fn refusals(count: &ServiceCounts) -> u64 {
    count.refused.values().sum()
}

pub(crate) fn size(bytes: u64) -> String {
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
    use tunnel::control::listener::ListenerId;

    use super::*;

    #[test]
    fn programs_are_told_apart_from_peers() {
        let mut now = View::default();
        now.handshakes.failed.insert("not_believed".to_owned(), 2);
        assert!(sum(&now).contains("2 failed; 0 rules"), "{}", sum(&now));
        now.programs.insert("socks_name".to_owned(), 9);
        assert!(sum(&now).contains("2 failed; 9 programs of this machine sent away; 0 rules"), "{}", sum(&now));
    }

    #[test]
    fn a_forward_is_told_with_what_it_leads_to() {
        let wished: identity::principal::HostPort = "127.0.0.1:8000".parse().unwrap();
        let forward = |user: Option<&str>| manifest::stored::Forward {
            service: "wiki".parse().unwrap(),
            user: user.map(|user| user.parse().unwrap()),
        };
        let mut tunnel = TunnelView { state: State::Running, ..TunnelView::default() };
        tunnel.listens.insert(ListenerId::Forward(wished.clone()), "127.0.0.1:8000".parse().unwrap());
        for (user, told) in [(None, "(to `wiki`)"), (Some("ann"), "(to `wiki` for `ann`)")] {
            tunnel.forwards.insert(wished.clone(), forward(user));
            let line = format!("listens   forward/127.0.0.1:8000 {told} at 127.0.0.1:8000");
            assert!(in_words(&tunnel).contains(&line), "{:?}", in_words(&tunnel));
        }
    }

    #[test]
    fn sizes_have_a_unit() {
        let cases = [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")];
        for (bytes, told) in cases {
            assert_eq!(size(bytes), told);
        }
    }
}
