//! `freehold serve`: the gateway, until SIGTERM. Opens only the gateway's folder.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use gateway::gateway::GatewayError;
use gateway::port::serve::ServeError;
use gateway::store::folder::GatewayFolder;
use node::commands::run::stop_signal;
use node::serving::{self, serve_failure};
use terminal::failure::{Exit, Failure};
use terminal::show::show;
use wire::http::metrics::port::NoPort;

use crate::backup::reminder;
use crate::config::{BadConfig, Flags, Settings};
use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold serve                              on the advertised port, on all addresses
  freehold serve --listen 127.0.0.1:7443
  freehold serve --metrics 127.0.0.1:7444     shows numbers to Prometheus
  freehold serve --proxy-protocol 10.0.0.4    HAProxy at 10.0.0.4 says whose connections it passes on
  freehold serve --print-config               what counts, and why

What is set under `Configuration` can also be a variable, as FREEHOLD_LISTEN for --listen,
or a line of `serve.toml` in the gateway's folder, as listen = \"127.0.0.1:7443\".
A flag counts before a variable, a variable before the file.

It needs nothing of the operator's folder, which can be on another machine.")]
pub struct Serve {
    /// Print the configuration and where it comes from, and do not serve
    #[arg(long)]
    print_config: bool,
    #[command(flatten)]
    flags: Flags,
}

/// What to do about a mandate that has ended.
const REFRESH: &str =
    "is this machine's clock right? If the mandate has really ended, an operator renews it: freehold refresh";

impl Serve {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not serve";
        let org = common.org(doing)?;
        let folder = GatewayFolder::at(&common.home(), &org);
        let about = folder.about().during(doing)?;
        let settings = Settings::of(&folder, &about, self.flags).map_err(|why| bad_config(doing, &why))?;
        if self.print_config {
            print_config(common.json, &settings, &folder.path("serve.toml"));
            return Ok(());
        }
        let exposed = |why| Failure::new(doing, &why).exit(Exit::Usage).hint(NoPort::hint(&why));
        let options = settings.options().map_err(exposed)?;
        let stop = stop_signal().during(doing)?;
        let json = common.json;
        if let Some(line) = reminder::line(&common.home(), &org).filter(|_| !json) {
            eprintln!("{line}");
        }
        let served = serving::serve(&folder, options, stop, json).await;
        served.map_err(|why| match (&why, who_serves(&folder)) {
            (ServeError::Gateway(GatewayError::Busy), Some(there)) => Failure::new(doing, &why).hint(there),
            _ => serve_failure(doing, &why, REFRESH),
        })
    }
}

/// The process that has the folder, if it left word.
fn who_serves(folder: &GatewayFolder) -> Option<String> {
    let serving = folder.serving().ok().flatten();
    let there = serving.filter(|serving| Path::new("/proc").join(serving.pid.to_string()).exists())?;
    Some(format!("process {} serves it at {}: stop that one first, or leave it", there.pid, there.listen))
}

fn bad_config(doing: &str, why: &BadConfig) -> Failure {
    let failure = Failure::new(doing, why);
    match why {
        BadConfig::File(_) => failure,
        BadConfig::NotToml { .. } | BadConfig::Unknown { .. } | BadConfig::BadValue { .. } => {
            failure.exit(Exit::Usage).hint("mend the file; freehold serve --help names every key as an option")
        }
        BadConfig::BadVariable { .. } => failure.exit(Exit::Usage).hint("set it right, or unset it"),
    }
}

fn print_config(json: bool, settings: &Settings, path: &Path) {
    let rows: BTreeMap<_, _> = settings.rows().into_iter().collect();
    show(json, &rows, || settings.to_toml(path).trim_end().to_owned());
}
