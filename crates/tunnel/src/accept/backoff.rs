//! How long a relay is let be at which this node could not wait.
//!
//! One that is not there is asked every second, since asking costs it nothing, and so is one that breaks off, for some minutes
//! since it was last there: it may be starting. One that is there and does not want this node is asked with backoff.

use std::io;
use std::time::Duration;

use ground::random;
use tokio::time::Instant;

use crate::dial::no_stream::NotReached;
use crate::frame::reader::NoFrame;
use crate::transport::hello::NoHello;
use crate::transport::no_connection::NoConnection;

/// Where nobody answers: services here are back so soon after their relay.
const ABSENT: Duration = Duration::from_secs(1);
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// Who breaks off without a word may be starting, or be behind something that takes connections for it; after so long, it has
/// no room for this node.
const RETURNS: Duration = Duration::from_mins(10);

/// What a relay that is there did since this node waited at it last, or began to ask.
#[derive(Debug)]
pub(super) struct Refusals {
    since: Instant,
    /// How often in a row it did not want this node.
    times: u32,
}

impl Refusals {
    pub(super) const fn since(now: Instant) -> Self {
        Self { since: now, times: 0 }
    }

    /// How long to let it be.
    pub(super) fn pause(&mut self, why: &NotReached, now: Instant) -> Duration {
        let is_returning = match Sign::of(why) {
            Sign::Absent => true,
            Sign::Cut => now.duration_since(self.since) < RETURNS,
            Sign::Said => false,
        };
        if is_returning {
            self.times = 0;
            return ABSENT;
        }
        // Exponential backoff.
        let pause = FIRST.saturating_mul(2_u32.saturating_pow(self.times)).min(LONGEST);
        self.times = self.times.saturating_add(1);
        pause
    }
}

/// Up to a half less, so that ten thousand nodes that lost a relay at once do not come back at once.
pub(super) fn spread(pause: Duration) -> Duration {
    let less = random::bytes::<1>().map_or(0, |[byte]| u32::from(byte));
    pause * (512 - less) / 512
}

/// What a failure says about the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sign {
    /// Nobody is there to whom asking costs anything.
    Absent,
    /// It was broken off, or fell silent, without a word about this node: it may be crowded, or not be there yet.
    Cut,
    /// It said something. What is said in TLS is a word, too.
    Said,
}

impl Sign {
    pub(super) fn of(why: &NotReached) -> Self {
        match why {
            NotReached::NoAnswer { .. }
            | NotReached::Address { .. }
            | NotReached::Socket(_)
            | NotReached::LateBefore => Self::Absent,
            NotReached::NoConnection(why) => Self::of_connection(why),
            NotReached::NoFrame(why) => Self::of_frame(why),
            NotReached::Late => Self::Cut,
            // The clearest of them.
            NotReached::Tries(tries) => tries.iter().map(|tried| Self::of(&tried.why)).max().unwrap_or(Self::Absent),
            NotReached::Tls(_)
            | NotReached::Quic(_)
            | NotReached::NoQuic { .. }
            | NotReached::NotBelieved(_)
            | NotReached::AnotherNode { .. }
            | NotReached::NotMeant
            | NotReached::Crowded
            | NotReached::NoAddress
            | NotReached::ByRelay { .. }
            | NotReached::RelayByQuic
            | NotReached::Declined(_)
            | NotReached::ProbeDeclined(_)
            | NotReached::TakenBack
            | NotReached::Ended(_) => Self::Said,
        }
    }

    fn of_connection(why: &NoConnection) -> Self {
        match why {
            NoConnection::Slow | NoConnection::NoAnswer | NoConnection::NoHello(NoHello::Silent) => Self::Cut,
            NoConnection::Handshake(why) => Self::of_socket(why),
            NoConnection::NoHello(NoHello::NoFrame(why)) => Self::of_frame(why),
            NoConnection::Quic(_)
            | NoConnection::OtherProtocol
            | NoConnection::NoHello(NoHello::NothingToShow | NoHello::OtherWords(_) | NoHello::NoChain) => Self::Said,
        }
    }

    fn of_frame(why: &NoFrame) -> Self {
        match why {
            NoFrame::Over => Self::Cut,
            NoFrame::Io(why) => Self::of_socket(why),
            NoFrame::Bad(_) => Self::Said,
        }
    }

    fn of_socket(why: &io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut, UnexpectedEof};
        let cut = [BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut, UnexpectedEof];
        if cut.contains(&why.kind()) { Self::Cut } else { Self::Said }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use std::collections::BTreeSet;

    use wire::peer::Declined;

    use super::*;
    use crate::dial::no_stream::FailedTry;

    fn gone(kind: ErrorKind) -> NotReached {
        let why = NotReached::Address { at: "127.0.0.1:1".parse().unwrap(), why: kind.into() };
        NotReached::Tries(vec![FailedTry::new(&"hub".parse().unwrap(), None, why)])
    }

    #[test]
    fn a_relay_that_is_not_there_is_asked_every_second_however_long_it_is_gone() {
        let now = Instant::now();
        let mut refusals = Refusals::since(now);
        for second in 0..1_000 {
            assert_eq!(refusals.pause(&gone(ErrorKind::ConnectionRefused), now + Duration::from_secs(second)), ABSENT);
        }
    }

    /// While it starts, or while what stands before it is alone.
    #[test]
    fn one_that_breaks_off_is_asked_every_second_for_minutes_and_then_more_seldom() {
        let (mut refusals, began) = (Refusals::since(Instant::now()), Instant::now());
        for second in 0..590 {
            let broken = [
                NotReached::NoConnection(NoConnection::Handshake(ErrorKind::UnexpectedEof.into())),
                NotReached::NoConnection(NoConnection::Slow),
                NotReached::NoFrame(NoFrame::Io(ErrorKind::ConnectionReset.into())),
                NotReached::NoFrame(NoFrame::Over),
                NotReached::Late,
            ];
            for why in broken {
                assert_eq!(refusals.pause(&why, began + Duration::from_secs(second)), ABSENT, "{why}");
            }
        }
        let pauses = [1, 2, 3].map(|_| refusals.pause(&NotReached::Late, began + RETURNS * 2).as_secs());
        assert_eq!(pauses, [1, 2, 4]);
    }

    #[test]
    fn nodes_that_lost_a_relay_at_once_do_not_ask_it_at_once() {
        let pauses: BTreeSet<Duration> = (0..1_000).map(|_| spread(ABSENT)).collect();
        assert!(pauses.len() > 100 && pauses.iter().all(|pause| (ABSENT / 2..=ABSENT).contains(pause)), "{pauses:?}");
    }

    #[test]
    fn one_that_does_not_want_this_node_is_asked_more_and_more_seldom() {
        let now = Instant::now();
        let mut refusals = Refusals::since(now);
        let full = NotReached::Declined(Declined::TooMany);
        let alert = NotReached::NoConnection(NoConnection::Handshake(io::Error::other("an alert")));
        let pauses: Vec<u64> =
            [&full, &alert, &full, &full, &full, &full].map(|why| refusals.pause(why, now).as_secs()).into();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30]);
        // It was gone meanwhile: another one is there now, perhaps.
        refusals.pause(&gone(ErrorKind::ConnectionRefused), now);
        assert_eq!(refusals.pause(&full, now), FIRST);
    }
}
