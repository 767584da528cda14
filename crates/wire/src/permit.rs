//! The one table of permissions (authorization policy, routes): who may ask what. It has no default arm.

use identity::bundle::Domain;
use identity::id::Digest;

/// Everything that can be asked of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    Founding,
    Signers,
    Head,
    Trust(Domain),
    /// The bytes that have a certain SHA-256: join scripts, lists of agents, agents, the endpoint root.
    File,
    Challenge,
    Enroll,
    Return,
    /// A recovery: the recovery keys' own signatures are its authority.
    Recover,
    /// What the caller knows and the gateway should: a newer head, a later word of its own.
    Show,
    CheckIn,
    /// A WebSocket, inside which the caller begins anew.
    Carry,
    /// Waits for news, and takes them.
    Sync,
    Renew,
    Leave,
    /// Entries of the ledger, and what they name, for another replica. Which of these an observer may ask, the request says.
    Exchange,
    Control,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Caller {
    Stranger,
    /// Came with an SVID that the verifier believes, and an admission that the gateway knows.
    Member,
    /// A member whose admission gives it the role `observer`, or a gateway: may fetch what replicas exchange, and nothing else.
    Observer,
    /// A member whose node has an active mandate.
    Gateway,
    /// Signed the request and this connection with a current signer's key. Admitted only: the envelope inside
    /// carries the authority.
    Operator,
}

impl Caller {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stranger => "stranger",
            Self::Member => "member",
            Self::Observer => "observer",
            Self::Gateway => "gateway",
            Self::Operator => "operator",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

impl Ask {
    pub const ALL: [Self; 18] = [
        Self::Founding,
        Self::Signers,
        Self::Head,
        Self::Trust(Domain::Endpoint),
        Self::Trust(Domain::Identity),
        Self::File,
        Self::Challenge,
        Self::Enroll,
        Self::Return,
        Self::Recover,
        Self::Show,
        Self::Carry,
        Self::CheckIn,
        Self::Sync,
        Self::Renew,
        Self::Leave,
        Self::Exchange,
        Self::Control,
    ];

    pub const fn needs(self) -> Caller {
        match self {
            Self::Founding
            | Self::Signers
            | Self::Head
            | Self::Trust(_)
            | Self::File
            | Self::Challenge
            | Self::Enroll
            | Self::Return
            | Self::Recover
            | Self::Show
            | Self::Carry => Caller::Stranger,
            Self::CheckIn | Self::Sync | Self::Renew | Self::Leave => Caller::Member,
            Self::Exchange => Caller::Observer,
            Self::Control => Caller::Operator,
        }
    }

    pub const fn method(self) -> Method {
        match self {
            Self::Founding | Self::Signers | Self::Head | Self::Trust(_) | Self::File | Self::Carry => Method::Get,
            Self::Challenge
            | Self::Enroll
            | Self::Return
            | Self::Recover
            | Self::Show
            | Self::CheckIn
            | Self::Sync
            | Self::Renew
            | Self::Leave
            | Self::Exchange
            | Self::Control => Method::Post,
        }
    }

    /// For a file, what stands before `/` and its digest.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Founding => "/v1/founding",
            Self::Signers => "/v1/signers",
            Self::Head => "/v1/head",
            Self::Trust(Domain::Endpoint) => "/v1/trust/endpoint",
            Self::Trust(Domain::Identity) => "/v1/trust/identity",
            Self::File => "/v1/file",
            Self::Challenge => "/v1/challenge",
            Self::Enroll => "/v1/enroll",
            Self::Return => "/v1/return",
            Self::Recover => "/v1/recover",
            Self::Show => "/v1/show",
            Self::Carry => "/v1/carry",
            Self::CheckIn => "/v1/check-in",
            Self::Sync => "/v1/sync",
            Self::Renew => "/v1/renew",
            Self::Leave => "/v1/leave",
            Self::Exchange => "/v1/exchange",
            Self::Control => "/v1/control",
        }
    }

    /// The largest body that is read.
    pub const fn max_body(self) -> usize {
        match self {
            Self::Founding
            | Self::Signers
            | Self::Head
            | Self::Trust(_)
            | Self::File
            | Self::Carry
            | Self::Challenge => 1 << 10,
            Self::Enroll | Self::Return | Self::Recover | Self::CheckIn | Self::Sync | Self::Renew | Self::Leave => {
                32 << 10
            }
            Self::Show | Self::Exchange | Self::Control => 1 << 20,
        }
    }

    pub fn route(method: &str, path: &str) -> Option<Self> {
        let fits = |ask: &Self| {
            let word = match ask.method() {
                Method::Get => "GET",
                Method::Post => "POST",
            };
            let named = if *ask == Self::File { named_file(path).is_some() } else { ask.path() == path };
            named && word == method
        };
        Self::ALL.into_iter().find(fits)
    }
}

/// Which file a path asks for: 64 hex digits in small letters, and nothing else, so that a file has one address.
pub fn named_file(path: &str) -> Option<Digest> {
    let digits = path.strip_prefix(Ask::File.path())?.strip_prefix('/')?;
    let digest: Digest = digits.parse().ok()?;
    (digest.to_string() == digits).then_some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_has_its_own_path_and_finds_its_way_back() {
        for ask in Ask::ALL {
            let method = if ask.method() == Method::Get { "GET" } else { "POST" };
            let path = if ask == Ask::File { format!("/v1/file/{}", Digest([7; 32])) } else { ask.path().to_owned() };
            assert_eq!(Ask::route(method, &path), Some(ask));
            let other = if ask.method() == Method::Get { "POST" } else { "GET" };
            assert_eq!(Ask::route(other, &path), None);
        }
    }

    #[test]
    fn a_file_has_one_address() {
        let digest = Digest::of(b"script");
        assert_eq!(named_file(&format!("/v1/file/{digest}")), Some(digest));
        let digits = digest.to_string();
        let (upper, short, long) = (digits.to_uppercase(), &digits[1..], format!("{digits}0"));
        for name in [
            &upper,
            short,
            &long,
            "",
            ".",
            "..",
            "../ledger.db",
            "%2e%2e",
            &format!("{digits}/"),
            &format!("/{digits}"),
        ] {
            assert_eq!(named_file(&format!("/v1/file/{name}")), None, "{name}");
        }
        for path in ["/v1/file", "/v1/file/", "/v1/files/", &format!("/v1/file{digits}"), &format!("/v2/file/{digits}")]
        {
            assert_eq!(named_file(path), None, "{path}");
        }
    }

    #[test]
    fn what_is_not_in_the_table_does_not_exist() {
        for path in ["/", "/v1", "/v1/control/", "/v1/trust", "/v1/trust/other", "/V1/head", "/v1/head?x=1"] {
            assert_eq!(Ask::route("GET", path), None, "{path}");
        }
    }
}
