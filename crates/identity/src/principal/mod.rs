//! Names: orgs, nodes, users, services, signers, hosts, and the SPIFFE ids made from them.

pub mod glob;
pub mod host;
pub mod label;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::key::PublicKey;
use crate::text_form;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    #[error("`{0}` is not a name: use 1 to 63 of a-z, 0-9 and `-`, beginning and ending with a letter or digit")]
    NotALabel(String),
    #[error("`{0}` is reserved and cannot be a name")]
    Reserved(String),
    #[error("`{0}` is not a SPIFFE id of the form spiffe://ORG/node|user|service/NAME")]
    NotAPrincipal(String),
    #[error("`{0}` is not a host name or address")]
    NotAHost(String),
    #[error("`{0}` is not of the form HOST:PORT")]
    NotAnAddress(String),
    #[error("`{0}` is not of the form HOST:PORT, wss://HOST[:PORT][/PATH] or socks5://PROXY:PORT/HOST:PORT")]
    NotAWay(String),
    #[error("the address `{0}…` is longer than 255 bytes")]
    TooLong(String),
}

/// Words that mean a kind, and names that some file systems keep for devices.
#[rustfmt::skip]
const RESERVED: [&str; 32] = [
    "org", "node", "class", "user", "service", "signer", "role", "group", "invite",
    "con", "prn", "aux", "nul", "localhost",
    "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9",
    "lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
];

fn label(text: &str) -> Result<String, BadName> {
    let edge = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let bytes = text.as_bytes();
    let inner = bytes.iter().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == b'-');
    if bytes.len() > 63 || !inner || !edge(bytes.first().copied()) || !edge(bytes.last().copied()) {
        return Err(BadName::NotALabel(text.chars().take(80).collect()));
    }
    if RESERVED.contains(&text) {
        return Err(BadName::Reserved(text.to_owned()));
    }
    Ok(text.to_owned())
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(String);

        impl $type {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl FromStr for $type {
            type Err = BadName;
            fn from_str(text: &str) -> Result<Self, BadName> {
                label(text).map(Self)
            }
        }
        text_form!($type);
    };
}

name!(
    /// An org's name: its SPIFFE trust domain.
    OrgName
);
name!(
    /// A node's name within its org.
    NodeName
);
name!(
    /// A user's or service's name within its org.
    Name
);
name!(
    /// An operator's name as a signer.
    SignerName
);

impl NodeName {
    /// The name of a machine that goes by this host name: its first part, in small letters.
    pub fn of_host(host: &str) -> Result<Self, BadName> {
        host.split('.').next().unwrap_or_default().to_ascii_lowercase().parse()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrincipalKind {
    Node,
    User,
    Service,
}

impl PrincipalKind {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::User => "user",
            Self::Service => "service",
        }
    }
}

/// Something that can hold an SVID: `spiffe://<org>/{node|user|service}/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal {
    org: OrgName,
    kind: PrincipalKind,
    name: String,
}

impl Principal {
    pub fn node(org: &OrgName, name: &NodeName) -> Self {
        Self { org: org.clone(), kind: PrincipalKind::Node, name: name.as_str().to_owned() }
    }

    pub fn user(org: &OrgName, name: &Name) -> Self {
        Self { org: org.clone(), kind: PrincipalKind::User, name: name.as_str().to_owned() }
    }

    pub fn service(org: &OrgName, name: &Name) -> Self {
        Self { org: org.clone(), kind: PrincipalKind::Service, name: name.as_str().to_owned() }
    }

    pub const fn org(&self) -> &OrgName {
        &self.org
    }

    pub const fn kind(&self) -> PrincipalKind {
        self.kind
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The node's name, if this is a node.
    pub fn node_name(&self) -> Option<NodeName> {
        (self.kind == PrincipalKind::Node).then(|| NodeName(self.name.clone()))
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spiffe://{}/{}/{}", self.org, self.kind.word(), self.name)
    }
}

impl FromStr for Principal {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        let bad = || BadName::NotAPrincipal(text.chars().take(200).collect());
        let rest = text.strip_prefix("spiffe://").ok_or_else(bad)?;
        let mut parts = rest.split('/');
        let (Some(org), Some(kind), Some(name), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return Err(bad());
        };
        let kind = match kind {
            "node" => PrincipalKind::Node,
            "user" => PrincipalKind::User,
            "service" => PrincipalKind::Service,
            _ => return Err(bad()),
        };
        Ok(Self { org: org.parse()?, kind, name: label(name)? })
    }
}

text_form!(Principal);

/// Who did something, as the audit names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Author {
    Signer(SignerName),
    Gateway(NodeName),
    /// A voice that no head that counts gave to a gateway.
    Voice(PublicKey),
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signer(name) => write!(f, "signer/{name}"),
            Self::Gateway(name) => write!(f, "node/{name}"),
            Self::Voice(key) => write!(f, "voice/{key}"),
        }
    }
}

impl FromStr for Author {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        match text.split_once('/') {
            Some(("signer", name)) => Ok(Self::Signer(name.parse()?)),
            Some(("node", name)) => Ok(Self::Gateway(name.parse()?)),
            Some(("voice", key)) => {
                key.parse().map(Self::Voice).map_err(|_| BadName::NotAPrincipal(text.chars().take(80).collect()))
            }
            _ => Err(BadName::NotAPrincipal(text.chars().take(80).collect())),
        }
    }
}

text_form!(Author);

/// Four less than DNS allows, so that any `HOST:PORT` fits into 255 bytes: an invite code has no room for more.
const LONGEST_HOST: usize = 249;

/// A DNS name or an IP address, as a certificate names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    Dns(String),
    Ip(std::net::IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => f.write_str(name),
            Self::Ip(ip) => write!(f, "{ip}"),
        }
    }
}

impl FromStr for Host {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        if let Ok(ip) = text.parse() {
            return Ok(Self::Ip(ip));
        }
        let part = |part: &str| {
            (1..=63).contains(&part.len())
                && part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
                && !part.starts_with('-')
                && !part.ends_with('-')
        };
        if text.len() <= LONGEST_HOST && text.split('.').all(part) {
            Ok(Self::Dns(text.to_ascii_lowercase()))
        } else {
            Err(BadName::NotAHost(text.chars().take(80).collect()))
        }
    }
}

text_form!(Host);

/// Where something listens: `HOST:PORT`, an IPv6 address in brackets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    pub host: Host,
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(std::net::IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
            host => write!(f, "{host}:{}", self.port),
        }
    }
}

impl FromStr for HostPort {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        let bad = || BadName::NotAnAddress(text.chars().take(80).collect());
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let port = port.parse().map_err(|_| bad())?;
        let host = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
            Some(v6) => Host::Ip(std::net::IpAddr::V6(v6.parse().map_err(|_| bad())?)),
            None if host.contains(':') => return Err(bad()),
            None => host.parse()?,
        };
        Ok(Self { host, port })
    }
}

text_form!(HostPort);

/// Where a gateway answers, and the way there: `HOST:PORT`, `wss://HOST[:PORT][/PATH]` or
/// `socks5://PROXY:PORT/HOST:PORT`. Whatever the way, TLS to the gateway is for `host`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    pub host: Host,
    pub port: u16,
    pub way: Way,
}

/// How bytes get to a gateway. Who carries them is not trusted with anything.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    Direct,
    /// Inside a WebSocket, through whatever answers HTTPS at `host`.
    WebSocket {
        path: CarryPath,
    },
    /// By a proxy, which looks the name up.
    Socks5 {
        proxy: Box<HostPort>,
    },
}

impl Way {
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::WebSocket { .. } => "WebSocket",
            Self::Socks5 { .. } => "SOCKS5",
        }
    }
}

/// The path under which a carrier hands on WebSockets: plain parts, no query.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CarryPath(Box<str>);

impl CarryPath {
    /// Where a gateway itself takes them.
    pub const GATEWAY: &'static str = "/v1/carry";

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for CarryPath {
    fn default() -> Self {
        Self(Self::GATEWAY.into())
    }
}

impl Address {
    const HTTPS: u16 = 443;
    /// An invite code has no room for more.
    const LONGEST: usize = 255;

    pub const fn direct(host: Host, port: u16) -> Self {
        Self { host, port, way: Way::Direct }
    }

    pub const fn is_direct(&self) -> bool {
        matches!(self.way, Way::Direct)
    }

    /// The host and port alone, without the way there.
    pub fn host_port(&self) -> HostPort {
        HostPort { host: self.host.clone(), port: self.port }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.way {
            Way::Direct => write!(f, "{}", self.host_port()),
            Way::Socks5 { proxy } => write!(f, "socks5://{proxy}/{}", self.host_port()),
            Way::WebSocket { path } => {
                match &self.host {
                    Host::Ip(std::net::IpAddr::V6(ip)) => write!(f, "wss://[{ip}]")?,
                    host => write!(f, "wss://{host}")?,
                }
                if self.port != Self::HTTPS {
                    write!(f, ":{}", self.port)?;
                }
                if path.as_str() == CarryPath::GATEWAY { Ok(()) } else { f.write_str(path.as_str()) }
            }
        }
    }
}

impl FromStr for Address {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        let short = || text.chars().take(80).collect::<String>();
        if text.len() > 2 * Self::LONGEST {
            return Err(BadName::TooLong(short()));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            let HostPort { host, port } = text.parse()?;
            return Ok(Self { host, port, way: Way::Direct });
        };
        let carried = match scheme {
            "wss" => websocket(rest),
            "socks5" => socks5(rest),
            _ => None,
        };
        let carried = carried.ok_or_else(|| BadName::NotAWay(short()))?;
        if carried.to_string().len() > Self::LONGEST { Err(BadName::TooLong(short())) } else { Ok(carried) }
    }
}

fn websocket(rest: &str) -> Option<Address> {
    let (at, path) = rest.find('/').map_or((rest, CarryPath::GATEWAY), |at| rest.split_at(at));
    let path = if path == "/" { CarryPath::GATEWAY } else { path };
    let plain = |part: &str| {
        !part.is_empty()
            && !matches!(part, "." | "..")
            && part.bytes().all(|c| c.is_ascii_alphanumeric() || b"-._~".contains(&c))
    };
    if !path.split('/').skip(1).all(plain) {
        return None;
    }
    let HostPort { host, port } = at
        .parse()
        .or_else(|_| format!("{at}:{}", Address::HTTPS).parse::<HostPort>())
        .ok()
        .filter(|at| at.port != 0)?;
    Some(Address { host, port, way: Way::WebSocket { path: CarryPath(path.into()) } })
}

fn socks5(rest: &str) -> Option<Address> {
    let (proxy, at) = rest.split_once('/')?;
    let (proxy, HostPort { host, port }) = (proxy.parse().ok()?, at.parse().ok()?);
    Some(Address { host, port, way: Way::Socks5 { proxy: Box::new(proxy) } })
}

text_form!(Address);

#[cfg(test)]
mod tests;
