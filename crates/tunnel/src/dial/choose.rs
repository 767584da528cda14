//! Which transport to try first, and which then: a function of what was asked for and what was measured.
//!
//! | wanted | last try over TLS | last try over QUIC | round trip | first | then |
//! |---|---|---|---|---|---|
//! | `tls` | any | any | any | TLS | QUIC |
//! | `quic` | any | any | any | QUIC | TLS |
//! | `auto` | failed lately | not failed lately | any | QUIC | TLS |
//! | `auto` | not failed lately | failed lately | any | TLS | QUIC |
//! | `auto` | else | else | unknown or short | TLS | QUIC |
//! | `auto` | else | else | long | QUIC | TLS |
//!
//! Near by, the processor is the limit, and a byte over TLS costs a third. Far away, round trips are: a new stream over QUIC
//! costs none. Lately is within a minute (`LATELY`); long is from 20 ms on (`LONG`), and unknown is also what was measured more
//! than ten minutes ago (`KNOWN`). So what failed once, or was far away, is looked at again.

use std::time::Duration;

use manifest::stored::Transport;

use crate::transport::protocol::Protocol;

pub(crate) const LATELY: Duration = Duration::from_mins(1);
pub(crate) const LONG: Duration = Duration::from_millis(20);
pub(crate) const KNOWN: Duration = Duration::from_mins(10);

/// What is known of a peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// How long ago the last try failed, if the last one did.
    pub tls_failed: Option<Duration>,
    pub quic_failed: Option<Duration>,
    pub round_trip: Option<RoundTrip>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    pub time: Duration,
    pub ago: Duration,
}

impl Measured {
    /// Unless that was too long ago to count.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.round_trip.filter(|measured| measured.ago < KNOWN).map(|measured| measured.time)
    }
}

/// What is tried first; the other one follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub first: Protocol,
    pub why: &'static str,
}

pub(crate) fn choose(wanted: Transport, measured: Measured) -> Choice {
    let lately = |failed: Option<Duration>| failed.is_some_and(|ago| ago < LATELY);
    let (first, why) = match (wanted, lately(measured.tls_failed), lately(measured.quic_failed)) {
        (Transport::Tls, _, _) => (Protocol::Tls, "the fleet says so"),
        (Transport::Quic, _, _) => (Protocol::Quic, "the fleet says so"),
        (Transport::Auto, true, false) => (Protocol::Quic, "TLS failed lately"),
        (Transport::Auto, false, true) => (Protocol::Tls, "QUIC failed lately"),
        (Transport::Auto, true, true) | (Transport::Auto, false, false) => match measured.round_trip() {
            None => (Protocol::Tls, "nothing was known of the way before"),
            Some(near) if near < LONG => (Protocol::Tls, "it is near"),
            Some(_) => (Protocol::Quic, "it is far away"),
        },
    };
    Choice { first, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_that_of_the_table() {
        let (lately, long_ago) = (Some(Duration::from_secs(59)), Some(LATELY));
        let way = |time, ago| Some(RoundTrip { time, ago });
        let (near, far) = (way(Duration::from_millis(19), Duration::ZERO), way(LONG, Duration::from_secs(599)));
        let once_far = way(LONG, KNOWN);
        for (wanted, tls_failed, quic_failed, round_trip, first) in [
            (Transport::Tls, lately, None, far, Protocol::Tls),
            (Transport::Quic, None, lately, near, Protocol::Quic),
            (Transport::Auto, lately, None, near, Protocol::Quic),
            (Transport::Auto, lately, long_ago, near, Protocol::Quic),
            (Transport::Auto, None, lately, far, Protocol::Tls),
            (Transport::Auto, long_ago, lately, far, Protocol::Tls),
            (Transport::Auto, None, None, None, Protocol::Tls),
            (Transport::Auto, None, None, near, Protocol::Tls),
            (Transport::Auto, None, None, far, Protocol::Quic),
            (Transport::Auto, lately, lately, near, Protocol::Tls),
            (Transport::Auto, lately, lately, far, Protocol::Quic),
            (Transport::Auto, long_ago, long_ago, far, Protocol::Quic),
            (Transport::Auto, None, long_ago, far, Protocol::Quic),
            (Transport::Auto, None, None, once_far, Protocol::Tls),
        ] {
            let measured = Measured { tls_failed, quic_failed, round_trip };
            assert_eq!(choose(wanted, measured).first, first, "{wanted:?} {measured:?}");
        }
    }

    #[test]
    fn the_table_is_told_as_it_is() {
        let told = include_str!("../../../../docs/protocol/tunnel.md");
        let table = include_str!("choose.rs").lines().filter_map(|line| line.strip_prefix("//! |"));
        let table: Vec<String> = table.map(|row| format!("|{row}")).collect();
        assert!(table.len() == 8 && told.contains(&table.join("\n")), "{table:?}");
    }
}
