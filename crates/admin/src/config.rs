//! How a gateway is set up. Each key is a flag of `freehold serve`, a `FREEHOLD_*` variable and a line of `serve.toml`;
//! the first of them that says something counts, else the default.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use gateway::limit::limits::Bounds;
use gateway::port::ingress::Proxies;
use gateway::port::serve::ServeOptions;
use gateway::store::folder::{GatewayFile, GatewayFolder};
use ground::file::{self, FileError};
use ipnet::IpNet;
use node::commands::gateway::network;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use wire::http::metrics::port::{NoPort, Shown};

/// What was said on the command line.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Configuration")]
pub struct Flags {
    /// Where to listen [default: all addresses, the advertised port]
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,
    /// Show metrics for Prometheus at http://ADDR:PORT/metrics [default: off]
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<Shown>,
    /// Let the metrics be on an address that other machines can reach
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub metrics_open: Option<bool>,
    /// Connections that can be open at once [default: 20000, or what the system allows]
    #[arg(long, value_name = "N")]
    pub max_connections: Option<NonZeroU32>,
    /// Of these, strangers' at one address, or at one /64 [default: 2000]; never more than a quarter of all
    #[arg(long, value_name = "N")]
    pub max_connections_per_address: Option<NonZeroU32>,
    /// Failed attempts to join or renew per minute, by one asker [default: 60]
    #[arg(long, value_name = "N")]
    pub max_failed_attempts: Option<NonZeroU32>,
    /// Attempts of one asker that can be open at once [default: 4096]
    #[arg(long, value_name = "N")]
    pub max_unfinished_attempts: Option<NonZeroU32>,
    /// A network of TCP proxies: their connections must begin with a PROXY header (version 1 or 2), which says whose
    /// they are. Repeatable [default: none]
    #[arg(long, value_name = "CIDR")]
    pub proxy_protocol: Vec<Network>,
    /// A network of web servers that carry WebSockets: for whom, their X-Forwarded-For says. Repeatable [default: none]
    #[arg(long, value_name = "CIDR")]
    pub forwarded: Vec<Network>,
}

/// A network, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network(IpNet);

impl FromStr for Network {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        network(text.trim()).map(Self)
    }
}

impl TryFrom<String> for Network {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Networks: a list in the file, with commas between in a variable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Networks(Vec<Network>);

impl FromStr for Networks {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl Networks {
    fn said(flags: Vec<Network>) -> Option<Self> {
        Some(flags).filter(|flags| !flags.is_empty()).map(Self)
    }

    fn nets(&self) -> Vec<IpNet> {
        self.0.iter().map(|network| network.0).collect()
    }
}

/// What counts, and why.
#[derive(Debug)]
pub struct Settings {
    pub listen: Configured<SocketAddr>,
    pub metrics: Configured<Shown>,
    pub metrics_open: Configured<bool>,
    pub max_connections: Configured<NonZeroU32>,
    pub max_connections_per_address: Configured<NonZeroU32>,
    pub max_failed_attempts: Configured<NonZeroU32>,
    pub max_unfinished_attempts: Configured<NonZeroU32>,
    pub proxy_protocol: Configured<Networks>,
    pub forwarded: Configured<Networks>,
}

#[derive(Debug, Serialize)]
pub struct Configured<T> {
    pub value: T,
    pub from: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Flag,
    Variable,
    File,
    Default,
}

const KEYS: [&str; 9] = [
    "listen",
    "metrics",
    "metrics_open",
    "max_connections",
    "max_connections_per_address",
    "max_failed_attempts",
    "max_unfinished_attempts",
    "proxy_protocol",
    "forwarded",
];

#[derive(Debug, thiserror::Error)]
pub enum BadConfig {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}`, line {line}: {why}", path.display())]
    NotToml { path: PathBuf, line: usize, why: String },
    #[error("`{}` has no key {what}", path.display())]
    Unknown { path: PathBuf, what: String },
    #[error("`{}`: {key}: {why}", path.display())]
    BadValue { path: PathBuf, key: &'static str, why: String },
    #[error("the variable {name} is `{value}`: {why}")]
    BadVariable { name: String, value: String, why: String },
}

impl Settings {
    /// Reads the variables and the file of a gateway's folder below what the flags say.
    pub fn of(folder: &GatewayFolder, about: &GatewayFile, flags: Flags) -> Result<Self, BadConfig> {
        let path = folder.path("serve.toml");
        let text = file::read_if_there(&path)?.unwrap_or_default();
        let port = about.addresses.iter().find(|address| address.is_direct()).map_or(7443, |address| address.port);
        let listen = SocketAddr::new(any_address(), port);
        Self::settle(flags, |name| std::env::var_os(name), &path, &String::from_utf8_lossy(&text), listen)
    }

    fn settle(
        flags: Flags,
        variable: impl Fn(&str) -> Option<OsString>,
        path: &Path,
        text: &str,
        listen: SocketAddr,
    ) -> Result<Self, BadConfig> {
        let layers = Layers { variable, file: parse(path, text)?, path };
        let Bounds { connections, connections_per_address, unfinished, failed } = Bounds::default();
        let count = |n: u32| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        let many = |n: usize| count(u32::try_from(n).unwrap_or(u32::MAX));
        Ok(Self {
            listen: layers.find("listen", flags.listen, listen)?,
            metrics: layers.find("metrics", flags.metrics, Shown::Off)?,
            metrics_open: layers.find("metrics_open", flags.metrics_open, false)?,
            max_connections: layers.find("max_connections", flags.max_connections, many(connections))?,
            max_connections_per_address: layers.find(
                "max_connections_per_address",
                flags.max_connections_per_address,
                many(connections_per_address),
            )?,
            max_failed_attempts: layers.find("max_failed_attempts", flags.max_failed_attempts, count(failed))?,
            max_unfinished_attempts: layers.find(
                "max_unfinished_attempts",
                flags.max_unfinished_attempts,
                count(unfinished),
            )?,
            proxy_protocol: layers.find("proxy_protocol", Networks::said(flags.proxy_protocol), Networks::default())?,
            forwarded: layers.find("forwarded", Networks::said(flags.forwarded), Networks::default())?,
        })
    }

    pub fn options(&self) -> Result<ServeOptions, NoPort> {
        let many = |n: NonZeroU32| usize::try_from(n.get()).unwrap_or(usize::MAX);
        Ok(ServeOptions {
            listen: self.listen.value,
            metrics: self.metrics.value.checked(self.metrics_open.value)?,
            bounds: Bounds {
                connections: many(self.max_connections.value),
                connections_per_address: many(self.max_connections_per_address.value),
                unfinished: self.max_unfinished_attempts.value.get(),
                failed: self.max_failed_attempts.value.get(),
            },
            proxies: Proxies {
                proxy_protocol: self.proxy_protocol.value.nets(),
                forwarded: self.forwarded.value.nets(),
            },
        })
    }

    /// Each key with its value and where that came from.
    pub fn rows(&self) -> Vec<(&'static str, Configured<Value>)> {
        let listen = text(&self.listen, |listen| listen.to_string().into());
        let metrics = text(&self.metrics, |shown| String::from(*shown).into());
        let number = |setting| text(setting, |n: &NonZeroU32| Value::Integer(n.get().into()));
        let networks = |setting| {
            text(setting, |networks: &Networks| {
                Value::Array(networks.nets().iter().map(|network| network.to_string().into()).collect())
            })
        };
        let values = [
            listen,
            metrics,
            text(&self.metrics_open, |open| Value::Boolean(*open)),
            number(&self.max_connections),
            number(&self.max_connections_per_address),
            number(&self.max_failed_attempts),
            number(&self.max_unfinished_attempts),
            networks(&self.proxy_protocol),
            networks(&self.forwarded),
        ];
        KEYS.into_iter().zip(values).collect()
    }

    /// A whole `serve.toml` that says the same.
    pub fn to_toml(&self, path: &Path) -> String {
        let line = |(key, setting): (&str, Configured<Value>)| {
            let from = match setting.from {
                Origin::Flag => format!("the flag --{}", key.replace('_', "-")),
                Origin::Variable => format!("the variable {}", variable_of(key)),
                Origin::File => format!("the file {}", path.display().to_string().escape_debug()),
                Origin::Default => "default".to_owned(),
            };
            format!("# {from}\n{key} = {}\n", setting.value)
        };
        self.rows().into_iter().map(line).collect()
    }
}

fn text<T>(setting: &Configured<T>, write: impl Fn(&T) -> Value) -> Configured<Value> {
    Configured { value: write(&setting.value), from: setting.from }
}

/// Where values come from, below the flags.
struct Layers<'a, V> {
    variable: V,
    file: Table,
    path: &'a Path,
}

impl<V: Fn(&str) -> Option<OsString>> Layers<'_, V> {
    fn find<T>(&self, key: &'static str, flag: Option<T>, default: T) -> Result<Configured<T>, BadConfig>
    where
        T: FromStr<Err: std::fmt::Display> + DeserializeOwned,
    {
        if let Some(value) = flag {
            return Ok(Configured { value, from: Origin::Flag });
        }
        let name = variable_of(key);
        // Empty is how service managers say "not set".
        if let Some(said) = (self.variable)(&name).filter(|said| !said.is_empty()) {
            let said = said.to_string_lossy();
            let bad = |why: T::Err| BadConfig::BadVariable {
                name: name.clone(),
                value: said.clone().into_owned(),
                why: why.to_string(),
            };
            return Ok(Configured { value: said.parse().map_err(bad)?, from: Origin::Variable });
        }
        let Some(said) = self.file.get(key) else {
            return Ok(Configured { value: default, from: Origin::Default });
        };
        let bad = |why: toml::de::Error| {
            let why = why.message().to_owned();
            BadConfig::BadValue { path: self.path.to_owned(), key, why }
        };
        Ok(Configured { value: said.clone().try_into().map_err(bad)?, from: Origin::File })
    }
}

fn variable_of(key: &str) -> String {
    format!("FREEHOLD_{}", key.to_uppercase())
}

fn parse(path: &Path, text: &str) -> Result<Table, BadConfig> {
    let table: Table = toml::from_str(text).map_err(|why: toml::de::Error| {
        let before = why.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        BadConfig::NotToml { path: path.to_owned(), line, why: why.message().to_owned() }
    })?;
    let unknown: Vec<String> = table.keys().filter(|key| !KEYS.contains(&key.as_str())).map(|key| meant(key)).collect();
    if unknown.is_empty() {
        Ok(table)
    } else {
        Err(BadConfig::Unknown { path: path.to_owned(), what: unknown.join(", ") })
    }
}

/// The key in question, and the one that was probably meant.
fn meant(key: &str) -> String {
    let distance = |known: &&str| strsim::damerau_levenshtein(known, &key.replace('-', "_").to_lowercase());
    let shown = key.escape_debug();
    match KEYS.iter().min_by_key(|known| distance(known)) {
        Some(known) if distance(known) <= 3 => format!("`{shown}` (did you mean `{known}`?)"),
        _ => format!("`{shown}`"),
    }
}

/// Both families where the system has both.
fn any_address() -> IpAddr {
    let dual = std::net::TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
    if dual { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

    fn settle(flags: Flags, variables: &[(&str, &str)], text: &str) -> Result<Settings, BadConfig> {
        let variable = |name: &str| {
            let said = variables.iter().find(|(known, _)| *known == name);
            said.map(|(_, value)| OsString::from(value))
        };
        Settings::settle(flags, variable, Path::new("serve.toml"), text, LISTEN)
    }

    #[test]
    fn a_flag_beats_a_variable_beats_the_file_beats_the_default() {
        let file = "max_failed_attempts = 4\n";
        let variables = [("FREEHOLD_MAX_FAILED_ATTEMPTS", "3")];
        let flags = Flags { max_failed_attempts: NonZeroU32::new(2), ..Flags::default() };
        let found = |settings: Settings| (settings.max_failed_attempts.value.get(), settings.max_failed_attempts.from);
        assert_eq!(found(settle(Flags::default(), &[], "").unwrap()), (60, Origin::Default));
        assert_eq!(found(settle(Flags::default(), &[], file).unwrap()), (4, Origin::File));
        assert_eq!(found(settle(Flags::default(), &variables, file).unwrap()), (3, Origin::Variable));
        assert_eq!(found(settle(flags, &variables, file).unwrap()), (2, Origin::Flag));
        let unset = [("FREEHOLD_MAX_FAILED_ATTEMPTS", "")];
        assert_eq!(found(settle(Flags::default(), &unset, file).unwrap()), (4, Origin::File));
    }

    #[test]
    fn what_is_printed_is_read_back_the_same() {
        let file = "listen = \"[::1]:9\"\nmetrics = \"127.0.0.1:7444\"\nmetrics_open = true\nmax_connections = 7\n\
                    proxy_protocol = [\"192.0.2.1\", \"10.0.0.0/8\"]\nforwarded = [\"fd00::/8\"]\n";
        let first = settle(Flags::default(), &[], file).unwrap();
        let printed = first.to_toml(Path::new("a\nmax_connections = 8"));
        let again = settle(Flags::default(), &[], &printed).unwrap();
        let values = |settings: &Settings| {
            settings.rows().into_iter().map(|(key, setting)| (key, setting.value.to_string())).collect::<Vec<_>>()
        };
        assert_eq!(values(&first), values(&again));
        assert!(again.rows().iter().all(|(_, setting)| setting.from == Origin::File));
    }

    #[test]
    fn the_defaults_are_the_bounds_of_before() {
        let options = settle(Flags::default(), &[], "").unwrap().options().unwrap();
        assert_eq!((options.bounds.connections, options.bounds.connections_per_address), (20_000, 2_000));
        assert_eq!((options.bounds.failed, options.bounds.unfinished), (60, 4_096));
        assert_eq!((options.listen, options.metrics), (LISTEN, None));
    }

    #[test]
    fn every_mistake_is_named_where_it_is() {
        let told =
            |variables: &[(&str, &str)], text: &str| settle(Flags::default(), variables, text).unwrap_err().to_string();
        let unknown = told(&[], "lisen = \"x\"\nmax-connections = 3\nzebra = 1\n");
        for part in
            ["`lisen` (did you mean `listen`?)", "`max-connections` (did you mean `max_connections`?)", "`zebra`"]
        {
            assert!(unknown.contains(part), "{unknown}");
        }
        assert!(!unknown.contains("`zebra` (did"), "{unknown}");
        assert!(told(&[], "\n\nlisten = \n").contains("line 3"));
        assert!(told(&[], "max_connections = 0").contains("max_connections: invalid value"));
        assert!(told(&[], "listen = 7443").contains("listen: invalid type"));
        assert!(told(&[], "metrics = \"here\"").contains("neither `off` nor an address"));
        assert!(told(&[], "forwarded = [\"here\"]").contains("forwarded: `here` is neither a network"));
        assert!(told(&[("FREEHOLD_FORWARDED", "::1,here")], "").contains("`here` is neither a network"));
        assert!(told(&[("FREEHOLD_LISTEN", "here")], "").contains("the variable FREEHOLD_LISTEN is `here`"));
    }

    #[test]
    fn proxies_are_named_by_network_or_address() {
        let flags = || Flags { forwarded: vec!["192.0.2.1".parse().unwrap()], ..Flags::default() };
        let variables = [("FREEHOLD_FORWARDED", "::1"), ("FREEHOLD_PROXY_PROTOCOL", "10.0.0.0/8, 127.0.0.1")];
        let proxies = settle(flags(), &variables, "").unwrap().options().unwrap().proxies;
        let told = |networks: Vec<IpNet>| networks.iter().map(IpNet::to_string).collect::<Vec<_>>();
        assert_eq!(told(proxies.forwarded), ["192.0.2.1/32"]);
        assert_eq!(told(proxies.proxy_protocol), ["10.0.0.0/8", "127.0.0.1/32"]);
        assert_eq!(settle(Flags::default(), &[], "").unwrap().options().unwrap().proxies, Proxies::default());
    }

    #[test]
    fn metrics_leave_this_machine_only_if_that_is_written_out() {
        let options = |text: &str| settle(Flags::default(), &[], text).unwrap().options();
        assert!(options("metrics = \"127.0.0.1:7444\"").is_ok_and(|options| options.metrics.is_some()));
        assert!(options("metrics = \"[::1]:7444\"").is_ok());
        for reachable in ["0.0.0.0", "192.0.2.1", "[::]", "[::ffff:192.0.2.1]"] {
            let at = format!("metrics = \"{reachable}:7444\"");
            assert!(matches!(options(&at), Err(NoPort::Exposed(_))), "{reachable}");
            assert!(options(&format!("{at}\nmetrics_open = true")).is_ok(), "{reachable}");
        }
    }
}
