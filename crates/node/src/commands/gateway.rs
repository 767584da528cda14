//! `freehold-node gateway request | install | serve`: a machine that joined becomes a gateway.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use gateway::limit::limits::Bounds;
use gateway::port::ingress::Proxies;
use gateway::port::serve::ServeOptions;
use gateway::replicate::begin::{self, BeginError};
use gateway::store::folder::GatewayFolder;
use ground::clock;
use ground::file::{self, FileAccess};
use identity::principal::Address;
use ipnet::IpNet;
use org::gateway::GatewayGrant;
use serde::Serialize;
use terminal::failure::{During, Exit, Failure};
use terminal::show::show;
use wire::http::metrics::port::{NoPort, Shown};

use crate::commands::roots::ScopeOptions;
use crate::commands::run::stop_signal;
use crate::serving::{self, serve_failure};

#[derive(Debug, Subcommand)]
pub enum GatewayCommand {
    /// Make a gateway's keys here, and ask the operators for a mandate
    Request(Request),
    /// Take what the operators handed back
    Install(InstallGateway),
    /// Serve as a gateway: machines join and renew here
    Serve(Serve),
}

impl GatewayCommand {
    pub async fn run(self, common: &ScopeOptions) -> Result<(), Failure> {
        match self {
            Self::Request(request) => request.run(common),
            Self::Install(install) => install.run(common),
            Self::Serve(serve) => serve.run(common).await,
        }
    }
}

fn failure(doing: &str, why: &BeginError) -> Failure {
    let failure = Failure::new(doing, why);
    match why {
        BeginError::NotJoined => failure.hint("join first: freehold-node join"),
        BeginError::NoKeys => {
            failure.hint("make its keys and ask: freehold-node gateway request --address HOST:PORT --out FILE")
        }
        BeginError::NotForUs(_) => failure
            .exit(Exit::Refused)
            .hint("ask again: freehold-node gateway request; then an operator runs freehold gateway add FILE"),
        BeginError::NoMandate { .. } => failure.exit(Exit::Refused).hint(
            "an operator gives one: freehold gateway add FILE; if others must sign it, too, wait until it was sent",
        ),
        _ => failure,
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node gateway request --address vps.example:7443 --out vps.request

The file holds no secret. Bring it to an operator, who runs: freehold gateway add vps.request")]
pub struct Request {
    /// Where machines will find it; may be repeated
    #[arg(long = "address", value_name = "HOST:PORT", required = true)]
    addresses: Vec<Address>,
    /// Where to write the request
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Serialize)]
struct Requested {
    file: String,
    gateway: String,
    addresses: Vec<String>,
}

impl Request {
    fn run(self, common: &ScopeOptions) -> Result<(), Failure> {
        let doing = "could not ask for a mandate";
        let scope = common.scope(doing)?;
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let request = begin::request(&scope, self.addresses).map_err(|why| failure(doing, &why))?;
        let json = serde_json::to_vec_pretty(&request).during(doing)?;
        file::write(&self.out, &json, FileAccess::Readable).during(doing)?;
        let node = scope.node().during(doing)?;
        let gateway = node.map(|node| node.name.to_string()).unwrap_or_default();
        let told = Requested { file: self.out.display().to_string(), gateway, addresses };
        show(common.json, &told, || {
            format!(
                "`{}` asks to be a gateway at {}. Bring `{}` to an operator, who runs:\n\n  freehold gateway add {}\n",
                told.gateway,
                told.addresses.join(", "),
                told.file,
                told.file
            )
        });
        Ok(())
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node gateway install vps.grant
  freehold-node gateway serve")]
pub struct InstallGateway {
    /// What `freehold gateway add` wrote
    grant: PathBuf,
}

#[derive(Serialize)]
struct Installed {
    gateway: String,
    addresses: Vec<String>,
}

impl InstallGateway {
    fn run(self, common: &ScopeOptions) -> Result<(), Failure> {
        let doing = "could not install the grant";
        let scope = common.scope(doing)?;
        let bytes = file::read(&self.grant).during(doing)?;
        let grant: GatewayGrant = serde_json::from_slice(&bytes)
            .map_err(|why| Failure::failed(doing, format!("`{}` is no grant: {why}", self.grant.display())))?;
        let about = begin::install(&scope, &grant).map_err(|why| failure(doing, &why))?;
        let addresses = about.addresses.iter().map(ToString::to_string).collect();
        let told = Installed { gateway: about.node.to_string(), addresses };
        show(common.json, &told, || {
            format!("`{}` can serve at {}: freehold-node gateway serve", told.gateway, told.addresses.join(", "))
        });
        Ok(())
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold-node gateway serve                              on the port of its first address, on all addresses
  freehold-node gateway serve --listen 127.0.0.1:7443

It first takes the whole ledger from a gateway that is there already, and exchanges with the others from then on.")]
pub struct Serve {
    /// Where to listen [default: all addresses, the port of its first address]
    #[arg(long, value_name = "ADDR:PORT", env = "FREEHOLD_LISTEN")]
    listen: Option<SocketAddr>,
    /// Show metrics for Prometheus at http://ADDR:PORT/metrics, or `off`
    #[arg(long, value_name = "ADDR:PORT", env = "FREEHOLD_METRICS", default_value = "off")]
    metrics: Shown,
    /// Let the metrics be on an address that other machines can reach
    #[arg(long, env = "FREEHOLD_METRICS_OPEN")]
    metrics_open: bool,
    /// A network of TCP proxies: their connections must begin with a PROXY header, which says whose they are. Repeatable
    #[arg(long, value_name = "CIDR", env = "FREEHOLD_PROXY_PROTOCOL", value_delimiter = ',', value_parser = network)]
    proxy_protocol: Vec<IpNet>,
    /// A network of web servers that carry WebSockets: for whom, their X-Forwarded-For says. Repeatable
    #[arg(long, value_name = "CIDR", env = "FREEHOLD_FORWARDED", value_delimiter = ',', value_parser = network)]
    forwarded: Vec<IpNet>,
}

/// A network, or one address.
pub fn network(text: &str) -> Result<IpNet, String> {
    let one = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse()
        .or_else(|_| one())
        .map_err(|_| format!("`{text}` is neither a network, like 10.0.0.0/8, nor an address"))
}

/// What to do about a mandate that has ended.
const RENEW: &str =
    "is this machine's clock right? If its mandate has ended, an operator renews it: freehold gateway renew NAME";

impl Serve {
    async fn run(self, common: &ScopeOptions) -> Result<(), Failure> {
        let doing = "could not serve";
        let scope = common.scope(doing)?;
        let folder = GatewayFolder::of_member(&scope);
        if !folder.path("gateway.json").exists() {
            return Err(Failure::failed(doing, "this machine is no gateway").hint(
                "ask for it: freehold-node gateway request; then install what the operator hands back: freehold-node \
                 gateway install FILE",
            ));
        }
        let about = folder.about().during(doing)?;
        let port = about.addresses.first().map_or(7443, |address| address.port);
        let listen = self.listen.unwrap_or_else(|| SocketAddr::new(any_address(), port));
        let metrics = self.metrics.checked(self.metrics_open);
        let metrics = metrics.map_err(|why| Failure::new(doing, &why).exit(Exit::Usage).hint(NoPort::hint(&why)))?;
        let stop = stop_signal().during(doing)?;
        let mut progress = Progress::new(common.json);
        let fetched = begin::fetch_ledger(&scope, |here, left| progress.tell(here, left)).await;
        fetched.map_err(|why| failure(doing, &why))?;
        let proxies = Proxies { proxy_protocol: self.proxy_protocol, forwarded: self.forwarded };
        let options = ServeOptions { listen, metrics, bounds: Bounds::default(), proxies };
        let served = serving::serve(&folder, options, stop, common.json).await;
        served.map_err(|why| serve_failure(doing, &why, RENEW))
    }
}

/// Says once a second how much of the ledger is here.
struct Progress {
    quiet: bool,
    last: Instant,
    began: identity::time::Timestamp,
}

impl Progress {
    fn new(quiet: bool) -> Self {
        Self { quiet, last: Instant::now(), began: clock::now() }
    }

    fn tell(&mut self, here: u64, left: u64) {
        if !self.quiet && (left == 0 || self.last.elapsed() >= Duration::from_secs(1)) {
            self.last = Instant::now();
            let since = clock::now().since(self.began);
            eprintln!("fetching the ledger: {here} entries here, {left} to come, {since}");
        }
    }
}

fn any_address() -> IpAddr {
    let dual = std::net::TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
    if dual { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}
