//! Why there is no connection to another node, or none with somebody to speak with.

use crate::transport::hello::NoHello;
use crate::transport::timeouts::{HANDSHAKE, QUIC_ANSWER};

#[derive(Debug, thiserror::Error)]
pub(crate) enum NoConnection {
    #[error("the TLS handshake did not end within {} s", HANDSHAKE.as_secs())]
    Slow,
    #[error("nobody answered over QUIC within {} s", QUIC_ANSWER.as_secs())]
    NoAnswer,
    #[error("the TLS handshake failed: {0}")]
    Handshake(#[source] std::io::Error),
    #[error("the TLS handshake failed: {0}")]
    Quic(#[from] quinn::ConnectionError),
    #[error("it does not say that it speaks the tunnel's protocol")]
    OtherProtocol,
    #[error(transparent)]
    NoHello(#[from] NoHello),
}

impl NoConnection {
    /// A word for counters.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::NoAnswer => "no_answer",
            Self::Handshake(_) | Self::Quic(_) => "handshake",
            Self::OtherProtocol => "other_protocol",
            Self::NoHello(NoHello::NothingToShow) => "nothing_to_show",
            Self::NoHello(NoHello::Silent) => "silent",
            Self::NoHello(NoHello::OtherWords(_)) => "other_version",
            Self::NoHello(NoHello::NoFrame(_)) => "bad_words",
            Self::NoHello(NoHello::NoChain) => "no_chain",
        }
    }
}
