//! The forms that texts in a fleet have: how each is checked, what people call it, what an editor may match.

use std::net::IpAddr;

use identity::id::OrgId;
use identity::principal::glob::NameGlob;
use identity::principal::host::{HostGlob, HostName};
use identity::principal::label::Label;
use identity::principal::{Address, BadName, Host, HostPort, Name, NodeName, OrgName};
use identity::time::Seconds;
use ipnet::IpNet;

use crate::fleet::ROLE_NODE;
use crate::stored::{Account, FileName, KeyMode};

use super::tree::short;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Org,
    OrgId,
    /// A node's name, or the host name that it goes by.
    Machine,
    Name,
    /// A name, or `node`.
    Role,
    Glob,
    /// A pattern of full host names.
    HostGlob,
    /// A full host name, as it stands in a certificate.
    HostName,
    /// A user or group of a machine.
    Account,
    /// Who may read a private key.
    KeyMode,
    Network,
    Address,
    /// Where a machine listens itself.
    Listen,
    /// The same, or `off`.
    Socks,
    /// A gateway's address: it may name a way there.
    Gateway,
    Url,
    Span {
        least: Seconds,
        most: Seconds,
    },
    /// A key or value of a label.
    LabelPart,
    File,
    Free {
        most: usize,
    },
}

/// Why a text does not have its form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

const LABEL: &str = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";

impl Form {
    /// What a person calls it.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Org => "an org's name",
            Self::OrgId => "an org id (64 hex digits)",
            Self::Machine => "a name or a host name",
            Self::Name => "a name",
            Self::Role => "a role",
            Self::Glob => "a name pattern (like `web-*`)",
            Self::HostGlob => "a host name pattern (like `*.web.example.com`)",
            Self::HostName => "a full host name (like wiki.example.com)",
            Self::Account => "a user or group of the machine, by name or number",
            Self::KeyMode => "a mode (0400, 0440, 0600 or 0640)",
            Self::Network => "a network (like 10.0.0.0/8)",
            Self::Address => "HOST:PORT",
            Self::Listen => "IP:PORT",
            Self::Socks => "`off` or IP:PORT",
            Self::Gateway => "HOST:PORT, wss://HOST[:PORT][/PATH] or socks5://PROXY:PORT/HOST:PORT",
            Self::Url => "a URL (like http://127.0.0.1:8080/health)",
            Self::Span { .. } => "a span of time (like 90s, 15m, 24h or 30d)",
            Self::LabelPart => "1 to 63 letters, digits, `-`, `_` and `.`",
            Self::File => "a relative path (letters, digits and -_.@+, no part beginning with a dot)",
            Self::Free { .. } => "a text",
        }
    }

    /// A regular expression that every text of this form fits, for editors.
    pub(super) const fn pattern(self) -> Option<&'static str> {
        match self {
            Self::Org | Self::Name | Self::Role => Some(LABEL),
            Self::OrgId => Some("^[0-9a-f]{64}$"),
            Self::Machine => Some("^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$"),
            Self::Glob => Some("^[a-z0-9*-]{1,63}$"),
            Self::HostGlob => Some("^[a-z0-9*-]+(\\.[a-z0-9*-]+)+$"),
            Self::HostName => Some("^[A-Za-z0-9-]+(\\.[A-Za-z0-9-]+)+$"),
            Self::Account => Some("^([A-Za-z_][A-Za-z0-9_.-]{0,31}|0|[1-9][0-9]{0,9})$"),
            Self::KeyMode => Some("^0(400|440|600|640)$"),
            Self::Network => Some("^[0-9a-fA-F.:]+(/[0-9]{1,3})?$"),
            Self::Address => Some("^.+:[0-9]{1,5}$"),
            Self::Listen => Some("^(\\[[0-9a-fA-F:.]+\\]|[0-9.]+):[0-9]{1,5}$"),
            Self::Socks => Some("^(off|(\\[[0-9a-fA-F:.]+\\]|[0-9.]+):[0-9]{1,5})$"),
            Self::Gateway => Some("^(wss://.+|(socks5://.+/)?.+:[0-9]{1,5})$"),
            Self::Url => Some("^http://[^/ ]+(/[!-~]*)?$"),
            Self::Span { .. } => Some("^[0-9]+[smhd]$"),
            Self::LabelPart => Some("^[A-Za-z0-9._-]{1,63}$"),
            Self::File => Some("^[A-Za-z0-9_@+][A-Za-z0-9_@+./-]*$"),
            Self::Free { .. } => None,
        }
    }

    pub(crate) fn check(self, text: &str) -> Result<(), Wrong> {
        let plainly = || Wrong { message: format!("`{}` is not {}", short(text), self.words()), hint: None };
        match self {
            Self::Org => text.parse::<OrgName>().map(drop).map_err(|why| name_wrong(text, &why)),
            Self::OrgId => text
                .parse::<OrgId>()
                .map(drop)
                .map_err(|_| Wrong { hint: Some("see it with: freehold org list".to_owned()), ..plainly() }),
            Self::Name => text.parse::<Name>().map(drop).map_err(|why| name_wrong(text, &why)),
            Self::Role if text == ROLE_NODE => Ok(()),
            Self::Role => Self::Name.check(text),
            Self::Machine => machine(text).map(drop),
            Self::Glob => fits_a_name(text),
            Self::HostGlob => match text.parse::<HostGlob>() {
                Ok(_) if !text.contains('.') => Err(Wrong {
                    hint: Some("a full host name has dots; patterns of bare names stand under `names`".to_owned()),
                    ..plainly()
                }),
                Ok(_) => Ok(()),
                Err(_) => Err(plainly()),
            },
            Self::HostName => full_host(text, plainly()),
            Self::Account => text.parse::<Account>().map(drop).map_err(|_| plainly()),
            Self::KeyMode => text.parse::<KeyMode>().map(drop).map_err(|_| key_mode(text, plainly())),
            Self::Network => text.parse::<IpNet>().map(drop).map_err(|_| plainly()),
            Self::Address => match text.parse::<HostPort>() {
                Ok(HostPort { port: 0, .. }) => Err(no_port(text)),
                Ok(_) => Ok(()),
                Err(_) if text.contains("://") => {
                    let hint = "only `gateways` are reached by WebSocket or proxy; here it is HOST:PORT";
                    Err(Wrong { hint: Some(hint.to_owned()), ..plainly() })
                }
                Err(_) => Err(plainly()),
            },
            Self::Socks if text == "off" => Ok(()),
            Self::Listen | Self::Socks => listens(text, plainly()),
            Self::Gateway => match text.parse::<Address>() {
                Ok(Address { port: 0, .. }) => Err(no_port(text)),
                Ok(_) => Ok(()),
                Err(_) => Err(plainly()),
            },
            Self::Url => url(text).map(drop),
            Self::Span { least, most } => match text.parse::<Seconds>() {
                Ok(span) if span < least || span > most => {
                    Err(Wrong { message: format!("`{text}` is not between {least} and {most}"), hint: None })
                }
                Ok(_) => Ok(()),
                Err(_) => Err(plainly()),
            },
            Self::LabelPart => format!("{text}={text}").parse::<Label>().map(drop).map_err(|_| plainly()),
            Self::File => text.parse::<FileName>().map(drop).map_err(|_| plainly()),
            Self::Free { most } if text.len() > most => {
                Err(Wrong { message: format!("this text is longer than {most} bytes"), hint: None })
            }
            Self::Free { .. } => Ok(()),
        }
    }
}

/// A node by its name; a host name with dots stands for its first part, as `freehold-node join` has it.
pub(crate) fn machine(text: &str) -> Result<NodeName, Wrong> {
    let name = if text.contains('.') {
        let host = text.strip_suffix('.').unwrap_or(text).parse::<Host>();
        match host {
            Ok(Host::Dns(host)) => NodeName::of_host(&host),
            _ => Err(BadName::NotALabel(short(text))),
        }
    } else {
        text.parse()
    };
    name.map_err(|why| name_wrong(text, &why))
}

/// A pattern that no name has would match nothing, without a word.
fn fits_a_name(text: &str) -> Result<(), Wrong> {
    match text.parse::<NameGlob>() {
        Err(why) => Err(Wrong { message: why.to_string(), hint: None }),
        Ok(glob) if glob.shared_name(&glob).is_none() => Err(Wrong {
            message: format!("no name fits `{text}`"),
            hint: Some("names begin and end with a letter or digit".to_owned()),
        }),
        Ok(_) => Ok(()),
    }
}

fn name_wrong(text: &str, why: &BadName) -> Wrong {
    let made: String =
        text.trim().to_ascii_lowercase().chars().map(|c| if c == '_' || c == ' ' { '-' } else { c }).collect();
    let hint = match why {
        BadName::Reserved(_) => Some("kinds of things and names of devices are kept free: choose another".to_owned()),
        _ => (made != text && made.parse::<Name>().is_ok()).then(|| format!("call it `{made}`")),
    };
    Wrong { message: why.to_string(), hint }
}

/// A name that a certificate carries is no pattern, no address, and has dots.
fn full_host(text: &str, plainly: Wrong) -> Result<(), Wrong> {
    let hint = match text.parse::<HostName>() {
        _ if text.contains('*') => "name each host: a certificate for a pattern would be one for hosts of others, too",
        _ if text.parse::<IpAddr>().is_ok() => "only names stand in an SVID: whoever has an address may change",
        Ok(host) if host.as_str().contains('.') && !text.ends_with('.') => return Ok(()),
        Ok(_) => "a full host name has dots, and none at its end",
        Err(_) => return Err(plainly),
    };
    Err(Wrong { hint: Some(hint.to_owned()), ..plainly })
}

/// Says what is dangerous about it, if that can be said.
fn key_mode(text: &str, plainly: Wrong) -> Wrong {
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o7777);
    let message = match bits {
        Some(bits) if bits & 0o007 != 0 => format!("with mode {bits:04o}, everybody could get at the private key"),
        Some(bits) if bits & 0o7133 != 0 => {
            format!("mode {bits:04o} lets more be done with the private key than reading")
        }
        _ => plainly.message,
    };
    let hint = "0600: its owner reads it; 0640: the group, too; 0400 and 0440: and nobody writes it";
    Wrong { message, hint: Some(hint.to_owned()) }
}

fn no_port(text: &str) -> Wrong {
    Wrong { message: format!("`{text}` has no port that could be reached"), hint: None }
}

/// What a machine listens on is not looked up.
fn listens(text: &str, plainly: Wrong) -> Result<(), Wrong> {
    match text.parse::<HostPort>() {
        Ok(HostPort { port: 0, .. }) => Err(no_port(text)),
        Ok(HostPort { host: Host::Ip(_), .. }) => Ok(()),
        Ok(HostPort { host: Host::Dns(host), port }) => {
            let hint = match host.as_str() {
                "localhost" => format!("write 127.0.0.1:{port} or [::1]:{port}"),
                _ => "a machine listens on an IP address of its own: write that".to_owned(),
            };
            Err(Wrong { hint: Some(hint), ..plainly })
        }
        Err(_) => Err(plainly),
    }
}

/// A URL of plain HTTP: where, and what to ask for.
pub(crate) fn url(text: &str) -> Result<(HostPort, String), Wrong> {
    let wrong =
        |message: String| Wrong { message, hint: Some("write it like http://127.0.0.1:8080/health".to_owned()) };
    let Some(rest) = text.strip_prefix("http://") else {
        return Err(wrong(format!("`{}` is not a URL of plain HTTP", short(text))));
    };
    let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let with_port = if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    let Ok(address) = with_port.parse::<HostPort>() else {
        return Err(wrong(format!("`{}` is not HOST or HOST:PORT", short(host))));
    };
    if path.len() > 1000 || !path.bytes().all(|c| c.is_ascii_graphic() && c != b'#') {
        return Err(wrong("the path of a URL has only visible ASCII characters, and no `#`".to_owned()));
    }
    Ok((address, path.to_owned()))
}
