//! The ways in lead to the dialer: what a program is told when there is no stream.

use identity::principal::Principal;
use tokio::net::TcpStream;
use wire::peer::Declined;

use crate::dial::{Dialer, NoStream, Stream};
use crate::names::Wanted;
use crate::ways::opens::{Carries, Opens, Unopened};
use crate::ways::socks_words::Reply;

impl Opens for Dialer {
    type Stream = Stream;

    async fn open(&self, who: &Principal, wanted: &Wanted) -> Result<Stream, Unopened> {
        let unopened = |why: NoStream| Unopened { reply: reply(&why), why: why.to_string() };
        Self::open(self, who, wanted).await.map_err(unopened)
    }
}

impl Carries for Stream {
    async fn carry(self, socket: TcpStream) {
        Self::carry(self, socket).await;
    }
}

const fn reply(why: &NoStream) -> Reply {
    match why {
        NoStream::NotATarget(_) | NoStream::NotThere { .. } | NoStream::WhichOne { .. } => Reply::NoHost,
        NoStream::NotAtHome(_) | NoStream::NotAllowed { .. } => Reply::NotAllowed,
        NoStream::NoWay { .. } => Reply::NoWay,
        NoStream::Declined { why, .. } => match why {
            Declined::NotAllowed | Declined::NotBelieved { .. } | Declined::TooOld | Declined::Stale => {
                Reply::NotAllowed
            }
            Declined::ServiceDown => Reply::Refused,
            Declined::ServiceSilent => Reply::TimedOut,
            Declined::NoRelay | Declined::NotWaiting => Reply::NoWay,
            Declined::TooMany | Declined::Stopping => Reply::Failed,
        },
    }
}
