//! Serves SOCKS5: asks for whom and for what, has it opened, and hands the socket over.
//!
//! The port that a program names is not looked at: a service has one.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use identity::principal::Principal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::dial::destination::{BadDestination, Destination};
use crate::local::auth::{NotAuthenticated, ProgramAuth, SocksListener};
use crate::local::opens::{Carries as _, Opens, Unopened, log_unopened};
use crate::local::shared::{LocalState, WORDS};
use crate::local::socks_words::{
    BadWords, Greeting, Parsed, SocksAddress, SocksMethod, SocksReply, greeting, login, login_answer, request,
};

/// The longest words: a user and a password of 255 bytes each.
const LONGEST: usize = 513;

/// Why a program was sent away before anything was asked for it.
#[derive(Debug, thiserror::Error)]
enum SentAway {
    #[error(transparent)]
    Words(#[from] BadWords),
    #[error(transparent)]
    NotAuthenticated(#[from] NotAuthenticated),
    #[error("it knows none of the ways to say for whom it asks")]
    Unfit,
    #[error("only CONNECT is served")]
    NotACommand,
    #[error("{to:?}: {why}")]
    Name { to: SocksAddress, why: Unopened },
    #[error(transparent)]
    Socket(#[from] io::Error),
    #[error("nothing was set up yet")]
    TooEarly,
}

impl SentAway {
    /// A word for counters; a program that hangs up is not worth one.
    const fn word(&self) -> Option<&'static str> {
        match self {
            Self::Words(_) => Some("socks_garbage"),
            Self::NotAuthenticated(why) => Some(why.word()),
            Self::Unfit => Some("socks_no_method"),
            Self::NotACommand => Some("socks_command"),
            Self::Name { .. } => Some("socks_name"),
            Self::Socket(_) | Self::TooEarly => None,
        }
    }
}

pub(crate) async fn serve<O: Opens>(
    local: &LocalState<O>,
    listener: SocksListener<'_>,
    mut socket: TcpStream,
    from: SocketAddr,
) {
    let (who, wanted) = match timeout(WORDS, converse(local, listener, &mut socket)).await {
        Ok(Ok(asked)) => asked,
        Ok(Err(why)) => {
            if let Some(word) = why.word() {
                local.meter.sent_away(word);
                tracing::info!("sent away a program at {from}: {why}");
            }
            // It may be gone already.
            let _ = socket.shutdown().await;
            return;
        }
        Err(_) => {
            local.meter.sent_away("socks_slow");
            tracing::info!("sent away a program at {from}: it did not say in time what it wants");
            return;
        }
    };
    match local.open(&who, &wanted).await {
        Ok((stream, _permit)) => {
            if socket.write_all(&SocksReply::Open.bytes()).await.is_ok() {
                stream.carry(socket).await;
            }
        }
        Err(why) => {
            log_unopened(from, &who, &wanted, &why);
            // Whether it hears the answer is up to it.
            let _ = socket.write_all(&why.reply.bytes()).await;
            let _ = socket.shutdown().await;
        }
    }
}

/// For whom, and for what. Whoever is sent away has been told so as the protocol has it.
async fn converse<O>(
    local: &LocalState<O>,
    listener: SocksListener<'_>,
    socket: &mut TcpStream,
) -> Result<(Principal, Destination), SentAway> {
    let greeted = read(socket, greeting).await?;
    let auth: Arc<ProgramAuth> = local.auth.load_full().ok_or(SentAway::TooEarly)?;
    let who = identify(&auth, listener, greeted, socket).await?;
    let asked = match read(socket, request).await {
        Err(SentAway::Words(BadWords::AddressKind)) => {
            socket.write_all(&SocksReply::NotAnAddress.bytes()).await?;
            return Err(BadWords::AddressKind.into());
        }
        asked => asked?,
    };
    if !asked.connect {
        socket.write_all(&SocksReply::NotACommand.bytes()).await?;
        return Err(SentAway::NotACommand);
    }
    match wanted(&auth, &asked.to) {
        Ok(wanted) => Ok((who, wanted)),
        Err(why) => {
            socket.write_all(&why.reply.bytes()).await?;
            Err(SentAway::Name { to: asked.to, why })
        }
    }
}

async fn identify(
    auth: &ProgramAuth,
    listener: SocksListener<'_>,
    greeted: Greeting,
    socket: &mut TcpStream,
) -> Result<Principal, SentAway> {
    let method = auth.method(greeted);
    socket.write_all(&method.bytes()).await?;
    match method {
        SocksMethod::Unfit => Err(SentAway::Unfit),
        SocksMethod::Nothing => Ok(auth.without_login(listener)?),
        SocksMethod::Password => {
            let shown = read(socket, login).await?;
            let found = auth.with_login(listener, &shown);
            socket.write_all(&login_answer(found.is_ok())).await?;
            Ok(found?)
        }
    }
}

fn wanted(auth: &ProgramAuth, to: &SocksAddress) -> Result<Destination, Unopened> {
    let by_address = |address: IpAddr| {
        let why = || "an address that is no service's: ask by name, as curl does with --socks5-hostname".to_owned();
        let unknown = || Unopened { reply: SocksReply::NotAllowed, why: why() };
        auth.addresses.meaning(address).cloned().ok_or_else(unknown)
    };
    match to {
        SocksAddress::Address(address) => by_address(*address),
        SocksAddress::Name(name) => match name.parse() {
            Ok(address) => by_address(address),
            Err(_) => Destination::parse(name, &auth.org).map_err(|why| {
                let reply = match why {
                    BadDestination::Elsewhere { .. } => SocksReply::NotAllowed,
                    BadDestination::Malformed { .. } => SocksReply::NoHost,
                };
                Unopened { reply, why: why.to_string() }
            }),
        },
    }
}

/// Reads the words and not a byte more.
async fn read<T>(socket: &mut TcpStream, parse: fn(&[u8]) -> Result<Parsed<T>, BadWords>) -> Result<T, SentAway> {
    // Never moved, so that a password is in one place only.
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST));
    loop {
        match parse(&bytes)? {
            Parsed::Whole(value) => return Ok(value),
            Parsed::More(count) => {
                let have = bytes.len();
                bytes.resize(have + count, 0);
                socket.read_exact(bytes.get_mut(have..).unwrap_or_default()).await?;
            }
        }
    }
}
