//! By which protocol a connection goes: TLS 1.3 over TCP, or QUIC.

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Protocol {
    Tls,
    Quic,
}

impl Protocol {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Quic => "quic",
        }
    }

    #[must_use]
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Tls => Self::Quic,
            Self::Quic => Self::Tls,
        }
    }
}
